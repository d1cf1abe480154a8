/* Depthwise and grouped convolutions: blocks of results and of their gradients. Elements are
 * small whole numbers, so that every sum is exact. */
#include "grouped.h"

#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define MOST_ROWS 3
#define MOST_TABLE 64

static const uff_grouped_kernels *k;
static int dtype;
static char what[128];

#define CALL(op, ...) (dtype == UFF_F32_T ? k->op##_f32 : k->op##_f64)(__VA_ARGS__)
#define GET(p, i) check_get(dtype, p, i)

static void *filled(int64_t n, int slip)
{
    void *room = check_room(n * check_sizes[dtype], slip * check_sizes[dtype]);
    for (int64_t i = 0; i < n; i++)
        check_put(dtype, room, i, check_whole(-4, 4));
    return room;
}

static void *copy(const void *p, int64_t n)
{
    void *room = check_room(n * check_sizes[dtype], 0);
    return memcpy(room, p, n * check_sizes[dtype]);
}

static void *at(void *p, int64_t i)
{
    return (char *)p + i * check_sizes[dtype];
}

/* An image of pixels in no order, a kernel, and results. */
typedef struct {
    uff_grouped_block b;
    void *image, *weights, *results;
    const void *table[MOST_ROWS][MOST_TABLE];
    const void *const *rows[MOST_ROWS];
    void *y[UFF_GROUPED_PIXELS];
    int64_t lanes, vectors, filters, pitch, image_size, weights_size, results_size;
} scene;

static void set(scene *s, int form, int64_t pixels, int64_t groups, int64_t group_filters,
                int64_t depth, int64_t kw, int64_t stride, int64_t dilation)
{
    uff_grouped_block *b = &s->b;
    memset(b, 0, sizeof *b);
    b->form = form, b->pixels = pixels, b->depth = depth, b->rows = MOST_ROWS;
    b->kw = kw, b->stride = stride, b->dilation = dilation;
    b->group_filters = group_filters;
    s->lanes = dtype == UFF_F32_T ? k->lanes_f32 : k->lanes_f64;
    b->per_group = (group_filters + s->lanes - 1) / s->lanes;
    s->vectors = groups * b->per_group;
    s->filters = groups * group_filters;
    s->pitch = (form == UFF_BROADCAST ? groups * depth : s->filters) + 1;
    const int64_t wide = (pixels - 1) * stride + (kw - 1) * dilation + 1;
    s->image_size = MOST_ROWS * wide * s->pitch;
    s->image = filled(s->image_size, 1);
    for (int64_t i = 0; i < MOST_ROWS; i++) {
        for (int64_t q = 0; q < wide; q++)
            s->table[i][q] = at(s->image, (q * MOST_ROWS + (i + 1) % MOST_ROWS) * s->pitch);
        s->rows[i] = s->table[i];
    }
    b->x = s->rows;
    /* one row of taps more than is used, before the others */
    b->w_skip = depth * kw * s->lanes;
    b->w_step = (1 + (MOST_ROWS + 1) * depth * kw) * s->lanes;
    s->weights_size = s->vectors * b->w_step;
    s->weights = filled(s->weights_size, 3);
    s->results_size = UFF_GROUPED_PIXELS * (s->filters + 1);
    s->results = filled(s->results_size, 2);
    for (int64_t p = 0; p < UFF_GROUPED_PIXELS; p++)
        s->y[p] = at(s->results, (UFF_GROUPED_PIXELS - 1 - p) * (s->filters + 1));
    b->y = s->y;
    b->last = s->vectors;
    b->w = s->weights;
    snprintf(what, sizeof what, "%s: form %d, %d results, %d groups of %d filters on %d channels, "
             "window %d by %d and %d", check_names[dtype], form, (int)pixels, (int)groups,
             (int)group_filters, (int)depth, (int)kw, (int)stride, (int)dilation);
}

static void leave(scene *s)
{
    check_leave(what, s->image), check_leave(what, s->weights), check_leave(what, s->results);
}

static int64_t start_of(const scene *s, int64_t v)
{
    const int64_t u = v % s->b.per_group * s->lanes, most = s->b.group_filters - s->lanes;
    return v / s->b.per_group * s->b.group_filters + (u < most ? u : most);
}

static number pixel(const scene *s, int64_t i, int64_t p, int64_t j, int64_t c, int64_t f)
{
    const int64_t form = s->b.form;
    const int64_t channel = form == UFF_BROADCAST ? f / s->b.group_filters * s->b.depth + c
                            : form == UFF_LANEWISE ? f : f / form * form + c;
    return GET(s->table[i][p * s->b.stride + j * s->b.dilation], channel);
}

static int64_t tap_of(const scene *s, int64_t v, int64_t i, int64_t c, int64_t j, int64_t lane)
{
    const uff_grouped_block *b = &s->b;
    return v * b->w_step + b->w_skip + (1 + (i * b->depth + c) * b->kw + j) * s->lanes + lane;
}

