#include "softmax.h"
#include "exponential.h"
#include "tile_fn.h"
#include "vector.h"

/* Rows of up to so many bytes leave room in the cache for the row after them, which is asked
 * for meanwhile; of longer ones, the next piece. */
#define SHORT_ROW (64 * 1024)
#define AHEAD(T, n) ((n) <= (int64_t)(SHORT_ROW / sizeof(T)) ? (n) : UFF_PIECE)

#define KERNELS(t, T)                                                                         \
    static void softmax_##t(void *out, const void *x_, int64_t rows, int64_t n)               \
    {                                                                                         \
        T *y = out;                                                                           \
        const T *x = x_;                                                                      \
        const int64_t ahead = AHEAD(T, n);                                                    \
        for (int64_t r = 0; r < rows; r++, x += n, y += n) {                                  \
            const T high = uff_highest_##t(x, n);                                             \
            double sum = 0;                                                                   \
            for (int64_t at = 0; at < n; at += UFF_PIECE) {                                   \
                const int64_t count = n - at < UFF_PIECE ? n - at : UFF_PIECE;                \
                sum += uff_exponentials_##t(1, UFF_RAISED, y + at, x + at, high, count,       \
                                            ahead);                                           \
            }                                                                                 \
            const T scale = (T)(1 / sum); /* the elements' 2^64 is in the sum too */          \
            UFF_EACH y[i] *= scale;                                                           \
        }                                                                                     \
    }                                                                                         \
    static void log_softmax_##t(void *out, const void *x_, int64_t rows, int64_t n)           \
    {                                                                                         \
        T *y = out, high, rest;                                                               \
        const T *x = x_;                                                                      \
        for (int64_t r = 0; r < rows; r++, x += n, y += n) {                                  \
            uff_log_sum_exp_##t(x, n, &high, &rest);                                          \
            rest = rest == (T)INFINITY ? (T)NAN : rest;                                       \
            UFF_EACH y[i] = (x[i] - high) - rest;                                             \
        }                                                                                     \
    }                                                                                         \
    static void logsumexp_##t(void *out, const void *x_, int64_t rows, int64_t n)             \
    {                                                                                         \
        T *y = out, high, rest;                                                               \
        const T *x = x_;                                                                      \
        for (int64_t r = 0; r < rows; r++, x += n) {                                          \
            uff_log_sum_exp_##t(x, n, &high, &rest);                                          \
            y[r] = rest + high;                                                               \
        }                                                                                     \
    }
KERNELS(f32, float)
KERNELS(f64, double)

static const uff_softmax_kernels table = {
    {softmax_f32, softmax_f64},
    {log_softmax_f32, log_softmax_f64},
    {logsumexp_f32, logsumexp_f64},
};

void UFF_FILL(softmax)(uff_kernels *k)
{
    k->softmax = &table;
}
