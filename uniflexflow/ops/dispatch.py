"""How a call of ``uff.ops.f`` finds its way.

On a symbolic tensor of a trace (``ir.Value``) it adds nodes. On a ``KerasTensor``, the
placeholder of a functional model, it is noted as a step of that model. On NumPy arrays
it runs at once, as a plan of its own, and returns NumPy arrays. The last two ways are
built higher up in the house, which puts its function in here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from uniflexflow import tree
from uniflexflow.ir import CONSTANT, Value, apply, constant
from uniflexflow.ops.dtypes import (
    INTEGER_TYPES,
    canonical_dtype,
    floatx,
    is_float,
    kind_of,
    promote,
)
from uniflexflow.ops.registry import OPS
from uniflexflow.ops.symbolic import KerasTensor, record_call
from uniflexflow.ops.variable import Trace, Variable

#: run_now(fn, args, kwargs): set by the compiler.
run_now: list[Callable[..., Any]] = []


def op(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function over Values a public operation; see the module's docstring."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if Trace.current() is not None:
            return fn(*args, **kwargs)
        symbolic = False
        for arg in tree.flatten((args, kwargs)):
            if isinstance(arg, KerasTensor):
                return record_call(call, args, kwargs)
            symbolic = symbolic or isinstance(arg, Value)
        if symbolic:
            with Trace():
                return fn(*args, **kwargs)
        return run_now[0](fn, args, kwargs)

    call.__wrapped_op__ = fn
    return call


def as_value(x: Any, dtype: str | None = None) -> Value:
    """Return ``x`` as a Value: a Variable's leaf, or a constant.

    ``dtype`` is used for what has none of its own: Python numbers and lists of them.
    """
    if isinstance(x, Value):
        return x
    if isinstance(x, Variable):
        trace = Trace.current()
        if trace is None:
            raise RuntimeError(f"{x!r} was read as a symbol outside of a trace.")
        return trace.value_of(x)
    if isinstance(x, (np.ndarray, np.generic)):
        return constant(x, canonical_dtype(x.dtype))
    array = _numbers(x)
    if dtype is None:
        dtype = floatx() if array.dtype.kind == "f" else canonical_dtype(array.dtype)
    return constant(array, dtype)


def meet(*xs: Any) -> tuple[Value, ...]:
    """Return operands in one dtype.

    Numbers (Python's, lists of them, NumPy's scalars) take the dtype of the tensors; only
    a float among whole-number tensors makes all ``floatx()``.
    """
    values = [as_value(x) if isinstance(x, _TENSORS) else None for x in xs]
    numbers = [None if v is not None else _numbers(x) for x, v in zip(xs, values)]
    kinds = {kind_of(n.dtype) for n in numbers if n is not None}
    strong = [v.dtype for v in values if v is not None]
    if strong:
        dtype = promote(*strong)
        if not is_float(dtype) and "f" in kinds:
            dtype = floatx()
        elif dtype == "bool" and kinds & {"i", "u"}:
            dtype = "int32"
    else:
        dtype = promote(*[as_value(x).dtype for x in xs])
    return tuple(
        [_fitted(n, dtype) if v is None else cast_to(v, dtype) for v, n in zip(values, numbers)]
    )


_TENSORS = (Value, Variable, np.ndarray)


def _numbers(x: Any) -> np.ndarray:
    array = np.asarray(x)
    if kind_of(array.dtype) not in "fiub":
        raise TypeError(f"Expected a tensor or numbers; received {x!r} of {type(x).__name__}.")
    return array


def _fitted(numbers: np.ndarray, dtype: str) -> Value:
    if dtype in INTEGER_TYPES and numbers.size:
        limits = np.iinfo(dtype)
        if numbers.min() < limits.min or numbers.max() > limits.max:
            raise OverflowError(
                f"{numbers.tolist()} does not fit in the tensors' dtype {dtype}; cast them to a "
                "wider one."
            )
    return constant(numbers, dtype)


def cast_to(value: Value, dtype: str) -> Value:
    """Cast if needed; constants are cast at once."""
    if value.dtype == dtype:
        return value
    if value.node.op is CONSTANT:
        return constant(value.node.attrs["array"], dtype)
    return apply(OPS["cast"], value, dtype=dtype)
