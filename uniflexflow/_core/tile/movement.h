/* Copies of two-dimensional tiles with any strides, for elements of 1, 2, 4 and 8 bytes. */
#ifndef UFF_MOVEMENT_H
#define UFF_MOVEMENT_H

#include "kernels.h"
#include "tile_fn.h"

/* out[r * out_row + c * out_column] = in[r * in_row + c * in_column] for r < rows and
 * c < columns; all strides in bytes, multiples of the element's size. */
typedef void (*uff_copy_fn)(char *out, int64_t out_row, int64_t out_column, const char *in,
                            int64_t in_row, int64_t in_column, int64_t rows, int64_t columns);

/* Tables by log2 of the element's size. */
struct uff_movement_kernels {
    uff_copy_fn dense[4];     /* both column strides are the element's size */
    uff_copy_fn repeat[4];    /* in_column is 0, out_column the element's size */
    uff_copy_fn strided[4];   /* any */
    uff_copy_fn transpose[4]; /* in_row and out_column are the element's size */
    /* Stable order of x[0..n): rising, or falling; a NaN counts as larger than all. By
     * dtype (see tile_fn.h); `room` holds n places. */
    void (*argsort[UFF_NUM_DTYPES])(int32_t *order, int32_t *room, const void *x, int64_t n, int falling);
};

#endif
