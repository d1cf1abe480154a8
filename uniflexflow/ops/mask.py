"""Masks that travel beside tensors: which steps of a sequence are real.

A layer that makes or passes a mask sets it on its output; the next layer, a loss or a
metric asks for it. Masks live as long as the trace that they were set in. NumPy arrays
carry none.
"""

from __future__ import annotations

from typing import Any

from uniflexflow.ir import Value
from uniflexflow.ops.variable import Trace


def set_mask(x: Any, mask: Any) -> None:
    """Put a mask (bool, true where real) beside a tensor of the current trace.

    Parameters
    ----------
    x : symbolic tensor
        Anything else is left as it is.
    mask : symbolic tensor or None
    """
    trace = Trace.current()
    if trace is None or not isinstance(x, Value):
        return
    if mask is None:
        trace.masks.pop(x, None)
    else:
        trace.masks[x] = mask


def get_mask(x: Any) -> Any:
    """Return the mask beside a tensor, or None."""
    if isinstance(x, Value):
        for trace in reversed(Trace.stack()):
            if x in trace.masks:
                return trace.masks[x]
    return None
