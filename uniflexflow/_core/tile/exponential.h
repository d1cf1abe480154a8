/* Exponentials of whole vectors, and rows of them: what softmax, cross-entropy and attention
 * are made of.
 *
 * Their arguments are differences from a largest element, hence at most a rounding error
 * above zero. Without results that overflow, one factor 2^n is enough where uff_exp_f32 needs
 * two, and it is put together from the sum that rounds x / log(2): 15 instructions instead
 * of 25. NaN stays NaN.
 */
#ifndef UFF_EXPONENTIAL_H
#define UFF_EXPONENTIAL_H

#include "math_f64.h"
#include "vector.h"

/* Elements that are worked on at a time: they stay in the first-level cache between passes,
 * and their sum is made in their own type. */
#define UFF_PIECE 1024

/* 1 ulp. exp(x) 2^UP for x < 40; 0 where that is below the smallest normal number. UP, from
 * 0 to 64, is a constant where this is expanded: raised by 64, all of exp's range is normal,
 * and a later product with 2^-64 rounds once into the subnormal numbers. */
#define UFF_RAISED 64

UFF_FN uff_vf32 uff_vexp_f32(uff_vf32 x, int up)
{
    /* the integer in the lowest bits is the exponent's field of 2^(n + up) */
    const float round = 0x1.8p23f + (float)(127 + up);
    const uff_vf32 t = x * 0x1.715476p0f + round, n = t - round;
    const uff_vf32 r = x - n * 0.693359375f + n * 2.12194440e-4f;
    const uff_vf32 rr = r * r; /* a tree: a chain of products would be waited for */
    uff_vf32 p = 0.00836377405f * r + 0.0416665487f;
    p = 0.00139269268f * rr + p;
    p = p * rr + (0.166665733f * r + 0.5f);
    p = p * rr + (r + 1);
    p *= (uff_vf32)((uff_vu32)t << 23);
    const uff_vi32 gone = x < (float)(-126 - up) * 0x1.62e42ep-1f;
    return (uff_vf32)(~gone & (uff_vi32)p);
}

UFF_FN uff_vf64 uff_vexp_f64(uff_vf64 x, int up)
{
    const double round = 0x1.8p52 + (double)(1023 + up);
    const uff_vf64 t = x * 0x1.71547652b82fep0 + round, n = t - round;
    /* the first part of log(2) ends in 21 zero bits: its product with n is exact */
    const uff_vf64 r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    uff_vf64 p = 2.0915442297780116e-09 * r + 2.5106274733573296e-08;
    p = p * r + 2.75572718102198e-07;
    p = p * r + 2.7557252833516911e-06;
    p = p * r + 2.4801587327007187e-05;
    p = p * r + 0.00019841269876864356;
    p = p * r + 0.0013888888888883327;
    p = p * r + 0.0083333333333255443;
    p = p * r + 0.041666666666666671;
    p = p * r + 0.16666666666666671;
    p = p * r + 0.5;
    p = p * r + 1;
    p = p * r + 1;
    p *= (uff_vf64)((uff_vu64)t << 52);
    const uff_vi64 gone = x < (double)(-1022 - up) * 0x1.62e42fefa39efp-1;
    return (uff_vf64)(~gone & (uff_vi64)p);
}

#define T float
#define V uff_vf32
#define VU uff_vf32u
#define NAME(x) x##_f32
#include "exponential_typed.h"
#undef T
#undef V
#undef VU
#undef NAME

#define T double
#define V uff_vf64
#define VU uff_vf64u
#define NAME(x) x##_f64
#include "exponential_typed.h"
#undef T
#undef V
#undef VU
#undef NAME

#endif
