# cython: wraparound=True
"""Softmax, its logarithm and the logarithm of its divisor, along the last axis.

A row is read once from memory: what is computed between stays in the L1 cache.
"""

from libc.stdint cimport int64_t

from uniflexflow._core.core cimport (
    uff_arg, uff_instruction, uff_share, uff_slave, uff_spawn, uff_team)
from uniflexflow._core.dispatch cimport kernels, uff_kernels

import math

from uniflexflow.plan.kernel_call import KernelCall


cdef extern from "tile/softmax.h" nogil:
    ctypedef void (*uff_softmax_fn)(void *out, const void *x, int64_t rows,
                                    int64_t n) noexcept nogil
    ctypedef struct uff_softmax_kernels:
        uff_softmax_fn softmax[2]
        uff_softmax_fn log_softmax[2]
        uff_softmax_fn logsumexp[2]
    const uff_softmax_kernels *uff_softmax(const uff_kernels *k) noexcept


# Elements from which all slave cores are worth their start: about 5 us of one core's work.
SPAWN_ELEMENTS = 4 * 1024
MANY = 1 << 20


# ints: kernel, rows, n, bytes of an input row, bytes of an output row, cores
cdef void softmax_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    cdef const int64_t *h = ins.ints
    cdef int64_t lo, hi
    uff_share(self, h[1], &lo, &hi)
    (<uff_softmax_fn><size_t>h[0])(<char *>uff_arg(ins, 0) + lo * h[4],
                                   <char *>uff_arg(ins, 1) + lo * h[3], hi - lo, h[2])


cdef void run_softmax(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    uff_spawn(team, min(ins.ints[5], ins.ints[1]), softmax_share, <void *>ins)


def lower(node):
    x, out, name = node.inputs[0].spec, node.outputs[0].spec, node.op.name
    cdef const uff_softmax_kernels *k = uff_softmax(kernels)
    cdef int dtype = ("float32", "float64").index(x.dtype)
    kernel = <size_t>(k.softmax[dtype] if name == "softmax" else
                      k.log_softmax[dtype] if name == "log_softmax" else k.logsumexp[dtype])
    n = x.shape[-1]
    rows = math.prod(x.shape[:-1]) if n else 0
    ints = (kernel, rows, n, n * x.itemsize, (n if out.shape == x.shape else 1) * x.itemsize,
            MANY if x.size >= SPAWN_ELEMENTS else 1)
    inplace = ((0, 0),) if out.shape == x.shape else ()
    return KernelCall(f"{name}_{x.dtype}", <size_t>&run_softmax, ints, inplace=inplace,
                      flops=4 * x.size)


LOWERINGS = {"softmax": lower, "log_softmax": lower, "logsumexp": lower}
