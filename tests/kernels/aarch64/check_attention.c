/* The steps between attention's products, against long double. */
#include "attention.h"

#include <float.h>

#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
enum { ROWS = 5, WIDTH = 7, GAP = 3 };

static number exponential(int dtype, number x)
{
    return dtype == UFF_F32_T ? (number)exp((double)x) : expl(x);
}

static number hidden(int dtype)
{
    return dtype == UFF_F32_T ? -FLT_MAX / 2 : -(number)(DBL_MAX / 2);
}

static char *numbers(int dtype, int64_t n, int slip, double size)
{
    char *x = check_room(n * check_sizes[dtype], slip * check_sizes[dtype]);
    for (int64_t i = 0; i < n; i++)
        check_put(dtype, x, i, check_random() * size);
    return x;
}

static char *copied(int dtype, const char *x, int64_t n)
{
    char *y = check_room(n * check_sizes[dtype], 0);
    return memcpy(y, x, n * check_sizes[dtype]);
}

/* How many of n columns row r sees. */
static int64_t seen_by(int64_t seen, int64_t n, int64_t r)
{
    return seen + r < n ? seen + r : n;
}

static void check_mask(const uff_attention_type *t, int dtype, int64_t n)
{
    const int64_t ld = n + GAP;
    for (int form = 0; form < 8; form++) {
        const int by_row = form & 1, by_column = form >> 1 & 1, biased = form >> 2;
        char *s = numbers(dtype, ROWS * ld, 1, 9), *kept = copied(dtype, s, ROWS * ld);
        char *bias = numbers(dtype, ROWS * n, 0, 3), *mask = check_room(ROWS * n, 1);
        for (int64_t i = 0; i < ROWS * n; i++)
            mask[i] = (char)check_whole(0, 1);
        const uff_attention_tile tile = {
            .rows = ROWS, .n = n, .ld = ld, .s = s, .bias = biased ? bias : NULL,
            .bias_row = by_row * n, .bias_column = by_column, .mask = mask,
            .mask_row = by_row * n, .mask_column = by_column,
        };
        t->mask(&tile);
        for (int64_t r = 0; r < ROWS; r++)
            for (int64_t i = 0; i < n; i++) {
                const int64_t at = r * by_row * n + i * by_column;
                number want = check_get(dtype, kept, r * ld + i);
                if (biased)
                    want += check_get(dtype, bias, at);
                check_close("mask", r * n + i, check_get(dtype, s, r * ld + i),
                            mask[at] ? want : hidden(dtype), 1e-6L * 9);
            }
        check_leave("mask", s), check_leave("mask", kept), check_leave("mask", bias);
        check_leave("mask", mask);
    }
}

/* Two tiles one after the other, as forward runs them; the second may have higher scores. */
static void check_forward(const uff_attention_type *t, int dtype, int64_t n, int64_t seen, double up)
{
    const int64_t ld = n + GAP, all = ROWS * ld;
    const number unit = dtype == UFF_F32_T ? 0x1p-24L : 0x1p-53L;
    char *first = numbers(dtype, all, 1, 5), *second = numbers(dtype, all, 0, 5);
    char *high = numbers(dtype, ROWS, 0, 0), *sum = numbers(dtype, ROWS, 1, 0);
    char *out = numbers(dtype, ROWS * (WIDTH + 1), 0, 2), *kept_out;
    for (int64_t i = 0; i < all; i++)
        check_put(dtype, second, i, check_get(dtype, second, i) + up);
    for (int r = 0; r < ROWS; r++)
        check_put(dtype, high, r, -INFINITY);
    if (n > 1)
        check_put(dtype, first, 1, -INFINITY);
    char *kept[2] = {copied(dtype, first, all), copied(dtype, second, all)};
    char *const tiles[2] = {first, second};
    kept_out = copied(dtype, out, ROWS * (WIDTH + 1));
    uff_attention_tile tile = {
        .rows = ROWS, .n = n, .ld = ld, .high = high, .sum = sum, .out = out, .width = WIDTH,
        .ld_out = WIDTH + 1,
    };
    number top[2][ROWS];
    for (int k = 0; k < 2; k++) {
        tile.s = tiles[k], tile.seen = k ? seen : n;
        t->weigh(&tile);
        for (int r = 0; r < ROWS; r++) {
            number want = k ? top[0][r] : -INFINITY;
            for (int64_t i = 0; i < seen_by(tile.seen, n, r); i++)
                want = fmaxl(want, check_get(dtype, kept[k], r * ld + i));
            top[k][r] = want;
            check_same("highest", r, check_get(dtype, high, r), want);
        }
    }
    for (int r = 0; r < ROWS; r++) {
        number want = 0;
        for (int k = 0; k < 2; k++)
            for (int64_t i = 0; i < n; i++) {
                const int sees = i < seen_by(k ? seen : n, n, r);
                number p = 0, last = 0;
                if (sees) {
                    const number score = check_get(dtype, kept[k], r * ld + i);
                    p = exponential(dtype, score - top[k][r]);
                    last = exponential(dtype, score - top[1][r]);
                }
                want += last;
                check_close("weights", r * n + i, check_get(dtype, tiles[k], r * ld + i), p,
                            unit * 40 * p);
            }
        check_close("sum", r, check_get(dtype, sum, r), want, unit * (40 + n) * want);
        const number shrink = exponential(dtype, top[0][r] - top[1][r]);
        for (int i = 0; i < WIDTH; i++) {
            const number before = check_get(dtype, kept_out, r * (WIDTH + 1) + i);
            check_close("scaled", r * WIDTH + i, check_get(dtype, out, r * (WIDTH + 1) + i),
                        before * shrink, unit * 40 * fabsl(before * shrink));
        }
    }
    char *y = numbers(dtype, ROWS * (WIDTH + 2), 1, 1), *lse = numbers(dtype, ROWS * 2, 0, 1);
    t->finish(ROWS, WIDTH, out, WIDTH + 1, high, sum, y, WIDTH + 2, lse, 2);
    for (int r = 0; r < ROWS; r++) {
        const number total = check_get(dtype, sum, r);
        const number want = check_get(dtype, high, r) + logl(total);
        check_close("lse", r, check_get(dtype, lse, r * 2), want, unit * 8 * (1 + fabsl(want)));
        for (int i = 0; i < WIDTH; i++) {
            const number x = check_get(dtype, out, r * (WIDTH + 1) + i) / total;
            check_close("out", r * WIDTH + i, check_get(dtype, y, r * (WIDTH + 2) + i), x,
                        unit * 8 * fabsl(x));
        }
    }
    char *const rooms[] = {first, second, high, sum, out, kept[0], kept[1], kept_out, y, lse};
    for (int i = 0; i < COUNT(rooms); i++)
        check_leave("forward", rooms[i]);
}

