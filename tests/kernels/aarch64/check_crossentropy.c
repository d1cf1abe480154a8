/* Cross-entropy of softmax, forward and backward, against long double. */
#include "crossentropy.h"

#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

enum { PLAIN, WITH_NAN, WITH_LOWEST, SILENT, NO_CLASS, NUM_ROWS };

static number exponential(int dtype, number x)
{
    return dtype == UFF_F32_T ? (number)exp((double)x) : expl(x);
}

typedef struct {
    int dtype, size, wide, sparse, in_place;
    int64_t n;
    char *x, *kept, *target, *loss, *lse, *total, *a, *b, *dx;
} rooms;

static rooms make(int dtype, int64_t n, int wide, int sparse, int in_place)
{
    const int size = check_sizes[dtype];
    rooms m = {dtype, size, wide, sparse, in_place, n};
    const int64_t all = NUM_ROWS * n * size, row = NUM_ROWS * size;
    m.x = check_room(all, size), m.kept = check_room(all, 0);
    m.target = sparse ? check_room(NUM_ROWS * (wide ? 8 : 4), 0) : check_room(all, 2 * size);
    m.loss = check_room(row, size), m.lse = check_room(row, 0), m.total = check_room(row, size);
    m.a = check_room(row, 0), m.b = check_room(row, size), m.dx = check_room(all, 3 * size);
    for (int r = 0; r < NUM_ROWS; r++) {
        for (int64_t i = 0; i < n; i++) {
            check_put(dtype, m.x, r * n + i, check_random() * 15 + 3);
            if (!sparse)
                check_put(dtype, m.target, r * n + i, check_random());
        }
        int64_t label = r == NO_CLASS ? (check_whole(0, 1) ? n : -1) : check_whole(0, n - 1);
        if (sparse)
            check_put(wide ? UFF_I64_T : UFF_I32_T, m.target, r, label);
        if (r == WITH_NAN)
            check_put(dtype, m.x, r * n + check_whole(0, n - 1), NAN);
        if (r == WITH_LOWEST && n > 1 && sparse)
            check_put(dtype, m.x, r * n + (label + 1) % n, -INFINITY);
        check_put(dtype, m.a, r, r == SILENT ? 0 : check_random());
        check_put(dtype, m.b, r, r == SILENT ? 0 : check_random());
    }
    memcpy(m.kept, m.x, all);
    return m;
}

static number target_of(const rooms *m, int r, int64_t i)
{
    if (!m->sparse)
        return check_get(m->dtype, m->target, r * m->n + i);
    const number label = check_get(m->wide ? UFF_I64_T : UFF_I32_T, m->target, r);
    return label < 0 || label >= m->n ? NAN : label == i;
}

static void check_rows(const uff_crossentropy_kernels *k, int dtype, int64_t n, int wide, int sparse,
                       int in_place)
{
    rooms m = make(dtype, n, wide, sparse, in_place);
    const number unit = dtype == UFF_F32_T ? 0x1p-24L : 0x1p-53L;
    char what[64];
    snprintf(what, sizeof what, "%s of %lld %s", sparse ? "sparse" : "dense", (long long)n,
             check_names[dtype]);
    const uff_crossentropy_rows rows = {
        .rows = NUM_ROWS, .n = n, .x = m.x, .target = m.target, .wide = wide, .loss = m.loss,
        .lse = m.lse, .total = m.total, .given_lse = m.lse, .a = m.a, .b = m.b,
        .dx = in_place ? m.x : m.dx,
    };
    (sparse ? k->sparse : k->dense)[dtype](&rows);
    (sparse ? k->sparse_gradient : k->dense_gradient)[dtype](&rows);
    for (int r = 0; r < NUM_ROWS; r++) {
        number high = -INFINITY, sum = 0, loss = 0, total = 0;
        int broken = 0;
        for (int64_t i = 0; i < n; i++) {
            const number v = check_get(dtype, m.kept, r * n + i);
            broken |= isnan(v);
            high = v > high ? v : high;
        }
        for (int64_t i = 0; i < n; i++)
            sum += exponential(dtype, check_get(dtype, m.kept, r * n + i) - high);
        const number lse = broken ? NAN : high + logl(sum);
        const number room = unit * (16 + (n < 1024 ? n : 1024) / 2.0L);
        number size = 0;
        for (int64_t i = 0; i < n; i++) {
            const number t = target_of(&m, r, i);
            if (t != 0)
                loss += t * (lse - check_get(dtype, m.kept, r * n + i));
            total += t, size += fabsl(t);
        }
        check_close(what, r, check_get(dtype, m.lse, r), lse, room * (1 + fabsl(lse)));
        check_close(what, r, check_get(dtype, m.loss, r), loss, room * 40 * (1 + size));
        if (!sparse)
            check_close(what, r, check_get(dtype, m.total, r), total, room * size);
        const number a = check_get(dtype, m.a, r), b = check_get(dtype, m.b, r);
        for (int64_t i = 0; i < n; i++) {
            number want = 0;
            if (r != SILENT)
                want = a * exponential(dtype, check_get(dtype, m.kept, r * n + i) - lse) -
                       b * target_of(&m, r, i);
            check_close(what, r * n + i, check_get(dtype, rows.dx, r * n + i), want,
                        (room + 40 * unit) * 2);
        }
    }
    char *const all[] = {m.x, m.kept, m.target, m.loss, m.lse, m.a, m.b};
    for (int i = 0; i < COUNT(all); i++)
        check_leave(what, all[i]);
    check_leave(what, m.total), check_leave(what, m.dx);
}

void UFF_FILL(crossentropy)(uff_kernels *kernels);

int main(void)
{
    const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 100, 1023, 1025, 2060};
    uff_kernels kernels;
    UFF_FILL(crossentropy)(&kernels);
    for (int dtype = 0; dtype <= UFF_F64_T; dtype++)
        for (int s = 0; s < COUNT(sizes); s++)
            for (int sparse = 0; sparse < 2; sparse++)
                if (dtype == UFF_F32_T || sizes[s] < 1100)
                    check_rows(kernels.crossentropy, dtype, sizes[s], s % 3 > 0, sparse, s % 2);
    return check_report("crossentropy");
}
