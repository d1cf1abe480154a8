"""Caps on the length of every run, for trying a script out."""

from __future__ import annotations

import warnings

_limits: dict[str, int | None] = {"epochs": None, "steps": None}


def _check(where: str, value: int | None) -> int | None:
    if value is not None and (not isinstance(value, int) or value < 1):
        raise ValueError(f"{where}: expected a positive integer or None; received {value!r}.")
    return value


def max_epochs() -> int | None:
    """Return the largest number of epochs of any ``fit``; None: no cap."""
    return _limits["epochs"]


def set_max_epochs(value: int | None) -> None:
    """Cap the number of epochs of any ``fit``."""
    _limits["epochs"] = _check("set_max_epochs", value)


def max_steps_per_epoch() -> int | None:
    """Return the largest number of steps of any epoch; None: no cap."""
    return _limits["steps"]


def set_max_steps_per_epoch(value: int | None) -> None:
    """Cap the number of steps of any epoch, also of evaluation and prediction."""
    _limits["steps"] = _check("set_max_steps_per_epoch", value)


def limited_epochs(epochs: int) -> int:
    """Return the number of epochs under the cap."""
    cap = _limits["epochs"]
    if cap is not None and cap < epochs:
        warnings.warn(f"Limiting epochs to {cap}", stacklevel=3)
        return cap
    return epochs


def limited_steps(steps: int | None) -> int | None:
    """Return the number of steps under the cap."""
    cap = _limits["steps"]
    if cap is not None and (steps is None or cap < steps):
        warnings.warn(f"Limiting steps_per_epoch to {cap}", stacklevel=3)
        return cap
    return steps
