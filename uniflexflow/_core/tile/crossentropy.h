/* Cross-entropy of softmax: rows of logits against one class each, or against a distribution.
 *
 * Forward, a row is read once from memory and gives its loss and log(sum(exp(x))). Backward
 * it is read once more, and the gradient, which may lie over it, is written once.
 */
#ifndef UFF_CROSSENTROPY_H
#define UFF_CROSSENTROPY_H

#include "kernels.h"

/* Rows of n > 0 elements, one behind the other; what has one element a row is dense too. */
typedef struct {
    int64_t rows, n;
    const void *x;      /* logits */
    const void *target; /* of each row a class, or n numbers */
    int wide;           /* classes are int64, not int32 */
    void *loss, *lse;   /* forward: log(sum(exp(x))) - x[class], or sum(target (that - x)) */
    void *total;        /* sum(target) */
    /* backward: dx = a exp(x - lse) - b target, where a class is a target of one 1. Rows where
     * a and b are 0 are 0, whatever else is in them. */
    const void *given_lse, *a, *b;
    void *dx;
} uff_crossentropy_rows;

/* A class that is none of 0 .. n - 1 gives NaN. */
typedef void (*uff_crossentropy_fn)(const uff_crossentropy_rows *);

struct uff_crossentropy_kernels { /* float32, float64 */
    uff_crossentropy_fn sparse[2], sparse_gradient[2], dense[2], dense_gradient[2];
};

#endif
