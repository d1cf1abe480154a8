#include "gemm.h"

#include "bfloat16.h"
#include "turn.h"
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
