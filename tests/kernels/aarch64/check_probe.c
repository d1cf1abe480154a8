/* The peak measurement: that it does the arithmetic that it says it does. */
#include "probe.h"

#include "check.h"
#include "vector.h"

#define CHAINS 12

/* Every chain starts at its number and goes on x / 2 + 1 / 4; all end up in the sink. */
static void check_fma(const char *what, int64_t (*fma)(int64_t, double *), int bytes, int64_t n)
{
    double sink = NAN, want = 0;
    const int64_t operations = fma(n, &sink);
    for (int chain = 0; chain < CHAINS; chain++) {
        double x = chain;
        for (int64_t i = 0; i < n; i++)
            x = x / 2 + 0.25;
        want += x;
    }
    check_close(what, n, sink, want, 1e-5);
    check_same(what, n, operations, CHAINS * 2 * (UFF_VBYTES / bytes));
}

void UFF_FILL(probe)(uff_kernels *kernels);

int main(void)
{
    uff_kernels kernels;
    UFF_FILL(probe)(&kernels);
#if defined(__aarch64__)
    check_same("bytes of a vector", 0, kernels.probe->vector_bytes, 16);
#endif
    check_same("bytes of a vector", 1, kernels.probe->vector_bytes, UFF_VBYTES);
    for (int64_t n = 0; n < 40; n += 1 + n / 2) {
        check_fma("fma_f32", kernels.probe->fma_f32, 4, n);
        check_fma("fma_f64", kernels.probe->fma_f64, 8, n);
    }
    return check_report("probe");
}
