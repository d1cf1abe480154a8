#include "convolution.h"
#include "vector.h"

/* Rows of the register block: with two vectors a row, the sums, one row of B and a
 * broadcast element fill the registers. */
#if UFF_REGISTERS == 32
#define ROWS 14
#define FEW_ROWS 7
#else
#define ROWS 6
#define FEW_ROWS 3
#endif
#define UFF_LINE 64

#define EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)

static inline void look_ahead(uff_ahead *ahead)
{
    for (int64_t i = ahead->runs ? ahead->each : 0; i > 0; i--) {
        __builtin_prefetch(ahead->at + ahead->line * UFF_LINE, 0, 2);
        if (++ahead->line == ahead->lines) {
            ahead->line = 0;
            ahead->at += ahead->step;
            if (--ahead->runs == 0)
                return;
        }
    }
}

#define T float
#define V uff_vf32
#define I uff_vi32
#define LANES UFF_F32
#define ALL uff_all_f32
#define LOAD uff_load_f32
#define STORE uff_store_f32
#define NAME(f) f##_f32
#include "convolution_product.h"
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
#include "convolution_product.h"

static const uff_convolution_kernels table = {
    .lanes_f32 = 2 * UFF_F32,
    .lanes_f64 = 2 * UFF_F64,
    .rows_f32 = ROWS,
    .rows_f64 = ROWS,
    .product_f32 = product_f32,
    .product_f64 = product_f64,
    .pack_f32 = pack_f32,
    .pack_f64 = pack_f64,
    .add_f32 = add_f32,
    .add_f64 = add_f64,
    .gather_f32 = gather_f32,
    .gather_f64 = gather_f64,
};

void UFF_FILL(convolution)(uff_kernels *k)
{
    k->convolution = &table;
}
