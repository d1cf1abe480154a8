"""``uff.losses``: how far predictions are from targets.

A function gives one value per sample; a class wraps it with weights, masks and a
reduction. ``get`` finds either by its name.
"""

from __future__ import annotations

import inspect
from typing import Any

from uniflexflow.losses import probabilistic, regression, segmentation
from uniflexflow.losses.loss import Loss, LossFunctionWrapper
from uniflexflow.losses.probabilistic import (
    BinaryCrossentropy,
    BinaryFocalCrossentropy,
    CategoricalCrossentropy,
    CategoricalFocalCrossentropy,
    CategoricalGeneralizedCrossEntropy,
    KLDivergence,
    Poisson,
    SparseCategoricalCrossentropy,
    binary_crossentropy,
    binary_focal_crossentropy,
    categorical_crossentropy,
    categorical_focal_crossentropy,
    categorical_generalized_cross_entropy,
    kl_divergence,
    poisson,
    sparse_categorical_crossentropy,
)
from uniflexflow.losses.regression import (
    CategoricalHinge,
    CosineSimilarity,
    Hinge,
    Huber,
    LogCosh,
    MeanAbsoluteError,
    MeanAbsolutePercentageError,
    MeanSquaredError,
    MeanSquaredLogarithmicError,
    SquaredHinge,
    categorical_hinge,
    cosine_similarity,
    hinge,
    huber,
    log_cosh,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    mean_squared_logarithmic_error,
    squared_hinge,
)
from uniflexflow.losses.segmentation import Dice, Tversky, dice, tversky

__all__ = [
    "BinaryCrossentropy",
    "BinaryFocalCrossentropy",
    "CategoricalCrossentropy",
    "CategoricalFocalCrossentropy",
    "CategoricalGeneralizedCrossEntropy",
    "CategoricalHinge",
    "CosineSimilarity",
    "Dice",
    "Hinge",
    "Huber",
    "KLDivergence",
    "LogCosh",
    "Loss",
    "LossFunctionWrapper",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanSquaredError",
    "MeanSquaredLogarithmicError",
    "Poisson",
    "SparseCategoricalCrossentropy",
    "SquaredHinge",
    "Tversky",
    "binary_crossentropy",
    "binary_focal_crossentropy",
    "categorical_crossentropy",
    "categorical_focal_crossentropy",
    "categorical_generalized_cross_entropy",
    "categorical_hinge",
    "cosine_similarity",
    "deserialize",
    "dice",
    "get",
    "hinge",
    "huber",
    "kl_divergence",
    "log_cosh",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_squared_error",
    "mean_squared_logarithmic_error",
    "poisson",
    "serialize",
    "sparse_categorical_crossentropy",
    "squared_hinge",
    "tversky",
]

#: All classes and functions by name, and the short names.
OBJECTS: dict[str, Any] = {
    name: thing
    for module in (regression, probabilistic, segmentation)
    for name, thing in vars(module).items()
    if name in __all__
}
_ALIASES = {
    "bce": binary_crossentropy,
    "kld": kl_divergence,
    "mae": mean_absolute_error,
    "mse": mean_squared_error,
    "mape": mean_absolute_percentage_error,
    "msle": mean_squared_logarithmic_error,
}
OBJECTS.update(_ALIASES)
OBJECTS.update({name.upper(): fn for name, fn in _ALIASES.items()})


def serialize(loss: Any) -> Any:
    """Return a loss as plain data.

    Examples
    --------
    >>> serialize(Huber(delta=2.0))["config"]["delta"]
    2.0
    """
    from uniflexflow.saving.serialization import serialize_keras_object

    return serialize_keras_object(loss)


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """Make a loss from its name or from ``serialize``'s result.

    Parameters
    ----------
    config : str or dict
    custom_objects : dict, optional
        Classes and functions by name, besides the built-in ones.

    Raises
    ------
    ValueError
        If there is no loss of that name.
    """
    from uniflexflow.saving.registry import get_registered_object
    from uniflexflow.saving.serialization import deserialize_keras_object

    if not isinstance(config, str):
        return deserialize_keras_object({"module": "keras.losses", **config}, custom_objects)
    loss = get_registered_object(config, custom_objects) or OBJECTS.get(config)
    if loss is None:
        raise ValueError(f"Unknown loss {config!r}; expected one of {', '.join(sorted(OBJECTS))}.")
    return loss


def get(identifier: Any) -> Any:
    """Return a loss by its name, its config, or itself.

    Parameters
    ----------
    identifier : str, dict, Loss, callable or None

    Returns
    -------
    Loss or callable or None

    Raises
    ------
    ValueError
        If there is no such loss.

    Examples
    --------
    >>> get("mse").__name__
    'mean_squared_error'
    >>> get("MeanSquaredError").name
    'mean_squared_error'
    """
    if identifier is None:
        return None
    loss = deserialize(identifier) if isinstance(identifier, (str, dict)) else identifier
    if inspect.isclass(loss):
        loss = loss()
    if callable(loss):
        return loss
    raise ValueError(f"Could not interpret loss identifier: {identifier!r}")
