#include "chain.h"

#include <math.h>
#include <string.h>

#define F32(KIND, op, EXPR) KIND(op, f32, float, float, EXPR)
#define F64(KIND, op, EXPR) KIND(op, f64, double, double, EXPR)
#define FLOATS(KIND, op, EXPR) F32(KIND, op, EXPR) F64(KIND, op, EXPR)
#define SIGNED(KIND, op, EXPR)              \
    KIND(op, i32, int32_t, int32_t, EXPR)   \
    KIND(op, i64, int64_t, int64_t, EXPR)   \
    KIND(op, i8, int8_t, int8_t, EXPR)
#define INTS(KIND, op, EXPR) SIGNED(KIND, op, EXPR) KIND(op, u8, uint8_t, uint8_t, EXPR)
#define BOOL(KIND, op, EXPR) KIND(op, b8, uint8_t, uint8_t, EXPR)
#define TO_BOOL(KIND, op, EXPR)             \
    KIND(op, f32, uint8_t, float, EXPR)     \
    KIND(op, f64, uint8_t, double, EXPR)    \
    KIND(op, i32, uint8_t, int32_t, EXPR)   \
    KIND(op, i64, uint8_t, int64_t, EXPR)   \
    KIND(op, i8, uint8_t, int8_t, EXPR)     \
    KIND(op, u8, uint8_t, uint8_t, EXPR)    \
    KIND(op, b8, uint8_t, uint8_t, EXPR)

/* The first expression is for integers of up to 32 bits, the second for those of 64. */
#define WRAPPED(KIND, op, EXPR32, EXPR64)         \
    KIND(op, i32, int32_t, int32_t, EXPR32)       \
    KIND(op, i64, int64_t, int64_t, EXPR64)       \
    KIND(op, i8, int8_t, int8_t, EXPR32)          \
    KIND(op, u8, uint8_t, uint8_t, EXPR32)

/* Integer arithmetic wraps around, as NumPy's, so it is done without signs. */
#define U32(v) ((uint32_t)(v))
#define U64(v) ((uint64_t)(v))

/* -- one operand -------------------------------------------------------------------- */

FLOATS(UFF_UNARY, negative, -x)
WRAPPED(UFF_UNARY, negative, 0 - U32(x), 0 - U64(x))
F32(UFF_UNARY, abs, fabsf(x))
F64(UFF_UNARY, abs, fabs(x))
WRAPPED(UFF_UNARY, abs, x < 0 ? 0 - U32(x) : U32(x), x < 0 ? 0 - U64(x) : U64(x))
FLOATS(UFF_UNARY, sign, x > 0 ? 1 : x < 0 ? -1 : x != x ? x : 0)
INTS(UFF_UNARY, sign, (x > 0) - (x < 0))
F32(UFF_UNARY, sqrt, sqrtf(x))
F64(UFF_UNARY, sqrt, sqrt(x))
F32(UFF_UNARY, rsqrt, 1 / sqrtf(x))
F64(UFF_UNARY, rsqrt, 1 / sqrt(x))
FLOATS(UFF_UNARY, reciprocal, 1 / x)
FLOATS(UFF_UNARY, square, x * x)
WRAPPED(UFF_UNARY, square, U32(x) * U32(x), U64(x) * U64(x))
FLOATS(UFF_UNARY, relu, x <= 0 ? 0 : x) /* a NaN stays */
INTS(UFF_UNARY, relu, x > 0 ? x : 0)
F32(UFF_UNARY, floor, floorf(x))
F64(UFF_UNARY, floor, floor(x))
F32(UFF_UNARY, ceil, ceilf(x))
F64(UFF_UNARY, ceil, ceil(x))
F32(UFF_UNARY, round, rintf(x))
F64(UFF_UNARY, round, rint(x))
BOOL(UFF_UNARY, logical_not, x == 0)
TO_BOOL(UFF_UNARY, isnan, x != x)
TO_BOOL(UFF_UNARY, isfinite, x - x == 0)

/* -- two operands ------------------------------------------------------------------- */

