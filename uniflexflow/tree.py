"""Nested structures: lists, tuples and dicts whose leaves are anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def is_nested(structure: Any) -> bool:
    """Say whether ``structure`` is a list, tuple or dict."""
    return isinstance(structure, (list, tuple, dict))


def flatten(structure: Any) -> list[Any]:
    """List the leaves in order; dicts in the order of their sorted keys.

    Examples
    --------
    >>> flatten([1, (2, {"b": 4, "a": 3})])
    [1, 2, 3, 4]
    """
    if isinstance(structure, dict):
        return [x for key in sorted(structure) for x in flatten(structure[key])]
    if isinstance(structure, (list, tuple)):
        return [x for item in structure for x in flatten(item)]
    return [structure]


def map_structure(fn: Callable[..., Any], structure: Any, *others: Any) -> Any:
    """Apply ``fn`` to each leaf (and the leaves at its place in ``others``).

    Examples
    --------
    >>> map_structure(lambda x, y: x + y, {"a": 1, "b": (2,)}, {"a": 10, "b": (20,)})
    {'a': 11, 'b': (22,)}
    """
    if isinstance(structure, dict):
        # visited in the order of flatten; the keys keep their own
        built = {
            k: map_structure(fn, structure[k], *[o[k] for o in others]) for k in sorted(structure)
        }
        return {k: built[k] for k in structure}
    if isinstance(structure, (list, tuple)):
        items = [map_structure(fn, *xs) for xs in zip(structure, *others)]
        if isinstance(structure, list):
            return items
        if hasattr(structure, "_fields"):
            return type(structure)(*items)
        return tuple(items)
    return fn(structure, *others)


def pack_sequence_as(structure: Any, flat: list[Any]) -> Any:
    """Put ``flat`` leaves into the form of ``structure``; inverse of flatten.

    Examples
    --------
    >>> pack_sequence_as({"b": 0, "a": [0, 0]}, [1, 2, 3])
    {'b': 3, 'a': [1, 2]}
    """
    leaves = iter(flat)

    def build(part: Any) -> Any:
        if isinstance(part, dict):
            built = {key: build(part[key]) for key in sorted(part)}
            return {key: built[key] for key in part}
        if isinstance(part, (list, tuple)):
            items = [build(x) for x in part]
            if isinstance(part, list):
                return items
            return type(part)(*items) if hasattr(part, "_fields") else tuple(items)
        return next(leaves)

    return build(structure)
