/* Sums, extremes, their places and running sums, along rows and columns. */
#include "reduce.h"

#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const char *const kinds[] = {"sum", "max", "min"};

/* Small whole numbers, whose float sums are exact; with `special`, all that there is. */
static void fill(int dtype, void *x, int64_t n, int special)
{
    const int least = dtype == UFF_U8_T || dtype == UFF_BOOL_T ? 0 : -8;
    for (int64_t i = 0; i < n; i++)
        check_put(dtype, x, i, special ? check_any(dtype)
                                       : check_whole(least, dtype == UFF_BOOL_T ? 1 : 8));
}

static number take(int kind, int dtype, number acc, number x)
{
    if (kind == UFF_SUM)
        return dtype == UFF_BOOL_T ? acc || x : acc + x;
    if (isnan(acc) || isnan(x))
        return NAN;
    return (kind == UFF_MAX ? x > acc : x < acc) ? x : acc;
}

static number first(int kind, int dtype)
{
    if (kind == UFF_SUM)
        return 0;
    if (dtype <= UFF_F64_T)
        return kind == UFF_MAX ? -INFINITY : INFINITY;
    return kind == UFF_MAX ? check_lowest(dtype) : dtype == UFF_BOOL_T ? 255 : check_highest(dtype);
}

/* An integer sum wraps around in its own dtype. */
static number wrapped(int dtype, number x)
{
    const int64_t i = dtype <= UFF_F64_T ? 0 : (int64_t)x;
    switch (dtype) {
    case UFF_I32_T: return (int32_t)(uint32_t)(uint64_t)i;
    case UFF_I8_T: return (int8_t)(uint8_t)(uint64_t)i;
    case UFF_U8_T: return (uint8_t)(uint64_t)i;
    default: return x;
    }
}

/* In two parts, merged: of `count` rows of n, or of their columns. */
static void check_reducer(const uff_reduce_kernels *k, int kind, int dtype, int by_columns,
                          int64_t count, int64_t n, int64_t gap)
{
    const uff_reducer *r = &k->reducers[kind][dtype];
    const int size = check_sizes[dtype];
    const int64_t stride = n + gap, results = by_columns ? n : count;
    /* sums of the ends of int64 would not fit in the oracle */
    const int special = kind != UFF_SUM || (dtype != UFF_I64_T && dtype > UFF_F64_T);
    char what[96];
    snprintf(what, sizeof what, "%s of %s, %s of %lld x %lld + %lld", kinds[kind],
             check_names[dtype], by_columns ? "columns" : "rows", (long long)count, (long long)n,
             (long long)gap);
    char *x = check_room(count * stride * size, size);
    void *one = check_room(results * r->acc_size, r->acc_size);
    void *two = check_room(results * r->acc_size, 0), *out = check_room(results * size, size);
    fill(dtype, x, count * stride, special && check_whole(0, 1));
    r->start(one, results);
    r->start(two, results);
    if (by_columns) {
        const int64_t half = count / 3;
        r->columns(one, x, half, n, stride);
        r->columns(two, x + half * stride * size, count - half, n, stride);
    } else {
        const int64_t half = n / 3;
        r->rows(one, x, count, half, stride);
        r->rows(two, x + half * size, count, n - half, stride);
    }
    r->merge(one, two, results);
    r->finish(out, one, results);
    for (int64_t i = 0; i < results; i++) {
        number want = first(kind, dtype);
        for (int64_t j = 0; j < (by_columns ? count : n); j++)
            want = take(kind, dtype, want,
                        check_get(dtype, x, by_columns ? j * stride + i : i * stride + j));
        /* which of two zeros is the extreme is not defined */
        check_close(what, i, check_get(dtype, out, i), wrapped(dtype, want), 0);
    }
    check_leave(what, x), check_leave(what, one), check_leave(what, two), check_leave(what, out);
}

/* Tiles of 4, 1 and what is left of the rows, through partial results of some rows together. */
static void check_gather(const uff_reduce_kernels *k, int kind, int dtype, int64_t together,
                         int64_t n)
{
    const uff_reducer *r = &k->reducers[kind][dtype];
    const int size = check_sizes[dtype];
    const int64_t wide = together * n, rows = 7 * together + together / 2;
    char what[96];
    snprintf(what, sizeof what, "%s of %s, gathered, %lld x %lld", kinds[kind], check_names[dtype],
             (long long)together, (long long)n);
    char *x = check_room(rows * n * size, size);
    void *acc = check_room(n * r->acc_size, r->acc_size), *out = check_room(n * size, size);
    void *part = check_room(wide * r->part_size, r->part_size);
    fill(dtype, x, rows * n, 0);
    r->start(acc, n);
    r->blank(part, wide);
    for (int round = 0; round < 2; round++) { /* a part that was folded is blank */
        r->gather(part, x, round ? 0 : 4, wide);
        r->gather(part, x + 4 * wide * size, round ? 3 : 0, wide);
        r->fold(acc, part, together, n);
    }
    r->gather(part, x + 7 * wide * size, 1, together / 2 * n);
    r->fold(acc, part, together, n);
    r->finish(out, acc, n);
    for (int64_t j = 0; j < n; j++) {
        number want = first(kind, dtype);
        for (int64_t i = 0; i < rows; i++)
            want = take(kind, dtype, want, check_get(dtype, x, i * n + j));
        check_close(what, j, check_get(dtype, out, j), wrapped(dtype, want), 0);
    }
    check_leave(what, x), check_leave(what, acc), check_leave(what, out), check_leave(what, part);
}

