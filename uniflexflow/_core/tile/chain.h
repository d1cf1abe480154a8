/* Arithmetic, comparison, choice and copy of tiles, for every dtype. */
#ifndef UFF_CHAIN_H
#define UFF_CHAIN_H

#include "kernels.h"
#include "tile_fn.h"

struct uff_chain_kernels {
    uff_tile_rows rows;
    /* By log2 of the element's size: fill with one element (a points to it), copy. */
    uff_tile_fn fill[4];
    uff_tile_fn copy[4];
};

#endif
