"""Elementwise work taken apart: what fused nodes compute, as steps over values.

``pieces_of`` opens the elementwise nodes and the reductions of a graph, passes move steps
between the pieces, and ``assemble`` writes a piece down as a node again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from uniflexflow.ir import Graph, Node, Value, apply, scope
from uniflexflow.ops.chain import register_specs
from uniflexflow.ops.registry import OPS

#: Reductions that can do elementwise work before them; see ``ops.chain``.
KINDS = ("sum", "max")

# A program longer than this gains nothing more from being one pass over memory, and its
# registers would not stay in the first-level cache.
MAX_STEPS = 48
MAX_INPUTS = 24


@dataclass(eq=False, slots=True)
class Step:
    """One elementwise operation: its sources are other steps, or values from outside."""

    name: str
    attrs: tuple[tuple[str, Any], ...]
    sources: tuple[Step | Value, ...]
    dtype: str


Expression = Step | Value


@dataclass(eq=False, slots=True)
class Piece:
    """What one node will compute.

    Attributes
    ----------
    node : Node
        The node it was.
    position : int
        Of that node in the graph.
    shape : tuple of int
        Of every result before it is reduced.
    results : dict
        From the node's outputs to what they are.
    axes, kind
        Of a reduction.
    """

    node: Node
    position: int
    shape: tuple[int, ...]
    results: dict[Value, Expression]
    axes: tuple[int, ...] = ()
    kind: str | None = None


def at_an_end(axes: tuple[int, ...], ndim: int) -> bool:
    """Say whether axes are the first or the last ones: a reduction then reads in order."""
    return axes == tuple(range(len(axes))) or axes == tuple(range(ndim - len(axes), ndim))


def _steps(node: Node, count: int) -> list[Expression]:
    """Return what each register of a node's program is; the first ``count`` are its inputs."""
    registers: list[Expression] = list(node.inputs)
    specs = register_specs([v.spec for v in node.inputs], node.attrs["program"])
    for (name, attrs, sources), spec in zip(node.attrs["program"], specs[count:]):
        registers.append(Step(name, attrs, tuple([registers[s] for s in sources]), spec.dtype))
    return registers


def piece_of(node: Node, position: int) -> Piece | None:
    """Open a node, if it is elementwise or a reduction that may do elementwise work."""
    out = node.outputs[0]
    if node.op.name == "chain":
        registers = _steps(node, len(node.inputs))
        results = {v: registers[r] for v, r in zip(node.outputs, node.attrs["results"])}
        return Piece(node, position, out.shape, results)
    if node.op.elementwise:
        return Piece(
            node,
            position,
            out.shape,
            {out: Step(node.op.name, (*node.attrs.items(),), node.inputs, out.dtype)},
        )
    if node.op.name in KINDS:
        value, axes = node.inputs[0], node.attrs["axes"]
        if value.size and at_an_end(axes, value.ndim):
            return Piece(node, position, value.shape, {out: value}, axes, node.op.name)
    if node.op.name == "chain_reduce":
        registers = _steps(node, len(node.inputs))
        results = {v: registers[r] for v, r in zip(node.outputs, node.attrs["results"])}
        shape = _meet([v.shape for v in node.inputs])
        return Piece(node, position, shape, results, node.attrs["axes"], node.attrs["kind"])
    return None


