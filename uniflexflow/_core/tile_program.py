"""Chains made ready to run: loops, tile sizes and registers as a list of integers.

The layout of that list is known to this file and to ``chain.pxd`` alone; see ``encode``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from uniflexflow._core.tile_pairs import join_steps
from uniflexflow._core.tile_roundings import Step, fold_casts
from uniflexflow.ir import Shape, TensorSpec
from uniflexflow.machine import host
from uniflexflow.machine.planner import plan_chain
from uniflexflow.ops.chain import Program, register_specs

MIN_TILE, MAX_TILE = 64, 4096  # elements; below, the cost per tile shows

#: Relative cost of one element of one step; the others are 1.
COSTS = dict.fromkeys(
    ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "softplus", "erf", "sin", "cos"), 10
) | {"power": 20, "mod": 20, "floor_divide": 20, "divide": 2, "sqrt": 2, "rsqrt": 4}

#: Number of a dtype in the kernels' tables: the order of the enum in tile/tile_fn.h.
DTYPE_NUMBERS = {
    name: i
    for i, name in enumerate(
        ("float32", "float64", "int32", "int64", "int8", "uint8", "bool", "bfloat16")
    )
}

# How an input's tile comes into its register.
DIRECT, FILL, ROW, COLUMN, SUMMED = range(5)

#: Work (elements times the costs of the steps) from which all slave cores are worth their
#: start: waking them takes as long as about 5 us of one core's work.
SPAWN_WORK = 64 * 1024
MANY = 1 << 20

FindKernel = Callable[[str, Sequence[str], str], int]


@dataclass(frozen=True, slots=True)
class Loops:
    """Loop nest after merging: sizes, per operand whether it has that dimension, group.

    The last two sizes are the rows and columns that tiles are cut from.
    """

    sizes: tuple[int, ...]
    has: tuple[tuple[bool, ...], ...]
    groups: tuple[int, ...]

    def strides(self, operand: int, itemsize: int) -> tuple[int, ...]:
        """Bytes from one index to the next in memory, 0 where it is broadcast."""
        has = self.has[operand]
        dense = dense_strides([n if h else 1 for n, h in zip(self.sizes, has)], itemsize)
        return tuple([s if h else 0 for s, h in zip(dense, has)])


def dense_strides(sizes: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the bytes from one index to the next in a C-contiguous array."""
    out = []
    for n in reversed(sizes):
        out.append(itemsize)
        itemsize *= n
    return tuple(reversed(out))


def merge_loops(shape: Shape, operands: Sequence[Shape], groups: Sequence[int] = ()) -> Loops:
    """Merge neighbouring dimensions that every operand has, or that it lacks.

    ``groups`` gives each dimension a number; only dimensions of one group are merged.
    """
    groups = groups or (0,) * len(shape)
    sizes: list[int] = []
    columns: list[tuple[tuple[bool, ...], int]] = []
    for i, n in enumerate(shape):
        if n == 1:
            continue
        has = tuple([i >= len(shape) - len(s) and s[i - len(shape)] != 1 for s in operands])
        if columns and columns[-1] == (has, groups[i]):
            sizes[-1] *= n
        else:
            sizes.append(n)
            columns.append((has, groups[i]))
    while len(sizes) < 2:
        sizes.insert(0, 1)
        columns.insert(0, ((True,) * len(operands), 0))
    has = tuple(zip(*[has for has, _ in columns]))
    return Loops(tuple(sizes), has, tuple([group for _, group in columns]))


@dataclass(frozen=True, slots=True)
class Chain:
    """A program without the steps that do nothing; each target is made by a step.

    Attributes
    ----------
    specs : of every register; the first ``count`` are inputs
    steps : (register, operation, sources) in order
    targets : registers that are written to the outputs
    """

    specs: tuple[TensorSpec, ...]
    count: int
    steps: tuple[Step, ...]
    targets: tuple[int, ...]


