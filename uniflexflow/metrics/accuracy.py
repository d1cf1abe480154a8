"""How often predictions are right."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from uniflexflow import ops
from uniflexflow.losses.loss import squeeze_or_expand_to_same_rank
from uniflexflow.metrics.reduction import MeanMetricWrapper
from uniflexflow.ops.dispatch import as_value, op
from uniflexflow.ops.dtypes import floatx, is_float


def _hits(matches: Any) -> Any:
    return ops.cast(matches, floatx())


@op
def accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> Any:
    """Say where y_true == y_pred: 1 or 0.

    Examples
    --------
    >>> import numpy as np
    >>> accuracy(np.array([1, 2]), np.array([1, 3])).tolist()
    [1.0, 0.0]
    """
    y_true, y_pred = squeeze_or_expand_to_same_rank(as_value(y_true), as_value(y_pred))
    return _hits(ops.equal(ops.cast(y_true, y_pred.dtype), y_pred))


@op
def binary_accuracy(y_true: ArrayLike, y_pred: ArrayLike, threshold: float = 0.5) -> Any:
    """Say where y_true == (y_pred > threshold): 1 or 0.

    Parameters
    ----------
    y_true, y_pred : tensor
    threshold : float
    """
    y_true, y_pred = squeeze_or_expand_to_same_rank(as_value(y_true), as_value(y_pred))
    return _hits(ops.equal(y_true, ops.cast(y_pred > threshold, y_true.dtype)))


@op
def categorical_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> Any:
    """Say where the largest of y_true and of y_pred are at the same place: 1 or 0."""
    return _hits(ops.equal(ops.argmax(y_true, axis=-1), ops.argmax(y_pred, axis=-1)))


def _labels(y_true: Any, y_pred: Any) -> Any:
    y_true = as_value(y_true)
    if y_true.ndim == y_pred.ndim and y_true.shape[-1] == 1:
        y_true = ops.squeeze(y_true, -1)
    return y_true


@op
def sparse_categorical_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> Any:
    """Say where the largest of y_pred is at the label's place: 1 or 0."""
    y_pred = as_value(y_pred)
    y_true = _labels(y_true, y_pred)
    best = ops.argmax(y_pred, axis=-1)
    matches = _hits(
        ops.equal(y_true, ops.cast(best, y_true.dtype) if is_float(y_true.dtype) else best)
    )
    if matches.ndim > 1 and matches.shape[-1] == 1:
        matches = ops.squeeze(matches, -1)
    return matches


@op
def top_k_categorical_accuracy(y_true: ArrayLike, y_pred: ArrayLike, k: int = 5) -> Any:
    """Say where the largest of y_true is among the k largest of y_pred: 1 or 0.

    Parameters
    ----------
    y_true, y_pred : tensor
    k : int
    """
    return _hits(ops.in_top_k(ops.argmax(y_true, axis=-1), y_pred, k))


@op
def sparse_top_k_categorical_accuracy(
    y_true: ArrayLike, y_pred: ArrayLike, k: int = 5, from_sorted_ids: bool = False
) -> Any:
    """Say where the label is among the k largest of y_pred: 1 or 0.

    With ``from_sorted_ids``, y_pred has class numbers instead, the best first.

    Parameters
    ----------
    y_true : integer tensor
        Labels.
    y_pred : tensor
    k : int
    from_sorted_ids : bool
    """
    y_pred = as_value(y_pred)
    y_true = _labels(y_true, y_pred)
    if from_sorted_ids:
        first = y_pred[..., :k]
        labels = ops.expand_dims(ops.cast(y_true, y_pred.dtype), -1)
        return _hits(ops.any(ops.equal(labels, first), axis=-1))
    return _hits(ops.in_top_k(ops.cast(y_true, "int32"), y_pred, k))


class Accuracy(MeanMetricWrapper):
    """How often predictions equal labels.

    Parameters
    ----------
    name : str
    dtype : str, optional

    Examples
    --------
    >>> import numpy as np
    >>> float(Accuracy()(np.array([1, 2, 3, 4]), np.array([0, 2, 3, 4])))
    0.75
    """

    _direction = "up"

    def __init__(self, name: str = "accuracy", dtype: Any = None):
        super().__init__(accuracy, name, dtype)


class BinaryAccuracy(MeanMetricWrapper):
    """How often predictions, cut at a threshold, equal labels 0 and 1.

    Parameters
    ----------
    name : str
    dtype : str, optional
    threshold : float
    """

    _direction = "up"

    def __init__(self, name: str = "binary_accuracy", dtype: Any = None, threshold: float = 0.5):
        super().__init__(binary_accuracy, name, dtype, threshold=threshold)


class CategoricalAccuracy(MeanMetricWrapper):
    """How often the likeliest class is that of a one-hot label.

    Parameters
    ----------
    name : str
    dtype : str, optional
    """

    _direction = "up"

    def __init__(self, name: str = "categorical_accuracy", dtype: Any = None):
        super().__init__(categorical_accuracy, name, dtype)


class SparseCategoricalAccuracy(MeanMetricWrapper):
    """How often the likeliest class is that of an integer label.

    Parameters
    ----------
    name : str
    dtype : str, optional
    """

    _direction = "up"

    def __init__(self, name: str = "sparse_categorical_accuracy", dtype: Any = None):
        super().__init__(sparse_categorical_accuracy, name, dtype)


class TopKCategoricalAccuracy(MeanMetricWrapper):
    """How often a one-hot label's class is among the k likeliest.

    Parameters
    ----------
    k : int
    name : str
    dtype : str, optional
    """

    _direction = "up"

    def __init__(self, k: int = 5, name: str = "top_k_categorical_accuracy", dtype: Any = None):
        super().__init__(top_k_categorical_accuracy, name, dtype, k=k)


class SparseTopKCategoricalAccuracy(MeanMetricWrapper):
    """How often an integer label's class is among the k likeliest.

    Parameters
    ----------
    k : int
    name : str
    dtype : str, optional
    from_sorted_ids : bool
        Whether predictions are class numbers, the best first.
    """

    _direction = "up"

    def __init__(
        self,
        k: int = 5,
        name: str = "sparse_top_k_categorical_accuracy",
        dtype: Any = None,
        from_sorted_ids: bool = False,
    ):
        super().__init__(
            sparse_top_k_categorical_accuracy,
            name,
            dtype,
            k=k,
            from_sorted_ids=from_sorted_ids,
        )
