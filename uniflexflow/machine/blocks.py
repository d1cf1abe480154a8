"""The block sizes in use: what ``planner`` computes, and over it what was measured here.

Sizes are part of a plan: KC and the tiles of convolutions decide in which order sums are
added up. So they are looked up once per process, and all ranks of a job that run on the
same kind of machine take those of rank 0 (``parallel.distribute``).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from uniflexflow.machine import stored
from uniflexflow.machine.detect import host
from uniflexflow.machine.model import Machine
from uniflexflow.machine.planner import ConvolutionBlocks, plan_convolution, plan_gemm
from uniflexflow.machine.stored import Sizes

_NONE: Sizes = {}
_measured: dict[tuple[Machine, str], Sizes] = {}
_trial: Sizes | None = None
_agreed = False  # whether the sizes are rank 0's, and were others here


def measured(machine: Machine, kernels: str) -> Sizes:
    """Return the sizes that replace computed ones on this host; none for another machine."""
    if _trial is not None:
        return _trial
    if machine != host():
        return _NONE
    key = machine, kernels
    if key not in _measured:
        _measured[key] = stored.load(machine, kernels, plan_convolution(machine))
    return _measured[key]


def gemm_blocks(
    machine: Machine, kernels: str, itemsize: int, mr: int, nr: int
) -> tuple[int, int, int]:
    """Return KC, MC and NC of products; see ``planner.plan_gemm``."""
    found = measured(machine, kernels).get(f"gemm_float{8 * itemsize}")
    return plan_gemm(machine, itemsize, mr, nr) if found is None else found


def convolution_blocks(machine: Machine, kernels: str) -> ConvolutionBlocks:
    """Return the blocks of convolutions; see ``planner.plan_convolution``."""
    found = measured(machine, kernels)
    blocks = plan_convolution(machine)
    own = {name: found[name] for name in stored.CONVOLUTION if name in found}
    return dataclasses.replace(blocks, **own) if own else blocks


def source(kernels: str) -> str:
    """Say where the sizes in use come from."""
    sizes = measured(host(), kernels)
    if not sizes:
        return "computed from the caches"
    names = ", ".join(sizes)
    if _agreed:
        return f"measured on this kind of machine, as rank 0 has them ({names})"
    return f"measured on this machine ({names}; {stored.path_of(host(), kernels)})"


@contextlib.contextmanager
def trial(sizes: Sizes) -> Iterator[None]:
    """Use these sizes in place of measured ones for kernels that are chosen in the block."""
    global _trial
    before, _trial = _trial, sizes
    try:
        yield
    finally:
        _trial = before


def adopt(kernels: str, sizes: Sizes) -> None:
    """Use these sizes, which are rank 0's, from now on."""
    global _agreed
    _agreed = sizes != measured(host(), kernels)
    _measured[host(), kernels] = sizes


def forget() -> None:
    """Look the sizes up anew at the next use; plans that are made stay as they are."""
    global _agreed
    _measured.clear()
    _agreed = False
