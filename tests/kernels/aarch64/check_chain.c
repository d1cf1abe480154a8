/* Arithmetic, comparison, choice and copy: each row of the table in each of its dtypes,
 * against one scalar expression; also in place. */
#include "chain.h"

#include "check.h"

typedef __int128 wide;

/* -- what is expected ---------------------------------------------------------------------- */

/* Floats: computed in the operands' type, T of `t` bits, where one rounding is due. */
#define ONE_ROUNDING(name, EXPR)                                                \
    static number name(int dtype, number x, number y)                           \
    {                                                                           \
        (void)y;                                                                \
        if (dtype == UFF_F32_T) {                                               \
            volatile float a = (float)x, b = (float)y, r;                       \
            (void)b, r = (float)(EXPR);                                         \
            return r;                                                           \
        }                                                                       \
        volatile double a = (double)x, b = (double)y, r;                        \
        (void)b, r = (EXPR);                                                    \
        return r;                                                               \
    }
ONE_ROUNDING(f_add, a + b)
ONE_ROUNDING(f_subtract, a - b)
ONE_ROUNDING(f_multiply, a * b)
ONE_ROUNDING(f_divide, a / b)
ONE_ROUNDING(f_square, a * a)
ONE_ROUNDING(f_reciprocal, 1 / a)
ONE_ROUNDING(f_sqrt, sqrt(a))

#define FLOAT(name, EXPR) \
    static number name(int dtype, number x, number y) { return (void)dtype, (void)y, (EXPR); }
FLOAT(f_negative, -x)
FLOAT(f_abs, signbit(x) ? -x : x)
FLOAT(f_sign, isnan(x) ? x : (x > 0) - (x < 0))
FLOAT(f_rsqrt, 1 / sqrtl(x))
FLOAT(f_relu, isnan(x) ? x : x > 0 ? x : 0)
FLOAT(f_floor, floorl(x))
FLOAT(f_ceil, ceill(x))
FLOAT(f_maximum, isnan(x) || isnan(y) ? NAN : x > y ? x : y)
FLOAT(f_minimum, isnan(x) || isnan(y) ? NAN : x < y ? x : y)
FLOAT(f_relu_gradient, y > 0 ? x : 0)
FLOAT(t_isnan, isnan(x))
FLOAT(t_isfinite, isfinite(x))
FLOAT(t_equal, x == y)
FLOAT(t_not_equal, !(x == y))
FLOAT(t_less, x < y)
FLOAT(t_less_equal, x < y || x == y)
FLOAT(t_greater, x > y)
FLOAT(t_greater_equal, x > y || x == y)
FLOAT(t_and, !(x == 0) && !(y == 0))
FLOAT(t_or, !(x == 0) || !(y == 0))
FLOAT(t_not, x == 0)
FLOAT(same, x)

/* Half to even, from the definition. */
static number f_round(int dtype, number x, number y)
{
    (void)dtype, (void)y;
    if (!(fabsl(x) < 0x1p60L))
        return x;
    number below = floorl(x), part = x - below;
    int up = part > 0.5L || (part == 0.5L && fmodl(below, 2) != 0);
    return copysignl(below + up, x);
}

/* The remainder has the divisor's sign; fmod is exact, what it takes to get there rounds. */
static number f_mod(int dtype, number x, number y)
{
    number r = fmodl(x, y);
    if (r == 0)
        return copysignl(0, y);
    if (!isnan(r) && (r < 0) != (y < 0))
        r = f_add(dtype, r, y);
    return r;
}

static number f_floor_divide(int dtype, number x, number y)
{
    (void)dtype;
    if (y == 0)
        return x / y;
    number r = fmodl(x, y);
    if (isnan(r))
        return r;
    if (isinf(y))
        return x == 0 ? copysignl(0, x / y) : (x < 0) != (y < 0) ? -1 : 0;
    number q = roundl((x - r) / y) - (r != 0 && (r < 0) != (y < 0));
    return q == 0 ? copysignl(0, x / y) : q;
}

static wide w_power(wide x, wide y)
{
    wide r = 1;
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    for (; y > 0; y--)
        r = (wide)(uint64_t)((uint64_t)r * (uint64_t)x);
    return r;
}

static wide w_floor_divide(wide x, wide y)
{
    return y == 0 ? 0 : x / y - (x % y != 0 && (x < 0) != (y < 0));
}

static wide w_mod(wide x, wide y)
{
    return y == 0 ? 0 : x - w_floor_divide(x, y) * y;
}

/* Integers: computed in 128 bits, then cut to the dtype. */
#define INTEGER(name, EXPR) \
    static wide name(wide x, wide y) { return (void)y, (EXPR); }
