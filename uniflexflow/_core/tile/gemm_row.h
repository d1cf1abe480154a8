/* A vector times a matrix, for one element type; gemm.c includes this once per type, with NAME and
 *   T, V, VU   element in which sums are made, vector, unaligned vector
 *   S          element of x, of the matrix and of the bias in memory
 *   WIDE(x)    a T of an S
 *   LOAD(p)    a V of the S at p */

#define L ((int)(sizeof(V) / sizeof(T)))
#define ROW_BLOCK 1024 /* elements of y that stay in the first-level cache */
#define ROW_DEPTH 8    /* rows of the matrix read at once */

INLINE T NAME(finish)(const uff_gemm_row *t, int64_t j, T y)
{
    if (t->bias)
        y += WIDE(((const S *)t->bias)[j * t->bias_step]);
    return t->act == UFF_ACT_RELU && y < 0 ? 0 : y;
}

/* y[j0 : j1] += the products with rows p .. p + depth - 1 of the matrix; `depth` and
 * `first` (y is not read) are constants where this is expanded. */
INLINE void NAME(add_rows)(const int depth, const int first, const S *x, const S *s, int64_t ld,
                           int64_t n, T *y)
{
    int64_t j = 0;
    for (; j + L <= n; j += L) {
        V sum = {0};
        if (!first)
            sum = *(const VU *)(y + j);
        _Pragma("GCC unroll 8")
        for (int q = 0; q < depth; q++)
            sum += (WIDE(x[q]) - (V){0}) * LOAD(s + q * ld + j);
        *(VU *)(y + j) = sum;
    }
    for (; j < n; j++) {
        T sum = first ? 0 : y[j];
        _Pragma("GCC unroll 8")
        for (int q = 0; q < depth; q++)
            sum += WIDE(x[q]) * WIDE(s[q * ld + j]);
        y[j] = sum;
    }
}

static void NAME(row_by_rows)(const uff_gemm_row *t)
{
    const S *x = t->x;
    T room[ROW_BLOCK]; /* sums that are rounded when they are whole */
    for (int64_t j = 0; j < t->n; j += ROW_BLOCK) {
        const int64_t width = t->n - j < ROW_BLOCK ? t->n - j : ROW_BLOCK;
        const S *s = (const S *)t->matrix + j;
        T *y = t->rounded ? room : (T *)t->y + j;
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
        if (t->rounded)
            for (int64_t i = 0; i < width; i++)
                ((uff_bf16 *)t->y)[j + i] = uff_narrow((float)y[i]);
    }
}

static void NAME(row_by_columns)(const uff_gemm_row *t)
{
    const S *x = t->x;
    for (int64_t j = 0; j < t->n; j++) {
        const S *s = (const S *)t->matrix + j * t->ld;
        V acc[4] = {{0}};
        int64_t p = 0;
        for (; p + 4 * L <= t->k; p += 4 * L)
            _Pragma("GCC unroll 4")
            for (int q = 0; q < 4; q++)
                acc[q] += LOAD(x + p + q * L) * LOAD(s + p + q * L);
        for (; p + L <= t->k; p += L)
            acc[0] += LOAD(x + p) * LOAD(s + p);
        const V lanes = (acc[0] + acc[1]) + (acc[2] + acc[3]);
        T sum = 0;
        _Pragma("GCC unroll 16")
        for (int q = 0; q < L; q++)
            sum += lanes[q];
        for (; p < t->k; p++)
            sum += WIDE(x[p]) * WIDE(s[p]);
        sum = NAME(finish)(t, j, sum);
        if (t->rounded)
            ((uff_bf16 *)t->y)[j] = uff_narrow((float)sum);
        else
            ((T *)t->y)[j] = sum;
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
#undef ROW_BLOCK
#undef ROW_DEPTH
#undef T
#undef V
#undef VU
#undef S
#undef WIDE
#undef LOAD
#undef NAME
