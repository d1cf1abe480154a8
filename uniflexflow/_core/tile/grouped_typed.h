/* One element type's part of grouped.c, which defines T, V, I, IT, LANES, IOTA and NAME. */

/* What the lanes see of a pixel: its channel k, from their group's first channel on. */
INLINE V NAME(see)(const T *x, int64_t k, const int form)
{
    if (form == UFF_BROADCAST)
        return ALL(x[k]);
    V all = LOAD(x);
    return form == UFF_LANEWISE ? all : __builtin_shuffle(all, (IOTA & -form) + (IT)k);
}

/* The first filter of a vector of filters. */
INLINE int64_t NAME(filter)(const uff_grouped_block *b, place *at)
{
    int64_t lane = at->vector * LANES, most = b->group_filters - LANES;
    return at->group * b->group_filters + (lane < most ? lane : most);
}

/* One row of taps on channel k, for P results. With KW taps, KW known, each vector of the image
 * is loaded once; with KW = 0 there may be any number of them, at any distance. */
INLINE void NAME(weigh)(V *sum, const uff_grouped_block *b, const T *const *x, const T *w, int64_t c,
                        int64_t k, const int form, const int P, const int KW, const int S)
{
    if (KW) {
        V tap[MOST_COLUMNS];
        EACH(j, KW) tap[j] = LOAD(w + j * LANES);
        EACH(q, (P - 1) * S + KW)
        {
            V a = NAME(see)(x[q] + c, k, form);
            EACH(j, KW) if (q >= j && (q - j) % S == 0 && (q - j) / S < P) sum[(q - j) / S] += a * tap[j];
        }
        return;
    }
    for (int64_t j = 0; j < b->kw; j++, w += LANES, x += b->dilation) {
        V tap = LOAD(w);
        EACH(p, P) sum[p] += NAME(see)(x[p * b->stride] + c, k, form) * tap;
    }
}

INLINE void NAME(correlate_block)(const uff_grouped_block *b, const int form, const int P, const int KW,
                                  const int S)
{
    const T *w = b->w;
    const int64_t kw = KW ? KW : b->kw;
    place at = first_place(b);
    for (int64_t v = b->first; v < b->last; v++, w += b->w_step) {
        const int64_t f = NAME(filter)(b, &at), c = form == UFF_BROADCAST ? at.group * b->depth : f;
        const T *tap = w + LANES + b->w_skip;
        V sum[UFF_GROUPED_PIXELS];
        EACH(p, P) sum[p] = LOAD(w);
        for (int64_t i = 0; i < b->rows; i++) {
            const T *const *x = (const T *const *)b->x[i];
            if (form > 1) {
                EACH(k, form) NAME(weigh)(sum, b, x, tap + k * kw * LANES, c, k, form, P, KW, S);
                tap += form * kw * LANES;
            } else {
                for (int64_t k = 0; k < (form ? 1 : b->depth); k++, tap += kw * LANES)
                    NAME(weigh)(sum, b, x, tap, c, k, form, P, KW, S);
            }
        }
        if (b->relu) /* a NaN stays */
            EACH(p, P) sum[p] = (V)((I)sum[p] & ~(I)(sum[p] < 0));
        EACH(p, P) STORE((T *)b->y[p] + f, sum[p]);
        next_place(b, &at);
    }
}

/* The same the other way: sums of one row of taps on channel k. */
INLINE void NAME(gather)(const V *g, const uff_grouped_block *b, const T *const *x, T *w, int64_t c,
                         int64_t k, const int form, const int P, const int KW, const int S)
{
    if (KW) {
        V tap[MOST_COLUMNS];
        EACH(j, KW) tap[j] = LOAD(w + j * LANES);
        EACH(q, (P - 1) * S + KW)
        {
            V a = NAME(see)(x[q] + c, k, form);
            EACH(j, KW) if (q >= j && (q - j) % S == 0 && (q - j) / S < P) tap[j] += a * g[(q - j) / S];
        }
        EACH(j, KW) STORE(w + j * LANES, tap[j]);
        return;
    }
    for (int64_t j = 0; j < b->kw; j++, w += LANES, x += b->dilation) {
        V tap = LOAD(w);
        EACH(p, P) tap += NAME(see)(x[p * b->stride] + c, k, form) * g[p];
        STORE(w, tap);
    }
}

INLINE void NAME(contract_block)(const uff_grouped_block *b, const int form, const int P, const int KW,
                                 const int S)
{
    T *w = b->w;
    const int64_t kw = KW ? KW : b->kw;
    place at = first_place(b);
    for (int64_t v = b->first; v < b->last; v++, w += b->w_step) {
        const int64_t f = NAME(filter)(b, &at), c = form == UFF_BROADCAST ? at.group * b->depth : f;
        T *tap = w + LANES + b->w_skip;
        V g[UFF_GROUPED_PIXELS];
        EACH(p, P) g[p] = LOAD((const T *)b->y[p] + f);
        for (int64_t i = 0; i < b->rows; i++) {
            const T *const *x = (const T *const *)b->x[i];
            if (form > 1) {
                EACH(k, form) NAME(gather)(g, b, x, tap + k * kw * LANES, c, k, form, P, KW, S);
                tap += form * kw * LANES;
            } else {
                for (int64_t k = 0; k < (form ? 1 : b->depth); k++, tap += kw * LANES)
                    NAME(gather)(g, b, x, tap, c, k, form, P, KW, S);
            }
        }
        next_place(b, &at);
    }
}

