/* bfloat16: the upper half of a float32. It is a form of storage: what is computed of it is
 * computed in float32.
 *
 * Rounding is to nearest, ties to even; a NaN stays one, what is too large becomes infinite.
 * It is written in integers in every instruction set: AVX512_BF16 has an instruction for it,
 * which takes small numbers for zero, so another machine would give other results.
 */
#ifndef UFF_BFLOAT16_H
#define UFF_BFLOAT16_H

#include "vector.h"

typedef struct {
    uint16_t bits;
} uff_bf16;

static inline float uff_expand(uff_bf16 x)
{
    const uint32_t u = (uint32_t)x.bits << 16;
    float y;
    memcpy(&y, &u, sizeof y);
    return y;
}

static inline uff_bf16 uff_narrow(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    const uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = u >> 16 | 0x40;
    return (uff_bf16){(uint16_t)(x != x ? nan : rounded)};
}

/* As many as a vector of float32 has lanes. */
typedef uint16_t uff_vu16 __attribute__((vector_size(UFF_VBYTES / 2)));
typedef uint16_t uff_vu16u __attribute__((vector_size(UFF_VBYTES / 2), aligned(2), may_alias));
typedef uint32_t uff_vu32u __attribute__((vector_size(UFF_VBYTES), aligned(2), may_alias));

/* The bits, one to a lane of 32. GCC makes one instruction of the loop, and six of a conversion
 * of vectors. */
static inline uff_vu32 uff_bits_bf16(const uff_bf16 *p)
{
    uff_vu32 v;
    _Pragma("GCC unroll 16")
    for (int i = 0; i < UFF_F32; i++)
        v[i] = p[i].bits;
    return v;
}

static inline uff_vf32 uff_load_bf16(const uff_bf16 *p)
{
    return (uff_vf32)(uff_bits_bf16(p) << 16);
}

static inline void uff_store_bf16(uff_bf16 *p, uff_vf32 v)
{
    const uff_vu32 u = (uff_vu32)v, is_nan = (uff_vu32)(v != v);
    const uff_vu32 rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = u >> 16 | 0x40;
    *(uff_vu16u *)p =
        __builtin_convertvector((is_nan & nan) | (~is_nan & rounded), uff_vu16);
}

/* sum += the products of two pairs: in each lane the lower half is the first of a pair. The
 * second product is added first, as the instruction does it; written out, it keeps numbers
 * below 2^-126, which the instruction takes for zero. */
#if defined(__AVX512BF16__) && !defined(UFF_EMULATE_DOT)
#include <immintrin.h>
#define UFF_ADD_PAIRS(sum, x, y) \
    ((sum) = (uff_vf32)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)(x), (__m512bh)(y)))
#else
#define UFF_ADD_PAIRS(sum, x, y)                                                   \
    ((sum) += (uff_vf32)((x) & 0xffff0000) * (uff_vf32)((y) & 0xffff0000),         \
     (sum) += (uff_vf32)((x) << 16) * (uff_vf32)((y) << 16))
#endif

#endif
