/* Loops over pieces on several cores: each piece is computed once, whoever computes it, and
 * cores that are ready first take from the others. Prints what is wrong; run by test_slave.py. */
#define _GNU_SOURCE
#include "team_threads.h"

#include <time.h>

enum { LOOPS = 300, MOST = 997 };

static int times[LOOPS][MOST];
static int counts[LOOPS];
static int together, slow; /* the core that is held up, or -1 */
static int taken;          /* pieces of its share that others computed */
static int wrong;

static void hold_up(void)
{
    struct timespec moment = {0, 2000000};
    nanosleep(&moment, NULL);
}

static void run_loops(uff_slave *self, void *arg)
{
    (void)arg;
    for (int loop = 0; loop < LOOPS; loop++) {
        int64_t lo, hi;
        uff_share(self, counts[loop], &lo, &hi);
        for (int64_t i = uff_first_piece(self, counts[loop]); i >= 0; i = uff_next_piece(self)) {
            if (i >= counts[loop])
                __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
            else
                __atomic_add_fetch(&times[loop][i], 1, __ATOMIC_RELAXED);
            if (loop == 0 && self->id == slow && hi - lo > 1)
                hold_up();
            if (loop == 0 && slow >= 0 && self->id != slow && (i < lo || i >= hi))
                __atomic_add_fetch(&taken, 1, __ATOMIC_RELAXED);
        }
        if (together && loop % 3 == 0)
            uff_sync(self);
    }
}

int main(void)
{
    static char scratch[8 * UFF_LINE];
    int workers = uff_grow_pool(3), failures = workers != 3;
    uff_team team = {4, 2 * UFF_LINE, scratch, &uff_the_pool};
    for (int round = 0; round < 200; round++) {
        for (int loop = 0; loop < LOOPS; loop++)
            counts[loop] = (loop * 37 + round) % MOST >> loop % 9;
        together = round & 1;
        slow = round >= 4 ? -1 : 1;
        team.num_cores = round < 4 ? 4 : 1 + round % 4;
        if (round == 0 || round == 1)
            counts[0] = 64;
        memset(times, 0, sizeof times);
        (together ? uff_spawn_together : uff_spawn)(&team, 4, run_loops, NULL);
        for (int loop = 0; loop < LOOPS; loop++)
            for (int i = 0; i < MOST; i++)
                if (times[loop][i] != (i < counts[loop])) {
                    if (failures++ < 10)
                        printf("round %d, loop %d: piece %d of %d was computed %d times\n", round,
                               loop, i, counts[loop], times[loop][i]);
                }
    }
    if (wrong)
        printf("a piece outside of its loop\n");
    if (!taken)
        printf("nobody took a piece of a core that was held up\n");
    return failures || wrong || !taken;
}
