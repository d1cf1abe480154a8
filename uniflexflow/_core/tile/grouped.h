/* Convolutions whose filters see few channels: depthwise and grouped.
 *
 * There is no product of matrices worth the name: a filter of a depthwise convolution sees one
 * channel. So vectors go along the filters, and a block is a few neighbouring results of a row:
 * their sums stay in registers over all taps, a row of the window's weights does too, and each
 * vector of the image is loaded once for all the taps of a row that need it.
 *
 * Pixels are found through tables of addresses. A border is a pixel of zeros to which the table
 * points, results that don't exist go to a pixel that nobody reads: no tap asks where it is.
 */
#ifndef UFF_GROUPED_H
#define UFF_GROUPED_H

#include "kernels.h"

/* How the lanes of a vector of filters see the channels of a pixel. */
enum {
    UFF_BROADCAST = 0, /* the filters are of one group: all lanes see channel k */
    UFF_LANEWISE = 1   /* depthwise: lane by lane */
    /* 2, 4, 8: so many lanes are a group of as many channels, which are next to each other */
};

enum { UFF_GROUPED_PIXELS = 8 }; /* results in a block, at most */

/* A block of results, or of their gradients. Steps and sizes count elements.
 *
 * Vectors of filters begin at group * group_filters + min(u * lanes, group_filters - lanes) for
 * u < per_group: the last one of a group overlaps its neighbour, which changes no number. Weights
 * of a vector are packed: a bias, then rows of taps, channels, taps of a row. */
typedef struct {
    int64_t form;        /* see above */
    int64_t pixels;      /* results: 1, 4, 7 or 8 */
    int64_t first, last; /* vectors of filters */
    int64_t group_filters, per_group;
    int64_t depth;       /* channels that a filter sees */
    int64_t rows;        /* rows of taps that meet the image */
    int64_t kw, stride, dilation;
    /* Tap j of row i and result p is at x[i][p * stride + j * dilation]. */
    const void *const *const *x;
    void *const *y;      /* results */
    void *w;             /* packed weights, or their gradient's sums, of vector `first` */
    int64_t w_step;      /* from vector to vector */
    int64_t w_skip;      /* from a vector's first tap to the first row that meets the image */
    int relu;
} uff_grouped_block;

#define UFF_GROUPED_FUNCTIONS(type)                                                               \
    int lanes_##type;                                                                             \
    /* y[p][f] = bias + sum over i, k, j of x[i][p, j][k] * w[i][k][j][f], in that order */        \
    void (*correlate_##type)(const uff_grouped_block *);                                          \
    /* w[i][k][j][f] += sum over p of x[i][p, j][k] * y[p][f] */                                  \
    void (*contract_##type)(const uff_grouped_block *);                                           \
    /* y[c * m + i] = x[c] for all i < m */                                                       \
    void (*spread_##type)(int64_t channels, int64_t m, const void *x, void *y);                   \
    /* y[c] = sum over i < m of x[c * m + i] */                                                   \
    void (*fold_##type)(int64_t channels, int64_t m, const void *x, void *y);

struct uff_grouped_kernels {
    UFF_GROUPED_FUNCTIONS(f32)
    UFF_GROUPED_FUNCTIONS(f64)
};

#endif
