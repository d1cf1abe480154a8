#include "softmax.h"
#include "math_f64.h"
#include "tile_fn.h"
#include "vector.h"

#define PIECE 1024 /* exponentials that are kept on the stack at a time */

/* The largest of a row; NaN if there is one. Lanes of a vector, then across. */
#define HIGHEST(t, T, V, U, I, L)                                   \
    static inline T highest_##t(const T *x, int64_t n)              \
    {                                                               \
        T m = x[0];                                                 \
        int64_t i = 0;                                              \
        if (n >= L) {                                               \
            V v = *(const U *)x;                                    \
            for (i = L; i + L <= n; i += L) {                       \
                V w = *(const U *)(x + i);                          \
                I taken = (I)(w > v) | (I)(w != w);                 \
                v = (V)((taken & (I)w) | (~taken & (I)v));          \
            }                                                       \
            for (int j = 0; j < L; j++)                             \
                m = v[j] > m || v[j] != v[j] ? v[j] : m;            \
        }                                                           \
        for (; i < n; i++)                                          \
            m = x[i] > m || x[i] != x[i] ? x[i] : m;                \
        return m;                                                   \
    }                                                               \
    static inline double total_##t(const T *x, int64_t n)           \
    {                                                               \
        double sum = 0;                                             \
        int64_t i = 0;                                              \
        if (n >= L) {                                               \
            V v = *(const U *)x;                                    \
            for (i = L; i + L <= n; i += L)                         \
                v += *(const U *)(x + i);                           \
            for (int j = 0; j < L; j++)                             \
                sum += v[j];                                        \
        }                                                           \
        for (; i < n; i++)                                          \
            sum += x[i];                                            \
        return sum;                                                 \
    }
HIGHEST(f32, float, uff_vf32, uff_vf32u, uff_vi32, UFF_F32)
HIGHEST(f64, double, uff_vf64, uff_vf64u, uff_vi64, UFF_F64)

#define KERNELS(t, T, LOG)                                                                   \
    /* the sum of exp(x - shift); the exponentials go to e, or nowhere */                    \
    static inline double exponentials_##t(T *e, const T *x, T shift, int64_t n)              \
    {                                                                                        \
        T piece[PIECE];                                                                      \
        double sum = 0;                                                                      \
        for (int64_t at = 0; at < n; at += PIECE) {                                          \
            const int64_t m = n - at < PIECE ? n - at : PIECE;                               \
            const T *a = x + at;                                                             \
            T *to = e ? e + at : piece;                                                      \
            _Pragma("GCC ivdep") for (int64_t i = 0; i < m; i++)                             \
                to[i] = uff_exp_##t(a[i] - shift);                                           \
            sum += total_##t(to, m);                                                         \
        }                                                                                    \
        return sum;                                                                          \
    }                                                                                        \
    static void softmax_##t(void *out, const void *x_, int64_t rows, int64_t n)              \
    {                                                                                        \
        T *y = out;                                                                          \
        const T *x = x_;                                                                     \
        for (int64_t r = 0; r < rows; r++, x += n, y += n) {                                 \
            const T scale = (T)(1 / exponentials_##t(y, x, highest_##t(x, n), n));           \
            UFF_EACH y[i] *= scale;                                                          \
        }                                                                                    \
    }                                                                                        \
    static void log_softmax_##t(void *out, const void *x_, int64_t rows, int64_t n)          \
    {                                                                                        \
        T *y = out;                                                                          \
        const T *x = x_;                                                                     \
        for (int64_t r = 0; r < rows; r++, x += n, y += n) {                                 \
            const T high = highest_##t(x, n);                                                \
            const T rest = LOG((T)exponentials_##t(0, x, high, n));                          \
            UFF_EACH y[i] = (x[i] - high) - rest;                                            \
        }                                                                                    \
    }                                                                                        \
    static void logsumexp_##t(void *out, const void *x_, int64_t rows, int64_t n)            \
    {                                                                                        \
        T *y = out;                                                                          \
        const T *x = x_;                                                                     \
        for (int64_t r = 0; r < rows; r++, x += n) {                                         \
            const T high = highest_##t(x, n), shift = high - high == 0 ? high : 0;           \
            y[r] = LOG((T)exponentials_##t(0, x, shift, n)) + shift;                         \
        }                                                                                    \
    }
KERNELS(f32, float, uff_log_f32)
KERNELS(f64, double, uff_log_f64)

static const uff_softmax_kernels table = {
    {softmax_f32, softmax_f64},
    {log_softmax_f32, log_softmax_f64},
    {logsumexp_f32, logsumexp_f64},
};

void UFF_FILL(softmax)(uff_kernels *k)
{
    k->softmax = &table;
}
