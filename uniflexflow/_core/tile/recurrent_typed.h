/* The steps of recurrent.h for one element type; recurrent.c includes this once per type, with
 * T, VU (a vector of them, on any element), NAME and PANEL defined. */

#define L ((int)(sizeof(VU) / sizeof(T)))
#define LINE ((int)(64 / sizeof(T))) /* elements in a cache line */
#define WIDTH (PANEL * L)
#define SIGMOID NAME(uff_gate)
#define TANH NAME(uff_tanh)

/* Fetch into the second-level cache what a later step reads. */
INLINE void NAME(fetch)(const T *x, int64_t gates, int64_t units, int64_t width)
{
    for (int64_t k = 0; k < gates; k++, x += units)
        for (int64_t u = 0; u < width; u += LINE)
            __builtin_prefetch(x + u, 0, 2);
}

#define EACH_UNIT _Pragma("GCC ivdep") for (int64_t u = 0; u < n; u++)

/* -- forward ------------------------------------------------------------------------------ */

/* Functions are made of a whole tile at once, one after the other: a loop over many
 * independent numbers. (From a gate to tanh(c) to h is a chain of hundreds of cycles.) */

INLINE void NAME(sigmoids)(T *y, int64_t n)
{
    EACH_UNIT y[u] = SIGMOID(y[u]);
}

INLINE void NAME(tanhs)(T *y, int64_t n)
{
    EACH_UNIT y[u] = TANH(y[u]);
}

INLINE void NAME(add)(T *y, const T *x, const int64_t n)
{
    int64_t u = 0;
    for (; u + L <= n; u += L)
        *(VU *)(y + u) += *(const VU *)(x + u);
    for (; u < n; u++)
        y[u] += x[u];
}

INLINE void NAME(put)(T *y, const T *x, const int64_t n)
{
    int64_t u = 0;
    for (; u + L <= n; u += L)
        *(VU *)(y + u) = *(const VU *)(x + u);
    for (; u < n; u++)
        y[u] = x[u];
}

#define ROW(name, stride) ((T *)t.name + r * (stride))
#define EACH_ROW for (int64_t r = 0; r < t.rows; r++)

/* Cells are passed by value, so that what is stored can't change them. */

/* z += the inputs' part of the first gates; what the next step reads of all is fetched. */
INLINE void NAME(add_inputs)(const uff_cell t, int64_t some, int64_t all, const int64_t width)
{
    EACH_ROW
    {
        const T *x = ROW(x, t.x_row);
        for (int64_t gate = 0; gate < some; gate++)
            NAME(add)(ROW(z, t.z_row) + gate * t.z_gate, x + gate * t.units, width);
        if (t.ahead)
            NAME(fetch)(x + t.ahead, all, t.units, width);
    }
}

INLINE void NAME(put_gates)(const uff_cell t, int64_t gates, const int64_t width)
{
    EACH_ROW for (int64_t gate = 0; gate < gates; gate++)
        NAME(put)(ROW(gates, t.x_row) + gate * t.units,
                  ROW(z, t.z_row) + gate * t.z_gate, width);
}

/* h (like a gate of z), or what it was before, is the state after the step. */
INLINE void NAME(put_state)(const uff_cell t, const T *tile, const int64_t width)
{
    EACH_ROW
    {
        const int counts = !t.mask || t.mask[r * t.mask_row];
        const T *h = counts ? tile + r * t.z_row : ROW(before, t.units);
        NAME(put)(ROW(after, t.units), h, width);
        NAME(put)(ROW(hs, t.step_row), h, width);
    }
}

