"""``uff.metrics``: numbers gathered over batches, to watch a training by."""

from __future__ import annotations

import inspect
from typing import Any

from uniflexflow.losses.probabilistic import (
    binary_crossentropy,
    binary_focal_crossentropy,
    categorical_crossentropy,
    categorical_focal_crossentropy,
    kl_divergence,
    poisson,
    sparse_categorical_crossentropy,
)
from uniflexflow.losses.regression import (
    categorical_hinge,
    hinge,
    huber,
    log_cosh,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    mean_squared_logarithmic_error,
    squared_hinge,
)
from uniflexflow.metrics.accuracy import (
    Accuracy,
    BinaryAccuracy,
    CategoricalAccuracy,
    SparseCategoricalAccuracy,
    SparseTopKCategoricalAccuracy,
    TopKCategoricalAccuracy,
    accuracy,
    binary_accuracy,
    categorical_accuracy,
    sparse_categorical_accuracy,
    sparse_top_k_categorical_accuracy,
    top_k_categorical_accuracy,
)
from uniflexflow.metrics.auc import (
    AUC,
    PrecisionAtRecall,
    RecallAtPrecision,
    SensitivityAtSpecificity,
    SpecificityAtSensitivity,
)
from uniflexflow.metrics.confusion import (
    FalseNegatives,
    FalsePositives,
    Precision,
    Recall,
    TrueNegatives,
    TruePositives,
)
from uniflexflow.metrics.metric import (
    Metric,
)
from uniflexflow.metrics.overlap import (
    BinaryIoU,
    F1Score,
    FBetaScore,
    IoU,
    MeanIoU,
    OneHotIoU,
    OneHotMeanIoU,
)
from uniflexflow.metrics.probabilistic import (
    BinaryCrossentropy,
    CategoricalCrossentropy,
    KLDivergence,
    Poisson,
    SparseCategoricalCrossentropy,
)
from uniflexflow.metrics.reduction import (
    Mean,
    MeanMetricWrapper,
    Sum,
)
from uniflexflow.metrics.regression import (
    CategoricalHinge,
    CosineSimilarity,
    Hinge,
    LogCoshError,
    MeanAbsoluteError,
    MeanAbsolutePercentageError,
    MeanSquaredError,
    MeanSquaredLogarithmicError,
    R2Score,
    RootMeanSquaredError,
    SquaredHinge,
    cosine_similarity,
)
from uniflexflow.naming import to_snake_case

__all__ = [
    "AUC",
    "Accuracy",
    "BinaryAccuracy",
    "BinaryCrossentropy",
    "BinaryIoU",
    "CategoricalAccuracy",
    "CategoricalCrossentropy",
    "CategoricalHinge",
    "CosineSimilarity",
    "F1Score",
    "FBetaScore",
    "FalseNegatives",
    "FalsePositives",
    "Hinge",
    "IoU",
    "KLDivergence",
    "LogCoshError",
    "Mean",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanIoU",
    "MeanMetricWrapper",
    "MeanSquaredError",
    "MeanSquaredLogarithmicError",
    "Metric",
    "OneHotIoU",
    "OneHotMeanIoU",
    "Poisson",
    "Precision",
    "PrecisionAtRecall",
    "R2Score",
    "Recall",
    "RecallAtPrecision",
    "RootMeanSquaredError",
    "SensitivityAtSpecificity",
    "SparseCategoricalAccuracy",
    "SparseCategoricalCrossentropy",
    "SparseTopKCategoricalAccuracy",
    "SpecificityAtSensitivity",
    "SquaredHinge",
    "Sum",
    "TopKCategoricalAccuracy",
    "TrueNegatives",
    "TruePositives",
    "accuracy",
    "binary_accuracy",
    "binary_crossentropy",
    "binary_focal_crossentropy",
    "categorical_accuracy",
    "categorical_crossentropy",
    "categorical_focal_crossentropy",
    "categorical_hinge",
    "cosine_similarity",
    "deserialize",
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
    "sparse_categorical_accuracy",
    "sparse_categorical_crossentropy",
    "sparse_top_k_categorical_accuracy",
    "squared_hinge",
    "top_k_categorical_accuracy",
]

_CLASSES = [
    thing
    for name, thing in list(globals().items())
    if name in __all__ and inspect.isclass(thing) and thing is not Metric
]
_FUNCTIONS = [
    thing
    for name, thing in list(globals().items())
    if name in __all__ and inspect.isfunction(thing)
]
#: Metrics by name. A snake_case name is the class's, if there is one, else the function's.
OBJECTS: dict[str, Any] = {fn.__name__: fn for fn in _FUNCTIONS}
OBJECTS.update({cls.__name__: cls for cls in _CLASSES})
OBJECTS.update({to_snake_case(cls.__name__): cls for cls in _CLASSES})
_ALIASES = {
    "bce": BinaryCrossentropy,
    "mse": MeanSquaredError,
    "mae": MeanAbsoluteError,
    "mape": MeanAbsolutePercentageError,
    "msle": MeanSquaredLogarithmicError,
}
OBJECTS.update(_ALIASES)
OBJECTS.update({name.upper(): cls for name, cls in _ALIASES.items()})


def serialize(metric: Any) -> Any:
    """Return a metric as plain data.

    Examples
    --------
    >>> serialize(TopKCategoricalAccuracy(k=3))["config"]["k"]
    3
    """
    from uniflexflow.saving.serialization import serialize_keras_object

    return serialize_keras_object(metric)


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """Make a metric from its name or from ``serialize``'s result.

    Parameters
    ----------
    config : str or dict
    custom_objects : dict, optional
        Classes and functions by name, besides the built-in ones.

    Raises
    ------
    ValueError
        If there is no metric of that name.
    """
    from uniflexflow.saving.registry import get_registered_object
    from uniflexflow.saving.serialization import deserialize_keras_object

    if not isinstance(config, str):
        return deserialize_keras_object({"module": "keras.metrics", **config}, custom_objects)
    metric = get_registered_object(config, custom_objects) or OBJECTS.get(config)
    if metric is None:
        raise ValueError(
            f"Unknown metric {config!r}; expected one of {', '.join(sorted(OBJECTS))}."
        )
    return metric


def get(identifier: Any) -> Any:
    """Return a metric by its name, its config, or itself.

    Parameters
    ----------
    identifier : str, dict, Metric, callable or None

    Returns
    -------
    Metric or callable or None

    Raises
    ------
    ValueError
        If there is no such metric.

    Examples
    --------
    >>> get("mse").name
    'mean_squared_error'
    """
    if identifier is None:
        return None
    metric = deserialize(identifier) if isinstance(identifier, (str, dict)) else identifier
    if inspect.isclass(metric):
        metric = metric()
    if callable(metric):
        return metric
    raise ValueError(f"Could not interpret metric identifier: {identifier!r}")
