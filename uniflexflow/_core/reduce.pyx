# cython: wraparound=True
"""Reductions over any axes, places of extremes, and running sums.

Merged, the dimensions of an operand are by turns kept and summed. The last two make a
panel: rows of summed elements (``along``: each row gives one result), or rows that are
summed into one (each column gives one result). An item of work is one part of the results
of a panel over one chunk of what is summed; chunks are cut by sizes alone and their
results combined in order, so the number of slave cores doesn't change them.
"""

from libc.stdint cimport int32_t, int64_t

from uniflexflow._core.core cimport (
    uff_arg, uff_instruction, uff_share, uff_slave, uff_spawn, uff_spawn_together, uff_sync,
    uff_take, uff_team)
from uniflexflow._core.dispatch cimport kernels, uff_kernels

import math

from uniflexflow._core.tile_program import DTYPE_NUMBERS, merge_loops
from uniflexflow.plan.kernel_call import KernelCall


ctypedef void (*cumsum_fn)(void *y, const void *x, int64_t n, int reverse) noexcept nogil


cdef extern from "tile/reduce.h" nogil:
    ctypedef struct uff_reducer:
        int acc_size
        void (*start)(void *acc, int64_t n) noexcept nogil
        void (*rows)(void *acc, const void *x, int64_t count, int64_t n,
                     int64_t stride) noexcept nogil
        void (*columns)(void *acc, const void *x, int64_t count, int64_t n,
                        int64_t stride) noexcept nogil
        void (*merge)(void *acc, const void *other, int64_t n) noexcept nogil
        void (*finish)(void *out, const void *acc, int64_t n) noexcept nogil
    ctypedef void (*uff_arg_fn)(int32_t *out, void *best, const void *x, int64_t n,
                                int64_t columns, int64_t stride) noexcept nogil
    ctypedef struct uff_reduce_kernels:
        uff_reducer reducers[3][8]
        uff_arg_fn argmax[8]
        uff_arg_fn argmin[8]
        cumsum_fn cumsum[8]
    const uff_reduce_kernels *uff_reduce(const uff_kernels *k) noexcept
    enum: UFF_REDUCE_COLUMNS


# Elements from which all slave cores are worth their start: a sum of so many takes one core
# about 5 us, as long as waking the others.
SPAWN_ELEMENTS = 64 * 1024
MANY = 1 << 20
# A chunk of what is summed is at least so many elements, and there are about so many items
# where there is enough to do, so that any number of cores up to about that is kept busy.
CHUNK_ELEMENTS = 16 * 1024
ITEMS = 32

cdef dict numbers = DTYPE_NUMBERS


# -- sum, max, min -------------------------------------------------------------------------

# ints: as in this list, then per outer dimension: size, 1 if kept else 0, input stride; kept
# ones first. Strides and sizes are in elements.
cdef enum:
    REDUCER, ALONG, ITEMSIZE, KEPT_DIMS, SUMMED_DIMS, KEPT, SUMMED
    ROWS, COLUMNS, PART, PARTS, CHUNK, CHUNKS, CORES, HEADER


cdef inline int64_t place_of(const int64_t *dims, int64_t count, int64_t number) noexcept nogil:
    """Offset of the number-th element of some dimensions."""
    cdef int64_t offset = 0, i
    for i in range(count - 1, -1, -1):
        offset += number % dims[2 * i] * dims[2 * i + 1]
        number //= dims[2 * i]
    return offset


