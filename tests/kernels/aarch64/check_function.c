/* Transcendental functions: errors against the C library's long double functions within the
 * bounds that math_f32.h and math_f64.h state, and the special values of C. */
#include "function.h"

#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static number sigmoid(number x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }
static number softplus(number x) { return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x)); }

/* float32 is compared with double functions, which are fast and exact enough. */
static number fast_sigmoid(number x) { return 1 / (1 + exp(-(double)x)); }
static number fast_softplus(number x)
{
    return x > 0 ? (double)x + log1p(exp(-(double)x)) : log1p(exp((double)x));
}
#define FAST(op) static number fast_##op(number x) { return op((double)x); }
FAST(exp) FAST(expm1) FAST(log) FAST(log1p) FAST(tanh) FAST(erf) FAST(sin) FAST(cos)

static const struct {
    const char *name;
    number (*fast)(number), (*exact)(number);
    double ulp[2]; /* float32, float64: the stated bound, and half for the last rounding */
} expected[] = {
    {"exp", fast_exp, expl, {1, 1}},
    {"expm1", fast_expm1, expm1l, {2, 2}},
    {"log", fast_log, logl, {1, 1}},
    {"log1p", fast_log1p, log1pl, {2, 2}},
    {"tanh", fast_tanh, tanhl, {3, 3}},
    {"sigmoid", fast_sigmoid, sigmoid, {2, 2}},
    {"softplus", fast_softplus, softplus, {2, 2}},
    {"erf", fast_erf, erfl, {2, 2}},
    {"sin", fast_sin, sinl, {1.5, 1.5}},
    {"cos", fast_cos, cosl, {1.5, 1.5}},
};

static const double special[] = {
    0.0,   -0.0,   INFINITY, -INFINITY, NAN,   5e-324, -5e-324, 1e-40, -1e-40, 1,      -1,   88.7,
    89,    -87.5,  -100,     -103.9,    -104,  -150,   709.7,   710,   -708,   -740,   -745, -746,
    -800,  2,      -2,       -1.5,      1e30,  -1e30,  0.5,     -0.5,  1e-31,  0x1p-126, 0x1p-1022,
    1e300, 0x1p-60, 6,       4,         0.921875, 0.921874, -0.921875, -1e-310, 1e5, -999999,
};

static number spacing(int dtype, number x)
{
    if (dtype == UFF_F32_T) {
        const float a = fabsf((float)x);
        return a >= 0x1.fffffep127f ? 0x1p104 : nextafterf(a, INFINITY) - a;
    }
    const double a = fabs((double)x);
    return a >= 0x1.fffffffffffffp1023 ? 0x1p971 : nextafter(a, INFINITY) - a;
}

static number rounded(int dtype, number x)
{
    return dtype == UFF_F32_T ? (float)x : (double)x;
}

static void check_value(const char *what, int dtype, number x, number got, number exact, double ulp)
{
    const number want = rounded(dtype, exact);
    char where[80];
    snprintf(where, sizeof where, "%s of %s %.17Lg", what, check_names[dtype], x);
    if (want == 0 || !isfinite(want))
        check_same(where, 0, got, want);
    else
        check_close(where, 0, got, exact, ulp * spacing(dtype, want));
}

/* Over all magnitudes; where 0 counts, its neighbourhood; the middle of the range. */
static void fill(int dtype, void *x, int64_t n)
{
    const int exponents = dtype == UFF_F32_T ? 120 : 1000;
    for (int64_t i = 0; i < n; i++) {
        number v = check_random();
        switch (i % 5) {
        case 0: v *= 3; break;
        case 1: v *= 100; break;
        case 2: v = 1 + v / 2; break;
        case 3: v = ldexpl(v, (int)check_whole(-exponents, exponents)); break;
        case 4: v *= dtype == UFF_F32_T ? 20 : 750; break;
        }
        check_put(dtype, x, i, v);
    }
}