FLOATS(UFF_BINARY, add, x + y)
WRAPPED(UFF_BINARY, add, U32(x) + U32(y), U64(x) + U64(y))
BOOL(UFF_BINARY, add, x | y)
FLOATS(UFF_BINARY, subtract, x - y)
WRAPPED(UFF_BINARY, subtract, U32(x) - U32(y), U64(x) - U64(y))
FLOATS(UFF_BINARY, multiply, x * y)
WRAPPED(UFF_BINARY, multiply, U32(x) * U32(y), U64(x) * U64(y))
BOOL(UFF_BINARY, multiply, x & y)
FLOATS(UFF_BINARY, divide, x / y)
/* The other operand where one is NaN is not greater, so x is taken where it is the NaN. */
FLOATS(UFF_BINARY, maximum, x > y || x != x ? x : y)
INTS(UFF_BINARY, maximum, x > y ? x : y)
BOOL(UFF_BINARY, maximum, x | y)
FLOATS(UFF_BINARY, minimum, x < y || x != x ? x : y)
INTS(UFF_BINARY, minimum, x < y ? x : y)
BOOL(UFF_BINARY, minimum, x & y)
FLOATS(UFF_BINARY, relu_gradient, y > 0 ? x : 0)
INTS(UFF_BINARY, relu_gradient, y > 0 ? x : 0)
TO_BOOL(UFF_BINARY, equal, x == y)
TO_BOOL(UFF_BINARY, not_equal, x != y)
TO_BOOL(UFF_BINARY, less, x < y)
TO_BOOL(UFF_BINARY, less_equal, x <= y)
TO_BOOL(UFF_BINARY, greater, x > y)
TO_BOOL(UFF_BINARY, greater_equal, x >= y)
TO_BOOL(UFF_BINARY, logical_and, (x != 0) & (y != 0))
TO_BOOL(UFF_BINARY, logical_or, (x != 0) | (y != 0))

/* Quotient rounded down and the remainder that goes with it, which has y's sign. The
 * remainder is exact (fmod), the quotient is made from it. */
#define DIVMOD(t, T, FMOD, FLOOR, COPYSIGN)                        \
    static inline T floor_mod_##t(T x, T y, T *quotient)           \
    {                                                              \
        T r = FMOD(x, y);                                          \
        if (y == 0) {                                              \
            *quotient = x / y;                                     \
            return r;                                              \
        }                                                          \
        T q = (x - r) / y;                                         \
        if (r == 0)                                                \
            r = COPYSIGN(0, y);                                    \
        else if ((y < 0) != (r < 0)) {                             \
            r += y;                                                \
            q -= 1;                                                \
        }                                                          \
        T whole = FLOOR(q);                                        \
        if (q - whole > (T)0.5)                                    \
            whole += 1;                                            \
        *quotient = q == 0 ? COPYSIGN(0, x / y) : whole;           \
        return r;                                                  \
    }                                                              \
    static inline T floor_quotient_##t(T x, T y)                   \
    {                                                              \
        T q;                                                       \
        floor_mod_##t(x, y, &q);                                   \
        return q;                                                  \
    }                                                              \
    static inline T floor_remainder_##t(T x, T y)                  \
    {                                                              \
        T q;                                                       \
        return floor_mod_##t(x, y, &q);                            \
    }
DIVMOD(f32, float, fmodf, floorf, copysignf)
DIVMOD(f64, double, fmod, floor, copysign)
F32(UFF_BINARY, floor_divide, floor_quotient_f32(x, y))
F64(UFF_BINARY, floor_divide, floor_quotient_f64(x, y))
F32(UFF_BINARY, mod, floor_remainder_f32(x, y))
F64(UFF_BINARY, mod, floor_remainder_f64(x, y))

/* Integers: a division by zero gives 0, the lowest number by -1 wraps around. */
static inline int64_t quotient_i(int64_t x, int64_t y)
{
    if (y == 0)
        return 0;
    if (y == -1)
        return (int64_t)(0 - (uint64_t)x);
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
}

