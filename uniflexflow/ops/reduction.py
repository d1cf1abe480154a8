"""Reductions: sums, extremes and their places along axes."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import Indices, Node, OpDef, TensorSpec, Value, apply
from uniflexflow.ops.dispatch import as_value, cast_to, op
from uniflexflow.ops.dtypes import floatx, is_float
from uniflexflow.ops.elementwise import cast, equal
from uniflexflow.ops.registry import primitive
from uniflexflow.ops.shape_rules import normalize_axes, normalize_axis
from uniflexflow.ops.shaping import broadcast_to, reshape

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "max",
    "mean",
    "min",
    "std",
    "sum",
    "var",
]

# A primitive reduction drops its axes; the public functions put them back as 1 if
# asked. ``axes`` is a sorted tuple of non-negative ints.


def _kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def _with_ones(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([1 if i in axes else n for i, n in enumerate(shape)])


def _indices(contraction: str | None) -> Callable[[Node], Indices]:
    def indices(node: Node) -> Indices:
        every = tuple(range(node.inputs[0].ndim))
        axes = node.attrs.get("axes") or (node.attrs["axis"],)
        return Indices((every,), (tuple(i for i in every if i not in axes),), contraction)

    return indices


def _sum_infer(x: TensorSpec, *, axes: tuple[int, ...]) -> TensorSpec:
    return TensorSpec(_kept(x.shape, axes), x.dtype)


def _extreme_infer(name: str) -> Callable[..., TensorSpec]:
    def infer(x: TensorSpec, *, axes: tuple[int, ...]) -> TensorSpec:
        if builtins.any(x.shape[a] == 0 for a in axes):
            raise ValueError(f"{name}: the tensor of shape {x.shape} is empty along axes {axes}.")
        return TensorSpec(_kept(x.shape, axes), x.dtype)

    return infer


def _spread(g: Value, like: Value, axes: tuple[int, ...]) -> Value:
    return broadcast_to(reshape(g, _with_ones(like.shape, axes)), like.shape)


def _extreme_gradient(node: Node, g: Value) -> tuple[Value]:
    # equal extremes share the gradient equally
    (x,), axes = node.inputs, node.attrs["axes"]
    y = reshape(node.outputs[0], _with_ones(x.shape, axes))
    hit = cast(equal(x, y), g.dtype)
    count = apply(SUM, hit, axes=axes)
    return (hit * reshape(g / count, _with_ones(x.shape, axes)),)


SUM = primitive(
    "sum",
    infer=_sum_infer,
    reference=lambda x, *, axes: np.sum(x, axis=axes, dtype=x.dtype),
    gradient=lambda node, g: (_spread(g, node.inputs[0], node.attrs["axes"]),),
    indices=_indices("sum"),
    linear="all",
)
MAX = primitive(
    "max",
    infer=_extreme_infer("max"),
    reference=lambda x, *, axes: np.max(x, axis=axes),
    gradient=_extreme_gradient,
    indices=_indices(None),
)
MIN = primitive(
    "min",
    infer=_extreme_infer("min"),
    reference=lambda x, *, axes: np.min(x, axis=axes),
    gradient=_extreme_gradient,
    indices=_indices(None),
)


def _argmax_row(name: str, reference: Callable[..., Any]) -> OpDef:
    def infer(x: TensorSpec, *, axis: int) -> TensorSpec:
        if x.shape[axis] == 0:
            raise ValueError(f"{name}: the tensor of shape {x.shape} is empty along axis {axis}.")
        return TensorSpec(_kept(x.shape, (axis,)), "int32")

    return primitive(
        name,
        infer=infer,
        reference=lambda x, *, axis: reference(x, axis=axis).astype("int32"),
        gradient=lambda node, g: (None,),
        indices=_indices(None),
    )


ARGMAX = _argmax_row("argmax", np.argmax)
ARGMIN = _argmax_row("argmin", np.argmin)

# -- public functions --------------------------------------------------------------

Axis = int | Sequence[int] | None


def _reduce(row: OpDef, x: Value, axis: Axis, keepdims: bool) -> Value:
    axes = normalize_axes(row.name, axis, x.ndim)
    out = apply(row, x, axes=axes) if axes else x
    return reshape(out, _with_ones(x.shape, axes)) if keepdims else out


@op
def sum(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:  # noqa: A001
    """Sum over axes; over an empty axis the sum is 0. Booleans are counted as int32."""
    x = as_value(x)
    return _reduce(SUM, cast_to(x, "int32") if x.dtype == "bool" else x, axis, keepdims)


@op
def mean(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return the arithmetic mean over axes; NaN over an empty one."""
    x = as_value(x)
    x = x if is_float(x.dtype) else cast_to(x, floatx())
    axes = normalize_axes("mean", axis, x.ndim)
    count = math.prod(x.shape[a] for a in axes)
    return _reduce(SUM, x, axis, keepdims) * (1.0 / count if count else math.nan)


@op
def var(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return the variance over axes: the mean squared distance from the mean."""
    x = as_value(x)
    d = x - mean(x, axis, keepdims=True)
    return mean(d * d, axis, keepdims)


@op
def std(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return the standard deviation over axes."""
    return var(x, axis, keepdims) ** 0.5


@op
def max(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:  # noqa: A001
    """Return the largest element over axes; NaN if there is one."""
    return _reduce(MAX, as_value(x), axis, keepdims)


@op
def min(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:  # noqa: A001
    """Return the smallest element over axes; NaN if there is one."""
    return _reduce(MIN, as_value(x), axis, keepdims)


def _arg(row: OpDef, x: Value, axis: int | None) -> Value:
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    return apply(row, x, axis=normalize_axis(row.name, axis, x.ndim))


@op
def argmax(x: ArrayLike, axis: int | None = None) -> Any:
    """Return the place of the first largest element along an axis, as int32."""
    return _arg(ARGMAX, as_value(x), axis)


@op
def argmin(x: ArrayLike, axis: int | None = None) -> Any:
    """Return the place of the first smallest element along an axis, as int32."""
    return _arg(ARGMIN, as_value(x), axis)


@op
def any(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:  # noqa: A001
    """Say whether an element is true over axes."""
    hits = _reduce(SUM, cast_to(cast_to(as_value(x), "bool"), "int32"), axis, keepdims)
    return hits > 0


@op
def all(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:  # noqa: A001
    """Say whether every element is true over axes."""
    misses = cast_to(equal(cast_to(as_value(x), "bool"), False), "int32")
    return equal(_reduce(SUM, misses, axis, keepdims), 0)
