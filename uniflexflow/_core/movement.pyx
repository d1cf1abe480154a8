# cython: wraparound=True
"""Movement of elements: every operation is a list of strided copies, told as jobs.

A job copies from one operand into the output. Its dimensions are merged where both sides
allow it; the last two make tiles, the others are walked. Where elements that follow each
other in the output lie apart in the input, but another dimension lies dense there, a tile
is a transpose of those two.
"""

from libc.stdint cimport int64_t

from uniflexflow._core.chain cimport uff_tile_fn
from uniflexflow._core.core cimport (
    uff_arg, uff_instruction, uff_share, uff_slave, uff_spawn_together, uff_sync, uff_team)
from uniflexflow._core.dispatch cimport kernels, uff_kernels

import itertools
import math
import struct

import numpy as np

from uniflexflow._core.chain import find_kernel
from uniflexflow._core.tile_program import dense_strides
from uniflexflow.plan.kernel_call import KernelCall


cdef extern from "tile/movement.h" nogil:
    ctypedef void (*uff_copy_fn)(char *out, int64_t out_row, int64_t out_column, const char *x,
                                 int64_t in_row, int64_t in_column, int64_t rows,
                                 int64_t columns) noexcept nogil
    ctypedef struct uff_movement_kernels:
        uff_copy_fn dense[4]
        uff_copy_fn repeat[4]
        uff_copy_fn strided[4]
        uff_copy_fn transpose[4]
    const uff_movement_kernels *uff_movement(const uff_kernels *k) noexcept


# Bytes from which all slave cores are worth their start: one core copies so much from cache
# in about 5 us, as long as waking the others takes.
SPAWN_BYTES = 256 * 1024
MANY = 1 << 20
# Bytes of a tile of a plain copy, and elements on a side of a transposed one.
TILE_BYTES = 16 * 1024
TURN_SIDE = 128

# Instruction: jobs, cores, bytes to fill first, kernel that fills, its element, itemsize; then
# the jobs one behind the other.
cdef enum:
    JOBS, CORES, FILL_TOTAL, FILL_KERNEL, FILL_ELEMENT, FILL_ITEMSIZE, HEADER

# Job: as in this list (operand 0: the element that fills), then outer sizes, outer input
# strides, outer output strides (bytes).
cdef enum:
    KERNEL, OPERAND, IN_OFFSET, OUT_OFFSET, OUTER, ROWS, COLUMNS, IN_ROW, IN_COLUMN
    OUT_ROW, OUT_COLUMN, TILE_ROWS, TILE_COLUMNS, TILES, JOB_HEADER


cdef void do_job(const uff_instruction *ins, uff_slave *self, const int64_t *j) noexcept nogil:
    cdef uff_copy_fn copy = <uff_copy_fn><size_t>j[KERNEL]
    cdef char *out = <char *>uff_arg(ins, 0)
    cdef const char *x = (<const char *>uff_arg(ins, <int>j[OPERAND]) if j[OPERAND] else
                          <const char *>&ins.ints[FILL_ELEMENT])
    cdef const int64_t *sizes = j + JOB_HEADER
    cdef const int64_t *in_strides = sizes + j[OUTER]
    cdef const int64_t *out_strides = in_strides + j[OUTER]
    cdef int64_t across = (j[COLUMNS] + j[TILE_COLUMNS] - 1) // j[TILE_COLUMNS]
    cdef int64_t down = (j[ROWS] + j[TILE_ROWS] - 1) // j[TILE_ROWS]
    cdef int64_t lo, hi, tile, rest, row, column, i, from_, to
    uff_share(self, j[TILES], &lo, &hi)
    for tile in range(lo, hi):
        column = tile % across * j[TILE_COLUMNS]
        rest = tile // across
        row = rest % down * j[TILE_ROWS]
        rest //= down
        from_ = j[IN_OFFSET] + row * j[IN_ROW] + column * j[IN_COLUMN]
        to = j[OUT_OFFSET] + row * j[OUT_ROW] + column * j[OUT_COLUMN]
        for i in range(j[OUTER] - 1, -1, -1):
            from_ += rest % sizes[i] * in_strides[i]
            to += rest % sizes[i] * out_strides[i]
            rest //= sizes[i]
        copy(out + to, j[OUT_ROW], j[OUT_COLUMN], x + from_, j[IN_ROW], j[IN_COLUMN],
             min(j[TILE_ROWS], j[ROWS] - row), min(j[TILE_COLUMNS], j[COLUMNS] - column))


