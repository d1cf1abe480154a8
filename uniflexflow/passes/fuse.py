"""Fusion: elementwise chains become one node, and products take up what follows them.

``fuse_epilogues`` gives a matrix product or convolution the bias addition and the relu
behind it, which are then done while the tile of the result is still in cache. It comes before
``widen``, whose casts would hide them, and ``fuse`` after it.
``fuse_chains`` joins elementwise nodes of one shape into ``chain`` nodes, which read and
write memory once. Two more steps have files of their own: ``inline`` and
``fuse_reductions``.
"""

from __future__ import annotations

from typing import Any

from uniflexflow.ir import Graph, Node, Value, apply, rewrite, scope, use_counts
from uniflexflow.ir.rewrite import clone
from uniflexflow.ops.registry import OPS
from uniflexflow.passes.fuse_reductions import fuse_reductions
from uniflexflow.passes.fuse_rows import fuse_rows
from uniflexflow.passes.inline import inline
from uniflexflow.passes.pieces import MAX_INPUTS, MAX_STEPS
from uniflexflow.passes.widen import unrounded

# -- epilogues ---------------------------------------------------------------------

#: product -> the same product with a bias and an activation
_WITH_EPILOGUE = {"matmul": "dense", "conv2d": "conv2d_bias"}


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
    uses = use_counts(graph)

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


class _Unit:
    """What will run at one moment: a chain in the making, or any single node.

    Sets of nodes are bits of an integer, by position in the graph. ``ancestors`` are all
    nodes that must run before the unit's last one, itself included.
    """

    __slots__ = ("ancestors", "first", "members", "nodes")

    def __init__(self, node: Node, position: int, ancestors: int):
        self.nodes = [node]
        self.first = position
        self.members = 1 << position
        self.ancestors = ancestors | self.members


class _Chains:
    """Grows chains in topological order; ``unit`` tells each node's."""

    def __init__(self, graph: Graph):
        self.position = {node.id: i for i, node in enumerate(graph.nodes)}
        self.unit: dict[int, _Unit] = {}
        self.units: list[_Unit] = []  # by position
        for at, node in enumerate(graph.nodes):
            ancestors = 0
            for value in node.inputs:
                ancestors |= self.unit[value.node.id].ancestors
            unit = self.unit[node.id] = _Unit(node, at, ancestors)
            self.units.append(unit)
            if node.op.elementwise:
                self._join(node)

    def _join(self, node: Node) -> None:
        """Join a new node with the chains that its inputs come from, where that is possible."""
        mine = self.unit[node.id]
        for value in node.inputs:
            other = self.unit[value.node.id]
            if (
                other is not mine
                and value.node.op.elementwise
                and value.shape == node.outputs[0].shape
                and len(other.nodes) + len(mine.nodes) <= MAX_STEPS
                and self._may_join(other, mine)
            ):
                mine = self._merge(other, mine)

    def _may_join(self, a: _Unit, b: _Unit) -> bool:
        """Say whether no way leads from one to the other, or back, through a third unit.

        Joined, they could then not run at one moment.
        """
        both = a.members | b.members
        outside = {
            v for n in (*a.nodes, *b.nodes) for v in n.inputs if self.unit[v.node.id] not in (a, b)
        }
        return len(outside) <= MAX_INPUTS and not any(
            self.unit[v.node.id].ancestors & both for v in outside
        )

    def _merge(self, a: _Unit, b: _Unit) -> _Unit:
        # b alone is the newest node: nothing stands behind it yet, and if it needs nothing
        # that a does not need, what stands behind a learns nothing new
        news = len(b.nodes) > 1 or b.ancestors & ~(a.ancestors | b.members)
        a.nodes = sorted(a.nodes + b.nodes, key=lambda n: self.position[n.id])
        a.first = min(a.first, b.first)
        a.members |= b.members
        a.ancestors |= b.ancestors
        for node in b.nodes:
            self.unit[node.id] = a
            self.units[self.position[node.id]] = a
        if news:  # what stands behind one part now stands behind both
            for unit in set(self.units[a.first :]):
                if unit is not a and unit.ancestors & a.members:
                    unit.ancestors |= a.ancestors
        return a


