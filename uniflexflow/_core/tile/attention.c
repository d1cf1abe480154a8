#include "attention.h"
#include "exponential.h"
#include "tile_fn.h"
#include "vector.h"

#include <float.h>

#define T float
#define V uff_vf32
#define VU uff_vf32u
#define HIDDEN (-FLT_MAX / 2)
#define NAME(x) x##_f32
#include "attention_typed.h"
#undef T
#undef V
#undef VU
#undef HIDDEN
#undef NAME

#define T double
#define V uff_vf64
#define VU uff_vf64u
#define HIDDEN (-DBL_MAX / 2)
#define NAME(x) x##_f64
#include "attention_typed.h"

static const uff_attention_kernels table = {
    .f32 = {mask_f32, weigh_f32, weigh_back_f32, copy_f32, finish_f32, add_f32, blind_f32},
    .f64 = {mask_f64, weigh_f64, weigh_back_f64, copy_f64, finish_f64, add_f64, blind_f64},
};

void UFF_FILL(attention)(uff_kernels *k)
{
    k->attention = &table;
}
