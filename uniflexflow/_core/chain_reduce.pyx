# cython: wraparound=True
"""Chains that are reduced: tiles go to accumulators while they are in the L1 cache."""

from libc.stdint cimport int64_t

from uniflexflow._core.core cimport (
    uff_arg, uff_first_piece, uff_instruction, uff_next_piece, uff_share, uff_slave,
    uff_spawn_together, uff_sync, uff_take, uff_team)
from uniflexflow._core.chain cimport (
    COLUMNS, MAX_OUTER, OUTER, TILE_COLUMNS, TILE_ROWS, Frame, Tile, bring_inputs, count_tiles,
    find_tile, open_frame, run_steps)
from uniflexflow._core.dispatch cimport kernels, uff_kernels

import math

from uniflexflow._core.chain import find_kernel, owner
from uniflexflow._core.tile_program import DTYPE_NUMBERS, dense_strides, encode
from uniflexflow.ops.shape_rules import broadcast_shapes
from uniflexflow.plan.kernel_call import KernelCall


cdef extern from "tile/reduce.h" nogil:
    ctypedef struct uff_reducer:
        int acc_size
        void (*start)(void *acc, int64_t n) noexcept nogil
        void (*rows)(void *acc, const void *x, int64_t count, int64_t n,
                     int64_t stride) noexcept nogil
        void (*columns)(void *acc, const void *x, int64_t count, int64_t n,
                        int64_t stride) noexcept nogil
        int part_size
        void (*blank)(void *part, int64_t n) noexcept nogil
        void (*gather)(void *part, const void *x, int64_t count, int64_t n) noexcept nogil
        void (*fold)(void *acc, void *part, int64_t together, int64_t n) noexcept nogil
        void (*merge)(void *acc, const void *other, int64_t n) noexcept nogil
        void (*finish)(void *out, const void *acc, int64_t n) noexcept nogil
    ctypedef struct uff_reduce_kernels:
        uff_reducer reducers[3][8]
    const uff_reduce_kernels *uff_reduce(const uff_kernels *k) noexcept
    enum: UFF_REDUCE_COLUMNS, UFF_COLUMN_BLOCK


# Several registers may be reduced in one pass over memory: results of one size and dtype.
# Before the chain: the reducer, a result's itemsize and size, chunks of tiles, tiles of a
# chunk, whether rows and columns are kept, the workspace's place, cores, outer loops, results;
# then a result's strides (in elements, 0 for what is summed) along all loops. Every chunk has
# its own accumulators for all of the results, one result after the other; chunks are cut by
# sizes alone and combined in order. They share one set if every element of a result is made by
# one chunk: the loops kept are the outer ones.
#
# Sums along columns: a tile has few rows, so tiles gather in partial results of their own dtype,
# which go to the accumulators when UFF_COLUMN_BLOCK rows have come, or other results begin. Of
# short rows, TOGETHER make one row of them; 0: rows are too long, each tile goes by itself.
cdef enum:
    REDUCER, OUT_ITEMSIZE, OUT_SIZE, CHUNKS, CHUNK_TILES, ROW_KEPT, COLUMN_KEPT, WORKSPACE
    REDUCE_CORES, OUTER_LOOPS, SHARED, RESULTS, TOGETHER, REDUCE_HEADER


cdef void fold_tile(const int64_t *r, const Tile *t, int64_t outer, const char *x,
                    char *acc) noexcept nogil:
    """Take one tile in, which lies dense at x."""
    cdef const uff_reducer *reducer = <const uff_reducer *><size_t>r[REDUCER]
    cdef const int64_t *strides = r + REDUCE_HEADER
    cdef int64_t size = r[OUT_ITEMSIZE], at = t.row * strides[outer], i, j, width
    at += t.column * strides[outer + 1]
    for i in range(outer):
        at += t.outer[i] * strides[i]
    acc += at * reducer.acc_size
    if not r[COLUMN_KEPT]:
        if r[ROW_KEPT]:
            reducer.rows(acc, x, t.rows, t.columns, t.columns)
        else:
            reducer.rows(acc, x, 1, t.rows * t.columns, 0)
        return
    j = 0
    while j < t.columns:
        width = min(<int64_t>UFF_REDUCE_COLUMNS, t.columns - j)
        if r[ROW_KEPT]:
            for i in range(t.rows):
                reducer.columns(acc + (i * strides[outer] + j) * reducer.acc_size,
                                x + (i * t.columns + j) * size, 1, width, t.columns)
        else:
            reducer.columns(acc + j * reducer.acc_size, x + j * size, t.rows, width, t.columns)
        j += width


