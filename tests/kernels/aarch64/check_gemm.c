/* Matrix product tiles against plain loops: every form of A and B, sizes about the edges. */
#include "gemm.h"

#include "check.h"

#define MOST 64

#define CHECK(T, suffix, unit)                                                                 \
    static void check_block_##suffix(const uff_gemm_type *t, int64_t m, int64_t n, int64_t k,  \
                                     int ta, int tb, int pack_a, int pack_b, int epilogue)     \
    {                                                                                          \
        static T a[MOST * MOST], b[MOST * MOST], c[MOST * MOST], before[MOST * MOST];          \
        static T bias[MOST], pa[MOST * MOST], pb[2 * MOST * MOST];                             \
        for (int i = 0; i < MOST * MOST; i++) {                                                \
            a[i] = (T)check_random(), b[i] = (T)check_random();                                \
            c[i] = before[i] = (T)check_random();                                              \
        }                                                                                      \
        for (int i = 0; i < MOST; i++)                                                         \
            bias[i] = (T)check_random();                                                       \
        const int64_t lda = ta ? m : k, ldb = tb ? k : n;                                      \
        uff_gemm_block block = {                                                               \
            .m = m, .n = n, .k = k, .a = a, .lda = lda, .b = b, .ldb = ldb, .c = c,            \
            .ldc = n + 1, .accumulate = epilogue & 1, .bias = epilogue & 2 ? bias : NULL,      \
            .act = epilogue & 4 ? UFF_ACT_RELU : UFF_ACT_NONE,                                 \
            .a_form = ta ? UFF_A_COLUMNS : UFF_A_ROWS, .b_packed = pack_b,                     \
        };                                                                                     \
        if (pack_a) {                                                                          \
            t->pack_a(m, k, a, lda, block.a_form, pa);                                         \
            block.a = pa, block.a_form = UFF_A_PACKED;                                         \
        }                                                                                      \
        if (pack_b) {                                                                          \
            t->pack_b(n, k, b, ldb, tb, pb);                                                   \
            block.b = pb;                                                                      \
        }                                                                                      \
        t->block(&block);                                                                      \
        for (int64_t i = 0; i < m; i++)                                                        \
            for (int64_t j = 0; j <= n; j++) {                                                 \
                const T old = before[i * (n + 1) + j];                                         \
                double want = epilogue & 1 ? old : 0, size = fabs(want);                       \
                if (j == n) { /* between the rows: not to be touched */                        \
                    check_close("gemm_" #suffix " gap", i, c[i * (n + 1) + j], old, 0);        \
                    continue;                                                                  \
                }                                                                              \
                for (int64_t p = 0; p < k; p++) {                                              \
                    double x = a[ta ? p * lda + i : i * lda + p];                              \
                    x *= b[tb ? j * ldb + p : p * ldb + j];                                    \
                    want += x, size += fabs(x);                                                \
                }                                                                              \
                if (epilogue & 2)                                                              \
                    want += bias[j], size += fabs(bias[j]);                                    \
                if (epilogue & 4 && want < 0)                                                  \
                    want = 0;                                                                  \
                check_close("gemm_" #suffix, i * n + j, c[i * (n + 1) + j], want,              \
                            (k + 3) * unit * size);                                            \
            }                                                                                  \
    }                                                                                          \
    static void check_row_##suffix(const uff_gemm_type *t, int64_t n, int64_t k, int turned)   \
    {                                                                                          \
        static T x[MOST], matrix[MOST * MOST], y[MOST], bias[MOST];                            \
        for (int i = 0; i < MOST * MOST; i++)                                                  \
            matrix[i] = (T)check_random();                                                     \
        for (int i = 0; i < MOST; i++)                                                         \
            x[i] = (T)check_random(), bias[i] = (T)check_random(), y[i] = NAN;                 \
        const int64_t ld = turned ? k : n;                                                     \
        uff_gemm_row row = {.n = n, .k = k, .x = x, .matrix = matrix, .ld = ld,                \
                            .transposed = turned, .y = y, .bias = bias, .bias_step = 1,        \
                            .act = UFF_ACT_NONE};                                              \
        t->row(&row);                                                                          \
        for (int64_t j = 0; j < n; j++) {                                                      \
            double want = bias[j], size = fabs(want);                                          \
            for (int64_t p = 0; p < k; p++) {                                                  \
                double term = (double)x[p] * matrix[turned ? j * ld + p : p * ld + j];         \
                want += term, size += fabs(term);                                              \
            }                                                                                  \
            check_close("row_" #suffix, j, y[j], want, (k + 3) * unit * size);                 \
        }                                                                                      \
    }                                                                                          \
    static void check_##suffix(const uff_gemm_type *t)                                         \
    {                                                                                          \
        const int64_t ms[] = {1, 2, t->mr - 1, t->mr, t->mr + 1, 2 * t->mr + 1};               \
        const int64_t ns[] = {1, t->nr - 1, t->nr, t->nr + 1, 2 * t->nr};                      \
        const int64_t ks[] = {0, 1, 4, 33};                                                    \
        for (int i = 0; i < 6; i++)                                                            \
            for (int j = 0; j < 5; j++)                                                        \
                for (int p = 0; p < 4; p++) {                                                  \
                    for (int form = 0; form < 16; form++) {                                    \
                        int ta = form & 1, tb = form >> 1 & 1, pb = form >> 3;                 \
                        if (!pb && (tb || ns[j] % t->nr)) /* in place: whole panels only */    \
                            continue;                                                          \
                        for (int epilogue = 0; epilogue < 8; epilogue++)                       \
                            check_block_##suffix(t, ms[i], ns[j], ks[p], ta, tb,               \
                                                 form >> 2 & 1, pb, epilogue);                 \
                    }                                                                          \
                    check_row_##suffix(t, ns[j], ks[p], 0);                                    \
                    check_row_##suffix(t, ns[j], ks[p], 1);                                    \
                }                                                                              \
    }

CHECK(float, f32, 0x1p-24)
CHECK(double, f64, 0x1p-53)

void UFF_FILL(gemm)(uff_kernels *kernels);

int main(void)
{
    uff_kernels kernels;
    UFF_FILL(gemm)(&kernels);
    check_f32(&kernels.gemm->f32);
    check_f64(&kernels.gemm->f64);
    return check_report("gemm");
}
