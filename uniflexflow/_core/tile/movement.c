#include "movement.h"
#include "vector.h"

#define ARGS                                                                          \
    char *out, int64_t out_row, int64_t out_column, const char *in, int64_t in_row,   \
        int64_t in_column, int64_t rows, int64_t columns

#define COPIES(bits, T)                                                                \
    static void dense_##bits(ARGS)                                                     \
    {                                                                                  \
        (void)out_column, (void)in_column;                                             \
        if (columns * sizeof(T) >= 128) {                                              \
            for (int64_t r = 0; r < rows; r++)                                         \
                memcpy(out + r * out_row, in + r * in_row, columns * sizeof(T));       \
            return;                                                                    \
        }                                                                              \
        for (int64_t r = 0; r < rows; r++) {                                           \
            T *o = (T *)(out + r * out_row);                                           \
            const T *x = (const T *)(in + r * in_row);                                 \
            for (int64_t c = 0; c < columns; c++)                                      \
                o[c] = x[c];                                                           \
        }                                                                              \
    }                                                                                  \
    static void repeat_##bits(ARGS)                                                    \
    {                                                                                  \
        (void)out_column, (void)in_column;                                             \
        for (int64_t r = 0; r < rows; r++) {                                           \
            T *o = (T *)(out + r * out_row);                                           \
            const T x = *(const T *)(in + r * in_row);                                 \
            for (int64_t c = 0; c < columns; c++)                                      \
                o[c] = x;                                                              \
        }                                                                              \
    }                                                                                  \
    static void strided_##bits(ARGS)                                                   \
    {                                                                                  \
        for (int64_t r = 0; r < rows; r++) {                                           \
            char *o = out + r * out_row;                                               \
            const char *x = in + r * in_row;                                           \
            for (int64_t c = 0; c < columns; c++)                                      \
                *(T *)(o + c * out_column) = *(const T *)(x + c * in_column);          \
        }                                                                              \
    }
COPIES(8, uint8_t)
COPIES(16, uint16_t)
COPIES(32, uint32_t)
COPIES(64, uint64_t)

/* A block of S x S elements is read as S vectors and turned in registers: log2(S) rounds
 * interleave vectors that are half, then a quarter, ... of the block apart. Blocks go four
 * and four together, so that whole cache lines are read and written. Every line of such a
 * group lies in another page, where the processor does not look ahead: memory is asked for the
 * next group, for the lines of its last elements, since those of the first may be here. */
typedef uint16_t v8u16 __attribute__((vector_size(16)));
typedef uint32_t v8u32 __attribute__((vector_size(32)));
typedef uint32_t v4u32 __attribute__((vector_size(16)));
typedef uint64_t v4u64 __attribute__((vector_size(32)));
typedef uint64_t v2u64 __attribute__((vector_size(16)));
typedef v8u16 v8u16u __attribute__((aligned(2), may_alias));
typedef v8u32 v8u32u __attribute__((aligned(4), may_alias));
typedef v4u32 v4u32u __attribute__((aligned(4), may_alias));
typedef v4u64 v4u64u __attribute__((aligned(8), may_alias));
typedef v2u64 v2u64u __attribute__((aligned(8), may_alias));

#define LOW16 (v8u16){0, 8, 1, 9, 2, 10, 3, 11}
#define HIGH16 (v8u16){4, 12, 5, 13, 6, 14, 7, 15}
#define LOW8 (v8u32){0, 8, 1, 9, 2, 10, 3, 11}
#define HIGH8 (v8u32){4, 12, 5, 13, 6, 14, 7, 15}
#define LOW4 (v4u32){0, 4, 1, 5}
#define HIGH4 (v4u32){2, 6, 3, 7}
#define LOW4L (v4u64){0, 4, 1, 5}
#define HIGH4L (v4u64){2, 6, 3, 7}
#define LOW2L (v2u64){0, 2}
#define HIGH2L (v2u64){1, 3}

#define TURN(name, S, ROUNDS, V, U, LOW, HIGH)                                              \
    static inline __attribute__((always_inline)) void name(                                 \
        char *out, int64_t out_row, const char *in, int64_t in_column)                      \
    {                                                                                       \
        V a[S], b[S];                                                                       \
        _Pragma("GCC unroll 8") for (int i = 0; i < S; i++)                                 \
            a[i] = *(const U *)(in + i * in_column);                                        \
        _Pragma("GCC unroll 3") for (int round = 0; round < ROUNDS; round++)                \
        {                                                                                   \
            _Pragma("GCC unroll 4") for (int i = 0; i < S / 2; i++)                         \
            {                                                                               \
                b[2 * i] = __builtin_shuffle(a[i], a[i + S / 2], LOW);                      \
                b[2 * i + 1] = __builtin_shuffle(a[i], a[i + S / 2], HIGH);                 \
            }                                                                               \
            _Pragma("GCC unroll 8") for (int i = 0; i < S; i++) a[i] = b[i];                \
        }                                                                                   \
        _Pragma("GCC unroll 8") for (int i = 0; i < S; i++)                                 \
            *(U *)(out + i * out_row) = a[i];                                               \
    }
