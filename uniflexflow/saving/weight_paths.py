"""Where each weight lies in a file: Keras's layout, so that its files are ours.

An object's weights are at ``<path>/vars/<i>``. The path leads from the model through
attributes and containers; see ``walk``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from uniflexflow.layers.base import Layer
from uniflexflow.naming import to_snake_case
from uniflexflow.ops.variable import Variable


class Entry(NamedTuple):
    """One object of a model that may own weights.

    Attributes
    ----------
    path : str
        Of its group, without ``/vars``; empty for the model itself.
    name : str
    variables : list of Variable
        Its own, in the order of the file.
    """

    path: str
    name: str
    variables: list[Variable]

    @property
    def group(self) -> str:
        """Path of the group with its datasets."""
        return f"{self.path}/vars" if self.path else "vars"


@functools.cache
def _not_children() -> frozenset[str]:
    """Names of attributes in which every layer or model keeps its own affairs."""
    from uniflexflow.models.sequential import Sequential  # models stand above

    names = {*dir(Layer()), *dir(Sequential())}
    functional = {"_network", "_network_layers", "_inputs_structure", "_outputs_structure"}
    trainer = {"loss", "metrics", "history", "output_names"}
    return frozenset(names | functional | trainer | {"_replaced"}) - {"layers"}


def _children(obj: Any) -> Iterator[tuple[str, Any]]:
    """Yield attributes as Keras visits them: by name, private ones last.

    A sequential or functional model begins with its list of layers. In a model that a
    user wrote, ``layers`` stands among the attributes: what sorts before it is found by
    its own name, the rest in this list.
    """
    from uniflexflow.models.functional import Functional
    from uniflexflow.models.model import Model
    from uniflexflow.models.sequential import Sequential

    if isinstance(obj, (Functional, Sequential)):
        yield "layers", obj.layers
    is_model = isinstance(obj, Model)
    names = sorted(dir(obj), key=lambda n: "~" + n if n.startswith("_") else n)
    for name in names:
        if name.startswith("__") or name in _not_children() or (name == "layers" and not is_model):
            continue
        try:
            child = getattr(obj, name)
        except Exception:  # a property that can't be asked for now is no child
            continue
        yield name, child


def walk(model: Any) -> list[Entry]:
    """Return the entries of a model and all below it, each object once."""
    entries: list[Entry] = []
    seen: set[int] = set()

    def visit(obj: Any, path: str) -> None:
        if id(obj) in seen:
            return
        seen.add(id(obj))
        entries.append(Entry(path, obj.name, obj._own_weights()))
        for name, child in _children(obj):
            below = f"{path}/{name}" if path else name
            if isinstance(child, Layer):
                visit(child, below)
            elif isinstance(child, (list, dict, tuple)):
                visit_container(child, below)

    def visit_container(container: Any, path: str) -> None:
        if id(container) in seen:
            return
        seen.add(id(container))
        used: dict[str, int] = {}
        for item in list(container.values()) if isinstance(container, dict) else container:
            if isinstance(item, Layer):
                visit(item, f"{path}/{_unique(to_snake_case(type(item).__name__), used)}")
            elif isinstance(item, (list, dict, tuple)):
                visit_container(item, f"{path}/{_unique('container', used)}")

    visit(model, "")
    return entries


def _unique(name: str, used: dict[str, int]) -> str:
    count = used.get(name, 0)
    used[name] = count + 1
    return f"{name}_{count}" if count else name


def seeds_and_states(model: Any) -> list[Variable]:
    """Return the variables of random generators and of layers' states, no metrics'.

    Metrics begin anew each epoch.
    """
    from uniflexflow.metrics.metric import Metric  # metrics stand beside layers

    holders = [h for h in model._state_holders() if not isinstance(h, Metric)]
    return [v for h in holders for v in h.variables]
