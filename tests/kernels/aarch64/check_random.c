/* Uniform numbers: Philox4x32-10 written from its paper, held to the known answers of
 * Random123, then the kernel held to it bit by bit. */
#include "random.h"

#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static void philox(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        const uint64_t left = 0xD2511F53ull * c[0], right = 0xCD9E8D57ull * c[2];
        const uint32_t next[4] = {(uint32_t)(right >> 32) ^ c[1] ^ k0, (uint32_t)right,
                                  (uint32_t)(left >> 32) ^ c[3] ^ k1, (uint32_t)left};
        memcpy(c, next, sizeof next);
    }
}

/* counter, key, output: kat_vectors of Random123 */
static const uint32_t known[][10] = {
    {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
    {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
    {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb,
     0x5001e420, 0x24126ea1},
};

static number element(int dtype, int64_t i, uint64_t seed, uint64_t counter)
{
    const int per_block = dtype == UFF_F32_T ? 4 : 2, w = (int)(i % per_block);
    const uint64_t block = (uint64_t)i / per_block;
    uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)counter,
                     (uint32_t)(counter >> 32)};
    philox(c, (uint32_t)seed, (uint32_t)(seed >> 32));
    if (dtype == UFF_F32_T)
        return (c[w] >> 8) / 0x1p24L;
    return ((c[2 * w] >> 5) * 0x1p26L + (c[2 * w + 1] >> 6)) / 0x1p53L;
}

static void check_draw(const uff_random_kernels *k, int dtype, int64_t first, int64_t n,
                       uint64_t seed, uint64_t counter)
{
    char what[96];
    snprintf(what, sizeof what, "uniform %s from %lld, seed %llx", check_names[dtype],
             (long long)first, (unsigned long long)seed);
    void *out = check_room(n * check_sizes[dtype], check_sizes[dtype]);
    k->uniform[dtype](out, first, n, seed, counter);
    for (int64_t i = 0; i < n; i++) {
        const number got = check_get(dtype, out, i);
        check_same(what, i, got, element(dtype, first + i, seed, counter));
        check_true(what, i, got >= 0 && got < 1);
    }
    check_leave(what, out);
}

void UFF_FILL(random)(uff_kernels *kernels);

int main(void)
{
    const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 31, 32, 33, 63, 64, 65, 127, 128, 129, 700};
    const int64_t firsts[] = {0, 1, 2, 3, 127, 1000003, (1ll << 33) - 5, (1ll << 34) - 3, 1ll << 60};
    const uint64_t keys[] = {0, 5, ~0ull, 0x299f31d0a4093822u};
    uff_kernels kernels;
    UFF_FILL(random)(&kernels);
    for (int i = 0; i < COUNT(known); i++) {
        uint32_t c[4];
        memcpy(c, known[i], sizeof c);
        philox(c, known[i][4], known[i][5]);
        for (int w = 0; w < 4; w++)
            check_same("known answers", i, c[w], known[i][6 + w]);
    }
    float four[4]; /* the first known answer, by the kernel itself */
    kernels.random->uniform[UFF_F32_T](four, 0, 4, 0, 0);
    for (int w = 0; w < 4; w++)
        check_same("first known answer", w, four[w], (known[0][6 + w] >> 8) / 0x1p24L);
    for (int dtype = 0; dtype <= UFF_F64_T; dtype++)
        for (int f = 0; f < COUNT(firsts); f++)
            for (int s = 0; s < COUNT(sizes); s++)
                check_draw(kernels.random, dtype, firsts[f], sizes[s], keys[(f + s) % COUNT(keys)],
                           keys[s % COUNT(keys)] + (uint64_t)f);
    return check_report("random");
}
