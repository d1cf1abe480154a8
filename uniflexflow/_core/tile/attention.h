/* Tiles of attention: what happens to a tile of scores between the matrix products.
 *
 * Scores are rows of queries against columns of keys. Forward, they become weights
 * exp(score - high) with the highest score so far of each row; backward, the weights are made
 * anew from log(sum(exp(score))) of the row. Dao, Fu, Ermon, Rudra and Re, "FlashAttention:
 * fast and memory-efficient exact attention with IO-awareness" (2022); Milakov and
 * Gimelshein, "Online normalizer calculation for softmax" (2018).
 *
 * Strides count elements.
 */
#ifndef UFF_ATTENTION_H
#define UFF_ATTENTION_H

#include "kernels.h"

/* At most UFF_PIECE (exponential.h) columns. Columns that a row doesn't see get weight 0. */
typedef struct {
    int64_t rows, n, ld; /* n > 0 columns */
    int64_t seen;        /* row r sees its first seen + r columns, or all n if that is more */
    void *s;             /* scores; become weights */
    const void *bias;    /* added to the scores, or NULL */
    int64_t bias_row, bias_column;
    const void *mask; /* bytes: 0 where a row may not look, or NULL */
    int64_t mask_row, mask_column;
    /* forward */
    void *high, *sum; /* of each row: highest score and sum of weights so far */
    void *out;        /* rows of `width` elements, scaled down where the highest score grows */
    int64_t width, ld_out;
    /* backward */
    void *d;                 /* gradients of the weights, distances as of s; become those of the scores */
    const void *lse, *delta; /* of each row */
} uff_attention_tile;

typedef struct {
    /* scores + bias, and a score that is lower than all others where the mask is 0 */
    void (*mask)(const uff_attention_tile *);
    void (*weigh)(const uff_attention_tile *);
    /* s = exp(s - lse), d = s (d - delta); both 0 in a row whose lse says that it sees nothing */
    void (*weigh_back)(const uff_attention_tile *);
    /* out = factor x; what is between n and ld_out becomes 0 */
    void (*copy)(int64_t rows, int64_t n, double factor, const void *x, int64_t ld, void *out,
                 int64_t ld_out);
    /* out = sums of weighted values / sum; lse = high + log(sum), `step` apart */
    void (*finish)(int64_t rows, int64_t n, const void *x, int64_t ld, const void *high,
                   const void *sum, void *out, int64_t ld_out, void *lse, int64_t step);
    /* out += factor x, one row; a sum if `rows` are more */
    void (*add)(int64_t rows, int64_t n, double factor, const void *x, int64_t ld, void *out);
    /* Is this lse that of a row that may look at nothing? */
    int (*blind)(const void *lse);
} uff_attention_type;

struct uff_attention_kernels {
    uff_attention_type f32, f64;
};

#endif
