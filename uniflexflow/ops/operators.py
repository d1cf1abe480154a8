"""Python's operators on tensors: ``x + y``, ``x @ w``, ``x[0]``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from uniflexflow.ir import Value
from uniflexflow.ops import contraction, elementwise, slicing
from uniflexflow.ops.symbolic import KerasTensor
from uniflexflow.ops.variable import Variable

_BINARY = {
    "add": elementwise.add,
    "sub": elementwise.subtract,
    "mul": elementwise.multiply,
    "truediv": elementwise.divide,
    "floordiv": elementwise.floor_divide,
    "mod": elementwise.mod,
    "pow": elementwise.power,
    "matmul": contraction.matmul,
    "and": elementwise.logical_and,
    "or": elementwise.logical_or,
}
_COMPARISON = {
    "lt": elementwise.less,
    "le": elementwise.less_equal,
    "gt": elementwise.greater,
    "ge": elementwise.greater_equal,
}


def _equal(self: Any, other: Any) -> Any:
    """``==`` stays identity, as tensors are keys of dicts; with numbers it would say False."""
    if isinstance(other, (int, float, np.generic, np.ndarray)):
        raise TypeError(
            f"{self!r} == {other!r}: `==` and `!=` don't compare the elements of a tensor; use "
            "uff.ops.equal and uff.ops.not_equal."
        )
    return NotImplemented


def _method(fn: Callable[..., Any], name: str, swap: bool = False) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        return fn(other, self) if swap else fn(self, other)

    method.__name__ = name
    return method


def install(cls: type) -> None:
    """Put the operators on a tensor class."""
    for name, fn in _BINARY.items():
        setattr(cls, f"__{name}__", _method(fn, f"__{name}__"))
        setattr(cls, f"__r{name}__", _method(fn, f"__r{name}__", swap=True))
    for name, fn in _COMPARISON.items():
        setattr(cls, f"__{name}__", _method(fn, f"__{name}__"))
    cls.__eq__ = _equal
    cls.__neg__ = lambda self: elementwise.negative(self)
    cls.__abs__ = lambda self: elementwise.abs(self)
    cls.__invert__ = lambda self: elementwise.logical_not(self)
    cls.__getitem__ = lambda self, key: slicing.get_item(self, key)
    cls.__iter__ = None  # otherwise Python would try x[0], x[1], ... without end
    cls.__len__ = _length


def _length(self: Any) -> int:
    if not self.shape:
        raise TypeError(f"{self!r} has no axes, so no length.")
    return self.shape[0]


for _cls in (Value, KerasTensor, Variable):
    install(_cls)
