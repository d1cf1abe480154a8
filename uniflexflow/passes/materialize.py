"""Give numbers of their own to what would otherwise be a variable's changing memory."""

from __future__ import annotations

from uniflexflow.ir import Graph, Value, apply
from uniflexflow.ops.registry import OPS

VIEWS = ("after", "reshape", "slice")


def _origin(value: Value) -> Value:
    while value.node.op.name in VIEWS:
        value = value.node.inputs[0]
    return value


def materialize(graph: Graph) -> Graph:
    """Copy old values of updated variables that are outputs or updates of others.

    The plan writes new values over old ones, so an output that shows a variable's value
    before the step, or a second variable that gets it, needs a copy.
    """
    updated = {leaf for leaf, _ in graph.updates}

    def own(value: Value) -> Value:
        if _origin(value) in updated:
            return apply(OPS["stop_gradient"], value)
        return value

    return Graph(
        inputs=graph.inputs,
        outputs=tuple(own(v) for v in graph.outputs),
        updates=tuple((leaf, new if new is leaf else own(new)) for leaf, new in graph.updates),
    )