def fuse_chains(graph: Graph) -> Graph:
    """Join elementwise nodes of one shape into ``chain`` nodes."""
    chains = _Chains(graph)
    env: dict[Value, Value] = {}
    done: set[_Unit] = set()
    used_outside = _used_outside(graph, chains.unit)
    for node in graph.nodes:
        # a unit is made when it is asked for, at the latest at its last node
        if node is not chains.unit[node.id].nodes[-1]:
            continue
        stack = [chains.unit[node.id]]
        while stack:
            unit = stack[-1]
            missing = [] if unit in done else _needs(unit, chains.unit, done)
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if unit in done:
                continue
            done.add(unit)
            if len(unit.nodes) == 1:
                only = unit.nodes[0]
                env.update(zip(only.outputs, clone(only, tuple([env[v] for v in only.inputs]))))
            else:
                env.update(_emit_chain(unit.nodes, used_outside, env))
    return Graph(
        inputs=graph.inputs,
        outputs=tuple([env[v] for v in graph.outputs]),
        updates=tuple([(leaf, env[new]) for leaf, new in graph.updates]),
    )


def _needs(unit: _Unit, units: dict[int, _Unit], done: set[_Unit]) -> list[_Unit]:
    """Return the units that must be made before this one and are not yet."""
    return [
        maker
        for node in unit.nodes
        for value in node.inputs
        if (maker := units[value.node.id]) is not unit and maker not in done
    ]


def _used_outside(graph: Graph, units: dict[int, _Unit]) -> set[Value]:
    """Values that another unit or the caller needs."""
    out = set(graph.roots)
    for node in graph.nodes:
        mine = units[node.id]
        out.update([v for v in node.inputs if units[v.node.id] is not mine])
    return out


def _emit_chain(
    group: list[Node], used_outside: set[Value], env: dict[Value, Value]
) -> dict[Value, Value]:
    wanted = [n.outputs[0] for n in group if n.outputs[0] in used_outside]
    group, same, given = _without_roundings(group, wanted)
    made = {v: env[source] for v, source in given.items()}
    wanted = [v for v in wanted if v not in given]
    if not wanted:
        return made
    inside = {n.id for n in group}
    reads = [tuple([same.get(v, v) for v in node.inputs]) for node in group]
    register: dict[Value, int] = {}
    for values in reads:
        for value in values:
            if value.node.id not in inside:
                register.setdefault(value, len(register))
    inputs = list(register)
    program: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = []
    for node, values in zip(group, reads):
        register[node.outputs[0]] = len(inputs) + len(program)
        sources = tuple([register[v] for v in values])
        program.append((node.op.name, tuple(node.attrs.items()), sources))
    results = tuple([register[v if v in register else same[v]] for v in wanted])
    with scope(group[-1].scope):
        new = apply(
            OPS["chain"], *[env[v] for v in inputs], program=tuple(program), results=results
        )
    return made | dict(zip(wanted, new if isinstance(new, tuple) else (new,)))


def _without_roundings(
    group: list[Node], wanted: list[Value]
) -> tuple[list[Node], dict[Value, Value], dict[Value, Value]]:
    """Leave out unrounded casts of what the group itself rounds, and what only they need.

    One that is wanted outside stays if the rounded number is stored too: there it may be read
    instead. Returns the nodes that are left, what is read instead of the casts, and which of
    the wanted values are inputs of the group.
    """
    inside = {n.id for n in group}
    same: dict[Value, Value] = {}
    for node in group:
        if node.attrs.get("unrounded") and node.inputs[0].node.id in inside:
            source = unrounded(node.inputs[0])
            if source is not None:
                same[node.outputs[0]] = same.get(source, source)
    if not same:
        return group, same, {}
    stored = set(wanted)
    roots = {v if v not in same or v.node.inputs[0] in stored else same[v] for v in wanted}
    given = {v: same[v] for v in wanted if v not in roots and same[v].node.id not in inside}
    needed = roots - set(given.values())
    for node in reversed(group):
        if node.outputs[0] in needed:
            needed.update([same.get(v, v) for v in node.inputs])
    return [n for n in group if n.outputs[0] in needed], same, given


def fuse(graph: Graph) -> Graph:
    """Fuse chains, then what chains read or are read by; ``fuse_epilogues`` comes before.

    What several reductions read is read once when they are one node, so it may then pay to
    compute there what did not before.
    """
    graph = inline(fuse_chains(graph))
    return fuse_rows(inline(fuse_reductions(graph), joined=True))
