#include "random.h"

#include <string.h>

#define BLOCKS 32 /* made together: each word of the counter is a row of so many lanes */

/* The output words of blocks block .. block + BLOCKS - 1, word by word. */
static void philox(uint32_t c[4][BLOCKS], uint64_t block, uint64_t seed, uint64_t counter)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int i = 0; i < BLOCKS; i++) {
        c[0][i] = (uint32_t)(block + i);
        c[1][i] = (uint32_t)((block + i) >> 32);
        c[2][i] = (uint32_t)counter;
        c[3][i] = (uint32_t)(counter >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            const uint64_t first = (uint64_t)0xD2511F53u * c[0][i];
            const uint64_t second = (uint64_t)0xCD9E8D57u * c[2][i];
            const uint32_t a = (uint32_t)(second >> 32) ^ c[1][i] ^ k0;
            const uint32_t b = (uint32_t)(first >> 32) ^ c[3][i] ^ k1;
            c[0][i] = a;
            c[1][i] = (uint32_t)second;
            c[2][i] = b;
            c[3][i] = (uint32_t)first;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Draw whole groups of blocks, and copy what is wanted of them. */
#define UNIFORM(t, T, PER_BLOCK, DRAW)                                                        \
    static void uniform_##t(void *out, int64_t first, int64_t n, uint64_t seed,               \
                            uint64_t counter)                                                 \
    {                                                                                         \
        T *y = out, u[BLOCKS * PER_BLOCK];                                                    \
        uint32_t c[4][BLOCKS];                                                                \
        int64_t block = first / PER_BLOCK, skip = first % PER_BLOCK;                          \
        for (int64_t done = 0; done < n; block += BLOCKS, skip = 0) {                         \
            philox(c, (uint64_t)block, seed, counter);                                        \
            for (int i = 0; i < BLOCKS; i++) {                                                \
                DRAW                                                                          \
            }                                                                                 \
            int64_t m = BLOCKS * PER_BLOCK - skip;                                            \
            m = m < n - done ? m : n - done;                                                  \
            memcpy(y + done, u + skip, (size_t)m * sizeof(T));                                \
            done += m;                                                                        \
        }                                                                                     \
    }

UNIFORM(f32, float, 4, {
    u[4 * i] = (float)(int32_t)(c[0][i] >> 8) * 0x1p-24f;
    u[4 * i + 1] = (float)(int32_t)(c[1][i] >> 8) * 0x1p-24f;
    u[4 * i + 2] = (float)(int32_t)(c[2][i] >> 8) * 0x1p-24f;
    u[4 * i + 3] = (float)(int32_t)(c[3][i] >> 8) * 0x1p-24f;
})
UNIFORM(f64, double, 2, {
    u[2 * i] = ((double)(int32_t)(c[0][i] >> 5) * 0x1p26 + (double)(int32_t)(c[1][i] >> 6)) * 0x1p-53;
    u[2 * i + 1] = ((double)(int32_t)(c[2][i] >> 5) * 0x1p26 + (double)(int32_t)(c[3][i] >> 6)) * 0x1p-53;
})

static const uff_random_kernels table = {{uniform_f32, uniform_f64}};

void UFF_FILL(random)(uff_kernels *k)
{
    k->random = &table;
}
