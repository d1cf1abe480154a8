/* One element type's part of window.c, which defines T, V, I, LANES and NAME. */

/* Part of a vector: the last channels. Lanes that don't exist are 0. */
static inline V NAME(load_part)(const T *p, int64_t width)
{
    T lanes[LANES] = {0};
    memcpy(lanes, p, (size_t)width * sizeof(T));
    return LOAD(lanes);
}

static inline void NAME(store_part)(T *p, V x, int64_t width)
{
    T lanes[LANES];
    STORE(lanes, x);
    memcpy(p, lanes, (size_t)width * sizeof(T));
}

#define GET(p) (width == LANES ? LOAD(p) : NAME(load_part)(p, width))
#define PUT(p, x)                           \
    do {                                    \
        if (width == LANES)                 \
            STORE(p, x);                    \
        else                                \
            NAME(store_part)(p, x, width);  \
    } while (0)

/* BODY for each result p and vector of channels from c on, of which `width` exist; the
 * whole vectors first, with a constant width, so that GET and PUT are plain there. */
#define EACH_VECTOR(BODY)                                    \
    for (int64_t p = 0; p < r->count; p++) {                 \
        int64_t from = p * r->x_step, to = p * r->y_step, c; \
        (void)from, (void)to;                                \
        for (c = 0; c + LANES <= r->channels; c += LANES) {  \
            const int64_t width = LANES;                     \
            BODY                                             \
        }                                                    \
        if (c < r->channels) {                               \
            const int64_t width = r->channels - c;           \
            BODY                                             \
        }                                                    \
    }

static void NAME(largest)(const uff_window_run *r)
{
    const T *const *x = (const T *const *)r->x;
    T *y = r->y;
    EACH_VECTOR({
        V best = GET(x[0] + from + c);
        for (int64_t t = 1; t < r->taps; t++) {
            V next = GET(x[t] + from + c);
            I better = (I)(next > best) | (I)(next != next);
            best = (V)(((I)next & better) | ((I)best & ~better));
        }
        PUT(y + to + c, best);
    })
}

static void NAME(mean)(const uff_window_run *r)
{
    const T *const *x = (const T *const *)r->x;
    const V elements = ALL((T)r->elements);
    T *y = r->y;
    EACH_VECTOR({
        V sum = GET(x[0] + from + c);
        for (int64_t t = 1; t < r->taps; t++)
            sum += GET(x[t] + from + c);
        PUT(y + to + c, sum / elements);
    })
}

static void NAME(largest_gradient)(const uff_window_run *r)
{
    const T *const *x = (const T *const *)r->x, *y = r->y, *g = r->g;
    T *const *dx = (T *const *)r->dx;
    EACH_VECTOR({
        V best = GET(y + to + c);
        I share = (I)GET(g + to + c);
        for (int64_t t = 0; t < r->taps; t++) {
            V here = GET(x[t] + from + c);
            I hit = (I)(here == best) | (I)(here != here);
            V given = (V)(share & hit);
            share &= ~hit;
            PUT(dx[t] + from + c, r->add ? given + GET(dx[t] + from + c) : given);
        }
    })
}

static void NAME(largest_gather)(const uff_window_run *r)
{
    const T *const *x = (const T *const *)r->x, *const *v = (const T *const *)r->v, *y = r->y;
    T *out = r->dx[0];
    EACH_VECTOR({
        V best = GET(y + to + c);
        I left = ~(I){0};
        I taken = (I){0};
        for (int64_t t = 0; t < r->taps; t++) {
            V here = GET(x[t] + from + c);
            I hit = left & ((I)(here == best) | (I)(here != here));
            taken |= (I)GET(v[t] + from + c) & hit;
            left &= ~hit;
        }
        PUT(out + to + c, (V)taken);
    })
}

static void NAME(mean_gradient)(const uff_window_run *r)
{
    const T *g = r->g;
    const V elements = ALL((T)r->elements);
    T *const *dx = (T *const *)r->dx;
    EACH_VECTOR({
        V share = GET(g + to + c) / elements;
        for (int64_t t = 0; t < r->taps; t++)
            PUT(dx[t] + from + c, r->add ? share + GET(dx[t] + from + c) : share);
    })
}

#undef GET
#undef PUT
#undef EACH_VECTOR
#undef CONTRACT
