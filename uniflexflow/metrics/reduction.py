"""Sums and means of values, and the means of functions of targets and predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uniflexflow import ops, tree
from uniflexflow.losses.loss import (
    apply_mask,
    as_tensors,
    divide_no_nan,
    drop_masked,
    squeeze_or_expand_to_same_rank,
    weigh,
)
from uniflexflow.metrics.metric import STATE_DTYPE, Metric
from uniflexflow.ops.dtypes import floatx
from uniflexflow.ops.mask import get_mask, set_mask


def total(x: Any, axis: Any = None) -> Any:
    """Sum in the state's dtype."""
    return ops.sum(ops.cast(x, STATE_DTYPE), axis=axis)


def reduce_to_samplewise_values(
    values: Any, sample_weight: Any, reduce: Callable[..., Any], dtype: str
) -> tuple[Any, Any]:
    """Return one weighted value and one weight (or None) per sample."""
    mask = get_mask(values)
    values = as_tensors(values, dtype)
    if sample_weight is not None:
        sample_weight = as_tensors(sample_weight, dtype)
        sample_weight = apply_mask(sample_weight, mask, dtype, "sum")
        values, sample_weight = squeeze_or_expand_to_same_rank(values, sample_weight)
        weight_ndim, ndim = len(sample_weight.shape), len(values.shape)
        if ndim > weight_ndim:
            values = reduce(values, axis=tuple(range(weight_ndim, ndim)))
        sample_weight = ops.broadcast_to(sample_weight, values.shape)
        values = weigh(values, sample_weight)
        if weight_ndim > 1:
            sample_weight = reduce(sample_weight, axis=tuple(range(1, weight_ndim)))
    if len(values.shape) > 1:
        values = reduce(values, axis=tuple(range(1, len(values.shape))))
    return values, sample_weight


def not_rounded(prediction: Any) -> Any:
    """Return a bfloat16 prediction as ``floatx()``, others as they are.

    Targets get the dtype of predictions, and class 257 is 256 in bfloat16.
    """
    if getattr(prediction, "dtype", None) != "bfloat16":
        return prediction
    cast = ops.cast(prediction, floatx())
    set_mask(cast, get_mask(prediction))
    return cast


class Sum(Metric):
    """The weighted sum of values.

    Parameters
    ----------
    name : str
    dtype : str, optional

    Examples
    --------
    >>> float(Sum()([1.0, 3.0, 5.0]))
    9.0
    """

    def __init__(self, name: str = "sum", dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_variable((), "zeros", name="total")

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        """Add values, times their weights."""
        values, _ = reduce_to_samplewise_values(values, sample_weight, ops.sum, self.dtype)
        self.total.assign(self.total + total(values))

    def result(self) -> Any:
        """Return the sum."""
        return self.total + 0.0


class Mean(Metric):
    """The weighted mean of values.

    Parameters
    ----------
    name : str
    dtype : str, optional

    Examples
    --------
    >>> float(Mean()([1.0, 3.0], sample_weight=[3.0, 1.0]))
    1.5
    """

    def __init__(self, name: str | None = "mean", dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        """Add values; those of a sample are averaged first."""
        values, weights = reduce_to_samplewise_values(values, sample_weight, ops.mean, self.dtype)
        self.total.assign(self.total + total(values))
        if weights is not None:
            count = total(weights)
        else:
            count = float(values.shape[0]) if len(values.shape) else 1.0
        self.count.assign(self.count + count)

    def result(self) -> Any:
        """Return the mean; 0 if there was nothing."""
        return divide_no_nan(self.total, self.count)


class MeanMetricWrapper(Mean):
    """The mean of ``fn(y_true, y_pred, **kwargs)``.

    Parameters
    ----------
    fn : callable
        Gives one value per sample.
    name : str, optional
        Default: the function's name.
    dtype : str, optional
    **kwargs
        Passed to ``fn`` at each call.
    """

    def __init__(
        self, fn: Callable[..., Any], name: str | None = None, dtype: Any = None, **kwargs: Any
    ):
        super().__init__(name=name or getattr(fn, "__name__", None), dtype=dtype)
        self._fn = fn
        self._fn_kwargs = kwargs

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take in a batch of targets and predictions."""
        y_true = as_tensors(y_true)
        y_pred = tree.map_structure(not_rounded, as_tensors(y_pred))
        mask = get_mask(y_pred)
        values = drop_masked(self._fn(y_true, y_pred, **self._fn_kwargs), mask)
        if sample_weight is not None:
            sample_weight = as_tensors(sample_weight, self.dtype)
        sample_weight = apply_mask(sample_weight, mask, self.dtype, "sum")
        valid_targets = getattr(self._fn, "valid_targets", None)
        if valid_targets is not None and sample_weight is not None:
            # as in Keras, ignored targets count as zeros where there are no weights
            valid = valid_targets(y_true, y_pred, **self._fn_kwargs)
            sample_weight = apply_mask(sample_weight, valid, self.dtype, "sum")
        super().update_state(values, sample_weight)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments; built-in metrics have no ``fn``."""
        from uniflexflow.saving.serialization import serialize_keras_object

        config = super().get_config()
        if type(self) is MeanMetricWrapper:
            config["fn"] = serialize_keras_object(self._fn)
        return {**config, **serialize_keras_object(self._fn_kwargs)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> MeanMetricWrapper:
        """Make a metric from ``get_config``'s result."""
        from uniflexflow.saving.serialization import deserialize_arguments

        return cls(**deserialize_arguments(config))
