/* Which instruction sets this build has, which of them this machine can run, and the
 * kernel tables made for them. Included by dispatch.pyx alone. */
#ifndef UFF_ISA_H
#define UFF_ISA_H

#include "tile/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#define UFF_ISAS(X) X(v2) X(v3) X(v4) X(v4bf16)
#elif defined(__aarch64__)
#define UFF_ISAS(X) X(neon)
#else
#define UFF_ISAS(X) X(generic)
#endif

/* Weak: a family may have no row of its own above the portable one. */
#define UFF_DECLARE(family, isa) \
    __attribute__((weak)) void uff_fill_##family##_##isa(uff_kernels *kernels);
#define UFF_CALL(family, isa)      \
    if (uff_fill_##family##_##isa) \
        uff_fill_##family##_##isa(kernels);
#define UFF_FILL_ISA(isa)                         \
    UFF_FAMILIES(UFF_DECLARE, isa)                \
    static void fill_##isa(uff_kernels *kernels)  \
    {                                             \
        UFF_FAMILIES(UFF_CALL, isa)               \
    }
UFF_ISAS(UFF_FILL_ISA)

static const struct {
    const char *name;
    void (*fill)(uff_kernels *);
} isas[] = {
#define UFF_ISA_ROW(isa) {#isa, fill_##isa},
    UFF_ISAS(UFF_ISA_ROW)
};

static int uff_isa_count(void)
{
    return (int)(sizeof isas / sizeof isas[0]);
}

/* Names go from the portable set upward. */
static const char *uff_isa_name(int isa)
{
    return isas[isa].name;
}

/* Fill the table for an instruction set: every family's portable row, overridden by each
 * set up to this one that has the family. */
static void uff_isa_fill(int isa, uff_kernels *kernels)
{
    for (int i = 0; i <= isa; i++)
        isas[i].fill(kernels);
}

#if defined(__x86_64__)

static int has(unsigned word, unsigned bits)
{
    return (word & bits) == bits;
}

/* The highest level of the x86-64 psABI that the processor and the operating system
 * (which must save the wide registers: XCR0) can run; 5 is level 4 with bfloat16. */
static int x86_level(void)
{
    unsigned a, b, c, d, c1, b7, a71 = 0, ext, xcr0 = 0, top;
    if (!__get_cpuid(1, &a, &b, &c1, &d))
        return 1;
    if (!has(c1, bit_SSE3 | bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT | bit_CMPXCHG16B))
        return 1;
    if (!has(c1, bit_AVX | bit_FMA | bit_F16C | bit_MOVBE | bit_OSXSAVE))
        return 2;
    __asm__("xgetbv" : "=a"(xcr0), "=d"(d) : "c"(0));
    if (!has(xcr0, 0x6) || !__get_cpuid_count(7, 0, &top, &b7, &c, &d) ||
        !__get_cpuid(0x80000001, &a, &b, &ext, &d))
        return 2;
    if (!has(b7, bit_AVX2 | bit_BMI | bit_BMI2) || !has(ext, bit_LZCNT))
        return 2;
    if (!has(xcr0, 0xe6) ||
        !has(b7, bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL))
        return 3;
    if (top >= 1)
        __get_cpuid_count(7, 1, &a71, &b, &c, &d);
    return has(a71, 1u << 5) ? 5 : 4; /* AVX512_BF16 */
}

/* By the processor and by the operating system. */
static int uff_isa_supported(int isa)
{
    return x86_level() >= isa + 2;
}

#else

static int uff_isa_supported(int isa)
{
    return isa == 0;
}

#endif

#endif
