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

/* bfloat16, expanded or in pairs: against plain sums, as float32 and rounded. */
static void check_bf16(const char *name, const uff_gemm_type *t, int64_t m, int64_t n, int64_t k,
                       int ta, int tb, int rounded)
{
    static uint16_t a[MOST * MOST], b[MOST * MOST], out[MOST * MOST];
    static float c[MOST * MOST], before[MOST * MOST], bias[MOST];
    static float pa[MOST * MOST], pb[2 * MOST * MOST];
    for (int i = 0; i < MOST * MOST; i++) {
        a[i] = check_to_bfloat16((float)check_random());
        b[i] = check_to_bfloat16((float)check_random());
        c[i] = before[i] = (float)check_random();
        out[i] = 0x5a5a;
    }
    for (int i = 0; i < MOST; i++)
        bias[i] = (float)check_random();
    const int64_t lda = ta ? m : k, ldb = tb ? k : n;
    t->pack_a(m, k, a, lda, ta ? UFF_A_COLUMNS : UFF_A_ROWS, pa);
    t->pack_b(n, k, b, ldb, tb, pb);
    uff_gemm_block block = {
        .m = m, .n = n, .k = (k + t->depth - 1) / t->depth, .a = pa, .a_form = UFF_A_PACKED,
        .b = pb, .b_packed = 1, .c = c, .ldc = n, .accumulate = 1, .bias = bias,
        .out = rounded ? out : NULL, .ldo = n + 1,
    };
    t->block(&block);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            const number old = before[i * n + j];
            number want = old + bias[j], size = fabsl(old) + fabsl((number)bias[j]);
            for (int64_t p = 0; p < k; p++) {
                number x = check_from_bfloat16(a[ta ? p * lda + i : i * lda + p]);
                x *= check_from_bfloat16(b[tb ? j * ldb + p : p * ldb + j]);
                want += x, size += fabsl(x);
            }
            number bound = (k + 3) * 0x1p-24L * size;
            if (rounded) {
                check_same(name, i * n + j, c[i * n + j], old);
                check_close(name, i * n + j, check_from_bfloat16(out[i * (n + 1) + j]), want,
                            bound + 0x1p-8L * (fabsl(want) + bound));
                check_true(name, i * n + j, out[i * (n + 1) + n] == 0x5a5a);
            } else {
                check_close(name, i * n + j, c[i * n + j], want, bound);
            }
        }
}

static void check_all_bf16(const char *name, const uff_gemm_type *t)
{
    const int64_t ms[] = {1, 2, t->mr - 1, t->mr, t->mr + 1, 2 * t->mr + 1};
    const int64_t ns[] = {1, t->nr - 1, t->nr, t->nr + 1, 2 * t->nr};
    const int64_t ks[] = {0, 1, 2, 4, 9, 33};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 5; j++)
            for (int p = 0; p < 6; p++)
                for (int form = 0; form < 8; form++)
                    check_bf16(name, t, ms[i], ns[j], ks[p], form & 1, form >> 1 & 1, form >> 2);
}

/* A vector times a matrix of bfloat16. */
static void check_row_bf16(const uff_gemm_type *t, int64_t n, int64_t k, int turned, int rounded)
{
    static uint16_t x[MOST], matrix[MOST * MOST], bias[MOST], narrow[MOST];
    static float wide[MOST];
    for (int i = 0; i < MOST * MOST; i++)
        matrix[i] = check_to_bfloat16((float)check_random());
    for (int i = 0; i < MOST; i++) {
        x[i] = check_to_bfloat16((float)check_random());
        bias[i] = check_to_bfloat16((float)check_random());
    }
    const int64_t ld = turned ? k : n;
    uff_gemm_row row = {.n = n, .k = k, .x = x, .matrix = matrix, .ld = ld, .transposed = turned,
                        .y = rounded ? (void *)narrow : wide, .bias = bias, .bias_step = 1,
                        .rounded = rounded};
    t->row(&row);
    for (int64_t j = 0; j < n; j++) {
        number want = check_from_bfloat16(bias[j]), size = fabsl(want);
        for (int64_t p = 0; p < k; p++) {
            number term = check_from_bfloat16(x[p]);
            term *= check_from_bfloat16(matrix[turned ? j * ld + p : p * ld + j]);
            want += term, size += fabsl(term);
        }
        number bound = (k + 3) * 0x1p-24L * size;
        if (rounded)
            check_close("row_bf16", j, check_from_bfloat16(narrow[j]), want,
                        bound + 0x1p-8L * (fabsl(want) + bound));
        else
            check_close("row_bf16", j, wide[j], want, bound);
    }
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
    check_all_bf16("gemm_bf16", &kernels.gemm->bf16);
    check_all_bf16("gemm_bf16_pairs", &kernels.gemm->bf16_pairs);
    for (int form = 0; form < 4; form++)
        for (int64_t n = 1; n < 40; n += 7) {
            check_row_bf16(&kernels.gemm->bf16, n, 33, form & 1, form >> 1);
            check_row_bf16(&kernels.gemm->bf16, n, 3, form & 1, form >> 1);
        }
    return check_report("gemm");
}
