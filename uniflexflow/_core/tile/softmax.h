/* Softmax of rows and its kin; n > 0 elements a row, rows one behind the other. */
#ifndef UFF_SOFTMAX_H
#define UFF_SOFTMAX_H

#include "kernels.h"

/* out has rows of n elements, or one element a row for logsumexp. out may be x. */
typedef void (*uff_softmax_fn)(void *out, const void *x, int64_t rows, int64_t n);

struct uff_softmax_kernels {
    uff_softmax_fn softmax[2], log_softmax[2], logsumexp[2]; /* float32, float64 */
};

#endif
