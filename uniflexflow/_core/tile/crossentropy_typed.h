/* The functions of crossentropy.h for one element type; crossentropy.c includes this once per
 * type, with T, V, VU (element, vector, unaligned vector) and NAME defined. */

#define L ((int)(sizeof(V) / sizeof(T)))

/* The class of row r; -1 if it is none. */
UFF_FN int64_t NAME(class_of)(const uff_crossentropy_rows *t, int64_t r)
{
    const int64_t label = t->wide ? ((const int64_t *)t->target)[r]
                                  : ((const int32_t *)t->target)[r];
    return label >= 0 && label < t->n ? label : -1;
}

static void NAME(sparse)(const uff_crossentropy_rows *t)
{
    const T *x = t->x;
    T *loss = t->loss, *lse = t->lse, high, rest;
    for (int64_t r = 0; r < t->rows; r++, x += t->n) {
        const int64_t label = NAME(class_of)(t, r);
        NAME(uff_log_sum_exp)(x, t->n, &high, &rest);
        lse[r] = rest + high;
        loss[r] = label < 0 ? (T)NAN : rest - (x[label] - high);
    }
}

static void NAME(dense)(const uff_crossentropy_rows *t)
{
    const T *x = t->x, *target = t->target;
    T *loss = t->loss, *lse = t->lse, *total = t->total, high, rest;
    const int64_t n = t->n;
    for (int64_t r = 0; r < t->rows; r++, x += n, target += n) {
        NAME(uff_log_sum_exp)(x, n, &high, &rest);
        lse[r] = rest + high;
        double all = 0, weighted = 0;
        for (int64_t at = 0; at < n; at += UFF_PIECE) {
            const int64_t end = n - at < UFF_PIECE ? n : at + UFF_PIECE;
            V p = {0}, q = {0};
            int64_t i = at;
            for (; i + L <= end; i += L) {
                const V w = *(const VU *)(target + i);
                p += w;
                q += w * (rest - (*(const VU *)(x + i) - high));
            }
            for (; i < end; i++) {
                all += target[i];
                weighted += target[i] * (rest - (x[i] - high));
            }
            all += NAME(uff_vsum)(p);
            weighted += NAME(uff_vsum)(q);
        }
        loss[r] = (T)weighted;
        total[r] = (T)all;
    }
}

/* a exp(x - lse), less b target if there is one */
UFF_FN void NAME(gradient_row)(const int dense, T *dx, const T *x, const T *target, T lse, T a,
                               T b, int64_t n)
{
    int64_t i = 0;
    for (; i + L <= n; i += L) {
        __builtin_prefetch(x + i + UFF_PIECE); /* as in uff_exponentials */
        __builtin_prefetch(dx + i + UFF_PIECE / 4, 1);
        V y = NAME(uff_vexp)(*(const VU *)(x + i) - lse, 0) * a;
        if (dense)
            y -= *(const VU *)(target + i) * b;
        *(VU *)(dx + i) = y;
    }
    if (i < n) {
        V y = NAME(uff_vexp)(NAME(uff_vtail)(x + i, n - i, lse) - lse, 0) * a;
        if (dense)
            y -= NAME(uff_vtail)(target + i, n - i, 0) * b;
        NAME(uff_vput_tail)(dx + i, n - i, y);
    }
}

static void NAME(sparse_gradient)(const uff_crossentropy_rows *t)
{
    const T *x = t->x, *lse = t->given_lse, *a = t->a, *b = t->b;
    const int64_t n = t->n;
    T *dx = t->dx;
    for (int64_t r = 0; r < t->rows; r++, x += n, dx += n) {
        const int64_t label = NAME(class_of)(t, r);
        if (a[r] == 0 && b[r] == 0) {
            memset(dx, 0, n * sizeof(T));
        } else if (label < 0) {
            UFF_EACH dx[i] = (T)NAN;
        } else {
            NAME(gradient_row)(0, dx, x, 0, lse[r], a[r], 0, n);
            dx[label] -= b[r];
        }
    }
}

static void NAME(dense_gradient)(const uff_crossentropy_rows *t)
{
    const T *x = t->x, *target = t->target, *lse = t->given_lse, *a = t->a, *b = t->b;
    const int64_t n = t->n;
    T *dx = t->dx;
    for (int64_t r = 0; r < t->rows; r++, x += n, target += n, dx += n) {
        if (a[r] == 0 && b[r] == 0)
            memset(dx, 0, n * sizeof(T));
        else
            NAME(gradient_row)(1, dx, x, target, lse[r], a[r], b[r], n);
    }
}

#undef L
