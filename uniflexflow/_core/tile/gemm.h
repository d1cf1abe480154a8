#ifndef UFF_GEMM_H
#define UFF_GEMM_H

#include "kernels.h"

struct uff_gemm_kernels {
    int mr;
};

#endif
