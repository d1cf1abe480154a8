/* float32 functions without branches, to be inlined in loops that the compiler turns into
 * vector code. Errors are the largest found over all exponents, in units in the last
 * place (ulp), against float64; tests/kernels/test_functions.py holds them to it.
 * Special values as in C: NaN, infinities, zeros with their sign, subnormal numbers. */
#ifndef UFF_MATH_F32_H
#define UFF_MATH_F32_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define UFF_FN static inline __attribute__((always_inline))

UFF_FN int32_t uff_bits_f32(float x)
{
    int32_t i;
    memcpy(&i, &x, 4);
    return i;
}

UFF_FN float uff_from_bits_f32(int32_t i)
{
    float x;
    memcpy(&x, &i, 4);
    return x;
}

/* x + UFF_ROUND_F32 has x rounded to an integer in its lowest bits (|x| < 2^22). */
#define UFF_ROUND_F32 0x1.8p23f

/* 2^n for a whole n in [-126, 127]. */
UFF_FN float uff_exp2i_f32(float n)
{
    uint32_t bits = (uint32_t)uff_bits_f32(n + UFF_ROUND_F32);
    return uff_from_bits_f32((int32_t)((bits << 23) + 0x3f800000u));
}

/* exp(r) - 1, for |r| up to log(2) / 2: a tree, since a chain of products would be waited for. */
UFF_FN float uff_exp_polynomial_f32(float r)
{
    float rr = r * r;
    float q = 0.00139269268f * rr + (0.00836377405f * r + 0.0416665487f);
    q = q * rr + (0.166665733f * r + 0.5f);
    return rr * q + r;
}

/* exp(x) = 2^n (1 + p), for |x| < 128; returns p. */
UFF_FN float uff_exp_reduced_f32(float x, float *n)
{
    *n = (x * 0x1.715476p0f + UFF_ROUND_F32) - UFF_ROUND_F32;
    return uff_exp_polynomial_f32(x - *n * 0.693359375f + *n * 2.12194440e-4f);
}

/* exp(x) = 2^n (1 + p), with 2^(n + up) a normal number; returns p. The sum that rounds has
 * the exponent's field of the power in its lowest bits. */
UFF_FN float uff_exp_power_f32(float x, int up, float *power)
{
    const float round = UFF_ROUND_F32 + (float)(127 + up);
    float t = x * 0x1.715476p0f + round, n = t - round;
    *power = uff_from_bits_f32((int32_t)((uint32_t)uff_bits_f32(t) << 23));
    return uff_exp_polynomial_f32(x - n * 0.693359375f + n * 2.12194440e-4f);
}

/* The same with x cut to where exp(x) is neither 0 nor infinite. */
UFF_FN float uff_exp_parts_f32(float x, float *n)
{
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    return uff_exp_reduced_f32(x, n);
}

/* 1 ulp */
UFF_FN float uff_exp_f32(float x)
{
    float n, p = uff_exp_parts_f32(x, &n);
    float half = (n * 0.5f + UFF_ROUND_F32) - UFF_ROUND_F32;
    return (1 + p) * uff_exp2i_f32(half) * uff_exp2i_f32(n - half);
}

/* 2 ulp */
UFF_FN float uff_expm1_f32(float x)
{
    /* beyond these it is -1 and infinity; in halves, so that 2^128 is not needed */
    float cut = x < -30.0f ? -30.0f : x;
    float n, p = uff_exp_parts_f32(cut, &n), half = uff_exp2i_f32(n - 1);
    float y = (half * p + (half - 0.5f)) * 2;
    return fabsf(x) < 0x1p-30f ? x : y;
}

/* log(x) + more log(2), for a normal x > 0: log(x) = e log(2) + log(1 + f), with e whole
 * and 1 + f in [sqrt(1/2), sqrt(2)) */