INLINE void NAME(lstm_tile)(const uff_cell t, const int64_t width)
{
    const int64_t n = t.z_gate;
    T *i = t.z, *f = i + n, *g = f + n, *o = g + n, *c = t.c;
    NAME(add_inputs)(t, 4, 4, width);
    NAME(sigmoids)(i, 2 * n);
    NAME(tanhs)(g, n);
    NAME(sigmoids)(o, n);
    NAME(put_gates)(t, 4, width);
    EACH_UNIT i[u] = f[u] * c[u] + i[u] * g[u];
    EACH_ROW
    {
        if (!t.mask || t.mask[r * t.mask_row])
            NAME(put)(c + r * t.z_row, i + r * t.z_row, width);
        NAME(put)(ROW(cs, t.step_row), c + r * t.z_row, width);
    }
    EACH_UNIT f[u] = o[u] * TANH(i[u]);
    NAME(put_state)(t, f, width);
}

INLINE void NAME(gru_tile)(const uff_cell t, const int64_t width)
{
    const int64_t n = t.z_gate, k = t.units;
    const T *bias = t.bias;
    T *z = t.z, *g = z + n, *m = g + n;
    EACH_ROW
    {
        NAME(add)(z + r * t.z_row, bias, width);
        NAME(add)(g + r * t.z_row, bias + k, width);
        NAME(add)(m + r * t.z_row, bias + 2 * k, width);
        NAME(put)(ROW(inner, t.step_row), m + r * t.z_row, width);
    }
    NAME(add_inputs)(t, 2, 3, width);
    NAME(sigmoids)(z, 2 * n);
    EACH_UNIT m[u] *= g[u];
    EACH_ROW NAME(add)(m + r * t.z_row, ROW(x, t.x_row) + 2 * k, width);
    NAME(tanhs)(m, n);
    NAME(put_gates)(t, 3, width);
    EACH_ROW
    {
        const T *before = ROW(before, k), *a = m + r * t.z_row;
        T *h = z + r * t.z_row;
        for (int64_t u = 0; u < width; u++)
            h[u] = h[u] * before[u] + (1 - h[u]) * a[u];
    }
    NAME(put_state)(t, z, width);
}

INLINE void NAME(simple_rnn_tile)(const uff_cell t, const int64_t width)
{
    NAME(add_inputs)(t, 1, 1, width);
    NAME(tanhs)(t.z, t.z_gate);
    NAME(put_state)(t, t.z, width);
}

