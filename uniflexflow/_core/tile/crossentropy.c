#include "crossentropy.h"
#include "exponential.h"
#include "tile_fn.h"
#include "vector.h"

#define T float
#define V uff_vf32
#define VU uff_vf32u
#define NAME(x) x##_f32
#include "crossentropy_typed.h"
#undef T
#undef V
#undef VU
#undef NAME

#define T double
#define V uff_vf64
#define VU uff_vf64u
#define NAME(x) x##_f64
#include "crossentropy_typed.h"

static const uff_crossentropy_kernels table = {
    {sparse_f32, sparse_f64},
    {sparse_gradient_f32, sparse_gradient_f64},
    {dense_f32, dense_f64},
    {dense_gradient_f32, dense_gradient_f64},
};

void UFF_FILL(crossentropy)(uff_kernels *k)
{
    k->crossentropy = &table;
}
