#include "reduce.h"
#include "vector.h"

#include <math.h>

/* -- accumulators ---------------------------------------------------------------------- */

#define START(kind, t, A, FIRST)                       \
    static void kind##_start_##t(void *acc, int64_t n) \
    {                                                  \
        A *a = acc;                                    \
        for (int64_t i = 0; i < n; i++)                \
            a[i] = FIRST;                              \
    }
#define MERGE(kind, t, A, TAKE)                                           \
    static void kind##_merge_##t(void *acc, const void *other, int64_t n) \
    {                                                                     \
        A *a = acc;                                                       \
        const A *b = other;                                               \
        UFF_EACH                                                          \
        {                                                                 \
            const A m = a[i], x = b[i];                                   \
            a[i] = TAKE(m, x);                                            \
        }                                                                 \
    }
#define FINISH(kind, t, A, T)                                            \
    static void kind##_finish_##t(void *out, const void *acc, int64_t n) \
    {                                                                    \
        T *o = out;                                                      \
        const A *a = acc;                                                \
        UFF_EACH o[i] = (T)a[i];                                         \
    }

#define ADD(m, x) ((m) + (x))
/* A NaN, once taken, stays: nothing is greater or less. */
#define FMAX(m, x) (((x) > (m)) | ((x) != (x)) ? (x) : (m))
#define FMIN(m, x) (((x) < (m)) | ((x) != (x)) ? (x) : (m))
#define IMAX(m, x) ((x) > (m) ? (x) : (m))
#define IMIN(m, x) ((x) < (m) ? (x) : (m))

/* -- rows ---------------------------------------------------------------------------------- */

/* Floats: four vectors of partial results a block, then their lanes in order. V is the
 * vector, U its unaligned form, L its lanes, A the accumulator. */
#define VTAKE(name, t, V, I, COMPARE)                            \
    static inline V name##_##t(V m, V x)                         \
    {                                                            \
        I taken = (I)(x COMPARE m) | (I)(x != x);                \
        return (V)((taken & (I)x) | (~taken & (I)m));            \
    }
VTAKE(vmax, f32, uff_vf32, uff_vi32, >)
VTAKE(vmin, f32, uff_vf32, uff_vi32, <)
VTAKE(vmax, f64, uff_vf64, uff_vi64, >)
VTAKE(vmin, f64, uff_vf64, uff_vi64, <)
#define FLOAT_ROWS(kind, t, T, A, V, U, L, FIRST, TAKE, VTAKE)                                   \
    static inline A kind##_row_##t(A acc, const T *x, int64_t n)                                 \
    {                                                                                            \
        while (n > 0) {                                                                          \
            int64_t m = n < UFF_SUM_BLOCK ? n : UFF_SUM_BLOCK, i = 0;                            \
            if (m >= L) {                                                                        \
                V v0 = (V){0} + FIRST, v1 = v0, v2 = v0, v3 = v0;                                \
                for (; i + 4 * L <= m; i += 4 * L) {                                             \
                    const U *p = (const U *)(x + i);                                             \
                    V x0 = p[0], x1 = p[1], x2 = p[2], x3 = p[3];                                \
                    v0 = VTAKE(v0, x0);                                                          \
                    v1 = VTAKE(v1, x1);                                                          \
                    v2 = VTAKE(v2, x2);                                                          \
                    v3 = VTAKE(v3, x3);                                                          \
                }                                                                                \
                for (; i + L <= m; i += L) {                                                     \
                    V x0 = *(const U *)(x + i);                                                  \
                    v0 = VTAKE(v0, x0);                                                          \
                }                                                                                \
                v0 = VTAKE(v0, v1);                                                              \
                v2 = VTAKE(v2, v3);                                                              \
                v0 = VTAKE(v0, v2);                                                              \
                for (int j = 0; j < L; j++)                                                      \
                    acc = TAKE(acc, (A)v0[j]);                                                   \
            }                                                                                    \
            for (; i < m; i++)                                                                   \
                acc = TAKE(acc, (A)x[i]);                                                        \
            x += m;                                                                              \
            n -= m;                                                                              \
        }                                                                                        \
        return acc;                                                                              \
    }                                                                                            \
    ROWS(kind, t, T, A)

