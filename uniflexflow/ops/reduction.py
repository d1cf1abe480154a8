"""Reductions: sums, extremes and their places along axes."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import Indices, Node, OpDef, TensorSpec, Value, apply, constant
from uniflexflow.ops.dispatch import as_value, cast_to, meet, op
from uniflexflow.ops.dtypes import floatx, is_float
from uniflexflow.ops.elementwise import cast, equal, sqrt, square
from uniflexflow.ops.registry import primitive
from uniflexflow.ops.shape_rules import normalize_axes, normalize_axis
from uniflexflow.ops.shaping import broadcast_to, reshape, transpose
from uniflexflow.ops.slicing import CONCATENATE, slice_axis

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "average",
    "count_nonzero",
    "max",
    "mean",
    "min",
    "prod",
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
    if x.dtype == "bool":
        raise TypeError("sum: the operation is not defined on bool; cast to int32.")
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


# y = sum of x over axes
SUM = primitive(
    "sum",
    infer=_sum_infer,
    reference=lambda x, *, axes: np.sum(x, axis=axes, dtype=x.dtype),
    gradient=lambda node, g: (_spread(g, node.inputs[0], node.attrs["axes"]),),
    indices=_indices("sum"),
    linear="all",
)
# y = largest (smallest) x over axes; NaN if there is one
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


def wide_integer(x: Value) -> Value:
    """Return booleans and 8-bit whole numbers as int32, in which they can be added up."""
    return cast_to(x, "int32") if x.dtype in ("bool", "int8", "uint8") else x


def _reduce(row: OpDef, x: Value, axis: Axis, keepdims: bool) -> Value:
    axes = normalize_axes(row.name, axis, x.ndim)
    out = apply(row, x, axes=axes) if axes else x
    return reshape(out, _with_ones(x.shape, axes)) if keepdims else out


@op
def sum(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:
    """Sum over axes; over an empty axis the sum is 0.

    Booleans and 8-bit whole numbers are added up as int32.

    Parameters
    ----------
    x : tensor
    axis : int or sequence of int, optional
        All axes by default.
    keepdims : bool
        Whether the axes stay, with size 1.

    Examples
    --------
    >>> sum(np.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    array([4., 6.])
    """
    return _reduce(SUM, wide_integer(as_value(x)), axis, keepdims)


@op
def mean(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return the arithmetic mean over axes; NaN over an empty one.

    Parameters
    ----------
    x : tensor
    axis : int or sequence of int, optional
        All axes by default.
    keepdims : bool
        Whether the axes stay, with size 1.
    """
    x = as_value(x)
    x = x if is_float(x.dtype) else cast_to(x, floatx())
    axes = normalize_axes("mean", axis, x.ndim)
    count = math.prod(x.shape[a] for a in axes)
    total = _reduce(SUM, x, axis, keepdims)
    return total / count if count else total * math.nan


@op
def var(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return the variance over axes: the mean squared distance from the mean.

    Parameters
    ----------
    x : tensor
    axis : int or sequence of int, optional
        All axes by default.
    keepdims : bool
        Whether the axes stay, with size 1.
    """
    x = as_value(x)
    return mean(square(x - mean(x, axis, keepdims=True)), axis, keepdims)


@op
def std(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return the standard deviation over axes.

    Parameters
    ----------
    x : tensor
    axis : int or sequence of int, optional
        All axes by default.
    keepdims : bool
        Whether the axes stay, with size 1.
    """
    return sqrt(var(x, axis, keepdims))


def _extreme(row: OpDef, x: Value, axis: Axis, keepdims: bool) -> Value:
    if x.dtype == "bool":
        return cast_to(_reduce(row, cast_to(x, "int32"), axis, keepdims), "bool")
    return _reduce(row, x, axis, keepdims)


@op
def max(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return the largest element over axes; NaN if there is one.

    Parameters
    ----------
    x : tensor
    axis : int or sequence of int, optional
        All axes by default.
    keepdims : bool
        Whether the axes stay, with size 1.
    """
    return _extreme(MAX, as_value(x), axis, keepdims)


@op
def min(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return the smallest element over axes; NaN if there is one.

    Parameters
    ----------
    x : tensor
    axis : int or sequence of int, optional
        All axes by default.
    keepdims : bool
        Whether the axes stay, with size 1.
    """
    return _extreme(MIN, as_value(x), axis, keepdims)


amax, amin = max, min


def _arg(row: OpDef, x: Value, axis: int | None, keepdims: bool) -> Value:
    x, ndim = (cast_to(x, "int32") if x.dtype == "bool" else x), x.ndim
    if axis is None:
        place = apply(row, reshape(x, (-1,)), axis=0)
        return reshape(place, (1,) * ndim) if keepdims else place
    axis = normalize_axis(row.name, axis, ndim)
    place = apply(row, x, axis=axis)
    return reshape(place, _with_ones(x.shape, (axis,))) if keepdims else place


@op
def argmax(x: ArrayLike, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the place of the first largest element along an axis, as int32.

    The first NaN is the largest. Without an axis the place is that in the flattened tensor.

    Parameters
    ----------
    x : tensor
    axis : int, optional
        The flattened tensor by default.
    keepdims : bool
        Whether the axes stay, with size 1.
    """
    return _arg(ARGMAX, as_value(x), axis, keepdims)


@op
def argmin(x: ArrayLike, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the place of the first smallest element along an axis, as int32.

    The first NaN is the smallest. Without an axis the place is that in the flattened tensor.

    Parameters
    ----------
    x : tensor
    axis : int, optional
        The flattened tensor by default.
    keepdims : bool
        Whether the axes stay, with size 1.
    """
    return _arg(ARGMIN, as_value(x), axis, keepdims)


@op
def any(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:
    """Say whether an element is true over axes.

    Parameters
    ----------
    x : tensor
    axis : int or sequence of int, optional
        All axes by default.
    keepdims : bool
        Whether the axes stay, with size 1.
    """
    hits = _reduce(SUM, cast_to(cast_to(as_value(x), "bool"), "int32"), axis, keepdims)
    return hits > 0


@op
def all(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:
    """Say whether every element is true over axes.

    Parameters
    ----------
    x : tensor
    axis : int or sequence of int, optional
        All axes by default.
    keepdims : bool
        Whether the axes stay, with size 1.
    """
    misses = cast_to(equal(cast_to(as_value(x), "bool"), False), "int32")
    return equal(_reduce(SUM, misses, axis, keepdims), 0)


@op
def count_nonzero(x: ArrayLike, axis: Axis = None) -> Any:
    """Count over axes the elements that are not 0, as int32."""
    x = as_value(x)
    hits = cast_to(x, "bool")
    return _reduce(SUM, cast_to(hits, "int32"), axis, keepdims=False)


@op
def prod(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:
    """Multiply over axes; over an empty axis the product is 1.

    Halves are multiplied with each other until one is left, so the gradient is right
    also where elements are 0.

    Parameters
    ----------
    x : tensor
    axis : int or sequence of int, optional
        All axes by default.
    keepdims : bool
        Whether the axes stay, with size 1.
    """
    x = wide_integer(as_value(x))
    axes = normalize_axes("prod", axis, x.ndim)
    kept = [i for i in range(x.ndim) if i not in axes]
    shape = _with_ones(x.shape, axes) if keepdims else _kept(x.shape, axes)
    count = math.prod(x.shape[a] for a in axes)
    if count == 0:
        return broadcast_to(constant(1, x.dtype), shape)
    x = transpose(x, (*kept, *axes))
    x = reshape(x, (*x.shape[: len(kept)], count))
    last = x.ndim - 1
    while (n := x.shape[-1]) > 1:
        half = n // 2
        product = slice_axis(x, last, 0, half) * slice_axis(x, last, half, 2 * half)
        rest = [slice_axis(x, last, 2 * half, n)] if n % 2 else []
        x = apply(CONCATENATE, product, *rest, axis=last) if rest else product
    return reshape(x, shape)


@op
def average(x: ArrayLike, axis: int | None = None, weights: ArrayLike | None = None) -> Any:
    """Return the mean along an axis, weighted if weights are given.

    ``weights`` has the shape of ``x``, or is a vector along ``axis``.

    Parameters
    ----------
    x : tensor
    axis : int, optional
        All axes by default.
    weights : tensor, optional
    """
    if weights is None:
        return mean(x, axis)
    x, weights = meet(x, weights)
    if not is_float(x.dtype):
        x, weights = cast_to(x, floatx()), cast_to(weights, floatx())
    if weights.shape != x.shape:
        if axis is None or weights.shape != (x.shape[axis],):
            raise ValueError(
                f"average: weights of shape {weights.shape} don't fit a tensor of shape "
                f"{x.shape} and axis {axis}; expected the same shape, or a vector along the axis."
            )
        place = normalize_axis("average", axis, x.ndim)
        weights = reshape(weights, weights.shape + (1,) * (x.ndim - place - 1))
        weights = broadcast_to(weights, x.shape)
    return sum(x * weights, axis) / sum(weights, axis)