INTEGER(i_negative, -x)
INTEGER(i_abs, x < 0 ? -x : x)
INTEGER(i_sign, (x > 0) - (x < 0))
INTEGER(i_square, x *x)
INTEGER(i_relu, x > 0 ? x : 0)
INTEGER(i_add, x + y)
INTEGER(i_subtract, x - y)
INTEGER(i_multiply, x *y)
INTEGER(i_maximum, x > y ? x : y)
INTEGER(i_minimum, x < y ? x : y)
INTEGER(i_relu_gradient, y > 0 ? x : 0)
INTEGER(i_same, x)

static number cut(int dtype, wide x)
{
    switch (dtype) {
    case UFF_I32_T: return (int32_t)(uint32_t)x;
    case UFF_I64_T: return (int64_t)(uint64_t)x;
    case UFF_I8_T: return (int8_t)(uint8_t)x;
    case UFF_U8_T: return (uint8_t)x;
    default: return x != 0; /* of bools */
    }
}

enum { PLAIN, TO_BOOL, ANY_ZERO };

static const struct {
    const char *name;
    number (*f)(int dtype, number x, number y);
    wide (*i)(wide x, wide y);
    int kind;
    double ulp;
} expected[] = {
    {"negative", f_negative, i_negative, PLAIN, 0},
    {"abs", f_abs, i_abs, PLAIN, 0},
    {"sign", f_sign, i_sign, PLAIN, 0},
    {"sqrt", f_sqrt, NULL, PLAIN, 0},
    {"rsqrt", f_rsqrt, NULL, PLAIN, 1.5},
    {"reciprocal", f_reciprocal, NULL, PLAIN, 0},
    {"square", f_square, i_square, PLAIN, 0},
    {"relu", f_relu, i_relu, PLAIN, 0},
    {"floor", f_floor, i_same, PLAIN, 0},
    {"ceil", f_ceil, i_same, PLAIN, 0},
    {"round", f_round, i_same, PLAIN, 0},
    {"logical_not", t_not, NULL, TO_BOOL, 0},
    {"isnan", t_isnan, NULL, TO_BOOL, 0},
    {"isfinite", t_isfinite, NULL, TO_BOOL, 0},
    {"stop_gradient", same, i_same, PLAIN, 0},
    {"add", f_add, i_add, PLAIN, 0},
    {"subtract", f_subtract, i_subtract, PLAIN, 0},
    {"multiply", f_multiply, i_multiply, PLAIN, 0},
    {"divide", f_divide, NULL, PLAIN, 0},
    {"power", NULL, w_power, PLAIN, 0},
    {"maximum", f_maximum, i_maximum, ANY_ZERO, 0},
    {"minimum", f_minimum, i_minimum, ANY_ZERO, 0},
    {"relu_gradient", f_relu_gradient, i_relu_gradient, PLAIN, 0},
    {"floor_divide", f_floor_divide, w_floor_divide, PLAIN, 0.5},
    {"mod", f_mod, w_mod, PLAIN, 0},
    {"equal", t_equal, NULL, TO_BOOL, 0},
    {"not_equal", t_not_equal, NULL, TO_BOOL, 0},
    {"less", t_less, NULL, TO_BOOL, 0},
    {"less_equal", t_less_equal, NULL, TO_BOOL, 0},
    {"greater", t_greater, NULL, TO_BOOL, 0},
    {"greater_equal", t_greater_equal, NULL, TO_BOOL, 0},
    {"logical_and", t_and, NULL, TO_BOOL, 0},
    {"logical_or", t_or, NULL, TO_BOOL, 0},
};
#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* -- the comparison ------------------------------------------------------------------------ */

static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 67};

static number spacing(int dtype, number x)
{
    if (dtype == UFF_F32_T)
        return nextafterf((float)fabsl(x), INFINITY) - (float)fabsl(x);
    return nextafter((double)fabsl(x), INFINITY) - (double)fabsl(x);
}

static void fill_operands(const char *name, int dtype, void *a, void *b, int64_t n)
{
    check_fill(dtype, a, n);
    check_fill(dtype, b, n);
    for (int64_t i = 0; i < n; i++) {
        if (!strcmp(name, "power")) /* by repeated products, so not too many */
            check_put(dtype, b, i, check_whole(dtype == UFF_U8_T ? 0 : -4, 70));
        else if (check_whole(0, 3) == 0)
            check_put(dtype, b, i, check_get(dtype, a, i));
        /* a quotient of many digits is rounded, and whether up or down is not defined */
        if (!strcmp(name, "floor_divide") && dtype <= UFF_F64_T) {
            number x = check_get(dtype, a, i), y = check_get(dtype, b, i);
            if (isfinite(x) && y != 0 && fabsl(x / y) > 0x1p20L)
                check_put(dtype, a, i, y * check_whole(-999, 999));
        }
    }
}

