#include "gemm.h"
#include "vector.h"

/* Micro-tile: MR rows of NV vectors. Its accumulators, NV vectors of B and one or two
 * temporaries must fit in the registers. */
#if defined(__AVX512F__)
#define MR 14
#define NV 2
#elif defined(__AVX__)
#define MR 6
#define NV 2
#elif defined(__aarch64__)
#define MR 8
#define NV 3
#else /* 16 registers, and products need one for themselves */
#define MR 4
#define NV 2
#endif

#define INLINE static inline __attribute__((always_inline))

/* Turn a square of 16 bytes a side: out[p][i] = in[i][p]. */
typedef float quad_f32 __attribute__((vector_size(16)));
typedef float quad_f32u __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t quad_i32 __attribute__((vector_size(16)));
typedef double pair_f64 __attribute__((vector_size(16)));
typedef double pair_f64u __attribute__((vector_size(16), aligned(8), may_alias));
typedef int64_t pair_i64 __attribute__((vector_size(16)));

INLINE void turn_square_f32(const float *in, int64_t ldi, float *out, int64_t ldo)
{
    const quad_i32 low = {0, 4, 1, 5}, high = {2, 6, 3, 7};
    const quad_f32 r0 = *(const quad_f32u *)in, r1 = *(const quad_f32u *)(in + ldi);
    const quad_f32 r2 = *(const quad_f32u *)(in + 2 * ldi), r3 = *(const quad_f32u *)(in + 3 * ldi);
    const quad_f32 even0 = __builtin_shuffle(r0, r2, low), even1 = __builtin_shuffle(r0, r2, high);
    const quad_f32 odd0 = __builtin_shuffle(r1, r3, low), odd1 = __builtin_shuffle(r1, r3, high);
    *(quad_f32u *)out = __builtin_shuffle(even0, odd0, low);
    *(quad_f32u *)(out + ldo) = __builtin_shuffle(even0, odd0, high);
    *(quad_f32u *)(out + 2 * ldo) = __builtin_shuffle(even1, odd1, low);
    *(quad_f32u *)(out + 3 * ldo) = __builtin_shuffle(even1, odd1, high);
}

INLINE void turn_square_f64(const double *in, int64_t ldi, double *out, int64_t ldo)
{
    const pair_f64 r0 = *(const pair_f64u *)in, r1 = *(const pair_f64u *)(in + ldi);
    *(pair_f64u *)out = __builtin_shuffle(r0, r1, (pair_i64){0, 2});
    *(pair_f64u *)(out + ldo) = __builtin_shuffle(r0, r1, (pair_i64){1, 3});
}

#define T float
#define V uff_vf32
#define VU uff_vf32u
#define VI uff_vi32
#define NAME(x) x##_f32
#include "gemm_typed.h"
#undef T
#undef V
#undef VU
#undef VI
#undef NAME

#define T double
#define V uff_vf64
#define VU uff_vf64u
#define VI uff_vi64
#define NAME(x) x##_f64
#include "gemm_typed.h"

static const uff_gemm_kernels table = {
    .f32 = {MR, NV * UFF_F32, block_f32, row_f32, pack_a_f32, pack_b_f32},
    .f64 = {MR, NV * UFF_F64, block_f64, row_f64, pack_a_f64, pack_b_f64},
};

void UFF_FILL(gemm)(uff_kernels *k)
{
    k->gemm = &table;
}
