"""Constraints: what a weight is put through after each update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from uniflexflow import ops
from uniflexflow.naming import to_snake_case
from uniflexflow.ops.dtypes import epsilon


class Constraint:
    """Base class: subclasses override ``__call__`` and, with arguments, ``get_config``.

    ``__call__`` is traced: it must use ``uff.ops``.
    """

    def __call__(self, w: Any) -> Any:
        """Return the weight's new value."""
        raise NotImplementedError(f"{type(self).__name__} has no `__call__`.")

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Constraint:
        """Make a constraint from what ``get_config`` returned."""
        return cls(**config)

    def __repr__(self) -> str:
        args = ", ".join(f"{k}={v!r}" for k, v in self.get_config().items())
        return f"{type(self).__name__}({args})"


def _norms(w: Any, axis: int | Sequence[int]) -> Any:
    return ops.sqrt(ops.sum(ops.square(w), axis=axis, keepdims=True))


class MaxNorm(Constraint):
    """Scale down what has a norm above ``max_value`` along ``axis``."""

    def __init__(self, max_value: float = 2, axis: int | Sequence[int] = 0):
        self.max_value, self.axis = max_value, axis

    def __call__(self, w: Any) -> Any:
        norms = _norms(w, self.axis)
        return w * (ops.minimum(norms, float(self.max_value)) / (norms + epsilon()))

    def get_config(self) -> dict[str, Any]:
        return {"max_value": self.max_value, "axis": self.axis}


class NonNeg(Constraint):
    """Put 0 in place of negative numbers."""

    def __call__(self, w: Any) -> Any:
        return ops.maximum(w, 0.0)


class UnitNorm(Constraint):
    """Scale to a norm of 1 along ``axis``."""

    def __init__(self, axis: int | Sequence[int] = 0):
        self.axis = axis

    def __call__(self, w: Any) -> Any:
        return w / (_norms(w, self.axis) + epsilon())

    def get_config(self) -> dict[str, Any]:
        return {"axis": self.axis}


class MinMaxNorm(Constraint):
    """Bring norms along ``axis`` into a range, by the share ``rate`` of the way at once.

    Parameters
    ----------
    min_value, max_value : float
    rate : float
        From 0 to 1; 1 enforces the range at once.
    axis : int or sequence of int
        Along which norms are taken.
    """

    def __init__(
        self,
        min_value: float = 0.0,
        max_value: float = 1.0,
        rate: float = 1.0,
        axis: int | Sequence[int] = 0,
    ):
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def __call__(self, w: Any) -> Any:
        norms = _norms(w, self.axis)
        inside = ops.maximum(ops.minimum(norms, float(self.max_value)), float(self.min_value))
        desired = inside * self.rate + norms * (1 - self.rate)
        return w * (desired / (norms + epsilon()))

    def get_config(self) -> dict[str, Any]:
        return {
            "min_value": self.min_value,
            "max_value": self.max_value,
            "rate": self.rate,
            "axis": self.axis,
        }


max_norm, non_neg, unit_norm, min_max_norm = MaxNorm, NonNeg, UnitNorm, MinMaxNorm

ALL: dict[str, type] = {c.__name__: c for c in (MaxNorm, NonNeg, UnitNorm, MinMaxNorm)}
_NAMES: dict[str, type] = {**ALL, **{to_snake_case(n): c for n, c in ALL.items()}}


def get(identifier: Any) -> Any:
    """Return a constraint from its name, its configuration, or itself.

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
            f"constraints.get: there is no constraint {identifier!r}; expected one of "
            f"{sorted(_NAMES)}, or a registered one."
        )
    if callable(identifier):
        return identifier() if isinstance(identifier, type) else identifier
    raise ValueError(f"constraints.get: can't interpret {identifier!r} as a constraint.")


def serialize(constraint: Any) -> Any:
    """Return the configuration of a constraint, as JSON can hold it."""
    from uniflexflow.saving.serialization import serialize_keras_object

    return serialize_keras_object(constraint)


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """Make a constraint from what ``serialize`` returned."""
    from uniflexflow.saving.serialization import deserialize_keras_object

    return deserialize_keras_object(config, custom_objects)
