"""Counts of true and false positives and negatives at thresholds, and their ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from uniflexflow import ops
from uniflexflow.losses.loss import as_tensors, divide_no_nan, squeeze_or_expand_to_same_rank
from uniflexflow.metrics.metric import STATE_DTYPE, Metric
from uniflexflow.ops.dtypes import epsilon
from uniflexflow.ops.variable import Variable

NEG_INF = -1e10
TRUE_POSITIVES, FALSE_POSITIVES = "tp", "fp"
TRUE_NEGATIVES, FALSE_NEGATIVES = "tn", "fn"


def parse_thresholds(where: str, thresholds: Any, default: float) -> list[float]:
    """Return thresholds as a list, or the default.

    Raises
    ------
    ValueError
        If one isn't between 0 and 1.
    """
    if thresholds is None:
        return [default]
    values = list(thresholds) if isinstance(thresholds, (list, tuple)) else [thresholds]
    invalid = [t for t in values if t is None or not 0 <= t <= 1]
    if invalid:
        raise ValueError(f"{where}: threshold values must be in [0, 1]; received {invalid}.")
    return values


def are_even(thresholds: Sequence[float]) -> bool:
    """Say whether thresholds are 0, 1/n, 2/n, ... 1, up to epsilon."""
    n = len(thresholds)
    return n >= 3 and np.allclose(thresholds, np.arange(n) / (n - 1), atol=epsilon())


def _only_top_k(y_pred: Any, k: int) -> Any:
    """Return predictions, with all but the k largest replaced by a very small number."""
    _, places = ops.top_k(y_pred, k)
    kept = ops.sum(ops.one_hot(places, y_pred.shape[-1], dtype=y_pred.dtype), axis=-2)
    return y_pred * kept + NEG_INF * (1.0 - kept)


def _weights(y_pred: Any, sample_weight: Any, label_weights: Any) -> Any:
    """Return the weight of each prediction in the state's dtype, or None."""
    weights = None
    if sample_weight is not None:
        weights = ops.broadcast_to(ops.cast(sample_weight, STATE_DTYPE), y_pred.shape)
    if label_weights is not None:
        of_label = ops.broadcast_to(ops.cast(label_weights, STATE_DTYPE), y_pred.shape)
        weights = of_label if weights is None else weights * of_label
    return weights


def _count_even(positive: Any, y_pred: Any, weights: Any, n: int, below_zero: bool) -> Any:
    """Return weighted counts (n, labels) of predictions above 0, 1/(n-1), ... 1.

    Both ``positive`` (whether a prediction counts) and ``y_pred`` are (samples, labels).
    Each prediction is put in its bucket; the counts are the buckets' sums from the end.
    """
    p = ops.minimum(ops.maximum(y_pred, 0.0), 1.0)
    bucket = ops.ceil(p * float(n - 1)) - 1.0
    if below_zero:  # the first threshold is below 0: a prediction of 0 is above it
        bucket = ops.maximum(bucket, 0.0)
    # a prediction of 0 is above no threshold: its bucket -1 is left out
    values = ops.cast(positive, STATE_DTYPE)
    values = values if weights is None else values * weights
    labels = y_pred.shape[1]
    place = ops.cast(bucket, "int32")
    inside = place >= 0
    place = place * labels + np.arange(labels, dtype="int32")
    place = ops.where(inside, place, n * labels)
    sums = ops.segment_sum(ops.reshape(values, (-1,)), ops.reshape(place, (-1,)), n * labels)
    sums = ops.reshape(sums, (n, labels))
    return ops.flip(ops.cumsum(ops.flip(sums, 0), axis=0), 0)


def _count(positive: Any, y_pred: Any, weights: Any, thresholds: np.ndarray) -> Any:
    """Return weighted counts (thresholds, labels) of predictions above thresholds."""
    above = ops.expand_dims(y_pred, 0) > thresholds.reshape(-1, 1, 1)
    hits = ops.cast(ops.logical_and(above, ops.expand_dims(positive, 0)), STATE_DTYPE)
    hits = hits if weights is None else hits * ops.expand_dims(weights, 0)
    return ops.sum(hits, axis=1)


