"""Areas under curves over all thresholds, and points on those curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from uniflexflow import ops
from uniflexflow.losses.loss import divide_no_nan
from uniflexflow.metrics.confusion import (
    FALSE_NEGATIVES,
    FALSE_POSITIVES,
    TRUE_NEGATIVES,
    TRUE_POSITIVES,
    are_even,
    update_confusion,
)
from uniflexflow.metrics.metric import STATE_DTYPE, Metric
from uniflexflow.ops.dtypes import epsilon

_KINDS = {
    "true_positives": TRUE_POSITIVES,
    "false_positives": FALSE_POSITIVES,
    "true_negatives": TRUE_NEGATIVES,
    "false_negatives": FALSE_NEGATIVES,
}


def _inner_thresholds(n: int) -> list[float]:
    return [(i + 1) * 1.0 / (n - 1) for i in range(n - 2)]


def _one_of(where: str, name: str, value: Any, choices: tuple[str, ...]) -> str:
    for choice in choices:
        if str(value).lower() == choice.lower():
            return choice
    raise ValueError(
        f"{where}: invalid value for argument `{name}`: {value!r}; expected one of {choices}."
    )


class AUC(Metric):
    """Area under the ROC or precision-recall curve, by a sum over thresholds.

    Parameters
    ----------
    num_thresholds : int
    curve : str
        ``"ROC"``, ``"PR"`` or ``"PRGAIN"``.
    summation_method : str
        ``"interpolation"``, ``"minoring"`` or ``"majoring"``.
    name : str, optional
    dtype : str, optional
    thresholds : sequence of float, optional
        Instead of ``num_thresholds`` even ones; 0 and 1 are added.
    multi_label : bool
        Whether to average the areas of the labels instead of joining their predictions.
    num_labels : int, optional
        To make the state of ``multi_label`` at once.
    label_weights : sequence of float, optional
    from_logits : bool

    Examples
    --------
    >>> auc = AUC(num_thresholds=3)
    >>> round(float(auc(np.array([0, 0, 1, 1]), np.array([0, 0.5, 0.3, 0.9]))), 6)
    0.75
    """

    _direction = "up"

    def __init__(
        self,
        num_thresholds: int = 200,
        curve: str = "ROC",
        summation_method: str = "interpolation",
        name: str | None = None,
        dtype: Any = None,
        thresholds: Sequence[float] | None = None,
        multi_label: bool = False,
        num_labels: int | None = None,
        label_weights: Sequence[float] | None = None,
        from_logits: bool = False,
    ):
        super().__init__(name=name, dtype=dtype)
        self.curve = _one_of("AUC", "curve", curve, ("ROC", "PR", "PRGAIN"))
        self.summation_method = _one_of(
            "AUC", "summation_method", summation_method, ("interpolation", "minoring", "majoring")
        )
        self._given_thresholds = None if thresholds is None else sorted(thresholds)
        if thresholds is None:
            if num_thresholds <= 1:
                raise ValueError(
                    "AUC: argument `num_thresholds` must be an integer > 1; received "
                    f"num_thresholds={num_thresholds}."
                )
            inner = _inner_thresholds(num_thresholds)
        else:
            inner = list(self._given_thresholds)
            if any(not 0 <= t <= 1 for t in inner):
                raise ValueError(f"AUC: threshold values must be in [0, 1]; received {inner}.")
        self._even = are_even([0.0, *inner, 1.0])
        self._thresholds = np.array([-epsilon(), *inner, 1.0 + epsilon()])
        self.num_thresholds = len(self._thresholds)
        self.multi_label = multi_label
        self.num_labels = num_labels
        self.label_weights = None if label_weights is None else np.asarray(label_weights, float)
        self.from_logits = from_logits
        self._built = False
        if not multi_label:
            if num_labels:
                raise ValueError(
                    "AUC: `num_labels` is needed only when `multi_label` is True; received "
                    f"num_labels={num_labels}."
                )
            self._build(())
        elif num_labels:
            self._build((num_labels,))

    @property
    def thresholds(self) -> list[float]:
        """All thresholds, those below 0 and above 1 included."""
        return self._thresholds.tolist()

    def _build(self, labels: tuple[int, ...]) -> None:
        for attribute in _KINDS:
            shape = (self.num_thresholds, *labels)
            setattr(self, attribute, self.add_variable(shape, "zeros", name=attribute))
        self._built = True

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take in a batch of targets and predictions."""
        if not self._built:
            if len(y_pred.shape) != 2:
                raise ValueError(
                    "AUC: `y_pred` must have rank 2 when `multi_label=True`; received shape "
                    f"{tuple(y_pred.shape)}."
                )
            self._build((y_pred.shape[1],))
        update_confusion(
            {kind: getattr(self, attribute) for attribute, kind in _KINDS.items()},
            y_true,
            ops.sigmoid(y_pred) if self.from_logits else y_pred,
            self._thresholds,
            self.dtype,
            sample_weight,
            multi_label=self.multi_label,
            label_weights=None if self.multi_label else self.label_weights,
            even=self._even,
        )

    def _area(self, terms: Any) -> Any:
        if not self.multi_label:
            return ops.sum(terms)
        by_label = ops.sum(terms, axis=0)
        if self.label_weights is None:
            return ops.mean(by_label)
        weights = self.label_weights.astype(STATE_DTYPE)
        return divide_no_nan(ops.sum(by_label * weights), float(weights.sum()))

    def _interpolated_precision_recall(self) -> Any:
        # Davis & Goadrich 2006: precision is not linear between two points of the curve
        tp, fn = self.true_positives.value, self.false_negatives.value
        p = tp + self.false_positives
        dtp = tp[:-1] - tp[1:]
        slope = divide_no_nan(dtp, ops.maximum(p[:-1] - p[1:], 0.0))
        intercept = tp[1:] - slope * p[1:]
        both = ops.logical_and(p[:-1] > 0, p[1:] > 0)
        ratio = divide_no_nan(p[:-1], ops.maximum(p[1:], 0.0))
        ratio = ops.where(both, ratio, 1.0)
        positives = ops.maximum(tp[1:] + fn[1:], 0.0)
        return self._area(divide_no_nan(slope * (dtp + intercept * ops.log(ratio)), positives))

    def _curve(self) -> tuple[Any, Any]:
        tp, fp = self.true_positives.value, self.false_positives.value
        tn, fn = self.true_negatives.value, self.false_negatives.value
        recall = divide_no_nan(tp, tp + fn)
        if self.curve == "ROC":
            return divide_no_nan(fp, fp + tn), recall
        if self.curve == "PR":
            return recall, divide_no_nan(tp, tp + fp)
        scale = divide_no_nan(tp + fn, tn + fp)
        recall_gain = 1.0 - scale * divide_no_nan(fn, tp)
        precision_gain = 1.0 - scale * divide_no_nan(fp, tp)
        none = ops.equal(tp, 0.0)
        recall_gain = ops.maximum(ops.where(none, 0.0, recall_gain), 0.0)
        return recall_gain, ops.where(none, 1.0, precision_gain)

    def result(self) -> Any:
        """Return the area."""
        if not self._built:
            raise ValueError("AUC: there is no result before the first batch.")
        if self.curve == "PR" and self.summation_method == "interpolation":
            return self._interpolated_precision_recall()
        x, y = self._curve()
        if self.summation_method == "interpolation":
            heights = (y[:-1] + y[1:]) / 2.0
        elif self.summation_method == "minoring":
            heights = ops.minimum(y[:-1], y[1:])
        else:
            heights = ops.maximum(y[:-1], y[1:])
        return self._area((x[:-1] - x[1:]) * heights)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        weights = self.label_weights
        config = {
            **super().get_config(),
            "num_thresholds": self.num_thresholds,
            "curve": self.curve,
            "summation_method": self.summation_method,
            "multi_label": self.multi_label,
            "num_labels": self.num_labels,
            "label_weights": None if weights is None else weights.tolist(),
            "from_logits": self.from_logits,
        }
        if self._given_thresholds is not None:
            config["thresholds"] = self._given_thresholds
        return config


