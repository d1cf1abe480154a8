"""The C interface that tiled operations are written against; see the headers."""

from libc.stdint cimport int32_t, int64_t


cdef extern from "slave.h" nogil:
    ctypedef struct uff_pool:
        pass

    ctypedef struct uff_team:
        int num_cores
        size_t scratch_bytes
        char *scratch
        uff_pool *pool

    ctypedef struct uff_slave:
        int id
        int count
        char *scratch
        size_t scratch_bytes
        size_t scratch_used

    ctypedef void (*uff_slave_fn)(uff_slave *, void *) noexcept nogil

    void uff_spawn(const uff_team *team, int64_t count, uff_slave_fn fn, void *arg) noexcept
    void uff_spawn_together(const uff_team *team, int64_t count, uff_slave_fn fn,
                            void *arg) noexcept
    void *uff_take(uff_slave *self, size_t nbytes) noexcept
    const void *uff_get(uff_slave *self, const void *memory, int64_t rows, int64_t row_bytes,
                        int64_t stride_bytes, int64_t *tile_stride) noexcept
    void *uff_place(uff_slave *self, void *memory, int64_t rows, int64_t row_bytes,
                    int64_t stride_bytes, int64_t *tile_stride) noexcept
    void uff_put(uff_slave *self, void *memory, const void *tile, int64_t rows,
                 int64_t row_bytes, int64_t stride_bytes) noexcept
    void uff_sync(uff_slave *self) noexcept
    int64_t uff_first_piece(uff_slave *self, int64_t n) noexcept
    int64_t uff_next_piece(uff_slave *self) noexcept
    void uff_share(const uff_slave *self, int64_t n, int64_t *lo, int64_t *hi) noexcept


cdef extern from "instruction.h" nogil:
    ctypedef struct uff_instruction:
        void **table
        const int32_t *args
        const int64_t *ints
        const double *floats

    ctypedef void (*uff_tiled_op)(const uff_instruction *, const uff_team *) noexcept nogil
    void *uff_arg(const uff_instruction *ins, int k) noexcept
