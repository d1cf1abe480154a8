/* Arithmetic on tiles of float32 and bfloat16, against one scalar operation each. */
#include "mixed.h"

#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const char *const names[] = {"negative", "relu",   "square",  "add",     "subtract",
                                    "multiply", "divide", "maximum", "minimum", "relu_gradient"};
enum { UNARY = 3 }; /* so many of them have one operand */

static const double specials[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-149, 0x1.fffffep127,
                                  0x1.01p0, 0x1.03p0, 0x1.00fffep0};

static float expected(int op, float x, float y)
{
    switch (op) {
    case 0: return -x;
    case 1: return x <= 0 ? 0 : x;
    case 2: return x * x;
    case 3: return x + y;
    case 4: return x - y;
    case 5: return x * y;
    case 6: return x / y;
    case 7: return x > y || x != x ? x : y;
    case 8: return x < y || x != x ? x : y;
    default: return y > 0 ? x : 0;
    }
}

static void *operand(int dtype, int64_t n, int slip)
{
    return check_operand(dtype, n, slip, specials, COUNT(specials));
}

static int dtype_of(int mask, int bit)
{
    return mask & bit ? UFF_BF16_T : UFF_F32_T;
}

static void check_function(const char *what, uff_tile_fn fn, int op, int mask, int64_t n, int slip)
{
    const int a = dtype_of(mask, UFF_MIXED_A), b = dtype_of(mask, UFF_MIXED_B);
    const int out = dtype_of(mask, UFF_MIXED_OUT);
    void *x = operand(a, n, slip), *y = operand(b, n, slip + 1);
    void *z = check_room(n * check_sizes[out], check_sizes[out]);
    fn(z, x, op < UNARY ? NULL : y, NULL, n);
    for (int64_t i = 0; i < n; i++) {
        const float r = expected(op, (float)check_get(a, x, i), (float)check_get(b, y, i));
        check_same(what, i, check_get(out, z, i),
                   out == UFF_BF16_T ? check_from_bfloat16(check_to_bfloat16(r)) : r);
    }
    check_leave(what, x), check_leave(what, y), check_leave(what, z);
}

static void check_rounded(uff_tile_fn fn, int64_t n, int slip)
{
    float *x = operand(UFF_F32_T, n, slip), *z = check_room(n * 4, 4);
    fn(z, x, NULL, NULL, n);
    for (int64_t i = 0; i < n; i++)
        check_same("rounded", i, z[i], check_from_bfloat16(check_to_bfloat16(x[i])));
    check_leave("rounded", x), check_leave("rounded", z);
}

void UFF_FILL(mixed)(uff_kernels *kernels);

int main(void)
{
    const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 67, 200};
    uff_kernels kernels;
    UFF_FILL(mixed)(&kernels);
    const uff_mixed_kernels *k = kernels.mixed;
    check_same("rows", 0, k->num_rows, COUNT(names));
    for (int op = 0; op < COUNT(names); op++) {
        check_true("order of the rows", op, !strcmp(k->rows[op].name, names[op]));
        for (int mask = 0; mask < UFF_NUM_MIXED; mask++) {
            const int has = mask && !(op < UNARY && mask & UFF_MIXED_B);
            char what[64];
            snprintf(what, sizeof what, "%s, mixed %d", names[op], mask);
            check_true(what, -1, (k->rows[op].fn[mask] != NULL) == has);
            for (int s = 0; has && s < COUNT(sizes); s++)
                for (int slip = 0; slip < 4; slip++)
                    check_function(what, k->rows[op].fn[mask], op, mask, sizes[s], slip);
        }
    }
    for (int s = 0; s < COUNT(sizes); s++)
        for (int slip = 0; slip < 4; slip++)
            check_rounded(k->rounded, sizes[s], slip);
    return check_report("mixed");
}
