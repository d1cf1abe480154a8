/* float64 functions without branches; see math_f32.h. */
#ifndef UFF_MATH_F64_H
#define UFF_MATH_F64_H

#include "math_f32.h"

UFF_FN int64_t uff_bits_f64(double x)
{
    int64_t i;
    memcpy(&i, &x, 8);
    return i;
}

UFF_FN double uff_from_bits_f64(int64_t i)
{
    double x;
    memcpy(&x, &i, 8);
    return x;
}

#define UFF_ROUND_F64 0x1.8p52

UFF_FN double uff_exp2i_f64(double n)
{
    uint64_t bits = (uint64_t)uff_bits_f64(n + UFF_ROUND_F64);
    return uff_from_bits_f64((int64_t)((bits << 52) + 0x3ff0000000000000u));
}

UFF_FN double uff_exp_reduced_f64(double x, double *n)
{
    *n = (x * 0x1.71547652b82fep0 + UFF_ROUND_F64) - UFF_ROUND_F64;
    /* the first part of log(2) ends in 21 zero bits: its product with n is exact */
    double r = (x - *n * 6.93147180369123816490e-01) - *n * 1.90821492927058770002e-10;
    double q = 2.0915442297780116e-09;
    q = q * r + 2.5106274733573296e-08;
    q = q * r + 2.75572718102198e-07;
    q = q * r + 2.7557252833516911e-06;
    q = q * r + 2.4801587327007187e-05;
    q = q * r + 0.00019841269876864356;
    q = q * r + 0.0013888888888883327;
    q = q * r + 0.0083333333333255443;
    q = q * r + 0.041666666666666671;
    q = q * r + 0.16666666666666671;
    q = q * r + 0.5;
    return r * r * q + r;
}

UFF_FN double uff_exp_parts_f64(double x, double *n)
{
    x = x < -746.0 ? -746.0 : x;
    x = x > 710.0 ? 710.0 : x;
    return uff_exp_reduced_f64(x, n);
}

/* 1 ulp */
UFF_FN double uff_exp_f64(double x)
{
    double n, p = uff_exp_parts_f64(x, &n);
    double half = (n * 0.5 + UFF_ROUND_F64) - UFF_ROUND_F64;
    return (1 + p) * uff_exp2i_f64(half) * uff_exp2i_f64(n - half);
}

/* 2 ulp */
UFF_FN double uff_expm1_f64(double x)
{
    double cut = x < -60.0 ? -60.0 : x;
    double n, p = uff_exp_parts_f64(cut, &n), half = uff_exp2i_f64(n - 1);
    double y = (half * p + (half - 0.5)) * 2;
    return fabs(x) < 0x1p-60 ? x : y;
}

/* log(x) + more log(2), for a normal x > 0; the series of FreeBSD's msun: log(1 + f) in
 * s = f / (2 + f) */