def _meet(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape to which shapes that fit are broadcast."""
    ndim = max(map(len, shapes), default=0)
    padded = [(1,) * (ndim - len(s)) + s for s in shapes]
    return tuple([next((n for n in sizes if n != 1), 1) for sizes in zip(*padded)])


@dataclass(eq=False, slots=True)
class Program:
    """A piece written down: what it reads, its steps without repetition, its results.

    A register is named by what it holds, ``("input", value)`` or ``(name, attrs, sources)``,
    so equal steps are one.
    """

    inputs: dict[Value, int] = field(default_factory=dict)
    steps: dict[tuple[Any, ...], int] = field(default_factory=dict)
    results: list[tuple[str, int]] = field(default_factory=list)

    def registers(self) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Return program and results as the attributes of a chain."""
        count = len(self.inputs)

        def number(register: tuple[str, int]) -> int:
            kind, i = register
            return i if kind == "input" else count + i

        program = tuple(
            [(name, attrs, tuple(map(number, sources))) for name, attrs, sources in self.steps]
        )
        return program, tuple(map(number, self.results))

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Say whether what is read has the shape of what is computed."""
        return _meet([v.shape for v in self.inputs]) == shape


def write_down(
    expressions: Iterable[Expression],
    inlined: dict[Value, Step],
    stored: dict[Step, Value],
    own: Iterable[Value] = (),
) -> Program:
    """Write down expressions.

    Parameters
    ----------
    expressions : iterable
    inlined : dict
        Values that are computed where they are read.
    stored : dict
        Steps of other pieces whose values can be read.
    own : iterable of Value
        What this piece itself stores.
    """
    program = Program()
    known: dict[Expression, tuple[str, int]] = {}
    mine = set(own)

    def settled(e: Expression) -> Expression:
        if isinstance(e, Value) and e in inlined:
            e = inlined[e]
        if isinstance(e, Step):
            value = stored.get(e)
            if value is not None and value not in mine:
                return value
        return e

    def visit(top: Expression) -> tuple[str, int]:
        stack = [top]
        while stack:
            e = stack[-1]
            if e in known:
                stack.pop()
                continue
            s = settled(e)
            if isinstance(s, Value):
                known[e] = ("input", program.inputs.setdefault(s, len(program.inputs)))
                continue
            same = _unrounded(s, settled)
            if same is not None:
                if same in known:
                    known[e] = known[s] = known[same]
                else:
                    stack.append(same)
                continue
            missing = [x for x in s.sources if x not in known]
            if missing:
                stack.extend(reversed(missing))
                continue
            key = (s.name, s.attrs, tuple([known[x] for x in s.sources]))
            known[e] = known[s] = ("step", program.steps.setdefault(key, len(program.steps)))
        return known[top]

    program.results = [visit(e) for e in expressions]
    return program


def _unrounded(step: Step, settled: Callable[[Expression], Expression]) -> Expression | None:
    """Return the float32 expression for which an unrounded cast stands, if it is at hand."""
    if ("unrounded", True) not in step.attrs:
        return None
    rounded = settled(step.sources[0])
    if isinstance(rounded, Step) and rounded.name == "cast" and rounded.dtype == "bfloat16":
        source = rounded.sources[0]
        return source if source.dtype == step.dtype else None
    return None


def assemble(piece: Piece, program: Program, env: dict[Value, Value]) -> dict[Value, Value]:
    """Make the node of a piece; ``env`` has the new values of what it reads."""
    inputs = [env[v] for v in program.inputs]
    steps, results = program.registers()
    node = piece.node
    with scope(node.scope):
        if piece.kind is None:
            if len(steps) == 1 and len(results) == 1:
                name, attrs, sources = steps[0]
                made = apply(OPS[name], *[inputs[s] for s in sources], **dict(attrs))
            else:
                made = apply(OPS["chain"], *inputs, program=steps, results=results)
        elif not steps and len(results) == 1:
            made = apply(OPS[piece.kind], *inputs, axes=piece.axes)
        else:
            made = apply(
                OPS["chain_reduce"],
                *inputs,
                program=steps,
                results=results,
                axes=piece.axes,
                kind=piece.kind,
            )
    return dict(zip(piece.results, made if isinstance(made, tuple) else (made,)))


def pieces_of(graph: Graph) -> dict[int, Piece]:
    """Return the pieces of a graph, by their nodes' numbers."""
    found = {n.id: piece_of(n, i) for i, n in enumerate(graph.nodes)}
    return {i: p for i, p in found.items() if p is not None}


def is_full(value: Value, shape: tuple[int, ...]) -> bool:
    """Say whether a value has as many elements as the shape it is broadcast to."""
    return value.size == math.prod(shape)
