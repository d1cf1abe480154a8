"""Errors of numbers against numbers."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from uniflexflow import ops
from uniflexflow.losses import regression as losses
from uniflexflow.losses.loss import as_tensors, squeeze_or_expand_to_same_rank
from uniflexflow.losses.regression import (
    categorical_hinge,
    hinge,
    log_cosh,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    mean_squared_logarithmic_error,
    squared_hinge,
)
from uniflexflow.metrics.metric import Metric
from uniflexflow.metrics.reduction import Mean, MeanMetricWrapper, total
from uniflexflow.ops.dispatch import op


@op
def cosine_similarity(y_true: ArrayLike, y_pred: ArrayLike, axis: int = -1) -> Any:
    """Return the cosine of the angle between the vectors along an axis.

    Parameters
    ----------
    y_true, y_pred : tensor
    axis : int
    """
    return -losses.cosine_similarity(y_true, y_pred, axis=axis)


class MeanSquaredError(MeanMetricWrapper):
    """Mean of the squared errors.

    Parameters
    ----------
    name : str
    dtype : str, optional
    """

    _direction = "down"

    def __init__(self, name: str = "mean_squared_error", dtype: Any = None):
        super().__init__(mean_squared_error, name, dtype)


class MeanAbsoluteError(MeanMetricWrapper):
    """Mean of the errors' sizes.

    Parameters
    ----------
    name : str
    dtype : str, optional
    """

    _direction = "down"

    def __init__(self, name: str = "mean_absolute_error", dtype: Any = None):
        super().__init__(mean_absolute_error, name, dtype)


class MeanAbsolutePercentageError(MeanMetricWrapper):
    """Mean of the relative errors in percent.

    Parameters
    ----------
    name : str
    dtype : str, optional
    """

    _direction = "down"

    def __init__(self, name: str = "mean_absolute_percentage_error", dtype: Any = None):
        super().__init__(mean_absolute_percentage_error, name, dtype)


class MeanSquaredLogarithmicError(MeanMetricWrapper):
    """Mean of the logarithms' squared errors.

    Parameters
    ----------
    name : str
    dtype : str, optional
    """

    _direction = "down"

    def __init__(self, name: str = "mean_squared_logarithmic_error", dtype: Any = None):
        super().__init__(mean_squared_logarithmic_error, name, dtype)


class LogCoshError(MeanMetricWrapper):
    """Mean of log(cosh(error)).

    Parameters
    ----------
    name : str
    dtype : str, optional
    """

    _direction = "down"

    def __init__(self, name: str = "logcosh", dtype: Any = None):
        super().__init__(log_cosh, name, dtype)


class Hinge(MeanMetricWrapper):
    """Mean of max(1 - y_true * y_pred, 0).

    Parameters
    ----------
    name : str
    dtype : str, optional
    """

    _direction = "down"

    def __init__(self, name: str = "hinge", dtype: Any = None):
        super().__init__(hinge, name, dtype)


class SquaredHinge(MeanMetricWrapper):
    """Mean of max(1 - y_true * y_pred, 0)**2.

    Parameters
    ----------
    name : str
    dtype : str, optional
    """

    _direction = "down"

    def __init__(self, name: str = "squared_hinge", dtype: Any = None):
        super().__init__(squared_hinge, name, dtype)


class CategoricalHinge(MeanMetricWrapper):
    """Mean of the categorical hinge loss.

    Parameters
    ----------
    name : str
    dtype : str, optional
    """

    _direction = "down"

    def __init__(self, name: str = "categorical_hinge", dtype: Any = None):
        super().__init__(categorical_hinge, name, dtype)


class CosineSimilarity(MeanMetricWrapper):
    """Mean cosine of the angle between targets and predictions.

    Parameters
    ----------
    name : str
    dtype : str, optional
    axis : int
        Along which a vector lies.
    """

    _direction = "up"

    def __init__(self, name: str = "cosine_similarity", dtype: Any = None, axis: int = -1):
        super().__init__(cosine_similarity, name, dtype, axis=axis)


class RootMeanSquaredError(Mean):
    """Square root of the mean of the squared errors.

    Parameters
    ----------
    name : str
    dtype : str, optional
    """

    _direction = "down"

    def __init__(self, name: str = "root_mean_squared_error", dtype: Any = None):
        super().__init__(name, dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take in a batch of targets and predictions."""
        y_true, y_pred = squeeze_or_expand_to_same_rank(
            as_tensors(y_true, self.dtype), as_tensors(y_pred, self.dtype)
        )
        super().update_state(ops.square(y_pred - y_true), sample_weight)

    def result(self) -> Any:
        """Return the root of the mean."""
        return ops.sqrt(super().result())


