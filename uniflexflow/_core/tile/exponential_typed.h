/* The part of exponential.h that is the same for both element types; that file includes this
 * one twice, with T, V, VU (element, vector, unaligned vector) and NAME defined. */

#define L ((int)(sizeof(V) / sizeof(T)))

/* Lane by lane b where it is larger than a, else a: a NaN in `a` stays, one in `b` doesn't
 * come in. */
UFF_FN V NAME(uff_vlarger)(V a, V b)
{
    return NAME(uff_select)(a < b, b, a);
}

/* The last elements of a row, fewer than a vector; the other lanes are `rest`. */
UFF_FN V NAME(uff_vtail)(const T *x, int64_t n, T rest)
{
    T lanes[sizeof(V) / sizeof(T)];
    for (int i = 0; i < L; i++)
        lanes[i] = i < n ? x[i] : rest;
    return *(const VU *)lanes;
}

UFF_FN void NAME(uff_vput_tail)(T *y, int64_t n, V v)
{
    for (int i = 0; i < n; i++)
        y[i] = v[i];
}

UFF_FN T NAME(uff_vsum)(V v)
{
    T sum = 0;
    _Pragma("GCC unroll 16")
    for (int i = 0; i < L; i++)
        sum += v[i];
    return sum;
}

/* The largest of n > 0 elements. NaN may be overlooked: it shows in the exponentials. */
UFF_FN T NAME(uff_highest)(const T *x, int64_t n)
{
    V high[4];
    int64_t i = 0;
    for (int q = 0; q < 4; q++)
        high[q] = (V){0} - (T)INFINITY;
    for (; i + 4 * L <= n; i += 4 * L)
        _Pragma("GCC unroll 4")
        for (int q = 0; q < 4; q++)
            high[q] = NAME(uff_vlarger)(high[q], *(const VU *)(x + i + q * L));
    for (; i + L <= n; i += L)
        high[0] = NAME(uff_vlarger)(high[0], *(const VU *)(x + i));
    if (i < n)
        high[1] = NAME(uff_vlarger)(high[1], NAME(uff_vtail)(x + i, n - i, -(T)INFINITY));
    high[0] = NAME(uff_vlarger)(NAME(uff_vlarger)(high[0], high[1]),
                                NAME(uff_vlarger)(high[2], high[3]));
    T y = high[0][0];
    _Pragma("GCC unroll 16")
    for (int q = 1; q < L; q++)
        y = y < high[0][q] ? high[0][q] : y;
    return y;
}

/* y = exp(x - shift) 2^up, of at most UFF_PIECE elements; returns the sum. `store` and `up`
 * are constants where this is expanded; without `store`, y is not touched. The processor does
 * not look ahead to another page: memory is asked for what lies `ahead` elements further on,
 * unless that is 0, and for the lines of y, which it would read when they are written. */
UFF_FN T NAME(uff_exponentials)(const int store, const int up, T *y, const T *x, T shift,
                                int64_t n, int64_t ahead)
{
    V sum[2] = {{0}, {0}};
    int64_t i = 0;
    for (; i + 2 * L <= n; i += 2 * L) {
        if (ahead) {
            __builtin_prefetch(x + i + ahead);
            if (store)
                __builtin_prefetch(y + i + UFF_PIECE / 4, 1);
        }
        _Pragma("GCC unroll 2")
        for (int q = 0; q < 2; q++) {
            const V e = NAME(uff_vexp)(*(const VU *)(x + i + q * L) - shift, up);
            if (store)
                *(VU *)(y + i + q * L) = e;
            sum[q] += e;
        }
    }
    for (; i + L <= n; i += L) {
        const V e = NAME(uff_vexp)(*(const VU *)(x + i) - shift, up);
        if (store)
            *(VU *)(y + i) = e;
        sum[0] += e;
    }
    if (i < n) {
        const V e = NAME(uff_vexp)(NAME(uff_vtail)(x + i, n - i, -(T)INFINITY) - shift, up);
        if (store)
            NAME(uff_vput_tail)(y + i, n - i, e);
        sum[1] += e;
    }
    return NAME(uff_vsum)(sum[0] + sum[1]);
}

/* log(sum(exp(x))) of n > 0 elements, read once, is high + rest: `high` is their largest if
 * it is finite, else 0. */
UFF_FN void NAME(uff_log_sum_exp)(const T *x, int64_t n, T *high, T *rest)
{
    T m = -(T)INFINITY;
    double sum = 0;
    for (int64_t at = 0; at < n; at += UFF_PIECE) {
        const int64_t count = n - at < UFF_PIECE ? n - at : UFF_PIECE;
        const T h = NAME(uff_highest)(x + at, count);
        if (h > m) {
            sum *= (double)NAME(uff_exp)(m - h);
            m = h;
        }
        const T shift = m > -(T)INFINITY ? m : 0;
        sum += NAME(uff_exponentials)(0, 0, 0, x + at, shift, count, UFF_PIECE);
    }
    *high = m - m == 0 ? m : 0;
    *rest = NAME(uff_log)((T)sum);
    if (m == (T)INFINITY) { /* unless there is a NaN too */
        *rest = m;
        for (int64_t i = 0; i < n; i++)
            *rest = x[i] != x[i] ? x[i] : *rest;
    }
}

#undef L
