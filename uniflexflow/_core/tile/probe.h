/* Kernels that measure the machine: the peak that others are judged by. */
#ifndef UFF_PROBE_H
#define UFF_PROBE_H

#include "kernels.h"

struct uff_probe_kernels {
    int vector_bytes;
    /* Run independent multiply-adds on registers, n times round; return how many
     * floating-point operations one round does. `sink` gets a value that depends on all. */
    int64_t (*fma_f32)(int64_t n, double *sink);
    int64_t (*fma_f64)(int64_t n, double *sink);
};

#endif
