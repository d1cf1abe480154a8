/* Transforms of one tile against their matrices, and a whole tile against a plain convolution. */
#include "winograd.h"

#include "check.h"

enum { COUNT = 48, LANES = 32, STEP = COUNT + 16 };

static const number images_matrix[6][6] = {
    {4, 0, -5, 0, 1, 0}, {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0},
    {0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1},
};

/* Powers of the points 0, 1, -1, 2, -2 and infinity, scaled for windows. */
static number power(int point, int exponent, int last)
{
    static const number points[5] = {0, 1, -1, 2, -2};
    number x = 1;
    if (point == 5)
        return exponent == last;
    while (exponent-- > 0)
        x *= points[point];
    return x;
}

static number window_at(int point, int exponent, int size)
{
    static const number scales[6] = {1 / 4.0L, -1 / 6.0L, -1 / 6.0L, 1 / 24.0L, 1 / 24.0L, 1};
    return scales[point] * power(point, exponent, size - 1);
}

static number matrix(int kind, int i, int j, int size)
{
    return kind == 0 ? images_matrix[i][j]
                     : kind == 1 ? window_at(i, j, size) : power(j, i, size - 1);
}

/* out[p][q] of T x T' for one lane: `kind` 0 images, 1 windows of `from`, 2 results, `to` of them. */
static number made(int kind, const float *x, int64_t step, int from, int to, int p, int q)
{
    number sum = 0;
    for (int i = 0; i < from; i++)
        for (int j = 0; j < from; j++)
            sum += matrix(kind, p, i, kind == 1 ? from : to) *
                   matrix(kind, q, j, kind == 1 ? from : to) * x[(from * i + j) * step];
    return sum;
}

static void fill(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)check_whole(-8, 8) / 4;
}

/* Rounding of 1/6 and 1/24, and of at most 36 terms. */
static number room_for(number size)
{
    return 64 * 0x1p-24L * size;
}

void UFF_FILL(winograd)(uff_kernels *kernels);

static void check_images(const uff_winograd_kernels *k)
{
    float *x = check_room(36 * STEP * 4, 4), *v = check_room(36 * STEP * 4, 4);
    const float *at[36];
    fill(x, 36 * STEP);
    for (int i = 0; i < 36; i++)
        at[i] = x + i * STEP;
    k->images(COUNT, at, v, STEP);
    for (int c = 0; c < COUNT; c++)
        for (int p = 0; p < 36; p++)
            check_close("images", p * COUNT + c, v[p * STEP + c],
                        made(0, x + c, STEP, 6, 6, p / 6, p % 6), 0);
    check_leave("images", x), check_leave("images", v);
}

static void check_windows(const uff_winograd_kernels *k)
{
    float *x = check_room(16 * STEP * 4, 4), *u = check_room(36 * STEP * 4, 4);
    float *w = check_room(36 * 4 * LANES * 4, 4);
    const float *at[16];
    fill(x, 16 * STEP);
    for (int i = 0; i < 16; i++)
        at[i] = x + i * STEP;
    k->window(COUNT, x, STEP, u, STEP);
    k->gradients(COUNT, at, w, 4 * LANES, 2 * LANES, LANES);
    for (int c = 0; c < COUNT; c++)
        for (int p = 0; p < 36; p++) {
            check_close("window", p * COUNT + c, u[p * STEP + c],
                        made(1, x + c, STEP, 3, 6, p / 6, p % 6), room_for(8));
            check_close("gradients", p * COUNT + c,
                        w[p * 4 * LANES + c / LANES * 2 * LANES + c % LANES],
                        made(1, x + c, STEP, 4, 6, p / 6, p % 6), room_for(8));
        }
    check_leave("window", x), check_leave("window", u), check_leave("gradients", w);
}

static void check_results(const uff_winograd_kernels *k, int relu)
{
    float *m = check_room(2 * 36 * STEP * 4, 4), *y = check_room(16 * STEP * 4, 4);
    float *bias = check_room(COUNT * 4, 4), *dk = check_room(9 * STEP * 4, 4);
    float *to[16];
    fill(m, 2 * 36 * STEP), fill(bias, COUNT);
    for (int i = 0; i < 16; i++) {
        to[i] = i % 5 == 3 ? NULL : y + i * STEP;
        y[i * STEP] = 77;
    }
    k->results(COUNT, m, STEP, relu ? bias : NULL, relu, to);
    k->weights(COUNT, 2, m, 36 * STEP, STEP, dk, STEP);
    for (int f = 0; f < COUNT; f++) {
        for (int i = 0; i < 16; i++) {
            number want = made(2, m + f, STEP, 6, 4, i / 4, i % 4) + (relu ? bias[f] : 0);
            want = relu && want < 0 ? 0 : want;
            if (to[i])
                check_close("results", i * COUNT + f, to[i][f], want, room_for(1000));
            else if (f == 0)
                check_same("a result that does not exist", i, y[i * STEP], 77);
        }
        for (int i = 0; i < 9; i++)
            check_close("weights", i * COUNT + f, dk[i * STEP + f],
                        made(2, m + f, STEP, 6, 3, i / 3, i % 3) +
                            made(2, m + 36 * STEP + f, STEP, 6, 3, i / 3, i % 3),
                        room_for(1000));
    }
    check_leave("results", m), check_leave("results", y), check_leave("results", bias);
    check_leave("weights", dk);
}

int main(void)
{
    uff_kernels kernels;
    UFF_FILL(winograd)(&kernels);
    check_images(kernels.winograd);
    check_windows(kernels.winograd);
    check_results(kernels.winograd, 0);
    check_results(kernels.winograd, 1);
    return check_report("winograd");
}
