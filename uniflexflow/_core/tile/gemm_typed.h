/* The functions of gemm.h for one element type; gemm.c includes this once per type, with
 * T, V, VU, VI (element, vector, unaligned vector, its mask) and NAME defined. */

#define L ((int)(sizeof(V) / sizeof(T)))
#define NR (NV * L)
#define SQUARE ((int)(16 / sizeof(T))) /* side of the squares that are turned at once */

/* -- the micro-tile ---------------------------------------------------------------- */

typedef struct {
    int64_t k, lda, ldb, ldc, n; /* n: columns to write, at most NR */
    int accumulate, act;
} NAME(micro_args);

/* A micro-tile that doesn't fill its vectors, from a copy of the accumulators. */
static __attribute__((noinline)) void NAME(finish_edge)(
    const NAME(micro_args) *g, int rows, const T *tile, T *c, const T *bias)
{
    for (int i = 0; i < rows; i++, tile += NR, c += g->ldc)
        for (int64_t j = 0; j < g->n; j++) {
            T x = tile[j];
            if (g->accumulate)
                x += c[j];
            if (bias)
                x += bias[j];
            c[j] = g->act == UFF_ACT_RELU && x < 0 ? 0 : x;
        }
}

#define FOR_TILE                        \
    _Pragma("GCC unroll 16")            \
    for (int i = 0; i < MR; i++)        \
        if (i < rows)                   \
            _Pragma("GCC unroll 4")     \
            for (int v = 0; v < NV; v++)

/* `rows` and `by_rows` are constants where this is expanded. */
INLINE void NAME(micro)(const int rows, const int by_rows, const NAME(micro_args) *g,
                        const T *a, const T *b, T *c, const T *bias)
{
    V acc[MR][NV];
    FOR_TILE acc[i][v] = (V){0};

    const int64_t lda = g->lda, ldb = g->ldb, ldc = g->ldc;
    _Pragma("GCC unroll 16")
    for (int i = 0; i < MR; i++) /* C comes while the sums are made */
        if (i < rows) {
            __builtin_prefetch(c + i * ldc, 1);
            __builtin_prefetch(c + i * ldc + NR - 1, 1);
        }
    if (by_rows) {
        /* A pointer for each three rows: base, base + lda and base + 2 * lda are one
         * addressing mode each. */
        const T *p[(MR + 2) / 3];
        _Pragma("GCC unroll 6")
        for (int q = 0; q < (MR + 2) / 3; q++)
            p[q] = a + 3 * q * lda;
        for (int64_t k = g->k; k > 0; k--) {
            V bv[NV];
            _Pragma("GCC unroll 4")
            for (int v = 0; v < NV; v++)
                bv[v] = *(const VU *)(b + v * L);
            b += ldb;
            _Pragma("GCC unroll 16")
            for (int i = 0; i < MR; i++)
                if (i < rows) {
                    V x = p[i / 3][i % 3 * lda] - (V){0};
                    _Pragma("GCC unroll 4")
                    for (int v = 0; v < NV; v++)
                        acc[i][v] += x * bv[v];
                }
            _Pragma("GCC unroll 6")
            for (int q = 0; q < (MR + 2) / 3; q++)
                p[q]++;
        }
    } else {
        for (int64_t k = g->k; k > 0; k--) {
            V bv[NV];
            _Pragma("GCC unroll 4")
            for (int v = 0; v < NV; v++)
                bv[v] = *(const VU *)(b + v * L);
            b += ldb;
            _Pragma("GCC unroll 16")
            for (int i = 0; i < MR; i++)
                if (i < rows) {
                    V x = a[i] - (V){0};
                    _Pragma("GCC unroll 4")
                    for (int v = 0; v < NV; v++)
                        acc[i][v] += x * bv[v];
                }
            a += lda;
        }
    }

    if (g->n < NR) {
        T tile[MR * NR];
        FOR_TILE *(VU *)(tile + i * NR + v * L) = acc[i][v];
        NAME(finish_edge)(g, rows, tile, c, bias);
        return;
    }
    if (g->accumulate)
        FOR_TILE acc[i][v] += *(const VU *)(c + i * ldc + v * L);
    if (bias)
        FOR_TILE acc[i][v] += *(const VU *)(bias + v * L);
    if (g->act == UFF_ACT_RELU) /* NaN is not below zero: it stays */
        FOR_TILE acc[i][v] = (V)(~(VI)(acc[i][v] < 0) & (VI)acc[i][v]);
    FOR_TILE *(VU *)(c + i * ldc + v * L) = acc[i][v];
}

