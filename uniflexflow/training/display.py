"""Where messages for people go: one place that knows ranks, terminals and logging."""

from __future__ import annotations

import logging
import sys

from uniflexflow.parallel import world
from uniflexflow.runtime.launch import is_terminal

_log = logging.getLogger("uniflexflow")
_settings = {"interactive": True}


def enable_interactive_logging() -> None:
    """Print progress and messages to standard output; the default."""
    _settings["interactive"] = True


def disable_interactive_logging() -> None:
    """Send progress and messages to the logger ``"uniflexflow"`` at level INFO."""
    _settings["interactive"] = False


def is_interactive_logging_enabled() -> bool:
    """Say whether progress and messages go to standard output."""
    return _settings["interactive"]


def write(text: str) -> None:
    """Write text to standard output as it is, on rank 0 alone."""
    if world().rank != 0:
        return
    stream = sys.stdout
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.replace("━", "=").encode(encoding, "replace").decode(encoding))
    stream.flush()


def print_line(text: str) -> None:
    """Print a message, on rank 0 alone, or log it if interactive logging is off."""
    if is_interactive_logging_enabled():
        write(text + "\n")
    elif world().rank == 0:
        _log.info(text)


def is_live() -> bool:
    """Say whether output can be redrawn in place: a terminal or a notebook."""
    if not is_interactive_logging_enabled():
        return False
    if "ipykernel" in sys.modules and not hasattr(sys.stdout, "buffer"):
        return True
    return is_terminal(sys.stdout)
