/* The one shape of all elementwise tile kernels, and tables of them. */
#ifndef UFF_TILE_FN_H
#define UFF_TILE_FN_H

#include <stdint.h>

/* out[i] = f(a[i], b[i], c[i]) for i < n. Operands that f doesn't have are ignored. `out`
 * is one of the inputs or overlaps none of them. No pointer need be aligned. */
typedef void (*uff_tile_fn)(void *out, const void *a, const void *b, const void *c, int64_t n);

/* Number of a dtype in all tables. */
enum {
    UFF_F32_T,
    UFF_F64_T,
    UFF_I32_T,
    UFF_I64_T,
    UFF_I8_T,
    UFF_U8_T,
    UFF_BOOL_T,
    UFF_BF16_T,
    UFF_NUM_DTYPES
};

/* One operation: its function by dtype of the last operand, NULL where it has no meaning. */
typedef struct {
    const char *name;
    uff_tile_fn fn[UFF_NUM_DTYPES];
} uff_tile_row;

typedef struct {
    const uff_tile_row *rows;
    int num_rows;
} uff_tile_rows;

/* Ends a loop over a tile: iterations are independent, also where out is an input. */
#define UFF_EACH _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)

#define UFF_UNARY(op, t, TO, T, EXPR)                                              \
    static void op##_##t(void *o, const void *a_, const void *b_, const void *c_,  \
                         int64_t n)                                                \
    {                                                                              \
        (void)b_, (void)c_;                                                        \
        TO *out = o;                                                               \
        const T *a = a_;                                                           \
        UFF_EACH                                                                   \
        {                                                                          \
            const T x = a[i];                                                      \
            out[i] = (TO)(EXPR);                                                   \
        }                                                                          \
    }

#define UFF_BINARY(op, t, TO, T, EXPR)                                             \
    static void op##_##t(void *o, const void *a_, const void *b_, const void *c_,  \
                         int64_t n)                                                \
    {                                                                              \
        (void)c_;                                                                  \
        TO *out = o;                                                               \
        const T *a = a_, *b = b_;                                                  \
        UFF_EACH                                                                   \
        {                                                                          \
            const T x = a[i], y = b[i];                                            \
            out[i] = (TO)(EXPR);                                                   \
        }                                                                          \
    }

#define UFF_ROWS(table) {table, (int)(sizeof table / sizeof table[0])}

#endif
