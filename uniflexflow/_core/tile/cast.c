#include "cast.h"

#include "bfloat16.h"
#include "vector.h"

/* A float becomes an integer by cutting its fraction; one that doesn't fit (or NaN) gives
 * an unspecified number, as in NumPy. Small integers are cut from int32, so that they
 * wrap around as NumPy's do. A bool is "not zero": NaN is true. */
#define AS_I8(x) (int8_t)(int32_t)(x)
#define AS_U8(x) (uint8_t)(int32_t)(x)
#define UFF_NARROW(op, T, EXPR)                                                                  \
    static void op##_bf16(void *o, const void *a_, const void *b_, const void *c_, int64_t n)    \
    {                                                                                            \
        (void)b_, (void)c_;                                                                      \
        uff_bf16 *out = o;                                                                       \
        const T *a = a_;                                                                         \
        UFF_EACH                                                                                 \
        {                                                                                        \
            const T x = a[i];                                                                    \
            out[i] = uff_narrow(EXPR);                                                           \
        }                                                                                        \
    }
#define CASTS_FROM(t, T)                                     \
    UFF_UNARY(t##_to, f32, float, T, x)                      \
    UFF_UNARY(t##_to, f64, double, T, x)                     \
    UFF_UNARY(t##_to, i32, int32_t, T, x)                    \
    UFF_UNARY(t##_to, i64, int64_t, T, x)                    \
    UFF_UNARY(t##_to, i8, int8_t, T, AS_I8(x))               \
    UFF_UNARY(t##_to, u8, uint8_t, T, AS_U8(x))              \
    UFF_UNARY(t##_to, b8, uint8_t, T, x != 0)
CASTS_FROM(f32, float)
CASTS_FROM(f64, double)
CASTS_FROM(i32, int32_t)
CASTS_FROM(i64, int64_t)
CASTS_FROM(i8, int8_t)
CASTS_FROM(u8, uint8_t)
UFF_NARROW(f64_to, double, (float)x)
UFF_NARROW(i32_to, int32_t, (float)x)
UFF_NARROW(i64_to, int64_t, (float)x)
UFF_NARROW(i8_to, int8_t, (float)x)
UFF_NARROW(u8_to, uint8_t, (float)x)
UFF_UNARY(bf16_to, f64, double, uff_bf16, uff_expand(x))
UFF_UNARY(bf16_to, i32, int32_t, uff_bf16, uff_expand(x))
UFF_UNARY(bf16_to, i64, int64_t, uff_bf16, uff_expand(x))
UFF_UNARY(bf16_to, i8, int8_t, uff_bf16, AS_I8(uff_expand(x)))
UFF_UNARY(bf16_to, u8, uint8_t, uff_bf16, AS_U8(uff_expand(x)))
UFF_UNARY(bf16_to, b8, uint8_t, uff_bf16, uff_expand(x) != 0)
UFF_NARROW(bf16_to, uff_bf16, uff_expand(x))

/* Between bfloat16 and float32, which the ends of chains do, in vectors. */
static void bf16_to_f32(void *o, const void *a_, const void *b_, const void *c_, int64_t n)
{
    (void)b_, (void)c_;
    float *out = o;
    const uff_bf16 *a = a_;
    int64_t i = 0;
    for (; i + UFF_F32 <= n; i += UFF_F32)
        uff_store_f32(out + i, uff_load_bf16(a + i));
    for (; i < n; i++)
        out[i] = uff_expand(a[i]);
}

static void f32_to_bf16(void *o, const void *a_, const void *b_, const void *c_, int64_t n)
{
    (void)b_, (void)c_;
    uff_bf16 *out = o;
    const float *a = a_;
    int64_t i = 0;
    for (; i + UFF_F32 <= n; i += UFF_F32)
        uff_store_bf16(out + i, uff_load_f32(a + i));
    for (; i < n; i++)
        out[i] = uff_narrow(a[i]);
}

#define ROW(t, name) {name, {t##_to_f32, t##_to_f64, t##_to_i32, t##_to_i64, t##_to_i8, t##_to_u8, t##_to_b8, t##_to_bf16}}
static const uff_tile_row rows[] = {
    ROW(f32, "float32"), ROW(f64, "float64"), ROW(i32, "int32"), ROW(i64, "int64"),
    ROW(i8, "int8"),     ROW(u8, "uint8"),    ROW(u8, "bool"),
    ROW(bf16, "bfloat16"),
};

static const uff_cast_kernels table = {UFF_ROWS(rows)};

void UFF_FILL(cast)(uff_kernels *k)
{
    k->cast = &table;
}
