"""float32 as bfloat16 and back: the upper half of its bits, rounded to nearest even."""

cimport numpy as cnp
from libc.stdint cimport uint16_t, uint32_t
from libc.string cimport memcpy

cnp.import_array()


def round_to(const float[::1] source, uint16_t[::1] target):
    """Write ``source`` to ``target`` as bfloat16; NaN stays NaN, too large becomes infinite."""
    if source.shape[0] != target.shape[0]:
        raise ValueError(f"bfloat16: {source.shape[0]} numbers to {target.shape[0]} places")
    if source.shape[0] == 0:
        return
    cdef const uint32_t *bits = <const uint32_t *>&source[0]
    cdef uint16_t *out = &target[0]
    cdef Py_ssize_t i, n = source.shape[0]
    cdef uint32_t u, rounded
    with nogil:
        for i in range(n):
            u = bits[i]
            rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16
            out[i] = <uint16_t>((u >> 16) | 0x40 if (u & 0x7fffffff) > 0x7f800000 else rounded)


def expand(const uint16_t[::1] source, float[::1] target, bint add=False):
    """Write bfloat16 numbers to ``target`` as float32, or add them to it."""
    if source.shape[0] != target.shape[0]:
        raise ValueError(f"bfloat16: {source.shape[0]} numbers to {target.shape[0]} places")
    if source.shape[0] == 0:
        return
    cdef const uint16_t *bits = &source[0]
    cdef float *out = &target[0]
    cdef Py_ssize_t i, n = source.shape[0]
    cdef uint32_t u
    cdef float x
    with nogil:
        if add:
            for i in range(n):
                u = <uint32_t>bits[i] << 16
                memcpy(&x, &u, sizeof(float))
                out[i] += x
        else:
            for i in range(n):
                (<uint32_t *>out)[i] = <uint32_t>bits[i] << 16