UFF_FN float uff_log_normal_f32(float x, float more)
{
    int32_t bits = uff_bits_f32(x) - 0x3f3504f3;
    float e = (float)(bits >> 23) + more;
    float f = uff_from_bits_f32((bits & 0x7fffff) + 0x3f3504f3) - 1;
    float p = 0.0697161183f;
    p = p * f - 0.114797339f;
    p = p * f + 0.116854198f;
    p = p * f - 0.124256872f;
    p = p * f + 0.142490581f;
    p = p * f - 0.166678026f;
    p = p * f + 0.200007156f;
    p = p * f - 0.24999997f;
    p = p * f + 0.333333313f;
    float ff = f * f;
    float y = f * ff * p + e * -2.12194440e-4f;
    return e * 0.693359375f + (f + (y - 0.5f * ff));
}

/* 1 ulp */
UFF_FN float uff_log_f32(float x)
{
    int tiny = x < 0x1p-126f;
    float y = uff_log_normal_f32(tiny ? x * 0x1p25f : x, tiny ? -25.0f : 0.0f);
    y = x == INFINITY ? x : y;
    y = x == 0 ? -INFINITY : y;
    return x < 0 || x != x ? NAN : y;
}

/* 2 ulp: log(u) and what was lost in u = 1 + x */
UFF_FN float uff_log1p_f32(float x)
{
    float u = 1 + x;
    float y = uff_log_f32(u) + (x - (u - 1)) / u;
    y = x == INFINITY ? x : y;
    y = x == -1 ? -INFINITY : y;
    return fabsf(x) < 0x1p-30f ? x : y;
}

/* 3 ulp */
UFF_FN float uff_tanh_f32(float x)
{
    float a = -2 * fabsf(x);
    a = a < -30.0f ? -30.0f : a;
    float half, p = uff_exp_power_f32(a, -1, &half);
    float t = half * p + (half - 0.5f); /* (exp(a) - 1) / 2 */
    return copysignf(t / (t + 1), x);
}

/* 2 ulp */
UFF_FN float uff_sigmoid_f32(float x)
{
    float z = uff_exp_f32(-fabsf(x));
    return (x < 0 ? z : 1) / (1 + z);
}

/* sigmoid for where its relative precision below 1e-38 doesn't count: 2 ulp above. */
UFF_FN float uff_gate_f32(float x)
{
    x = x < -87.0f ? -87.0f : x;
    x = x > 87.0f ? 87.0f : x;
    float s, p = uff_exp_power_f32(-x, 0, &s);
    return 1 / (s * p + (1 + s));
}

/* 2 ulp */
UFF_FN float uff_softplus_f32(float x)
{
    float z = uff_exp_f32(-fabsf(x)), u = 1 + z;
    return (x <= 0 ? 0 : x) + (uff_log_normal_f32(u, 0) + (z - (u - 1)) / u);
}

/* 2 ulp: a polynomial in x up to 1, 1 - exp(polynomial) above; both as trees */
UFF_FN float uff_erf_f32(float x)
{
    float a = fabsf(x), s = x * x, ss = s * s;
    /* begins with the slope at 0, less 1: a rounded slope costs an ulp */
    float p = -0.37612626f * s + 0.128379167f;
    float o = -0.0268542115f * s + 0.112835944f;
    float q = -0.00080168643f * s + 0.00518908724f;
    q = 7.87587487e-05f * ss + q;
    o = q * ss + o;
    p = o * ss + p;
    float t = a > 4 ? 4 : a, tt = t * t;
    float u = -1.72853470e-5f * t + 3.83197126e-4f;
    float v = -3.88396438e-3f * t + 2.42546219e-2f;
    float w = -1.06777877e-1f * t - 6.34846687e-1f;
    u = u * tt + v;
    w = w * t - 1.28717512e-1f;
    u = u * (tt * t) + w;
    u = u * t - t;
    float power, e = uff_exp_power_f32(u, 0, &power); /* u is in [-17, 0] */
    float big = 1 - (power * e + power);
    big = x != x ? x : big;
    return a < 0.921875f ? x * p + x : copysignf(big, x);
}

#endif