/* The width is a constant for full tiles. */
#define FORWARD(kind)                                                                     \
    static void NAME(kind)(const uff_cell *cell)                                          \
    {                                                                                     \
        if (cell->width == WIDTH)                                                         \
            NAME(kind##_tile)(*cell, WIDTH);                                              \
        else                                                                              \
            NAME(kind##_tile)(*cell, cell->width);                                        \
    }

FORWARD(lstm)
FORWARD(gru)
FORWARD(simple_rnn)

/* -- backward ----------------------------------------------------------------------------- */

/* What a step that doesn't count leaves: no gradient of its products, dh and dc as they are. */
INLINE void NAME(skip)(const uff_cell_back *t, int64_t r, int64_t gates)
{
    const int64_t n = t->units;
    T *dh = (T *)t->dh + r * n;
    if (t->dhs) {
        const T *dhs = (const T *)t->dhs + r * t->step_row;
        EACH_UNIT dh[u] += dhs[u];
    }
    memset((T *)t->dz + r * gates * n, 0, gates * n * sizeof(T));
    memset((T *)t->dx + r * t->x_row, 0, gates * n * sizeof(T));
    if (t->dy)
        memset((T *)t->dy + r * t->x_row, 0, gates * n * sizeof(T));
}

/* `more` (dhs is given) is a constant where these are expanded. */
INLINE void NAME(lstm_back_row)(const uff_cell_back *t, int64_t r, const int more)
{
    const int64_t n = t->units;
    const T *gates = (const T *)t->gates + r * t->x_row, *cs = (const T *)t->cs + r * t->step_row;
    const T *dhs = (const T *)t->dhs + (more ? r * t->step_row : 0);
    const T *before = (const T *)t->before + r * t->before_row;
    T *dh = (T *)t->dh + r * n, *dc = (T *)t->dc + r * n;
    T *dz = (T *)t->dz + r * 4 * n, *dx = (T *)t->dx + r * t->x_row;
    EACH_UNIT
    {
        const T i = gates[u], f = gates[u + n], g = gates[u + 2 * n], o = gates[u + 3 * n];
        const T y = TANH(cs[u]), e = more ? dh[u] + dhs[u] : dh[u];
        const T d = dc[u] + e * o * (1 - y * y);
        const T di = d * g * i * (1 - i), df = d * before[u] * f * (1 - f);
        const T dg = d * i * (1 - g * g), dout = e * y * o * (1 - o);
        dz[u] = dx[u] = di;
        dz[u + n] = dx[u + n] = df;
        dz[u + 2 * n] = dx[u + 2 * n] = dg;
        dz[u + 3 * n] = dx[u + 3 * n] = dout;
        dc[u] = d * f;
        dh[u] = 0;
    }
}

INLINE void NAME(gru_back_row)(const uff_cell_back *t, int64_t r, const int more)
{
    const int64_t n = t->units;
    const T *gates = (const T *)t->gates + r * t->x_row;
    const T *inner = (const T *)t->inner + r * t->step_row;
    const T *dhs = (const T *)t->dhs + (more ? r * t->step_row : 0);
    const T *before = (const T *)t->before + r * t->before_row;
    T *dh = (T *)t->dh + r * n, *dz = (T *)t->dz + r * 3 * n;
    T *dx = (T *)t->dx + r * t->x_row, *dy = (T *)t->dy + r * t->x_row;
    EACH_UNIT
    {
        const T z = gates[u], g = gates[u + n], a = gates[u + 2 * n];
        const T e = more ? dh[u] + dhs[u] : dh[u];
        const T d0 = e * (before[u] - a) * z * (1 - z), d2 = e * (1 - z) * (1 - a * a);
        const T d1 = d2 * inner[u] * g * (1 - g), d3 = d2 * g;
        dx[u] = d0, dx[u + n] = d1, dx[u + 2 * n] = d2;
        dy[u] = dz[u] = d0;
        dy[u + n] = dz[u + n] = d1;
        dy[u + 2 * n] = dz[u + 2 * n] = d3;
        dh[u] = e * z;
    }
}

INLINE void NAME(simple_rnn_back_row)(const uff_cell_back *t, int64_t r, const int more)
{
    const int64_t n = t->units;
    const T *hs = (const T *)t->hs + r * t->step_row;
    const T *dhs = (const T *)t->dhs + (more ? r * t->step_row : 0);
    T *dh = (T *)t->dh + r * n, *dz = (T *)t->dz + r * n, *dx = (T *)t->dx + r * t->x_row;
    EACH_UNIT
    {
        const T e = more ? dh[u] + dhs[u] : dh[u];
        dz[u] = dx[u] = e * (1 - hs[u] * hs[u]);
        dh[u] = 0;
    }
}

#define BACK(kind, num_gates, state)                                                      \
    static void NAME(kind##_back)(const uff_cell_back *t)                                 \
    {                                                                                     \
        for (int64_t r = 0; r < t->rows; r++) {                                           \
            if (t->x_ahead && num_gates > 1)                                              \
                NAME(fetch)((const T *)t->gates + r * t->x_row + t->x_ahead, num_gates,   \
                            t->units, t->units);                                          \
            if (t->step_ahead)                                                            \
                NAME(fetch)((const T *)t->state + r * t->step_row + t->step_ahead, 1, 0,  \
                            t->units);                                                    \
            if (t->mask && !t->mask[r * t->mask_row])                                     \
                NAME(skip)(t, r, num_gates);                                              \
            else if (t->dhs)                                                              \
                NAME(kind##_back_row)(t, r, 1);                                           \
            else                                                                          \
                NAME(kind##_back_row)(t, r, 0);                                           \
        }                                                                                 \
    }

BACK(lstm, 4, cs)
BACK(gru, 3, inner)
BACK(simple_rnn, 1, hs)

#undef L
#undef LINE
#undef WIDTH
#undef SIGMOID
#undef TANH
#undef EACH_UNIT
#undef ROW
#undef EACH_ROW
#undef FORWARD
#undef BACK
