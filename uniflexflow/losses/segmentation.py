"""Losses of overlapping regions: Dice and Tversky."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from uniflexflow import ops
from uniflexflow.losses.loss import LossFunctionWrapper
from uniflexflow.losses.regression import pair
from uniflexflow.ops.dispatch import op
from uniflexflow.ops.dtypes import epsilon

Axes = int | Sequence[int] | None


@op
def dice(y_true: ArrayLike, y_pred: ArrayLike, axis: Axes = None) -> Any:
    """Return 1 - 2 sum(y_true * y_pred) / (sum(y_true) + sum(y_pred)), over axes.

    Parameters
    ----------
    y_true, y_pred : tensor
    axis : int or sequence of int, optional
        All axes by default.
    """
    y_true, y_pred = pair(y_true, y_pred)
    both = ops.sum(y_true * y_pred, axis=axis)
    each = ops.sum(y_true, axis=axis) + ops.sum(y_pred, axis=axis)
    return 1.0 - 2.0 * both / (each + epsilon())


@op
def tversky(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    alpha: float = 0.5,
    beta: float = 0.5,
    axis: Axes = None,
) -> Any:
    """Return 1 - t / (t + alpha * a + beta * b), over axes.

    t = sum(y_true y_pred), a = sum((1 - y_pred) y_true), b = sum(y_pred (1 - y_true)).

    Parameters
    ----------
    y_true, y_pred : tensor
    alpha, beta : float
        Weights of what was missed and of false alarms.
    axis : int or sequence of int, optional
        All axes by default.
    """
    y_true, y_pred = pair(y_true, y_pred)
    both = ops.sum(y_true * y_pred, axis=axis)
    a = ops.sum((1.0 - y_pred) * y_true, axis=axis)
    b = ops.sum(y_pred * (1.0 - y_true), axis=axis)
    return 1.0 - both / (both + a * alpha + b * beta + epsilon())


class Dice(LossFunctionWrapper):
    """One minus the Dice coefficient; see `dice`.

    Parameters
    ----------
    reduction, name, dtype
        See `Loss`.
    axis : int or sequence of int, optional
        Over which the overlap is summed; all by default.
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "dice",
        axis: Axes = None,
        dtype: Any = None,
    ):
        super().__init__(dice, reduction, name, dtype, axis=axis)


class Tversky(LossFunctionWrapper):
    """One minus the Tversky index; see `tversky`.

    Parameters
    ----------
    alpha, beta : float
    reduction, name, dtype
        See `Loss`.
    axis : int or sequence of int, optional
    """

    def __init__(
        self,
        alpha: float = 0.5,
        beta: float = 0.5,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "tversky",
        axis: Axes = None,
        dtype: Any = None,
    ):
        super().__init__(tversky, reduction, name, dtype, alpha=alpha, beta=beta, axis=axis)