def clean(inputs: Sequence[TensorSpec], program: Program, results: Sequence[int]) -> Chain:
    """Drop the steps that nothing needs, that only rename, or that others can do by the way.

    What is returned twice is copied.
    """
    specs = register_specs(inputs, program)
    count = len(inputs)
    same = list(range(len(specs)))
    steps: list[Step] = []
    for r, (name, _, sources) in enumerate(program, start=count):
        sources = tuple([same[s] for s in sources])
        same_dtype = specs[r].dtype == specs[sources[0]].dtype
        if name == "stop_gradient" or (name == "cast" and same_dtype):
            same[r] = sources[0]
        else:
            steps.append((r, name, sources))
    targets: list[int] = []
    for r in [same[r] for r in results]:
        if r < count or r in targets:
            specs.append(specs[r])
            steps.append((len(specs) - 1, "copy", (r,)))
            r = len(specs) - 1
        targets.append(r)
    needed = set(targets)
    for r, _, sources in reversed(steps):
        if r in needed:
            needed.update(sources)
    kept = fold_casts(specs, [s for s in steps if s[0] in needed], targets)
    return Chain(tuple(specs), count, tuple(kept), tuple(targets))


@dataclass(slots=True)
class Layout:
    """Where each register's tile is while a chain runs.

    Attributes
    ----------
    modes : how each input comes into its register
    once : registers that are the same for all tiles
    place : register -> its place in the scratchpad, in bytes per element of a tile
    used : bytes of scratchpad per element of a tile
    """

    modes: list[int]
    once: set[int]
    place: dict[int, int]
    used: int

    @classmethod
    def make(cls, chain: Chain, loops: Loops, wide: bool, summed: int | None = None) -> Layout:
        """``wide``: a tile is a part of one row, not several whole rows."""
        modes, once = [], set()
        for i, (*outer, row, column) in enumerate(loops.has):
            if wide:
                modes.append(DIRECT if column else FILL)
                steady = not (row or column or any(outer))
            else:
                modes.append({(1, 1): DIRECT, (0, 1): ROW, (1, 0): COLUMN}.get((row, column), FILL))
                steady = not (row or any(outer))
            if steady:
                once.add(i)
        if summed is not None:
            modes[summed] = SUMMED
        for r, _, sources in chain.steps:
            if r not in chain.targets and once.issuperset(sources):
                once.add(r)
        layout = cls(modes, once, {}, 0)
        layout._place_registers(chain)
        return layout

    def _place_registers(self, chain: Chain) -> None:
        last: dict[int, int] = {}
        for i, (r, _, sources) in enumerate(chain.steps):
            last.update(dict.fromkeys(sources, i))
            last.setdefault(r, i)
        free: dict[int, list[int]] = {}

        def take(r: int) -> None:
            places = free.setdefault(chain.specs[r].itemsize, [])
            if not places:
                places.append(self.used)
                self.used += chain.specs[r].itemsize
            self.place[r] = places.pop()

        for r in range(chain.count):
            if r in last and self.modes[r] != DIRECT:
                take(r)
        for r, _, _ in chain.steps:
            if r in self.once:
                take(r)
        for i, (r, _, sources) in enumerate(chain.steps):
            if r in self.once:
                continue
            # the result may take the place of a source that is not read again
            for s in set(sources):
                if last[s] == i and s in self.place and s not in self.once:
                    free.setdefault(chain.specs[s].itemsize, []).append(self.place[s])
            if r not in chain.targets:
                take(r)

    def tile(self, chain: Chain) -> int:
        """Return how many elements a tile should have."""
        direct = sum(
            [chain.specs[i].itemsize for i in range(chain.count) if self.modes[i] == DIRECT]
            + [chain.specs[t].itemsize for t in chain.targets]
        )
        elements = plan_chain(host()) // (self.used + direct) // 64 * 64
        return min(max(elements, MIN_TILE), MAX_TILE)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A chain as the tiled operation reads it; see ``encode``."""

    ints: tuple[int, ...]
    inplace: tuple[tuple[int, int], ...]
    loops: Loops


def encode(
    inputs: Sequence[TensorSpec],
    program: Program,
    results: Sequence[int],
    owners: Sequence[object],
    find: FindKernel,
    groups: Sequence[int] = (),
    summed: int | None = None,
) -> Encoded:
    """Encode a chain.

    Parameters
    ----------
    inputs : sequence of TensorSpec
    program, results
        See ``ops.chain``.
    owners : sequence
        One object per input, equal for inputs that are the same memory.
    find : callable
        ``find(operation, input dtypes, output dtype)`` gives a tile kernel's address;
        the operations ``copy`` and ``fill`` are known to it too.
    groups : sequence of int, optional
        See ``merge_loops``.
    summed : int, optional
        The input that has no memory: its tiles are summed from rows.

    Notes
    -----
    The integers are::

        inputs, outputs, inputs done once, steps done once, steps, registers, outer loops,
        rows, columns, rows of a tile, columns of a tile, bytes of scratchpad, cores
        outer sizes ...
        per register: its place in the scratchpad
        per input:    its number, mode, kernel that fills, itemsize, outer strides ..., row
                      stride, column stride
        per output:   register, outer strides ..., row stride, column stride
        per step:     kernel, destination, three sources

    Inputs done once come first in their table, and so do the steps.
    """
    chain = clean(inputs, program, results)
    specs, count, targets = chain.specs, chain.count, chain.targets
    loops = merge_loops(specs[targets[0]].shape, [s.shape for s in inputs], groups)
    rows, columns = loops.sizes[-2:]
    layout = Layout.make(chain, loops, False, summed)
    wide = columns > layout.tile(chain) // 2
    if wide:
        layout = Layout.make(chain, loops, True, summed)
    alone = chain.steps
    chain = replace(chain, steps=tuple(join_steps(specs, alone, targets, layout.once)))
    layout = Layout.make(chain, loops, wide, summed)
    tile = layout.tile(chain)
    if wide:
        pieces = max(1, -(-columns // tile))
        tile_rows, tile_columns = 1, min(columns, -(-columns // (pieces * 16)) * 16)
    else:
        tile_rows, tile_columns = max(1, min(rows, tile // max(columns, 1))), columns
    elements = -(-tile_rows * tile_columns // 64) * 64

    used = [i for i in range(count) if any(i in sources for _, _, sources in chain.steps)]
    order = sorted(used, key=lambda i: i not in layout.once)
    steps = sorted(chain.steps, key=lambda s: s[0] not in layout.once)
    outer = loops.sizes[:-2]
    total = math.prod(loops.sizes)
    work = total * (1 + sum(COSTS.get(name, 1) for r, name, _ in alone if r not in layout.once))

    ints: list[int] = [
        len(order), len(targets), sum(i in layout.once for i in order),
        sum(s[0] in layout.once for s in steps), len(steps), len(specs), len(outer),
        rows, columns, tile_rows, tile_columns, layout.used * elements,
        MANY if work >= SPAWN_WORK else 1, *outer,
    ]  # fmt: skip
    ints += [layout.place.get(r, 0) * elements for r in range(len(specs))]
    for i in order:
        ints += [i, layout.modes[i], find("fill", (), specs[i].dtype), specs[i].itemsize]
        ints += loops.strides(i, specs[i].itemsize)
    for t in targets:
        ints += [t, *dense_strides(loops.sizes, specs[t].itemsize)]
    for r, name, sources in steps:
        kernel = find(name, [specs[s].dtype for s in sources], specs[r].dtype)
        ints += [kernel, r, *sources, *[sources[0]] * (3 - len(sources))]
    return Encoded(tuple(ints), _inplace(chain, loops, owners), loops)


def _inplace(chain: Chain, loops: Loops, owners: Sequence[object]) -> tuple[tuple[int, int], ...]:
    """Pairs (output, input): the input has one element for each of the output, of its size,
    and is not read by a later step, under no other name."""
    last: dict[object, int] = {}
    made = {}
    for i, (r, _, sources) in enumerate(chain.steps):
        made[r] = i
        for s in sources:
            if s < chain.count:
                last[owners[s]] = i
    return tuple(
        [
            (k, i)
            for k, t in enumerate(chain.targets)
            for i in range(chain.count)
            if all(loops.has[i])
            and chain.specs[i].dtype == chain.specs[t].dtype
            and last.get(owners[i], -1) <= made[t]
        ]
    )
