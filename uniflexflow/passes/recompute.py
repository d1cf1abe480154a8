"""Recomputation: what gradients read in a region is computed again, not kept.

A region (``ir.region``) is a part of the forward graph whose values are let go once they
have been used there. When the gradient comes to it, its nodes are made again from what the
region reads from outside, and the rules for gradients read these copies (Chen, Xu, Zhang,
Guestrin, "Training deep nets with sublinear memory cost", 2016).

Two things must not happen to the copies. They must not be merged with the originals, which
would keep those: each value from outside is read through ``ops.ordering.after``, which no
pass looks through. And they must not be computed early, which would keep them: ``after``
waits for the gradient that flows into the region. Random numbers are functions of a key
(``ops.random``), so the copies draw the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uniflexflow.ir import CONSTANT, Node, Region, Value
from uniflexflow.ops.ordering import after

Path = tuple[Region, ...]


class Recomputation:
    """The copies of the nodes of regions, made when they are asked for.

    Parameters
    ----------
    nodes : sequence of Node
        The graph that gradients are taken of, in order.
    """

    def __init__(self, nodes: Sequence[Node]):
        self._members: dict[Path, list[Node]] = {}
        self._copies: dict[Path, dict[Value, Value]] = {}
        for node in nodes:
            path = _active(node)
            for depth in range(1, len(path) + 1):
                self._members.setdefault(path[:depth], []).append(node)

    def version(self, node: Node, grads: Mapping[Value, Value]) -> Node:
        """Return the node whose values the gradient of ``node`` reads.

        Parameters
        ----------
        node : Node
        grads : mapping of Value to Value
            The gradients that are known so far.
        """
        path = _active(node)
        if not path:
            return node
        for depth in range(1, len(path) + 1):  # a region in a region is copied from its copy
            if path[:depth] not in self._copies:
                self._copies[path[:depth]] = self._copy(path[:depth], grads)
        return self._copies[path][node.outputs[0]].node

    def _copy(self, path: Path, grads: Mapping[Value, Value]) -> dict[Value, Value]:
        members = self._members[path]
        outer = self._copies.get(path[:-1], {})
        arrived = dict.fromkeys(grads[v] for n in members for v in n.outputs if v in grads)
        gates = [g for g in arrived if g.node.op is not CONSTANT]
        copies: dict[Value, Value] = {}

        def read(value: Value) -> Value:
            if value not in copies:
                given = outer.get(value, value)
                copies[value] = given if given.node.op is CONSTANT else after(given, *gates)
            return copies[value]

        for node in members:
            copy = node.over(tuple([read(v) for v in node.inputs]))
            copies.update(zip(node.outputs, copy.outputs))
        return copies


def _active(node: Node) -> Path:
    return tuple([r for r in node.regions if r.active]) if node.regions else ()
