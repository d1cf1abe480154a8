# cython: wraparound=True
"""Cross-entropy of softmax, and its gradient: each is one pass over the logits' rows."""

from libc.stdint cimport int64_t

from uniflexflow._core.core cimport (
    uff_arg, uff_instruction, uff_share, uff_slave, uff_spawn, uff_team)
from uniflexflow._core.dispatch cimport kernels, uff_kernels

import math

from uniflexflow.plan.kernel_call import KernelCall


cdef extern from "tile/crossentropy.h" nogil:
    ctypedef struct uff_crossentropy_rows:
        int64_t rows, n
        const void *x
        const void *target
        int wide
        void *loss
        void *lse
        void *total
        const void *given_lse
        const void *a
        const void *b
        void *dx

    ctypedef void (*uff_crossentropy_fn)(const uff_crossentropy_rows *) noexcept nogil

    ctypedef struct uff_crossentropy_kernels:
        uff_crossentropy_fn sparse[2]
        uff_crossentropy_fn sparse_gradient[2]
        uff_crossentropy_fn dense[2]
        uff_crossentropy_fn dense_gradient[2]

    const uff_crossentropy_kernels *uff_crossentropy(const uff_kernels *k) noexcept


# Elements from which all slave cores are worth their start: about 5 us of one core's work.
SPAWN_ELEMENTS = 8 * 1024
MANY = 1 << 20


# ints: kernel, rows, n, bytes of an element, bytes of a row's target, wide, outputs, cores
cdef void share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    cdef const int64_t *h = ins.ints
    cdef int64_t lo, hi, one = h[3], row = h[2] * h[3]
    cdef int first = <int>h[6]  # the first input
    cdef uff_crossentropy_rows t
    uff_share(self, h[1], &lo, &hi)
    t.rows, t.n, t.wide = hi - lo, h[2], <int>h[5]
    t.x = <char *>uff_arg(ins, first) + lo * row
    t.target = <char *>uff_arg(ins, first + 1) + lo * h[4]
    if first == 1:
        t.dx = <char *>uff_arg(ins, 0) + lo * row
        t.given_lse = <char *>uff_arg(ins, 3) + lo * one
        t.a = <char *>uff_arg(ins, 4) + lo * one
        t.b = <char *>uff_arg(ins, 5) + lo * one
    else:
        t.loss = <char *>uff_arg(ins, 0) + lo * one
        t.lse = <char *>uff_arg(ins, 1) + lo * one
        if first == 3:
            t.total = <char *>uff_arg(ins, 2) + lo * one
    (<uff_crossentropy_fn><size_t>h[0])(&t)


cdef void run(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    uff_spawn(team, min(ins.ints[7], ins.ints[1]), share, <void *>ins)


def lower(node):
    x, target, name = node.inputs[0].spec, node.inputs[1].spec, node.op.name
    cdef const uff_crossentropy_kernels *k = uff_crossentropy(kernels)
    cdef int dtype = ("float32", "float64").index(x.dtype)
    cdef bint sparse = name.startswith("sparse"), gradient = name.endswith("gradient")
    cdef uff_crossentropy_fn kernel
    if sparse:
        kernel = k.sparse_gradient[dtype] if gradient else k.sparse[dtype]
    else:
        kernel = k.dense_gradient[dtype] if gradient else k.dense[dtype]
    rows = math.prod(x.shape[:-1])
    ints = (<size_t>kernel, rows, x.shape[-1], x.itemsize,
            target.itemsize * (1 if sparse else x.shape[-1]), target.dtype == "int64",
            len(node.outputs), MANY if x.size >= SPAWN_ELEMENTS else 1)
    return KernelCall(f"{name}_{x.dtype}", <size_t>&run, ints,
                      inplace=((0, 0),) if gradient else (), flops=4 * x.size)


LOWERINGS = dict.fromkeys(
    ("softmax_crossentropy", "softmax_crossentropy_gradient",
     "sparse_softmax_crossentropy", "sparse_softmax_crossentropy_gradient"), lower)
