#include "cast.h"

#include <string.h>

/* A float becomes an integer by cutting its fraction; one that doesn't fit (or NaN) gives
 * an unspecified number, as in NumPy. Small integers are cut from int32, so that they
 * wrap around as NumPy's do. A bool is "not zero": NaN is true. */
#define AS_I8(x) (int8_t)(int32_t)(x)
#define AS_U8(x) (uint8_t)(int32_t)(x)
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

#define ROW(t, name) {name, {t##_to_f32, t##_to_f64, t##_to_i32, t##_to_i64, t##_to_i8, t##_to_u8, t##_to_b8}}
static const uff_tile_row rows[] = {
    ROW(f32, "float32"), ROW(f64, "float64"), ROW(i32, "int32"), ROW(i64, "int64"),
    ROW(i8, "int8"),     ROW(u8, "uint8"),    ROW(u8, "bool"),
};

static const uff_cast_kernels table = {UFF_ROWS(rows)};

void UFF_FILL(cast)(uff_kernels *k)
{
    k->cast = &table;
}
