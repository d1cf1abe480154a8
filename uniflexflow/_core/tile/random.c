/* Ten rounds of products are what drawing costs: on AVX2 80 of about 100 instructions for 16
 * numbers. A word of the counter lies in the lower half of a lane of 64 bits, since the
 * instruction that multiplies 32 by 32 bits looks at no more than that: what is above needn't
 * be cleared, and the two halves of a product are itself and itself shifted. Without
 * intrinsics GCC makes three products and two sums of each. */
#include "random.h"
#include "vector.h"

#if defined(__AVX512DQ__) || UFF_VBYTES == 32 || (UFF_VBYTES == 16 && defined(__SSE2__))
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define L UFF_F64 /* blocks in a vector */
#define STREAMS 2 /* vectors of blocks under way together */
#define BLOCKS (STREAMS * L)
#define ROUNDS 10

typedef uint64_t uff_vu64u __attribute__((vector_size(UFF_VBYTES), aligned(8), may_alias));

static inline uff_vu64 all_u64(uint64_t x)
{
    return (uff_vu64){0} + x;
}

/* The products of the lower halves of all lanes. */
static inline uff_vu64 product(uff_vu64 a, uff_vu64 b)
{
#if defined(__AVX512DQ__)
    return (uff_vu64)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif UFF_VBYTES == 32
    return (uff_vu64)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif UFF_VBYTES == 16 && defined(__SSE2__)
    return (uff_vu64)_mm_mul_epu32((__m128i)a, (__m128i)b);
#elif UFF_VBYTES == 16 && defined(__aarch64__)
    return (uff_vu64)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
#else
    return (a & 0xffffffff) * (b & 0xffffffff);
#endif
}

