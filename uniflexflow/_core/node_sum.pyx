"""Sums over the ranks of one node, through memory that all of them have mapped.

A large tensor is summed where it lies: the ranks meet, each adds up its share of the
elements and writes the sum into every rank's tensor, and they meet again. Small ones are
copied to a slot of the rank's record, and every rank adds up all slots. Nothing is sent.
"""

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import numpy as np

cnp.import_array()


cdef extern from "node_sum.h" nogil:
    enum:
        UFF_NODE_TENSORS
        UFF_NODE_SLOT
    ctypedef struct Record "uff_node_record":
        uint64_t meetings
        int64_t pid, region, fd, nbytes, count
        int64_t offsets[1]
        char slots[2][1]
    void uff_node_arrive(Record *mine, uint64_t meeting)
    int uff_node_wait(const Record *records, int size, uint64_t meeting, double patience)
    void uff_node_sum_float(float **x, int size, int64_t low, int64_t high)
    void uff_node_sum_double(double **x, int size, int64_t low, int64_t high)
    void uff_node_sum_uint32_t(uint32_t **x, int size, int64_t low, int64_t high)
    void uff_node_sum_uint64_t(uint64_t **x, int size, int64_t low, int64_t high)
    void uff_node_add_up_float(float *out, float **x, int size, int64_t low, int64_t n)
    void uff_node_add_up_double(double *out, double **x, int size, int64_t low, int64_t n)
    void uff_node_add_up_uint32_t(uint32_t *out, uint32_t **x, int size, int64_t low, int64_t n)
    void uff_node_add_up_uint64_t(uint64_t *out, uint64_t **x, int size, int64_t low, int64_t n)


MAX_TENSORS = UFF_NODE_TENSORS
SLOT_BYTES = UFF_NODE_SLOT
RECORD_BYTES = sizeof(Record)
DTYPES = frozenset(map(np.dtype, ["float32", "float64", "int32", "int64"]))

#: Seconds between two looks for signals (Ctrl-C, a batch system's warning) while waiting.
cdef double PATIENCE = 0.05


cdef void sum_all(int kind, char **x, int size, int64_t low, int64_t high) noexcept nogil:
    """Sum elements low to high of tensors of NumPy's type number ``kind``."""
    if kind == cnp.NPY_FLOAT32:
        uff_node_sum_float(<float **>x, size, low, high)
    elif kind == cnp.NPY_FLOAT64:
        uff_node_sum_double(<double **>x, size, low, high)
    elif kind == cnp.NPY_INT32:
        uff_node_sum_uint32_t(<uint32_t **>x, size, low, high)
    else:
        uff_node_sum_uint64_t(<uint64_t **>x, size, low, high)


cdef void add_up(int kind, void *out, char **x, int size, int64_t n) noexcept nogil:
    """Write the sum of the tensors to ``out``; they stay as they are."""
    if kind == cnp.NPY_FLOAT32:
        uff_node_add_up_float(<float *>out, <float **>x, size, 0, n)
    elif kind == cnp.NPY_FLOAT64:
        uff_node_add_up_double(<double *>out, <double **>x, size, 0, n)
    elif kind == cnp.NPY_INT32:
        uff_node_add_up_uint32_t(<uint32_t *>out, <uint32_t **>x, size, 0, n)
    else:
        uff_node_add_up_uint64_t(<uint64_t *>out, <uint64_t **>x, size, 0, n)


