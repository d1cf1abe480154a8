"""Between tensors and Python: what a tensor is, its shape, its numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from uniflexflow.ir import Value
from uniflexflow.ops.dispatch import as_value, cast_to
from uniflexflow.ops.dtypes import canonical_dtype, floatx
from uniflexflow.ops.elementwise import cast
from uniflexflow.ops.symbolic import KerasTensor
from uniflexflow.ops.variable import Trace, Variable

__all__ = ["convert_to_numpy", "convert_to_tensor", "is_tensor", "ndim", "shape", "size"]


def is_tensor(x: Any) -> bool:
    """Say whether ``x`` is a tensor: symbolic or a NumPy array."""
    return isinstance(x, (Value, KerasTensor, np.ndarray))


def convert_to_tensor(x: Any, dtype: str | None = None) -> Any:
    """Return ``x`` as a tensor: symbolic while a step is traced, else a NumPy array.

    Parameters
    ----------
    x : tensor, Variable, number or nested list of numbers
    dtype : str, optional
        By default that of ``x``; ``floatx()`` for Python floats.
    """
    if isinstance(x, KerasTensor):
        if dtype is None or x.dtype == canonical_dtype(dtype):
            return x
        return cast(x, dtype)
    if isinstance(x, Value) or Trace.current() is not None:
        value = as_value(x)
        return value if dtype is None else cast_to(value, canonical_dtype(dtype))
    array = np.asarray(x)
    if dtype is None:
        from_python = not isinstance(x, (np.ndarray, np.generic, Variable))
        dtype = floatx() if from_python and array.dtype.kind == "f" else array.dtype
    return array.astype(canonical_dtype(dtype), copy=False)


def convert_to_numpy(x: Any) -> np.ndarray:
    """Return the numbers of a tensor or Variable as a NumPy array.

    Raises
    ------
    TypeError
        For a symbolic tensor: it has no numbers until the step runs.
    """
    return np.asarray(x)


def shape(x: Any) -> tuple[int | None, ...]:
    """Return the shape as a tuple; None stands for a size not known yet.

    Examples
    --------
    >>> shape(np.zeros((2, 3)))
    (2, 3)
    """
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def ndim(x: Any) -> int:
    """Return how many axes a tensor has."""
    return len(shape(x))


def size(x: Any) -> int | None:
    """Return how many elements a tensor has; None if that is not known yet."""
    sizes = shape(x)
    return None if None in sizes else math.prod(sizes)
