/* Conversions of tiles between all dtypes. */
#ifndef UFF_CAST_H
#define UFF_CAST_H

#include "kernels.h"
#include "tile_fn.h"

struct uff_cast_kernels {
    uff_tile_rows rows; /* one row per source dtype, in the order of their numbers */
};

#endif
