"""The benchmark of depthwise and grouped convolutions: all its shapes have kernels of theirs.

Nothing is timed here.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import kernels_grouped

from uniflexflow._core import convolution
from uniflexflow._core.grouped_plan import DEEP


@pytest.mark.parametrize("case", kernels_grouped.CASES, ids=lambda case: case.name)
def test_every_shape_has_its_kernels(case):
    x, kernel, y = case.shapes
    forward, data, weight = kernels_grouped.nodes(case, "float32")
    assert [n.outputs[0].shape for n in (forward, data, weight)] == [y, x, kernel]
    for node in (forward, data, weight):
        name = convolution.LOWERINGS[node.op.name](node).name
        kind = "grouped_" if case.groups else "depthwise_"
        if case.groups and node is weight and kernel[2] >= DEEP:
            kind = ""  # a gathered product
        assert name == f"{node.op.name}_{kind}float32"


def test_a_run_is_timed_and_counted():
    case = kernels_grouped.Case("small", 1, 4, 8, 3)
    for node in kernels_grouped.nodes(case, "float32"):
        taken, flops = kernels_grouped.taken_seconds(node, 1, budget=0)
        assert taken > 0 and flops == 2 * 9 * 16 * 8
        assert kernels_grouped.needed_bytes(node) == 4 * (2 * 128 + 72)


def test_names_choose():
    chosen = list(kernels_grouped.cases(("7x7", "twice")))
    assert len(chosen) == 6 and all("7x7" in c.name or c.multiplier == 2 for c in chosen)
