"""Losses of labels and distributions against probabilities or logits."""

from __future__ import annotations

import warnings
from typing import Any

from numpy.typing import ArrayLike

from uniflexflow import ops
from uniflexflow.losses.loss import LossFunctionWrapper
from uniflexflow.losses.probabilities import (
    as_float,
    check_axis,
    check_same_shape,
    clip,
    clip_probability,
    smooth_binary,
    smooth_categorical,
)
from uniflexflow.losses.regression import pair
from uniflexflow.ops.dispatch import as_value, op
from uniflexflow.ops.dtypes import epsilon
from uniflexflow.ops.shape_rules import normalize_axis


@op
def kl_divergence(y_true: ArrayLike, y_pred: ArrayLike) -> Any:
    """Return sum(y_true * log(y_true / y_pred)) over the last axis."""
    y_true, y_pred = pair(y_true, y_pred)
    y_true, y_pred = clip(y_true, epsilon(), 1.0), clip(y_pred, epsilon(), 1.0)
    return ops.sum(y_true * ops.log(y_true / y_pred), axis=-1)


@op
def poisson(y_true: ArrayLike, y_pred: ArrayLike) -> Any:
    """Return mean(y_pred - y_true * log(y_pred)) over the last axis."""
    y_true, y_pred = pair(y_true, y_pred)
    return ops.mean(y_pred - y_true * ops.log(y_pred + epsilon()), axis=-1)


def _binary_terms(y_true: Any, y_pred: Any, from_logits: bool) -> Any:
    if from_logits:
        # -log(sigmoid(x)) = softplus(-x), -log(1 - sigmoid(x)) = softplus(x)
        return y_true * ops.softplus(-y_pred) + (1.0 - y_true) * ops.softplus(y_pred)
    p = clip_probability(y_pred)
    return -(y_true * ops.log(p) + (1.0 - y_true) * ops.log(1.0 - p))


