/* Packing of one element type, part of convolution.c, which defines S (element in memory), E
 * (element of panels), WIDE(x) (an E of an S), LANES (of E), COPY(to, from) (a full row of a
 * panel), SQUARE, TURN (of turn.h: a square of so many elements a side) and NAME. */

static void NAME(pack)(int64_t k, int64_t n, const void *source, int64_t k_step, int64_t n_step,
                       void *panel)
{
    const S *src = source;
    E *dst = panel;
    int64_t width = 2 * LANES;
    if (n < width)
        memset(dst, 0, (size_t)(k * width) * sizeof(E));
    if (n_step == 1 && n == width) {
        for (int64_t q = 0; q < k; q++)
            COPY(dst + q * width, src + q * k_step);
        return;
    }
    /* blocks of q, so that lines of either side are used up while they are in cache */
    for (int64_t q0 = 0; q0 < k; q0 += 16) {
        int64_t q1 = q0 + 16 < k ? q0 + 16 : k;
        if (k_step == 1 && n >= SQUARE && k >= SQUARE) {
            for (int64_t j0 = 0; j0 < n; j0 += SQUARE) /* the last ones overlap those before */
                for (int64_t q = q0; q < q1; q += SQUARE) {
                    int64_t j = j0 + SQUARE <= n ? j0 : n - SQUARE;
                    int64_t at = q + SQUARE <= k ? q : k - SQUARE;
                    TURN(src + at + j * n_step, n_step, dst + at * width + j, width);
                }
            continue;
        }
        for (int64_t j = 0; j < n; j++)
            for (int64_t q = q0; q < q1; q++)
                dst[q * width + j] = WIDE(src[q * k_step + j * n_step]);
    }
}

static void NAME(gather)(int64_t k, int64_t n, const void *source, const int64_t *places, void *panels)
{
    const S *src = source;
    E *dst = panels;
    int64_t width = 2 * LANES, whole = n / width, rest = n % width;
    for (int64_t q = 0; q < k; q++) {
        const S *from = src + places[q];
        E *to = dst + q * width;
        for (int64_t panel = 0; panel < whole; panel++, from += width, to += k * width)
            COPY(to, from);
        if (rest) {
            for (int64_t j = 0; j < rest; j++)
                to[j] = WIDE(from[j]);
            for (int64_t j = rest; j < width; j++)
                to[j] = 0;
        }
    }
}

#undef S
#undef E
#undef WIDE
#undef LANES
#undef COPY
#undef SQUARE
#undef TURN
#undef NAME
