"""The frozen graph of one step: leaves in, outputs and updated state out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from uniflexflow.ir.value import CONSTANT, INPUT, Node, Value


def reachable(roots: Iterable[Value]) -> tuple[Node, ...]:
    """Return the nodes that ``roots`` need, in topological order."""
    seen: dict[int, Node] = {}
    stack = [v.node for v in roots]
    while stack:
        node = stack.pop()
        if node.id not in seen:
            seen[node.id] = node
            stack.extend([v.node for v in node.inputs])
    return tuple([seen[i] for i in sorted(seen)])


@dataclass(frozen=True, eq=False)
class Graph:
    """What one step computes.

    Attributes
    ----------
    inputs : tuple of Value
        Leaves of kind ``feed``, in calling order, then of kind ``variable``.
    outputs : tuple of Value
        What the caller gets back.
    updates : tuple of (Value, Value)
        Pairs (variable leaf, its value after the step).
    nodes : tuple of Node
        All nodes needed, constants and inputs included, in topological order.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    updates: tuple[tuple[Value, Value], ...] = ()
    nodes: tuple[Node, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", reachable(self.roots))

    @property
    def roots(self) -> tuple[Value, ...]:
        return self.outputs + tuple([new for _, new in self.updates])

    @property
    def compute_nodes(self) -> tuple[Node, ...]:
        """Nodes that compute: neither inputs nor constants."""
        return tuple([n for n in self.nodes if n.op is not INPUT and n.op is not CONSTANT])


def use_counts(graph: Graph) -> dict[Value, int]:
    """Return how often each value is read, by nodes and by the caller."""
    uses: dict[Value, int] = defaultdict(int)
    for node in graph.nodes:
        for value in node.inputs:
            uses[value] += 1
    for value in graph.roots:
        uses[value] += 1
    return uses
