/* One element type's part of convolution.c, which defines T, V, I, LANES and NAME. */

/* Register blocks of R rows by W vectors: sums stay in registers over all q. */
#define BLOCKS(FN, R, W)                                                                          \
    static void FN(int64_t count, const T *a, const int64_t *rows, const int32_t *cols, int64_t k, \
                   const T *b, int64_t b_step, T *c, const int64_t *places, const T *bias,        \
                   int accumulate, int relu, uff_ahead *ahead)                                    \
    {                                                                                             \
        const int64_t piece = ahead[0].runs + ahead[1].runs ? UFF_AHEAD : k;                      \
        for (; count > 0; count--, rows += R, places += R) {                                      \
            const T *row[R], *right = b;                                                          \
            V sum[R][W];                                                                          \
            EACH(i, R) row[i] = a + rows[i];                                                      \
            if (accumulate) {                                                                     \
                EACH(i, R) EACH(v, W) sum[i][v] = LOAD(c + places[i] + v * LANES);                \
            } else if (bias) {                                                                    \
                EACH(i, R) EACH(v, W) sum[i][v] = LOAD(bias + v * LANES);                         \
            } else {                                                                              \
                EACH(i, R) EACH(v, W) sum[i][v] = (V){0};                                         \
            }                                                                                     \
            for (int64_t q = 0; q < k;) {                                                         \
                const int64_t stop = k - q < piece ? k : q + piece;                              \
                look_ahead(ahead);                                                                \
                look_ahead(ahead + 1);                                                            \
                for (; q < stop; q++, right += b_step) {                                          \
                    int64_t at = cols[q];                                                         \
                    V y[W];                                                                       \
                    EACH(v, W) y[v] = LOAD(right + v * LANES);                                    \
                    EACH(i, R)                                                                    \
                    {                                                                             \
                        V x = ALL(row[i][at]);                                                    \
                        EACH(v, W) sum[i][v] += x * y[v];                                         \
                    }                                                                             \
                }                                                                                 \
            }                                                                                     \
            if (relu) { /* a NaN stays */                                                         \
                EACH(i, R) EACH(v, W) sum[i][v] = (V)((I)sum[i][v] & ~(I)(sum[i][v] < 0));        \
            }                                                                                     \
            EACH(i, R) EACH(v, W) STORE(c + places[i] + v * LANES, sum[i][v]);                    \
        }                                                                                         \
    }
#define OF_ROWS(R)                    \
    BLOCKS(NAME(wide_##R), R, 2)      \
    BLOCKS(NAME(narrow_##R), R, 1)
EACH_ROWS(OF_ROWS)

typedef void (*NAME(blocks_fn))(int64_t, const T *, const int64_t *, const int32_t *, int64_t,
                                const T *, int64_t, T *, const int64_t *, const T *, int, int,
                                uff_ahead *);
#define WIDE_NAME(R) NAME(wide_##R),
#define NARROW_NAME(R) NAME(narrow_##R),
static const NAME(blocks_fn) NAME(wide)[] = {EACH_ROWS(WIDE_NAME)};
static const NAME(blocks_fn) NAME(narrow)[] = {EACH_ROWS(NARROW_NAME)};
#undef BLOCKS
#undef OF_ROWS
#undef WIDE_NAME
#undef NARROW_NAME

/* `count` blocks of `rows` rows of a panel that is not full: through a tile that is. */
static void NAME(edges)(const uff_gathered_product *p, int64_t first, int64_t count, int rows,
                        NAME(blocks_fn) block, const T *b, T *c, const T *bias, int64_t width,
                        uff_ahead *ahead)
{
    T tile[ROWS * 2 * LANES] = {0};
    int64_t to[ROWS];
    for (int i = 0; i < ROWS; i++)
        to[i] = i * 2 * LANES;
    for (; count > 0; count--, first += rows) {
        const int64_t *places = p->places + first;
        for (int i = 0; p->accumulate && i < rows; i++)
            memcpy(tile + to[i], c + places[i], (size_t)width * sizeof(T));
        block(1, p->a, p->rows + first, p->cols, p->k, b, p->b_step, tile, to, bias, p->accumulate,
              p->relu, ahead);
        for (int i = 0; i < rows; i++)
            memcpy(c + places[i], tile + to[i], (size_t)width * sizeof(T));
    }
}

/* The columns of one panel, of which `width` exist. Rows are cut as evenly as can be: a block of
 * few rows would wait for its own sums. */
static void NAME(panel)(const uff_gathered_product *p, const T *b, T *c, const T *bias, int64_t width,
                        uff_ahead *ahead)
{
    const NAME(blocks_fn) *of_rows = width > LANES ? NAME(wide) : NAME(narrow);
    const int64_t blocks = (p->m + ROWS - 1) / ROWS;
    T full_bias[2 * LANES] = {0};
    int64_t first = 0;
    if (bias && width < 2 * LANES) {
        memcpy(full_bias, bias, (size_t)width * sizeof(T));
        bias = full_bias;
    }
    for (int more = 1; more >= 0 && blocks; more--) { /* blocks of one row more come first */
        const int64_t count = more ? p->m % blocks : blocks - p->m % blocks;
        const int rows = (int)(p->m / blocks) + more;
        if (count == 0)
            continue;
        if (width == 2 * LANES || width == LANES)
            of_rows[rows - 1](count, p->a, p->rows + first, p->cols, p->k, b, p->b_step, c,
                              p->places + first, bias, p->accumulate, p->relu, ahead);
        else
            NAME(edges)(p, first, count, rows, of_rows[rows - 1], b, c, bias, width, ahead);
        first += count * rows;
    }
}

static void NAME(product)(const uff_gathered_product *p)
{
    uff_ahead ahead[2] = {p->ahead[0], p->ahead[1]};
    for (int64_t j = 0, panel = 0; j < p->n; j += 2 * LANES, panel++) {
        int64_t width = p->n - j < 2 * LANES ? p->n - j : 2 * LANES;
        const T *bias = p->bias ? (const T *)p->bias + j : NULL;
        NAME(panel)(p, (const T *)p->b + panel * p->b_panel, (T *)p->c + panel * p->c_panel, bias,
                    width, ahead);
    }
}

static void NAME(add)(int64_t m, int64_t n, const void *source, int64_t src_step, void *result,
                      const int64_t *places)
{
    const T *src = source;
    for (int64_t i = 0; i < m; i++, src += src_step) {
        T *dst = (T *)result + places[i];
        int64_t j = 0;
        for (; j + LANES <= n; j += LANES)
            STORE(dst + j, LOAD(dst + j) + LOAD(src + j));
        for (; j < n; j++)
            dst[j] += src[j];
    }
}
