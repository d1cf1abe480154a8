/* Philox4x32-10: numbers as a function of a key and a place; see ops/random.py. */
#ifndef UFF_RANDOM_H
#define UFF_RANDOM_H

#include "kernels.h"

/* out[i] = the uniform number in [0, 1) of element first + i, for i < n. */
typedef void (*uff_uniform_fn)(void *out, int64_t first, int64_t n, uint64_t seed,
                               uint64_t counter);

struct uff_random_kernels {
    uff_uniform_fn uniform[2]; /* float32, float64 */
};

#endif