#define MICRO(rows)                                                                            \
    static void NAME(micro_rows_##rows)(const NAME(micro_args) *g, const T *a, const T *b, T *c, \
                                        const T *bias)                                         \
    {                                                                                          \
        NAME(micro)(rows, 1, g, a, b, c, bias);                                                \
    }                                                                                          \
    static void NAME(micro_columns_##rows)(const NAME(micro_args) *g, const T *a, const T *b,   \
                                           T *c, const T *bias)                                \
    {                                                                                          \
        NAME(micro)(rows, 0, g, a, b, c, bias);                                                \
    }
#define ROWS(rows) NAME(micro_rows_##rows),
#define COLUMNS(rows) NAME(micro_columns_##rows),

#if MR == 14
#define EACH_MR(X) \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#elif MR == 8
#define EACH_MR(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#elif MR == 6
#define EACH_MR(X) X(1) X(2) X(3) X(4) X(5) X(6)
#elif MR == 4
#define EACH_MR(X) X(1) X(2) X(3) X(4)
#endif

EACH_MR(MICRO)

typedef void (*NAME(micro_fn))(const NAME(micro_args) *, const T *, const T *, T *, const T *);
static const NAME(micro_fn) NAME(by_rows)[] = {EACH_MR(ROWS)};
static const NAME(micro_fn) NAME(by_columns)[] = {EACH_MR(COLUMNS)};

/* -- a block: micro-tiles of one panel of B after another --------------------------- */

static void NAME(block)(const uff_gemm_block *t)
{
    const int64_t panels = (t->m + MR - 1) / MR;
    NAME(micro_args) g = {
        .k = t->k,
        .lda = t->lda,
        .ldb = t->b_packed ? NR : t->ldb,
        .ldc = t->ldc,
        .accumulate = t->accumulate,
        .act = t->act,
    };
    const T *a = t->a, *bias = t->bias;
    for (int64_t j = 0; j < t->n; j += NR) {
        const T *b = (const T *)t->b + (t->b_packed ? j * t->k : j);
        T *c = (T *)t->c + j;
        g.n = t->n - j < NR ? t->n - j : NR;
        for (int64_t s = 0; s < panels; s++) {
            const int64_t i = uff_gemm_cut(t->m, panels, s);
            const int64_t rows = uff_gemm_cut(t->m, panels, s + 1) - i;
            const T *bias_j = bias ? bias + j : 0;
            T *c_ij = c + i * t->ldc;
            switch (t->a_form) {
            case UFF_A_ROWS:
                NAME(by_rows)[rows - 1](&g, a + i * t->lda, b, c_ij, bias_j);
                break;
            case UFF_A_COLUMNS:
                NAME(by_columns)[rows - 1](&g, a + i, b, c_ij, bias_j);
                break;
            default:
                g.lda = rows;
                NAME(by_columns)[rows - 1](&g, a + i * t->k, b, c_ij, bias_j);
            }
        }
    }
}

/* -- packing ------------------------------------------------------------------------ */

/* out[p * ldo + i] = in[i * ldi + p] for i < rows, p < k: squares turned in registers, the
 * last ones of a side overlapping those before. A line of every row is used up before the
 * next one: rows a power of two apart would not stay in the cache. */