# Partial results, one result's after the other's.
cdef struct Partial:
    char *memory
    int64_t width, base, taken  # of one result: elements, first accumulator, elements that came


cdef inline void fold_partial(const int64_t *r, Partial *p, char *acc) noexcept nogil:
    """Take the partial results in; they are blank afterwards."""
    cdef const uff_reducer *reducer = <const uff_reducer *><size_t>r[REDUCER]
    cdef int64_t q
    for q in range(r[RESULTS]):
        reducer.fold(acc + (q * r[OUT_SIZE] + p.base) * reducer.acc_size,
                     p.memory + q * p.width * reducer.part_size, r[TOGETHER],
                     p.width // r[TOGETHER])
    p.taken = 0


cdef inline void gather_tile(const int64_t *r, const Frame *f, const Tile *t, Partial *p,
                             char *acc) noexcept nogil:
    """Take one tile of each result into the partial ones."""
    cdef const uff_reducer *reducer = <const uff_reducer *><size_t>r[REDUCER]
    cdef const int64_t *strides = r + REDUCE_HEADER
    cdef int64_t outer = f.head[OUTER], base = 0, count = t.rows * t.columns, i, q
    cdef int64_t whole = count // p.width, rest = count - whole * p.width
    cdef const char *x
    cdef char *part
    for i in range(outer):
        base += t.outer[i] * strides[i]
    if p.taken and (base != p.base or p.taken + count > UFF_COLUMN_BLOCK * p.width):
        fold_partial(r, p, acc)
    p.base = base
    p.taken += count
    for q in range(r[RESULTS]):
        x = <const char *>f.registers[f.out_entries[q * f.out_ints]]
        part = p.memory + q * p.width * reducer.part_size
        if t.columns < f.head[COLUMNS]:  # a part of one row
            reducer.gather(part + t.column * reducer.part_size, x, 1, t.columns)
            continue
        reducer.gather(part, x, whole, p.width)
        reducer.gather(part, x + (count - rest) * r[OUT_ITEMSIZE], rest > 0, rest)


cdef void chain_reduce_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    cdef const int64_t *r = ins.ints
    cdef const uff_reducer *reducer = <const uff_reducer *><size_t>r[REDUCER]
    cdef const int64_t *head
    cdef int64_t outer, tiles, lo, hi, number, chunk, k, q, start, end
    cdef int64_t size = r[OUT_SIZE], all_sizes = r[RESULTS] * size, tile_bytes
    cdef char *partial = <char *>uff_arg(ins, <int>r[WORKSPACE])
    cdef char *x
    cdef char *acc
    cdef Frame f
    cdef Tile t
    cdef Partial p = Partial(NULL, 0, 0, 0)
    outer = r[OUTER_LOOPS]
    head = r + REDUCE_HEADER + outer + 2
    tiles = count_tiles(head)
    open_frame(&f, self, ins, head)
    tile_bytes = head[TILE_ROWS] * head[TILE_COLUMNS] * r[OUT_ITEMSIZE]
    for q in range(r[RESULTS]):
        f.registers[f.out_entries[q * f.out_ints]] = uff_take(self, tile_bytes)
    if r[TOGETHER]:
        p.width = r[TOGETHER] * head[COLUMNS]
        p.taken = 0
        p.memory = <char *>uff_take(self, r[RESULTS] * p.width * reducer.part_size)
        reducer.blank(p.memory, r[RESULTS] * p.width)
    if r[SHARED]:
        uff_share(self, all_sizes, &lo, &hi)
        reducer.start(partial + lo * reducer.acc_size, hi - lo)
        uff_sync(self)
    chunk = uff_first_piece(self, r[CHUNKS])
    while chunk >= 0:
        acc = partial
        if not r[SHARED]:
            acc += chunk * all_sizes * reducer.acc_size
            reducer.start(acc, all_sizes)
        for number in range(chunk * r[CHUNK_TILES], min(tiles, (chunk + 1) * r[CHUNK_TILES])):
            find_tile(head, number, &t)
            bring_inputs(&f, &t)
            run_steps(f.main_steps, f.main_count, f.registers, t.rows * t.columns)
            if r[TOGETHER]:
                gather_tile(r, &f, &t, &p, acc)
                continue
            for q in range(r[RESULTS]):
                x = <char *>f.registers[f.out_entries[q * f.out_ints]]
                fold_tile(r, &t, outer, x, acc + q * size * reducer.acc_size)
        if r[TOGETHER] and p.taken:
            fold_partial(r, &p, acc)
        chunk = uff_next_piece(self)
    uff_sync(self)
    uff_share(self, all_sizes, &lo, &hi)
    for k in range(1, 1 if r[SHARED] else r[CHUNKS]):
        reducer.merge(partial + lo * reducer.acc_size,
                      partial + (k * all_sizes + lo) * reducer.acc_size, hi - lo)
    for q in range(r[RESULTS]):
        start, end = max(lo, q * size), min(hi, (q + 1) * size)
        if start < end:
            reducer.finish(<char *>uff_arg(ins, <int>q) + (start - q * size) * r[OUT_ITEMSIZE],
                           partial + start * reducer.acc_size, end - start)


cdef void run_chain_reduce(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    uff_spawn_together(team, min(ins.ints[REDUCE_CORES], ins.ints[CHUNKS]), chain_reduce_share,
                       <void *>ins)


# -- lowering ------------------------------------------------------------------------------

cdef dict numbers = DTYPE_NUMBERS
# Chunks of a reduced chain: at most so many, and each at least so many times the result.
cdef int MAX_CHUNKS = 16
cdef int CHUNK_RESULTS = 8
# Partial results: short rows are joined to so many elements, and all take at most so much.
cdef int TOGETHER_ELEMENTS = 256, PARTIAL_BYTES = 64 * 1024


def lower(node):
    """Lower ``chain_reduce``."""
    attrs, out, inputs = node.attrs, node.outputs[0].spec, [v.spec for v in node.inputs]
    shape = broadcast_shapes("chain_reduce", *[s.shape for s in inputs])
    groups = [int(i in attrs["axes"]) for i in range(len(shape))]
    count = len(node.outputs)
    encoded = encode(inputs, attrs["program"], attrs["results"],
                     [owner(v) for v in node.inputs], find_kernel, groups)
    loops, ints = encoded.loops, encoded.ints
    cdef const uff_reducer *reducer = &uff_reduce(kernels).reducers[
        <int>("sum", "max").index(attrs["kind"])][<int>numbers[out.dtype]]
    outer, rows, columns, tile_rows, tile_columns = ints[6:11]
    if outer > MAX_OUTER:
        raise NotImplementedError(
            f"chain_reduce: operands broadcast and axes {attrs['axes']} make {outer + 2} separate "
            f"groups of dimensions; expected at most {MAX_OUTER + 2}; reshape them first.")
    kept = [not group for group in loops.groups]
    strides = dense_strides([n if k else 1 for n, k in zip(loops.sizes, kept)], 1)
    total = math.prod(loops.sizes)
    pieces = [*loops.sizes[:-2], -(-rows // tile_rows), -(-columns // max(1, tile_columns))]
    tiles = math.prod(pieces) if total else 0
    each = math.prod([n for n, k in zip(pieces, kept) if not k])  # tiles of one result
    shared = kept == sorted(kept, reverse=True) and tiles >= each * MAX_CHUNKS
    if shared:
        chunk_tiles = each * max(1, -(-tiles // (max(1, each) * MAX_CHUNKS)))
    else:
        chunks = max(1, min(MAX_CHUNKS, tiles, total // max(1, CHUNK_RESULTS * out.size)))
        chunk_tiles = -(-tiles // chunks)
    chunks = max(1, -(-tiles // max(1, chunk_tiles)))
    together = max(1, TOGETHER_ELEMENTS // max(1, columns))
    together = min(together, max(1, tile_rows)) if tile_columns == columns else 1
    if kept[-2] or not kept[-1] or count * together * columns * reducer.part_size > PARTIAL_BYTES:
        together = 0
    head = [<size_t>reducer, out.itemsize, out.size, chunks, chunk_tiles, kept[-2], kept[-1],
            count + len(inputs), ints[12], outer, shared, count, together,
            *[s if k else 0 for s, k in zip(strides, kept)]]
    name = "_".join(["chain", *[step[0] for step in attrs["program"]], *[attrs["kind"]] * count])
    return KernelCall(name, <size_t>&run_chain_reduce, (*head, *ints),
                      workspace=max(1, (1 if shared else chunks) * count * out.size
                                    * reducer.acc_size),
                      flops=total * (count + len(attrs["program"])))


LOWERINGS = {"chain_reduce": lower}