static inline int64_t remainder_i(int64_t x, int64_t y)
{
    if (y == 0 || y == -1)
        return 0;
    int64_t r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static inline int64_t power_i(int64_t x, int64_t y)
{
    uint64_t base = (uint64_t)x, result = 1;
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    for (; y; y >>= 1, base *= base)
        if (y & 1)
            result *= base;
    return (int64_t)result;
}
INTS(UFF_BINARY, floor_divide, quotient_i(x, y))
INTS(UFF_BINARY, mod, remainder_i(x, y))
INTS(UFF_BINARY, power, power_i(x, y))

/* -- choice, fill, copy: by the element's size ---------------------------------------- */

#define BY_SIZE(bits)                                                                       \
    static void where_##bits(void *o, const void *a_, const void *b_, const void *c_,       \
                             int64_t n)                                                     \
    {                                                                                       \
        uint##bits##_t *out = o;                                                            \
        const uint8_t *a = a_;                                                              \
        const uint##bits##_t *b = b_, *c = c_;                                              \
        UFF_EACH                                                                            \
        {                                                                                   \
            const uint##bits##_t x = b[i], y = c[i];                                        \
            out[i] = a[i] ? x : y;                                                          \
        }                                                                                   \
    }                                                                                       \
    static void fill_##bits(void *o, const void *a_, const void *b_, const void *c_,        \
                            int64_t n)                                                      \
    {                                                                                       \
        (void)b_, (void)c_;                                                                 \
        uint##bits##_t *out = o;                                                            \
        const uint##bits##_t x = *(const uint##bits##_t *)a_;                               \
        UFF_EACH out[i] = x;                                                                \
    }                                                                                       \
    static void copy_##bits(void *o, const void *a_, const void *b_, const void *c_,        \
                            int64_t n)                                                      \
    {                                                                                       \
        (void)b_, (void)c_;                                                                 \
        if (o != a_)                                                                        \
            memcpy(o, a_, (size_t)n * (bits / 8));                                          \
    }
BY_SIZE(8)
BY_SIZE(16)
BY_SIZE(32)
BY_SIZE(64)

#define FLOAT2(op) op##_f32, op##_f64
#define INT4(op) op##_i32, op##_i64, op##_i8, op##_u8
#define NUMBER6(op) FLOAT2(op), INT4(op)
#define ALL7(op) NUMBER6(op), op##_b8
#define SIZED(op) op##_32, op##_64, op##_32, op##_64, op##_8, op##_8, op##_8, op##_16
#define WHOLE(op) FLOAT2(op), copy_32, copy_64, copy_8, copy_8 /* integers are whole */

static const uff_tile_row rows[] = {
    {"negative", {NUMBER6(negative)}},
    {"abs", {NUMBER6(abs), copy_8}},
    {"sign", {NUMBER6(sign)}},
    {"sqrt", {FLOAT2(sqrt)}},
    {"rsqrt", {FLOAT2(rsqrt)}},
    {"reciprocal", {FLOAT2(reciprocal)}},
    {"square", {NUMBER6(square), copy_8}},
    {"relu", {NUMBER6(relu)}},
    {"floor", {WHOLE(floor), copy_8}},
    {"ceil", {WHOLE(ceil), copy_8}},
    {"round", {WHOLE(round)}},
    {"logical_not", {[UFF_BOOL_T] = logical_not_b8}},
    {"isnan", {ALL7(isnan)}},
    {"isfinite", {ALL7(isfinite)}},
    {"stop_gradient", {SIZED(copy)}},
    {"add", {ALL7(add)}},
    {"subtract", {NUMBER6(subtract)}},
    {"multiply", {ALL7(multiply)}},
    {"divide", {FLOAT2(divide)}},
    {"power", {[UFF_I32_T] = INT4(power)}},
    {"maximum", {ALL7(maximum)}},
    {"minimum", {ALL7(minimum)}},
    {"relu_gradient", {NUMBER6(relu_gradient)}},
    {"floor_divide", {NUMBER6(floor_divide)}},
    {"mod", {NUMBER6(mod)}},
    {"equal", {ALL7(equal)}},
    {"not_equal", {ALL7(not_equal)}},
    {"less", {ALL7(less)}},
    {"less_equal", {ALL7(less_equal)}},
    {"greater", {ALL7(greater)}},
    {"greater_equal", {ALL7(greater_equal)}},
    {"logical_and", {ALL7(logical_and)}},
    {"logical_or", {ALL7(logical_or)}},
    {"where", {SIZED(where)}},
};

static const uff_chain_kernels table = {
    UFF_ROWS(rows),
    {fill_8, fill_16, fill_32, fill_64},
    {copy_8, copy_16, copy_32, copy_64},
};

void UFF_FILL(chain)(uff_kernels *k)
{
    k->chain = &table;
}
