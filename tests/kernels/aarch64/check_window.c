/* Pooling, channel by channel. Elements are small whole numbers
 * (gradients of means: multiples of the window's size), so that every sum is exact. */
#include "window.h"

#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define MOST_TAPS 9

static const uff_window_kernels *k;
static int dtype;
static char what[96];

#define CALL(op, run) (dtype == UFF_F32_T ? k->op##_f32 : k->op##_f64)(run)
#define GET(p, i) check_get(dtype, p, i)

static void *filled(int64_t n, int slip, int64_t factor)
{
    void *room = check_room(n * check_sizes[dtype], slip * check_sizes[dtype]);
    for (int64_t i = 0; i < n; i++)
        check_put(dtype, room, i, factor * check_whole(-6, 6));
    return room;
}

static void *at(void *p, int64_t i)
{
    return (char *)p + i * check_sizes[dtype];
}

/* One run: `taps` windows over an image, each a pixel further on. */
typedef struct {
    uff_window_run run;
    void *image, *result;
    const void *x[MOST_TAPS], *v[MOST_TAPS];
    void *dx[MOST_TAPS];
    int64_t y_step, image_size;
} scene;

static void set(scene *s, int64_t count, int64_t taps, int64_t channels)
{
    const int64_t pixel = channels + 1, stride = 1 + count % 2;
    snprintf(what, sizeof what, "pooling of %s: %lld results, %lld taps, %lld channels",
             check_names[dtype], (long long)count, (long long)taps, (long long)channels);
    s->y_step = channels + 2;
    s->image_size = (count * stride + taps + 1) * pixel;
    s->image = filled(s->image_size, 1, 1);
    s->result = filled(count * s->y_step + channels, 3, 1);
    for (int64_t t = 0; t < taps; t++)
        s->x[t] = at(s->image, t * pixel);
    s->run = (uff_window_run){.count = count, .taps = taps, .channels = channels, .x = s->x,
                              .x_step = stride * pixel, .v = s->v, .y = s->result,
                              .y_step = s->y_step};
}

static void leave(scene *s)
{
    check_leave(what, s->image), check_leave(what, s->result);
}

/* The gap between results is not to be touched. */
static void check_result(scene *s, const void *before, int64_t p, int64_t c, number want)
{
    const int64_t i = p * s->y_step + c;
    check_close(what, i, GET(s->result, i), c < s->run.channels ? want : GET(before, i), 0);
}

static void *copy(const void *p, int64_t n)
{
    void *room = check_room(n * check_sizes[dtype], 0);
    return memcpy(room, p, n * check_sizes[dtype]);
}

/* The tap that a maximum comes from: the first NaN, or the first of the largest. */
static int64_t winner(const scene *s, int64_t p, int64_t c)
{
    int64_t best = 0;
    for (int64_t t = 1; t < s->run.taps; t++) {
        const number x = GET(s->x[t], p * s->run.x_step + c);
        const number m = GET(s->x[best], p * s->run.x_step + c);
        if (!isnan(m) && (isnan(x) || x > m))
            best = t;
    }
    return best;
}

static void check_pooling(int64_t count, int64_t taps, int64_t channels, int form)
{
    scene s;
    const int64_t elements = form & 1 ? 3 : taps;
    set(&s, count, taps, channels);
    s.run.elements = elements;
    void *before = copy(s.result, count * s.y_step);
    CALL(mean, &s.run);
    for (int64_t p = 0; p < count; p++)
        for (int64_t c = 0; c < s.y_step; c++) {
            number sum = 0;
            for (int64_t t = 0; c < channels && t < taps; t++)
                sum += GET(s.x[t], p * s.run.x_step + c);
            check_result(&s, before, p, c, dtype == UFF_F32_T ? (float)sum / (float)elements
                                                              : (double)sum / (double)elements);
        }
    if (form & 2)
        check_put(dtype, s.image, check_whole(0, s.image_size - 1), NAN);
    CALL(largest, &s.run);
    for (int64_t p = 0; p < count; p++)
        for (int64_t c = 0; c < s.y_step; c++) {
            const int64_t best = c < channels ? winner(&s, p, c) : 0;
            check_result(&s, before, p, c,
                         c < channels ? GET(s.x[best], p * s.run.x_step + c) : 0);
        }
    check_leave(what, before);

    /* a second image that moves like the first, at the places of the maxima */
    void *second = filled(s.image_size, 1, 1), *gathered = filled(count * s.y_step, 2, 1);
    before = copy(gathered, count * s.y_step);
    for (int64_t t = 0; t < taps; t++)
        s.v[t] = at(second, t * (channels + 1));
    s.dx[0] = gathered;
    s.run.dx = s.dx;
    CALL(largest_gather, &s.run);
    for (int64_t p = 0; p < count; p++)
        for (int64_t c = 0; c < s.y_step; c++) {
            const int64_t i = p * s.y_step + c;
            number want = c < channels ? GET(s.v[winner(&s, p, c)], p * s.run.x_step + c)
                                       : GET(before, i);
            check_close(what, i, GET(gathered, i), want, 0);
        }
    check_leave(what, before), check_leave(what, second), check_leave(what, gathered);

    /* gradients, added where windows overlap; set, on a single result, where they don't */
    for (int add = 0; add < 2; add++)
        for (int mean = 0; mean < 2; mean++) {
            void *g = filled(count * s.y_step, 3, elements), *into = filled(s.image_size, 1, 1);
            void *want = copy(into, s.image_size);
            for (int64_t t = 0; t < taps; t++)
                s.dx[t] = at(into, t * (channels + 1));
            s.run.g = g, s.run.add = add, s.run.count = add ? count : count > 0;
            if (mean)
                CALL(mean_gradient, &s.run);
            else
                CALL(largest_gradient, &s.run);
            for (int64_t p = 0; p < s.run.count; p++)
                for (int64_t c = 0; c < channels; c++)
                    for (int64_t t = 0; t < taps; t++) {
                        const int64_t i = p * s.run.x_step + t * (channels + 1) + c;
                        number share = GET(g, p * s.y_step + c) / (mean ? elements : 1);
                        share = mean || t == winner(&s, p, c) ? share : 0;
                        check_put(dtype, want, i, share + (add ? GET(want, i) : 0));
                    }
            for (int64_t i = 0; i < s.image_size; i++)
                check_close(what, i, GET(into, i), GET(want, i), 0);
            check_leave(what, g), check_leave(what, into), check_leave(what, want);
            s.run.count = count;
        }
    leave(&s);
}

void UFF_FILL(window)(uff_kernels *kernels);

int main(void)
{
    const int64_t widths[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 35};
    uff_kernels kernels;
    UFF_FILL(window)(&kernels);
    k = kernels.window;
    for (dtype = 0; dtype <= UFF_F64_T; dtype++)
        for (int w = 0; w < COUNT(widths); w++)
            for (int64_t count = 0; count < 4; count++) {
                for (int64_t taps = 1; taps <= MOST_TAPS; taps += 1 + taps)
                    for (int form = 0; form < 4; form++)
                        check_pooling(count, taps, widths[w], form);
            }
    return check_report("window");
}