cdef void reduce_item(const uff_instruction *ins, int64_t panel, int64_t part, int64_t chunk,
                      char *acc) noexcept nogil:
    cdef const int64_t *h = ins.ints
    cdef const uff_reducer *reducer = <const uff_reducer *><size_t>h[REDUCER]
    cdef const int64_t *kept = h + HEADER
    cdef const int64_t *summed = kept + 2 * h[KEPT_DIMS]
    cdef int64_t wide = h[ROWS] if h[ALONG] else h[COLUMNS]  # results of a panel
    cdef int64_t length = h[COLUMNS] if h[ALONG] else h[ROWS]  # summed in a panel
    cdef int64_t first = part * h[PART], count = min(h[PART], wide - first)
    cdef int64_t at = chunk * h[CHUNK], end = min(at + h[CHUNK], length * h[SUMMED]), run
    cdef int64_t size = h[ITEMSIZE], offset
    cdef char *x = <char *>uff_arg(ins, 1) + place_of(kept, h[KEPT_DIMS], panel) * size
    reducer.start(acc, count)
    while at < end:
        run = min(length - at % length, end - at)
        offset = place_of(summed, h[SUMMED_DIMS], at // length)
        if h[ALONG]:
            offset += first * h[COLUMNS] + at % length
            reducer.rows(acc, x + offset * size, count, run, h[COLUMNS])
        else:
            offset += first + at % length * h[COLUMNS]
            reducer.columns(acc, x + offset * size, run, count, h[COLUMNS])
        at += run


cdef void reduce_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    cdef const int64_t *h = ins.ints
    cdef const uff_reducer *reducer = <const uff_reducer *><size_t>h[REDUCER]
    cdef int64_t wide = h[ROWS] if h[ALONG] else h[COLUMNS]
    cdef int64_t acc_bytes = h[PART] * reducer.acc_size
    cdef int64_t groups = h[KEPT] * h[PARTS], item, group, lo, hi, count, k
    cdef char *out = <char *>uff_arg(ins, 0)
    cdef char *partial = NULL
    cdef char *acc = <char *>uff_take(self, acc_bytes)
    cdef char *to
    if h[CHUNKS] == 1:
        uff_share(self, groups, &lo, &hi)
        for group in range(lo, hi):
            reduce_item(ins, group // h[PARTS], group % h[PARTS], 0, acc)
            count = min(h[PART], wide - group % h[PARTS] * h[PART])
            to = out + (group // h[PARTS] * wide + group % h[PARTS] * h[PART]) * h[ITEMSIZE]
            reducer.finish(to, acc, count)
        return
    partial = <char *>uff_arg(ins, 2)
    uff_share(self, groups * h[CHUNKS], &lo, &hi)
    for item in range(lo, hi):
        group = item // h[CHUNKS]
        reduce_item(ins, group // h[PARTS], group % h[PARTS], item % h[CHUNKS],
                    partial + item * acc_bytes)
    uff_sync(self)
    uff_share(self, groups, &lo, &hi)
    for group in range(lo, hi):
        count = min(h[PART], wide - group % h[PARTS] * h[PART])
        for k in range(1, h[CHUNKS]):
            reducer.merge(partial + group * h[CHUNKS] * acc_bytes,
                          partial + (group * h[CHUNKS] + k) * acc_bytes, count)
        to = out + (group // h[PARTS] * wide + group % h[PARTS] * h[PART]) * h[ITEMSIZE]
        reducer.finish(to, partial + group * h[CHUNKS] * acc_bytes, count)


cdef void run_reduce(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef const int64_t *h = ins.ints
    uff_spawn_together(team, min(h[CORES], h[KEPT] * h[PARTS] * h[CHUNKS]), reduce_share,
                       <void *>ins)


cdef int kind_of(str name):
    return ("sum", "max", "min").index(name)


def lower_reduce(node):
    x, axes = node.inputs[0], node.attrs["axes"]
    cdef const uff_reducer *reducer = &uff_reduce(kernels).reducers[kind_of(node.op.name)][
        <int>numbers[x.dtype]]
    shape = tuple([1 if i in axes else n for i, n in enumerate(x.shape)])
    loops = merge_loops(x.shape, [shape, x.shape])
    sizes, kept = list(loops.sizes), list(loops.has[0])
    along = not kept[-1]
    if not along and kept[-2]:  # every summed axis has size 1: rows of one
        sizes.insert(-1, 1)
    rows, columns = sizes[-2:]
    dims = [(n, math.prod(sizes[i + 1:]), k)
            for i, (n, k) in enumerate(zip(sizes[:-2], kept[:len(sizes) - 2]))]
    if along and not kept[-2]:
        raise RuntimeError(f"reduce: two summed loops were not merged: {loops}")
    outer = [(n, stride) for n, stride, k in dims if k]
    summed = [(n, stride) for n, stride, k in dims if not k]
    panels, repeats = math.prod([n for n, _ in outer]), math.prod([n for n, _ in summed])
    wide, length = (rows, columns) if along else (columns, rows)
    if along:
        part = max(1, min(wide, CHUNK_ELEMENTS // max(length, 1), 512))
    else:
        part = max(1, min(wide, UFF_REDUCE_COLUMNS))
    parts = -(-wide // part)
    total, steps = x.size, length * repeats
    chunks = 1
    if total >= SPAWN_ELEMENTS and panels * parts < ITEMS:
        chunks = max(1, min(ITEMS // (panels * parts), steps * part // CHUNK_ELEMENTS, steps))
    chunk = -(-steps // chunks)
    chunks = max(1, -(-steps // max(chunk, 1)))
    ints = [
        <size_t>reducer, along, x.spec.itemsize, len(outer), len(summed), panels, repeats,
        rows, columns, part, parts, chunk, chunks, MANY if total >= SPAWN_ELEMENTS else 1,
    ]
    for n, stride in outer + summed:
        ints += [n, stride]
    workspace = panels * parts * chunks * part * reducer.acc_size if chunks > 1 else 0
    return KernelCall(f"{node.op.name}_{x.dtype}", <size_t>&run_reduce, tuple(ints),
                      workspace=workspace, flops=total)


# -- argmax, argmin ------------------------------------------------------------------------

# ints: kernel, itemsize, outer, n, inner, columns of a part, cores
cdef void arg_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    cdef const int64_t *h = ins.ints
    cdef uff_arg_fn fn = <uff_arg_fn><size_t>h[0]
    cdef int64_t size = h[1], n = h[3], inner = h[4], part = h[5]
    cdef int64_t parts = (inner + part - 1) // part, lo, hi, item, o, first
    cdef void *best = uff_take(self, part * size)
    uff_share(self, h[2] * parts, &lo, &hi)
    for item in range(lo, hi):
        o, first = item // parts, item % parts * part
        fn(<int32_t *>uff_arg(ins, 0) + o * inner + first, best,
           <char *>uff_arg(ins, 1) + (o * n * inner + first) * size, n,
           min(part, inner - first), inner)


cdef void run_arg(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    uff_spawn(team, ins.ints[6], arg_share, <void *>ins)


def lower_arg(node):
    x, axis = node.inputs[0], node.attrs["axis"]
    cdef int dtype = numbers[x.dtype]
    fn = <size_t>(uff_reduce(kernels).argmax[dtype] if node.op.name == "argmax"
                  else uff_reduce(kernels).argmin[dtype])
    n, inner = x.shape[axis], math.prod(x.shape[axis + 1:])
    ints = (fn, x.spec.itemsize, math.prod(x.shape[:axis]), n, inner,
            max(1, min(inner, UFF_REDUCE_COLUMNS)), MANY if x.size >= SPAWN_ELEMENTS else 1)
    return KernelCall(f"{node.op.name}_{x.dtype}", <size_t>&run_arg, ints, flops=x.size)


# -- cumsum --------------------------------------------------------------------------------

# ints: kernel, itemsize, rows, n, reverse, cores
cdef void cumsum_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    cdef const int64_t *h = ins.ints
    cdef int64_t lo, hi, row, step = h[3] * h[1]
    uff_share(self, h[2], &lo, &hi)
    for row in range(lo, hi):
        (<cumsum_fn><size_t>h[0])(<char *>uff_arg(ins, 0) + row * step,
                                  <char *>uff_arg(ins, 1) + row * step, h[3], <int>h[4])


cdef void run_cumsum(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    uff_spawn(team, ins.ints[5], cumsum_share, <void *>ins)


def lower_cumsum(node):
    x = node.inputs[0]
    fn = <size_t>uff_reduce(kernels).cumsum[<int>numbers[x.dtype]]
    if not fn:
        raise NotImplementedError(f"operation 'cumsum' on {x.dtype} has no native kernel")
    n = x.shape[-1]
    ints = (fn, x.spec.itemsize, math.prod(x.shape[:-1]), n, node.attrs["reverse"],
            MANY if x.size >= SPAWN_ELEMENTS else 1)
    return KernelCall(f"cumsum_{x.dtype}", <size_t>&run_cumsum, ints, inplace=((0, 0),),
                      flops=x.size)


LOWERINGS = {
    "sum": lower_reduce,
    "max": lower_reduce,
    "min": lower_reduce,
    "argmax": lower_arg,
    "argmin": lower_arg,
    "cumsum": lower_cumsum,
}
