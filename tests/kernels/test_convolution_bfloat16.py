"""Convolutions of bfloat16: those of float32 on the same numbers, rounded once.

Chunks, taps and parts are those of float32, so the sums are its sums to the last bit.
"""

import ml_dtypes
import numpy as np
import pytest
from test_convolution import EDGES, NAMES, Problem

from uniflexflow import ir
from uniflexflow._core import convolution, convolution_plan, takes_bfloat16
from uniflexflow._core.runner import run_call

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# those that are products of matrices; with these groups on every instruction set
DENSE = [n for n, p in EDGES.items() if p.attrs["groups"] == 1 or n == "groups of three"]


@pytest.fixture
def every_core(monkeypatch):
    """Wake all cores, however small the problem."""
    monkeypatch.setattr(convolution_plan, "CORE_FLOPS", 1)


def compute(problem, name, dtype, threads=1, **more):
    """Run the kernel on the numbers of bfloat16 in a dtype, into an array of NaN."""
    kept = problem.arrays
    problem.arrays = {k: a.astype(BFLOAT16).astype(dtype) for k, a in kept.items()}
    try:
        node, operands = problem.node(name, **more)
    finally:
        problem.arrays = kept
    out = np.full(node.outputs[0].shape, np.nan, dtype)
    lower = convolution.LOWERINGS[name]
    if name == "conv2d_data_gradient" and dtype == "float32":
        lower = convolution.lower_data_gradient  # not the one of few channels, which sums otherwise
    run_call(lower(node), [out], operands, threads)
    return out


def check(problem, name, threads=1, **more):
    want = compute(problem, name, "float32", **more).astype(BFLOAT16)
    assert compute(problem, name, BFLOAT16, threads, **more).tobytes() == want.tobytes()
    return want


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("edge", DENSE)
def test_sums_of_float32_rounded_once(isa, rng, edge, name):
    check(EDGES[edge].draw(rng, "float32"), name)


@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize(
    "edge",
    [
        "odd everything",
        "many channels",
        "groups of three",
        "no channel",
        "long row",
        "many filters",
    ],
)
def test_bias(isa, rng, edge, activation):
    problem = EDGES[edge].draw(rng, "float32")
    problem.arrays["b"] = rng.standard_normal(problem.shapes["k"][3]).astype("float32")
    result = check(problem, "conv2d_bias", activation=activation)
    assert (result.astype("float32") < 0).any() == (activation is None)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("edge", DENSE)
def test_threads_change_nothing(isa, rng, every_core, edge, name):
    problem = EDGES[edge].draw(rng, "float32")
    for threads in (2, 3, 5):
        check(problem, name, threads)


def test_large(isa, rng):
    """Several tiles along each axis, several panels of filters and chunks of channels."""
    for shape, kernel in (
        ((2, 33, 40, 70), (3, 3, 70, 150)),
        ((3, 20, 20, 64), (1, 1, 64, 256)),
        ((2, 21, 23, 3), (7, 7, 3, 64)),
    ):
        strides = (2, 2) if kernel[0] == 7 else (1, 1)
        problem = Problem(shape, kernel, strides, "same").draw(rng, "float32")
        for name in NAMES:
            check(problem, name, threads=2)


def test_special_values(isa, rng):
    """NaN stays in its windows, and what is too large becomes infinite."""
    problem = Problem((1, 6, 6, 3), (3, 3, 3, 4)).draw(rng, "float32")
    problem.arrays["b"] = np.zeros(4, "float32")
    problem.arrays["x"][0, 0, 0, 1] = np.nan
    problem.arrays["x"][0, 5, 5, :] = 3.3e38
    problem.arrays["k"][2, 2] = 2
    result = compute(problem, "conv2d_bias", BFLOAT16, activation="relu").astype("float32")
    assert np.isnan(result)[0, 0, 0].all() and np.isnan(result).sum() == 4
    assert np.isinf(result[0, 3, 3]).all()


def test_grouped_convolutions_are_widened(isa, rng):
    """Those for which float32 has kernels of their own; which, depends on the vectors' width."""
    for edge in EDGES:
        for name in NAMES:
            single, _ = EDGES[edge].draw(rng, "float32").node(name)
            node, _ = EDGES[edge].draw(rng, BFLOAT16).node(name)
            assert isinstance(node, ir.Node)
            kernel = convolution.LOWERINGS[name](single).name
            assert takes_bfloat16(node) == (kernel.split("_")[-2] not in ("depthwise", "grouped"))
            assert takes_bfloat16(node) or edge not in DENSE
