"""Chooses, at import, the tile kernels of the best instruction set that this machine runs.

The environment variable ``UNIFLEXFLOW_ISA`` forces another one.
"""

from libc.stdint cimport int64_t

import os
import time


cdef extern from "tile/probe.h" nogil:
    ctypedef struct uff_probe_kernels:
        int vector_bytes
        int64_t (*fma_f32)(int64_t n, double *sink) noexcept nogil
        int64_t (*fma_f64)(int64_t n, double *sink) noexcept nogil
    const uff_probe_kernels *uff_probe(const uff_kernels *k) noexcept


cdef extern from "isa.h" nogil:
    int uff_isa_count()
    const char *uff_isa_name(int isa)
    bint uff_isa_supported(int isa)
    void uff_isa_fill(int isa, uff_kernels *kernels)


cdef uff_kernels table
cdef int current = -1


def built():
    """Names of all instruction sets that this build has kernels for, the portable first."""
    return tuple([uff_isa_name(i).decode() for i in range(uff_isa_count())])


def available():
    """Names of the instruction sets that this machine can run, best last."""
    return tuple([uff_isa_name(i).decode() for i in range(uff_isa_count())
                  if uff_isa_supported(i)])


def selected():
    """Name of the instruction set whose kernels are in use."""
    return uff_isa_name(current).decode()


def select(str name, *, str where="dispatch.select"):
    """Use the kernels of instruction set ``name`` from now on.

    Not while a step is running. Plans made before may hold block sizes of another set:
    make them anew.

    Raises
    ------
    ValueError
        If this build doesn't know the name, or this machine can't run it.
    """
    global current, kernels
    if name not in built():
        raise ValueError(f"{where}: unknown instruction set: {name!r}; this build has "
                         f"{', '.join(built())}.")
    cdef int isa = built().index(name)
    if not uff_isa_supported(isa):
        raise ValueError(f"{where}: instruction set {name!r} can't run here: the processor or the "
                         f"operating system lacks it; available are {', '.join(available())}.")
    uff_isa_fill(isa, &table)
    current = isa
    kernels = &table


def vector_bytes():
    """Width of the vectors of the kernels in use."""
    return uff_probe(kernels).vector_bytes


def peak_once(dtype="float32"):
    """Return the FLOP/s that this core just now reaches on multiply-adds in registers.

    One run of about a millisecond, timed by the thread's own clock, with the kernels in use.
    """
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dispatch.peak_once: unknown dtype: {dtype!r}; "
                         "expected float32 or float64.")
    cdef int64_t flops, n = 100_000
    cdef double sink
    cdef bint single = dtype == "float32"
    start = time.thread_time()
    if single:
        flops = uff_probe(kernels).fma_f32(n, &sink)
    else:
        flops = uff_probe(kernels).fma_f64(n, &sink)
    return n * flops / (time.thread_time() - start)


def measure_peak(dtype="float32"):
    """Return the best of many ``peak_once``: a core's peak at its highest clock rate."""
    return max([peak_once(dtype) for _ in range(60)])


def _choose():
    forced = os.environ.get("UNIFLEXFLOW_ISA", "")
    if forced:
        select(forced, where="UNIFLEXFLOW_ISA")
    elif available():
        select(max(available(), key=built().index))
    else:
        raise ImportError(f"uniflexflow: this processor is too old: it can't run the portable "
                          f"kernels ({built()[0]}).")


_choose()