def update_confusion(
    variables: Mapping[str, Variable],
    y_true: Any,
    y_pred: Any,
    thresholds: Sequence[float],
    dtype: str,
    sample_weight: Any = None,
    top_k: int | None = None,
    class_id: int | None = None,
    multi_label: bool = False,
    label_weights: Any = None,
    even: bool = False,
) -> None:
    """Add a batch to counts.

    Parameters
    ----------
    variables : dict of str to Variable
        By ``"tp"``, ``"fp"``, ``"tn"``, ``"fn"``; of shape (thresholds,), or (thresholds,
        labels) if ``multi_label``.
    y_true, y_pred : array_like
        A label is true unless it is 0.
    thresholds : sequence of float
    dtype : str
        In which predictions and thresholds are compared.
    sample_weight : array_like, optional
    top_k : int, optional
        Only the k largest predictions of a sample may be positive.
    class_id : int, optional
        Only that class counts.
    multi_label : bool
        Whether labels are counted one by one.
    label_weights : array_like, optional
    even : bool
        Whether the thresholds are evenly spaced: then the work doesn't grow with their
        number.
    """
    y_pred, y_true = squeeze_or_expand_to_same_rank(
        as_tensors(y_pred, dtype), as_tensors(y_true, dtype)
    )
    if tuple(y_pred.shape) != tuple(y_true.shape):
        raise ValueError(
            f"update_confusion: targets of shape {tuple(y_true.shape)} and predictions of "
            f"shape {tuple(y_pred.shape)} must have the same shape."
        )
    if sample_weight is not None:
        sample_weight = as_tensors(sample_weight, dtype)
        while len(sample_weight.shape) < len(y_pred.shape):
            sample_weight = ops.expand_dims(sample_weight, -1)
        if len(sample_weight.shape) > len(y_pred.shape):
            sample_weight = ops.squeeze(sample_weight, -1)
    if top_k is not None:
        y_pred = _only_top_k(y_pred, top_k)
    if class_id is not None:
        if len(y_pred.shape) == 1:
            raise ValueError(
                "When class_id is provided, y_pred must be a 2D array with shape "
                f"(num_samples, num_classes), found shape: {tuple(y_pred.shape)}"
            )
        y_true = y_true[..., class_id : class_id + 1]
        y_pred = y_pred[..., class_id : class_id + 1]
    weights = _weights(y_pred, sample_weight, label_weights)
    form = (y_pred.shape[0], -1) if multi_label else (-1, 1)
    y_pred = ops.reshape(y_pred, form)
    true = ops.reshape(ops.not_equal(y_true, 0.0), form)
    weights = None if weights is None else ops.reshape(weights, form)
    below_zero = thresholds[0] < 0

    def above(which: Any) -> Any:
        if even:
            return _count_even(which, y_pred, weights, len(thresholds), below_zero)
        return _count(which, y_pred, weights, np.asarray(thresholds, dtype))

    def everything(which: Any) -> Any:
        all_of = ops.cast(which, STATE_DTYPE)
        return ops.sum(all_of if weights is None else all_of * weights, axis=0)

    def add(kind: str, counts: Any) -> None:
        if kind in variables:
            variable = variables[kind]
            variable.assign(variable + ops.reshape(counts, variable.shape))

    if TRUE_POSITIVES in variables or FALSE_NEGATIVES in variables:
        tp = above(true)
        add(TRUE_POSITIVES, tp)
        add(FALSE_NEGATIVES, everything(true) - tp)
    if FALSE_POSITIVES in variables or TRUE_NEGATIVES in variables:
        false = ops.logical_not(true)
        fp = above(false)
        add(FALSE_POSITIVES, fp)
        add(TRUE_NEGATIVES, everything(false) - fp)


