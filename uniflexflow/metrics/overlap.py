"""How well sets of predictions and labels overlap: F-scores, intersection over union."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from uniflexflow import ops
from uniflexflow.losses.loss import as_tensors
from uniflexflow.metrics.metric import STATE_DTYPE, Metric
from uniflexflow.metrics.reduction import total
from uniflexflow.ops.dtypes import epsilon


class FBetaScore(Metric):
    """(1 + beta**2) * precision * recall / (beta**2 * precision + recall).

    Parameters
    ----------
    average : str or None
        How classes are joined: None (one score per class), ``"micro"``, ``"macro"`` or
        ``"weighted"``.
    beta : float
    threshold : float, optional
        A prediction above it is positive; None: the largest of a sample is.
    name : str
    dtype : str, optional
    """

    _direction = "up"
    _counts = ("true_positives", "false_positives", "false_negatives", "intermediate_weights")

    def __init__(
        self,
        average: str | None = None,
        beta: float = 1.0,
        threshold: float | None = None,
        name: str = "fbeta_score",
        dtype: Any = None,
    ):
        super().__init__(name=name, dtype=dtype)
        where = type(self).__name__
        if average not in (None, "micro", "macro", "weighted"):
            raise ValueError(
                f"{where}: invalid `average` argument value {average!r}; expected one of "
                "None, 'micro', 'macro', 'weighted'."
            )
        if not beta > 0:
            raise ValueError(f"{where}: `beta` should be > 0; received {beta!r}.")
        if threshold is not None and not 0 < threshold <= 1:
            raise ValueError(
                f"{where}: `threshold` should verify 0 < threshold <= 1; received {threshold!r}."
            )
        self.average = average
        self.beta = float(beta)
        self.threshold = threshold
        self._built = False

    def _build(self, shape: tuple[int, ...]) -> None:
        if len(shape) != 2:
            raise ValueError(
                f"{type(self).__name__}: expects 2D inputs with shape (batch_size, "
                f"output_dim); received shape {tuple(shape)}."
            )
        form = () if self.average == "micro" else shape[1:]
        for attribute in self._counts:
            setattr(self, attribute, self.add_variable(form, "zeros", name=attribute))
        self._built = True

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take in a batch of targets and predictions."""
        y_true, y_pred = as_tensors(y_true, self.dtype), as_tensors(y_pred, self.dtype)
        if not self._built:
            self._build(y_pred.shape)
        if self.threshold is None:
            largest = ops.max(y_pred, axis=-1, keepdims=True)
            positive = ops.logical_and(y_pred >= largest, ops.abs(y_pred) > 1e-9)
        else:
            positive = y_pred > self.threshold
        positive = ops.cast(positive, self.dtype)
        if sample_weight is not None:
            sample_weight = ops.expand_dims(as_tensors(sample_weight, self.dtype), 1)

        def add(attribute: str, hits: Any) -> None:
            hits = hits if sample_weight is None else hits * sample_weight
            variable = getattr(self, attribute)
            axis = None if self.average == "micro" else 0
            variable.assign(variable + total(hits, axis))

        add("true_positives", positive * y_true)
        add("false_positives", positive * (1.0 - y_true))
        add("false_negatives", (1.0 - positive) * y_true)
        add("intermediate_weights", y_true)

    def result(self) -> Any:
        """Return the score, or one per class."""
        if not self._built:
            raise ValueError(f"{type(self).__name__}: there is no result before the first batch.")
        tp = self.true_positives.value
        precision = tp / (tp + self.false_positives + epsilon())
        recall = tp / (tp + self.false_negatives + epsilon())
        square = self.beta * self.beta
        score = precision * recall / (square * precision + recall + epsilon()) * (1.0 + square)
        if self.average == "weighted":
            weights = self.intermediate_weights.value
            return ops.sum(score * (weights / (ops.sum(weights) + epsilon())))
        return score if self.average is None else ops.mean(score)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "average": self.average,
            "beta": self.beta,
            "threshold": self.threshold,
        }


class F1Score(FBetaScore):
    """2 * precision * recall / (precision + recall).

    Parameters
    ----------
    average : str or None
        How classes are joined: None (one score per class), ``"micro"``, ``"macro"`` or
        ``"weighted"``.
    threshold : float, optional
        A prediction above it is positive; None: the largest of a sample is.
    name : str
    dtype : str, optional
    """

    def __init__(
        self,
        average: str | None = None,
        threshold: float | None = None,
        name: str = "f1_score",
        dtype: Any = None,
    ):
        super().__init__(average, 1.0, threshold, name, dtype)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config = super().get_config()
        del config["beta"]
        return config


