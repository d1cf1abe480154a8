/* Vectors as wide as the target's registers, by GCC's vector extension.
 *
 * Loads and stores go through the `u` types, which need no alignment beyond the
 * element's. Arithmetic works on vectors as on numbers; comparisons give lanes of 0 or -1
 * of the integer type, for uff_select.
 */
#ifndef UFF_VECTOR_H
#define UFF_VECTOR_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define UFF_VBYTES 64
#define UFF_REGISTERS 32
#elif defined(__AVX__)
#define UFF_VBYTES 32
#define UFF_REGISTERS 16
#elif defined(__aarch64__)
#define UFF_VBYTES 16
#define UFF_REGISTERS 32
#else
#define UFF_VBYTES 16
#define UFF_REGISTERS 16
#endif

#define UFF_F32 (UFF_VBYTES / 4) /* lanes */
#define UFF_F64 (UFF_VBYTES / 8)

typedef float uff_vf32 __attribute__((vector_size(UFF_VBYTES)));
typedef double uff_vf64 __attribute__((vector_size(UFF_VBYTES)));
typedef int32_t uff_vi32 __attribute__((vector_size(UFF_VBYTES)));
typedef int64_t uff_vi64 __attribute__((vector_size(UFF_VBYTES)));
typedef uint32_t uff_vu32 __attribute__((vector_size(UFF_VBYTES)));
typedef uint64_t uff_vu64 __attribute__((vector_size(UFF_VBYTES)));
typedef float uff_vf32u __attribute__((vector_size(UFF_VBYTES), aligned(4), may_alias));
typedef double uff_vf64u __attribute__((vector_size(UFF_VBYTES), aligned(8), may_alias));
typedef int32_t uff_vi32u __attribute__((vector_size(UFF_VBYTES), aligned(4), may_alias));
typedef int64_t uff_vi64u __attribute__((vector_size(UFF_VBYTES), aligned(8), may_alias));

static inline uff_vf32 uff_load_f32(const float *p) { return *(const uff_vf32u *)p; }
static inline uff_vf64 uff_load_f64(const double *p) { return *(const uff_vf64u *)p; }
static inline void uff_store_f32(float *p, uff_vf32 v) { *(uff_vf32u *)p = v; }
static inline void uff_store_f64(double *p, uff_vf64 v) { *(uff_vf64u *)p = v; }

/* Lane by lane: a where the mask is -1, b where it is 0. */
static inline uff_vf32 uff_select_f32(uff_vi32 mask, uff_vf32 a, uff_vf32 b)
{
    return (uff_vf32)((mask & (uff_vi32)a) | (~mask & (uff_vi32)b));
}
static inline uff_vf64 uff_select_f64(uff_vi64 mask, uff_vf64 a, uff_vf64 b)
{
    return (uff_vf64)((mask & (uff_vi64)a) | (~mask & (uff_vi64)b));
}

/* All lanes x. Minus, because x - 0 keeps a negative zero and x + 0 doesn't. */
static inline uff_vf32 uff_all_f32(float x) { return x - (uff_vf32){0}; }
static inline uff_vf64 uff_all_f64(double x) { return x - (uff_vf64){0}; }

#endif