#define ROWS(kind, t, T, A)                                                                  \
    static void kind##_rows_##t(void *acc, const void *x, int64_t count, int64_t n,          \
                                int64_t stride)                                              \
    {                                                                                        \
        A *a = acc;                                                                          \
        for (int64_t k = 0; k < count; k++)                                                  \
            a[k] = kind##_row_##t(a[k], (const T *)x + k * stride, n);                       \
    }

/* Integers: the order doesn't matter, so the compiler makes the vectors. */
#define INT_ROWS(kind, t, T, A, TAKE)                                                        \
    static inline A kind##_row_##t(A acc, const T *x, int64_t n)                             \
    {                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                      \
            acc = TAKE(acc, (A)x[i]);                                                        \
        return acc;                                                                          \
    }                                                                                        \
    ROWS(kind, t, T, A)

/* -- columns ------------------------------------------------------------------------------- */

/* Rows are added four at a time to a row of partial results of type P that stays in the L1
 * cache, which goes to the accumulators after UFF_COLUMN_BLOCK rows. Where a row is short,
 * several rows that follow each other in memory are taken as one, and folded, as P, before
 * they go to the accumulators: a tile has few of them, and float64 would be half the work. */
#define FOUR(kind, t, T, P, TAKE)                                                             \
    static inline void kind##_four_##t(P *part, const T *p, int64_t n, int64_t stride)        \
    {                                                                                         \
        const T *p1 = p + stride, *p2 = p1 + stride, *p3 = p2 + stride;                       \
        UFF_EACH                                                                              \
        {                                                                                     \
            const P x0 = (P)p[i], x1 = (P)p1[i], x2 = (P)p2[i], x3 = (P)p3[i];                \
            const P a = TAKE(x0, x1), b = TAKE(x2, x3), c = TAKE(a, b), m = part[i];          \
            part[i] = TAKE(m, c);                                                             \
        }                                                                                     \
    }
/* The compiler makes no vectors of a choice that depends on a NaN: they are made here. */
#define FOUR_EXTREMES(kind, t, T, V, U, L, TAKE)                                              \
    static inline void kind##_four_##t(T *part, const T *p, int64_t n, int64_t stride)        \
    {                                                                                         \
        int64_t i = 0;                                                                        \
        for (; i + L <= n; i += L) {                                                          \
            const T *q = p + i;                                                               \
            V m = *(U *)(part + i);                                                           \
            for (int r = 0; r < 4; r++, q += stride)                                          \
                m = v##kind##_##t(m, *(const U *)q);                                          \
            *(U *)(part + i) = m;                                                             \
        }                                                                                     \
        for (; i < n; i++)                                                                    \
            for (int r = 0; r < 4; r++) {                                                     \
                const T m = part[i], x = p[i + r * stride];                                   \
                part[i] = TAKE(m, x);                                                         \
            }                                                                                 \
    }
