#include "cast.h"

#include <string.h>

/* bfloat16 is the upper half of a float32, rounded to nearest, ties to even. NaN stays NaN;
 * what is too large becomes infinite by the carry. Other numbers come and go by way of
 * float32. */
typedef struct {
    uint16_t bits;
} bf16;

static inline float wide(bf16 x)
{
    const uint32_t u = (uint32_t)x.bits << 16;
    float y;
    memcpy(&y, &u, sizeof y);
    return y;
}

static inline bf16 narrow(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    const uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16, nan = (u >> 16) | 0x40;
    return (bf16){(uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded)};
}

/* A float becomes an integer by cutting its fraction; one that doesn't fit (or NaN) gives
 * an unspecified number, as in NumPy. Small integers are cut from int32, so that they
 * wrap around as NumPy's do. A bool is "not zero": NaN is true. */
#define AS_I8(x) (int8_t)(int32_t)(x)
#define AS_U8(x) (uint8_t)(int32_t)(x)
#define UFF_NARROW(op, T, EXPR)                                                                  \
    static void op##_bf16(void *o, const void *a_, const void *b_, const void *c_, int64_t n)    \
    {                                                                                            \
        (void)b_, (void)c_;                                                                      \
        bf16 *out = o;                                                                           \
        const T *a = a_;                                                                         \
        UFF_EACH                                                                                 \
        {                                                                                        \
            const T x = a[i];                                                                    \
            out[i] = narrow(EXPR);                                                               \
        }                                                                                        \
    }
#define CASTS_FROM(t, T)                                     \
    UFF_UNARY(t##_to, f32, float, T, x)                      \
    UFF_UNARY(t##_to, f64, double, T, x)                     \
    UFF_UNARY(t##_to, i32, int32_t, T, x)                    \
    UFF_UNARY(t##_to, i64, int64_t, T, x)                    \
    UFF_UNARY(t##_to, i8, int8_t, T, AS_I8(x))               \
    UFF_UNARY(t##_to, u8, uint8_t, T, AS_U8(x))              \
    UFF_UNARY(t##_to, b8, uint8_t, T, x != 0)                \
    UFF_NARROW(t##_to, T, (float)x)
CASTS_FROM(f32, float)
CASTS_FROM(f64, double)
CASTS_FROM(i32, int32_t)
CASTS_FROM(i64, int64_t)
CASTS_FROM(i8, int8_t)
CASTS_FROM(u8, uint8_t)
UFF_UNARY(bf16_to, f32, float, bf16, wide(x))
UFF_UNARY(bf16_to, f64, double, bf16, wide(x))
UFF_UNARY(bf16_to, i32, int32_t, bf16, wide(x))
UFF_UNARY(bf16_to, i64, int64_t, bf16, wide(x))
UFF_UNARY(bf16_to, i8, int8_t, bf16, AS_I8(wide(x)))
UFF_UNARY(bf16_to, u8, uint8_t, bf16, AS_U8(wide(x)))
UFF_UNARY(bf16_to, b8, uint8_t, bf16, wide(x) != 0)
UFF_NARROW(bf16_to, bf16, wide(x))

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
