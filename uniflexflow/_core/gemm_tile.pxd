"""The tile kernels of matrix products, for tiled operations that contain some."""

from libc.stdint cimport int64_t

from uniflexflow._core.dispatch cimport uff_kernels


cdef extern from "tile/gemm.h" nogil:
    enum: UFF_A_ROWS, UFF_A_COLUMNS, UFF_A_PACKED, UFF_ACT_NONE, UFF_ACT_RELU

    ctypedef struct uff_gemm_block:
        int64_t m, n, k
        const void *a
        int64_t lda
        int a_form
        const void *b
        int64_t ldb
        int b_packed
        void *c
        int64_t ldc
        int accumulate
        const void *bias
        int act
        void *out
        int64_t ldo

    ctypedef struct uff_gemm_row:
        int64_t n, k
        const void *x
        const void *matrix
        int64_t ld
        int transposed
        void *y
        const void *bias
        int64_t bias_step
        int act
        int rounded

    ctypedef struct uff_gemm_type:
        int depth, mr, nr
        void (*block)(const uff_gemm_block *) noexcept nogil
        void (*row)(const uff_gemm_row *) noexcept nogil
        void (*pack_a)(int64_t m, int64_t k, const void *a, int64_t lda, int form,
                       void *out) noexcept nogil
        void (*pack_b)(int64_t n, int64_t k, const void *b, int64_t ldb, int transposed,
                       void *out) noexcept nogil

    ctypedef struct uff_gemm_kernels:
        uff_gemm_type f32, f64, bf16, bf16_pairs

    const uff_gemm_kernels *uff_gemm(const uff_kernels *) noexcept
    int64_t uff_gemm_cut(int64_t m, int64_t panels, int64_t t) noexcept
