/* The slave-core interface: the only way that tiled operations split work and get
 * scratchpad memory.
 *
 * A slave core is one worker with a small private scratchpad. Tiles of operands are
 * acquired (DMA get) before they are computed on and released (DMA put) afterwards. On
 * a cache-based host a slave core is an OpenMP thread, its scratchpad a piece of memory
 * of the size of its share of the L2 cache, and a tile that needs no packing is the
 * operand's own memory, so acquiring and releasing cost nothing. A port to a many-core
 * machine, or a simulator, implements the same functions with its own transfers.
 *
 * Rule of results: work is cut by sizes alone, never by the number of cores, wherever
 * the cut changes the order of a sum; so results don't depend on the number of threads.
 */
#ifndef UFF_SLAVE_H
#define UFF_SLAVE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#define UFF_LINE 64 /* bytes in a cache line; scratchpad blocks start on one */

/* All slave cores of one executor. */
typedef struct {
    int num_cores;
    size_t scratch_bytes; /* of each core */
    char *scratch;        /* num_cores * scratch_bytes, aligned to UFF_LINE */
} uff_team;

/* One slave core, as its function sees it. */
typedef struct {
    int id;    /* 0 .. count-1 */
    int count; /* cores that run this function */
    char *scratch;
    size_t scratch_bytes;
    size_t scratch_used;
} uff_slave;

typedef void (*uff_slave_fn)(uff_slave *self, void *arg);

/* Run fn on `count` slave cores (at least 1, cut to the team's size); return when all
 * are done. With one core the caller runs it itself. */
static inline void uff_spawn(const uff_team *team, int64_t count, uff_slave_fn fn, void *arg)
{
    int n = count > team->num_cores ? team->num_cores : (int)count;
    if (n <= 1) {
        uff_slave self = {0, 1, team->scratch, team->scratch_bytes, 0};
        fn(&self, arg);
        return;
    }
#ifdef _OPENMP
#pragma omp parallel num_threads(n)
    {
        int id = omp_get_thread_num();
        uff_slave self = {id, omp_get_num_threads(),
                          team->scratch + (size_t)id * team->scratch_bytes,
                          team->scratch_bytes, 0};
        fn(&self, arg);
    }
#endif
}

/* Take a block of the scratchpad; it is free again when the core's function returns.
 * Tile sizes come from the planner, which knows the scratchpad's size: too large a
 * request is a fault of the program and stops it. */
static inline void *uff_take(uff_slave *self, size_t bytes)
{
    size_t start = self->scratch_used;
    bytes = (bytes + UFF_LINE - 1) / UFF_LINE * UFF_LINE;
    if (start + bytes > self->scratch_bytes) {
        fprintf(stderr, "uniflexflow: slave core %d: scratchpad of %zu bytes is full (%zu used, %zu more asked)\n",
                self->id, self->scratch_bytes, start, bytes);
        abort();
    }
    self->scratch_used = start + bytes;
    return self->scratch + start;
}

/* Acquire a tile of `rows` rows of `row_bytes`, `stride_bytes` apart in memory. Returns
 * where it is and sets the stride there. On the host this is the memory itself. */
static inline const void *uff_get(uff_slave *self, const void *memory, int64_t rows, int64_t row_bytes,
                                  int64_t stride_bytes, int64_t *tile_stride)
{
    (void)self, (void)rows, (void)row_bytes;
    *tile_stride = stride_bytes;
    return memory;
}

/* Where to compute a tile that will be put to `memory`; the memory itself on the host. */
static inline void *uff_place(uff_slave *self, void *memory, int64_t rows, int64_t row_bytes,
                              int64_t stride_bytes, int64_t *tile_stride)
{
    (void)self, (void)rows, (void)row_bytes;
    *tile_stride = stride_bytes;
    return memory;
}

/* Release a tile made with uff_place: write it back. Nothing to do on the host. */
static inline void uff_put(uff_slave *self, void *memory, const void *tile, int64_t rows, int64_t row_bytes,
                           int64_t stride_bytes)
{
    (void)self, (void)memory, (void)tile, (void)rows, (void)row_bytes, (void)stride_bytes;
}

/* Wait until all cores of this spawn have come here. */
static inline void uff_sync(uff_slave *self)
{
    (void)self;
#ifdef _OPENMP
    if (self->count > 1) {
#pragma omp barrier
    }
#endif
}

/* This core's part [lo, hi) of n pieces: contiguous, sizes differing by at most 1. */
static inline void uff_share(const uff_slave *self, int64_t n, int64_t *lo, int64_t *hi)
{
    *lo = n * self->id / self->count;
    *hi = n * (self->id + 1) / self->count;
}

#endif
