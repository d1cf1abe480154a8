/* Two elementwise operations in one pass over a tile: what the first makes stays in a register. */
#ifndef UFF_PAIR_H
#define UFF_PAIR_H

#include "kernels.h"
#include "tile_fn.h"

/* Rows are named "first+second". The first reads a and b, or a alone; the second reads what it
 * made and c, or that alone: "subtract" takes c from it, "subtract_from" takes it from c, and so with
 * divide. Each pointer is to a tile, read or not. */
struct uff_pair_kernels {
    uff_tile_rows rows;
};

#endif