class _Counts(Metric):
    """Counts of some kinds at thresholds."""

    _kinds: dict[str, str] = {}  # attribute -> kind

    def __init__(
        self,
        thresholds: Any = None,
        top_k: int | None = None,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(name=name, dtype=dtype)
        self.init_thresholds = thresholds
        self.top_k = top_k
        self.class_id = class_id
        default = 0.5 if top_k is None else NEG_INF
        self.thresholds = parse_thresholds(type(self).__name__, thresholds, default)
        self._even = are_even(self.thresholds)
        for attribute in self._kinds:
            variable = self.add_variable((len(self.thresholds),), "zeros", name=attribute)
            setattr(self, attribute, variable)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take in a batch of targets and predictions."""
        update_confusion(
            {kind: getattr(self, attribute) for attribute, kind in self._kinds.items()},
            y_true,
            y_pred,
            self.thresholds,
            self.dtype,
            sample_weight,
            self.top_k,
            self.class_id,
            even=self._even,
        )

    def _one_or_all(self, result: Any) -> Any:
        return result[0] if len(self.thresholds) == 1 else result


class _Count(_Counts):
    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None):
        super().__init__(thresholds, name=name, dtype=dtype)

    def result(self) -> Any:
        """Return the counts; a scalar if there is one threshold."""
        return self._one_or_all(self.accumulator + 0.0)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "thresholds": self.init_thresholds}


class TruePositives(_Count):
    """Number of true labels predicted above a threshold.

    Parameters
    ----------
    thresholds : float or sequence of float, optional
        Default 0.5.
    name : str, optional
    dtype : str, optional
    """

    _kinds = {"accumulator": TRUE_POSITIVES}


class FalsePositives(_Count):
    """Number of false labels predicted above a threshold.

    Parameters
    ----------
    thresholds : float or sequence of float, optional
        Default 0.5.
    name : str, optional
    dtype : str, optional
    """

    _kinds = {"accumulator": FALSE_POSITIVES}


class TrueNegatives(_Count):
    """Number of false labels not predicted above a threshold.

    Parameters
    ----------
    thresholds : float or sequence of float, optional
        Default 0.5.
    name : str, optional
    dtype : str, optional
    """

    _kinds = {"accumulator": TRUE_NEGATIVES}


class FalseNegatives(_Count):
    """Number of true labels not predicted above a threshold.

    Parameters
    ----------
    thresholds : float or sequence of float, optional
        Default 0.5.
    name : str, optional
    dtype : str, optional
    """

    _kinds = {"accumulator": FALSE_NEGATIVES}


class _Ratio(_Counts):
    _direction = "up"

    def result(self) -> Any:
        """Return the ratio; a scalar if there is one threshold."""
        hits, misses = [getattr(self, attribute) for attribute in self._kinds]
        return self._one_or_all(divide_no_nan(hits.value, hits + misses))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "thresholds": self.init_thresholds,
            "top_k": self.top_k,
            "class_id": self.class_id,
        }


class Precision(_Ratio):
    """Part of the positive predictions that are true: tp / (tp + fp).

    Parameters
    ----------
    thresholds : float or sequence of float, optional
        A prediction above it is positive; default 0.5, or none with ``top_k``.
    top_k : int, optional
        Only the k largest predictions of a sample may be positive.
    class_id : int, optional
        Only that class counts.
    name : str, optional
    dtype : str, optional

    Examples
    --------
    >>> float(Precision()(np.array([0, 1, 1, 1]), np.array([1.0, 0.0, 1.0, 1.0])))
    0.6666666666666666
    """

    _kinds = {"true_positives": TRUE_POSITIVES, "false_positives": FALSE_POSITIVES}


class Recall(_Ratio):
    """Part of the true labels that are found: tp / (tp + fn).

    Parameters
    ----------
    thresholds : float or sequence of float, optional
        A prediction above it is positive; default 0.5, or none with ``top_k``.
    top_k : int, optional
        Only the k largest predictions of a sample may be positive.
    class_id : int, optional
        Only that class counts.
    name : str, optional
    dtype : str, optional
    """

    _kinds = {"true_positives": TRUE_POSITIVES, "false_negatives": FALSE_NEGATIVES}