class R2Score(Metric):
    """Part of the targets' variance that the predictions explain.

    Parameters
    ----------
    class_aggregation : str or None
        How columns are joined: ``"uniform_average"``, ``"variance_weighted_average"``, or
        None for one score per column.
    num_regressors : int
        For the adjusted score; 0: the plain one.
    name : str
    dtype : str, optional
    """

    _direction = "up"

    def __init__(
        self,
        class_aggregation: str | None = "uniform_average",
        num_regressors: int = 0,
        name: str = "r2_score",
        dtype: Any = None,
    ):
        super().__init__(name=name, dtype=dtype)
        known = (None, "uniform_average", "variance_weighted_average")
        if class_aggregation not in known:
            raise ValueError(
                f"R2Score: invalid value for argument `class_aggregation`: "
                f"{class_aggregation!r}; expected one of {known}."
            )
        if num_regressors < 0:
            raise ValueError(
                "R2Score: expected a value >= 0 for argument `num_regressors`; received "
                f"{num_regressors}."
            )
        self.class_aggregation = class_aggregation
        self.num_regressors = num_regressors
        self.num_samples = self.add_variable((), "zeros", name="num_samples")
        self._built = False

    def _build(self, shape: tuple[int, ...]) -> None:
        if len(shape) != 2:
            raise ValueError(
                "R2Score: expects 2D inputs with shape (batch_size, output_dim); received "
                f"shape {tuple(shape)}."
            )
        self.squared_sum = self.add_variable(shape[1:], "zeros", name="squared_sum")
        self.sum = self.add_variable(shape[1:], "zeros", name="sum")
        self.total_mse = self.add_variable(shape[1:], "zeros", name="residual")
        self.count = self.add_variable(shape[1:], "zeros", name="count")
        self._built = True

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take in a batch of targets and predictions."""
        y_true, y_pred = squeeze_or_expand_to_same_rank(
            as_tensors(y_true, self.dtype), as_tensors(y_pred, self.dtype)
        )
        if not self._built:
            self._build(y_pred.shape)
        weight = as_tensors(1.0 if sample_weight is None else sample_weight, self.dtype)
        if len(weight.shape) == 1:
            weight = ops.expand_dims(weight, 1)
        weight = ops.broadcast_to(weight, y_true.shape)
        weighted = y_true * weight
        self.sum.assign(self.sum + total(weighted, 0))
        self.squared_sum.assign(self.squared_sum + total(y_true * weighted, 0))
        error = total(ops.square(y_true - y_pred) * weight, 0)
        self.total_mse.assign(self.total_mse + error)
        self.count.assign(self.count + total(weight, 0))
        self.num_samples.assign(self.num_samples + float(y_true.shape[0] * y_true.shape[1]))

    def result(self) -> Any:
        """Return the score."""
        variance = self.squared_sum - self.sum * (self.sum / self.count)
        ratio = self.total_mse / variance
        infinite = ops.equal(ops.abs(ratio), float("inf"))
        score = ops.where(infinite, 0.0, 1.0 - ratio)
        if self.class_aggregation == "uniform_average":
            score = ops.mean(score)
        elif self.class_aggregation == "variance_weighted_average":
            score = ops.sum(variance * score) / ops.sum(variance)
        if self.num_regressors:
            # with too few samples the plain score is kept
            free = self.num_samples - 1.0 - float(self.num_regressors)
            enough = free > 0
            adjusted = 1.0 - (1.0 - score) * (self.num_samples - 1.0) / ops.where(enough, free, 1.0)
            score = ops.where(enough, adjusted, score)
        return score

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "class_aggregation": self.class_aggregation,
            "num_regressors": self.num_regressors,
        }
