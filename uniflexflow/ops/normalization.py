"""Means and variances, and tensors scaled by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from uniflexflow.ir import Value
from uniflexflow.ops.dispatch import as_value, cast_to, op
from uniflexflow.ops.dtypes import floatx, is_float
from uniflexflow.ops.elementwise import abs, maximum, power, rsqrt, sqrt, square, stop_gradient
from uniflexflow.ops.reduction import max as max_over
from uniflexflow.ops.reduction import mean
from uniflexflow.ops.reduction import sum as sum_over
from uniflexflow.ops.shape_rules import normalize_axes, normalize_axis
from uniflexflow.ops.shaping import reshape

__all__ = [
    "batch_normalization",
    "layer_normalization",
    "moments",
    "normalize",
    "rms_normalization",
]

Axis = int | Sequence[int]


def _float(x: Any) -> Value:
    value = as_value(x)
    return value if is_float(value.dtype) else cast_to(value, floatx())


def wide(x: Any) -> Value:
    """Return a float tensor as it is, bfloat16 as float32: statistics are sums of many numbers."""
    value = _float(x)
    return cast_to(value, "float32") if value.dtype == "bfloat16" else value


def centered(x: Value, axes: Axis) -> tuple[Value, Value, Value]:
    """Return mean, distance from it, and variance over ``axes``, which stay with size 1.

    With d the distance from any constant c, the variance is mean(d^2) - (mean - c)^2. Here c
    is the mean, so the second term is zero, but written like this the derivative does not go
    from the squares back through the mean, where it would find a sum of distances: zero, at
    the price of another pass over x (Chan, Golub, LeVeque, "Algorithms for computing the sample
    variance", 1983, for the shift). Derivatives of any order are exact.
    """
    center = mean(x, axes, keepdims=True)
    fixed = stop_gradient(center)
    variance = mean(square(x - fixed), axes, keepdims=True) - square(center - fixed)
    return center, x - center, variance


@op
def moments(x: ArrayLike, axes: Axis, keepdims: bool = False) -> Any:
    """Return the mean and the variance over axes.

    Over a batch that is spread over ranks they are those of the whole batch.

    Parameters
    ----------
    x : tensor
    axes : int or sequence of int
    keepdims : bool
        Whether the axes stay, with size 1.
    """
    dtype, x = _float(x).dtype, wide(x)
    center, _, variance = centered(x, axes)
    if not keepdims:
        kept = normalize_axes("moments", axes, x.ndim)
        shape = tuple(n for i, n in enumerate(x.shape) if i not in kept)
        center, variance = reshape(center, shape), reshape(variance, shape)
    return cast_to(center, dtype), cast_to(variance, dtype)


def _along(x: Value, axis: int, vector: Any, name: str) -> Value:
    """Return a vector shaped to be broadcast along an axis of x."""
    vector = as_value(vector)
    if vector.shape != (x.shape[axis],):
        raise ValueError(
            f"batch_normalization: `{name}` must have shape {(x.shape[axis],)} for a tensor of "
            f"shape {x.shape} and axis {axis}; received {vector.shape}."
        )
    after = (1,) * (x.ndim - axis - 1)
    return cast_to(vector if not after else reshape(vector, vector.shape + after), x.dtype)


@op
def batch_normalization(
    x: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    axis: int,
    offset: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    epsilon: float = 1e-3,
) -> Any:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + offset.

    Parameters
    ----------
    x : tensor
    mean, variance : vectors along ``axis``
    axis : int
    offset, scale : vectors along ``axis``, optional
    epsilon : float
    """
    dtype, x = _float(x).dtype, wide(x)
    axis = normalize_axis("batch_normalization", axis, x.ndim)
    factor = rsqrt(_along(x, axis, variance, "variance") + epsilon)
    if scale is not None:
        factor = factor * _along(x, axis, scale, "scale")
    y = (x - _along(x, axis, mean, "mean")) * factor
    y = y if offset is None else y + _along(x, axis, offset, "offset")
    return cast_to(y, dtype)


def _fitted(x: Value, axes: tuple[int, ...], weight: Any) -> Value:
    """Return a weight over ``axes`` shaped to be broadcast over x."""
    weight = cast_to(as_value(weight), x.dtype)
    if axes == tuple(range(x.ndim - len(axes), x.ndim)):
        return weight  # broadcasting puts it there
    shape = tuple(n if i in axes else 1 for i, n in enumerate(x.shape))
    return reshape(weight, shape)


@op
def layer_normalization(
    x: ArrayLike,
    gamma: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    axis: Axis = -1,
    epsilon: float = 1e-3,
) -> Any:
    """Return (x - mean) / sqrt(variance + epsilon) * gamma + beta, with moments over ``axis``.

    Parameters
    ----------
    x : tensor
    gamma, beta : tensor, optional
        Factor and summand, of the shape of the normalised axes.
    axis : int or sequence of int
    epsilon : float
        Keeps the divisor from 0.
    """
    dtype, x = _float(x).dtype, wide(x)
    axes = normalize_axes("layer_normalization", axis, x.ndim)
    _, distance, variance = centered(x, axes)
    y = distance * rsqrt(variance + epsilon)
    if gamma is not None:
        y = y * _fitted(x, axes, gamma)
    return cast_to(y if beta is None else y + _fitted(x, axes, beta), dtype)


@op
def rms_normalization(
    x: ArrayLike, scale: ArrayLike | None = None, axis: Axis = -1, epsilon: float | None = None
) -> Any:
    """Return x / sqrt(mean(x**2) + epsilon) * scale, with the mean over ``axis``.

    ``epsilon`` is 1e-7 by default.

    Parameters
    ----------
    x : tensor
    scale : tensor, optional
    axis : int or sequence of int
    epsilon : float, optional
    """
    dtype, x = _float(x).dtype, wide(x)
    axes = normalize_axes("rms_normalization", axis, x.ndim)
    small = 1e-7 if epsilon is None else epsilon
    y = x * rsqrt(mean(square(x), axes, keepdims=True) + small)
    return cast_to(y if scale is None else y * _fitted(x, axes, scale), dtype)


@op
def normalize(x: ArrayLike, axis: Axis = -1, order: float = 2, epsilon: float | None = None) -> Any:
    """Return x divided by its norm along axes; a norm below ``epsilon`` counts as that.

    ``epsilon`` is 1e-12 by default.

    Parameters
    ----------
    x : tensor
    axis : int or sequence of int
    order : float
        Which p-norm.
    epsilon : float, optional
    """
    x = _float(x)
    small = 1e-12 if epsilon is None else epsilon
    if order == 2:
        total = maximum(sum_over(square(x), axis, keepdims=True), small**2)
        return x / sqrt(total)
    if order == float("inf"):
        size = max_over(abs(x), axis, keepdims=True)
    elif order > 0:
        size = power(sum_over(power(abs(x), order), axis, keepdims=True), 1.0 / order)
    else:
        raise ValueError(f"normalize: expected a positive `order`; received {order}.")
    return x / maximum(size, small)
