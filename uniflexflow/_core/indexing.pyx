# cython: wraparound=True
"""Taking elements by index, the transposes of that, and order.

A negative index counts from the end; one outside gives NaN (0 for integers), and is left
out of sums. Sums are made in the order of the indices: cores share the places that are
added to, not the indices.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from uniflexflow._core.chain cimport uff_tile_fn
from uniflexflow._core.core cimport (
    uff_arg, uff_instruction, uff_share, uff_slave, uff_spawn, uff_team)
from uniflexflow._core.dispatch cimport kernels, uff_kernels

import math

from uniflexflow._core.chain import find_kernel
from uniflexflow._core.tile_program import DTYPE_NUMBERS
from uniflexflow.plan.kernel_call import KernelCall


ctypedef void (*argsort_fn)(int32_t *order, int32_t *room, const void *x, int64_t n,
                            int falling) noexcept nogil


cdef extern from "tile/movement.h" nogil:
    ctypedef struct uff_movement_kernels:
        argsort_fn argsort[8]
    const uff_movement_kernels *uff_movement(const uff_kernels *k) noexcept


# Bytes (or elements, where each costs more) from which all slave cores are worth their start:
# about 5 us of one core's work.
SPAWN_BYTES = 64 * 1024
SPAWN_ELEMENTS = 2 * 1024
MANY = 1 << 20


cdef inline int64_t index_at(const void *indices, bint wide, int64_t k, int64_t n) noexcept nogil:
    """The k-th index as a place in 0..n-1, or -1."""
    cdef int64_t i = (<const int64_t *>indices)[k] if wide else (<const int32_t *>indices)[k]
    if i < 0:
        i += n
    return i if 0 <= i < n else -1


cdef inline void put(char *out, const char *x, int64_t size) noexcept nogil:
    if size == 4:
        (<int32_t *>out)[0] = (<const int32_t *>x)[0]
    elif size == 8:
        (<int64_t *>out)[0] = (<const int64_t *>x)[0]
    else:
        memcpy(out, x, size)


# -- take ----------------------------------------------------------------------------------

# ints: index is int64, outer, n, indices, bytes of a row, cores, kernel that fills, missing
# element, elements of a row
cdef void take_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    cdef const int64_t *h = ins.ints
    cdef char *out = <char *>uff_arg(ins, 0)
    cdef const char *x = <const char *>uff_arg(ins, 1)
    cdef const void *indices = uff_arg(ins, 2)
    cdef int64_t n = h[2], count = h[3], row = h[4], lo, hi, item, i
    uff_share(self, h[1] * count, &lo, &hi)
    for item in range(lo, hi):
        i = index_at(indices, h[0] != 0, item % count, n)
        if i >= 0:
            put(out + item * row, x + (item // count * n + i) * row, row)
        else:
            (<uff_tile_fn><size_t>h[6])(out + item * row, &h[7], NULL, NULL, h[8])


cdef void run_take(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    uff_spawn(team, ins.ints[5], take_share, <void *>ins)


def missing(dtype):
    """Bits of the element that stands for an index outside."""
    return {"float32": 0x7FC00000, "float64": 0x7FF8000000000000, "bfloat16": 0x7FC0}.get(dtype, 0)


def lower_take(node):
    x, indices = node.inputs[0].spec, node.inputs[1].spec
    out, axis = node.outputs[0].spec, node.attrs["axis"]
    inner = math.prod(x.shape[axis + 1:])
    ints = (indices.dtype == "int64", math.prod(x.shape[:axis]), x.shape[axis], indices.size,
            inner * x.itemsize, MANY if out.nbytes >= SPAWN_BYTES else 1,
            find_kernel("fill", (), x.dtype), missing(x.dtype), inner)
    return KernelCall(f"take_{x.dtype}", <size_t>&run_take, ints,
                      nbytes=2 * out.nbytes + indices.nbytes)


# ints: index is int64, outer, n, indices, elements of a row, itemsize, kernel that adds, cores
cdef void take_gradient_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    cdef const int64_t *h = ins.ints
    cdef uff_tile_fn add = <uff_tile_fn><size_t>h[6]
    cdef char *out = <char *>uff_arg(ins, 0)
    cdef const char *g = <const char *>uff_arg(ins, 1)
    cdef const void *indices = uff_arg(ins, 2)
    cdef int64_t n = h[2], count = h[3], row = h[4] * h[5], lo, hi, outer, k, i
    cdef char *to
    uff_share(self, n, &lo, &hi)
    for outer in range(h[1]):
        memset(out + (outer * n + lo) * row, 0, (hi - lo) * row)
        for k in range(count):
            i = index_at(indices, h[0] != 0, k, n)
            if lo <= i < hi:
                to = out + (outer * n + i) * row
                add(to, to, g + (outer * count + k) * row, NULL, h[4])


cdef void run_take_gradient(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    uff_spawn(team, min(ins.ints[7], ins.ints[2]), take_gradient_share, <void *>ins)


def lower_take_gradient(node):
    g, indices = node.inputs[0].spec, node.inputs[1].spec
    out, axis = node.outputs[0].spec, node.attrs["axis"]
    ints = (indices.dtype == "int64", math.prod(out.shape[:axis]), out.shape[axis], indices.size,
            math.prod(out.shape[axis + 1:]), g.itemsize,
            find_kernel("add", (g.dtype, g.dtype), g.dtype),
            MANY if out.nbytes + g.nbytes >= SPAWN_BYTES else 1)
    return KernelCall(f"take_gradient_{g.dtype}", <size_t>&run_take_gradient, ints, flops=g.size)


# -- along the last axis -------------------------------------------------------------------

# ints: index is int64, rows, n, indices per row, itemsize, missing element, kernel that adds,
# cores
cdef void take_along_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    cdef const int64_t *h = ins.ints
    cdef char *out = <char *>uff_arg(ins, 0)
    cdef const char *x = <const char *>uff_arg(ins, 1)
    cdef const void *indices = uff_arg(ins, 2)
    cdef int64_t n = h[2], count = h[3], size = h[4], lo, hi, row, k, i
    uff_share(self, h[1], &lo, &hi)
    for row in range(lo, hi):
        for k in range(row * count, row * count + count):
            i = index_at(indices, h[0] != 0, k, n)
            # the lowest bytes of the missing element come first: 0 everywhere but in floats,
            # whose bits fill their own size
            put(out + k * size, x + (row * n + i) * size if i >= 0 else <const char *>&h[5], size)


cdef void run_take_along(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    uff_spawn(team, ins.ints[7], take_along_share, <void *>ins)


cdef void add_along_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    cdef const int64_t *h = ins.ints
    cdef uff_tile_fn add = <uff_tile_fn><size_t>h[6]
    cdef char *out = <char *>uff_arg(ins, 0)
    cdef const char *g = <const char *>uff_arg(ins, 1)
    cdef const void *indices = uff_arg(ins, 2)
    cdef int64_t n = h[2], count = h[3], size = h[4], lo, hi, row, k, i
    cdef char *to
    uff_share(self, h[1], &lo, &hi)
    memset(out + lo * n * size, 0, (hi - lo) * n * size)
    for row in range(lo, hi):
        for k in range(row * count, row * count + count):
            i = index_at(indices, h[0] != 0, k, n)
            if i >= 0:
                to = out + (row * n + i) * size
                add(to, to, g + k * size, NULL, 1)


cdef void run_add_along(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    uff_spawn(team, ins.ints[7], add_along_share, <void *>ins)


def lower_along(node):
    x, indices = node.inputs[0].spec, node.inputs[1].spec
    n = node.attrs["size"] if node.op.name == "add_along_last" else x.shape[-1]
    worth = indices.size >= SPAWN_ELEMENTS
    if node.op.name == "add_along_last":
        function, add = <size_t>&run_add_along, find_kernel("add", (x.dtype, x.dtype), x.dtype)
        worth = worth or node.outputs[0].spec.nbytes >= SPAWN_BYTES
    else:
        function, add = <size_t>&run_take_along, 0
    ints = (indices.dtype == "int64", math.prod(indices.shape[:-1]), n, indices.shape[-1],
            x.itemsize, missing(x.dtype), add, MANY if worth else 1)
    return KernelCall(f"{node.op.name}_{x.dtype}", function, ints, flops=indices.size)


# -- argsort -------------------------------------------------------------------------------

# ints: kernel, itemsize, rows, n, falling, cores
cdef void argsort_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    cdef const int64_t *h = ins.ints
    cdef int64_t lo, hi, row
    uff_share(self, h[2], &lo, &hi)
    for row in range(lo, hi):
        (<argsort_fn><size_t>h[0])(
            <int32_t *>uff_arg(ins, 0) + row * h[3], <int32_t *>uff_arg(ins, 2) + row * h[3],
            <char *>uff_arg(ins, 1) + row * h[3] * h[1], h[3], <int>h[4])


cdef void run_argsort(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    uff_spawn(team, ins.ints[5], argsort_share, <void *>ins)


def lower_argsort(node):
    x = node.inputs[0].spec
    kernel = <size_t>uff_movement(kernels).argsort[<int>DTYPE_NUMBERS[x.dtype]]
    ints = (kernel, x.itemsize, math.prod(x.shape[:-1]), x.shape[-1], node.attrs["descending"],
            MANY if x.size >= SPAWN_ELEMENTS else 1)
    return KernelCall(f"argsort_{x.dtype}", <size_t>&run_argsort, ints, workspace=4 * x.size)


LOWERINGS = {
    "take": lower_take,
    "take_gradient": lower_take_gradient,
    "take_along_last": lower_along,
    "add_along_last": lower_along,
    "argsort": lower_argsort,
}
NATIVE_BFLOAT16 = {"take", "take_along_last"}
