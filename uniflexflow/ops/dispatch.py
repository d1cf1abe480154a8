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
from uniflexflow.ops.dtypes import canonical_dtype, floatx, is_float, promote
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
        return trace.read(x)
    if isinstance(x, (np.ndarray, np.generic)):
        return constant(x, canonical_dtype(x.dtype))
    if dtype is None:
        array = np.asarray(x)
        dtype = floatx() if array.dtype.kind == "f" else canonical_dtype(array.dtype)
    return constant(x, dtype)


def meet(*xs: Any) -> tuple[Value, ...]:
    """Return operands in one dtype; Python numbers take that of the tensors."""
    from_tensors = [
        v if isinstance(v, Value) else as_value(v)
        for v in xs
        if isinstance(v, (Value, Variable, np.ndarray, np.generic))
    ]
    if not from_tensors:
        values = [as_value(x) for x in xs]
        dtype = promote(*[v.dtype for v in values])
        return tuple([constant(x, dtype) for x in xs])
    dtype = promote(*[v.dtype for v in from_tensors])
    if not is_float(dtype):
        # a Python float lifts an integer tensor; a Python int or bool does not
        if any(isinstance(x, float) for x in xs):
            dtype = floatx()
        elif dtype == "bool" and any(type(x) is int for x in xs):
            dtype = "int32"
    tensors = iter(from_tensors)
    out = []
    for x in xs:
        if isinstance(x, (Value, Variable, np.ndarray, np.generic)):
            out.append(cast_to(next(tensors), dtype))
        else:
            out.append(constant(x, dtype))
    return tuple(out)


def cast_to(value: Value, dtype: str) -> Value:
    """Cast if needed; constants are cast at once."""
    if value.dtype == dtype:
        return value
    if value.node.op is CONSTANT:
        return constant(value.node.attrs["array"], dtype)
    return apply(OPS["cast"], value, dtype=dtype)
