"""The machine: what it is, what it may use of it, and block sizes made from that."""

from uniflexflow.machine.detect import host
from uniflexflow.machine.model import Machine
from uniflexflow.machine.report import show_config
from uniflexflow.machine.threads import num_threads

__all__ = ["Machine", "host", "num_threads", "show_config"]
