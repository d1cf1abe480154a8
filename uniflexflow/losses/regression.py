"""Losses of numbers against numbers, and of signs against margins."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import ArrayLike

from uniflexflow import ops
from uniflexflow.losses.loss import LossFunctionWrapper, squeeze_or_expand_to_same_rank
from uniflexflow.ops.dispatch import as_value, op
from uniflexflow.ops.dtypes import epsilon, floatx, is_float


def pair(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Return both as tensors of the predictions' float type and of one rank."""
    y_pred = as_value(y_pred)
    if not is_float(y_pred.dtype):
        y_pred = ops.cast(y_pred, floatx())
    return squeeze_or_expand_to_same_rank(ops.cast(y_true, y_pred.dtype), y_pred)


def unit(x: Any, axis: int) -> Any:
    """Return ``x`` over its Euclidean norm along an axis."""
    inverse = ops.rsqrt(ops.sum(ops.square(x), axis=axis, keepdims=True))
    return x * ops.minimum(inverse, 1.0 / epsilon())


@op
def mean_squared_error(y_true: ArrayLike, y_pred: ArrayLike) -> Any:
    """Return mean((y_true - y_pred)**2) over the last axis.

    Examples
    --------
    >>> import numpy as np
    >>> mean_squared_error(np.array([[0.0, 1.0]]), np.array([[1.0, 1.0]])).tolist()
    [0.5]
    """
    y_true, y_pred = pair(y_true, y_pred)
    return ops.mean(ops.square(y_true - y_pred), axis=-1)


@op
def mean_absolute_error(y_true: ArrayLike, y_pred: ArrayLike) -> Any:
    """Return mean(abs(y_true - y_pred)) over the last axis."""
    y_true, y_pred = pair(y_true, y_pred)
    return ops.mean(ops.abs(y_true - y_pred), axis=-1)


@op
def mean_absolute_percentage_error(y_true: ArrayLike, y_pred: ArrayLike) -> Any:
    """Return 100 * mean(abs((y_true - y_pred) / y_true)) over the last axis."""
    y_true, y_pred = pair(y_true, y_pred)
    difference = ops.abs((y_true - y_pred) / ops.maximum(ops.abs(y_true), epsilon()))
    return 100.0 * ops.mean(difference, axis=-1)


@op
def mean_squared_logarithmic_error(y_true: ArrayLike, y_pred: ArrayLike) -> Any:
    """Return mean((log(y_true + 1) - log(y_pred + 1))**2) over the last axis."""
    y_true, y_pred = pair(y_true, y_pred)
    first = ops.log(ops.maximum(y_pred, epsilon()) + 1.0)
    second = ops.log(ops.maximum(y_true, epsilon()) + 1.0)
    return ops.mean(ops.square(first - second), axis=-1)


@op
def cosine_similarity(y_true: ArrayLike, y_pred: ArrayLike, axis: int = -1) -> Any:
    """Return minus the cosine of the angle between the vectors along an axis.

    Parameters
    ----------
    y_true, y_pred : tensor
    axis : int
    """
    y_true, y_pred = pair(y_true, y_pred)
    return -ops.sum(unit(y_true, axis) * unit(y_pred, axis), axis=axis)


@op
def huber(y_true: ArrayLike, y_pred: ArrayLike, delta: float = 1.0) -> Any:
    """Return the mean over the last axis of e**2/2, or delta*abs(e) - delta**2/2.

    The second where the error e exceeds delta in size.

    Parameters
    ----------
    y_true, y_pred : tensor
    delta : float
        From where on the loss grows in proportion.
    """
    y_true, y_pred = pair(y_true, y_pred)
    error = y_pred - y_true
    size = ops.abs(error)
    inner = 0.5 * ops.square(error)
    outer = delta * size - 0.5 * delta * delta
    return ops.mean(ops.where(size <= delta, inner, outer), axis=-1)


@op
def log_cosh(y_true: ArrayLike, y_pred: ArrayLike) -> Any:
    """Return mean(log(cosh(y_pred - y_true))) over the last axis."""
    y_true, y_pred = pair(y_true, y_pred)
    x = y_pred - y_true
    return ops.mean(x + ops.softplus(x * -2.0) - math.log(2.0), axis=-1)


def _signs(y_true: Any) -> Any:
    # labels 0 and 1 become -1 and 1, if there are no others
    binary = ops.all(ops.logical_or(ops.equal(y_true, 0.0), ops.equal(y_true, 1.0)))
    return ops.where(binary, 2.0 * y_true - 1.0, y_true)


