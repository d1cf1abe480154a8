#include "convolution.h"

#include "bfloat16.h"
#include "turn.h"
#include "vector.h"

/* Rows of the register block: with two vectors a row, the sums, one row of B and a
 * broadcast element fill the registers. */
#if UFF_REGISTERS == 32
#define ROWS 14
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#else
#define ROWS 6
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
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

#undef LANES
#undef NAME

#define S float
#define E float
#define WIDE(x) (x)
#define LANES UFF_F32
#define COPY(to, from) memcpy(to, from, 2 * LANES * sizeof(E))
#define SQUARE 4
#define TURN turn_square_f32
#define NAME(f) f##_f32
#include "convolution_pack.h"

#define S double
#define E double
#define WIDE(x) (x)
#define LANES UFF_F64
#define COPY(to, from) memcpy(to, from, 2 * LANES * sizeof(E))
#define SQUARE 2
#define TURN turn_square_f64
#define NAME(f) f##_f64
#include "convolution_pack.h"

static inline void expand_row(float *to, const uff_bf16 *from)
{
    uff_store_f32(to, uff_load_bf16(from));
    uff_store_f32(to + UFF_F32, uff_load_bf16(from + UFF_F32));
}

#define S uff_bf16
#define E float
#define WIDE(x) uff_expand(x)
#define LANES UFF_F32
#define COPY expand_row
#define SQUARE 4
#define TURN turn_square_bf16
#define NAME(f) f##_bf16
#include "convolution_pack.h"

static void expand(int64_t n, const void *source, void *result)
{
    const uff_bf16 *from = source;
    float *to = result;
    int64_t i = 0;
    for (; i + UFF_F32 <= n; i += UFF_F32)
        uff_store_f32(to + i, uff_load_bf16(from + i));
    for (; i < n; i++)
        to[i] = uff_expand(from[i]);
}

static void narrow(int64_t n, const void *source, void *result)
{
    const float *from = source;
    uff_bf16 *to = result;
    int64_t i = 0;
    for (; i + UFF_F32 <= n; i += UFF_F32)
        uff_store_bf16(to + i, uff_load_f32(from + i));
    for (; i < n; i++)
        to[i] = uff_narrow(from[i]);
}

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
    .pack_bf16 = pack_bf16,
    .gather_bf16 = gather_bf16,
    .expand = expand,
    .narrow = narrow,
};

void UFF_FILL(convolution)(uff_kernels *k)
{
    k->convolution = &table;
}
