/* Transcendental functions of tiles, float32 and float64. */
#ifndef UFF_FUNCTION_H
#define UFF_FUNCTION_H

#include "kernels.h"
#include "tile_fn.h"

struct uff_function_kernels {
    uff_tile_rows rows;
};

#endif