FOUR_EXTREMES(max, f32, float, uff_vf32, uff_vf32u, UFF_F32, FMAX)
FOUR_EXTREMES(min, f32, float, uff_vf32, uff_vf32u, UFF_F32, FMIN)
FOUR_EXTREMES(max, f64, double, uff_vf64, uff_vf64u, UFF_F64, FMAX)
FOUR_EXTREMES(min, f64, double, uff_vf64, uff_vf64u, UFF_F64, FMIN)
/* GCC 12 takes the vector form of the loops over `part` to run past it: n is at most its
 * length, by contract. */
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#define COLUMNS(kind, t, T, P, A, FIRST, TAKE)                                                \
    static inline void kind##_one_##t(P *part, const T *p, int64_t n)                         \
    {                                                                                         \
        UFF_EACH                                                                              \
        {                                                                                     \
            const P m = part[i], x0 = (P)p[i];                                                \
            part[i] = TAKE(m, x0);                                                            \
        }                                                                                     \
    }                                                                                         \
    static inline void kind##_halve_##t(P *part, const P *p, int64_t n)                       \
    {                                                                                         \
        UFF_EACH                                                                              \
        {                                                                                     \
            const P m = part[i], x0 = p[i];                                                   \
            part[i] = TAKE(m, x0);                                                            \
        }                                                                                     \
    }                                                                                         \
    static void kind##_blank_##t(void *part_, int64_t n)                                      \
    {                                                                                         \
        P *part = part_;                                                                      \
        UFF_EACH part[i] = FIRST;                                                             \
    }                                                                                         \
    static void kind##_gather_##t(void *part, const void *x, int64_t count, int64_t n)        \
    {                                                                                         \
        const T *p = x;                                                                       \
        for (; count >= 4; count -= 4, p += 4 * n)                                            \
            kind##_four_##t(part, p, n, n);                                                   \
        for (; count > 0; count--, p += n)                                                    \
            kind##_one_##t(part, p, n);                                                       \
    }                                                                                         \
    static void kind##_fold_##t(void *acc, void *part_, int64_t together, int64_t n)          \
    {                                                                                         \
        A *a = acc;                                                                           \
        P *part = part_;                                                                      \
        for (int64_t k = together, half; k > 1; k -= half) {                                  \
            half = k / 2;                                                                     \
            kind##_halve_##t(part, part + (k - half) * n, half * n);                          \
        }                                                                                     \
        UFF_EACH                                                                              \
        {                                                                                     \
            const A m = a[i], x0 = (A)part[i];                                                \
            a[i] = TAKE(m, x0);                                                               \
        }                                                                                     \
        kind##_blank_##t(part, together * n);                                                 \
    }                                                                                         \
    static inline void kind##_wide_##t(A *acc, const T *x, int64_t count, int64_t n,          \
                                       int64_t stride)                                        \
    {                                                                                         \
        P part[UFF_REDUCE_COLUMNS];                                                           \
        for (int64_t done = 0; done < count; done += UFF_COLUMN_BLOCK) {                          \
            int64_t rows = count - done < UFF_COLUMN_BLOCK ? count - done : UFF_COLUMN_BLOCK, r = 0;  \
            const T *p = x + done * stride;                                                   \
            UFF_EACH part[i] = FIRST;                                                         \
            for (; r + 4 <= rows; r += 4, p += 4 * stride)                                    \
                kind##_four_##t(part, p, n, stride);                                          \
            for (; r < rows; r++, p += stride)                                                \
                kind##_one_##t(part, p, n);                                                   \
            UFF_EACH                                                                          \
            {                                                                                 \
                const A m = acc[i], x0 = (A)part[i];                                          \
                acc[i] = TAKE(m, x0);                                                         \
            }                                                                                 \
        }                                                                                     \
    }                                                                                         \
    static void kind##_columns_##t(void *acc, const void *x_, int64_t count, int64_t n,       \
                                   int64_t stride)                                            \
    {                                                                                         \
        A *a = acc;                                                                           \
        const T *x = x_;                                                                      \
        const int64_t together = n < 64 && stride == n ? 256 / n : 1, wide = together * n;    \
        while (together > 1 && count >= together) {                                           \
            P part[256];                                                                      \
            int64_t rows = UFF_SUM_BLOCK / together, r = 0;                                   \
            rows = rows < UFF_COLUMN_BLOCK ? rows : UFF_COLUMN_BLOCK;                                 \
            rows = rows < count / together ? rows : count / together;                         \
            for (int64_t i = 0; i < wide; i++)                                                \
                part[i] = FIRST;                                                              \
            for (; r + 4 <= rows; r += 4)                                                     \
                kind##_four_##t(part, x + r * wide, wide, wide);                              \
            for (; r < rows; r++)                                                             \
                kind##_one_##t(part, x + r * wide, wide);                                     \
            kind##_fold_##t(a, part, together, n);                                            \
            x += rows * wide;                                                                 \
            count -= rows * together;                                                         \
        }                                                                                     \
        if (count)                                                                            \
            kind##_wide_##t(a, x, count, n, stride);                                          \
    }

