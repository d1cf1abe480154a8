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
    """Return an optimizer as plain data: its class's name and its config.

    Examples
    --------
    >>> serialize(SGD(0.5, name="sgd"))["config"]["learning_rate"]
    0.5
    """
    name = type(optimizer).__name__
    builtin = OBJECTS.get(name) is type(optimizer)
    return {
        "module": "keras.optimizers" if builtin else None,
        "class_name": name,
        "config": optimizer.get_config(),
        "registered_name": None if builtin else name,
    }


def deserialize(
    config: dict[str, Any], custom_objects: dict[str, Any] | None = None
) -> Optimizer:
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
    name = config.get("class_name")
    cls = (custom_objects or {}).get(name) or _BY_LOWER_NAME.get(str(name).lower())
    if cls is None:
        raise ValueError(
            f"Unknown optimizer {name!r}; expected one of {', '.join(sorted(OBJECTS))}."
        )
    return cls.from_config(config.get("config", {}), custom_objects)


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
    if identifier is None or isinstance(identifier, Optimizer):
        return identifier
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        return deserialize({"class_name": identifier, "config": {}})
    raise ValueError(f"Could not interpret optimizer identifier: {identifier!r}")