cdef class Records:
    """The records of a group of ranks, as one of them sees them.

    Parameters
    ----------
    memory : ndarray of uint8
        ``size`` times ``RECORD_BYTES``, zero when the group was made, mapped by all ranks.
    rank, size : int
    """

    cdef object memory
    cdef Record *records
    cdef readonly int rank
    cdef readonly int size
    cdef uint64_t meeting
    cdef int slot
    cdef char **bases
    cdef char **now

    def __cinit__(self, cnp.ndarray memory, int rank, int size):
        if <size_t>memory.nbytes < size * sizeof(Record) or not 0 <= rank < size:
            raise ValueError(f"node sum: {memory.nbytes} bytes for rank {rank} of {size} ranks")
        self.memory = memory
        self.records = <Record *>cnp.PyArray_DATA(memory)
        self.rank = rank
        self.size = size
        self.bases = <char **>calloc(size, sizeof(char *))
        self.now = <char **>calloc(size, sizeof(char *))
        if self.bases == NULL or self.now == NULL:
            raise MemoryError("no memory for the ranks' addresses")

    def __dealloc__(self):
        free(self.bases)
        free(self.now)

    cpdef meet(self):
        """Wait until every rank has come here; signals are handled meanwhile."""
        cdef int together
        self.meeting += 1
        with nogil:
            uff_node_arrive(&self.records[self.rank], self.meeting)
            together = uff_node_wait(self.records, self.size, self.meeting, PATIENCE)
        while not together:
            PyErr_CheckSignals()
            with nogil:
                together = uff_node_wait(self.records, self.size, self.meeting, PATIENCE)

    def publish(self, region, uintptr_t base, list tensors):
        """Say where this rank's tensors lie: ``region`` is (pid, number, fd, nbytes)."""
        cdef Record *mine = &self.records[self.rank]
        cdef Py_ssize_t i
        cdef cnp.ndarray x
        mine.pid, mine.region, mine.fd, mine.nbytes = region
        mine.count = len(tensors)
        if mine.count > UFF_NODE_TENSORS:
            raise ValueError(f"node sum: {mine.count} tensors at once; at most {MAX_TENSORS}")
        for i, x in enumerate(tensors):
            mine.offsets[i] = <uintptr_t>cnp.PyArray_DATA(x) - base
            if mine.offsets[i] < 0 or mine.offsets[i] + x.nbytes > mine.nbytes:
                raise ValueError(f"node sum: tensor {i} is not in the region")

    def region(self, int rank):
        """Return (pid, number, fd, nbytes) of the region that a rank has published."""
        cdef Record *r = &self.records[rank]
        return r.pid, r.region, r.fd, r.nbytes

    def sum_in_place(self, list tensors, list bases):
        """Sum this rank's share of the published tensors, into all ranks' tensors.

        ``bases`` has the address of each rank's region here. All ranks have published;
        they must meet again before anyone reads.
        """
        cdef Py_ssize_t i, count = len(tensors)
        cdef int r, kind
        cdef int64_t total = 0, start = 0, low, high, n
        cdef cnp.ndarray x
        if not tensors:
            return
        for r in range(self.size):
            self.bases[r] = <char *><uintptr_t>bases[r]
            if self.records[r].count != count:
                raise RuntimeError(
                    f"node sum: rank {r} sums {self.records[r].count} tensors, this one {count}"
                )
        for x in tensors:
            total += x.size
        kind = cnp.PyArray_TYPE(<cnp.ndarray>tensors[0])
        # shares begin on cache lines: 16 elements of 4 bytes or more
        low = total * self.rank // self.size // 16 * 16
        high = total if self.rank + 1 == self.size else (
            total * (self.rank + 1) // self.size // 16 * 16)
        for i in range(count):
            n = (<cnp.ndarray>tensors[i]).size
            if start < high and start + n > low:
                with nogil:
                    for r in range(self.size):
                        self.now[r] = self.bases[r] + self.records[r].offsets[i]
                    sum_all(kind, self.now, self.size, max(low - start, 0), min(high - start, n))
            start += n

    def sum_copies(self, list inputs, list outputs):
        """Sum small tensors of one dtype, ``SLOT_BYTES`` at most together.

        The two slots take turns: no rank can come back to a slot before all have met
        once more, and so have read it.
        """
        cdef cnp.ndarray x
        cdef char *target = &self.records[self.rank].slots[0][0] + self.slot * UFF_NODE_SLOT
        cdef size_t at = 0
        cdef int r
        for x in inputs:
            if at + <size_t>x.nbytes > UFF_NODE_SLOT:
                raise ValueError(f"node sum: more than {SLOT_BYTES} bytes of small tensors")
            memcpy(target + at, cnp.PyArray_DATA(x), x.nbytes)
            at += x.nbytes
        self.meet()
        at = 0
        for x in outputs:
            for r in range(self.size):
                self.now[r] = &self.records[r].slots[0][0] + self.slot * UFF_NODE_SLOT + at
            add_up(cnp.PyArray_TYPE(x), cnp.PyArray_DATA(x), self.now, self.size, x.size)
            at += x.nbytes
        self.slot ^= 1
