/* Block products for one element type; gemm.c includes this once per type, with NAME and
 *   T, V, VU, VI           element of C, vector, unaligned vector, its mask
 *   E, EV, EVU             element of A and B as they are multiplied, vector, unaligned vector
 *   SPREAD(x)              a vector that is x in all lanes
 *   MULTIPLY_ADD(c, x, b)  c += x * b
 *   ROUND(p, v)            store a vector of C as bfloat16; not defined if C never is */

#define L ((int)(sizeof(V) / sizeof(T)))
#define NR (NV * L)

/* -- the micro-tile ---------------------------------------------------------------- */

typedef struct {
    int64_t k, lda, ldb, ldc, ldo, n; /* n: columns to write, at most NR */
    int accumulate, act;
} NAME(micro_args);

/* A micro-tile that doesn't fill its vectors, from a copy of the accumulators. */
static __attribute__((noinline)) void NAME(finish_edge)(
    const NAME(micro_args) *g, int rows, const T *tile, T *c, const T *bias, uff_bf16 *out)
{
    for (int i = 0; i < rows; i++, tile += NR, c += g->ldc, out += out ? g->ldo : 0)
        for (int64_t j = 0; j < g->n; j++) {
            T x = tile[j];
            if (g->accumulate)
                x += c[j];
            if (bias)
                x += bias[j];
            x = g->act == UFF_ACT_RELU && x < 0 ? 0 : x;
            if (out)
                out[j] = uff_narrow((float)x);
            else
                c[j] = x;
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
                        const E *a, const E *b, T *c, const T *bias, uff_bf16 *out)
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
        const E *p[(MR + 2) / 3];
        _Pragma("GCC unroll 6")
        for (int q = 0; q < (MR + 2) / 3; q++)
            p[q] = a + 3 * q * lda;
        for (int64_t k = g->k; k > 0; k--) {
            EV bv[NV];
            _Pragma("GCC unroll 4")
            for (int v = 0; v < NV; v++)
                bv[v] = *(const EVU *)(b + v * L);
            b += ldb;
            _Pragma("GCC unroll 16")
            for (int i = 0; i < MR; i++)
                if (i < rows) {
                    EV x = SPREAD(p[i / 3][i % 3 * lda]);
                    _Pragma("GCC unroll 4")
                    for (int v = 0; v < NV; v++)
                        MULTIPLY_ADD(acc[i][v], x, bv[v]);
                }
            _Pragma("GCC unroll 6")
            for (int q = 0; q < (MR + 2) / 3; q++)
                p[q]++;
        }
    } else {
        for (int64_t k = g->k; k > 0; k--) {
            EV bv[NV];
            _Pragma("GCC unroll 4")
            for (int v = 0; v < NV; v++)
                bv[v] = *(const EVU *)(b + v * L);
            b += ldb;
            _Pragma("GCC unroll 16")
            for (int i = 0; i < MR; i++)
                if (i < rows) {
                    EV x = SPREAD(a[i]);
                    _Pragma("GCC unroll 4")
                    for (int v = 0; v < NV; v++)
                        MULTIPLY_ADD(acc[i][v], x, bv[v]);
                }
            a += lda;
        }
    }

    if (g->n < NR) {
        T tile[MR * NR];
        FOR_TILE *(VU *)(tile + i * NR + v * L) = acc[i][v];
        NAME(finish_edge)(g, rows, tile, c, bias, out);
        return;
    }
    if (g->accumulate)
        FOR_TILE acc[i][v] += *(const VU *)(c + i * ldc + v * L);
    if (bias)
        FOR_TILE acc[i][v] += *(const VU *)(bias + v * L);
    if (g->act == UFF_ACT_RELU) /* NaN is not below zero: it stays */
        FOR_TILE acc[i][v] = (V)(~(VI)(acc[i][v] < 0) & (VI)acc[i][v]);
#ifdef ROUND
    if (out) {
        FOR_TILE ROUND(out + i * g->ldo + v * L, acc[i][v]);
        return;
    }
#endif
    FOR_TILE *(VU *)(c + i * ldc + v * L) = acc[i][v];
}

#define MICRO(rows)                                                                            \
    static void NAME(micro_rows_##rows)(const NAME(micro_args) *g, const E *a, const E *b, T *c, \
                                        const T *bias, uff_bf16 *out)                          \
    {                                                                                          \
        NAME(micro)(rows, 1, g, a, b, c, bias, out);                                           \
    }                                                                                          \
    static void NAME(micro_columns_##rows)(const NAME(micro_args) *g, const E *a, const E *b,   \
                                           T *c, const T *bias, uff_bf16 *out)                 \
    {                                                                                          \
        NAME(micro)(rows, 0, g, a, b, c, bias, out);                                           \
    }
#define ROWS(rows) NAME(micro_rows_##rows),
#define COLUMNS(rows) NAME(micro_columns_##rows),

EACH_MR(MICRO)

typedef void (*NAME(micro_fn))(const NAME(micro_args) *, const E *, const E *, T *, const T *,
                               uff_bf16 *);
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
        .ldo = t->ldo,
        .accumulate = t->accumulate,
        .act = t->act,
    };
    const E *a = t->a;
    const T *bias = t->bias;
    for (int64_t j = 0; j < t->n; j += NR) {
        const E *b = (const E *)t->b + (t->b_packed ? j * t->k : j);
        T *c = (T *)t->c + j;
        g.n = t->n - j < NR ? t->n - j : NR;
        for (int64_t s = 0; s < panels; s++) {
            const int64_t i = uff_gemm_cut(t->m, panels, s);
            const int64_t rows = uff_gemm_cut(t->m, panels, s + 1) - i;
            const T *bias_j = bias ? bias + j : 0;
            T *c_ij = c + i * t->ldc;
            uff_bf16 *out = t->out ? (uff_bf16 *)t->out + i * t->ldo + j : 0;
            switch (t->a_form) {
            case UFF_A_ROWS:
                NAME(by_rows)[rows - 1](&g, a + i * t->lda, b, c_ij, bias_j, out);
                break;
            case UFF_A_COLUMNS:
                NAME(by_columns)[rows - 1](&g, a + i, b, c_ij, bias_j, out);
                break;
            default:
                g.lda = rows;
                NAME(by_columns)[rows - 1](&g, a + i * t->k, b, c_ij, bias_j, out);
            }
        }
    }
}

#undef L
#undef NR
#undef FOR_TILE
#undef MICRO
#undef ROWS
#undef COLUMNS
#undef T
#undef V
#undef VU
#undef VI
#undef E
#undef EV
#undef EVU
#undef SPREAD
#undef MULTIPLY_ADD
#undef ROUND
#undef NAME