static void check_correlate(scene *s)
{
    const uff_grouped_block *b = &s->b;
    void *want = copy(s->results, s->results_size);
    s->b.relu = b->pixels % 2;
    for (int64_t p = 0; p < b->pixels; p++)
        for (int64_t v = b->first; v < b->last; v++)
            for (int64_t lane = 0; lane < s->lanes; lane++) {
                const int64_t f = start_of(s, v) + lane;
                number sum = GET(s->weights, v * b->w_step + lane);
                for (int64_t i = 0; i < b->rows; i++)
                    for (int64_t c = 0; c < b->depth; c++)
                        for (int64_t j = 0; j < b->kw; j++)
                            sum += pixel(s, i, p, j, c, f) *
                                   GET(s->weights, tap_of(s, v, i, c, j, lane));
                check_put(dtype, want, (UFF_GROUPED_PIXELS - 1 - p) * (s->filters + 1) + f,
                          b->relu && sum < 0 ? 0 : sum);
            }
    s->b.w = at(s->weights, b->first * b->w_step);
    CALL(correlate, b);
    for (int64_t i = 0; i < s->results_size; i++)
        check_close(what, i, GET(s->results, i), GET(want, i), 0);
    check_leave(what, want);
}

static void check_contract(scene *s)
{
    const uff_grouped_block *b = &s->b;
    void *want = copy(s->weights, s->weights_size);
    for (int64_t v = b->first; v < b->last; v++)
        for (int64_t lane = 0; lane < s->lanes; lane++)
            for (int64_t i = 0; i < b->rows; i++)
                for (int64_t c = 0; c < b->depth; c++)
                    for (int64_t j = 0; j < b->kw; j++) {
                        const int64_t f = start_of(s, v) + lane, tap = tap_of(s, v, i, c, j, lane);
                        number sum = GET(want, tap);
                        for (int64_t p = 0; p < b->pixels; p++)
                            sum += pixel(s, i, p, j, c, f) * GET(s->y[p], f);
                        check_put(dtype, want, tap, sum);
                    }
    s->b.w = at(s->weights, b->first * b->w_step);
    CALL(contract, b);
    for (int64_t i = 0; i < s->weights_size; i++)
        check_close(what, i, GET(s->weights, i), GET(want, i), 0);
    check_leave(what, want);
}

static void check_both(int form, int64_t pixels, int64_t groups, int64_t group_filters,
                       int64_t depth, int64_t kw, int64_t stride, int64_t dilation)
{
    for (int way = 0; way < 2; way++) {
        scene s;
        set(&s, form, pixels, groups, group_filters, depth, kw, stride, dilation);
        s.b.first = s.vectors > 2; /* not always from the first vector and row on */
        if (kw == 3 && !way)
            check_put(dtype, s.image, 2, NAN);
        if (kw == 2)
            s.b.rows = 1;
        (way ? check_contract : check_correlate)(&s);
        leave(&s);
    }
}

static void check_spread(int64_t channels, int64_t m)
{
    void *x = filled(channels, 1), *wide = filled(channels * m, 2), *sum = filled(channels, 3);
    snprintf(what, sizeof what, "%s: %d channels, %d times", check_names[dtype], (int)channels,
             (int)m);
    CALL(spread, channels, m, x, wide);
    CALL(fold, channels, m, wide, sum);
    for (int64_t i = 0; i < channels * m; i++)
        check_same(what, i, GET(wide, i), GET(x, i / m));
    for (int64_t c = 0; c < channels; c++)
        check_close(what, c, GET(sum, c), m * GET(x, c), 0);
    check_leave(what, x), check_leave(what, wide), check_leave(what, sum);
}

void UFF_FILL(grouped)(uff_kernels *kernels);

int main(void)
{
    static const int64_t pixels[] = {1, 4, 7, 8};
    static const int64_t shapes[][3] = {{1, 1, 1}, {1, 2, 1}, {2, 1, 1}, {3, 1, 1}, {4, 1, 1},
                                        {5, 1, 1}, {7, 1, 1}, {3, 2, 1}, {5, 2, 1}, {7, 2, 1},
                                        {3, 1, 2}, {6, 1, 1}, {2, 3, 4}};
    uff_kernels kernels;
    UFF_FILL(grouped)(&kernels);
    k = kernels.grouped;
    for (dtype = 0; dtype <= UFF_F64_T; dtype++) {
        const int64_t lanes = dtype == UFF_F32_T ? k->lanes_f32 : k->lanes_f64;
        for (int s = 0; s < COUNT(shapes); s++)
            for (int p = 0; p < COUNT(pixels); p++) {
                const int64_t *w = shapes[s], n = pixels[p];
                check_both(UFF_LANEWISE, n, 1, lanes, 1, w[0], w[1], w[2]);
                check_both(UFF_LANEWISE, n, 1, 3 * lanes + 1, 1, w[0], w[1], w[2]);
                check_both(UFF_BROADCAST, n, 3, lanes, 3, w[0], w[1], w[2]);
                check_both(UFF_BROADCAST, n, 2, 2 * lanes + 1, 1, w[0], w[1], w[2]);
                for (int64_t form = 2; form < lanes && form <= 8; form *= 2)
                    check_both((int)form, n, 1, 2 * lanes + form, form, w[0], w[1], w[2]);
            }
        for (int64_t channels = 0; channels < 2 * lanes + 2; channels++)
            for (int64_t m = 1; m < 5; m++)
                check_spread(channels, m);
    }
    return check_report("grouped");
}
