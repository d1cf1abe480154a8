/* For the programs that check one family's kernels against plain loops.
 *
 * Numbers of every dtype are held as long double, which has a place for all int64 and all
 * float64. Operands lie in rooms: memory full of 0x5a, off alignment by as many bytes as
 * asked for, and found damaged if a kernel writes outside of it. */
#ifndef CHECK_H
#define CHECK_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "tile_fn.h"

typedef long double number;

static int check_failures = 0;
static long check_count = 0; /* comparisons made */

static void check_fail(const char *what, int64_t at, number got, number want, number bound)
{
    if (check_failures++ < 10)
        printf("%s: element %lld is %.19Lg; expected %.19Lg within %.3Lg\n", what, (long long)at,
               got, want, bound);
}

/* Report a difference beyond the bound; NaN must meet NaN, and infinity its like. */
static inline void check_close(const char *what, int64_t at, number got, number want, number bound)
{
    check_count++;
    if (isnan(want) ? !isnan(got)
                    : got != want && !(isfinite(want) && fabsl(got - want) <= bound))
        check_fail(what, at, got, want, bound);
}

/* Report any difference, also of a zero's sign. */
static inline void check_same(const char *what, int64_t at, number got, number want)
{
    check_close(what, at, got, want, 0);
    if (got == 0 && want == 0 && !signbit(got) != !signbit(want))
        check_fail(what, at, got, want, 0);
}

static inline void check_true(const char *what, int64_t at, int right)
{
    check_same(what, at, right, 1);
}

/* Ends every program. One that has compared nothing has failed. */
static int check_report(const char *family)
{
    if (check_failures || !check_count)
        printf("%s: FAILED, %d of %ld comparisons\n", family, check_failures, check_count);
    else
        printf("%s: ok, %ld comparisons\n", family, check_count);
    return check_failures || !check_count;
}

/* -- random numbers, the same in every run ------------------------------------------------- */

static inline uint64_t check_bits(void)
{
    static uint64_t state = 42;
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = state ^ (state >> 29);
    x *= 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 32);
}

/* In [-1, 1). */
static inline double check_random(void)
{
    return (double)((int64_t)check_bits() >> 11) / 4503599627370496.0;
}

/* A whole number in [lo, hi]. Sums of a few are exact in every float type. */
static inline int64_t check_whole(int64_t lo, int64_t hi)
{
    return lo + (int64_t)(check_bits() % (uint64_t)(hi - lo + 1));
}

/* -- elements of any dtype ----------------------------------------------------------------- */

static const char *const check_names[UFF_NUM_DTYPES] = {"float32", "float64", "int32", "int64",
                                                        "int8",    "uint8",   "bool",  "bfloat16"};
static const int check_sizes[UFF_NUM_DTYPES] = {4, 8, 4, 8, 1, 1, 1, 2};

/* The bfloat16 nearest to a float32, of two the even one. */
static inline uint16_t check_to_bfloat16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (isnan(x))
        return (uint16_t)(u >> 16 | 0x40);
    const uint32_t low = u & 0xffff, high = u >> 16;
    return (uint16_t)(high + (low > 0x8000 || (low == 0x8000 && (high & 1))));
}

static inline float check_from_bfloat16(uint16_t bits)
{
    const uint32_t u = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline int check_is_float(int dtype)
{
    return dtype <= UFF_F64_T || dtype == UFF_BF16_T;
}

static inline number check_get(int dtype, const void *p, int64_t i)
{
    switch (dtype) {
    case UFF_F32_T: return ((const float *)p)[i];
    case UFF_F64_T: return ((const double *)p)[i];
    case UFF_I32_T: return ((const int32_t *)p)[i];
    case UFF_I64_T: return ((const int64_t *)p)[i];
    case UFF_I8_T: return ((const int8_t *)p)[i];
    case UFF_BF16_T: return check_from_bfloat16(((const uint16_t *)p)[i]);
    default: return ((const uint8_t *)p)[i];
    }
}

/* x must fit in an integer dtype. */
static inline void check_put(int dtype, void *p, int64_t i, number x)
{
    switch (dtype) {
    case UFF_F32_T: ((float *)p)[i] = (float)x; break;
    case UFF_F64_T: ((double *)p)[i] = (double)x; break;
    case UFF_I32_T: ((int32_t *)p)[i] = (int32_t)x; break;
    case UFF_I64_T: ((int64_t *)p)[i] = (int64_t)x; break;
    case UFF_I8_T: ((int8_t *)p)[i] = (int8_t)x; break;
    case UFF_BF16_T: ((uint16_t *)p)[i] = check_to_bfloat16((float)x); break;
    default: ((uint8_t *)p)[i] = (uint8_t)x;
    }
}

static inline number check_lowest(int dtype)
{
    return dtype == UFF_I32_T ? INT32_MIN : dtype == UFF_I64_T ? INT64_MIN
                                        : dtype == UFF_I8_T    ? INT8_MIN : 0;
}

static inline number check_highest(int dtype)
{
    return dtype == UFF_I32_T  ? INT32_MAX : dtype == UFF_I64_T ? INT64_MAX
           : dtype == UFF_I8_T ? INT8_MAX  : dtype == UFF_U8_T  ? UINT8_MAX : 1;
}

/* One in four is a special value of the dtype, the others are of a few tens. */
static inline number check_any(int dtype)
{
    static const double special[] = {0.0,   -0.0, INFINITY, -INFINITY, NAN,  1e-40, -1e-40, 0.5,
                                     1.5,   -2.5, 3e38,     -3e38,     1e30, 1.0,   -1.0};
    const int pick = (int)check_whole(0, 59);
    if (check_is_float(dtype))
        return pick < 15 ? special[pick] : check_random() * 40;
    if (dtype == UFF_BOOL_T)
        return check_whole(0, 1);
    if (pick < 15)
        return pick < 5 ? check_lowest(dtype) : pick < 10 ? check_highest(dtype) : 0;
    return dtype == UFF_U8_T ? check_whole(0, 255) : check_whole(-128, 127);
}

static inline void check_fill(int dtype, void *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        check_put(dtype, p, i, check_any(dtype));
}

/* -- rooms --------------------------------------------------------------------------------- */

static inline void *check_room(int64_t bytes, int slip)
{
    const size_t total = ((size_t)bytes + 128 + 127 + 63) / 64 * 64;
    char *raw = aligned_alloc(64, total);
    if (!raw || slip >= 64)
        abort();
    memset(raw, 0x5a, total);
    memcpy(raw, &total, sizeof total);
    memcpy(raw + 8, &bytes, sizeof bytes);
    return raw + 128 + slip;
}

static inline void check_leave(const char *what, void *room)
{
    char *raw = (char *)((uintptr_t)room & ~(uintptr_t)63) - 128;
    size_t total;
    int64_t bytes;
    memcpy(&total, raw, sizeof total);
    memcpy(&bytes, raw + 8, sizeof bytes);
    for (char *p = raw + 16; p < raw + total; p++)
        if ((p < (char *)room || p >= (char *)room + bytes) && *p != 0x5a)
            check_fail(what, p - (char *)room, *p, 0x5a, 0);
    free(raw);
}

/* A room of n numbers, random ones and now and then one of `count` special ones. */
static inline void *check_operand(int dtype, int64_t n, int slip, const double *specials, int count)
{
    void *x = check_room(n * check_sizes[dtype], slip * check_sizes[dtype]);
    for (int64_t i = 0; i < n; i++)
        check_put(dtype, x, i, check_whole(0, 3) ? check_random() * 20
                                                 : specials[check_whole(0, count - 1)]);
    return x;
}

#endif
