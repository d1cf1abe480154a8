/* Copies of tiles by byte strides, and stable orders. */
#include "movement.h"

#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

enum { DENSE, REPEAT, STRIDED, TRANSPOSE, NUM_FORMS };

static void check_copy(const uff_movement_kernels *k, int form, int log_size, int64_t rows,
                       int64_t columns, int64_t gap)
{
    static const char *const names[] = {"dense", "repeat", "strided", "transpose"};
    const uff_copy_fn *const tables[] = {k->dense, k->repeat, k->strided, k->transpose};
    const int64_t size = 1 << log_size;
    int64_t out_column = size, in_column = size;
    if (form == REPEAT)
        in_column = 0;
    if (form == STRIDED)
        out_column = 2 * size, in_column = 3 * size;
    int64_t out_row = columns * out_column + gap * size, in_row = columns * in_column + gap * size;
    if (form == REPEAT)
        in_row = (1 + gap) * size;
    if (form == TRANSPOSE)
        in_row = size, in_column = (rows + gap) * size;
    const int64_t in_bytes = rows * in_row + columns * in_column + size;
    const int64_t out_bytes = rows * out_row + size;
    char what[96];
    snprintf(what, sizeof what, "%s of %lld bytes, %lld x %lld + %lld", names[form],
             (long long)size, (long long)rows, (long long)columns, (long long)gap);
    char *in = check_room(in_bytes, (int)size), *out = check_room(out_bytes, (int)(size * 3));
    char *want = check_room(out_bytes, 0);
    for (int64_t i = 0; i < in_bytes; i++)
        in[i] = (char)check_bits();
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            for (int64_t b = 0; b < size; b++)
                want[r * out_row + c * out_column + b] = in[r * in_row + c * in_column + b];
    tables[form][log_size](out, out_row, out_column, in, in_row, in_column, rows, columns);
    for (int64_t i = 0; i < out_bytes; i++) /* also what lies between is as it was */
        check_same(what, i, out[i], want[i]);
    check_leave(what, in), check_leave(what, out), check_leave(what, want);
}

/* Is x to stand before y? */
static int before(number x, number y, int falling)
{
    if (isnan(x) || isnan(y))
        return falling ? isnan(x) && !isnan(y) : !isnan(x);
    return falling ? x > y : x < y;
}

static void check_order(const uff_movement_kernels *k, int dtype, int64_t n, int falling, int few)
{
    char what[96];
    snprintf(what, sizeof what, "argsort of %lld %s, falling %d", (long long)n, check_names[dtype],
             falling);
    void *x = check_room(n * check_sizes[dtype], check_sizes[dtype]);
    int32_t *order = check_room(n * 4, 4), *room = check_room(n * 4, 8);
    check_fill(dtype, x, n);
    for (int64_t i = 0; few && i < n; i++) /* many equal ones */
        check_put(dtype, x, i, check_whole(0, 1));
    k->argsort[dtype](order, room, x, n, falling);
    for (int64_t i = 0; i < n; i++) { /* how many stand before element i */
        int64_t place = 0;
        const number v = check_get(dtype, x, i);
        for (int64_t j = 0; j < n; j++) {
            const number w = check_get(dtype, x, j);
            place += j < i ? !before(v, w, falling) : before(w, v, falling);
        }
        check_same(what, place, order[place], i);
    }
    check_leave(what, x), check_leave(what, order), check_leave(what, room);
}

void UFF_FILL(movement)(uff_kernels *kernels);

int main(void)
{
    const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33};
    uff_kernels kernels;
    UFF_FILL(movement)(&kernels);
    const uff_movement_kernels *k = kernels.movement;
    for (int form = 0; form < NUM_FORMS; form++)
        for (int log_size = 0; log_size < 4; log_size++) {
            for (int r = 0; r < COUNT(sizes); r++)
                for (int c = 0; c < COUNT(sizes); c++)
                    check_copy(k, form, log_size, sizes[r], sizes[c], (r + c) % 3);
            check_copy(k, form, log_size, 3, 200, 1);
            check_copy(k, form, log_size, 130, 6, 0);
        }
    for (int dtype = 0; dtype < UFF_BF16_T; dtype++)
        for (int n = 0; n < COUNT(sizes); n++)
            for (int form = 0; form < 4; form++)
                check_order(k, dtype, sizes[n], form & 1, form >> 1);
    return check_report("movement");
}
