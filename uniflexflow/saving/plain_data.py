"""Nested state as JSON and a list of arrays, and back, exactly.

JSON keeps Python's floats to the last bit; what it would confuse (tuples, keys that are
no strings, arrays) is written as a dict of one key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_ARRAY, _TUPLE, _DICT = "__array__", "__tuple__", "__dict__"


def split(data: Any, arrays: list[np.ndarray], where: str = "state") -> Any:
    """Return what JSON can hold; arrays are appended to ``arrays``.

    Raises
    ------
    TypeError
        For anything that is no plain data; names its place.
    """
    if data is None or isinstance(data, (bool, int, float, str)):
        # NumPy's float64 is a float, but JSON must not know
        return float(data) if isinstance(data, float) else data
    if isinstance(data, np.generic):
        return data.item()
    if isinstance(data, np.ndarray):
        arrays.append(data)
        return {_ARRAY: len(arrays) - 1}
    if isinstance(data, (list, tuple)):
        items = [split(x, arrays, f"{where}[{i}]") for i, x in enumerate(data)]
        return items if isinstance(data, list) else {_TUPLE: items}
    if isinstance(data, dict):
        items = {k: split(v, arrays, f"{where}[{k!r}]") for k, v in data.items()}
        plain = all(isinstance(k, str) for k in items) and not (
            len(items) == 1 and next(iter(items)) in (_ARRAY, _TUPLE, _DICT)
        )
        if plain:
            return items
        return {_DICT: [[split(k, arrays, where), v] for k, v in items.items()]}
    raise TypeError(
        f"{where} is {data!r} of type {type(data).__name__}, which a checkpoint can't hold; "
        "expected numbers, strings, arrays, and lists, tuples and dicts of these."
    )


def join(data: Any, arrays: list[np.ndarray]) -> Any:
    """Return what ``split`` was given."""
    if isinstance(data, list):
        return [join(x, arrays) for x in data]
    if isinstance(data, dict):
        if len(data) == 1:
            ((key, value),) = data.items()
            if key == _ARRAY:
                return arrays[value]
            if key == _TUPLE:
                return tuple(join(x, arrays) for x in value)
            if key == _DICT:
                return {join(k, arrays): join(v, arrays) for k, v in value}
        return {k: join(v, arrays) for k, v in data.items()}
    return data
