"""The machine: what it is, what it may use of it, and block sizes made from that."""

from uniflexflow.machine.detect import host
from uniflexflow.machine.model import Machine

__all__ = ["Machine", "host"]