/* float32 blocks of 4096 over lanes and four vectors; columns by 128 rows. */
static void check_rounding(const uff_reduce_kernels *k, int dtype, int by_columns, int64_t count)
{
    const uff_reducer *r = &k->reducers[UFF_SUM][dtype];
    const double unit = dtype == UFF_F32_T ? 0x1p-24 : 0x1p-53;
    const int64_t n = by_columns ? 5 : 1;
    double acc[5];
    void *x = check_room(count * n * check_sizes[dtype], check_sizes[dtype]);
    for (int64_t i = 0; i < count * n; i++)
        check_put(dtype, x, i, check_random());
    r->start(acc, n);
    if (by_columns)
        r->columns(acc, x, count, n, n);
    else
        r->rows(acc, x, 1, count, count);
    for (int64_t j = 0; j < n; j++) {
        number want = 0, magnitude = 0;
        for (int64_t i = 0; i < count; i++) {
            const number v = check_get(dtype, x, i * n + j);
            want += v, magnitude += fabsl(v);
        }
        const double adds = dtype == UFF_F32_T ? (count < 4096 ? count : 4096) / 8.0 + 16 : count;
        check_close("rounding of a sum", j, acc[j], want, adds * unit * magnitude);
    }
    check_leave("rounding of a sum", x);
}

static void check_places(const uff_reduce_kernels *k, int dtype, int64_t n, int64_t columns,
                         int64_t gap)
{
    const int size = check_sizes[dtype];
    const int64_t stride = columns + gap;
    char what[96];
    void *x = check_room(n * stride * size, size), *best = check_room(columns * size, size);
    int32_t *out = check_room(columns * 4, 4);
    for (int smallest = 0; smallest < 2; smallest++)
        for (int special = 0; special < 2; special++) {
            snprintf(what, sizeof what, "arg%s of %s, %lld x %lld + %lld", smallest ? "min" : "max",
                     check_names[dtype], (long long)n, (long long)columns, (long long)gap);
            fill(dtype, x, n * stride, special);
            (smallest ? k->argmin : k->argmax)[dtype](out, best, x, n, columns, stride);
            for (int64_t j = 0; j < columns; j++) {
                int64_t at = 0;
                for (int64_t i = 1; i < n; i++) {
                    const number v = check_get(dtype, x, i * stride + j);
                    const number m = check_get(dtype, x, at * stride + j);
                    if (!isnan(m) && (isnan(v) || (smallest ? v < m : v > m)))
                        at = i;
                }
                check_same(what, j, out[j], at);
            }
        }
    check_leave(what, x), check_leave(what, best), check_leave(what, out);
}

static void check_cumsum(const uff_reduce_kernels *k, int dtype, int64_t n, int reverse, int in_place)
{
    const int size = check_sizes[dtype];
    char what[96];
    snprintf(what, sizeof what, "cumsum of %lld %s", (long long)n, check_names[dtype]);
    void *x = check_room(n * size, size), *kept = check_room(n * size, 0);
    void *apart = check_room(n * size, 2 * size), *y = in_place ? x : apart;
    fill(dtype, x, n, dtype > UFF_F64_T && dtype != UFF_I64_T);
    memcpy(kept, x, n * size);
    k->cumsum[dtype](y, x, n, reverse);
    number sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = reverse ? n - 1 - i : i;
        sum += check_get(dtype, kept, at);
        check_same(what, at, check_get(dtype, y, at), wrapped(dtype, sum));
    }
    check_leave(what, x), check_leave(what, kept), check_leave(what, apart);
}

void UFF_FILL(reduce)(uff_kernels *kernels);

int main(void)
{
    const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 67};
    uff_kernels kernels;
    UFF_FILL(reduce)(&kernels);
    const uff_reduce_kernels *k = kernels.reduce;
    for (int dtype = 0; dtype < UFF_BF16_T; dtype++) { /* which is reduced as float32 */
        for (int kind = 0; kind < UFF_NUM_REDUCERS; kind++) {
            for (int s = 0; s < COUNT(sizes); s++)
                for (int64_t gap = 0; gap < 4; gap += 3) {
                    check_reducer(k, kind, dtype, 0, 3, sizes[s], gap);
                    check_reducer(k, kind, dtype, 0, 0, sizes[s], gap);
                    check_reducer(k, kind, dtype, 1, 11, sizes[s], gap);
                    check_reducer(k, kind, dtype, 1, 1, sizes[s], gap);
                    check_reducer(k, kind, dtype, 1, 0, sizes[s], gap);
                }
            for (int s = 0; s < COUNT(sizes); s++)
                for (int64_t together = 1; together < 20; together += 6)
                    check_gather(k, kind, dtype, together, sizes[s]);
            check_reducer(k, kind, dtype, 0, 2, 0, 3);
            check_reducer(k, kind, dtype, 0, 1, 3 * 4096 + 70, 0); /* several blocks */
            check_reducer(k, kind, dtype, 1, 403, 5, 0); /* rows together, several blocks */
            check_reducer(k, kind, dtype, 1, 403, 5, 1);
            check_reducer(k, kind, dtype, 1, 7, UFF_REDUCE_COLUMNS, 0);
        }
        for (int s = 0; s < COUNT(sizes); s++) {
            check_places(k, dtype, sizes[s], 1, 0);
            check_places(k, dtype, sizes[s], 1, 2);
            check_places(k, dtype, 6, sizes[s], 0);
            check_places(k, dtype, 6, sizes[s], 2);
            for (int form = 0; dtype != UFF_BOOL_T && form < 4; form++)
                check_cumsum(k, dtype, sizes[s], form & 1, form >> 1);
        }
        check_places(k, dtype, 5000, 1, 0);
    }
    for (int dtype = 0; dtype <= UFF_F64_T; dtype++)
        for (int by_columns = 0; by_columns < 2; by_columns++) {
            check_rounding(k, dtype, by_columns, 40);
            check_rounding(k, dtype, by_columns, 9001);
        }
    return check_report("reduce");
}
