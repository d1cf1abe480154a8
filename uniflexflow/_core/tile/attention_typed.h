/* The functions of attention.h for one element type; attention.c includes this once per type,
 * with T, V, VU (element, vector, unaligned vector), NAME, and HIDDEN defined: the score of
 * what may not be looked at. It is finite, so that a row that may look at nothing has the
 * mean of all, and so low that adding log(n) doesn't change it: as log(sum(exp)) it marks
 * that row. */

#define L ((int)(sizeof(V) / sizeof(T)))

static void NAME(mask)(const uff_attention_tile *t)
{
    const int64_t n = t->n;
    for (int64_t r = 0; r < t->rows; r++) {
        T *s = (T *)t->s + r * t->ld;
        if (t->bias && t->bias_column) {
            const T *bias = (const T *)t->bias + r * t->bias_row;
            UFF_EACH s[i] += bias[i];
        } else if (t->bias) {
            const T bias = ((const T *)t->bias)[r * t->bias_row];
            UFF_EACH s[i] += bias;
        }
        if (t->mask && t->mask_column) {
            const uint8_t *mask = (const uint8_t *)t->mask + r * t->mask_row;
            UFF_EACH s[i] = mask[i] ? s[i] : HIDDEN;
        } else if (t->mask && !((const uint8_t *)t->mask)[r * t->mask_row]) {
            UFF_EACH s[i] = HIDDEN;
        }
    }
}

/* How many columns row r sees. */
UFF_FN int64_t NAME(seen)(const uff_attention_tile *t, int64_t r)
{
    return t->seen + r < t->n ? t->seen + r : t->n;
}

static void NAME(weigh)(const uff_attention_tile *t)
{
    T *high = t->high, *sum = t->sum;
    for (int64_t r = 0; r < t->rows; r++) {
        T *s = (T *)t->s + r * t->ld;
        const int64_t n = NAME(seen)(t, r);
        const T before = high[r], here = NAME(uff_highest)(s, n);
        const T now = before < here ? here : before;
        const T shift = now > -(T)INFINITY ? now : 0; /* all -inf so far: weights of 0 */
        const T weights = NAME(uff_exponentials)(1, 0, s, s, shift, n, 0);
        memset(s + n, 0, (t->n - n) * sizeof(T));
        if (before == now) {
            sum[r] += weights;
            continue;
        }
        const T shrink = NAME(uff_exp)(before - shift);
        high[r] = now;
        sum[r] = sum[r] * shrink + weights;
        if (before > -(T)INFINITY) {
            T *out = (T *)t->out + r * t->ld_out;
            for (int64_t i = 0; i < t->width; i++)
                out[i] *= shrink;
        }
    }
}

static int NAME(blind)(const void *lse)
{
    return *(const T *)lse == HIDDEN;
}

static void NAME(weigh_back)(const uff_attention_tile *t)
{
    const T *lse = t->lse, *delta = t->delta;
    for (int64_t r = 0; r < t->rows; r++) {
        T *s = (T *)t->s + r * t->ld, *d = (T *)t->d + r * t->ld;
        int64_t n = NAME(seen)(t, r), i = 0;
        if (lse[r] == HIDDEN)
            n = 0;
        for (; i + L <= n; i += L) {
            const V p = NAME(uff_vexp)(*(const VU *)(s + i) - lse[r], 0);
            *(VU *)(s + i) = p;
            *(VU *)(d + i) = p * (*(const VU *)(d + i) - delta[r]);
        }
        if (i < n) {
            const V p = NAME(uff_vexp)(NAME(uff_vtail)(s + i, n - i, lse[r]) - lse[r], 0);
            const V q = p * (NAME(uff_vtail)(d + i, n - i, 0) - delta[r]);
            NAME(uff_vput_tail)(s + i, n - i, p);
            NAME(uff_vput_tail)(d + i, n - i, q);
        }
        memset(s + n, 0, (t->n - n) * sizeof(T));
        memset(d + n, 0, (t->n - n) * sizeof(T));
    }
}

static void NAME(copy)(int64_t rows, int64_t n, double factor, const void *x, int64_t ld, void *out,
                       int64_t ld_out)
{
    const T scale = (T)factor;
    for (int64_t r = 0; r < rows; r++) {
        const T *a = (const T *)x + r * ld;
        T *y = (T *)out + r * ld_out;
        UFF_EACH y[i] = a[i] * scale;
        for (int64_t i = n; i < ld_out; i++)
            y[i] = 0;
    }
}

static void NAME(finish)(int64_t rows, int64_t n, const void *x, int64_t ld, const void *high,
                         const void *sum, void *out, int64_t ld_out, void *lse, int64_t step)
{
    for (int64_t r = 0; r < rows; r++) {
        const T *a = (const T *)x + r * ld;
        const T total = ((const T *)sum)[r], scale = 1 / total;
        T *y = (T *)out + r * ld_out;
        UFF_EACH y[i] = a[i] * scale;
        ((T *)lse)[r * step] = ((const T *)high)[r] + NAME(uff_log)(total);
    }
}

static void NAME(add)(int64_t rows, int64_t n, double factor, const void *x, int64_t ld, void *out)
{
    const T scale = (T)factor;
    T *y = out;
    for (int64_t r = 0; r < rows; r++) {
        const T *a = (const T *)x + r * ld;
        UFF_EACH y[i] += scale * a[i];
    }
}

#undef L
