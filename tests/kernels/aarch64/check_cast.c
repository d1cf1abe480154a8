/* Conversions between all pairs of dtypes, against one scalar conversion each. */
#include "cast.h"

#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const double halves[] = {0x1p24 + 1, 0x1p53, 0x1.000001p0, 0x1.000003p0, 0x1p-149, 0x1.8p-149,
                                0x1.fffffefp127, 2147483520.0, -2147483648.0, 300.7, -129.5, 255.9};
/* where a conversion to float32 by way of float64 would round twice */
static const int64_t twice[] = {(1ll << 62) + (1ll << 38) + 1, -(1ll << 62) - (1ll << 38) - 1,
                                (1ll << 54) + (1ll << 30) + 1, INT64_MAX, INT64_MIN, 1ll << 40};

/* Numbers whose conversion is defined: a float must fit in the integer, or in the int32
 * from which a small one is cut. */
static number source_number(int from, int to)
{
    for (;;) {
        number x = check_any(from);
        if (check_is_float(from) && check_whole(0, 3) == 0)
            x = halves[check_whole(0, COUNT(halves) - 1)];
        if (check_is_float(from) && check_whole(0, 3) == 0)
            x = ldexpl(check_random(), (int)check_whole(0, 62));
        if (from == UFF_F32_T)
            x = (float)x;
        if (from == UFF_BF16_T)
            x = check_from_bfloat16(check_to_bfloat16((float)x));
        if (from == UFF_I64_T && check_whole(0, 2) == 0)
            x = twice[check_whole(0, COUNT(twice) - 1)];
        if (!check_is_float(from) || check_is_float(to) || to == UFF_BOOL_T)
            return x;
        const number limit = to == UFF_I64_T ? 0x1p63L : 0x1p31L;
        if (x >= -limit && x < limit)
            return x;
    }
}

static number converted(number x, int to)
{
    switch (to) {
    case UFF_F32_T: return (float)x;
    case UFF_F64_T: return (double)x;
    case UFF_BOOL_T: return !(x == 0);
    case UFF_BF16_T: return check_from_bfloat16(check_to_bfloat16((float)x)); /* by float32 */
    default: break;
    }
    const int64_t whole = (int64_t)x; /* cuts the fraction */
    switch (to) {
    case UFF_I32_T: return (int32_t)(uint32_t)(uint64_t)whole;
    case UFF_I8_T: return (int8_t)(uint8_t)(uint64_t)whole;
    case UFF_U8_T: return (uint8_t)(uint64_t)whole;
    default: return whole;
    }
}

static void check_pair(const uff_cast_kernels *k, int from, int to, int64_t n, int slip)
{
    const int size = check_sizes[from], out_size = check_sizes[to];
    char what[80];
    snprintf(what, sizeof what, "cast of %lld %s to %s", (long long)n, check_names[from],
             check_names[to]);
    void *x = check_room(n * size, slip * size), *y = check_room(n * out_size, out_size);
    for (int64_t i = 0; i < n; i++)
        check_put(from, x, i, source_number(from, to));
    k->rows.rows[from].fn[to](y, x, NULL, NULL, n);
    for (int64_t i = 0; i < n; i++)
        check_same(what, i, check_get(to, y, i), converted(check_get(from, x, i), to));
    check_leave(what, x), check_leave(what, y);
}

void UFF_FILL(cast)(uff_kernels *kernels);

int main(void)
{
    const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 67, 200};
    uff_kernels kernels;
    UFF_FILL(cast)(&kernels);
    check_same("rows", 0, kernels.cast->rows.num_rows, UFF_NUM_DTYPES);
    for (int from = 0; from < UFF_NUM_DTYPES; from++) {
        check_true("order of the rows", from,
                   !strcmp(kernels.cast->rows.rows[from].name, check_names[from]));
        for (int to = 0; to < UFF_NUM_DTYPES; to++)
            for (int s = 0; s < COUNT(sizes); s++)
                for (int slip = 0; slip < 4; slip++)
                    check_pair(kernels.cast, from, to, sizes[s], slip);
    }
    return check_report("cast");
}
