/* Each operation rounds, as in kernels of its own, so that a chain's numbers don't depend on what
 * was put together: no multiply-add instructions here. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif

#include "pair.h"

#include <math.h>

#define FUNCTION(name, t, T, FIRST, SECOND)                                             \
    static void name##_##t(void *o, const void *a_, const void *b_, const void *c_,     \
                           int64_t n)                                                   \
    {                                                                                   \
        T *out = o;                                                                     \
        const T *a = a_, *b = b_, *c = c_;                                              \
        UFF_EACH                                                                        \
        {                                                                               \
            const T x = a[i], y = b[i], z = c[i];                                       \
            const T made = FIRST;                                                       \
            out[i] = SECOND;                                                            \
            (void)x, (void)y, (void)z;                                                  \
        }                                                                               \
    }
#define BOTH(first, second, FIRST32, FIRST64, SECOND)                  \
    FUNCTION(first##_##second, f32, float, FIRST32, SECOND)            \
    FUNCTION(first##_##second, f64, double, FIRST64, SECOND)

#define EACH_SECOND(X, first, ...)                   \
    X(first, add, __VA_ARGS__, made + z)             \
    X(first, subtract, __VA_ARGS__, made - z)        \
    X(first, subtract_from, __VA_ARGS__, z - made)   \
    X(first, multiply, __VA_ARGS__, made * z)        \
    X(first, divide, __VA_ARGS__, made / z)          \
    X(first, divide_into, __VA_ARGS__, z / made)     \
    X(first, square, __VA_ARGS__, made * made)       \
    X(first, relu, __VA_ARGS__, made <= 0 ? 0 : made) \
    X(first, relu_gradient, __VA_ARGS__, z > 0 ? made : 0)
#define EACH(X)                                      \
    EACH_SECOND(X, add, x + y, x + y)                \
    EACH_SECOND(X, subtract, x - y, x - y)           \
    EACH_SECOND(X, multiply, x * y, x * y)           \
    EACH_SECOND(X, divide, x / y, x / y)             \
    EACH_SECOND(X, square, x * x, x * x)             \
    EACH_SECOND(X, sqrt, sqrtf(x), sqrt(x))

EACH(BOTH)

#define ROW(first, second, FIRST32, FIRST64, SECOND) \
    {#first "+" #second, {[UFF_F32_T] = first##_##second##_f32, [UFF_F64_T] = first##_##second##_f64}},

static const uff_tile_row rows[] = {EACH(ROW)};
static const uff_pair_kernels table = {UFF_ROWS(rows)};

void UFF_FILL(pair)(uff_kernels *k)
{
    k->pair = &table;
}
