"""Runs a single lowered call on arrays: for tests and benchmarks of kernels."""

from libc.stdint cimport int32_t, int64_t

from uniflexflow._core.core cimport uff_instruction, uff_team, uff_tiled_op
from uniflexflow._core.team cimport fill_team

import time

import numpy as np

from uniflexflow.machine import host


cdef class Runner:
    """One kernel call bound to its arrays.

    Parameters
    ----------
    call : KernelCall
    outputs, inputs : sequences of ndarray
        C-contiguous; outputs are written.
    num_threads : int
    scratch_bytes : int
        Scratchpad of each slave core; 0: as large as the host's.
    """

    cdef uff_instruction ins
    cdef uff_team team
    cdef uff_tiled_op function
    cdef object keep

    def __cinit__(self, call, outputs, inputs, int num_threads=1, size_t scratch_bytes=0):
        scratch_bytes = ((scratch_bytes or host().scratch_bytes) + 63) // 64 * 64
        workspace = aligned(call.workspace)
        arrays = [*outputs, *inputs, workspace]
        for array in arrays:
            if not array.flags.c_contiguous:
                raise ValueError("run_call: operands must be C-contiguous")
        addresses = np.array([a.ctypes.data for a in arrays], np.uintp)
        args = np.arange(len(arrays), dtype=np.int32)
        ints = np.array(call.ints or (0,), np.int64)
        floats = np.array(call.floats or (0.0,), np.float64)
        scratch = aligned(scratch_bytes * num_threads)
        self.keep = (arrays, addresses, args, ints, floats, scratch)
        self.function = <uff_tiled_op><size_t>call.function
        self.ins.table = <void **><size_t>addresses.ctypes.data
        self.ins.args = <const int32_t *><size_t>args.ctypes.data
        self.ins.ints = <const int64_t *><size_t>ints.ctypes.data
        self.ins.floats = <const double *><size_t>floats.ctypes.data
        fill_team(&self.team, num_threads, <char *><size_t>scratch.ctypes.data, scratch_bytes)

    def run(self, long repetitions=1):
        """Run the call; return the seconds that all repetitions took."""
        cdef long _
        start = time.perf_counter()
        with nogil:
            for _ in range(repetitions):
                self.function(&self.ins, &self.team)
        return time.perf_counter() - start


def aligned(size_t nbytes):
    """Bytes that start on a cache line; filled so that reading them unwritten shows."""
    buffer = np.full(nbytes + 64, 0xFF, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start:start + nbytes]


def run_call(call, outputs, inputs, num_threads=1, scratch_bytes=0):
    """Run one ``KernelCall``: writes ``outputs`` from ``inputs``."""
    Runner(call, outputs, inputs, num_threads, scratch_bytes).run()