class IoU(Metric):
    """Mean over some classes of intersection / union of predicted and true regions.

    Parameters
    ----------
    num_classes : int
    target_class_ids : sequence of int
        The classes that count.
    name : str, optional
    dtype : str, optional
    ignore_class : int, optional
        A label whose places don't count.
    sparse_y_true, sparse_y_pred : bool
        Whether they are class numbers; otherwise the largest along ``axis`` is taken.
    axis : int
    """

    _direction = "up"

    def __init__(
        self,
        num_classes: int,
        target_class_ids: Sequence[int],
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_true: bool = True,
        sparse_y_pred: bool = True,
        axis: int = -1,
    ):
        super().__init__(name=name, dtype=dtype)
        if max(target_class_ids) >= num_classes:
            raise ValueError(
                f"{type(self).__name__}: target class id {max(target_class_ids)} is out of "
                f"range, which is [0, {num_classes})."
            )
        self.num_classes = num_classes
        self.target_class_ids = list(target_class_ids)
        self.ignore_class = ignore_class
        self.sparse_y_true = sparse_y_true
        self.sparse_y_pred = sparse_y_pred
        self.axis = axis
        self.total_cm = self.add_variable(
            (num_classes, num_classes), "zeros", name="total_confusion_matrix"
        )

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take in a batch of targets and predictions."""
        y_true, y_pred = as_tensors(y_true), as_tensors(y_pred)
        if not self.sparse_y_true:
            y_true = ops.argmax(y_true, axis=self.axis)
        if not self.sparse_y_pred:
            y_pred = ops.argmax(y_pred, axis=self.axis)
        y_true = ops.cast(ops.reshape(y_true, (-1,)), "int32")
        y_pred = ops.cast(ops.reshape(y_pred, (-1,)), "int32")
        n = self.num_classes
        if sample_weight is None:
            weight = np.ones(y_true.shape, STATE_DTYPE)
        else:
            weight = as_tensors(sample_weight, STATE_DTYPE)
            if len(weight.shape) > 1:
                weight = ops.reshape(weight, (-1,))
            weight = ops.broadcast_to(weight, y_true.shape)
        inside = ops.logical_and(
            ops.logical_and(y_true >= 0, y_true < n), ops.logical_and(y_pred >= 0, y_pred < n)
        )
        if self.ignore_class is not None:
            inside = ops.logical_and(inside, ops.not_equal(y_true, self.ignore_class))
        place = ops.where(inside, y_true * n + y_pred, n * n)
        counts = ops.reshape(ops.segment_sum(weight, place, n * n), (n, n))
        self.total_cm.assign(self.total_cm + counts)

    def result(self) -> Any:
        """Return the mean over those classes that occur."""
        matrix = self.total_cm.value
        hits = ops.sum(matrix * np.eye(self.num_classes), axis=0)
        union = ops.sum(matrix, axis=0) + ops.sum(matrix, axis=1) - hits
        wanted = np.isin(np.arange(self.num_classes), self.target_class_ids)
        occurs = ops.logical_and(union > 1e-9, wanted)
        iou = ops.where(occurs, hits / (union + epsilon()), 0.0)
        return ops.sum(iou) / (ops.sum(ops.cast(occurs, STATE_DTYPE)) + epsilon())

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "target_class_ids": self.target_class_ids,
            "ignore_class": self.ignore_class,
            "sparse_y_true": self.sparse_y_true,
            "sparse_y_pred": self.sparse_y_pred,
            "axis": self.axis,
        }


class MeanIoU(IoU):
    """Mean over all classes of intersection / union.

    Parameters
    ----------
    num_classes : int
    name : str, optional
    dtype : str, optional
    ignore_class : int, optional
    sparse_y_true, sparse_y_pred : bool
    axis : int
        See `IoU`.

    Examples
    --------
    >>> metric = MeanIoU(num_classes=2)
    >>> round(float(metric(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))), 5)
    0.33333
    """

    def __init__(
        self,
        num_classes: int,
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_true: bool = True,
        sparse_y_pred: bool = True,
        axis: int = -1,
    ):
        super().__init__(
            num_classes,
            range(num_classes),
            name,
            dtype,
            ignore_class,
            sparse_y_true,
            sparse_y_pred,
            axis,
        )

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config = super().get_config()
        del config["target_class_ids"]
        return config


class OneHotIoU(IoU):
    """IoU of one-hot labels.

    Parameters
    ----------
    num_classes : int
    target_class_ids : sequence of int
    name : str, optional
    dtype : str, optional
    ignore_class : int, optional
    sparse_y_pred : bool
    axis : int
        See `IoU`.
    """

    def __init__(
        self,
        num_classes: int,
        target_class_ids: Sequence[int],
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_pred: bool = False,
        axis: int = -1,
    ):
        super().__init__(
            num_classes, target_class_ids, name, dtype, ignore_class, False, sparse_y_pred, axis
        )

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config = super().get_config()
        del config["sparse_y_true"]
        return config


class OneHotMeanIoU(MeanIoU):
    """MeanIoU of one-hot labels.

    Parameters
    ----------
    num_classes : int
    name : str, optional
    dtype : str, optional
    ignore_class : int, optional
    sparse_y_pred : bool
    axis : int
        See `IoU`.
    """

    def __init__(
        self,
        num_classes: int,
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_pred: bool = False,
        axis: int = -1,
    ):
        super().__init__(num_classes, name, dtype, ignore_class, False, sparse_y_pred, axis)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config = super().get_config()
        del config["sparse_y_true"]
        return config


class BinaryIoU(IoU):
    """IoU of two classes, from predictions cut at a threshold.

    Parameters
    ----------
    target_class_ids : sequence of int
    threshold : float
    name : str, optional
    dtype : str, optional
    """

    def __init__(
        self,
        target_class_ids: Sequence[int] = (0, 1),
        threshold: float = 0.5,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(2, target_class_ids, name, dtype)
        self.threshold = threshold

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take in a batch of targets and predictions."""
        positive = ops.cast(as_tensors(y_pred, self.dtype) >= self.threshold, "int32")
        super().update_state(y_true, positive, sample_weight)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            **Metric.get_config(self),
            "target_class_ids": self.target_class_ids,
            "threshold": self.threshold,
        }