/* The keys of all rounds. */
static inline void schedule(uff_vu64 key[ROUNDS][2], uint64_t seed)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < ROUNDS; round++) {
        key[round][0] = all_u64(k0);
        key[round][1] = all_u64(k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Lanes 2 j and 2 j + 1 are blocks j and L / 2 + j, so that `pairs` below has them in order. */
static inline uff_vu64 lanes(void)
{
    uff_vu64 place;
    for (int i = 0; i < L; i++)
        place[i] = (uint64_t)(i % 2 * (L / 2) + i / 2);
    return place;
}

/* From vectors of 64 bits of each block: those of blocks 0 .. L/2 - 1, one behind the other,
 * and those of the others. */
static inline void pairs(uff_vu64 a, uff_vu64 b, uff_vu64 out[2])
{
#if UFF_VBYTES == 64
    out[0] = __builtin_shuffle(a, b, (uff_vu64){0, 8, 2, 10, 4, 12, 6, 14});
    out[1] = __builtin_shuffle(a, b, (uff_vu64){1, 9, 3, 11, 5, 13, 7, 15});
#elif UFF_VBYTES == 32
    out[0] = __builtin_shuffle(a, b, (uff_vu64){0, 4, 2, 6});
    out[1] = __builtin_shuffle(a, b, (uff_vu64){1, 5, 3, 7});
#else
    out[0] = __builtin_shuffle(a, b, (uff_vu64){0, 2});
    out[1] = __builtin_shuffle(a, b, (uff_vu64){1, 3});
#endif
}

/* The output words of blocks block .. block + BLOCKS - 1, each in the lower half of a lane. */
static inline __attribute__((always_inline)) void philox(uff_vu64 c[STREAMS][4], uint64_t block,
                                                         uint64_t counter,
                                                         const uff_vu64 key[ROUNDS][2])
{
    const uff_vu64 m0 = all_u64(0xD2511F53u), m1 = all_u64(0xCD9E8D57u), place = lanes();
    for (int s = 0; s < STREAMS; s++) {
        c[s][0] = place + (block + (uint64_t)(s * L));
        c[s][1] = c[s][0] >> 32;
        c[s][2] = all_u64(counter);
        c[s][3] = all_u64(counter >> 32);
    }
    _Pragma("GCC unroll 10")
    for (int round = 0; round < ROUNDS; round++)
        _Pragma("GCC unroll 2")
        for (int s = 0; s < STREAMS; s++) {
            const uff_vu64 first = product(c[s][0], m0), second = product(c[s][2], m1);
            c[s][0] = second >> 32 ^ (c[s][1] ^ key[round][0]);
            c[s][1] = second;
            c[s][2] = first >> 32 ^ (c[s][3] ^ key[round][1]);
            c[s][3] = first;
        }
}

/* Words a and b of each block side by side, a first. */
static inline uff_vu64 beside(uff_vu64 a, uff_vu64 b)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (a & 0xffffffff) | b << 32;
#else
    return a << 32 | (b & 0xffffffff);
#endif
}

static inline void draw_f32(float *u, const uff_vu64 c[4])
{
    uff_vu64 words[2];
    pairs(beside(c[0], c[1]), beside(c[2], c[3]), words);
    for (int h = 0; h < 2; h++) {
        const uff_vi32 top = (uff_vi32)((uff_vu32)words[h] >> 8);
        uff_store_f32(u + h * UFF_F32, __builtin_convertvector(top, uff_vf32) * 0x1p-24f);
    }
}

/* Of words a and b, the number (a / 2^5) 2^26 + b / 2^6 of 53 bits, over 2^53. Its halves
 * become float64 as the lower bits of 2^52, whose sum with them is exact. */
static inline uff_vf64 fraction(uff_vu64 a, uff_vu64 b)
{
    const uff_vu64 one = all_u64(0x4330000000000000u); /* 2^52 */
    const uff_vf64 high = (uff_vf64)((a & 0xffffffff) >> 5 | one) - 0x1p52;
    const uff_vf64 low = (uff_vf64)((b & 0xffffffff) >> 6 | one) - 0x1p52;
    return (high * 0x1p26 + low) * 0x1p-53;
}

static inline void draw_f64(double *u, const uff_vu64 c[4])
{
    uff_vu64 numbers[2];
    pairs((uff_vu64)fraction(c[0], c[1]), (uff_vu64)fraction(c[2], c[3]), numbers);
    for (int h = 0; h < 2; h++)
        uff_store_f64(u + h * UFF_F64, (uff_vf64)numbers[h]);
}

/* Whole groups of blocks go where they belong; of the first and the last, what is wanted. */
#define UNIFORM(t, T, PER_BLOCK)                                                              \
    static void uniform_##t(void *out, int64_t first, int64_t n, uint64_t seed,               \
                            uint64_t counter)                                                 \
    {                                                                                         \
        const int64_t group = BLOCKS * PER_BLOCK;                                             \
        T *y = out, part[BLOCKS * PER_BLOCK];                                                 \
        uff_vu64 c[STREAMS][4], key[ROUNDS][2];                                               \
        int64_t block = first / PER_BLOCK, skip = first % PER_BLOCK;                          \
        schedule(key, seed);                                                                  \
        for (int64_t done = 0; done < n; block += BLOCKS, skip = 0) {                         \
            int64_t m = group - skip < n - done ? group - skip : n - done;                    \
            T *u = m == group ? y + done : part;                                              \
            philox(c, (uint64_t)block, counter, key);                                         \
            for (int s = 0; s < STREAMS; s++)                                                 \
                draw_##t(u + s * L * PER_BLOCK, c[s]);                                        \
            if (m < group)                                                                    \
                memcpy(y + done, part + skip, (size_t)m * sizeof(T));                         \
            done += m;                                                                        \
        }                                                                                     \
    }
UNIFORM(f32, float, 4)
UNIFORM(f64, double, 2)

static const uff_random_kernels table = {{uniform_f32, uniform_f64}};

void UFF_FILL(random)(uff_kernels *k)
{
    k->random = &table;
}
