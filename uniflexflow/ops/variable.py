"""Variables, and the trace that notes their reads and writes.

A Variable owns one NumPy array for its whole life: a plan is bound to that memory.
While a step is traced, reading a variable gives a leaf of the graph and assigning to
it notes an update; otherwise both act on the array.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from uniflexflow.ir import Value, apply, constant, current_scope, leaf
from uniflexflow.ops.dtypes import canonical_dtype, floatx, is_float
from uniflexflow.ops.registry import OPS

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


def aligned_zeros(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return zeros whose first byte lies on a cache line, as the kernels like it."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.zeros(nbytes + ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes].view(dtype).reshape(shape)


class _Traces(threading.local):
    """The traces under way in this thread, the innermost last; what weights are cast to."""

    def __init__(self) -> None:
        self.stack: list[Trace] = []
        self.autocast: str | None = None


class Trace:
    """What one trace has read and written; traces nest, the innermost counts.

    A trace belongs to its thread: what others compute meanwhile is not in it.
    """

    _traces = _Traces()

    def __init__(self) -> None:
        self.reads: dict[Variable, Value] = {}
        self.writes: dict[Variable, Value] = {}
        self.masks: dict[Value, Any] = {}  # see ops.mask

    def __enter__(self) -> Trace:
        Trace._traces.stack.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        Trace._traces.stack.pop()

    @staticmethod
    def current() -> Trace | None:
        stack = Trace._traces.stack
        return stack[-1] if stack else None

    @staticmethod
    def stack() -> list[Trace]:
        return Trace._traces.stack

    @staticmethod
    @contextlib.contextmanager
    def autocast(dtype: str | None) -> Iterator[None]:
        """Give weights that are read inside in this float type; None: in their own."""
        before, Trace._traces.autocast = Trace._traces.autocast, dtype
        try:
            yield
        finally:
            Trace._traces.autocast = before

    def value_of(self, variable: Variable) -> Value:
        """Return what an operation on the variable reads."""
        value, dtype = self.read(variable), Trace._traces.autocast
        if dtype is None or not variable.autocast or not is_float(value.dtype):
            return value
        return value if value.dtype == dtype else apply(OPS["cast"], value, dtype=dtype)

    def read(self, variable: Variable) -> Value:
        """Return the variable's numbers at this point of the trace."""
        if variable in self.writes:
            return self.writes[variable]
        if variable not in self.reads:
            self.reads[variable] = leaf(
                variable.shape, variable.dtype, variable.path, kind="variable"
            )
        return self.reads[variable]

    def write(self, variable: Variable, value: Value) -> None:
        if variable not in self.reads:
            self.reads[variable] = leaf(
                variable.shape, variable.dtype, variable.path, kind="variable"
            )
        self.writes[variable] = value


class Variable:
    """State of a model: a weight, an optimizer's slot, a metric's sum.

    Parameters
    ----------
    initializer : callable or array_like
        An array, or a function ``(shape, dtype) -> array``.
    shape : tuple of int, optional
        Needed if ``initializer`` is a function.
    dtype : str, optional
        Default: the array's, or ``floatx()``.
    trainable : bool
        Whether it gets a gradient.
    name : str, optional
    autocast : bool
        Whether layers that compute in another float type read it in that.
    """

    def __init__(
        self,
        initializer: Any,
        shape: tuple[int, ...] | None = None,
        dtype: str | None = None,
        trainable: bool = True,
        name: str | None = None,
        autocast: bool = True,
    ):
        if callable(initializer):
            if shape is None:
                raise ValueError("Variable: `shape` is needed when the initializer is a function.")
            dtype = canonical_dtype(dtype or floatx())
            array = np.asarray(initializer(tuple(shape), dtype=dtype))
        else:
            array = np.asarray(initializer)
            if dtype is None:
                dtype = floatx() if isinstance(initializer, float) else array.dtype.name
            dtype = canonical_dtype(dtype)
        if shape is not None and tuple(shape) != array.shape:
            raise ValueError(
                f"Variable {name!r}: the initial value has shape {array.shape}, "
                f"expected {tuple(shape)}."
            )
        self._array = aligned_zeros(array.shape, dtype)
        if any(array.strides) or array.any():  # zeros broadcast from one need no writing:
            self._array[...] = array  # large slots are then not touched before their use
        self.trainable = trainable
        self.autocast = autocast
        self.name = name or "variable"
        scope = current_scope()
        self.path = f"{scope}/{self.name}" if scope else self.name
        self.regularizer: Any = None
        self.constraint: Any = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a copy or a pickle, whose memory begins anywhere."""
        self.__dict__.update(state)
        self._array = aligned_zeros(state["_array"].shape, state["_array"].dtype.name)
        self._array[...] = state["_array"]

    # -- geometry ------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def dtype(self) -> str:
        return self._array.dtype.name

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def size(self) -> int:
        return self._array.size

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    # -- reading and writing -------------------------------------------------------

    @property
    def value(self) -> Any:
        """Return the tensor: symbolic within a trace, else the array itself."""
        trace = Trace.current()
        return self._array if trace is None else trace.value_of(self)

    @property
    def array(self) -> np.ndarray:
        """The memory of the variable, also within a trace; plans are bound to it."""
        return self._array

    def numpy(self) -> np.ndarray:
        """Return a copy of the numbers."""
        return self._array.copy()

    def assign(self, value: Any) -> Any:
        """Replace the numbers; the shape must stay.

        Raises
        ------
        ValueError
            If the shapes differ.
        """
        shape = np.shape(value) if not hasattr(value, "shape") else tuple(value.shape)
        if shape != self.shape:
            raise ValueError(
                f"Variable {self.path!r} has shape {self.shape}; received a value of shape {shape}."
            )
        trace = Trace.current()
        if trace is None:
            if isinstance(value, Variable):
                value = value.array
            self._array[...] = value
            return self._array
        if isinstance(value, Variable):
            value = trace.read(value)
        if not isinstance(value, Value):
            value = constant(value, self.dtype)
        if value.dtype != self.dtype and is_float(value.dtype) and is_float(self.dtype):
            value = apply(OPS["cast"], value, dtype=self.dtype)
        if value.dtype != self.dtype:
            raise TypeError(
                f"Variable {self.path!r} is {self.dtype}; received a {value.dtype} value. "
                "Cast it with uff.ops.cast."
            )
        trace.write(self, value)
        return value

    def assign_add(self, value: Any) -> Any:
        """Add to the numbers."""
        return self.assign(self._own_value() + value)

    def assign_sub(self, value: Any) -> Any:
        """Subtract from the numbers."""
        return self.assign(self._own_value() - value)

    def _own_value(self) -> Any:
        trace = Trace.current()
        return self._array if trace is None else trace.read(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if Trace.current() is not None:
            raise TypeError(
                f"Variable {self.path!r} has no numbers while a step is being traced; "
                "use uff.ops functions on it."
            )
        return np.array(self._array, dtype=dtype, copy=copy)

    def __float__(self) -> float:
        return float(np.asarray(self))

    def __int__(self) -> int:
        return int(np.asarray(self))

    def __repr__(self) -> str:
        return f"<Variable path={self.path}, shape={self.shape}, dtype={self.dtype}>"
