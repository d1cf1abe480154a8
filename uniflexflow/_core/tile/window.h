/* Windows over channels-last images, channel by channel: pooling. */
#ifndef UFF_WINDOW_H
#define UFF_WINDOW_H

#include "kernels.h"

/* A run of results whose windows have the same taps. For result p, tap t begins at
 * x[t] + p * x_step, and the result at y + p * y_step; steps count elements. v[t] is a
 * second image, which moves like x.
 * Pointers of different operands never overlap, but taps of neighbours may. */
typedef struct {
    int64_t count, taps, channels;
    const void *const *x;
    int64_t x_step;
    const void *const *v;
    void *y;
    int64_t y_step;
    void *const *dx;  /* gradients: where each tap's share goes; moves like x */
    const void *g;    /* moves like y */
    int add;          /* add to dx, instead of setting it */
    int64_t elements; /* in each window of a mean */
} uff_window_run;

#define UFF_WINDOW_FUNCTIONS(type)                                                          \
    /* y = largest of x[t], NaN if there is one */                                          \
    void (*largest_##type)(const uff_window_run *);                                         \
    /* y = sum of x[t] / elements */                                                        \
    void (*mean_##type)(const uff_window_run *);                                            \
    /* dx[t] = g where x[t] is the first that equals y, else 0 */                           \
    void (*largest_gradient_##type)(const uff_window_run *);                                \
    /* dx[0] = v[t] where x[t] is the first that equals y; dx[0] moves like y */            \
    void (*largest_gather_##type)(const uff_window_run *);                                  \
    /* dx[t] = g / elements */                                                              \
    void (*mean_gradient_##type)(const uff_window_run *);

struct uff_window_kernels {
    UFF_WINDOW_FUNCTIONS(f32)
    UFF_WINDOW_FUNCTIONS(f64)
};

#endif