INLINE void NAME(turn)(int64_t rows, int64_t k, const T *in, int64_t ldi, T *out, int64_t ldo)
{
    const int64_t line = 64 / sizeof(T);
    if (rows < SQUARE || k < SQUARE) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t p = 0; p < k; p++)
                out[p * ldo + i] = in[i * ldi + p];
        return;
    }
    for (int64_t start = 0; start + SQUARE <= k; start += line) {
        const int64_t left = k - start < line ? k - start : line;
        for (int64_t i0 = 0; i0 < rows; i0 += SQUARE) {
            const int64_t i = i0 + SQUARE <= rows ? i0 : rows - SQUARE;
            const T *s = in + i * ldi + start;
            T *d = out + start * ldo + i;
            for (int64_t p = left; p >= SQUARE; p -= SQUARE, s += SQUARE, d += SQUARE * ldo)
                NAME(turn_square)(s, ldi, d, ldo);
        }
    }
    if (k % SQUARE)
        for (int64_t i0 = 0; i0 < rows; i0 += SQUARE) {
            const int64_t i = i0 + SQUARE <= rows ? i0 : rows - SQUARE, p = k - SQUARE;
            NAME(turn_square)(in + i * ldi + p, ldi, out + p * ldo + i, ldo);
        }
}

/* What lies in rows is packed by a few rows at a time, all panels of them: a panel alone would
 * touch a line of every row, and rows a page apart share too few places of the cache to keep
 * those lines for the next panel. */
#define PACK_DEPTH 8

