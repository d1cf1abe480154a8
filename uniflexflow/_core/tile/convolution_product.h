/* One element type's part of convolution.c, which defines T, V, I, LANES and NAME. */

/* Full register blocks of R rows by W vectors: sums stay in registers over all q. */
#define BLOCKS(FN, R, W)                                                                          \
    static void FN(int64_t count, const T *a, const int64_t *rows, const int32_t *cols, int64_t k, \
                   const T *b, int64_t b_step, T *c, const int64_t *places, const T *bias,        \
                   int accumulate, int relu, uff_ahead *ahead)                                    \
    {                                                                                             \
        for (; count > 0; count--, rows += R, places += R) {                                      \
            const T *row[R], *right = b;                                                          \
            V sum[R][W];                                                                          \
            look_ahead(ahead);                                                                    \
            look_ahead(ahead + 1);                                                                \
            EACH(i, R) row[i] = a + rows[i];                                                      \
            if (accumulate) {                                                                     \
                EACH(i, R) EACH(v, W) sum[i][v] = LOAD(c + places[i] + v * LANES);                \
            } else if (bias) {                                                                    \
                EACH(i, R) EACH(v, W) sum[i][v] = LOAD(bias + v * LANES);                         \
            } else {                                                                              \
                EACH(i, R) EACH(v, W) sum[i][v] = (V){0};                                         \
            }                                                                                     \
            for (int64_t q = 0; q < k; q++, right += b_step) {                                    \
                int64_t at = cols[q];                                                             \
                V y[W];                                                                           \
                EACH(v, W) y[v] = LOAD(right + v * LANES);                                        \
                EACH(i, R)                                                                        \
                {                                                                                 \
                    V x = ALL(row[i][at]);                                                        \
                    EACH(v, W) sum[i][v] += x * y[v];                                             \
                }                                                                                 \
            }                                                                                     \
            if (relu) { /* a NaN stays */                                                         \
                EACH(i, R) EACH(v, W) sum[i][v] = (V)((I)sum[i][v] & ~(I)(sum[i][v] < 0));        \
            }                                                                                     \
            EACH(i, R) EACH(v, W) STORE(c + places[i] + v * LANES, sum[i][v]);                    \
        }                                                                                         \
    }

BLOCKS(NAME(wide), ROWS, 2)
BLOCKS(NAME(narrow), ROWS, 1)
BLOCKS(NAME(few_wide), FEW_ROWS, 2)
BLOCKS(NAME(few_narrow), FEW_ROWS, 1)
#undef BLOCKS

/* The last rows of a panel, or rows of a panel that is not full: through a tile that is. */
static void NAME(edge)(const uff_gathered_product *p, int64_t first, int rows, const T *b, T *c,
                       const T *bias, int64_t width, uff_ahead *ahead)
{
    T tile[ROWS * 2 * LANES] = {0};
    int64_t from[ROWS], to[ROWS];
    int few = rows <= FEW_ROWS;
    for (int i = 0; i < ROWS; i++) {
        from[i] = p->rows[first + (i < rows ? i : 0)];
        to[i] = i * 2 * LANES;
        if (p->accumulate && i < rows)
            memcpy(tile + to[i], c + p->places[first + i], (size_t)width * sizeof(T));
    }
    if (width > LANES)
        (few ? NAME(few_wide) : NAME(wide))(1, p->a, from, p->cols, p->k, b, p->b_step, tile, to, bias,
                                            p->accumulate, p->relu, ahead);
    else
        (few ? NAME(few_narrow) : NAME(narrow))(1, p->a, from, p->cols, p->k, b, p->b_step, tile, to,
                                                bias, p->accumulate, p->relu, ahead);
    for (int i = 0; i < rows; i++)
        memcpy(c + p->places[first + i], tile + to[i], (size_t)width * sizeof(T));
}

/* The columns of one panel, of which `width` exist. */
static void NAME(panel)(const uff_gathered_product *p, const T *b, T *c, const T *bias, int64_t width,
                        uff_ahead *ahead)
{
    T full_bias[2 * LANES] = {0};
    int64_t done = 0;
    if (bias && width < 2 * LANES) {
        memcpy(full_bias, bias, (size_t)width * sizeof(T));
        bias = full_bias;
    }
    if (width == 2 * LANES || width == LANES) {
        done = p->m / ROWS * ROWS;
        (width > LANES ? NAME(wide) : NAME(narrow))(p->m / ROWS, p->a, p->rows, p->cols, p->k, b,
                                                    p->b_step, c, p->places, bias, p->accumulate,
                                                    p->relu, ahead);
    }
    for (; done < p->m; done += ROWS)
        NAME(edge)(p, done, p->m - done < ROWS ? (int)(p->m - done) : ROWS, b, c, bias, width,
                   ahead);
}

static void NAME(product)(const uff_gathered_product *p)
{
    uff_ahead ahead[2] = {p->ahead[0], p->ahead[1]};
    for (int64_t j = 0, panel = 0; j < p->n; j += 2 * LANES, panel++) {
        int64_t width = p->n - j < 2 * LANES ? p->n - j : 2 * LANES;
        const T *bias = p->bias ? (const T *)p->bias + j : NULL;
        NAME(panel)(p, (const T *)p->b + panel * p->b_panel, (T *)p->c + j, bias, width, ahead);
    }
}

/* `channels` is a constant where this is expanded. */
static inline __attribute__((always_inline)) void NAME(add_pixels)(
    int64_t count, const int64_t channels, const T *src, int64_t src_step, T *dst, int64_t dst_step)
{
    for (int64_t p = 0; p < count; p++, src += src_step, dst += dst_step)
        for (int64_t c = 0; c < channels; c++)
            dst[c] += src[c];
}

static void NAME(add)(int64_t count, int64_t channels, const void *src, int64_t src_step, void *dst,
                      int64_t dst_step)
{
    switch (channels) {
    case 1:
        NAME(add_pixels)(count, 1, src, src_step, dst, dst_step);
        break;
    case 3:
        NAME(add_pixels)(count, 3, src, src_step, dst, dst_step);
        break;
    default:
        NAME(add_pixels)(count, channels, src, src_step, dst, dst_step);
    }
}
