/* Arithmetic in float32 on tiles of which some are bfloat16: expanded as they are read, rounded
 * as they are written, in the registers of the operation. */
#ifndef UFF_MIXED_H
#define UFF_MIXED_H

#include "kernels.h"
#include "tile_fn.h"

/* Which tiles are bfloat16; the others are float32. */
enum { UFF_MIXED_A = 1, UFF_MIXED_B = 2, UFF_MIXED_OUT = 4, UFF_NUM_MIXED = 8 };

/* One operation, its functions by the sum of those; NULL where it has no meaning. None of them
 * all in float32: that is the family `chain`. */
typedef struct {
    const char *name;
    uff_tile_fn fn[UFF_NUM_MIXED];
} uff_mixed_row;

struct uff_mixed_kernels {
    const uff_mixed_row *rows;
    int num_rows;
    uff_tile_fn rounded; /* float32 to the nearest number that is a bfloat16's */
};

#endif
