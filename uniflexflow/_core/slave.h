/* The slave-core interface: the only way that tiled operations split work and get
 * scratchpad memory.
 *
 * A slave core is one worker with a small private scratchpad. Tiles of operands are
 * acquired (DMA get) before they are computed on and released (DMA put) afterwards. On
 * a cache-based host a slave core is a thread, its scratchpad a piece of memory
 * of the size of its share of the L2 cache, and a tile that needs no packing is the
 * operand's own memory, so acquiring and releasing cost nothing. A port to a many-core
 * machine, or a simulator, implements the same functions with its own transfers.
 *
 * Rule of results: work is cut by sizes alone, never by the number of cores, wherever
 * the cut changes the order of a sum; so results don't depend on the number of threads.
 */
#ifndef UFF_SLAVE_H
#define UFF_SLAVE_H

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UFF_LINE 64 /* bytes in a cache line; scratchpad blocks start on one */

typedef struct uff_slave uff_slave;
typedef void (*uff_slave_fn)(uff_slave *self, void *arg);

/* The pieces of a loop that a core still has: see uff_first_piece. The count of the loop, the
 * first piece and the end in 8, 28 and 28 bits of one word, so that an owner, who takes from
 * the front, and the others, who take from the back, never get the same; in a line of its own. */
typedef struct {
    uint64_t word;
    char line[UFF_LINE - sizeof(uint64_t)];
} uff_hand;

#define UFF_PIECES ((int64_t)1 << 28) /* fewer pieces than this can be taken from others */

/* The threads behind the slave cores of this process: see team.pyx. They wait for a new
 * epoch, at first by polling, since the next operation usually comes within
 * microseconds, then asleep. Whoever is awake claims the cores of a spawn one by one. */
typedef struct uff_pool {
    int workers;           /* threads besides the caller */
    int busy;              /* a spawn is under way */
    uint32_t epoch;        /* counts spawns */
    uint32_t sleepers;     /* workers asleep */
    uint32_t left;         /* cores of this spawn that have not finished, the caller's apart */
    uint32_t arrived;      /* cores at the barrier */
    uint32_t passed;       /* counts barriers */
    uint64_t claim;        /* epoch, count, next core to be claimed: 32, 16 and 16 bits */
    int together;          /* the cores of this spawn run at the same time */
    int gathered;          /* how many came */
    uint32_t go;           /* the last spawn of gathered cores that may start */
    uff_slave_fn fn;
    void *arg;
    char *scratch;
    size_t scratch_bytes;
    uff_hand *hands;       /* one of each core */
} uff_pool;

/* All slave cores of one executor. */
typedef struct {
    int num_cores;
    size_t scratch_bytes; /* of each core */
    char *scratch;        /* num_cores * scratch_bytes, aligned to UFF_LINE */
    uff_pool *pool;       /* NULL: the caller is the only core */
} uff_team;

/* One slave core, as its function sees it. */
struct uff_slave {
    int id;    /* 0 .. count-1 */
    int count; /* cores that run this function */
    char *scratch;
    size_t scratch_bytes;
    size_t scratch_used;
    uff_pool *pool;
    uint32_t loops;      /* that this core has begun with uff_first_piece */
    uint32_t unsynced;   /* of them, since the last uff_sync */
    int64_t piece, end;  /* what it has left, if nobody can take from it */
};

/* About 50 microseconds: longer than what lies between two operations of a step. */
#define UFF_SPINS 2000

static inline void uff_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Wait until *word is no longer `old`: polling, then giving the core away, so that ranks
 * and threads that are more than the cores still get on. */
static inline void uff_await_change(const uint32_t *word, uint32_t old)
{
    for (int i = 0; i < UFF_SPINS; i++) {
        if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != old)
            return;
        uff_pause();
    }
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == old)
        sched_yield();
}

/* Run the next core of the spawn under way that nobody has claimed; 0 if there is none.
 * A spawn does not end before its claimed cores do, so what is read after a claim is
 * that spawn's. */