static void check_row(const uff_tile_row *row, int e, int dtype, int64_t n, int in_place)
{
    const int size = check_sizes[dtype], many = n >= 200;
    void *x = check_room(n * size, size), *y = check_room(n * size, 2 * size);
    fill(dtype, x, n);
    for (int i = 0; many && i < COUNT(special); i++)
        check_put(dtype, x, i, special[i]);
    if (!strcmp(row->name, "sin") || !strcmp(row->name, "cos"))
        for (int64_t i = 0; i < n; i++) { /* the fast reduction; beyond it, see check_angles */
            const number v = check_get(dtype, x, i);
            if (!(fabsl(v) <= 1e6))
                check_put(dtype, x, i, check_random() * 1e6);
        }
    memcpy(y, x, n * size);
    void *out = in_place ? y : check_room(n * size, 3 * size);
    row->fn[dtype](out, in_place ? y : x, NULL, NULL, n);
    for (int64_t i = 0; i < n; i++) {
        const number v = check_get(dtype, x, i);
        const number exact = (dtype == UFF_F32_T ? expected[e].fast : expected[e].exact)(v);
        check_value(row->name, dtype, v, check_get(dtype, out, i), exact, expected[e].ulp[dtype]);
    }
    if (!in_place)
        check_leave(row->name, out);
    check_leave(row->name, x), check_leave(row->name, y);
}

/* One angle that is too large, infinite or NaN sends the tile to the C library. */
static void check_angles(const uff_tile_row *row, int e, int dtype)
{
    static const double angles[] = {1e7, -3e10, 1e30, 2.0, INFINITY, NAN, -1.0, 0.0, -0.0};
    char x[16 * 8], y[16 * 8];
    for (int first = 0; first < COUNT(angles); first++) {
        for (int i = 0; i < 16; i++)
            check_put(dtype, x, i, i == 7 ? angles[first] : check_random() * 3);
        row->fn[dtype](y, x, NULL, NULL, 16);
        for (int i = 0; i < 16; i++) {
            const number v = check_get(dtype, x, i);
            check_value(row->name, dtype, v, check_get(dtype, y, i), expected[e].exact(v), 1.5);
        }
    }
}

/* One exponent for all, many exponents, bases of all kinds. */
static void check_power(const uff_tile_row *row, int dtype, int64_t n)
{
    static const double exponents[] = {2,   0.5,  -1,       -0.5,      1,   3,  0, -0.0,
                                       1.7, -2.5, INFINITY, -INFINITY, NAN, -2, 7};
    const int size = check_sizes[dtype];
    for (int mode = 0; mode < COUNT(exponents) + 2; mode++) {
        void *x = check_room(n * size, size), *p = check_room(n * size, 2 * size);
        void *y = check_room(n * size, 3 * size);
        for (int64_t i = 0; i < n; i++) {
            const int one = mode < COUNT(exponents), positive = mode == COUNT(exponents) || n % 2;
            number base = check_any(dtype);
            if (positive)
                base = exp(check_random() * 5);
            check_put(dtype, x, i, base);
            check_put(dtype, p, i, one ? exponents[mode] : check_random() * 10);
            if (!one && !positive && check_whole(0, 1))
                check_put(dtype, p, i, check_whole(-9, 9));
        }
        row->fn[dtype](y, x, p, NULL, n);
        for (int64_t i = 0; i < n; i++) {
            const number a = check_get(dtype, x, i), b = check_get(dtype, p, i);
            check_value("power", dtype, a, check_get(dtype, y, i), powl(a, b), 2);
        }
        check_leave("power", x), check_leave("power", p), check_leave("power", y);
    }
}

void UFF_FILL(function)(uff_kernels *kernels);

int main(void)
{
    const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 1500};
    uff_kernels kernels;
    UFF_FILL(function)(&kernels);
    const uff_tile_rows *rows = &kernels.function->rows;
    check_same("rows", 0, rows->num_rows, COUNT(expected) + 1);
    for (int r = 0; r < rows->num_rows; r++) {
        const uff_tile_row *row = &rows->rows[r];
        int e = 0;
        while (e < COUNT(expected) && strcmp(expected[e].name, row->name))
            e++;
        const int power = !strcmp(row->name, "power");
        check_true(row->name, r, power || e < COUNT(expected));
        for (int dtype = 0; dtype <= UFF_F64_T; dtype++)
            for (int s = 0; s < COUNT(sizes); s++)
                if (power)
                    check_power(row, dtype, sizes[s] < 100 ? sizes[s] : 100);
                else if (e < COUNT(expected)) {
                    check_row(row, e, dtype, sizes[s], sizes[s] < 100 ? s % 2 : 0);
                    if (s == 0 && (!strcmp(row->name, "sin") || !strcmp(row->name, "cos")))
                        check_angles(row, e, dtype);
                }
    }
    return check_report("function");
}