class _AtBound(Metric):
    """The best of one ratio at the thresholds where another is at least a bound."""

    _direction = "up"
    _bound = ""  # name of the constructor's argument

    def __init__(
        self,
        value: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(name=name, dtype=dtype)
        where = type(self).__name__
        if not 0 <= value <= 1:
            raise ValueError(
                f"{where}: argument `{self._bound}` must be in the range [0, 1]; received "
                f"{value!r}."
            )
        if num_thresholds <= 0:
            raise ValueError(
                f"{where}: argument `num_thresholds` must be an integer > 0; received "
                f"{num_thresholds!r}."
            )
        self.value = value
        self.num_thresholds = num_thresholds
        self.class_id = class_id
        if num_thresholds == 1:
            self.thresholds = [0.5]
        else:
            self.thresholds = [0.0, *_inner_thresholds(num_thresholds), 1.0]
        self._even = are_even(self.thresholds)
        for attribute in _KINDS:
            shape = (len(self.thresholds),)
            setattr(self, attribute, self.add_variable(shape, "zeros", name=attribute))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take in a batch of targets and predictions."""
        update_confusion(
            {kind: getattr(self, attribute) for attribute, kind in _KINDS.items()},
            y_true,
            y_pred,
            self.thresholds,
            self.dtype,
            sample_weight,
            class_id=self.class_id,
            even=self._even,
        )

    def _rate(self, hits: str, misses: str) -> Any:
        hits, misses = getattr(self, hits).value, getattr(self, misses).value
        return divide_no_nan(hits, hits + misses)

    def _best(self, bounded: Any, wanted: Any) -> Any:
        return ops.maximum(ops.max(ops.where(bounded >= self.value, wanted, 0.0)), 0.0)

    def _sensitivity(self) -> Any:
        return self._rate("true_positives", "false_negatives")

    def _specificity(self) -> Any:
        return self._rate("true_negatives", "false_positives")

    def _precision(self) -> Any:
        return self._rate("true_positives", "false_positives")

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            self._bound: self.value,
            "num_thresholds": self.num_thresholds,
            "class_id": self.class_id,
        }


class SensitivityAtSpecificity(_AtBound):
    """Best sensitivity tp / (tp + fn) where the specificity is at least a value.

    Parameters
    ----------
    specificity : float
    num_thresholds : int
    class_id : int, optional
    name : str, optional
    dtype : str, optional
    """

    _bound = "specificity"

    def __init__(
        self,
        specificity: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(specificity, num_thresholds, class_id, name, dtype)

    def result(self) -> Any:
        """Return the best sensitivity."""
        return self._best(self._specificity(), self._sensitivity())


class SpecificityAtSensitivity(_AtBound):
    """Best specificity tn / (tn + fp) where the sensitivity is at least a value.

    Parameters
    ----------
    sensitivity : float
    num_thresholds : int
    class_id : int, optional
    name : str, optional
    dtype : str, optional
    """

    _bound = "sensitivity"

    def __init__(
        self,
        sensitivity: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(sensitivity, num_thresholds, class_id, name, dtype)

    def result(self) -> Any:
        """Return the best specificity."""
        return self._best(self._sensitivity(), self._specificity())


class PrecisionAtRecall(_AtBound):
    """Best precision tp / (tp + fp) where the recall is at least a value.

    Parameters
    ----------
    recall : float
    num_thresholds : int
    class_id : int, optional
    name : str, optional
    dtype : str, optional
    """

    _bound = "recall"

    def __init__(
        self,
        recall: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(recall, num_thresholds, class_id, name, dtype)

    def result(self) -> Any:
        """Return the best precision."""
        return self._best(self._sensitivity(), self._precision())


class RecallAtPrecision(_AtBound):
    """Best recall tp / (tp + fn) where the precision is at least a value.

    Parameters
    ----------
    precision : float
    num_thresholds : int
    class_id : int, optional
    name : str, optional
    dtype : str, optional
    """

    _bound = "precision"

    def __init__(
        self,
        precision: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(precision, num_thresholds, class_id, name, dtype)

    def result(self) -> Any:
        """Return the best recall."""
        return self._best(self._precision(), self._sensitivity())
