#include "function.h"
#include "math_f64.h"

#define BOTH(op)                                          \
    UFF_UNARY(op, f32, float, float, uff_##op##_f32(x))   \
    UFF_UNARY(op, f64, double, double, uff_##op##_f64(x))
BOTH(exp)
BOTH(expm1)
BOTH(log)
BOTH(log1p)
BOTH(tanh)
BOTH(sigmoid)
BOTH(softplus)
BOTH(erf)

/* Are all |a[i]| within a limit? No for a NaN. */
#define WITHIN(t, T)                                                 \
    static int within_##t(const T *a, T limit, int64_t n)            \
    {                                                                \
        int outside = 0;                                             \
        for (int64_t i = 0; i < n; i++)                              \
            outside |= !(a[i] >= -limit && a[i] <= limit);           \
        return !outside;                                             \
    }
WITHIN(f32, float)
WITHIN(f64, double)

/* Tiles with an angle too large for the fast reduction go to the C library. */
#define TRIG(op, t, T, shift, LIBRARY)                                                      \
    static void op##_##t(void *o, const void *a_, const void *b_, const void *c_, int64_t n) \
    {                                                                                       \
        (void)b_, (void)c_;                                                                 \
        T *out = o;                                                                         \
        const T *a = a_;                                                                    \
        if (within_##t(a, UFF_TRIG_LIMIT, n))                                               \
            UFF_EACH out[i] = (T)uff_sin_f64(a[i], shift);                                  \
        else                                                                                \
            for (int64_t i = 0; i < n; i++)                                                 \
                out[i] = LIBRARY(a[i]);                                                     \
    }
TRIG(sin, f32, float, 0, sinf)
TRIG(sin, f64, double, 0, sin)
TRIG(cos, f32, float, 1, cosf)
TRIG(cos, f64, double, 1, cos)

/* Powers. A tile with one exponent for all, of a few that training is full of, is done by
 * multiplication and square root. The rest of float32 is exp(y log x) in float64 where
 * all bases are positive and all is finite; else, and for float64, the C library. */
#define SAME(t, T)                                     \
    static int same_##t(const T *b, int64_t n)         \
    {                                                  \
        int other = 0;                                 \
        for (int64_t i = 1; i < n; i++)                \
            other |= b[i] != b[0];                     \
        return n > 0 && !other;                        \
    }
SAME(f32, float)
SAME(f64, double)

#define EXPONENT(value, EXPR)          \
    if (y == (value)) {                \
        UFF_EACH                       \
        {                              \
            x = a[i];                  \
            out[i] = (EXPR);           \
        }                              \
        return;                        \
    }

#define POWER(t, T, SQRT, LIBRARY, FAST)                                                       \
    static void power_##t(void *o, const void *a_, const void *b_, const void *c_, int64_t n)  \
    {                                                                                          \
        (void)c_;                                                                              \
        T *out = o;                                                                            \
        const T *a = a_, *b = b_;                                                              \
        if (same_##t(b, n)) {                                                                  \
            const T y = b[0];                                                                  \
            T x;                                                                               \
            EXPONENT(2, x *x)                                                                  \
            EXPONENT((T)0.5, x == -INFINITY ? INFINITY : SQRT(x) + 0)                          \
            EXPONENT(-1, 1 / x)                                                                \
            EXPONENT((T)-0.5, x == -INFINITY ? 0 : 1 / (SQRT(x) + 0))                          \
            EXPONENT(1, x)                                                                     \
            EXPONENT(3, x *x *x)                                                               \
        }                                                                                      \
        FAST                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                        \
            out[i] = LIBRARY(a[i], b[i]);                                                      \
    }

#define POSITIVE_BASES                                                        \
    int outside = !within_f32(b, 3e38f, n);                                   \
    for (int64_t i = 0; i < n; i++)                                           \
        outside |= !(a[i] > 0 && a[i] < INFINITY);                            \
    if (!outside) {                                                           \
        UFF_EACH out[i] = (float)uff_exp_f64(b[i] * uff_log_f64(a[i]));       \
        return;                                                               \
    }

POWER(f32, float, sqrtf, powf, POSITIVE_BASES)
POWER(f64, double, sqrt, pow, )

#define FLOAT2(op) {#op, {op##_f32, op##_f64}}

static const uff_tile_row rows[] = {
    FLOAT2(exp),  FLOAT2(expm1),   FLOAT2(log),      FLOAT2(log1p), FLOAT2(tanh),
    FLOAT2(sin),  FLOAT2(sigmoid), FLOAT2(softplus), FLOAT2(erf),   FLOAT2(power),
    FLOAT2(cos),
};

static const uff_function_kernels table = {UFF_ROWS(rows)};

void UFF_FILL(function)(uff_kernels *k)
{
    k->function = &table;
}
