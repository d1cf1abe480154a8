"""The interpreter of tile programs, for all tiled operations that end in one."""

from libc.stdint cimport int64_t


cdef extern from "tile/tile_fn.h" nogil:
    ctypedef void (*uff_tile_fn)(void *out, const void *a, const void *b, const void *c,
                                 int64_t n) noexcept nogil


# Integers per step: kernel, destination register, three source registers.
cdef enum:
    STEP_INTS = 5


cdef inline void run_steps(const int64_t *steps, int64_t count, void **registers,
                           int64_t n) noexcept nogil:
    """Run ``count`` steps on tiles of ``n`` elements."""
    cdef int64_t _
    cdef const int64_t *s = steps
    for _ in range(count):
        (<uff_tile_fn><size_t>s[0])(registers[s[1]], registers[s[2]], registers[s[3]],
                                    registers[s[4]], n)
        s += STEP_INTS