TURN(turn_16, 8, 3, v8u16, v8u16u, LOW16, HIGH16)
#if UFF_VBYTES >= 32
#define S32 8
#define S64 4
TURN(turn_32, 8, 3, v8u32, v8u32u, LOW8, HIGH8)
TURN(turn_64, 4, 2, v4u64, v4u64u, LOW4L, HIGH4L)
#else
#define S32 4
#define S64 2
TURN(turn_32, 4, 2, v4u32, v4u32u, LOW4, HIGH4)
TURN(turn_64, 2, 1, v2u64, v2u64u, LOW2L, HIGH2L)
#endif

#define TRANSPOSE(bits, T, S)                                                               \
    static void transpose_##bits(ARGS)                                                      \
    {                                                                                       \
        const int64_t size = sizeof(T), line = 64 / size;                                   \
        int64_t full_r = rows / S * S, full_c = columns / S * S;                            \
        for (int64_t r0 = 0; r0 < full_r; r0 += line)                                       \
            for (int64_t c0 = 0; c0 < full_c; c0 += line) {                                 \
                int64_t r1 = r0 + line < full_r ? r0 + line : full_r;                       \
                int64_t c1 = c0 + line < full_c ? c0 + line : full_c;                       \
                const int last = c0 + line >= full_c;                                       \
                const int64_t rn = last ? r0 + line : r0, cn = last ? 0 : c0 + line;        \
                const char *next = in + (rn + line - 1) * size + cn * in_column;            \
                char *below = out + rn * out_row + (cn + line - 1) * size;                  \
                for (int64_t i = 0; i < line; i++) {                                        \
                    __builtin_prefetch(next + i * in_column);                               \
                    __builtin_prefetch(below + i * out_row, 1);                             \
                }                                                                           \
                for (int64_t c = c0; c < c1; c += S)                                        \
                    for (int64_t r = r0; r < r1; r += S)                                    \
                        turn_##bits(out + r * out_row + c * size, out_row,                  \
                                    in + r * size + c * in_column, in_column);              \
            }                                                                               \
        strided_##bits(out + full_c * size, out_row, out_column, in + full_c * in_column,   \
                       in_row, in_column, full_r, columns - full_c);                        \
        strided_##bits(out + full_r * out_row, out_row, out_column, in + full_r * in_row,   \
                       in_row, in_column, rows - full_r, columns);                          \
    }
TRANSPOSE(16, uint16_t, 8)
TRANSPOSE(32, uint32_t, S32)
TRANSPOSE(64, uint64_t, S64)

/* -- order ----------------------------------------------------------------------------------- */

#define FBEFORE(a, b) ((a) < (b) || ((b) != (b) && (a) == (a)))
#define IBEFORE(a, b) ((a) < (b))
/* Merge sort: runs of 1, 2, 4, ...; a right one goes first only if it is strictly before. */
#define ARGSORT(t, T, BEFORE)                                                              \
    static void argsort_##t(int32_t *order, int32_t *room, const void *x_, int64_t n,      \
                            int falling)                                                   \
    {                                                                                      \
        const T *x = x_;                                                                   \
        int32_t *from = order, *to = room;                                                 \
        for (int64_t i = 0; i < n; i++)                                                    \
            from[i] = (int32_t)i;                                                          \
        for (int64_t run = 1; run < n; run *= 2) {                                         \
            for (int64_t lo = 0; lo < n; lo += 2 * run) {                                  \
                int64_t mid = lo + run < n ? lo + run : n;                                 \
                int64_t hi = lo + 2 * run < n ? lo + 2 * run : n;                          \
                int64_t i = lo, j = mid, k = lo;                                           \
                while (i < mid && j < hi) {                                                \
                    const T a = x[from[i]], b = x[from[j]];                                \
                    int right = falling ? BEFORE(a, b) : BEFORE(b, a);                     \
                    to[k++] = right ? from[j++] : from[i++];                               \
                }                                                                          \
                while (i < mid)                                                            \
                    to[k++] = from[i++];                                                   \
                while (j < hi)                                                             \
                    to[k++] = from[j++];                                                   \
            }                                                                              \
            int32_t *swap = from;                                                          \
            from = to;                                                                     \
            to = swap;                                                                     \
        }                                                                                  \
        if (from != order)                                                                 \
            memcpy(order, from, (size_t)n * sizeof *order);                                \
    }
ARGSORT(f32, float, FBEFORE)
ARGSORT(f64, double, FBEFORE)
ARGSORT(i32, int32_t, IBEFORE)
ARGSORT(i64, int64_t, IBEFORE)
ARGSORT(i8, int8_t, IBEFORE)
ARGSORT(u8, uint8_t, IBEFORE)

#define SIZES(op) {op##_8, op##_16, op##_32, op##_64}

static const uff_movement_kernels table = {
    .dense = SIZES(dense),
    .repeat = SIZES(repeat),
    .strided = SIZES(strided),
    .transpose = {strided_8, transpose_16, transpose_32, transpose_64},
    .argsort = {argsort_f32, argsort_f64, argsort_i32, argsort_i64, argsort_i8, argsort_u8,
                argsort_u8},
};

void UFF_FILL(movement)(uff_kernels *k)
{
    k->movement = &table;
}
