"""The benchmark of memory-bound operations: all run, and the bytes that count are the right ones.

Nothing is timed here.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import kernels_memory

from uniflexflow.compiler import Function

SMALL = list(kernels_memory.cases(1 << 12))


@pytest.mark.parametrize("name, fn, arrays", SMALL, ids=[name for name, _, _ in SMALL])
def test_every_operation_runs(name, fn, arrays):
    step, feeds = Function(fn, "memory").step(*arrays)
    assert kernels_memory.needed_bytes(step, feeds) >= 4 * 1000
    assert 0 < kernels_memory.best_seconds(step, feeds, budget=0) < np.inf


@pytest.mark.parametrize(
    "name, tensors",
    [
        ("relu", 2),
        ("add, relu", 3),
        ("gelu gradient", 3),
        ("random uniform", 1),
        ("SGD with momentum", 5),  # gradient, and weights and momentum in and out
        ("Adam", 7),
    ],
)
def test_each_operand_counts_once(name, tensors):
    (case,) = [c for c in SMALL if c[0] == name]
    step, feeds = Function(case[1], "memory").step(*case[2])
    whole = 4 * (1 << 12)
    assert whole * tensors <= kernels_memory.needed_bytes(step, feeds) < whole * tensors + 100


def test_names_choose():
    chosen = list(kernels_memory.cases(1 << 12, ("softmax", "Adam")))
    assert [name.split(",")[0] for name, _, _ in chosen] == [
        *["softmax", "log softmax"] * 4,
        "Adam",
        "Adam",
    ]
