/* Ranks of one node meet and sum through memory that all of them have mapped.
 *
 * Each rank has a record: a count of the meetings it has come to, which region its
 * tensors lie in and where, and two slots for small tensors. Only its owner writes a
 * record; the count is written last (release) and read first (acquire), so whoever sees
 * the count sees the rest.
 */
#ifndef UFF_NODE_SUM_H
#define UFF_NODE_SUM_H

#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define UFF_NODE_TENSORS 512
#define UFF_NODE_SLOT (256 << 10)

typedef struct {
    uint64_t meetings;
    char line[56]; /* the count is polled: nothing else shares its cache line */
    int64_t pid, region, fd, nbytes, count;
    char more[24];
    int64_t offsets[UFF_NODE_TENSORS];
    char slots[2][UFF_NODE_SLOT];
} uff_node_record;

static inline void uff_node_arrive(uff_node_record *mine, uint64_t meeting)
{
    __atomic_store_n(&mine->meetings, meeting, __ATOMIC_RELEASE);
}

static inline double uff_node_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* Wait for all ranks to come to a meeting; 0 if they have not after `patience` seconds.
 * A core of one's own is kept for some microseconds; then it is offered to others, as
 * there may be more ranks than cores; after a millisecond this rank sleeps. */
static inline int uff_node_wait(const uff_node_record *records, int size, uint64_t meeting,
                                double patience)
{
    double start = 0;
    int looks = 0;
    for (int r = 0; r < size; r++) {
        while (__atomic_load_n(&records[r].meetings, __ATOMIC_ACQUIRE) < meeting) {
            if (looks < 2000) {
                looks++;
#if defined(__x86_64__)
                __builtin_ia32_pause();
#endif
                continue;
            }
            double now = uff_node_now();
            if (start == 0)
                start = now;
            if (now - start > patience)
                return 0;
            if (now - start < 1e-3) {
                sched_yield();
            } else {
                struct timespec nap = {0, 50000};
                nanosleep(&nap, 0);
            }
        }
    }
    return 1;
}

#define UFF_NODE_BLOCK 2048 /* elements that stay in the first cache */

/* x[r] is rank r's tensor. `add_up` writes the sum of n elements from `low` on to `out`,
 * added in the order of the ranks; `sum` does it for low to high in every rank's tensor.
 * Two ranks, the common case of a small machine, need no block between. */
#define UFF_NODE_SUM(T)                                                                      \
    static inline void uff_node_add_up_##T(T *restrict out, T *const *x, int size,           \
                                           int64_t low, int64_t n)                           \
    {                                                                                        \
        memcpy(out, x[0] + low, n * sizeof(T));                                              \
        for (int r = 1; r < size; r++) {                                                     \
            const T *restrict y = x[r] + low;                                                \
            for (int64_t i = 0; i < n; i++)                                                  \
                out[i] += y[i];                                                              \
        }                                                                                    \
    }                                                                                        \
    static inline void uff_node_sum_##T(T *const *x, int size, int64_t low, int64_t high)    \
    {                                                                                        \
        if (size == 2) {                                                                     \
            T *restrict a = x[0], *restrict b = x[1];                                        \
            for (int64_t i = low; i < high; i++)                                             \
                a[i] = b[i] = a[i] + b[i];                                                   \
            return;                                                                          \
        }                                                                                    \
        T sum[UFF_NODE_BLOCK];                                                               \
        for (int64_t at = low; at < high; at += UFF_NODE_BLOCK) {                            \
            int64_t n = high - at < UFF_NODE_BLOCK ? high - at : UFF_NODE_BLOCK;             \
            uff_node_add_up_##T(sum, x, size, at, n);                                        \
            for (int r = 0; r < size; r++)                                                   \
                memcpy(x[r] + at, sum, n * sizeof(T));                                       \
        }                                                                                    \
    }

UFF_NODE_SUM(float)
UFF_NODE_SUM(double)
UFF_NODE_SUM(uint32_t) /* integers wrap around, signed ones too */
UFF_NODE_SUM(uint64_t)

#endif
