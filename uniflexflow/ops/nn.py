"""Activations: functions of one tensor that networks are made of.

Softmax and its logarithm are primitives along the last axis; the others are made of
elementwise operations, which are joined into one pass over memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import Indices, Node, OpDef, TensorSpec, Value, apply
from uniflexflow.ops.dispatch import as_value, cast_to, op
from uniflexflow.ops.dtypes import floatx, is_float
from uniflexflow.ops.elementwise import (
    abs,
    erf,
    exp,
    expm1,
    maximum,
    minimum,
    negative,
    sigmoid,
    softplus,
    sqrt,
    tanh,
    where,
)
from uniflexflow.ops.numeric import clip
from uniflexflow.ops.reduction import sum as sum_over
from uniflexflow.ops.registry import primitive
from uniflexflow.ops.shape_rules import normalize_axes, normalize_axis
from uniflexflow.ops.shaping import expand_dims, reshape, swap_with_last, transpose
from uniflexflow.ops.slicing import split

__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hard_shrink",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "logsumexp",
    "mish",
    "relu6",
    "selu",
    "silu",
    "soft_shrink",
    "softmax",
    "softsign",
    "squareplus",
    "swish",
    "tanh_shrink",
    "threshold",
]

# -- rows along the last axis ------------------------------------------------------


def _rows(node: Node) -> Indices:
    """Rows are independent; the last axis stays whole."""
    rows = tuple(range(node.inputs[0].ndim - 1))
    out = rows + (None,) * (node.outputs[0].ndim - len(rows))
    return Indices((rows + (None,),), (out,))


def _row_infer(name: str, keeps_axis: bool = True) -> Callable[..., TensorSpec]:
    def infer(x: TensorSpec) -> TensorSpec:
        if not is_float(x.dtype):
            raise TypeError(f"{name}: the operation is not defined on {x.dtype}.")
        if x.ndim == 0:
            raise ValueError(f"{name}: expected a tensor with an axis; received a scalar.")
        if not keeps_axis and x.shape[-1] == 0:
            raise ValueError(f"{name}: the tensor of shape {x.shape} is empty along its last axis.")
        return x if keeps_axis else TensorSpec(x.shape[:-1], x.dtype)

    return infer


def _max_of_rows(x: np.ndarray) -> np.ndarray:
    return np.max(x, axis=-1, keepdims=True, initial=-np.inf)


def _softmax_reference(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - _max_of_rows(x))
    return e / np.sum(e, axis=-1, keepdims=True)


def _softmax_gradient(node: Node, g: Value) -> tuple[Value]:
    # y_i = e^x_i / S:  dx = y (g - sum(g y))
    y = node.outputs[0]
    return (y * (g - sum_over(g * y, -1, keepdims=True)),)


def _log_softmax_reference(x: np.ndarray) -> np.ndarray:
    shifted = x - _max_of_rows(x)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


def _log_softmax_gradient(node: Node, g: Value) -> tuple[Value]:
    # y = x - log S:  dx = g - e^y sum(g)
    return (g - exp(node.outputs[0]) * sum_over(g, -1, keepdims=True),)


def _logsumexp_reference(x: np.ndarray) -> np.ndarray:
    high = _max_of_rows(x)
    shift = np.where(np.isfinite(high), high, 0).astype(x.dtype)
    return (np.log(np.sum(np.exp(x - shift), axis=-1, keepdims=True)) + shift)[..., 0]


def _logsumexp_gradient(node: Node, g: Value) -> tuple[Value]:
    # y = log(sum(e^x)):  dx = g e^(x - y)
    x, y = node.inputs[0], node.outputs[0]
    return (expand_dims(g, -1) * exp(x - expand_dims(y, -1)),)


# y = e^(x - max) / sum(e^(x - max)), per row; a row of -inf alone, or with +inf, gives NaN
SOFTMAX = primitive(
    "softmax",
    infer=_row_infer("softmax"),
    reference=_softmax_reference,
    gradient=_softmax_gradient,
    indices=_rows,
)
# y = x - max - log(sum(e^(x - max))), per row
LOG_SOFTMAX = primitive(
    "log_softmax",
    infer=_row_infer("log_softmax"),
    reference=_log_softmax_reference,
    gradient=_log_softmax_gradient,
    indices=_rows,
)
# y = max + log(sum(e^(x - max))), per row; drops the last axis; a row of -inf gives -inf
LOGSUMEXP = primitive(
    "logsumexp",
    infer=_row_infer("logsumexp", keeps_axis=False),
    reference=_logsumexp_reference,
    gradient=_logsumexp_gradient,
    indices=_rows,
)


def _float(x: Any) -> Value:
    value = as_value(x)
    return value if is_float(value.dtype) else cast_to(value, floatx())


def _gather_axes(x: Value, axes: tuple[int, ...]) -> tuple[Value, list[int]]:
    """Bring axes to the end as one; return also the order that was used."""
    kept = [i for i in range(x.ndim) if i not in axes]
    order = [*kept, *axes]
    moved = transpose(x, order)
    width = math.prod(x.shape[a] for a in axes)
    return reshape(moved, (*[x.shape[i] for i in kept], width)), order


def _along(row: OpDef, x: Value, axis: int | Sequence[int] | None) -> Value:
    axes = normalize_axes(row.name, axis, x.ndim)
    if axes == (x.ndim - 1,):
        return apply(row, x)
    if len(axes) == 1:
        return swap_with_last(apply(row, swap_with_last(x, axes[0])), axes[0])
    rows, order = _gather_axes(x, axes)
    out = reshape(apply(row, rows), tuple(x.shape[i] for i in order))
    return transpose(out, tuple(np.argsort(order).tolist()))


@op
def softmax(x: ArrayLike, axis: int | Sequence[int] | None = -1) -> Any:
    """Return exp(x) / sum(exp(x)) along axes: positive, with the sum 1.

    Examples
    --------
    >>> softmax(np.array([0.0, 0.0]))
    array([0.5, 0.5])
    """
    return _along(SOFTMAX, _float(x), axis)


@op
def log_softmax(x: ArrayLike, axis: int | Sequence[int] | None = -1) -> Any:
    """Return the logarithm of ``softmax``, precise also where that underflows."""
    return _along(LOG_SOFTMAX, _float(x), axis)


@op
def logsumexp(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
    """Return log(sum(exp(x))) over axes, without overflow.

    Parameters
    ----------
    x : tensor
    axis : int or sequence of int, optional
        All axes by default.
    keepdims : bool
        Whether the axes stay, with size 1.
    """
    x = _float(x)
    axes = normalize_axes("logsumexp", axis, x.ndim)
    if not axes:
        return x
    rows = x if axes == (x.ndim - 1,) else _gather_axes(x, axes)[0]
    out = apply(LOGSUMEXP, rows)
    if keepdims:
        return reshape(out, tuple(1 if i in axes else n for i, n in enumerate(x.shape)))
    return out


# -- elementwise -------------------------------------------------------------------


@op
def relu6(x: ArrayLike) -> Any:
    """Return min(max(x, 0), 6), element by element."""
    return clip(x, 0.0, 6.0)


@op
def leaky_relu(x: ArrayLike, negative_slope: float = 0.2) -> Any:
    """Return x where it is positive, else x * negative_slope."""
    x = _float(x)
    return where(x > 0, x, x * negative_slope)


def _exponential_part(x: Value) -> Value:
    """Return exp(min(x, 0)) - 1, with the derivative 1 at 0 from both sides."""
    return expm1(where(x > 0, 0.0, x))


@op
def elu(x: ArrayLike, alpha: float = 1.0) -> Any:
    """Return x where it is positive, else alpha * (exp(x) - 1)."""
    x = _float(x)
    return where(x > 0, x, _exponential_part(x) * alpha)


# Klambauer, Unterthiner, Mayr, Hochreiter, "Self-normalizing neural networks" (2017)
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


@op
def selu(x: ArrayLike) -> Any:
    """Return the scaled elu that keeps mean 0 and variance 1 from layer to layer."""
    return elu(x, _SELU_ALPHA) * _SELU_SCALE


@op
def celu(x: ArrayLike, alpha: float = 1.0) -> Any:
    """Return x where it is positive, else alpha * (exp(x / alpha) - 1)."""
    x = _float(x)
    return where(x > 0, x, _exponential_part(x / alpha) * alpha)


@op
def gelu(x: ArrayLike, approximate: bool = True) -> Any:
    """Return x * P(a standard normal number is below x).

    With ``approximate``, by 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))).
    """
    x = _float(x)
    if approximate:
        inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (tanh(inner) + 1.0)
    return x * 0.5 * (erf(x * math.sqrt(0.5)) + 1.0)


@op
def silu(x: ArrayLike) -> Any:
    """Return x * sigmoid(x), also named swish."""
    x = _float(x)
    return x * sigmoid(x)


swish = silu


@op
def mish(x: ArrayLike) -> Any:
    """Return x * tanh(softplus(x))."""
    x = _float(x)
    return x * tanh(softplus(x))


@op
def softsign(x: ArrayLike) -> Any:
    """Return ``x / (1 + |x|)``."""
    x = _float(x)
    return x / (abs(x) + 1.0)


@op
def log_sigmoid(x: ArrayLike) -> Any:
    """Return log(sigmoid(x)), precise also where the sigmoid underflows."""
    return negative(softplus(negative(_float(x))))


@op
def hard_sigmoid(x: ArrayLike) -> Any:
    """Return x / 6 + 0.5 between the limits 0 and 1."""
    return relu6(_float(x) + 3.0) * (1 / 6)


@op
def hard_silu(x: ArrayLike) -> Any:
    """Return x * hard_sigmoid(x), also named hard_swish."""
    x = _float(x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@op
def hard_tanh(x: ArrayLike) -> Any:
    """Return x between the limits -1 and 1."""
    return clip(x, -1.0, 1.0)


@op
def hard_shrink(x: ArrayLike, threshold: float = 0.5) -> Any:
    """Return x where ``|x|`` is above the threshold, else 0."""
    x = _float(x)
    return where(abs(x) > threshold, x, 0.0)


@op
def soft_shrink(x: ArrayLike, threshold: float = 0.5) -> Any:
    """Bring x nearer to 0 by the threshold, and to 0 where it is closer than that."""
    x = _float(x)
    return maximum(x - threshold, 0.0) + minimum(x + threshold, 0.0)


@op
def tanh_shrink(x: ArrayLike) -> Any:
    """Return x - tanh(x)."""
    x = _float(x)
    return x - tanh(x)


@op
def squareplus(x: ArrayLike, b: float = 4.0) -> Any:
    """Return (x + sqrt(x**2 + b)) / 2."""
    x = _float(x)
    return (x + sqrt(x * x + b)) * 0.5


@op
def threshold(x: ArrayLike, threshold: float, default_value: float) -> Any:
    """Return x where it is above the threshold, else the default value.

    Parameters
    ----------
    x : tensor
    threshold, default_value : float
    """
    x = as_value(x)
    return where(x > threshold, x, default_value)


@op
def glu(x: ArrayLike, axis: int = -1) -> Any:
    """Return a * sigmoid(b) for the two halves a, b of x along an axis."""
    x = _float(x)
    axis = normalize_axis("glu", axis, x.ndim)
    if x.shape[axis] % 2:
        raise ValueError(
            f"glu: axis {axis} of shape {x.shape} can't be halved; expected an even size."
        )
    a, b = split(x, 2, axis)
    return a * sigmoid(b)
