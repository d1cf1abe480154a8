"""What this machine can do at most, measured: once per process, in a fraction of a second.

Profiles and benchmarks speak of percents of these two numbers (Williams, Waterman,
Patterson, "Roofline: an insightful visual performance model", 2009).
"""

from __future__ import annotations

import functools
import threading
import time

import numpy as np

from uniflexflow._core import dispatch
from uniflexflow.machine.detect import host

#: Several times the last-level cache of one core, and no less than this.
_LEAST_BYTES = 32 << 20
_MOST_BYTES = 512 << 20  # all threads' arrays of one kind together
_ROUNDS = 7


@functools.cache
def peak_flops(dtype: str = "float32") -> float:
    """Return the FLOP/s of one core on multiply-adds in registers, with the kernels in use."""
    return dispatch.measure_peak("float64" if dtype == "float64" else "float32")


@functools.cache
def copy_bandwidth(threads: int = 1) -> float:
    """Return the bytes a second that ``threads`` cores read and write as they copy arrays.

    The arrays are larger than the caches. Half of the bytes are read, half are written.
    """
    nbytes = max(_LEAST_BYTES, min(4 * host().l3_bytes, _MOST_BYTES // threads))
    pairs = [(np.ones(nbytes, np.uint8), np.ones(nbytes, np.uint8)) for _ in range(threads)]
    gate = threading.Barrier(threads + 1)

    def work(source: np.ndarray, target: np.ndarray) -> None:
        for _ in range(_ROUNDS):
            gate.wait()
            np.copyto(target, source)
            gate.wait()

    workers = [threading.Thread(target=work, args=pair) for pair in pairs]
    for worker in workers:
        worker.start()
    best = float("inf")
    for _ in range(_ROUNDS):
        gate.wait()
        start = time.perf_counter()
        gate.wait()
        best = min(best, time.perf_counter() - start)
    for worker in workers:
        worker.join()
    return 2 * nbytes * threads / best
