"""Checks of the arguments of ``fit``, before anything of the model is touched."""

from __future__ import annotations

import numbers
from collections.abc import Collection, Mapping
from typing import Any


def check_count(where: str, name: str, value: Any, least: int = 0) -> int:
    """Return an integer argument.

    Raises
    ------
    ValueError
        If it is no integer, or less than ``least``.
    """
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        kind = "a positive integer" if least == 1 else f"an integer of {least} or more"
        raise ValueError(f"{where}: `{name}` must be {kind}; received {value!r}.")
    return int(value)


def check_validation(split: Any, data: Any, freq: Any, **others: Any) -> None:
    """Check what ``fit`` is told about validation.

    Parameters
    ----------
    split, data, freq
        ``validation_split``, ``validation_data`` and ``validation_freq``.
    **others
        Arguments that mean something only where there is validation.

    Raises
    ------
    ValueError
        If one is of the wrong kind, or would be ignored.
    """
    if isinstance(split, bool) or not isinstance(split, numbers.Real):
        raise ValueError(f"fit: `validation_split` must be a number; received {split!r}.")
    if not isinstance(freq, (str, Mapping)) and isinstance(freq, Collection):
        for epoch in freq:
            check_count("fit", "validation_freq", epoch, 1)
    else:
        check_count("fit", "validation_freq", freq, 1)
    if split or data is not None:
        return
    for name, value in others.items():
        if value is not None:
            raise ValueError(
                f"fit: `{name}={value!r}` was passed, but there is nothing to validate on. Pass "
                "`validation_data` or `validation_split`, too, or leave it out."
            )


def check_class_weight(class_weight: Any) -> dict[int, float] | None:
    """Return the weights of the classes.

    Raises
    ------
    ValueError
        If they are no dict of int to float.
    """
    if class_weight is None:
        return None
    fine = isinstance(class_weight, Mapping) and all(
        isinstance(k, numbers.Integral) and isinstance(w, numbers.Real)
        for k, w in class_weight.items()
    )
    if not fine:
        raise ValueError(
            "`class_weight` must be a dict of class (an integer) to weight, e.g. "
            f"{{0: 1.0, 1: 5.0}}; received {class_weight!r}."
        )
    return dict(class_weight)
