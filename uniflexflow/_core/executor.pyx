"""The executor: one loop over the instructions of a plan, without the GIL."""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from uniflexflow._core.core cimport uff_instruction, uff_team, uff_tiled_op
from uniflexflow._core.team cimport fill_team

cnp.import_array()


cdef extern from "instruction.h" nogil:
    ctypedef struct full_instruction "uff_instruction":
        uff_tiled_op run
        void **table
        const int32_t *args
        const int64_t *ints
        const double *floats


cdef inline double seconds() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return t.tv_sec + 1e-9 * t.tv_nsec


cdef class Program:
    """Instructions with addresses.

    Parameters
    ----------
    calls : list of (int, tuple of int, tuple of int, tuple of float)
        Function address, operands as places in the table, ints, floats.
    table_size : int
    num_threads : int
        Slave cores of the team.
    scratch, scratch_bytes : int
        Address and size of the first core's scratchpad; the others' follow it.
    """

    cdef full_instruction *instructions
    cdef void **table
    cdef int32_t *args
    cdef int64_t *ints
    cdef double *floats
    cdef uff_team team
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t table_size

    def __cinit__(self, list calls, Py_ssize_t table_size, int num_threads, uintptr_t scratch,
                  size_t scratch_bytes):
        cdef Py_ssize_t i, a = 0, k = 0, f = 0
        self.size = len(calls)
        self.table_size = table_size
        num_args = sum(len(c[1]) for c in calls)
        num_ints = sum(len(c[2]) for c in calls)
        num_floats = sum(len(c[3]) for c in calls)
        self.instructions = <full_instruction *>calloc(self.size + 1, sizeof(full_instruction))
        self.table = <void **>calloc(table_size + 1, sizeof(void *))
        self.args = <int32_t *>calloc(num_args + 1, sizeof(int32_t))
        self.ints = <int64_t *>calloc(num_ints + 1, sizeof(int64_t))
        self.floats = <double *>calloc(num_floats + 1, sizeof(double))
        if (self.instructions == NULL or self.table == NULL or self.args == NULL
                or self.ints == NULL or self.floats == NULL):
            raise MemoryError("no memory for the plan's instructions")
        fill_team(&self.team, num_threads, <char *>scratch, scratch_bytes)
        for i, (function, args, ints, floats) in enumerate(calls):
            self.instructions[i].run = <uff_tiled_op><uintptr_t>function
            self.instructions[i].table = self.table
            self.instructions[i].args = self.args + a
            self.instructions[i].ints = self.ints + k
            self.instructions[i].floats = self.floats + f
            for value in args:
                if not 0 <= value < table_size:
                    raise IndexError(f"operand {value} of instruction {i} is not in the table")
                self.args[a] = value
                a += 1
            for value in ints:
                self.ints[k] = value
                k += 1
            for value in floats:
                self.floats[f] = value
                f += 1

    def __dealloc__(self):
        free(self.instructions)
        free(self.table)
        free(self.args)
        free(self.ints)
        free(self.floats)

    def set_address(self, Py_ssize_t place, uintptr_t address):
        """Say where the operand at a place of the table is."""
        if not 0 <= place < self.table_size:
            raise IndexError(f"place {place} is not in the table of {self.table_size}")
        self.table[place] = <void *>address

    def set_feeds(self, list rules, feeds):
        """Say where the feeds are; return them, as contiguous arrays.

        ``rules`` has one (shape, dtype, ((place, offset), ...)) per feed.
        """
        cdef cnp.ndarray array
        cdef Py_ssize_t i, place, offset
        cdef list kept = []
        if len(feeds) != len(rules):
            raise ValueError(f"plan: {len(feeds)} feeds are given; expected {len(rules)}.")
        for i, (shape, dtype, places) in enumerate(rules):
            feed = feeds[i]
            if not isinstance(feed, cnp.ndarray) or feed.shape != shape or feed.dtype != dtype:
                raise ValueError(
                    f"plan: feed {i} is {getattr(feed, 'dtype', type(feed))} of shape "
                    f"{getattr(feed, 'shape', ())}; expected {dtype} of shape {shape}."
                )
            array = feed
            if not cnp.PyArray_IS_C_CONTIGUOUS(array):
                array = cnp.PyArray_GETCONTIGUOUS(array)
            kept.append(array)
            for place, offset in places:
                self.table[place] = <char *>cnp.PyArray_DATA(array) + offset
        return kept

    def run(self, Py_ssize_t start, Py_ssize_t stop):
        """Run instructions start to stop."""
        if not 0 <= start <= stop <= self.size:
            raise IndexError(f"instructions {start}:{stop} of {self.size}")
        cdef Py_ssize_t i
        with nogil:
            for i in range(start, stop):
                self.instructions[i].run(<const uff_instruction *>&self.instructions[i], &self.team)

    def profile(self, Py_ssize_t start, Py_ssize_t stop, double[::1] times, double[::1] starts):
        """Run instructions start to stop; add each one's seconds to ``times``.

        ``starts`` gets the time, of ``time.perf_counter``, at which each began.
        """
        if (not 0 <= start <= stop <= self.size or times.shape[0] < self.size
                or starts.shape[0] < self.size):
            raise IndexError(f"instructions {start}:{stop} of {self.size}")
        cdef Py_ssize_t i
        cdef double t
        with nogil:
            for i in range(start, stop):
                t = starts[i] = seconds()
                self.instructions[i].run(<const uff_instruction *>&self.instructions[i], &self.team)
                times[i] += seconds() - t


def copy(uintptr_t target, uintptr_t source, size_t nbytes):
    """Copy bytes from one address to another; they must not overlap."""
    with nogil:
        memcpy(<void *>target, <const void *>source, nbytes)
