"""How a layer finds what it owns: by looking through its attributes.

Lists, tuples and dicts are looked through at the time of asking, so what is appended
to a list later is found too. The order is that of first assignment, as in Keras.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

# Attributes that hold layers or variables of others.
_NOT_OWNED = frozenset({"_losses", "_inbound_nodes", "_auto_config", "_functions"})

# Types that are met often and hold nothing of a kind, by that kind: most attributes are
# numbers and texts. Classes of users come and go, and are not kept here.
_plain: dict[Any, set[type]] = defaultdict(set)
_LASTING = ("builtins", "numpy", "uniflexflow.")


class StateHolder:
    """State that is no weight: kept in checkpoints of a training, not in weight files.

    Parameters
    ----------
    variables : list of Variable
    """

    def __init__(self, variables: list[Any]):
        self.variables = variables


def owned(layer: Any, kinds: type | tuple[type, ...]) -> Iterator[Any]:
    """Yield each object of ``kinds`` held by an attribute, or in containers there."""
    seen: set[int] = set()
    plain = _plain[kinds]
    stack = [
        v
        for k, v in reversed(layer.__dict__.items())
        if type(v) not in plain and k not in _NOT_OWNED
    ]
    while stack:
        item = stack.pop()
        if isinstance(item, kinds):
            if id(item) not in seen:
                seen.add(id(item))
                yield item
        elif isinstance(item, (list, tuple, dict)):
            if item and id(item) not in seen:
                seen.add(id(item))
                inner = item.values() if isinstance(item, dict) else item
                stack.extend([v for v in reversed(inner) if type(v) not in plain])
        elif type(item).__module__.startswith(_LASTING):
            plain.add(type(item))


def unique(items: Any) -> list[Any]:
    """Return the items without repetition, by identity, in order."""
    return list({id(x): x for x in items}.values())
