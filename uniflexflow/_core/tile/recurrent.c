#include "recurrent.h"
#include "math_f32.h"
#include "math_f64.h"
#include "vector.h"

#define INLINE static inline __attribute__((always_inline))

/* Units of a full tile: a panel of the micro-kernel in gemm.c. Another width works too. */
#if defined(__aarch64__)
#define PANEL 3
#else
#define PANEL 2
#endif

#define T float
#define VU uff_vf32u
#define NAME(x) x##_f32
#include "recurrent_typed.h"
#undef T
#undef VU
#undef NAME

#define T double
#define VU uff_vf64u
#define NAME(x) x##_f64
#include "recurrent_typed.h"

static const uff_recurrent_kernels table = {
    .forward = {{lstm_f32, lstm_f64}, {gru_f32, gru_f64}, {simple_rnn_f32, simple_rnn_f64}},
    .back = {{lstm_back_f32, lstm_back_f64},
             {gru_back_f32, gru_back_f64},
             {simple_rnn_back_f32, simple_rnn_back_f64}},
};

void UFF_FILL(recurrent)(uff_kernels *k)
{
    k->recurrent = &table;
}
