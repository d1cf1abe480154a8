"""Cross-entropies and divergences as metrics."""

from __future__ import annotations

from typing import Any

from uniflexflow.losses.probabilistic import (
    binary_crossentropy,
    categorical_crossentropy,
    kl_divergence,
    poisson,
    sparse_categorical_crossentropy,
)
from uniflexflow.metrics.reduction import MeanMetricWrapper


class KLDivergence(MeanMetricWrapper):
    """Mean Kullback-Leibler divergence.

    Parameters
    ----------
    name : str
    dtype : str, optional
    """

    _direction = "down"

    def __init__(self, name: str = "kl_divergence", dtype: Any = None):
        super().__init__(kl_divergence, name, dtype)


class Poisson(MeanMetricWrapper):
    """Mean Poisson loss.

    Parameters
    ----------
    name : str
    dtype : str, optional
    """

    _direction = "down"

    def __init__(self, name: str = "poisson", dtype: Any = None):
        super().__init__(poisson, name, dtype)


class BinaryCrossentropy(MeanMetricWrapper):
    """Mean cross-entropy of labels 0 and 1.

    Parameters
    ----------
    name : str
    dtype : str, optional
    from_logits : bool
    label_smoothing : float
    """

    _direction = "down"

    def __init__(
        self,
        name: str = "binary_crossentropy",
        dtype: Any = None,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
    ):
        super().__init__(
            binary_crossentropy,
            name,
            dtype,
            from_logits=from_logits,
            label_smoothing=label_smoothing,
        )


class CategoricalCrossentropy(MeanMetricWrapper):
    """Mean cross-entropy of one-hot labels.

    Parameters
    ----------
    name : str
    dtype : str, optional
    from_logits : bool
    label_smoothing : float
    axis : int
    """

    _direction = "down"

    def __init__(
        self,
        name: str = "categorical_crossentropy",
        dtype: Any = None,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
    ):
        super().__init__(
            categorical_crossentropy,
            name,
            dtype,
            from_logits=from_logits,
            label_smoothing=label_smoothing,
            axis=axis,
        )


class SparseCategoricalCrossentropy(MeanMetricWrapper):
    """Mean cross-entropy of integer labels.

    Parameters
    ----------
    name : str
    dtype : str, optional
    from_logits : bool
    ignore_class : int, optional
    axis : int
    """

    _direction = "down"

    def __init__(
        self,
        name: str = "sparse_categorical_crossentropy",
        dtype: Any = None,
        from_logits: bool = False,
        ignore_class: int | None = None,
        axis: int = -1,
    ):
        super().__init__(
            sparse_categorical_crossentropy,
            name,
            dtype,
            from_logits=from_logits,
            ignore_class=ignore_class,
            axis=axis,
        )