@op
def hinge(y_true: ArrayLike, y_pred: ArrayLike) -> Any:
    """Return mean(max(1 - y_true * y_pred, 0)) over the last axis; labels -1, 1 or 0, 1."""
    y_true, y_pred = pair(y_true, y_pred)
    return ops.mean(ops.maximum(1.0 - _signs(y_true) * y_pred, 0.0), axis=-1)


@op
def squared_hinge(y_true: ArrayLike, y_pred: ArrayLike) -> Any:
    """Return mean(max(1 - y_true * y_pred, 0)**2) over the last axis."""
    y_true, y_pred = pair(y_true, y_pred)
    return ops.mean(ops.square(ops.maximum(1.0 - _signs(y_true) * y_pred, 0.0)), axis=-1)


@op
def categorical_hinge(y_true: ArrayLike, y_pred: ArrayLike) -> Any:
    """Return max(neg - pos + 1, 0).

    pos = sum(y_true * y_pred), neg = max((1 - y_true) * y_pred), over the last axis.
    """
    y_true, y_pred = pair(y_true, y_pred)
    pos = ops.sum(y_true * y_pred, axis=-1)
    neg = ops.max((1.0 - y_true) * y_pred, axis=-1)
    return ops.maximum(neg - pos + 1.0, 0.0)


class MeanSquaredError(LossFunctionWrapper):
    """Mean of the squared errors; see `mean_squared_error`.

    Parameters
    ----------
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "mean_squared_error",
        dtype: Any = None,
    ):
        super().__init__(mean_squared_error, reduction, name, dtype)


class MeanAbsoluteError(LossFunctionWrapper):
    """Mean of the errors' sizes; see `mean_absolute_error`.

    Parameters
    ----------
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "mean_absolute_error",
        dtype: Any = None,
    ):
        super().__init__(mean_absolute_error, reduction, name, dtype)


class MeanAbsolutePercentageError(LossFunctionWrapper):
    """Mean of the relative errors in percent; see `mean_absolute_percentage_error`.

    Parameters
    ----------
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "mean_absolute_percentage_error",
        dtype: Any = None,
    ):
        super().__init__(mean_absolute_percentage_error, reduction, name, dtype)


class MeanSquaredLogarithmicError(LossFunctionWrapper):
    """Mean of the logarithms' squared errors; see `mean_squared_logarithmic_error`.

    Parameters
    ----------
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "mean_squared_logarithmic_error",
        dtype: Any = None,
    ):
        super().__init__(mean_squared_logarithmic_error, reduction, name, dtype)


class CosineSimilarity(LossFunctionWrapper):
    """Minus the cosine between targets and predictions; see `cosine_similarity`.

    Parameters
    ----------
    axis : int
        Along which a vector lies.
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "cosine_similarity",
        dtype: Any = None,
    ):
        super().__init__(cosine_similarity, reduction, name, dtype, axis=axis)


class Huber(LossFunctionWrapper):
    """Squared near zero, linear beyond ``delta``; see `huber`.

    Parameters
    ----------
    delta : float
        Where the loss turns from squared to linear.
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        delta: float = 1.0,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "huber_loss",
        dtype: Any = None,
    ):
        super().__init__(huber, reduction, name, dtype, delta=delta)


class LogCosh(LossFunctionWrapper):
    """Mean of log(cosh(error)); see `log_cosh`.

    Parameters
    ----------
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "log_cosh",
        dtype: Any = None,
    ):
        super().__init__(log_cosh, reduction, name, dtype)


class Hinge(LossFunctionWrapper):
    """Maximum-margin loss of labels -1 and 1; see `hinge`.

    Parameters
    ----------
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "hinge",
        dtype: Any = None,
    ):
        super().__init__(hinge, reduction, name, dtype)


class SquaredHinge(LossFunctionWrapper):
    """Squared maximum-margin loss; see `squared_hinge`.

    Parameters
    ----------
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "squared_hinge",
        dtype: Any = None,
    ):
        super().__init__(squared_hinge, reduction, name, dtype)


class CategoricalHinge(LossFunctionWrapper):
    """Maximum-margin loss of one-hot labels; see `categorical_hinge`.

    Parameters
    ----------
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "categorical_hinge",
        dtype: Any = None,
    ):
        super().__init__(categorical_hinge, reduction, name, dtype)
