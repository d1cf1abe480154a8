"""Fusion: elementwise chains become one node, and products take up what follows them.

Two steps. ``fuse_epilogues`` gives a matrix product or convolution the bias addition
and the relu behind it, which are then done while the tile of the result is still in
cache. ``fuse_chains`` joins elementwise nodes of one shape into ``chain`` nodes, which
read and write memory once.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from uniflexflow.ir import Graph, Node, Value, apply, rewrite, scope
from uniflexflow.ir.rewrite import clone
from uniflexflow.ops.registry import OPS
from uniflexflow.passes.fuse_reductions import fuse_reductions

# A program longer than this gains nothing more from being one pass over memory, and its
# registers would not stay in the first-level cache.
MAX_STEPS = 48
MAX_INPUTS = 24

# -- epilogues ---------------------------------------------------------------------

#: product -> the same product with a bias and an activation
_WITH_EPILOGUE = {"matmul": "dense", "conv2d": "conv2d_bias"}


def _use_counts(graph: Graph) -> dict[Value, int]:
    uses: dict[Value, int] = defaultdict(int)
    for node in graph.nodes:
        for value in node.inputs:
            uses[value] += 1
    for value in graph.roots:
        uses[value] += 1
    return uses


def _product_behind(value: Value) -> Value:
    """Look through a reshape that keeps the last axis (a Dense layer on many axes)."""
    node = value.node
    if node.op.name == "reshape" and value.ndim and node.inputs[0].ndim:
        if node.inputs[0].shape[-1] == value.shape[-1]:
            return node.inputs[0]
    return value


def _takes_bias(product: Value, bias: Value) -> bool:
    name = product.node.op.name
    return (
        (name == "matmul" and product.ndim == 2) or name == "conv2d"
    ) and bias.shape == product.shape[-1:]


def fuse_epilogues(graph: Graph) -> Graph:
    """Put ``+ bias`` and ``relu`` into the product that they follow, if it has no other use."""
    uses = _use_counts(graph)

    def once(old: Value) -> bool:
        return uses[old] == 1 and uses[_product_behind(old)] == 1

    def shaped(new: Value, like: Value) -> Value:
        return new if new.shape == like.shape else apply(OPS["reshape"], new, shape=like.shape)

    def rule(node: Node, inputs: tuple[Value, ...]) -> Value | None:
        out = node.outputs[0]
        if node.op.name == "add":
            for old, new, bias in ((node.inputs[0], *inputs), (node.inputs[1], *inputs[::-1])):
                product = _product_behind(new)
                if once(old) and _takes_bias(product, bias) and new.shape == out.shape:
                    made = product.node
                    op = OPS[_WITH_EPILOGUE[made.op.name]]
                    return shaped(apply(op, *made.inputs, bias, **made.attrs, activation=None), out)
        if node.op.name == "relu" and once(node.inputs[0]):
            made = _product_behind(inputs[0]).node
            if made.op.name in _WITH_EPILOGUE.values() and made.attrs["activation"] is None:
                attrs = {**made.attrs, "activation": "relu"}
                return shaped(apply(made.op, *made.inputs, **attrs), out)
        return None

    return rewrite(graph, rule)


# -- chains ------------------------------------------------------------------------


class _Group:
    """Elementwise nodes that will be one chain."""

    __slots__ = ("first", "last", "nodes")

    def __init__(self, node: Node, position: int):
        self.nodes = [node]
        self.first = self.last = position


class _Chains:
    """Grows groups in topological order."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.position = {node.id: i for i, node in enumerate(graph.nodes)}
        self.group: dict[int, _Group] = {}  # node id -> its group
        for node in graph.nodes:
            if node.op.elementwise:
                self._place(node)

    def _place(self, node: Node) -> None:
        at = self.position[node.id]
        mine = self.group[node.id] = _Group(node, at)
        for value in node.inputs:
            other = self.group.get(value.node.id)
            if (
                other is not None
                and other is not mine
                and other.nodes[0].outputs[0].shape == node.outputs[0].shape
                and len(other.nodes) + len(mine.nodes) <= MAX_STEPS
                and self._num_inputs(other, mine) <= MAX_INPUTS
                and not self._path_outside(other, mine)
            ):
                mine = self._merge(other, mine)

    def _num_inputs(self, a: _Group, b: _Group) -> int:
        inside = {n.id for n in a.nodes} | {n.id for n in b.nodes}
        return len({v for n in (*a.nodes, *b.nodes) for v in n.inputs if v.node.id not in inside})

    def _path_outside(self, above: _Group, below: _Group) -> bool:
        """Say whether a way leads from ``above`` to ``below`` through another node.

        Joined, the two could then not run at one moment. Groups count as one node.
        """
        stop = {n.id for n in above.nodes} | {n.id for n in below.nodes}
        targets = {n.id for n in above.nodes}
        stack = [
            v.node
            for group in (below, above)
            for n in group.nodes
            for v in n.inputs
            if v.node.id not in stop
        ]
        seen: set[int] = set()
        below_ids = {n.id for n in below.nodes}
        targets |= below_ids
        while stack:
            node = stack.pop()
            if node.id in seen:
                continue
            seen.add(node.id)
            if node.id in targets:
                return True
            group = self.group.get(node.id)
            members = group.nodes if group is not None else (node,)
            newest = group.last if group is not None else self.position[node.id]
            if newest < above.first and newest < below.first:
                continue  # all of it stands before both groups: no way back
            for member in members:
                seen.add(member.id)
                if member.id in targets:
                    return True
                stack.extend([v.node for v in member.inputs])
        return False

    def _merge(self, a: _Group, b: _Group) -> _Group:
        a.nodes = sorted(a.nodes + b.nodes, key=lambda n: self.position[n.id])
        a.first, a.last = min(a.first, b.first), max(a.last, b.last)
        for node in b.nodes:
            self.group[node.id] = a
        return a


