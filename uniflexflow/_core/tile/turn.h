/* Squares of 16 bytes a side, turned over in registers: out[p][i] = in[i][p]. */
#ifndef UFF_TURN_H
#define UFF_TURN_H

#include <stdint.h>

#include "bfloat16.h"

typedef float quad_f32 __attribute__((vector_size(16)));
typedef float quad_f32u __attribute__((vector_size(16), aligned(4), may_alias));
typedef float quad_f32p __attribute__((vector_size(16), aligned(2), may_alias));
typedef int32_t quad_i32 __attribute__((vector_size(16)));
typedef uint32_t quad_u32 __attribute__((vector_size(16)));
typedef uint16_t quad_u16u __attribute__((vector_size(8), aligned(2), may_alias));
typedef double pair_f64 __attribute__((vector_size(16)));
typedef double pair_f64u __attribute__((vector_size(16), aligned(8), may_alias));
typedef int64_t pair_i64 __attribute__((vector_size(16)));

static inline void turn_quads(quad_f32 r0, quad_f32 r1, quad_f32 r2, quad_f32 r3, float *out, int64_t ldo)
{
    const quad_i32 low = {0, 4, 1, 5}, high = {2, 6, 3, 7};
    const quad_f32 even0 = __builtin_shuffle(r0, r2, low), even1 = __builtin_shuffle(r0, r2, high);
    const quad_f32 odd0 = __builtin_shuffle(r1, r3, low), odd1 = __builtin_shuffle(r1, r3, high);
    *(quad_f32u *)out = __builtin_shuffle(even0, odd0, low);
    *(quad_f32u *)(out + ldo) = __builtin_shuffle(even0, odd0, high);
    *(quad_f32u *)(out + 2 * ldo) = __builtin_shuffle(even1, odd1, low);
    *(quad_f32u *)(out + 3 * ldo) = __builtin_shuffle(even1, odd1, high);
}

static inline void turn_square_f64(const double *in, int64_t ldi, double *out, int64_t ldo)
{
    const pair_f64 r0 = *(const pair_f64u *)in, r1 = *(const pair_f64u *)(in + ldi);
    *(pair_f64u *)out = __builtin_shuffle(r0, r1, (pair_i64){0, 2});
    *(pair_f64u *)(out + ldo) = __builtin_shuffle(r0, r1, (pair_i64){1, 3});
}

static inline void turn_square_f32(const float *in, int64_t ldi, float *out, int64_t ldo)
{
    turn_quads(*(const quad_f32u *)in, *(const quad_f32u *)(in + ldi),
               *(const quad_f32u *)(in + 2 * ldi), *(const quad_f32u *)(in + 3 * ldi), out, ldo);
}

static inline quad_f32 expand_quad(const uff_bf16 *p)
{
    return (quad_f32)(__builtin_convertvector(*(const quad_u16u *)p, quad_u32) << 16);
}

static inline void turn_square_bf16(const uff_bf16 *in, int64_t ldi, float *out, int64_t ldo)
{
    turn_quads(expand_quad(in), expand_quad(in + ldi), expand_quad(in + 2 * ldi),
               expand_quad(in + 3 * ldi), out, ldo);
}

static inline void turn_square_pairs(const uff_bf16 *in, int64_t ldi, uint32_t *out, int64_t ldo)
{
    turn_quads(*(const quad_f32p *)in, *(const quad_f32p *)(in + ldi),
               *(const quad_f32p *)(in + 2 * ldi), *(const quad_f32p *)(in + 3 * ldi),
               (float *)out, ldo);
}

#endif
