/* The worker threads of a pool; included by team.pyx alone. */
#ifndef UFF_TEAM_THREADS_H
#define UFF_TEAM_THREADS_H

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "slave.h"

/* Wait for a spawn after number `seen`. */
static uint32_t uff_next_epoch(uff_pool *pool, uint32_t seen)
{
    for (int i = 0; i < UFF_SPINS; i++) {
        uint32_t epoch = __atomic_load_n(&pool->epoch, __ATOMIC_ACQUIRE);
        if (epoch != seen)
            return epoch;
        uff_pause();
    }
    __atomic_add_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
    uint32_t epoch;
    while ((epoch = __atomic_load_n(&pool->epoch, __ATOMIC_SEQ_CST)) == seen)
        syscall(SYS_futex, &pool->epoch, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    __atomic_sub_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
    return epoch;
}

static void *uff_work(void *arg)
{
    uff_pool *pool = arg;
    uint32_t epoch = 0;
    for (;;) {
        epoch = uff_next_epoch(pool, epoch);
        while (uff_run_next(pool))
            ;
    }
    return NULL;
}

static uff_pool uff_the_pool;

/* A forked child has none of its parent's threads: its spawns run on the caller alone, until
 * it starts threads of its own. Those must not find a spawn that was under way at the fork. */
static void uff_forget_workers(void)
{
    uff_the_pool = (uff_pool){.epoch = uff_the_pool.epoch, .hands = uff_the_pool.hands};
}

/* Start threads until the process's pool has `workers` of them; return how many there are.
 * Signals stay with the main thread, which Python wants. */
static int uff_grow_pool(int workers)
{
    static int registered = 0;
    uff_pool *pool = &uff_the_pool;
    sigset_t all, old;
    if (!registered) {
        pthread_atfork(NULL, NULL, uff_forget_workers);
        registered = 1;
    }
    while (__atomic_exchange_n(&pool->busy, 1, __ATOMIC_ACQUIRE)) /* not during a spawn */
        sched_yield();
    if (pool->workers < workers) {
        uff_hand *hands;
        if (posix_memalign((void **)&hands, UFF_LINE, (workers + 1) * sizeof *hands)) {
            workers = pool->workers; /* as if no thread could be started */
        } else {
            memset(hands, 0, (workers + 1) * sizeof *hands);
            free(pool->hands);
            pool->hands = hands;
        }
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (pool->workers < workers) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, uff_work, pool))
            break;
        pthread_detach(thread);
        pool->workers++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    __atomic_store_n(&pool->busy, 0, __ATOMIC_RELEASE);
    return pool->workers;
}

#endif
