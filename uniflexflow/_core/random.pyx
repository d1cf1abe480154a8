# cython: wraparound=True
"""Random numbers by key and place: any share of a tensor can be drawn by itself."""

from libc.stdint cimport int64_t, uint64_t

from uniflexflow._core.core cimport (
    uff_arg, uff_instruction, uff_share, uff_slave, uff_spawn, uff_team)
from uniflexflow._core.dispatch cimport kernels, uff_kernels

import math

from uniflexflow._core.tile_program import dense_strides
from uniflexflow.plan.kernel_call import KernelCall


cdef extern from "tile/random.h" nogil:
    ctypedef void (*uff_uniform_fn)(void *out, int64_t first, int64_t n, uint64_t seed,
                                    uint64_t counter) noexcept nogil
    ctypedef struct uff_random_kernels:
        uff_uniform_fn uniform[2]
    const uff_random_kernels *uff_random(const uff_kernels *k) noexcept


# Elements from which all slave cores are worth their start: about 5 us of one core's work.
SPAWN_ELEMENTS = 4 * 1024
MANY = 1 << 20
PIECE = 4096  # elements drawn at a time; a multiple of what the kernel draws together


# ints: kernel, itemsize, first element, length of a run, piece, outer dimensions, cores, then
# sizes and strides (in elements of the whole tensor) of the outer dimensions.
cdef void uniform_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    cdef const int64_t *h = ins.ints
    cdef const int64_t *key = <const int64_t *>uff_arg(ins, 1)
    cdef int64_t length = h[3], piece = h[4], pieces = (length + piece - 1) // piece
    cdef int64_t runs = 1, lo, hi, item, rest, first, at, i
    for i in range(h[5]):
        runs *= h[7 + 2 * i]
    uff_share(self, runs * pieces, &lo, &hi)
    for item in range(lo, hi):
        at = item % pieces * piece
        first = h[2] + at
        rest = item // pieces
        for i in range(h[5] - 1, -1, -1):
            first += rest % h[7 + 2 * i] * h[8 + 2 * i]
            rest //= h[7 + 2 * i]
        (<uff_uniform_fn><size_t>h[0])(
            <char *>uff_arg(ins, 0) + (item // pieces * length + at) * h[1], first,
            min(piece, length - at), <uint64_t>key[0], <uint64_t>key[1])


cdef void run_uniform(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    uff_spawn(team, ins.ints[6], uniform_share, <void *>ins)


def lower(node):
    out, start, whole = node.outputs[0].spec, node.attrs["start"], node.attrs["global_shape"]
    kernel = <size_t>uff_random(kernels).uniform[("float32", "float64").index(out.dtype)]
    strides = dense_strides(whole, 1)
    first = sum([b * s for b, s in zip(start, strides)])
    # a run: the axes that are drawn whole, and the one before them
    axis = out.ndim
    while axis > 0 and out.shape[axis - 1:] == whole[axis - 1:]:
        axis -= 1
    axis = max(0, axis - 1)
    length = math.prod(out.shape[axis:])
    outer = list(zip(out.shape[:axis], strides[:axis]))
    ints = [kernel, out.itemsize, first, length, PIECE, len(outer),
            MANY if out.size >= SPAWN_ELEMENTS else 1]
    for n, stride in outer:
        ints += [n, stride]
    return KernelCall(f"random_uniform_{out.dtype}", <size_t>&run_uniform, tuple(ints),
                      flops=out.size)


LOWERINGS = {"random_uniform": lower}
