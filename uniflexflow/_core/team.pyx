"""The slave cores of this process: threads that wait for tiled operations to run.

All executors share one pool, as their steps don't run at the same time. See slave.h.
"""

from uniflexflow._core.core cimport uff_pool, uff_team


cdef extern from "team_threads.h" nogil:
    uff_pool uff_the_pool
    int uff_grow_pool(int workers)


cdef int fill_team(uff_team *team, int num_cores, char *scratch, size_t scratch_bytes) except -1:
    """Make a team of ``num_cores`` slave cores, with threads for all but the caller."""
    cdef int workers = uff_grow_pool(num_cores - 1)
    if workers < num_cores - 1:
        raise RuntimeError(
            f"uniflexflow: only {workers + 1} of {num_cores} threads could be started; set "
            "OMP_NUM_THREADS to a smaller number, or raise the limit of processes (ulimit -u)."
        )
    team.num_cores = num_cores
    team.scratch = scratch
    team.scratch_bytes = scratch_bytes
    team.pool = &uff_the_pool if num_cores > 1 else NULL
    return 0