static void check_backward(const uff_attention_type *t, int dtype, int64_t n, int64_t seen)
{
    const int64_t ld = n + GAP, all = ROWS * ld;
    const number unit = dtype == UFF_F32_T ? 0x1p-24L : 0x1p-53L;
    char *s = numbers(dtype, all, 1, 5), *d = numbers(dtype, all, 0, 5);
    char *lse = numbers(dtype, ROWS, 1, 1), *delta = numbers(dtype, ROWS, 0, 3);
    for (int r = 0; r < ROWS; r++)
        check_put(dtype, lse, r, r == 2 ? hidden(dtype) : 6 + r);
    char *kept_s = copied(dtype, s, all), *kept_d = copied(dtype, d, all);
    const uff_attention_tile tile = {
        .rows = ROWS, .n = n, .ld = ld, .seen = seen, .s = s, .d = d, .lse = lse, .delta = delta,
    };
    t->weigh_back(&tile);
    for (int64_t r = 0; r < ROWS; r++) {
        const number sum = check_get(dtype, lse, r);
        check_true("blind", r, t->blind(lse + r * check_sizes[dtype]) == (r == 2));
        for (int64_t i = 0; i < n; i++) {
            const int sees = i < seen_by(seen, n, r) && r != 2;
            number p = 0, q = 0;
            if (sees) {
                p = exponential(dtype, check_get(dtype, kept_s, r * ld + i) - sum);
                q = p * (check_get(dtype, kept_d, r * ld + i) - check_get(dtype, delta, r));
            }
            check_close("weights back", r * n + i, check_get(dtype, s, r * ld + i), p, unit * 40 * p);
            check_close("gradient", r * n + i, check_get(dtype, d, r * ld + i), q, unit * 400 * p);
        }
    }
    char *const rooms[] = {s, d, lse, delta, kept_s, kept_d};
    for (int i = 0; i < COUNT(rooms); i++)
        check_leave("backward", rooms[i]);
}

static void check_copies(const uff_attention_type *t, int dtype, int64_t n)
{
    const int64_t ld = n + 2, ld_out = n + GAP;
    const number unit = dtype == UFF_F32_T ? 0x1p-23L : 0x1p-52L;
    char *x = numbers(dtype, ROWS * ld, 1, 5), *y = numbers(dtype, ROWS * ld_out, 0, 1);
    char *sum = numbers(dtype, n, 1, 4), *before = copied(dtype, sum, n);
    t->copy(ROWS, n, 0.375, x, ld, y, ld_out);
    t->add(ROWS, n, 0.375, x, ld, sum);
    for (int64_t i = 0; i < ld_out; i++) {
        number want = i < n ? check_get(dtype, before, i) : 0;
        for (int64_t r = 0; r < ROWS; r++) {
            const number scaled = i < n ? 0.375L * check_get(dtype, x, r * ld + i) : 0;
            check_close("copy", r * ld_out + i, check_get(dtype, y, r * ld_out + i), scaled,
                        unit * 2);
            want += scaled;
        }
        if (i < n)
            check_close("add", i, check_get(dtype, sum, i), want, unit * 60);
    }
    check_leave("copy", x), check_leave("copy", y), check_leave("add", sum);
    check_leave("add", before);
}

void UFF_FILL(attention)(uff_kernels *kernels);

int main(void)
{
    const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 64, 100};
    uff_kernels kernels;
    UFF_FILL(attention)(&kernels);
    for (int dtype = 0; dtype <= UFF_F64_T; dtype++) {
        const uff_attention_type *t = dtype == UFF_F32_T ? &kernels.attention->f32
                                                         : &kernels.attention->f64;
        for (int s = 0; s < COUNT(sizes); s++) {
            const int64_t n = sizes[s];
            check_mask(t, dtype, n);
            for (int k = 0; k < 3; k++) {
                check_forward(t, dtype, n, k ? check_whole(1, n) : n, k == 1 ? 60 : -2);
                check_backward(t, dtype, n, k ? check_whole(1, n) : n);
            }
            check_copies(t, dtype, n);
        }
    }
    return check_report("attention");
}
