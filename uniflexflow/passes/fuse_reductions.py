"""Fusion of reductions side by side: those that read the same tensor do it in one pass.

The two sums of a normalisation's gradient, of dy and of dy * x, are one ``chain_reduce``
with two results. Reductions are joined if they are of one kind, dtype and shape, over the
same axes, share a tensor of full size, and neither needs the other.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict

from uniflexflow.ir import Graph, Node, Value
from uniflexflow.ir.rewrite import clone
from uniflexflow.passes.pieces import (
    MAX_INPUTS,
    MAX_STEPS,
    Piece,
    assemble,
    is_full,
    piece_of,
    write_down,
)

# Every result has a tile of its own in the L1 cache.
MAX_RESULTS = 8


class _Group:
    """Reductions that will be one node, at the place of the last of them."""

    __slots__ = ("large", "pieces")

    def __init__(self, piece: Piece):
        self.pieces = [piece]
        self.large = {v for v in piece.node.inputs if is_full(v, piece.shape)}


class _Joined:
    """Groups of reductions, in topological order; ``needs`` are bits by position."""

    def __init__(self, graph: Graph):
        self.position = {node.id: i for i, node in enumerate(graph.nodes)}
        self.needs: list[int] = []
        self.groups: list[_Group | None] = []
        candidates: dict[tuple, list[_Group]] = defaultdict(list)
        for at, node in enumerate(graph.nodes):
            needs = 1 << at
            for value in node.inputs:
                needs |= self.needs[self.position[value.node.id]]
            self.needs.append(needs)
            self.groups.append(None)
            piece = piece_of(node, at)
            if piece is None or piece.kind is None:
                continue
            dtype = node.outputs[0].dtype
            others = candidates[piece.kind, piece.shape, piece.axes, dtype]
            mine = self.groups[at] = _Group(piece)
            for other in list(others):
                if self._may_join(other, mine):
                    self._join(other, mine)
                    others.remove(other)
            others.append(mine)

    def _may_join(self, a: _Group, b: _Group) -> bool:
        if not a.large & b.large:
            return False
        for one, two in ((a, b), (b, a)):
            bits = sum([1 << p.position for p in two.pieces])
            if any(self.needs[p.position] & bits for p in one.pieces):
                return False
        pieces = [*a.pieces, *b.pieces]
        program = write_down([e for p in pieces for e in p.results.values()], {}, {})
        return (
            sum([len(p.results) for p in pieces]) <= MAX_RESULTS
            and len(program.steps) <= MAX_STEPS
            and len(program.inputs) <= MAX_INPUTS
        )

    def _join(self, other: _Group, mine: _Group) -> None:
        """Put the pieces of ``other`` into ``mine``, and tell what stands behind them."""
        mine.pieces = sorted([*other.pieces, *mine.pieces], key=lambda p: p.position)
        mine.large |= other.large
        bits = needs = 0
        for p in mine.pieces:
            self.groups[p.position] = mine
            bits |= 1 << p.position
            needs |= self.needs[p.position]
        for i in range(mine.pieces[0].position, len(self.needs)):
            if self.needs[i] & bits:  # what needs one of them needs all
                self.needs[i] |= needs


def fuse_reductions(graph: Graph) -> Graph:
    """Join reductions that read the same tensors."""
    groups = _Joined(graph).groups
    position = {node.id: i for i, node in enumerate(graph.nodes)}
    if not any(g is not None and len(g.pieces) > 1 for g in groups):
        return graph
    env: dict[Value, Value] = {}
    done: set[int] = set()

    def members(node: Node) -> list[Node]:
        group = groups[position[node.id]]
        return [node] if group is None else [p.node for p in group.pieces]

    for node in graph.nodes:
        if node is not members(node)[-1]:  # a group is made when it is asked for, or at its end
            continue
        stack = [node]
        while stack:
            top = members(stack[-1])
            missing = []
            if top[0].id not in done:
                missing = [v.node for n in top for v in n.inputs if v.node.id not in done]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if top[0].id in done:
                continue
            done.update([n.id for n in top])
            if len(top) == 1:
                env.update(zip(top[0].outputs, clone(top[0], tuple(env[v] for v in top[0].inputs))))
                continue
            pieces = groups[position[top[0].id]].pieces
            results = {v: e for p in pieces for v, e in p.results.items()}
            joined = dataclasses.replace(pieces[-1], results=results)
            env.update(assemble(joined, write_down(results.values(), {}, {}), env))
    return Graph(
        inputs=graph.inputs,
        outputs=tuple([env[v] for v in graph.outputs]),
        updates=tuple([(leaf, env[new]) for leaf, new in graph.updates]),
    )
