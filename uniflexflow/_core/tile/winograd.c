#include "winograd.h"
#include "vector.h"

/* Both passes of a transform are written once, over an array of vectors: down the columns into
 * a block on the stack, then along its rows. 36 vectors don't fit the registers; one column
 * and what is made of it do. */

typedef uff_vf32 V;

#define LANES UFF_F32
#define EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)

_Static_assert(UFF_WINOGRAD_LINE % LANES == 0, "a line of channels is whole vectors");

/* B': six pixels. */
static inline void images_1d(const V d[6], V o[6])
{
    V a = d[4] - 4 * d[2], b = d[3] - 4 * d[1], c = d[4] - d[2], e = d[3] - d[1];
    o[0] = 4 * d[0] + (d[4] - 5 * d[2]);
    o[1] = a + b;
    o[2] = a - b;
    o[3] = c + 2 * e;
    o[4] = c - 2 * e;
    o[5] = 4 * d[1] + (d[5] - 5 * d[3]);
}

/* A': six products to four results. */
static inline void results_1d(const V m[6], V y[4])
{
    V a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
    y[0] = m[0] + a + c;
    y[1] = b + 2 * d;
    y[2] = a + 4 * c;
    y[3] = b + 8 * d + m[5];
}

/* A' of the weight gradient: six products to three weights. */
static inline void weights_1d(const V m[6], V y[3])
{
    V a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
    y[0] = m[0] + a + c;
    y[1] = b + 2 * d;
    y[2] = a + 4 * c + m[5];
}

/* G: three weights. */
static inline void window_1d(const V k[3], V o[6])
{
    V a = (k[0] + k[2]) * (-1.0f / 6), b = k[1] * (-1.0f / 6);
    V c = (k[0] + 4 * k[2]) * (1.0f / 24), d = k[1] * (1.0f / 12);
    o[0] = k[0] * 0.25f;
    o[1] = a + b;
    o[2] = a - b;
    o[3] = c + d;
    o[4] = c - d;
    o[5] = k[2];
}

/* G of the weight gradient: four gradients. */
static inline void gradients_1d(const V g[4], V o[6])
{
    V a = (g[0] + g[2]) * (-1.0f / 6), b = (g[1] + g[3]) * (-1.0f / 6);
    V c = (g[0] + 4 * g[2]) * (1.0f / 24), d = (g[1] + 4 * g[3]) * (1.0f / 12);
    o[0] = g[0] * 0.25f;
    o[1] = a + b;
    o[2] = a - b;
    o[3] = c + d;
    o[4] = c - d;
    o[5] = g[3];
}

/* out[TO][TO] = T x T', where x is FROM x FROM vectors, AT(i, j); AT must use no i or j of its own. */
#define TRANSFORM(ONE_D, FROM, TO, AT, out)              \
    do {                                                 \
        V half[TO][FROM];                                \
        EACH(j, FROM)                                    \
        {                                                \
            V column[FROM], made[TO];                    \
            EACH(i, FROM) column[i] = AT(i, j);          \
            ONE_D(column, made);                         \
            EACH(i, TO) half[i][j] = made[i];            \
        }                                                \
        EACH(i, TO) ONE_D(half[i], out[i]);              \
    } while (0)

static void images(int64_t channels, const float *const at[36], float *v, int64_t position)
{
    for (int64_t c = 0; c < channels; c += LANES) {
        V out[6][6];
#define AT(i, j) uff_load_f32(at[6 * (i) + (j)] + c)
        TRANSFORM(images_1d, 6, 6, AT, out);
#undef AT
        EACH(i, 6) EACH(j, 6) uff_store_f32(v + (6 * i + j) * position + c, out[i][j]);
    }
}

static void results(int64_t filters, const float *m, int64_t position, const float *bias, int relu,
                    float *const to[16])
{
    for (int64_t f = 0; f < filters; f += LANES) {
        V out[4][4], b = bias ? uff_load_f32(bias + f) : (V){0};
#define AT(i, j) uff_load_f32(m + (6 * (i) + (j)) * position + f)
        TRANSFORM(results_1d, 6, 4, AT, out);
#undef AT
        EACH(i, 4) EACH(j, 4)
        {
            V y = out[i][j] + b;
            if (relu) /* a NaN stays */
                y = (V)((uff_vi32)y & ~(uff_vi32)(y < 0));
            if (to[4 * i + j])
                uff_store_f32(to[4 * i + j] + f, y);
        }
    }
}

static void window(int64_t count, const float *taps, int64_t tap, float *u, int64_t position)
{
    for (int64_t n = 0; n < count; n += LANES) {
        V out[6][6];
#define AT(i, j) uff_load_f32(taps + (3 * (i) + (j)) * tap + n)
        TRANSFORM(window_1d, 3, 6, AT, out);
#undef AT
        EACH(i, 6) EACH(j, 6) uff_store_f32(u + (6 * i + j) * position + n, out[i][j]);
    }
}

static void gradients(int64_t filters, const float *const at[16], float *w, int64_t position,
                      int64_t panel, int64_t lanes)
{
    for (int64_t f = 0; f < filters; f += LANES) {
        float *to = w + f / lanes * panel + f % lanes;
        V out[6][6];
#define AT(i, j) uff_load_f32(at[4 * (i) + (j)] + f)
        TRANSFORM(gradients_1d, 4, 6, AT, out);
#undef AT
        EACH(i, 6) EACH(j, 6) uff_store_f32(to + (6 * i + j) * position, out[i][j]);
    }
}

static inline V sum_of(int64_t parts, const float *m, int64_t part)
{
    V sum = uff_load_f32(m);
    for (int64_t i = 1; i < parts; i++)
        sum += uff_load_f32(m + i * part);
    return sum;
}

static void weights(int64_t filters, int64_t parts, const float *m, int64_t part, int64_t position,
                    float *dk, int64_t tap)
{
    for (int64_t f = 0; f < filters; f += LANES) {
        V out[3][3];
#define AT(i, j) sum_of(parts, m + (6 * (i) + (j)) * position + f, part)
        TRANSFORM(weights_1d, 6, 3, AT, out);
#undef AT
        EACH(i, 3) EACH(j, 3) uff_store_f32(dk + (3 * i + j) * tap + f, out[i][j]);
    }
}

static const uff_winograd_kernels table = {
    .images = images,
    .results = results,
    .window = window,
    .gradients = gradients,
    .weights = weights,
};

void UFF_FILL(winograd)(uff_kernels *k)
{
    k->winograd = &table;
}
