/* Softmax of rows and its kin, against long double; rows with NaN and infinities. */
#include "softmax.h"

#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

enum { PLAIN, WITH_NAN, WITH_LOWEST, ALL_LOWEST, WITH_HIGHEST, NUM_ROWS };

static void fill(int dtype, void *x, int64_t n, int kind)
{
    for (int64_t i = 0; i < n; i++)
        check_put(dtype, x, i, kind == ALL_LOWEST ? -INFINITY : check_random() * 15 + 3);
    const int64_t at = check_whole(0, n - 1);
    if (kind == WITH_NAN)
        check_put(dtype, x, at, NAN);
    if (kind == WITH_LOWEST && n > 1)
        check_put(dtype, x, at, -INFINITY);
    if (kind == WITH_HIGHEST)
        check_put(dtype, x, at, INFINITY);
}

static number exponential(int dtype, number x)
{
    return dtype == UFF_F32_T ? (number)exp((double)x) : expl(x);
}

static void check_rows(const uff_softmax_kernels *k, int dtype, int64_t n, int in_place)
{
    const int size = check_sizes[dtype];
    const number unit = dtype == UFF_F32_T ? 0x1p-24L : 0x1p-53L;
    const int64_t all = NUM_ROWS * n;
    char what[64];
    for (int op = 0; op < 3; op++) {
        static const char *const names[] = {"softmax", "log_softmax", "logsumexp"};
        snprintf(what, sizeof what, "%s of %lld %s", names[op], (long long)n, check_names[dtype]);
        char *x = check_room(all * size, size), *kept = check_room(all * size, 0);
        char *apart = check_room((op == 2 ? NUM_ROWS : all) * size, 2 * size);
        char *y = in_place ? x : apart;
        for (int r = 0; r < NUM_ROWS; r++)
            fill(dtype, x + r * n * size, n, r);
        memcpy(kept, x, all * size);
        (op == 0 ? k->softmax : op == 1 ? k->log_softmax : k->logsumexp)[dtype](y, x, NUM_ROWS, n);
        for (int r = 0; r < NUM_ROWS; r++) {
            const void *row = kept + r * n * size;
            number high = -INFINITY, sum = 0;
            int broken = 0;
            for (int64_t i = 0; i < n; i++) {
                const number v = check_get(dtype, row, i);
                broken |= isnan(v);
                high = v > high ? v : high;
            }
            for (int64_t i = 0; i < n; i++)
                sum += exponential(dtype, check_get(dtype, row, i) - high);
            /* sums by lanes, the difference's rounding, the functions' own ulp */
            const number room = unit * (12 + (n < 1024 ? n : 1024) / 2.0L);
            if (op == 2) {
                const number want = broken ? NAN : isinf(high) ? high : high + logl(sum);
                check_close(what, r, check_get(dtype, y, r), want, room * (1 + fabsl(want)));
                continue;
            }
            for (int64_t i = 0; i < n; i++) {
                const number apart_by = check_get(dtype, row, i) - high;
                const number got = check_get(dtype, y, r * n + i);
                /* NaN where a NaN or an infinite maximum makes the sum one */
                const number want =
                    op == 0 ? exponential(dtype, apart_by) / sum : apart_by - logl(sum);
                const number slack = room * (1 + fabsl(apart_by));
                check_close(what, r * n + i, got, want, op == 0 ? slack * want : slack);
            }
        }
        check_leave(what, x), check_leave(what, kept), check_leave(what, apart);
    }
}

void UFF_FILL(softmax)(uff_kernels *kernels);

int main(void)
{
    const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 1023, 1025, 2060};
    uff_kernels kernels;
    UFF_FILL(softmax)(&kernels);
    for (int dtype = 0; dtype <= UFF_F64_T; dtype++)
        for (int s = 0; s < COUNT(sizes); s++) {
            const int long_double = dtype == UFF_F64_T && sizes[s] > 1025;
            check_rows(kernels.softmax, dtype, long_double ? 1026 : sizes[s], s % 2);
            if (sizes[s] < 100)
                check_rows(kernels.softmax, dtype, sizes[s], !(s % 2));
        }
    return check_report("softmax");
}