/* The functions of one form, by shape and number of results. */
#define FUNCTIONS(form_name, FORM, P, KW, S)                                                     \
    static void NAME(correlate_##form_name##_##P##_##KW##_##S)(const uff_grouped_block *b)        \
    {                                                                                            \
        NAME(correlate_block)(b, FORM, P, KW, S);                                                \
    }                                                                                            \
    static void NAME(contract_##form_name##_##P##_##KW##_##S)(const uff_grouped_block *b)         \
    {                                                                                            \
        NAME(contract_block)(b, FORM, P, KW, S);                                                 \
    }
#define EACH_PIXELS(form_name, FORM, KW, S)                                                      \
    FUNCTIONS(form_name, FORM, 1, KW, S)                                                         \
    FUNCTIONS(form_name, FORM, 4, KW, S)                                                         \
    FUNCTIONS(form_name, FORM, 7, KW, S)                                                         \
    FUNCTIONS(form_name, FORM, 8, KW, S)
#define ENTRY(op, form_name, KW, S)                                                              \
    {KW, S, {NAME(op##_##form_name##_1_##KW##_##S), NAME(op##_##form_name##_4_##KW##_##S),        \
             NAME(op##_##form_name##_7_##KW##_##S), NAME(op##_##form_name##_8_##KW##_##S)}},
#define FORM(form_name, value, SHAPES)                                                           \
    SHAPES(EACH_PIXELS, form_name, value)                                                        \
    static const shape NAME(correlate_##form_name)[] = {SHAPES(CORRELATE, form_name, value)};     \
    static const shape NAME(contract_##form_name)[] = {SHAPES(CONTRACT, form_name, value)};
#define CORRELATE(form_name, value, KW, S) ENTRY(correlate, form_name, KW, S)
#define CONTRACT(form_name, value, KW, S) ENTRY(contract, form_name, KW, S)

FORM(lanewise, UFF_LANEWISE, ALL_SHAPES)
FORM(broadcast, UFF_BROADCAST, FEW_SHAPES)
#if LANES > 2
FORM(pairs, 2, FEW_SHAPES)
#endif
#if LANES > 4
FORM(fours, 4, FEW_SHAPES)
#endif
#if LANES > 8
FORM(eights, 8, FEW_SHAPES)
#endif

#define CHOOSE(op, name) ((form){NAME(op##_##name), COUNT(NAME(op##_##name))})
#define OP(op)                                            \
    static void NAME(op)(const uff_grouped_block *b)      \
    {                                                     \
        form f = b->form == UFF_LANEWISE ? CHOOSE(op, lanewise) : CHOOSE(op, broadcast); \
        SHARED(op)                                        \
        find(f, b)(b);                                    \
    }
#if LANES > 8
#define SHARED(op)                                                                        \
    f = b->form == 2 ? CHOOSE(op, pairs) : b->form == 4 ? CHOOSE(op, fours)               \
        : b->form == 8 ? CHOOSE(op, eights) : f;
#elif LANES > 4
#define SHARED(op) f = b->form == 2 ? CHOOSE(op, pairs) : b->form == 4 ? CHOOSE(op, fours) : f;
#elif LANES > 2
#define SHARED(op) f = b->form == 2 ? CHOOSE(op, pairs) : f;
#else
#define SHARED(op)
#endif

OP(correlate)
OP(contract)

static void NAME(spread)(int64_t channels, int64_t m, const void *from, void *to)
{
    const T *x = from;
    T *y = to;
    if (m == 2) { /* the compiler makes vectors of it */
        for (int64_t c = 0; c < channels; c++)
            y[2 * c] = y[2 * c + 1] = x[c];
        return;
    }
    for (int64_t c = 0; c < channels; c++, y += m)
        for (int64_t i = 0; i < m; i++)
            y[i] = x[c];
}

static void NAME(fold)(int64_t channels, int64_t m, const void *from, void *to)
{
    const T *x = from;
    T *y = to;
    if (m == 2) {
        for (int64_t c = 0; c < channels; c++)
            y[c] = x[2 * c] + x[2 * c + 1];
        return;
    }
    for (int64_t c = 0; c < channels; c++, x += m) {
        T sum = x[0];
        for (int64_t i = 1; i < m; i++)
            sum += x[i];
        y[c] = sum;
    }
}

#undef FUNCTIONS
#undef EACH_PIXELS
#undef ENTRY
#undef FORM
#undef CORRELATE
#undef CONTRACT
#undef CHOOSE
#undef OP
#undef SHARED
