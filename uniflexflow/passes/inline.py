"""Inlining: a result of a chain is computed where it is read, if that costs less than memory.

A chain that stores a value for later readers writes it once and has it read by each of
them. Where the value is a few cheap steps from something that is in memory anyway (the
input less its mean, a gradient behind a relu), its readers do these steps themselves and
it is never stored. A reduction takes up the whole chain before it in the same way.

The rule is by cost, for all pieces concerned together: steps that are done more often
against bytes that are written and read less often.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from uniflexflow.ir import Graph, Node, Value, rewrite
from uniflexflow.passes.pieces import (
    MAX_INPUTS,
    MAX_STEPS,
    Piece,
    Program,
    Step,
    assemble,
    is_full,
    pieces_of,
    write_down,
)

# Costs per element, in units of one cheap step on a tile in the L1 cache (about 0.1 ns): a
# byte from memory, and one where the tensor is small enough to be in a core's L2 cache. A byte
# that is written costs more, as its cache line is read before.
BYTE_OF_MEMORY = 1.5
BYTE_OF_CACHE = 0.4
CACHED_BYTES = 256 * 1024
WRITTEN = 1.5
STEP_COSTS = dict.fromkeys(
    ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "softplus", "sin", "cos"), 12
) | {"erf": 24, "power": 60, "mod": 60, "floor_divide": 60, "divide": 3, "sqrt": 3, "rsqrt": 6}

# Below this, memory is not what an operation costs: only reductions take up what is before
# them, which makes one operation of two.
SMALL_BYTES = 16 * 1024

# A value that is not stored keeps what it is made of in memory until it is read. That may be
# larger than the value only if the readers are within so many nodes.
NEAR = 24


def _cost(piece: Piece, program: Program) -> float:
    if not piece.results:
        return 0.0
    total = float(sum([STEP_COSTS.get(name, 1) for name, _, _ in program.steps]))
    moved = [(v, 1.0) for v in program.inputs if is_full(v, piece.shape)]
    if piece.kind is None:
        moved += [(v, WRITTEN) for v in piece.results]
    for v, weight in moved:
        byte = BYTE_OF_CACHE if v.spec.nbytes <= CACHED_BYTES else BYTE_OF_MEMORY
        total += weight * byte * v.spec.itemsize
    return total


class _Inliner:
    """Decides value by value, in order; ``inlined`` and ``stored`` say what has become of them."""

    def __init__(self, graph: Graph, joined: bool):
        self.joined = joined
        self.pieces = pieces_of(graph)
        self.inlined: dict[Value, Step] = {}
        self.stored: dict[Step, Value] = {}
        self.roots = set(graph.roots)
        self.updated = {leaf for leaf, _ in graph.updates}
        self.last_read: dict[Value, int] = defaultdict(int)
        self.readers: dict[Value, dict[int, Piece | None]] = defaultdict(dict)
        for at, node in enumerate(graph.nodes):
            for value in node.inputs:
                self.last_read[value] = at
                self.readers[value][node.id] = self.pieces.get(node.id)
        for piece in self.pieces.values():
            if piece.kind is None:
                self.stored.update({e: v for v, e in piece.results.items() if isinstance(e, Step)})
        self.programs = {i: self.written(p) for i, p in self.pieces.items()}
        for piece in list(self.pieces.values()):
            if piece.kind is None:
                for value in list(piece.results):
                    self._decide(piece, value)

    def written(self, piece: Piece) -> Program:
        return write_down(piece.results.values(), self.inlined, self.stored, piece.results)

    def _decide(self, maker: Piece, value: Value) -> None:
        step = maker.results[value]
        readers = self.readers[value]
        if value in self.roots or self.stored.get(step) is not value or not readers:
            return
        if not all(p is not None and p.shape == value.shape for p in readers.values()):
            return
        reduced = [len(p.results) for p in readers.values() if p.kind is not None]
        if self.joined and max(reduced, default=0) < 2:
            return
        if value.spec.nbytes <= SMALL_BYTES and len(reduced) < len(readers):
            return
        changed = [maker, *readers.values()]
        before = sum([_cost(p, self.programs[p.node.id]) for p in changed])
        results = maker.results
        maker.results = {v: e for v, e in results.items() if v is not value}
        self.inlined[value] = step
        del self.stored[step]
        programs = {p.node.id: self.written(p) for p in changed}
        after = sum([_cost(p, programs[p.node.id]) for p in changed])
        if after < before and all(
            self._allowed(maker, value, p, programs[p.node.id]) for p in readers.values()
        ):
            self._take(maker, value, programs)
        else:
            del self.inlined[value]
            self.stored[step] = value
            maker.results = results

    def _allowed(self, maker: Piece, value: Value, reader: Piece, program: Program) -> bool:
        if len(program.steps) > MAX_STEPS or len(program.inputs) > MAX_INPUTS:
            return False
        if not program.fits(reader.shape):
            return False
        new = [v for v in program.inputs if v not in self.programs[reader.node.id].inputs]
        large = [v for v in new if is_full(v, reader.shape)]
        if self.updated.intersection(large):
            return False  # it would be read after it is to be overwritten
        longer = sum([v.spec.nbytes for v in large if self.last_read[v] < reader.position])
        return longer <= value.spec.nbytes or reader.position - maker.position <= NEAR

    def _take(self, maker: Piece, value: Value, programs: dict[int, Program]) -> None:
        readers = self.readers.pop(value)
        self.programs.update(programs)
        for piece in readers.values():
            for v in programs[piece.node.id].inputs:
                self.readers[v][piece.node.id] = piece
                self.last_read[v] = max(self.last_read[v], piece.position)
        kept = programs[maker.node.id].inputs if maker.results else ()
        for v in maker.node.inputs:
            if v not in kept:
                self.readers[v].pop(maker.node.id, None)


def inline(graph: Graph, joined: bool = False) -> Graph:
    """Compute results of chains where they are read, where that costs less.

    Parameters
    ----------
    graph : Graph
    joined : bool
        Look only at what reductions with several results read.
    """
    inliner = _Inliner(graph, joined)
    if not inliner.inlined:
        return graph
    env: dict[Value, Value] = {}

    def rule(node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
        env.update(zip(node.inputs, inputs))
        piece = inliner.pieces.get(node.id)
        if piece is None:
            return None
        program = inliner.programs[node.id]
        if len(piece.results) == len(node.outputs) and tuple(program.inputs) == node.inputs:
            return None
        if not piece.results:
            return node.outputs  # nobody reads them
        new = assemble(piece, program, env)
        env.update(new)
        return [new.get(v, v) for v in node.outputs]

    return rewrite(graph, rule)
