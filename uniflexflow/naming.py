"""Names of objects that were given none: ``dense``, ``dense_1``, ... per process.

Ranks and restarted jobs make their objects in the same order, so the names agree.
"""

from __future__ import annotations

import re
from collections import Counter

_given: Counter[str] = Counter()


def to_snake_case(name: str) -> str:
    """Return the snake_case form of a class name, as Keras spells it.

    Examples
    --------
    >>> to_snake_case("Conv2DTranspose"), to_snake_case("PReLU"), to_snake_case("LSTM")
    ('conv2d_transpose', 'p_re_lu', 'lstm')
    """
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def uniquify(name: str) -> str:
    """Return ``name``, or ``name_k`` if it was given before."""
    count = _given[name]
    _given[name] += 1
    return f"{name}_{count}" if count else name


def auto_name(class_name: str) -> str:
    """Return a name for an object of that class that no other has.

    Examples
    --------
    >>> reset()
    >>> auto_name("MaxPooling2D"), auto_name("MaxPooling2D")
    ('max_pooling2d', 'max_pooling2d_1')
    """
    return uniquify(to_snake_case(class_name))


def reset() -> None:
    """Forget which names were given."""
    _given.clear()