def fuse_chains(graph: Graph) -> Graph:
    """Join elementwise nodes of one shape into ``chain`` nodes."""
    chains = _Chains(graph)
    env: dict[Value, Value] = {}
    done: set[int] = set()
    used_outside = _used_outside(graph, chains.group)

    def members(node: Node) -> list[Node]:
        group = chains.group.get(node.id)
        return [node] if group is None else group.nodes

    def emit(node: Node) -> None:
        group = members(node)
        if len(group) == 1:
            env.update(zip(node.outputs, clone(node, tuple([env[v] for v in node.inputs]))))
        else:
            env.update(_emit_chain(group, used_outside, env))
        done.update([n.id for n in group])

    for start in graph.nodes:
        if start.id in chains.group and len(members(start)) > 1 and start.id not in done:
            if chains.position[start.id] != chains.group[start.id].last:
                continue  # a chain is made when it is asked for, at the latest at its end
        stack = [start]
        while stack:
            node = stack[-1]
            if node.id in done:
                stack.pop()
                continue
            inside = {n.id for n in members(node)}
            missing = [
                v.node
                for n in members(node)
                for v in n.inputs
                if v.node.id not in done and v.node.id not in inside
            ]
            if missing:
                stack.extend(missing)
            else:
                emit(node)
                stack.pop()
    return Graph(
        inputs=graph.inputs,
        outputs=tuple(env[v] for v in graph.outputs),
        updates=tuple((leaf, env[new]) for leaf, new in graph.updates),
    )


def _used_outside(graph: Graph, groups: dict[int, _Group]) -> set[Value]:
    """Values of grouped nodes that something else needs: another node, or the caller."""
    out = {v for v in graph.roots if v.node.id in groups}
    for node in graph.nodes:
        mine = groups.get(node.id)
        for value in node.inputs:
            theirs = groups.get(value.node.id)
            if theirs is not None and theirs is not mine:
                out.add(value)
    return out


def _emit_chain(
    group: list[Node], used_outside: set[Value], env: dict[Value, Value]
) -> dict[Value, Value]:
    inside = {n.id for n in group}
    inputs: dict[Value, int] = {}
    for node in group:
        for value in node.inputs:
            if value.node.id not in inside:
                inputs.setdefault(value, len(inputs))
    register = dict(inputs)
    program: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = []
    for node in group:
        register[node.outputs[0]] = len(inputs) + len(program)
        sources = tuple([register[v] for v in node.inputs])
        program.append((node.op.name, tuple(node.attrs.items()), sources))
    wanted = [n.outputs[0] for n in group if n.outputs[0] in used_outside]
    with scope(group[-1].scope):
        new = apply(
            OPS["chain"],
            *[env[v] for v in inputs],
            program=tuple(program),
            results=tuple(register[v] for v in wanted),
        )
    return dict(zip(wanted, new if isinstance(new, tuple) else (new,)))


def fuse(graph: Graph) -> Graph:
    """Fuse epilogues, then chains, then reductions with the chains before them."""
    return fuse_reductions(fuse_chains(fuse_epilogues(graph)))


