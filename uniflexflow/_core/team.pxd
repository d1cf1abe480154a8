from uniflexflow._core.core cimport uff_pool, uff_team

cdef int fill_team(uff_team *team, int num_cores, char *scratch, size_t scratch_bytes) except -1
