/* Reductions of tiles: sums and extremes along rows and along columns, and their places. */
#ifndef UFF_REDUCE_H
#define UFF_REDUCE_H

#include "kernels.h"
#include "tile_fn.h"

/* One kind of reduction of one dtype. Results gather in accumulators of `acc_size` bytes:
 * float64 for sums of floats, int64 for sums of integers (which wrap around when they are
 * cut at the end, as sums in their own type would), the dtype itself for extremes.
 *
 * A float32 sum is made of sums in float32 of up to UFF_SUM_BLOCK elements, spread over
 * the lanes of vectors, so its error grows with neither the length nor the thread count. */
typedef struct {
    int acc_size;
    void (*start)(void *acc, int64_t n);
    /* acc[k] takes in x[k * stride .. k * stride + n) for each of `count` rows */
    void (*rows)(void *acc, const void *x, int64_t count, int64_t n, int64_t stride);
    /* acc[j] takes in x[i * stride + j] for all of `count` rows, j < n <= UFF_REDUCE_COLUMNS */
    void (*columns)(void *acc, const void *x, int64_t count, int64_t n, int64_t stride);
    /* Sums of tiles that are too short to go to the accumulators one by one: partial results
     * of `part_size` bytes, in float32 for float32. `together` rows of n are one row of them. */
    int part_size;
    void (*blank)(void *part, int64_t n);
    /* part[j] takes in x[i * n + j] for all of `count` rows that follow each other, j < n */
    void (*gather)(void *part, const void *x, int64_t count, int64_t n);
    /* acc[j] takes in part[i * n + j] for i < together, j < n; part is blank afterwards */
    void (*fold)(void *acc, void *part, int64_t together, int64_t n);
    void (*merge)(void *acc, const void *other, int64_t n);
    void (*finish)(void *out, const void *acc, int64_t n);
} uff_reducer;

#define UFF_SUM_BLOCK 4096
#define UFF_REDUCE_COLUMNS 1024
/* Rows that a partial result takes in before it goes to its accumulator. */
#define UFF_COLUMN_BLOCK 128

enum { UFF_SUM, UFF_MAX, UFF_MIN, UFF_NUM_REDUCERS };

/* Places of the first extremes: out[j] of x[i * stride + j], i < n, for j < columns. A NaN
 * counts as the extreme. `best` is room for `columns` elements. */
typedef void (*uff_arg_fn)(int32_t *out, void *best, const void *x, int64_t n, int64_t columns,
                           int64_t stride);

struct uff_reduce_kernels {
    uff_reducer reducers[UFF_NUM_REDUCERS][UFF_NUM_DTYPES];
    uff_arg_fn argmax[UFF_NUM_DTYPES], argmin[UFF_NUM_DTYPES];
    /* y[i] = sum of x[0..i]; y may be x. Backward from the end if `reverse`. */
    void (*cumsum[UFF_NUM_DTYPES])(void *y, const void *x, int64_t n, int reverse);
};

#endif
