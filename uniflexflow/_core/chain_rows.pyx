# cython: wraparound=True
"""Chains that sum the rows of a table as they go: an optimizer's update of an embedding."""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from uniflexflow._core.core cimport uff_arg, uff_instruction, uff_slave, uff_spawn, uff_team
from uniflexflow._core.chain cimport (
    MAX_OUTER, OUTER, Frame, Tile, at_tile, count_tiles, share_tiles, uff_tile_fn)

import math

from uniflexflow._core.chain import find_kernel, owner
from uniflexflow._core.tile_program import encode
from uniflexflow.ir import TensorSpec
from uniflexflow.plan.kernel_call import KernelCall


# Before the chain: whether the index is int64, rows of the table, indices, elements of a row,
# itemsize, kernel that adds, cores. The operands after the chain's others are the rows, their
# indices and the workspace, where the indices are sorted by the row that they name.
cdef enum:
    WIDE, TABLE_ROWS, NUM_INDICES, ROW_SIZE, ROW_ITEMSIZE, ADD, TABLE_CORES, ROWS_OPERAND
    TABLE_HEADER


cdef inline int64_t row_of(const int64_t *r, const void *indices, int64_t k) noexcept nogil:
    """Row of the table that the k-th index names, or -1."""
    cdef int64_t i = (<const int64_t *>indices)[k] if r[WIDE] else (<const int32_t *>indices)[k]
    if i < 0:
        i += r[TABLE_ROWS]
    return i if 0 <= i < r[TABLE_ROWS] else -1


cdef void sort_indices(const int64_t *r, const void *indices, int32_t *ends) noexcept nogil:
    """Give for each row where its indices end in the order that follows, which keeps theirs."""
    cdef int32_t *order = ends + r[TABLE_ROWS]
    cdef int32_t total = 0, count
    cdef int64_t k, i
    memset(ends, 0, r[TABLE_ROWS] * sizeof(int32_t))
    for k in range(r[NUM_INDICES]):
        i = row_of(r, indices, k)
        if i >= 0:
            ends[i] += 1
    for i in range(r[TABLE_ROWS]):
        count = ends[i]
        ends[i] = total  # where the row's indices start; then where the next one goes
        total += count
    for k in range(r[NUM_INDICES]):
        i = row_of(r, indices, k)
        if i >= 0:
            order[ends[i]] = <int32_t>k
            ends[i] += 1


cdef void sum_rows(void *frame, const int64_t *entry, const Tile *t) noexcept nogil:
    """Make a tile of the table: zeros, and the rows that belong there, in their order."""
    cdef const Frame *f = <const Frame *>frame
    cdef const int64_t *r = f.table
    cdef uff_tile_fn add = <uff_tile_fn><size_t>r[ADD]
    cdef const char *rows = <const char *>uff_arg(f.ins, <int>r[ROWS_OPERAND])
    cdef const int32_t *ends = <const int32_t *>uff_arg(f.ins, <int>(r[ROWS_OPERAND] + 2))
    cdef const int32_t *order = ends + r[TABLE_ROWS]
    cdef char *to = <char *>f.registers[entry[0]]
    cdef int64_t size = r[ROW_ITEMSIZE], width = r[ROW_SIZE], count = t.rows * t.columns
    cdef int64_t start = (<size_t>at_tile(NULL, entry + 4, f.head[OUTER], t)) // size
    cdef int64_t row = start // width, lo, hi, p
    cdef char *place
    memset(to, 0, count * size)
    while row * width < start + count:
        lo, hi = max(start, row * width), min(start + count, (row + 1) * width)
        place = to + (lo - start) * size
        for p in range(ends[row - 1] if row else 0, ends[row]):
            add(place, place, rows + (order[p] * width + lo - row * width) * size, NULL, hi - lo)
        row += 1


cdef void chain_rows_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    share_tiles(self, ins, ins.ints + TABLE_HEADER, sum_rows, ins.ints)


cdef void run_chain_rows(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef const int64_t *r = ins.ints
    sort_indices(r, uff_arg(ins, <int>(r[ROWS_OPERAND] + 1)),
                 <int32_t *>uff_arg(ins, <int>(r[ROWS_OPERAND] + 2)))
    uff_spawn(team, min(r[TABLE_CORES], count_tiles(r + TABLE_HEADER)), chain_rows_share,
              <void *>ins)


def lower(node):
    """Lower ``chain_rows``."""
    attrs, out = node.attrs, node.outputs[0].spec
    *others, rows, indices = node.inputs
    table, place = out, len(others)
    if rows.dtype != out.dtype:
        table = TensorSpec(out.shape, rows.dtype)
    encoded = encode([*[v.spec for v in others], table], attrs["program"], attrs["results"],
                     [*[owner(v) for v in others], object()], find_kernel, summed=place)
    ints = encoded.ints
    if ints[6] > MAX_OUTER:
        raise NotImplementedError(
            f"chain_rows: operands broadcast in {ints[6] + 2} separate groups of dimensions; "
            f"expected at most {MAX_OUTER + 2}; reshape them first.")
    head = (indices.dtype == "int64", table.shape[0], indices.size, math.prod(table.shape[1:]),
            table.itemsize, find_kernel("add", (table.dtype, table.dtype), table.dtype), ints[12],
            len(node.outputs) + place)
    name = "chain_rows_" + "_".join([step[0] for step in attrs["program"]])
    inplace = tuple([pair for pair in encoded.inplace if pair[1] != place])
    return KernelCall(name, <size_t>&run_chain_rows, (*head, *ints), inplace=inplace,
                      workspace=max(1, 4 * (table.shape[0] + indices.size)),
                      flops=out.size * len(attrs["program"]) + rows.size)


LOWERINGS = {"chain_rows": lower}
