#include "grouped.h"
#include "vector.h"

#define INLINE static inline __attribute__((always_inline))
#define EACH(i, n) _Pragma("GCC unroll 32") for (int i = 0; i < (n); i++)

/* Columns of taps and steps of results that have functions of their own; the first are for all. */
#define ALL_SHAPES(X, form, value)                                                            \
    FEW_SHAPES(X, form, value)                                                                \
    X(form, value, 4, 1) X(form, value, 5, 1) X(form, value, 7, 1) X(form, value, 5, 2)       \
    X(form, value, 7, 2)
#define FEW_SHAPES(X, form, value)                                                            \
    X(form, value, 0, 0) X(form, value, 1, 1) X(form, value, 2, 1) X(form, value, 3, 1)       \
    X(form, value, 3, 2)
#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))
#define MOST_COLUMNS 7

typedef void block_fn(const uff_grouped_block *);

typedef struct {
    int64_t kw, stride;
    block_fn *of_pixels[4];
} shape;

/* Where a vector of filters is: its group, and which vector of it. */
typedef struct {
    int64_t group, vector;
} place;

INLINE place first_place(const uff_grouped_block *b)
{
    return (place){b->first / b->per_group, b->first % b->per_group};
}

INLINE void next_place(const uff_grouped_block *b, place *at)
{
    if (++at->vector == b->per_group)
        at->vector = 0, at->group++;
}

typedef struct {
    const shape *shapes;
    int count;
} form;

static block_fn *find(form f, const uff_grouped_block *b)
{
    const shape *s = f.shapes;
    int found = 0;
    for (int i = 1; i < f.count; i++)
        if (s[i].kw == b->kw && s[i].stride == b->stride && b->dilation == 1)
            found = i;
    return s[found].of_pixels[b->pixels == 1 ? 0 : b->pixels == 4 ? 1 : b->pixels - 5];
}

#if UFF_VBYTES == 64
#define IOTA_32 {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
#define IOTA_64 {0, 1, 2, 3, 4, 5, 6, 7}
#elif UFF_VBYTES == 32
#define IOTA_32 {0, 1, 2, 3, 4, 5, 6, 7}
#define IOTA_64 {0, 1, 2, 3}
#else
#define IOTA_32 {0, 1, 2, 3}
#define IOTA_64 {0, 1}
#endif

#define T float
#define V uff_vf32
#define I uff_vi32
#define IT int32_t
#define LANES UFF_F32
#define IOTA ((uff_vi32)IOTA_32)
#define ALL uff_all_f32
#define LOAD uff_load_f32
#define STORE uff_store_f32
#define NAME(f) f##_f32
#include "grouped_typed.h"
#undef T
#undef V
#undef I
#undef IT
#undef LANES
#undef IOTA
#undef ALL
#undef LOAD
#undef STORE
#undef NAME

#define T double
#define V uff_vf64
#define I uff_vi64
#define IT int64_t
#define LANES UFF_F64
#define IOTA ((uff_vi64)IOTA_64)
#define ALL uff_all_f64
#define LOAD uff_load_f64
#define STORE uff_store_f64
#define NAME(f) f##_f64
#include "grouped_typed.h"

#define ROW(type, lanes)               \
    .lanes_##type = lanes,             \
    .correlate_##type = correlate_##type, \
    .contract_##type = contract_##type,   \
    .spread_##type = spread_##type,       \
    .fold_##type = fold_##type

static const uff_grouped_kernels table = {ROW(f32, UFF_F32), ROW(f64, UFF_F64)};

void UFF_FILL(grouped)(uff_kernels *k)
{
    k->grouped = &table;
}
