#include "mixed.h"

#include "bfloat16.h"
#include "vector.h"

/* Numbers are those of the operation on float32 between casts, bit by bit: each does the same
 * in vectors as the family `chain` does. */

static inline uff_vf32 load(const void *p, int64_t i, int narrow)
{
    return narrow ? uff_load_bf16((const uff_bf16 *)p + i) : uff_load_f32((const float *)p + i);
}

enum { WIDE, ROUND, EXACT }; /* how a result is stored; EXACT: it is a bfloat16's number */

static inline void store(void *p, int64_t i, uff_vf32 v, int narrow)
{
    if (narrow == EXACT)
        *(uff_vu16u *)((uff_bf16 *)p + i) = __builtin_convertvector((uff_vu32)v >> 16, uff_vu16);
    else if (narrow)
        uff_store_bf16((uff_bf16 *)p + i, v);
    else
        uff_store_f32((float *)p + i, v);
}

/* The last elements, which make no vector; what is missing is 0. */
typedef union {
    float wide[UFF_F32];
    uff_bf16 narrow[UFF_F32];
} rest;

static inline uff_vf32 load_rest(const void *p, int64_t i, int64_t n, int narrow)
{
    const size_t size = narrow ? sizeof(uff_bf16) : sizeof(float);
    rest r = {{0}};
    memcpy(&r, (const char *)p + (size_t)i * size, (size_t)(n - i) * size);
    return load(&r, 0, narrow);
}

static inline void store_rest(void *p, int64_t i, int64_t n, uff_vf32 v, int narrow)
{
    const size_t size = narrow ? sizeof(uff_bf16) : sizeof(float);
    rest r;
    store(&r, 0, v, narrow);
    memcpy((char *)p + (size_t)i * size, &r, (size_t)(n - i) * size);
}

/* The pragma: out is one of the inputs or overlaps none. */
#define MIXED(op, name, EXPR, A, B, O)                                                     \
    static void op##_##name(void *out, const void *a, const void *b, const void *c,        \
                            int64_t n)                                                     \
    {                                                                                      \
        (void)b, (void)c;                                                                  \
        int64_t i = 0;                                                                     \
        _Pragma("GCC ivdep") for (; i + UFF_F32 <= n; i += UFF_F32)                        \
        {                                                                                  \
            const uff_vf32 x = load(a, i, A), y = B < 0 ? x : load(b, i, B);               \
            store(out, i, (EXPR), O);                                                      \
            (void)y;                                                                       \
        }                                                                                  \
        if (i < n) {                                                                       \
            const uff_vf32 x = load_rest(a, i, n, A), y = B < 0 ? x : load_rest(b, i, n, B); \
            store_rest(out, i, n, (EXPR), O);                                              \
            (void)y;                                                                       \
        }                                                                                  \
    }

#define UNARY(op, EXPR, FULL)         \
    MIXED(op, 1, EXPR, 1, -1, WIDE)   \
    MIXED(op, 4, EXPR, 0, -1, ROUND)  \
    MIXED(op, 5, EXPR, 1, -1, FULL)
#define BINARY(op, EXPR, HALF, FULL)  \
    MIXED(op, 1, EXPR, 1, 0, WIDE)    \
    MIXED(op, 2, EXPR, 0, 1, WIDE)    \
    MIXED(op, 3, EXPR, 1, 1, WIDE)    \
    MIXED(op, 4, EXPR, 0, 0, ROUND)   \
    MIXED(op, 5, EXPR, 1, 0, HALF)    \
    MIXED(op, 6, EXPR, 0, 1, ROUND)   \
    MIXED(op, 7, EXPR, 1, 1, FULL)

#define CLEARED(mask, v) (uff_vf32)(~(uff_vi32)(mask) & (uff_vi32)(v))
#define KEPT(mask, v) (uff_vf32)((uff_vi32)(mask) & (uff_vi32)(v))

UNARY(negative, -x, EXACT)
UNARY(relu, CLEARED(x <= 0, x), EXACT)
UNARY(square, x * x, ROUND)
BINARY(add, x + y, ROUND, ROUND)
BINARY(subtract, x - y, ROUND, ROUND)
BINARY(multiply, x * y, ROUND, ROUND)
BINARY(divide, x / y, ROUND, ROUND)
BINARY(maximum, uff_select_f32((uff_vi32)(x > y) | (uff_vi32)(x != x), x, y), ROUND, EXACT)
BINARY(minimum, uff_select_f32((uff_vi32)(x < y) | (uff_vi32)(x != x), x, y), ROUND, EXACT)
BINARY(relu_gradient, KEPT(y > 0, x), EXACT, EXACT)

/* As a cast to bfloat16 and back: bits are cut off where they are. */
static void rounded(void *out, const void *a, const void *b, const void *c, int64_t n)
{
    (void)b, (void)c;
    float *y = out;
    const float *x = a;
    UFF_EACH y[i] = uff_expand(uff_narrow(x[i]));
}

#define UNARY_ROW(op) \
    {#op, {[1] = op##_1, [4] = op##_4, [5] = op##_5}}
#define BINARY_ROW(op) \
    {#op, {[1] = op##_1, op##_2, op##_3, op##_4, op##_5, op##_6, op##_7}}

static const uff_mixed_row rows[] = {
    UNARY_ROW(negative),  UNARY_ROW(relu),       UNARY_ROW(square),   BINARY_ROW(add),
    BINARY_ROW(subtract), BINARY_ROW(multiply),  BINARY_ROW(divide),  BINARY_ROW(maximum),
    BINARY_ROW(minimum),  BINARY_ROW(relu_gradient),
};

static const uff_mixed_kernels table = {rows, (int)(sizeof rows / sizeof rows[0]), rounded};

void UFF_FILL(mixed)(uff_kernels *k)
{
    k->mixed = &table;
}