@op
def binary_crossentropy(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Any:
    """Return mean(-y log(p) - (1 - y) log(1 - p)) over an axis.

    Parameters
    ----------
    y_true : array_like
        Labels 0 and 1, or probabilities.
    y_pred : array_like
        Probabilities p, or logits; same shape.
    from_logits : bool
        Whether p = sigmoid(y_pred).
    label_smoothing : float
        Labels y become y (1 - s) + s/2.
    axis : int
        Over which the mean is taken.

    Returns
    -------
    array_like
        Without that axis.

    Raises
    ------
    ValueError
        If the shapes differ.
    """
    y_pred = as_float(y_pred)
    y_true = ops.cast(y_true, y_pred.dtype)
    check_same_shape("binary_crossentropy", y_true, y_pred)
    y_true = smooth_binary(y_true, label_smoothing)
    return ops.mean(_binary_terms(y_true, y_pred, from_logits), axis=axis)


@op
def binary_focal_crossentropy(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    apply_class_balancing: bool = False,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Any:
    """Return the binary cross-entropy times (1 - p_t)**gamma, averaged over an axis.

    p_t is the probability given to the true class. With class balancing, true labels
    weigh alpha and false ones 1 - alpha.

    Parameters
    ----------
    y_true, y_pred : tensor
    apply_class_balancing : bool
    alpha, gamma : float
    from_logits : bool
        Whether ``y_pred`` are logits, not probabilities.
    label_smoothing : float
        Share by which the targets are moved towards one half.
    axis : int
    """
    y_pred = as_float(y_pred)
    y_true = ops.cast(y_true, y_pred.dtype)
    check_same_shape("binary_focal_crossentropy", y_true, y_pred)
    y_true = smooth_binary(y_true, label_smoothing)
    p = ops.sigmoid(y_pred) if from_logits else y_pred
    p_t = y_true * p + (1.0 - y_true) * (1.0 - p)
    focal = ops.power(1.0 - p_t, gamma) * _binary_terms(y_true, p, False)
    if apply_class_balancing:
        focal = (y_true * alpha + (1.0 - y_true) * (1.0 - alpha)) * focal
    return ops.mean(focal, axis=axis)


def _warn_of_one_class(name: str, y_pred: Any) -> None:
    if y_pred.shape and y_pred.shape[-1] == 1:
        warnings.warn(
            f"In loss {name}, expected y_pred.shape to be (batch_size, num_classes) "
            f"with num_classes > 1. Received: y_pred.shape={y_pred.shape}. "
            "Consider using 'binary_crossentropy' if you only have 2 classes.",
            SyntaxWarning,
            stacklevel=3,
        )


@op
def categorical_crossentropy(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Any:
    """Return -sum(y_true * log(p)) over the classes.

    Parameters
    ----------
    y_true : array_like
        One-hot labels, or a distribution.
    y_pred : array_like
        Probabilities p (divided by their sum first), or logits; same shape.
    from_logits : bool
        Whether p = softmax(y_pred).
    label_smoothing : float
        Labels y become y (1 - s) + s/num_classes.
    axis : int
        Of the classes.

    Returns
    -------
    array_like
        Without that axis.

    Raises
    ------
    ValueError
        If the shapes differ.
    """
    y_pred = as_float(y_pred)
    y_true = ops.cast(y_true, y_pred.dtype)
    axis = check_axis("categorical_crossentropy", axis, y_pred.ndim)
    check_same_shape("categorical_crossentropy", y_true, y_pred)
    _warn_of_one_class("categorical_crossentropy", y_pred)
    y_true = smooth_categorical(y_true, label_smoothing, axis)
    return ops.categorical_crossentropy(y_true, y_pred, from_logits, axis)


@op
def categorical_focal_crossentropy(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Any:
    """Return -sum(alpha * (1 - p)**gamma * y_true * log(p)) over the classes.

    Parameters
    ----------
    y_true, y_pred : tensor
    alpha, gamma : float
    from_logits : bool
        Whether ``y_pred`` are logits, not probabilities.
    label_smoothing : float
        Share of the targets that is moved to all classes alike.
    axis : int
        That of the classes.
    """
    y_pred = as_float(y_pred)
    y_true = ops.cast(y_true, y_pred.dtype)
    axis = check_axis("categorical_focal_crossentropy", axis, y_pred.ndim)
    check_same_shape("categorical_focal_crossentropy", y_true, y_pred)
    _warn_of_one_class("categorical_focal_crossentropy", y_pred)
    y_true = smooth_categorical(y_true, label_smoothing, axis)
    if from_logits:
        y_pred = ops.softmax(y_pred, axis)
    p = clip_probability(y_pred / ops.sum(y_pred, axis=axis, keepdims=True))
    focal = ops.power(1.0 - p, gamma) * alpha * (-y_true * ops.log(p))
    return ops.sum(focal, axis=axis)


def _labels(y_true: Any, y_pred: Any, axis: int) -> Any:
    """Return integer labels without the class axis."""
    y_true = as_value(y_true)
    if y_true.ndim == y_pred.ndim and y_true.shape[axis] == 1:
        y_true = ops.squeeze(y_true, axis)
    expected = tuple(n for i, n in enumerate(y_pred.shape) if i != axis)
    if y_true.shape != expected:
        raise ValueError(
            "sparse_categorical_crossentropy: the labels must have the shape of the "
            f"predictions without their class axis {axis}: received "
            f"y_true.shape={y_true.shape}, y_pred.shape={y_pred.shape}; expected "
            f"y_true.shape={expected}. For one-hot labels, use categorical_crossentropy."
        )
    return ops.cast(y_true, "int32") if y_true.dtype != "int64" else y_true


@op
def sparse_categorical_crossentropy(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    from_logits: bool = False,
    ignore_class: int | None = None,
    axis: int = -1,
) -> Any:
    """Return -log(p[label]).

    Parameters
    ----------
    y_true : array_like
        Integer labels: y_pred's shape without the class axis, or with a 1 there. A
        label outside of the classes, other than ``ignore_class``, has the loss NaN.
    y_pred : array_like
        Probabilities p (divided by their sum first), or logits.
    from_logits : bool
        Whether p = softmax(y_pred).
    ignore_class : int, optional
        A label whose samples have a loss of 0 and don't count in a mean.
    axis : int
        Of the classes.

    Returns
    -------
    array_like
        Without that axis.

    Raises
    ------
    ValueError
        If the shapes don't fit.
    """
    y_pred = as_float(y_pred)
    axis = check_axis("sparse_categorical_crossentropy", axis, y_pred.ndim)
    labels = _labels(y_true, y_pred, axis)
    if ignore_class is None:
        return ops.sparse_categorical_crossentropy(labels, y_pred, from_logits, axis)
    valid = ops.not_equal(labels, ignore_class)
    if not from_logits:  # what is ignored may have the sum 0
        y_pred = ops.where(ops.expand_dims(valid, axis), y_pred, 1.0)
    labels = ops.where(valid, labels, 0)
    loss = ops.sparse_categorical_crossentropy(labels, y_pred, from_logits, axis)
    return ops.where(valid, loss, 0.0)


def _valid_targets(
    y_true: Any,
    y_pred: Any,
    from_logits: bool = False,
    ignore_class: int | None = None,
    axis: int = -1,
) -> Any:
    if ignore_class is None:
        return None
    axis = normalize_axis("sparse_categorical_crossentropy", axis, len(y_pred.shape))
    if len(y_true.shape) == len(y_pred.shape) and y_true.shape[axis] == 1:
        y_true = ops.squeeze(y_true, axis)
    return ops.not_equal(y_true, ignore_class)


sparse_categorical_crossentropy.integer_targets = True
sparse_categorical_crossentropy.valid_targets = _valid_targets


@op
def categorical_generalized_cross_entropy(y_true: ArrayLike, y_pred: ArrayLike, q: float) -> Any:
    """Return (1 - p[label]**q) / q for integer labels: robust against wrong labels.

    Parameters
    ----------
    y_true : integer tensor
        Labels; one outside of the classes has the loss NaN.
    y_pred : tensor
        Probabilities along the last axis.
    q : float
        Near 0 it is the cross-entropy, at 1 the mean absolute error.
    """
    y_pred = as_float(y_pred)
    labels = _labels(y_true, y_pred, y_pred.ndim - 1)
    # a negative number is no class, though as an index it would count from the end
    place = ops.expand_dims(ops.where(labels < 0, y_pred.shape[-1], labels), -1)
    picked = ops.squeeze(ops.take_along_axis(y_pred, place, axis=-1), -1)
    return (1.0 - ops.power(picked, q)) / q


categorical_generalized_cross_entropy.integer_targets = True


class KLDivergence(LossFunctionWrapper):
    """Kullback-Leibler divergence of two distributions; see `kl_divergence`.

    Parameters
    ----------
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "kl_divergence",
        dtype: Any = None,
    ):
        super().__init__(kl_divergence, reduction, name, dtype)


class Poisson(LossFunctionWrapper):
    """Poisson loss of counts against rates; see `poisson`.

    Parameters
    ----------
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "poisson",
        dtype: Any = None,
    ):
        super().__init__(poisson, reduction, name, dtype)


class BinaryCrossentropy(LossFunctionWrapper):
    """Cross-entropy of labels 0 and 1; see `binary_crossentropy`.

    Parameters
    ----------
    from_logits : bool
    label_smoothing : float
    axis : int
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "binary_crossentropy",
        dtype: Any = None,
    ):
        super().__init__(
            binary_crossentropy,
            reduction,
            name,
            dtype,
            from_logits=from_logits,
            label_smoothing=label_smoothing,
            axis=axis,
        )


class BinaryFocalCrossentropy(LossFunctionWrapper):
    """Binary cross-entropy that looks away from easy samples.

    See `binary_focal_crossentropy`.

    Parameters
    ----------
    apply_class_balancing : bool
    alpha : float
    gamma : float
    from_logits : bool
    label_smoothing : float
    axis : int
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        apply_class_balancing: bool = False,
        alpha: float = 0.25,
        gamma: float = 2.0,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "binary_focal_crossentropy",
        dtype: Any = None,
    ):
        super().__init__(
            binary_focal_crossentropy,
            reduction,
            name,
            dtype,
            apply_class_balancing=apply_class_balancing,
            alpha=alpha,
            gamma=gamma,
            from_logits=from_logits,
            label_smoothing=label_smoothing,
            axis=axis,
        )


class CategoricalCrossentropy(LossFunctionWrapper):
    """Cross-entropy of one-hot labels; see `categorical_crossentropy`.

    Parameters
    ----------
    from_logits : bool
    label_smoothing : float
    axis : int
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "categorical_crossentropy",
        dtype: Any = None,
    ):
        super().__init__(
            categorical_crossentropy,
            reduction,
            name,
            dtype,
            from_logits=from_logits,
            label_smoothing=label_smoothing,
            axis=axis,
        )


class CategoricalFocalCrossentropy(LossFunctionWrapper):
    """Categorical cross-entropy that looks away from easy samples.

    See `categorical_focal_crossentropy`.

    Parameters
    ----------
    alpha : float
    gamma : float
    from_logits : bool
    label_smoothing : float
    axis : int
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        alpha: float = 0.25,
        gamma: float = 2.0,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "categorical_focal_crossentropy",
        dtype: Any = None,
    ):
        super().__init__(
            categorical_focal_crossentropy,
            reduction,
            name,
            dtype,
            alpha=alpha,
            gamma=gamma,
            from_logits=from_logits,
            label_smoothing=label_smoothing,
            axis=axis,
        )


class SparseCategoricalCrossentropy(LossFunctionWrapper):
    """Cross-entropy of integer labels; see `sparse_categorical_crossentropy`.

    Parameters
    ----------
    from_logits : bool
    ignore_class : int, optional
    reduction : str or None
    axis : int
    name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        from_logits: bool = False,
        ignore_class: int | None = None,
        reduction: str | None = "sum_over_batch_size",
        axis: int = -1,
        name: str | None = "sparse_categorical_crossentropy",
        dtype: Any = None,
    ):
        super().__init__(
            sparse_categorical_crossentropy,
            reduction,
            name,
            dtype,
            from_logits=from_logits,
            ignore_class=ignore_class,
            axis=axis,
        )


class CategoricalGeneralizedCrossEntropy(LossFunctionWrapper):
    """Between cross-entropy (q near 0) and absolute error (q near 1).

    See `categorical_generalized_cross_entropy`.

    Parameters
    ----------
    q : float
        In the interval (0, 1).
    reduction, name, dtype
        See `Loss`.
    """

    def __init__(
        self,
        q: float = 0.5,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "categorical_generalized_cross_entropy",
        dtype: Any = None,
    ):
        if not 0 < q < 1:
            raise ValueError(
                "CategoricalGeneralizedCrossEntropy: `q` must be in the interval (0, 1); "
                f"received {q!r}."
            )
        super().__init__(categorical_generalized_cross_entropy, reduction, name, dtype, q=q)