#define COPY_ROWS(rows)                                                                    \
    static void NAME(copy_rows_##rows)(int64_t k, const T *in, int64_t ldi, T *out)        \
    {                                                                                      \
        for (; k > 0; k--, in += ldi, out += rows)                                         \
            memcpy(out, in, rows * sizeof(T));                                             \
    }
#define COPY_ROWS_NAME(rows) NAME(copy_rows_##rows),

EACH_MR(COPY_ROWS)

typedef void (*NAME(copy_fn))(int64_t, const T *, int64_t, T *);
static const NAME(copy_fn) NAME(copy_rows)[] = {EACH_MR(COPY_ROWS_NAME)};

static void NAME(pack_a)(int64_t m, int64_t k, const void *a, int64_t lda, int form, void *out)
{
    const int64_t panels = (m + MR - 1) / MR;
    const int64_t depth = form == UFF_A_ROWS ? k : PACK_DEPTH;
    for (int64_t p = 0; p < k; p += depth) {
        const int64_t left = k - p < depth ? k - p : depth;
        for (int64_t s = 0; s < panels; s++) {
            const int64_t i = uff_gemm_cut(m, panels, s);
            const int64_t rows = uff_gemm_cut(m, panels, s + 1) - i;
            T *d = (T *)out + i * k + p * rows;
            if (form == UFF_A_ROWS)
                NAME(turn)(rows, k, (const T *)a + i * lda, lda, d, rows);
            else
                NAME(copy_rows)[rows - 1](left, (const T *)a + p * lda + i, lda, d);
        }
    }
}

static void NAME(pack_b)(int64_t n, int64_t k, const void *b, int64_t ldb, int transposed,
                         void *out)
{
    T *d = out;
    int64_t j = 0;
    if (transposed) {
        for (; j + NR <= n; j += NR, d += NR * k)
            NAME(turn)(NR, k, (const T *)b + j * ldb, ldb, d, NR);
    } else {
        const int64_t whole = n - n % NR;
        for (int64_t p = 0; p < k; p += PACK_DEPTH) {
            const int64_t depth = k - p < PACK_DEPTH ? k - p : PACK_DEPTH;
            for (j = 0; j < whole; j += NR)
                for (int64_t q = p; q < p + depth; q++)
                    memcpy(d + j * k + q * NR, (const T *)b + q * ldb + j, NR * sizeof(T));
        }
        j = whole;
        d += whole * k;
    }
    if (j == n)
        return;
    const int64_t width = n - j;
    for (int64_t p = 0; p < k; p++)
        for (int64_t q = width; q < NR; q++)
            d[p * NR + q] = 0;
    if (transposed) {
        NAME(turn)(width, k, (const T *)b + j * ldb, ldb, d, NR);
        return;
    }
    const T *s = (const T *)b + j;
    for (int64_t p = 0; p < k; p++)
        for (int64_t q = 0; q < width; q++)
            d[p * NR + q] = s[p * ldb + q];
}

/* -- a vector times a matrix -------------------------------------------------------- */

#define ROW_BLOCK 1024 /* elements of y that stay in the first-level cache */
#define ROW_DEPTH 8    /* rows of the matrix read at once */

INLINE T NAME(finish)(const uff_gemm_row *t, int64_t j, T y)
{
    if (t->bias)
        y += ((const T *)t->bias)[j * t->bias_step];
    return t->act == UFF_ACT_RELU && y < 0 ? 0 : y;
}

/* y[j0 : j1] += the products with rows p .. p + depth - 1 of the matrix; `depth` and
 * `first` (y is not read) are constants where this is expanded. */
INLINE void NAME(add_rows)(const int depth, const int first, const T *x, const T *s, int64_t ld,
                           int64_t n, T *y)
{
    int64_t j = 0;
    for (; j + L <= n; j += L) {
        V sum = {0};
        if (!first)
            sum = *(const VU *)(y + j);
        _Pragma("GCC unroll 8")
        for (int q = 0; q < depth; q++)
            sum += (x[q] - (V){0}) * *(const VU *)(s + q * ld + j);
        *(VU *)(y + j) = sum;
    }
    for (; j < n; j++) {
        T sum = first ? 0 : y[j];
        _Pragma("GCC unroll 8")
        for (int q = 0; q < depth; q++)
            sum += x[q] * s[q * ld + j];
        y[j] = sum;
    }
}

static void NAME(row_by_rows)(const uff_gemm_row *t)
{
    const T *x = t->x;
    for (int64_t j = 0; j < t->n; j += ROW_BLOCK) {
        const int64_t width = t->n - j < ROW_BLOCK ? t->n - j : ROW_BLOCK;
        const T *s = (const T *)t->matrix + j;
        T *y = (T *)t->y + j;
        int64_t p = 0;
        if (t->k >= ROW_DEPTH) {
            NAME(add_rows)(ROW_DEPTH, 1, x, s, t->ld, width, y);
            p = ROW_DEPTH;
        } else {
            memset(y, 0, width * sizeof(T));
        }
        for (; p + ROW_DEPTH <= t->k; p += ROW_DEPTH)
            NAME(add_rows)(ROW_DEPTH, 0, x + p, s + p * t->ld, t->ld, width, y);
        for (; p < t->k; p++)
            NAME(add_rows)(1, 0, x + p, s + p * t->ld, t->ld, width, y);
        if (t->bias || t->act)
            for (int64_t i = 0; i < width; i++)
                y[i] = NAME(finish)(t, j + i, y[i]);
    }
}

static void NAME(row_by_columns)(const uff_gemm_row *t)
{
    const T *x = t->x;
    T *y = t->y;
    for (int64_t j = 0; j < t->n; j++) {
        const T *s = (const T *)t->matrix + j * t->ld;
        V acc[4] = {{0}};
        int64_t p = 0;
        for (; p + 4 * L <= t->k; p += 4 * L)
            _Pragma("GCC unroll 4")
            for (int q = 0; q < 4; q++)
                acc[q] += *(const VU *)(x + p + q * L) * *(const VU *)(s + p + q * L);
        for (; p + L <= t->k; p += L)
            acc[0] += *(const VU *)(x + p) * *(const VU *)(s + p);
        const V lanes = (acc[0] + acc[1]) + (acc[2] + acc[3]);
        T sum = 0;
        _Pragma("GCC unroll 16")
        for (int q = 0; q < L; q++)
            sum += lanes[q];
        for (; p < t->k; p++)
            sum += x[p] * s[p];
        y[j] = NAME(finish)(t, j, sum);
    }
}

static void NAME(row)(const uff_gemm_row *t)
{
    if (t->transposed)
        NAME(row_by_columns)(t);
    else
        NAME(row_by_rows)(t);
}

#undef L
#undef NR
#undef SQUARE
#undef FOR_TILE
#undef MICRO
#undef ROWS
#undef COLUMNS
#undef EACH_MR
#undef COPY_ROWS
#undef COPY_ROWS_NAME
#undef PACK_DEPTH
#undef ROW_BLOCK
#undef ROW_DEPTH