static void check_row(const uff_tile_row *row, int e, int dtype, int64_t n, int place)
{
    const int size = check_sizes[dtype], out_dtype = expected[e].kind == TO_BOOL ? UFF_BOOL_T : dtype;
    char what[80];
    snprintf(what, sizeof what, "%s of %lld %s, place %d", row->name, (long long)n,
             check_names[dtype], place);
    void *a = check_room(n * size, size), *b = check_room(n * size, size * 3);
    void *x = check_room(n * size, 0), *y = check_room(n * size, 0);
    void *apart = check_room(n * check_sizes[out_dtype], check_sizes[out_dtype] * 2);
    void *out = place == 1 ? a : place == 2 ? b : apart;
    fill_operands(row->name, dtype, a, b, n);
    memcpy(x, a, n * size), memcpy(y, b, n * size);
    row->fn[dtype](out, a, b, NULL, n);
    for (int64_t i = 0; i < n; i++) {
        const number p = check_get(dtype, x, i), q = check_get(dtype, y, i);
        const number got = check_get(out_dtype, out, i);
        const int by_float = check_is_float(dtype) || !expected[e].i;
        number want = by_float ? expected[e].f(dtype, p, q)
                               : cut(dtype, expected[e].i((wide)p, (wide)q));
        if (expected[e].ulp && isfinite(want))
            check_close(what, i, got, want, expected[e].ulp * spacing(dtype, want));
        else if (expected[e].kind == ANY_ZERO)
            check_close(what, i, got, want, 0);
        else
            check_same(what, i, got, want);
    }
    if (out != a)
        check_true(what, -1, !memcmp(x, a, n * size));
    if (out != b)
        check_true(what, -2, !memcmp(y, b, n * size));
    check_leave(what, a), check_leave(what, b), check_leave(what, apart);
    check_leave(what, x), check_leave(what, y);
}

static void check_where(const uff_tile_row *row, int dtype, int64_t n)
{
    const int size = check_sizes[dtype];
    void *mask = check_room(n, 3), *out = check_room(n * size, size);
    void *b = check_room(n * size, 2 * size), *c = check_room(n * size, 3 * size);
    for (int64_t i = 0; i < n; i++)
        check_put(UFF_BOOL_T, mask, i, check_whole(0, 1));
    check_fill(dtype, b, n), check_fill(dtype, c, n);
    row->fn[dtype](out, mask, b, c, n);
    for (int64_t i = 0; i < n; i++)
        check_same("where", i, check_get(dtype, out, i),
                   check_get(dtype, ((uint8_t *)mask)[i] ? b : c, i));
    check_leave("where", mask), check_leave("where", out);
    check_leave("where", b), check_leave("where", c);
}

static void check_fill_copy(const uff_chain_kernels *k, int log_size, int64_t n)
{
    const int size = 1 << log_size;
    char *a = check_room((n + 1) * size, size), *filled = check_room(n * size, size * 2);
    char *copied = check_room(n * size, size * 3);
    for (int64_t i = 0; i < (n + 1) * size; i++)
        a[i] = (char)check_bits();
    k->fill[log_size](filled, a, NULL, NULL, n);
    k->copy[log_size](copied, a, NULL, NULL, n);
    k->copy[log_size](a, a, NULL, NULL, n);
    for (int64_t i = 0; i < n * size; i++) {
        check_same("fill", i, filled[i], a[i % size]);
        check_same("copy", i, copied[i], a[i]);
    }
    check_leave("fill", filled), check_leave("copy", copied), check_leave("copy", a);
}

void UFF_FILL(chain)(uff_kernels *kernels);

int main(void)
{
    uff_kernels kernels;
    UFF_FILL(chain)(&kernels);
    const uff_chain_kernels *k = kernels.chain;
    int known = 1; /* where */
    for (int r = 0; r < k->rows.num_rows; r++) {
        const uff_tile_row *row = &k->rows.rows[r];
        int e = 0;
        while (e < COUNT(expected) && strcmp(expected[e].name, row->name))
            e++;
        known += e < COUNT(expected);
        for (int dtype = 0; dtype < UFF_NUM_DTYPES; dtype++)
            for (int s = 0; row->fn[dtype] && s < COUNT(sizes); s++) {
                if (!strcmp(row->name, "where")) {
                    check_where(row, dtype, sizes[s]);
                    continue;
                }
                check_true(row->name, dtype, e < COUNT(expected)); /* a row of the table above */
                if (e == COUNT(expected))
                    break;
                const int places = expected[e].kind == TO_BOOL && check_sizes[dtype] > 1 ? 1 : 3;
                for (int place = 0; place < places; place++)
                    check_row(row, e, dtype, sizes[s], place);
            }
    }
    check_same("rows of the table that are checked", 0, known, COUNT(expected) + 1);
    for (int s = 0; s < COUNT(sizes); s++) {
        for (int log_size = 0; log_size < 4; log_size++)
            check_fill_copy(k, log_size, sizes[s]);
    }
    return check_report("chain");
}
