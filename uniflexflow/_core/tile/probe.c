#include "probe.h"
#include "vector.h"

#define CHAINS 12 /* more than latency x units of any target, fewer than its registers */

#define FMA(name, T, V, LANES)                                       \
    static int64_t name(int64_t n, double *sink)                     \
    {                                                                \
        V acc[CHAINS], x = (V){0} + (T)0.5, y = (V){0} + (T)0.25;    \
        for (int i = 0; i < CHAINS; i++)                             \
            acc[i] = (V){0} + (T)i;                                  \
        for (int64_t k = 0; k < n; k++) {                            \
            _Pragma("GCC unroll 12")                                 \
            for (int i = 0; i < CHAINS; i++)                         \
                acc[i] = acc[i] * x + y;                             \
            __asm__ volatile("" : UFF_FREE(x), UFF_FREE(y));           \
        }                                                            \
        V sum = acc[0];                                              \
        for (int i = 1; i < CHAINS; i++)                             \
            sum += acc[i];                                           \
        *sink = sum[0];                                              \
        return (int64_t)CHAINS * LANES * 2;                          \
    }

#if defined(__aarch64__)
#define UFF_FREE(x) "+w"(x)
#elif defined(__AVX512F__)
#define UFF_FREE(x) "+v"(x)
#else
#define UFF_FREE(x) "+x"(x)
#endif

FMA(fma_f32, float, uff_vf32, UFF_F32)
FMA(fma_f64, double, uff_vf64, UFF_F64)

static const uff_probe_kernels table = {UFF_VBYTES, fma_f32, fma_f64};

void UFF_FILL(probe)(uff_kernels *k)
{
    k->probe = &table;
}
