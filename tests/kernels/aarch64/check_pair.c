/* Two operations at once, against one after the other. */
#include "pair.h"

#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const char *const firsts[] = {"add", "subtract", "multiply", "divide", "square", "sqrt"};
static const char *const seconds[] = {"add",      "subtract", "subtract_from",
                                      "multiply", "divide",   "divide_into",
                                      "square",   "relu",     "relu_gradient"};

static const double specials[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-149, 0x1.fffffep127};

#define OPERATIONS(T, t, SQRT)                                              \
    static T first_##t(int op, T x, T y)                                    \
    {                                                                       \
        switch (op) {                                                       \
        case 0: return x + y;                                               \
        case 1: return x - y;                                               \
        case 2: return x * y;                                               \
        case 3: return x / y;                                               \
        case 4: return x * x;                                               \
        default: return SQRT(x);                                            \
        }                                                                   \
    }                                                                       \
    static T second_##t(int op, T x, T y)                                   \
    {                                                                       \
        switch (op) {                                                       \
        case 0: return x + y;                                               \
        case 1: return x - y;                                               \
        case 2: return y - x;                                               \
        case 3: return x * y;                                               \
        case 4: return x / y;                                               \
        case 5: return y / x;                                               \
        case 6: return x * x;                                               \
        case 7: return x <= 0 ? 0 : x;                                      \
        default: return y > 0 ? x : 0;                                      \
        }                                                                   \
    }
OPERATIONS(float, f32, sqrtf)
OPERATIONS(double, f64, sqrt)

static void *operand(int dtype, int64_t n, int slip)
{
    return check_operand(dtype, n, slip, specials, COUNT(specials));
}

static void check_function(const char *what, uff_tile_fn fn, int one, int two, int dtype,
                           int64_t n, int slip)
{
    void *a = operand(dtype, n, slip), *b = operand(dtype, n, slip + 1), *c = operand(dtype, n, 0);
    void *out = check_room(n * check_sizes[dtype], check_sizes[dtype]);
    fn(out, a, b, c, n);
    for (int64_t i = 0; i < n; i++) {
        number want;
        if (dtype == UFF_F32_T)
            want = second_f32(two, first_f32(one, ((float *)a)[i], ((float *)b)[i]), ((float *)c)[i]);
        else
            want = second_f64(two, first_f64(one, ((double *)a)[i], ((double *)b)[i]),
                              ((double *)c)[i]);
        check_same(what, i, check_get(dtype, out, i), want);
    }
    fn(c, a, b, c, n); /* the result may take an operand's place */
    for (int64_t i = 0; i < n; i++)
        check_same(what, i, check_get(dtype, c, i), check_get(dtype, out, i));
    check_leave(what, a), check_leave(what, b), check_leave(what, c), check_leave(what, out);
}

void UFF_FILL(pair)(uff_kernels *kernels);

int main(void)
{
    const int64_t sizes[] = {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 67};
    uff_kernels kernels;
    UFF_FILL(pair)(&kernels);
    const uff_tile_rows *k = &kernels.pair->rows;
    check_same("rows", 0, k->num_rows, COUNT(firsts) * COUNT(seconds));
    for (int row = 0; row < k->num_rows; row++) {
        const int one = row / COUNT(seconds), two = row % COUNT(seconds);
        char what[64];
        snprintf(what, sizeof what, "%s+%s", firsts[one], seconds[two]);
        check_true(what, row, !strcmp(k->rows[row].name, what));
        for (int s = 0; s < COUNT(sizes); s++)
            for (int slip = 0; slip < 4; slip++)
                for (int dtype = UFF_F32_T; dtype <= UFF_F64_T; dtype++)
                    check_function(what, k->rows[row].fn[dtype], one, two, dtype, sizes[s], slip);
    }
    return check_report("pair");
}
