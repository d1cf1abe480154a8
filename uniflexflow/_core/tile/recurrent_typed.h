/* The steps of recurrent.h for one element type; recurrent.c includes this once per type, with
 * T, NAME and LINE (elements in a cache line) defined. */

#define SIGMOID NAME(uff_sigmoid)
#define TANH NAME(uff_tanh)

/* Fetch into the second-level cache what a later step reads. */
INLINE void NAME(fetch)(const T *x, int64_t gates, int64_t units, int64_t width)
{
    for (int64_t k = 0; k < gates; k++, x += units)
        for (int64_t u = 0; u < width; u += LINE)
            __builtin_prefetch(x + u, 0, 2);
}

INLINE void NAME(copy)(T *restrict to, const T *restrict from, int64_t n)
{
    memcpy(to, from, n * sizeof(T));
}

/* `n` is a constant where this is expanded for tiles of full width. */
#define EACH_UNIT _Pragma("GCC ivdep") for (int64_t u = 0; u < n; u++)

/* -- forward ------------------------------------------------------------------------------ */

INLINE void NAME(lstm_rows)(const uff_cell *t, const int64_t n)
{
    const int64_t k = t->units, zk = t->z_gate;
    for (int64_t r = 0; r < t->rows; r++) {
        const T *z = (const T *)t->z + r * t->z_row, *x = (const T *)t->x + r * t->x_row;
        const T *before = (const T *)t->before + r * k;
        T *gates = (T *)t->gates + r * t->x_row, *c = (T *)t->c + r * k;
        T *after = (T *)t->after + r * k;
        T *hs = (T *)t->hs + r * t->step_row, *cs = (T *)t->cs + r * t->step_row;
        const int real = !t->mask || t->mask[r * t->mask_row];
        if (t->ahead)
            NAME(fetch)(x + t->ahead, 4, k, n);
        T new_h[MAX_WIDTH], new_c[MAX_WIDTH];
        EACH_UNIT
        {
            const T i = SIGMOID(x[u] + z[u]), f = SIGMOID(x[u + k] + z[u + zk]);
            const T g = TANH(x[u + 2 * k] + z[u + 2 * zk]);
            const T o = SIGMOID(x[u + 3 * k] + z[u + 3 * zk]);
            gates[u] = i, gates[u + k] = f, gates[u + 2 * k] = g, gates[u + 3 * k] = o;
            new_c[u] = f * c[u] + i * g;
            new_h[u] = o * TANH(new_c[u]);
        }
        if (real)
            NAME(copy)(c, new_c, n);
        NAME(copy)(after, real ? new_h : before, n);
        NAME(copy)(hs, after, n);
        NAME(copy)(cs, c, n);
    }
}

INLINE void NAME(gru_rows)(const uff_cell *t, const int64_t n)
{
    const int64_t k = t->units, zk = t->z_gate;
    const T *bias = t->bias;
    for (int64_t r = 0; r < t->rows; r++) {
        const T *y = (const T *)t->z + r * t->z_row, *x = (const T *)t->x + r * t->x_row;
        const T *before = (const T *)t->before + r * k;
        T *gates = (T *)t->gates + r * t->x_row, *after = (T *)t->after + r * k;
        T *hs = (T *)t->hs + r * t->step_row, *inner = (T *)t->inner + r * t->step_row;
        const int real = !t->mask || t->mask[r * t->mask_row];
        if (t->ahead)
            NAME(fetch)(x + t->ahead, 3, k, n);
        T new_h[MAX_WIDTH];
        EACH_UNIT
        {
            const T z = SIGMOID(x[u] + (y[u] + bias[u]));
            const T g = SIGMOID(x[u + k] + (y[u + zk] + bias[u + k]));
            const T m = y[u + 2 * zk] + bias[u + 2 * k];
            const T a = TANH(x[u + 2 * k] + g * m);
            gates[u] = z, gates[u + k] = g, gates[u + 2 * k] = a;
            inner[u] = m;
            new_h[u] = z * before[u] + (1 - z) * a;
        }
        NAME(copy)(after, real ? new_h : before, n);
        NAME(copy)(hs, after, n);
    }
}

INLINE void NAME(simple_rnn_rows)(const uff_cell *t, const int64_t n)
{
    const int64_t k = t->units;
    for (int64_t r = 0; r < t->rows; r++) {
        const T *z = (const T *)t->z + r * t->z_row, *x = (const T *)t->x + r * t->x_row;
        const T *before = (const T *)t->before + r * k;
        T *after = (T *)t->after + r * k, *hs = (T *)t->hs + r * t->step_row;
        const int real = !t->mask || t->mask[r * t->mask_row];
        if (t->ahead)
            NAME(fetch)(x + t->ahead, 1, k, n);
        T new_h[MAX_WIDTH];
        EACH_UNIT new_h[u] = TANH(x[u] + z[u]);
        NAME(copy)(after, real ? new_h : before, n);
        NAME(copy)(hs, after, n);
    }
}

/* Tiles are of full width but for the last; longer rows are cut. */
#define FORWARD(kind)                                                                     \
    static void NAME(kind)(const uff_cell *cell)                                          \
    {                                                                                     \
        uff_cell t = *cell;                                                               \
        if (t.width == WIDTH) {                                                           \
            NAME(kind##_rows)(&t, WIDTH);                                                 \
            return;                                                                       \
        }                                                                                 \
        for (int64_t left = t.width; left > 0; left -= MAX_WIDTH) {                       \
            NAME(kind##_rows)(&t, left < MAX_WIDTH ? left : MAX_WIDTH);                   \
            NAME(advance)(&t, MAX_WIDTH);                                                 \
        }                                                                                 \
    }

INLINE void NAME(advance)(uff_cell *t, int64_t n)
{
    t->z = (const T *)t->z + n, t->x = (const T *)t->x + n;
    t->before = (const T *)t->before + n, t->after = (T *)t->after + n;
    t->hs = (T *)t->hs + n;
    if (t->gates)
        t->gates = (T *)t->gates + n;
    if (t->bias)
        t->bias = (const T *)t->bias + n;
    if (t->inner)
        t->inner = (T *)t->inner + n;
    if (t->c)
        t->c = (T *)t->c + n, t->cs = (T *)t->cs + n;
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

#undef SIGMOID
#undef TANH
#undef EACH_UNIT
#undef FORWARD
#undef BACK