UFF_FN double uff_log_normal_f64(double x, double more)
{
    /* the exponent, plus 2048 to be positive, is read by placing it in a double's fraction */
    uint64_t bits = (uint64_t)uff_bits_f64(x) - 0x3fe6a09e667f3bcdu;
    uint64_t raised = bits + (2048ull << 52);
    double e = uff_from_bits_f64((int64_t)((raised >> 52) | 0x4330000000000000u)) - 0x1p52;
    e = e - 2048 + more;
    double f = uff_from_bits_f64((int64_t)((bits & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu)) - 1;
    double s = f / (2 + f), z = s * s;
    double p = 1.479819860511658591e-01;
    p = p * z + 1.531383769920937332e-01;
    p = p * z + 1.818357216161805012e-01;
    p = p * z + 2.222219843214978396e-01;
    p = p * z + 2.857142874366239149e-01;
    p = p * z + 3.999999999940941908e-01;
    p = p * z + 6.666666666666735130e-01;
    p = p * z;
    double h = 0.5 * f * f;
    double y = s * (h + p) + e * 1.90821492927058770002e-10;
    return e * 6.93147180369123816490e-01 - ((h - y) - f);
}

/* 1 ulp */
UFF_FN double uff_log_f64(double x)
{
    int tiny = x < 0x1p-1022;
    double y = uff_log_normal_f64(tiny ? x * 0x1p54 : x, tiny ? -54 : 0);
    y = x == INFINITY ? x : y;
    y = x == 0 ? -INFINITY : y;
    return x < 0 || x != x ? NAN : y;
}

/* 2 ulp */
UFF_FN double uff_log1p_f64(double x)
{
    double u = 1 + x;
    double y = uff_log_f64(u) + (x - (u - 1)) / u;
    y = x == INFINITY ? x : y;
    y = x == -1 ? -INFINITY : y;
    return fabs(x) < 0x1p-60 ? x : y;
}

/* 3 ulp */
UFF_FN double uff_tanh_f64(double x)
{
    double a = -2 * fabs(x);
    a = a < -60.0 ? -60.0 : a;
    double n, p = uff_exp_reduced_f64(a, &n), half = uff_exp2i_f64(n - 1);
    double t = half * p + (half - 0.5);
    return copysign(t / (t + 1), x);
}

/* 2 ulp */
UFF_FN double uff_sigmoid_f64(double x)
{
    double z = uff_exp_f64(-fabs(x));
    return (x < 0 ? z : 1) / (1 + z);
}

/* As uff_gate_f32, below 1e-304. */
UFF_FN double uff_gate_f64(double x)
{
    x = x < -700.0 ? -700.0 : x;
    x = x > 700.0 ? 700.0 : x;
    double n, p = uff_exp_reduced_f64(-x, &n), s = uff_exp2i_f64(n);
    return 1 / (s * p + (1 + s));
}

/* 2 ulp */
UFF_FN double uff_softplus_f64(double x)
{
    double z = uff_exp_f64(-fabs(x)), u = 1 + z;
    return (x <= 0 ? 0 : x) + (uff_log_normal_f64(u, 0) + (z - (u - 1)) / u);
}

/* 2 ulp: x times a polynomial in x^2 up to 1; above 1 - exp(-x^2) h((x - 2) / (x + 2)),
 * h the polynomial for exp(x^2) erfc(x) on [1, 6]; 1 above 6 */
UFF_FN double uff_erf_f64(double x)
{
    double a = fabs(x), s = x * x;
    double p = 5.9571761477489113e-11;
    p = p * s - 1.1372848856791674e-09;
    p = p * s + 1.4659775274047436e-08;
    p = p * s - 1.6350312701054695e-07;
    p = p * s + 1.6461000484121368e-06;
    p = p * s - 1.4925595266831182e-05;
    p = p * s + 0.0001205533111164271;
    p = p * s - 0.000854832698083379;
    p = p * s + 0.0052239776248180145;
    p = p * s - 0.026866170645076792;
    p = p * s + 0.11283791670954879;
    p = p * s - 0.37612638903183748;
    p = p * s + 0.12837916709551257; /* the slope at 0, less 1 */
    double t = a > 6 ? 6 : a, u = (t - 2) / (t + 2);
    double h = -4.215301054238321e-07;
    h = h * u - 5.3226968556557863e-07;
    h = h * u + 1.1780775215625583e-06;
    h = h * u + 3.789215643758464e-06;
    h = h * u + 1.392621183618803e-06;
    h = h * u - 1.396807230177146e-05;
    h = h * u - 2.7579864674305787e-05;
    h = h * u + 2.7525480361206068e-05;
    h = h * u + 0.00017436116545392264;
    h = h * u + 4.3555602195154723e-05;
    h = h * u - 0.00098197702656788893;
    h = h * u - 0.00084714325092038437;
    h = h * u + 0.0069974617392004439;
    h = h * u + 0.0037328924043277638;
    h = h * u - 0.07897858101573213;
    h = h * u + 0.24165819424246646;
    h = h * u - 0.42718584741395838;
    h = h * u + 0.25539567631050575;
    double big = 1 - uff_exp_f64(-t * t) * h;
    big = x != x ? x : big;
    return a < 1 ? x * p + x : copysign(big, x);
}

/* Sine (shift 0) or cosine (shift 1) for |x| <= UFF_TRIG_LIMIT; 1.5 ulp. The angle is reduced
 * to [-pi/4, pi/4] by three parts of pi/2 whose products with the quadrant are exact. */
#define UFF_TRIG_LIMIT 1e6
UFF_FN double uff_sin_f64(double x, int shift)
{
    double t = x * 0x1.45f306dc9c883p-1 + UFF_ROUND_F64, n = t - UFF_ROUND_F64;
    int64_t quadrant = uff_bits_f64(t) + shift;
    double hi = x - n * 1.57079632673412561417e+00;
    double mid = n * 6.07710050630396597660e-11;
    double r = hi - mid;
    double low = ((hi - r) - mid) - n * 2.02226624879595063154e-21;
    double z = r * r;
    double s = 1.58969099521155010221e-10;
    s = s * z - 2.50507602534068634195e-08;
    s = s * z + 2.75573137070700676789e-06;
    s = s * z - 1.98412698298579493134e-04;
    s = s * z + 8.33333333332248946124e-03;
    double v = z * r;
    s = r - ((z * (0.5 * low - v * s) - low) - v * -1.66666666666666324348e-01);
    double c = -1.13596475577881948265e-11;
    c = c * z + 2.08757232129817482790e-09;
    c = c * z - 2.75573143513906633035e-07;
    c = c * z + 2.48015872894767294178e-05;
    c = c * z - 1.38888888888741095749e-03;
    c = c * z + 4.16666666666666019037e-02;
    double h = 0.5 * z, w = 1 - h;
    c = w + (((1 - w) - h) + (z * z * c - r * low));
    double y = (quadrant & 1) ? c : s;
    return uff_from_bits_f64(uff_bits_f64(y) ^ (int64_t)((uint64_t)(quadrant & 2) << 62));
}

#endif
