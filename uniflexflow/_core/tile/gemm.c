#include "gemm.h"

#include "bfloat16.h"
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

#if MR == 14
#define EACH_MR(X) \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#elif MR == 8
#define EACH_MR(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#elif MR == 6
#define EACH_MR(X) X(1) X(2) X(3) X(4) X(5) X(6)
#elif MR == 4
#define EACH_MR(X) X(1) X(2) X(3) X(4)
#endif

#define INLINE static inline __attribute__((always_inline))

/* Turn a square of 16 bytes a side: out[p][i] = in[i][p]. */
typedef float quad_f32 __attribute__((vector_size(16)));
typedef float quad_f32u __attribute__((vector_size(16), aligned(4), may_alias));
typedef float quad_f32p __attribute__((vector_size(16), aligned(2), may_alias));
typedef int32_t quad_i32 __attribute__((vector_size(16)));
typedef uint32_t quad_u32 __attribute__((vector_size(16)));
typedef uint16_t quad_u16u __attribute__((vector_size(8), aligned(2), may_alias));
typedef double pair_f64 __attribute__((vector_size(16)));
typedef double pair_f64u __attribute__((vector_size(16), aligned(8), may_alias));
typedef int64_t pair_i64 __attribute__((vector_size(16)));

INLINE void turn_quads(quad_f32 r0, quad_f32 r1, quad_f32 r2, quad_f32 r3, float *out, int64_t ldo)
{
    const quad_i32 low = {0, 4, 1, 5}, high = {2, 6, 3, 7};
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

INLINE void turn_square_f32(const float *in, int64_t ldi, float *out, int64_t ldo)
{
    turn_quads(*(const quad_f32u *)in, *(const quad_f32u *)(in + ldi),
               *(const quad_f32u *)(in + 2 * ldi), *(const quad_f32u *)(in + 3 * ldi), out, ldo);
}

INLINE quad_f32 expand_quad(const uff_bf16 *p)
{
    return (quad_f32)(__builtin_convertvector(*(const quad_u16u *)p, quad_u32) << 16);
}

INLINE void turn_square_bf16(const uff_bf16 *in, int64_t ldi, float *out, int64_t ldo)
{
    turn_quads(expand_quad(in), expand_quad(in + ldi), expand_quad(in + 2 * ldi),
               expand_quad(in + 3 * ldi), out, ldo);
}

INLINE void turn_square_pairs(const uff_bf16 *in, int64_t ldi, uint32_t *out, int64_t ldo)
{
    turn_quads(*(const quad_f32p *)in, *(const quad_f32p *)(in + ldi),
               *(const quad_f32p *)(in + 2 * ldi), *(const quad_f32p *)(in + 3 * ldi),
               (float *)out, ldo);
}

#define OF_PAIR(first, second) ((uint32_t)(first).bits | (uint32_t)(second).bits << 16)

/* -- packing --------------------------------------------------------------------------- */

#define S float
#define E float
#define STEP 1
#define ALONG(p) (*(p))
#define ACROSS(p, ld) (*(p))
#define ACROSS_V(p, ld) uff_load_f32(p)
#define ONE(p) (*(p))
#define NAME(x) x##_f32
#include "gemm_pack.h"

#define S double
#define E double
#define STEP 1
#define ALONG(p) (*(p))
#define ACROSS(p, ld) (*(p))
#define ACROSS_V(p, ld) uff_load_f64(p)
#define ONE(p) (*(p))
#define NAME(x) x##_f64
#include "gemm_pack.h"

#ifndef __AVX512BF16__ /* there, pairs are multiplied */
#define S uff_bf16 /* expanded to float32 */
#define E float
#define STEP 1
#define ALONG(p) uff_expand(*(p))
#define ACROSS(p, ld) uff_expand(*(p))
#define ACROSS_V(p, ld) uff_load_bf16(p)
#define ONE(p) uff_expand(*(p))
#define NAME(x) x##_bf16
#include "gemm_pack.h"
#endif

#define S uff_bf16 /* pairs along k */
#define E uint32_t
#define STEP 2
#define ALONG(p) OF_PAIR((p)[0], (p)[1])
#define ACROSS(p, ld) OF_PAIR((p)[0], (p)[ld])
#define ACROSS_V(p, ld) (uff_bits_bf16(p) | uff_bits_bf16((p) + (ld)) << 16)
#define ONE(p) ((uint32_t)(p)->bits)
#define NAME(x) x##_pairs
#include "gemm_pack.h"

/* -- blocks ---------------------------------------------------------------------------- */

#define T float
#define V uff_vf32
#define VU uff_vf32u
#define VI uff_vi32
#define E float
#define EV uff_vf32
#define EVU uff_vf32u
#define SPREAD(x) ((x) - (uff_vf32){0})
#define MULTIPLY_ADD(c, x, b) c += (x) * (b)
#define ROUND uff_store_bf16
#define NAME(x) x##_f32
#include "gemm_typed.h"

#define T double
#define V uff_vf64
#define VU uff_vf64u
#define VI uff_vi64
#define E double
#define EV uff_vf64
#define EVU uff_vf64u
#define SPREAD(x) ((x) - (uff_vf64){0})
#define MULTIPLY_ADD(c, x, b) c += (x) * (b)
#define NAME(x) x##_f64
#include "gemm_typed.h"

#define T float
#define V uff_vf32
#define VU uff_vf32u
#define VI uff_vi32
#define E uint32_t
#define EV uff_vu32
#define EVU uff_vu32u
#define SPREAD(x) ((x) - (uff_vu32){0})
#define MULTIPLY_ADD UFF_ADD_PAIRS
#define ROUND uff_store_bf16
#define NAME(x) x##_pairs
#include "gemm_typed.h"

/* -- vector times matrix --------------------------------------------------------------- */

#define T float
#define V uff_vf32
#define VU uff_vf32u
#define S float
#define WIDE(x) (x)
#define LOAD(p) (*(const uff_vf32u *)(p))
#define NAME(x) x##_f32
#include "gemm_row.h"

#define T double
#define V uff_vf64
#define VU uff_vf64u
#define S double
#define WIDE(x) (x)
#define LOAD(p) (*(const uff_vf64u *)(p))
#define NAME(x) x##_f64
#include "gemm_row.h"

#define T float
#define V uff_vf32
#define VU uff_vf32u
#define S uff_bf16
#define WIDE(x) uff_expand(x)
#define LOAD uff_load_bf16
#define NAME(x) x##_bf16
#include "gemm_row.h"

#define EXPANDED {1, MR, NV * UFF_F32, block_f32, row_bf16, pack_a_bf16, pack_b_bf16}
#define PAIRS {2, MR, NV * UFF_F32, block_pairs, row_bf16, pack_a_pairs, pack_b_pairs}

static const uff_gemm_kernels table = {
    .f32 = {1, MR, NV * UFF_F32, block_f32, row_f32, pack_a_f32, pack_b_f32},
    .f64 = {1, MR, NV * UFF_F64, block_f64, row_f64, pack_a_f64, pack_b_f64},
#ifdef __AVX512BF16__
    .bf16 = PAIRS,
#else
    .bf16 = EXPANDED,
#endif
    .bf16_pairs = PAIRS,
};

void UFF_FILL(gemm)(uff_kernels *k)
{
    k->gemm = &table;
}
