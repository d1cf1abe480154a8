/* Packing for one element type; gemm.c includes this once per type, with NAME and
 *   S              element of A and B in memory
 *   E              element as it is packed
 *   STEP           how many of S along k are one of E: 1 or 2
 *   ALONG(p)       one E of what follows p along k in memory
 *   ACROSS(p, ld)  one E of p and, for pairs, what lies ld after it
 *   ACROSS_V       the same for a vector of E
 *   ONE(p)         the last E of an odd k: p alone
 *   turn_square    out[p * ldo + i] = ALONG(in + i * ldi + p * STEP), a square of 16 bytes a side
 * Here k counts E. `whole` of them have all of their elements, and there is one more if k is
 * larger. */

#define NR (NV * (UFF_VBYTES / (int)sizeof(E)))
#define SQUARE ((int)(16 / sizeof(E))) /* side of the squares that are turned at once */

/* out[p * ldo + i] = in[i * ldi + p] for i < rows, p < whole: squares turned in registers, the
 * last ones of a side overlapping those before. A line of every row is used up before the
 * next one: rows a power of two apart would not stay in the cache. */
INLINE void NAME(turn)(int64_t rows, int64_t whole, int64_t k, const S *in, int64_t ldi, E *out,
                       int64_t ldo)
{
    const int64_t line = 64 / sizeof(E);
    if (k > whole)
        for (int64_t i = 0; i < rows; i++)
            out[whole * ldo + i] = ONE(in + i * ldi + whole * STEP);
    if (rows < SQUARE || whole < SQUARE) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t p = 0; p < whole; p++)
                out[p * ldo + i] = ALONG(in + i * ldi + p * STEP);
        return;
    }
    for (int64_t start = 0; start + SQUARE <= whole; start += line) {
        const int64_t left = whole - start < line ? whole - start : line;
        for (int64_t i0 = 0; i0 < rows; i0 += SQUARE) {
            const int64_t i = i0 + SQUARE <= rows ? i0 : rows - SQUARE;
            const S *s = in + i * ldi + start * STEP;
            E *d = out + start * ldo + i;
            for (int64_t p = left; p >= SQUARE; p -= SQUARE, s += SQUARE * STEP, d += SQUARE * ldo)
                NAME(turn_square)(s, ldi, d, ldo);
        }
    }
    if (whole % SQUARE)
        for (int64_t i0 = 0; i0 < rows; i0 += SQUARE) {
            const int64_t i = i0 + SQUARE <= rows ? i0 : rows - SQUARE, p = whole - SQUARE;
            NAME(turn_square)(in + i * ldi + p * STEP, ldi, out + p * ldo + i, ldo);
        }
}

/* n elements side by side in memory; n is a constant where this is expanded */
INLINE void NAME(copy)(int n, const S *in, int64_t ldi, E *out)
{
    int q = 0;
    _Pragma("GCC unroll 4")
    for (; q + NR / NV <= n; q += NR / NV) {
        const __auto_type v = ACROSS_V(in + q, ldi);
        memcpy(out + q, &v, sizeof v);
    }
    _Pragma("GCC unroll 16")
    for (; q < n; q++)
        out[q] = ACROSS(in + q, ldi);
}

INLINE void NAME(copy_last)(int64_t n, const S *in, E *out)
{
    for (int64_t q = 0; q < n; q++)
        out[q] = ONE(in + q);
}

/* What lies in rows is packed by a few rows at a time, all panels of them: a panel alone would
 * touch a line of every row, and rows a page apart share too few places of the cache to keep
 * those lines for the next panel. */
#define PACK_DEPTH 8

#define COPY_ROWS(rows)                                                                    \
    static void NAME(copy_rows_##rows)(int64_t k, const S *in, int64_t ldi, E *out)        \
    {                                                                                      \
        for (; k > 0; k--, in += STEP * ldi, out += rows)                                  \
            NAME(copy)(rows, in, ldi, out);                                                \
    }
#define COPY_ROWS_NAME(rows) NAME(copy_rows_##rows),

EACH_MR(COPY_ROWS)

typedef void (*NAME(copy_fn))(int64_t, const S *, int64_t, E *);
static const NAME(copy_fn) NAME(copy_rows)[] = {EACH_MR(COPY_ROWS_NAME)};

static void NAME(pack_a)(int64_t m, int64_t depth, const void *a, int64_t lda, int form, void *out)
{
    const int64_t panels = (m + MR - 1) / MR, whole = depth / STEP, k = (depth + STEP - 1) / STEP;
    const int64_t some = form == UFF_A_ROWS ? k : PACK_DEPTH;
    for (int64_t p = 0; p < k; p += some) {
        const int64_t left = whole - p < some ? whole - p : some;
        for (int64_t s = 0; s < panels; s++) {
            const int64_t i = uff_gemm_cut(m, panels, s);
            const int64_t rows = uff_gemm_cut(m, panels, s + 1) - i;
            E *d = (E *)out + i * k + p * rows;
            const S *from = (const S *)a + (form == UFF_A_ROWS ? i * lda : p * STEP * lda + i);
            if (form == UFF_A_ROWS) {
                NAME(turn)(rows, whole, k, from, lda, d, rows);
            } else {
                NAME(copy_rows)[rows - 1](left, from, lda, d);
                if (k > whole && p + some >= k)
                    NAME(copy_last)(rows, from + left * STEP * lda, d + left * rows);
            }
        }
    }
}

static void NAME(pack_b)(int64_t n, int64_t depth, const void *b, int64_t ldb, int transposed,
                         void *out)
{
    const int64_t whole = depth / STEP, k = (depth + STEP - 1) / STEP;
    const S *from = b;
    E *d = out;
    int64_t j = 0;
    if (transposed) {
        for (; j + NR <= n; j += NR, d += NR * k)
            NAME(turn)(NR, whole, k, from + j * ldb, ldb, d, NR);
    } else {
        const int64_t full = n - n % NR;
        for (int64_t p = 0; p < whole; p += PACK_DEPTH) {
            const int64_t some = whole - p < PACK_DEPTH ? whole - p : PACK_DEPTH;
            for (j = 0; j < full; j += NR)
                for (int64_t q = p; q < p + some; q++)
                    NAME(copy)(NR, from + q * STEP * ldb + j, ldb, d + j * k + q * NR);
        }
        if (k > whole)
            for (j = 0; j < full; j += NR)
                NAME(copy_last)(NR, from + whole * STEP * ldb + j, d + j * k + whole * NR);
        j = full;
        d += full * k;
    }
    if (j == n)
        return;
    const int64_t width = n - j;
    for (int64_t p = 0; p < k; p++)
        for (int64_t q = width; q < NR; q++)
            d[p * NR + q] = 0;
    if (transposed) {
        NAME(turn)(width, whole, k, from + j * ldb, ldb, d, NR);
        return;
    }
    for (int64_t p = 0; p < whole; p++)
        for (int64_t q = 0; q < width; q++)
            d[p * NR + q] = ACROSS(from + p * STEP * ldb + j + q, ldb);
    if (k > whole)
        NAME(copy_last)(width, from + whole * STEP * ldb + j, d + whole * NR);
}

#undef NR
#undef SQUARE
#undef COPY_ROWS
#undef COPY_ROWS_NAME
#undef PACK_DEPTH
#undef S
#undef E
#undef STEP
#undef ALONG
#undef ACROSS
#undef ACROSS_V
#undef ONE
#undef NAME