#define COMMON(kind, t, T, P, A, FIRST, TAKE) \
    START(kind, t, A, FIRST)                  \
    MERGE(kind, t, A, TAKE)                   \
    FINISH(kind, t, A, T)                     \
    COLUMNS(kind, t, T, P, A, FIRST, TAKE)

#define FLOAT_KIND(kind, t, T, A, V, U, L, FIRST, TAKE, VTAKE) \
    COMMON(kind, t, T, T, A, FIRST, TAKE)                      \
    FLOAT_ROWS(kind, t, T, A, V, U, L, FIRST, TAKE, VTAKE)
#define F32_KIND(kind, A, FIRST, TAKE, VTAKE) \
    FLOAT_KIND(kind, f32, float, A, uff_vf32, uff_vf32u, UFF_F32, FIRST, TAKE, VTAKE)
#define F64_KIND(kind, FIRST, TAKE, VTAKE) \
    FLOAT_KIND(kind, f64, double, double, uff_vf64, uff_vf64u, UFF_F64, FIRST, TAKE, VTAKE)
#define INT_KIND(kind, t, T, A, FIRST, TAKE)  \
    FOUR(kind, t, T, A, TAKE)                 \
    COMMON(kind, t, T, A, A, FIRST, TAKE)     \
    INT_ROWS(kind, t, T, A, TAKE)

FOUR(sum, f32, float, float, ADD)
FOUR(sum, f64, double, double, ADD)
F32_KIND(sum, double, 0, ADD, ADD)
F32_KIND(max, float, -INFINITY, FMAX, vmax_f32)
F32_KIND(min, float, INFINITY, FMIN, vmin_f32)
F64_KIND(sum, 0, ADD, ADD)
F64_KIND(max, -INFINITY, FMAX, vmax_f64)
F64_KIND(min, INFINITY, FMIN, vmin_f64)
/* unsigned, as signed sums must not overflow */
INT_KIND(sum, i32, int32_t, uint64_t, 0, ADD)
INT_KIND(sum, i64, int64_t, uint64_t, 0, ADD)
INT_KIND(sum, i8, int8_t, uint64_t, 0, ADD)
INT_KIND(sum, u8, uint8_t, uint64_t, 0, ADD)
INT_KIND(max, i32, int32_t, int32_t, INT32_MIN, IMAX)
INT_KIND(max, i64, int64_t, int64_t, INT64_MIN, IMAX)
INT_KIND(max, i8, int8_t, int8_t, INT8_MIN, IMAX)
INT_KIND(max, u8, uint8_t, uint8_t, 0, IMAX)
INT_KIND(min, i32, int32_t, int32_t, INT32_MAX, IMIN)
INT_KIND(min, i64, int64_t, int64_t, INT64_MAX, IMIN)
INT_KIND(min, i8, int8_t, int8_t, INT8_MAX, IMIN)
INT_KIND(min, u8, uint8_t, uint8_t, UINT8_MAX, IMIN)

/* -- places of extremes ---------------------------------------------------------------------- */

/* `BEATS(x, m)`: x is better than m, or the first NaN. */
#define FGREATER(x, m) (!((x) <= (m)) && (m) == (m))
#define FLESSER(x, m) (!((x) >= (m)) && (m) == (m))
#define GREATER(x, m) ((x) > (m))
#define LESSER(x, m) ((x) < (m))
#define ARG(op, t, T, BEATS, ROW)                                                           \
    static void op##_##t(int32_t *out, void *best_, const void *x_, int64_t n,              \
                         int64_t columns, int64_t stride)                                   \
    {                                                                                       \
        const T *x = x_;                                                                    \
        T *best = best_;                                                                    \
        if (columns == 1 && stride == 1) { /* the value first, then where it is */          \
            T m = ROW(x[0], x, n);                                                          \
            int64_t i = 0;                                                                  \
            while (i < n && !(x[i] == m || (m != m && x[i] != x[i])))                       \
                i++;                                                                        \
            out[0] = (int32_t)i;                                                            \
            return;                                                                         \
        }                                                                                   \
        for (int64_t j = 0; j < columns; j++) {                                             \
            best[j] = x[j];                                                                 \
            out[j] = 0;                                                                     \
        }                                                                                   \
        for (int64_t i = 1; i < n; i++) {                                                   \
            const T *p = x + i * stride;                                                    \
            _Pragma("GCC ivdep") for (int64_t j = 0; j < columns; j++)                      \
            {                                                                               \
                const T v = p[j], m = best[j];                                              \
                const int beats = BEATS(v, m);                                              \
                best[j] = beats ? v : m;                                                    \
                out[j] = beats ? (int32_t)i : out[j];                                       \
            }                                                                               \
        }                                                                                   \
    }
