#include "window.h"
#include "vector.h"

#define T float
#define V uff_vf32
#define I uff_vi32
#define LANES UFF_F32
#define ALL uff_all_f32
#define LOAD uff_load_f32
#define STORE uff_store_f32
#define NAME(f) f##_f32
#include "window_functions.h"
#undef T
#undef V
#undef I
#undef LANES
#undef ALL
#undef LOAD
#undef STORE
#undef NAME

#define T double
#define V uff_vf64
#define I uff_vi64
#define LANES UFF_F64
#define ALL uff_all_f64
#define LOAD uff_load_f64
#define STORE uff_store_f64
#define NAME(f) f##_f64
#include "window_functions.h"

#define ROW(type)                                        \
    .largest_##type = largest_##type,                    \
    .mean_##type = mean_##type,                          \
    .largest_gradient_##type = largest_gradient_##type,  \
    .largest_gather_##type = largest_gather_##type,      \
    .mean_gradient_##type = mean_gradient_##type

static const uff_window_kernels table = {ROW(f32), ROW(f64)};

void UFF_FILL(window)(uff_kernels *k)
{
    k->window = &table;
}