cdef void copy_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    cdef const int64_t *h = ins.ints
    cdef const int64_t *j = h + HEADER
    cdef int64_t _, lo, hi
    if h[FILL_TOTAL]:
        uff_share(self, h[FILL_TOTAL] // h[FILL_ITEMSIZE], &lo, &hi)
        (<uff_tile_fn><size_t>h[FILL_KERNEL])(
            <char *>uff_arg(ins, 0) + lo * h[FILL_ITEMSIZE], &h[FILL_ELEMENT], NULL, NULL, hi - lo)
        uff_sync(self)
    for _ in range(h[JOBS]):
        do_job(ins, self, j)
        j += JOB_HEADER + 3 * j[OUTER]


cdef void run_copies(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    uff_spawn_together(team, ins.ints[CORES], copy_share, <void *>ins)


# -- lowering ------------------------------------------------------------------------------


def job(operand, sizes, in_strides, out_strides, itemsize, in_offset=0, out_offset=0):
    """Encode one strided copy; all strides and offsets in bytes."""
    if 0 in sizes:
        return []
    dims = []
    for n, i, o in zip(sizes, in_strides, out_strides):
        if n == 1:
            continue
        if dims and dims[-1][1] == n * i and dims[-1][2] == n * o:
            dims[-1] = (dims[-1][0] * n, i, o)
        else:
            dims.append((n, i, o))
    while len(dims) < 2:
        dims.insert(0, (1, 0, 0) if dims else (1, itemsize, itemsize))
    log2 = itemsize.bit_length() - 1
    cdef const uff_movement_kernels *k = uff_movement(kernels)
    cdef int at = log2
    columns, in_column, out_column = dims.pop()
    dense = [d for d in dims if d[1] == itemsize and d[0] > 1]
    if in_column == out_column == itemsize:
        kernel = <size_t>k.dense[at]
    elif in_column == 0 and out_column == itemsize:
        kernel = <size_t>k.repeat[at]
    elif dense and out_column == itemsize:
        dims.remove(dense[0])
        dims.append(dense[0])
        kernel = <size_t>k.transpose[at]
    else:
        kernel = <size_t>k.strided[at]
    rows, in_row, out_row = dims.pop()
    if kernel == <size_t>k.transpose[at]:
        tile_rows, tile_columns = min(rows, TURN_SIDE), min(columns, TURN_SIDE)
    else:
        tile_columns = min(columns, TILE_BYTES // itemsize)
        tile_rows = min(rows, max(1, TILE_BYTES // itemsize // tile_columns))
    tiles = (math.prod([n for n, _, _ in dims]) * -(-rows // tile_rows)
             * -(-columns // tile_columns))
    return [
        kernel, operand, in_offset, out_offset, len(dims), rows, columns, in_row, in_column,
        out_row, out_column, tile_rows, tile_columns, tiles,
        *itertools.chain.from_iterable(zip(*dims)),
    ]


def call(node, jobs, fill=None, whole=True):
    """Make the call that runs some jobs.

    ``fill`` is the number with which jobs of operand 0 fill, and, if ``whole``, the output before
    all jobs.
    """
    out = node.outputs[0].spec
    jobs = [j for j in jobs if j]
    cores = MANY if out.nbytes >= SPAWN_BYTES else 1
    head = [len(jobs), cores, 0, 0, 0, out.itemsize]
    if fill is not None:
        element = np.full(1, fill, out.dtype).tobytes().ljust(8, b"\0")
        head[2:5] = [out.nbytes if whole else 0, find_kernel("fill", (), out.dtype),
                     struct.unpack("<q" if np.little_endian else ">q", element)[0]]
    ints = tuple(itertools.chain(head, *jobs))
    return KernelCall(f"{node.op.name}_{out.dtype}", <size_t>&run_copies, ints)


def lower_reshape(node):
    x = node.inputs[0].spec
    step = (x.itemsize,)
    return call(node, [job(1, (x.size,), step, step, x.itemsize)])


def lower_transpose(node):
    x, out = node.inputs[0].spec, node.outputs[0].spec
    strides = dense_strides(x.shape, x.itemsize)
    moved = [strides[a] for a in node.attrs["axes"]]
    return call(node, [job(1, out.shape, moved, dense_strides(out.shape, x.itemsize), x.itemsize)])


def lower_broadcast_to(node):
    x, out = node.inputs[0].spec, node.outputs[0].spec
    dense = (0,) * (out.ndim - x.ndim) + dense_strides(x.shape, x.itemsize)
    shape = (1,) * (out.ndim - x.ndim) + x.shape
    strides = [0 if n == 1 else s for n, s in zip(shape, dense)]
    return call(node, [job(1, out.shape, strides, dense_strides(out.shape, x.itemsize),
                           x.itemsize)])


def lower_concatenate(node):
    out, axis = node.outputs[0].spec, node.attrs["axis"]
    strides = dense_strides(out.shape, out.itemsize)
    jobs, at = [], 0
    for i, v in enumerate(node.inputs):
        jobs.append(job(i + 1, v.shape, dense_strides(v.shape, out.itemsize), strides,
                        out.itemsize, out_offset=at * strides[axis]))
        at += v.shape[axis]
    return call(node, jobs)


def lower_slice(node):
    x, out = node.inputs[0].spec, node.outputs[0].spec
    strides = dense_strides(x.shape, x.itemsize)
    offset = sum([b * s for b, s in zip(node.attrs["start"], strides)])
    steps = [k * s for k, s in zip(node.attrs["step"], strides)]
    return call(node, [job(1, out.shape, steps, dense_strides(out.shape, x.itemsize), x.itemsize,
                           in_offset=offset)])


def frame(low, shape, out):
    """Encode jobs that fill what lies around a dense block: two slabs an axis."""
    strides = dense_strides(out.shape, out.itemsize)
    zeros, jobs = (0,) * out.ndim, []
    for axis in range(out.ndim):
        end = low[axis] + shape[axis]
        for first, last in ((0, low[axis]), (end, out.shape[axis])):
            # whole along the axes behind this one, only the block along those before it
            start = (*low[:axis], first, *zeros[axis + 1:])
            sizes = (*shape[:axis], last - first, *out.shape[axis + 1:])
            offset = sum([b * s for b, s in zip(start, strides)])
            jobs.append(job(0, sizes, zeros, strides, out.itemsize, out_offset=offset))
    return jobs


def lower_pad(node):
    x, out = node.inputs[0].spec, node.outputs[0].spec
    low, interior = node.attrs["low"], node.attrs["interior"]
    strides = dense_strides(out.shape, out.itemsize)
    offset = sum([b * s for b, s in zip(low, strides)])
    steps = [(gap + 1) * s for gap, s in zip(interior, strides)]
    block = job(1, x.shape, dense_strides(x.shape, x.itemsize), steps, x.itemsize,
                out_offset=offset)
    if any(interior):
        return call(node, [block], node.attrs["value"])
    return call(node, [block, *frame(low, x.shape, out)], node.attrs["value"], whole=False)


LOWERINGS = {
    "after": lower_reshape,
    "reshape": lower_reshape,
    "transpose": lower_transpose,
    "broadcast_to": lower_broadcast_to,
    "concatenate": lower_concatenate,
    "slice": lower_slice,
    "pad": lower_pad,
}
NATIVE_BFLOAT16 = set(LOWERINGS)