ARG(argmax, f32, float, FGREATER, max_row_f32)
ARG(argmin, f32, float, FLESSER, min_row_f32)
ARG(argmax, f64, double, FGREATER, max_row_f64)
ARG(argmin, f64, double, FLESSER, min_row_f64)
#define ARGS(t, T)                            \
    ARG(argmax, t, T, GREATER, max_row_##t)   \
    ARG(argmin, t, T, LESSER, min_row_##t)
ARGS(i32, int32_t)
ARGS(i64, int64_t)
ARGS(i8, int8_t)
ARGS(u8, uint8_t)

/* -- running sums ---------------------------------------------------------------------------- */

#define CUMSUM(t, T, A)                                                           \
    static void cumsum_##t(void *y_, const void *x_, int64_t n, int reverse)      \
    {                                                                             \
        T *y = y_;                                                                \
        const T *x = x_;                                                          \
        A sum = 0;                                                                \
        if (reverse)                                                              \
            for (int64_t i = n - 1; i >= 0; i--)                                  \
                y[i] = (T)(sum += (A)x[i]);                                       \
        else                                                                      \
            for (int64_t i = 0; i < n; i++)                                       \
                y[i] = (T)(sum += (A)x[i]);                                       \
    }
CUMSUM(f32, float, double)
CUMSUM(f64, double, double)
CUMSUM(i32, int32_t, uint64_t)
CUMSUM(i64, int64_t, uint64_t)
CUMSUM(i8, int8_t, uint64_t)
CUMSUM(u8, uint8_t, uint64_t)

#define REDUCER(kind, t, A, P)                                                          \
    {sizeof(A), kind##_start_##t, kind##_rows_##t, kind##_columns_##t, sizeof(P),       \
     kind##_blank_##t, kind##_gather_##t, kind##_fold_##t, kind##_merge_##t,            \
     kind##_finish_##t}
#define EXTREME(kind, t, T) REDUCER(kind, t, T, T)
#define EXTREMES(kind)                                                                         \
    {EXTREME(kind, f32, float), EXTREME(kind, f64, double), EXTREME(kind, i32, int32_t),       \
     EXTREME(kind, i64, int64_t), EXTREME(kind, i8, int8_t), EXTREME(kind, u8, uint8_t),       \
     EXTREME(kind, u8, uint8_t)}
#define ALL7(op) {op##_f32, op##_f64, op##_i32, op##_i64, op##_i8, op##_u8, op##_u8}

static const uff_reduce_kernels table = {
    .reducers =
        {
            /* a sum of bools is true if one is */
            {REDUCER(sum, f32, double, float), REDUCER(sum, f64, double, double),
             REDUCER(sum, i32, int64_t, int64_t), REDUCER(sum, i64, int64_t, int64_t),
             REDUCER(sum, i8, int64_t, int64_t), REDUCER(sum, u8, int64_t, int64_t),
             EXTREME(max, u8, uint8_t)},
            EXTREMES(max),
            EXTREMES(min),
        },
    .argmax = ALL7(argmax),
    .argmin = ALL7(argmin),
    .cumsum = {cumsum_f32, cumsum_f64, cumsum_i32, cumsum_i64, cumsum_i8, cumsum_u8},
};

void UFF_FILL(reduce)(uff_kernels *k)
{
    k->reduce = &table;
}
