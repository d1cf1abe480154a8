"""Regularizers: from a weight to a penalty that is added to the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uniflexflow import ops


class Regularizer:
    """Base class: subclasses override ``__call__`` and, with arguments, ``get_config``.

    ``__call__`` is traced: it must use ``uff.ops``.
    """

    def __call__(self, x: Any) -> Any:
        """Return the penalty for a weight, a scalar."""
        raise NotImplementedError(f"{type(self).__name__} has no `__call__`.")

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Regularizer:
        """Make a regularizer from what ``get_config`` returned."""
        return cls(**config)

    def __repr__(self) -> str:
        args = ", ".join(f"{k}={v!r}" for k, v in self.get_config().items())
        return f"{type(self).__name__}({args})"


def _factor(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise ValueError(f"{name}: expected a number; received {value!r}.")
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{name}: expected a finite number; received {value!r}.")
    return float(value)


class L1L2(Regularizer):
    """``l1 * sum(abs(x)) + l2 * sum(x ** 2)``."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0):
        self.l1 = _factor("L1L2.l1", 0.0 if l1 is None else l1)
        self.l2 = _factor("L1L2.l2", 0.0 if l2 is None else l2)

    def __call__(self, x: Any) -> Any:
        terms = []
        if self.l1:
            terms.append(ops.sum(ops.abs(x)) * self.l1)
        if self.l2:
            terms.append(ops.sum(ops.square(x)) * self.l2)
        if not terms:
            return ops.sum(x) * 0.0
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]

    def get_config(self) -> dict[str, Any]:
        return {"l1": self.l1, "l2": self.l2}


class L1(Regularizer):
    """``l1 * sum(abs(x))``."""

    def __init__(self, l1: float = 0.01):
        self.l1 = _factor("L1.l1", 0.01 if l1 is None else l1)

    def __call__(self, x: Any) -> Any:
        return ops.sum(ops.abs(x)) * self.l1

    def get_config(self) -> dict[str, Any]:
        return {"l1": self.l1}


class L2(Regularizer):
    """``l2 * sum(x ** 2)``."""

    def __init__(self, l2: float = 0.01):
        self.l2 = _factor("L2.l2", 0.01 if l2 is None else l2)

    def __call__(self, x: Any) -> Any:
        return ops.sum(ops.square(x)) * self.l2

    def get_config(self) -> dict[str, Any]:
        return {"l2": self.l2}


l1, l2 = L1, L2


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    """Return ``L1L2(l1, l2)``, with Keras's defaults for this name."""
    return L1L2(l1, l2)


ALL: dict[str, type] = {"L1": L1, "L2": L2, "L1L2": L1L2}
_NAMES: dict[str, Callable[..., Any]] = {**ALL, "l1": L1, "l2": L2, "l1_l2": l1_l2, "l1l2": l1_l2}


def get(identifier: Any) -> Any:
    """Return a regularizer from its name, its configuration, or itself.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    if identifier is None:
        return None
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        if identifier in _NAMES:
            return _NAMES[identifier]()
        from uniflexflow.saving.registry import get_registered_object

        custom = get_registered_object(identifier)
        if custom is not None:
            return custom() if isinstance(custom, type) else custom
        raise ValueError(
            f"regularizers.get: there is no regularizer {identifier!r}; expected one of "
            f"{sorted(_NAMES)}, or a registered one."
        )
    if callable(identifier):
        return identifier() if isinstance(identifier, type) else identifier
    raise ValueError(f"regularizers.get: can't interpret {identifier!r} as a regularizer.")


def serialize(regularizer: Any) -> Any:
    """Return the configuration of a regularizer, as JSON can hold it."""
    from uniflexflow.saving.serialization import serialize_keras_object

    return serialize_keras_object(regularizer)


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """Make a regularizer from what ``serialize`` returned."""
    from uniflexflow.saving.serialization import deserialize_keras_object

    return deserialize_keras_object(config, custom_objects)