static inline int uff_run_next(uff_pool *pool)
{
    uint64_t claim = __atomic_load_n(&pool->claim, __ATOMIC_ACQUIRE);
    int id, count;
    do {
        id = (int)(claim & 0xffff);
        count = (int)(claim >> 16 & 0xffff);
        if (id >= count)
            return 0;
    } while (!__atomic_compare_exchange_n(&pool->claim, &claim, claim + 1, 0, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
    if (pool->together) {
        uint32_t epoch = (uint32_t)(claim >> 32), go;
        while ((go = __atomic_load_n(&pool->go, __ATOMIC_ACQUIRE)) != epoch)
            uff_await_change(&pool->go, go);
        count = pool->gathered;
    }
    uff_slave self = {id, count, pool->scratch + (size_t)id * pool->scratch_bytes,
                      pool->scratch_bytes, 0, pool};
    pool->fn(&self, pool->arg);
    __atomic_sub_fetch(&pool->left, 1, __ATOMIC_RELEASE);
    return 1;
}

/* Wait a little for the cores of a spawn to be claimed, then take no more; return how many
 * there are, the caller included. A thread that the system has not given a processor to
 * is not waited for: the others do its work. */
static inline int uff_gather(uff_pool *pool, uint64_t epoch, int count)
{
    int spins = __atomic_load_n(&pool->sleepers, __ATOMIC_RELAXED) ? 4 * UFF_SPINS : UFF_SPINS / 2;
    uint64_t claim = __atomic_load_n(&pool->claim, __ATOMIC_ACQUIRE);
    for (; (int)(claim & 0xffff) < count && spins; spins--) {
        uff_pause();
        claim = __atomic_load_n(&pool->claim, __ATOMIC_ACQUIRE);
    }
    uint64_t closed;
    do
        closed = epoch << 32 | (claim & 0xffff) << 16 | (claim & 0xffff);
    while (!__atomic_compare_exchange_n(&pool->claim, &claim, closed, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE));
    pool->gathered = (int)(claim & 0xffff);
    __atomic_store_n(&pool->left, (uint32_t)(pool->gathered - 1), __ATOMIC_RELAXED);
    __atomic_store_n(&pool->go, (uint32_t)epoch, __ATOMIC_RELEASE);
    return pool->gathered;
}

static inline void uff_spawn_cores(const uff_team *team, int64_t count, uff_slave_fn fn, void *arg,
                                   int together)
{
    uff_pool *pool = team->pool;
    int n = count > team->num_cores ? team->num_cores : (int)count;
    if (pool != NULL && n > pool->workers + 1)
        n = pool->workers + 1;
    if (n <= 1 || pool == NULL || __atomic_exchange_n(&pool->busy, 1, __ATOMIC_ACQUIRE)) {
        uff_slave self = {0, 1, team->scratch, team->scratch_bytes, 0, NULL};
        fn(&self, arg);
        return;
    }
    pool->fn = fn;
    pool->arg = arg;
    pool->together = together;
    pool->scratch = team->scratch;
    pool->scratch_bytes = team->scratch_bytes;
    __atomic_store_n(&pool->left, (uint32_t)(n - 1), __ATOMIC_RELAXED);
    uint64_t epoch = (uint32_t)(pool->epoch + 1u);
    __atomic_store_n(&pool->claim, epoch << 32 | (uint64_t)n << 16 | 1, __ATOMIC_RELEASE);
    __atomic_store_n(&pool->epoch, (uint32_t)epoch, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool->sleepers, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &pool->epoch, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    if (together)
        n = uff_gather(pool, epoch, n);
    uff_slave self = {0, n, team->scratch, team->scratch_bytes, 0, pool};
    fn(&self, arg);
    if (!together)
        while (uff_run_next(pool)) /* what no worker has come to yet */
            ;
    uint32_t left;
    while ((left = __atomic_load_n(&pool->left, __ATOMIC_ACQUIRE)))
        uff_await_change(&pool->left, left);
    __atomic_store_n(&pool->busy, 0, __ATOMIC_RELEASE);
}

/* Run fn on `count` slave cores (at least 1, cut to the team's size); return when all
 * are done. The cores must not wait for each other: one thread may run several in turn.
 * With one core, or while another thread spawns, the caller runs it itself. */
static inline void uff_spawn(const uff_team *team, int64_t count, uff_slave_fn fn, void *arg)
{
    uff_spawn_cores(team, count, fn, arg, 0);
}

/* The same for a function that calls uff_sync: its cores run at the same time. They are as
 * many as come within microseconds. */
static inline void uff_spawn_together(const uff_team *team, int64_t count, uff_slave_fn fn, void *arg)
{
    uff_spawn_cores(team, count, fn, arg, 1);
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

/* Wait until all cores of this spawn_together have come here. */
static inline void uff_sync(uff_slave *self)
{
    uff_pool *pool = self->pool;
    if (self->count <= 1)
        return;
    self->unsynced = 0;
    uint32_t passed = __atomic_load_n(&pool->passed, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&pool->arrived, 1, __ATOMIC_ACQ_REL) == (uint32_t)self->count) {
        __atomic_store_n(&pool->arrived, 0, __ATOMIC_RELAXED);
        __atomic_add_fetch(&pool->passed, 1, __ATOMIC_RELEASE);
    } else {
        uff_await_change(&pool->passed, passed);
    }
}

/* This core's part [lo, hi) of n pieces: contiguous, sizes differing by at most 1. */
static inline void uff_share(const uff_slave *self, int64_t n, int64_t *lo, int64_t *hi)
{
    *lo = n * self->id / self->count;
    *hi = n * (self->id + 1) / self->count;
}

static inline uint64_t uff_pack_hand(uint32_t loop, int64_t piece, int64_t end)
{
    return (uint64_t)(loop & 0xff) << 56 | (uint64_t)piece << 28 | (uint64_t)end;
}

/* The next piece of the loop for this core, or -1: at first those of its share in their order,
 * then, as long as others have some left, the last ones of theirs. So a core that is held up,
 * by a neighbour or because it is a slower one, keeps nobody waiting for long, while operands
 * stay near the cores that had them before. */
static inline int64_t uff_next_piece(uff_slave *self)
{
    if (self->pool == NULL || self->end >= 0)
        return self->piece < self->end ? self->piece++ : -1;
    for (int k = 0; k < self->count; k++) {
        int owner = (self->id + k) % self->count;
        uint64_t *word = &self->pool->hands[owner].word;
        uint64_t hand = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        for (;;) {
            int64_t piece = hand >> 28 & (UFF_PIECES - 1), end = hand & (UFF_PIECES - 1);
            if (hand >> 56 != (self->loops & 0xff) || piece >= end)
                break; /* in another loop, or empty */
            uint64_t rest = k ? uff_pack_hand(self->loops, piece, end - 1)
                              : uff_pack_hand(self->loops, piece + 1, end);
            if (__atomic_compare_exchange_n(word, &hand, rest, 0, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE))
                return k ? end - 1 : piece;
        }
    }
    return -1;
}

/* Begin a loop over n pieces, the same n on all cores, and return this core's first piece or
 * -1. The loop goes on with uff_next_piece until that returns -1: then all pieces are taken,
 * but for those of cores that have not begun yet, and others may still be computed. Every core
 * begins the same loops in the same order. A piece may be computed by any core: what it reads
 * must be there before the loop begins, and its results must not depend on who computes it. */
static inline int64_t uff_first_piece(uff_slave *self, int64_t n)
{
    int64_t lo, hi;
    uff_share(self, n, &lo, &hi);
    self->loops++, self->unsynced++;
    /* 8 bits of the count don't tell a core from one that is 256 loops ahead: no taking then */
    if (self->pool == NULL || self->count == 1 || n >= UFF_PIECES || self->unsynced > 0xff) {
        self->piece = lo, self->end = hi;
    } else {
        self->end = -1;
        __atomic_store_n(&self->pool->hands[self->id].word, uff_pack_hand(self->loops, lo, hi),
                         __ATOMIC_RELEASE);
    }
    return uff_next_piece(self);
}

#endif
