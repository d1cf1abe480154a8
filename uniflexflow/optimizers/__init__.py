"""``uff.optimizers``: how weights follow their gradients."""

from __future__ import annotations

from typing import Any

from uniflexflow.optimizers import schedules
from uniflexflow.optimizers.adam import Adam, Adamax, AdamW, Lamb, Nadam
from uniflexflow.optimizers.adaptive import Adadelta, Adagrad, Ftrl, RMSprop
from uniflexflow.optimizers.gradient_descent import SGD, Lion
from uniflexflow.optimizers.optimizer import Optimizer
from uniflexflow.optimizers.schedules import LearningRateSchedule

__all__ = [
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Ftrl",
    "Lamb",
    "LearningRateSchedule",
    "Lion",
    "Nadam",
    "Optimizer",
    "RMSprop",
    "deserialize",
    "get",
    "schedules",
    "serialize",
]

_CLASSES = (SGD, Adadelta, Adagrad, Adam, AdamW, Adamax, Ftrl, Lamb, Lion, Nadam, RMSprop)
OBJECTS: dict[str, Any] = {cls.__name__: cls for cls in _CLASSES}
_BY_LOWER_NAME = {name.lower(): cls for name, cls in OBJECTS.items()}


def serialize(optimizer: Optimizer) -> dict[str, Any]:
    """Return an optimizer as plain data.

    Examples
    --------
    >>> serialize(SGD(0.5, name="sgd"))["config"]["learning_rate"]
    0.5
    """
    from uniflexflow.saving.serialization import serialize_keras_object

    return serialize_keras_object(optimizer)


def deserialize(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Optimizer:
    """Make an optimizer from ``serialize``'s result.

    Parameters
    ----------
    config : dict
    custom_objects : dict, optional
        Classes by name, besides the built-in ones.

    Raises
    ------
    ValueError
        If there is no optimizer of that name.
    """
    from uniflexflow.saving.serialization import deserialize_keras_object

    cls = _BY_LOWER_NAME.get(str(config.get("class_name")).lower())
    if cls is not None:  # names are good in any case
        config = {**config, "class_name": cls.__name__}
    return deserialize_keras_object({"module": "keras.optimizers", **config}, custom_objects)


def get(identifier: Any) -> Optimizer | None:
    """Return an optimizer by its name (in any case), its config, or itself.

    Parameters
    ----------
    identifier : str, dict, Optimizer or None

    Raises
    ------
    ValueError
        If there is no such optimizer.

    Examples
    --------
    >>> type(get("rmsprop")).__name__
    'RMSprop'
    """
    from uniflexflow.saving.registry import get_registered_object

    if identifier is None or isinstance(identifier, Optimizer):
        return identifier
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        if identifier.lower() not in _BY_LOWER_NAME and get_registered_object(identifier) is None:
            raise ValueError(
                f"Unknown optimizer {identifier!r}; expected one of {', '.join(sorted(OBJECTS))}."
            )
        return deserialize({"class_name": identifier, "config": {}})
    raise ValueError(f"Could not interpret optimizer identifier: {identifier!r}")
