"""Fusion of reductions: a sum takes the elementwise work before it into its own pass.

``chain_reduce`` computes a chain tile by tile and reduces each tile at once, so the
chain's result is never written to memory. This pays when the result has no other use,
and when what the sum must read instead is no more than what it would have read.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from uniflexflow.ir import Graph, Node, Value, apply, rewrite, use_counts
from uniflexflow.ops.registry import OPS

# A reduction may repeat a few steps of a chain that goes on without it, if it then reads
# at most this many tensors of full size: one write and one read of the result are saved.
MAX_REPEATED_STEPS = 4
MAX_FULL_READS = 2

_KINDS = ("sum", "max")


@dataclass(frozen=True, slots=True)
class _Tail:
    """The part of an elementwise node that a reduction takes over."""

    sources: tuple[Value, ...]
    program: tuple[Any, ...]


def _registers(node: Node) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Return a node as a program and its results."""
    if node.op.name == "chain":
        return node.attrs["program"], node.attrs["results"]
    step = (node.op.name, tuple(node.attrs.items()), tuple(range(len(node.inputs))))
    return (step,), (len(node.inputs),)


def _tail(node: Node, wanted: Value, dropped: set[Value]) -> _Tail | None:
    """Cut out what computes ``wanted`` from the node's inputs and its other results.

    ``dropped`` are results that the node will not have any more.
    """
    program, results = _registers(node)
    num_inputs = len(node.inputs)
    kept = {r: v for r, v in zip(results, node.outputs) if v is not wanted and v not in dropped}
    sources: dict[int, int] = {}
    steps: dict[int, None] = {}
    order: list[int] = []

    def need(register: int) -> None:
        if register < num_inputs or register in kept:
            sources.setdefault(register, len(sources))
        elif register not in steps:
            steps[register] = None
            for s in program[register - num_inputs][2]:
                need(s)
            order.append(register)

    need(results[node.outputs.index(wanted)])
    values = tuple([node.inputs[r] if r < num_inputs else kept[r] for r in sources])
    full = sum(v.shape == wanted.shape for v in values)
    if kept and (len(order) > MAX_REPEATED_STEPS or full > MAX_FULL_READS):
        return None
    if not full and len(values) < 2:
        return None  # what is broadcast alone has no shape of its own to run over
    number = {r: i for r, i in sources.items()}
    for i, r in enumerate(order):
        number[r] = len(sources) + i
    new = []
    for r in order:
        name, attrs, reads = program[r - num_inputs]
        new.append((name, attrs, tuple([number[s] for s in reads])))
    return _Tail(values, tuple(new))


def _without(node: Node, dropped: set[Value], inputs: tuple[Value, ...]) -> dict[Value, Value]:
    """Rebuild a chain that returns fewer results, without the steps only they needed."""
    program, results = _registers(node)
    keep = [(r, v) for r, v in zip(results, node.outputs) if v not in dropped]
    if not keep:
        return {}
    num_inputs = len(node.inputs)
    live: set[int] = set()
    stack = [r for r, _ in keep]
    while stack:
        register = stack.pop()
        if register not in live:
            live.add(register)
            if register >= num_inputs:
                stack.extend(program[register - num_inputs][2])
    number = {r: i for i, r in enumerate(sorted(live))}
    new = [
        (name, attrs, tuple([number[s] for s in reads]))
        for i, (name, attrs, reads) in enumerate(program)
        if num_inputs + i in live
    ]
    out = apply(
        OPS["chain"],
        *[v for i, v in enumerate(inputs) if i in live],
        program=tuple(new),
        results=tuple([number[r] for r, _ in keep]),
    )
    return dict(zip([v for _, v in keep], out if isinstance(out, tuple) else (out,)))


def _leading_or_trailing(axes: tuple[int, ...], ndim: int) -> bool:
    return axes == tuple(range(len(axes))) or axes == tuple(range(ndim - len(axes), ndim))


def fuse_reductions(graph: Graph) -> Graph:
    """Let reductions compute the elementwise work before them, where that saves traffic."""
    uses = use_counts(graph)
    tails: dict[Value, _Tail] = {}
    dropped: dict[int, set[Value]] = defaultdict(set)
    read_by_tails: set[Value] = set()
    for node in graph.nodes:
        if node.op.name not in _KINDS:
            continue
        value = node.inputs[0]
        maker = value.node
        if (
            uses[value] != 1
            or not maker.op.elementwise
            or value.size == 0
            or not _leading_or_trailing(node.attrs["axes"], value.ndim)
            or value in read_by_tails
        ):
            continue
        tail = _tail(maker, value, dropped[maker.id])
        if tail is not None:
            tails[value] = tail
            read_by_tails.update(tail.sources)
            dropped[maker.id].add(value)
    env: dict[Value, Value] = {}

    def rule(node: Node, inputs: tuple[Value, ...]) -> Any:
        env.update(zip(node.inputs, inputs))
        if dropped.get(node.id):
            made = _without(node, dropped[node.id], inputs)
            outs = [made.get(v, v) for v in node.outputs]
            env.update(zip(node.outputs, outs))
            return outs
        if node.op.name in _KINDS and node.inputs[0] in tails:
            tail = tails[node.inputs[0]]
            return apply(
                OPS["chain_reduce"],
                *[env.get(v, v) for v in tail.sources],
                program=tail.program,
                result=len(tail.sources) + len(tail.program) - 1,
                axes=node.attrs["axes"],
                kind=node.op.name,
            )
        return None

    return rewrite(graph, rule)
