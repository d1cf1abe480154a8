"""Pooling kernels against the references, on every instruction set."""

import numpy as np
import pytest

from uniflexflow import ir
from uniflexflow._core import pooling
from uniflexflow._core.runner import run_call
from uniflexflow.ops.registry import OPS
from uniflexflow.ops.window import resolve_padding
from uniflexflow.runtime.reference import run_node

NAMES = tuple(pooling.LOWERINGS)
TOLERANCE = {"float32": 1e-6, "float64": 1e-14}

# images, window, strides, padding
EDGES = {
    "convnet": ((3, 11, 11, 32), (2, 2), (2, 2), "valid"),
    "covered": ((2, 6, 8, 7), (2, 2), (2, 2), "valid"),
    "no image": ((0, 6, 8, 7), (2, 2), (2, 2), "valid"),
    "one pixel": ((1, 1, 1, 1), (1, 1), (1, 1), "valid"),
    "overlapping": ((2, 9, 8, 17), (3, 3), (2, 2), "same"),
    "stride 1": ((1, 6, 7, 70), (3, 2), (1, 1), "same"),
    "gaps": ((2, 11, 12, 9), (2, 1), (3, 3), "valid"),
    "gaps same": ((2, 11, 13, 4), (2, 2), (3, 4), "same"),
    "sequence": ((2, 1, 23, 5), (1, 4), (1, 4), "same"),
    "whole image": ((3, 5, 7, 130), (5, 7), (5, 7), "valid"),
    "window beyond the image": ((2, 2, 3, 8), (5, 4), (1, 2), "same"),
}


def problem(name, rng, edge, dtype, holes=False):
    """Return the node and its operands; small integers, so that many elements are equal."""
    images, window, strides, padding = EDGES[edge]
    attrs = dict(
        window=window,
        strides=strides,
        padding=resolve_padding("test", padding, images[1:3], window, strides),
    )
    x = rng.integers(-3, 4, images).astype(dtype)
    if holes:
        x[rng.random(images) < 0.05] = np.nan
    pool = ir.apply(OPS["max_pool2d"], ir.leaf(images, dtype, "x"), **attrs).node
    (y,) = run_node(pool, [x])
    g, v = rng.standard_normal(y.shape).astype(dtype), rng.standard_normal(images).astype(dtype)
    operands = {
        "max_pool2d": [x],
        "avg_pool2d": [v],
        "max_pool2d_gradient": [x, y, g],
        "max_pool2d_gather": [x, y, v],
        "avg_pool2d_gradient": [g],
    }[name]
    if name == "avg_pool2d_gradient":
        attrs["shape"] = images
    values = [ir.leaf(a.shape, dtype, "x") for a in operands]
    return ir.apply(OPS[name], *values, **attrs).node, operands


def compute(node, operands, threads=1):
    out = np.full(node.outputs[0].shape, 7, node.outputs[0].dtype)
    run_call(pooling.LOWERINGS[node.op.name](node), [out], operands, threads)
    return out


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("edge", EDGES)
def test_against_reference(isa, rng, edge, name, dtype):
    node, operands = problem(name, rng, edge, dtype)
    (want,) = run_node(node, operands)
    np.testing.assert_allclose(
        compute(node, operands),
        want,
        rtol=0,
        atol=TOLERANCE[dtype] * max(1, abs(want).max(initial=0)),
    )


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("name", ["max_pool2d", "max_pool2d_gradient", "max_pool2d_gather"])
def test_nan(isa, rng, edge, name):
    node, operands = problem(name, rng, edge, "float32", holes=True)
    (want,) = run_node(node, operands)
    np.testing.assert_allclose(compute(node, operands), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("edge", EDGES)
def test_threads_change_nothing(isa, rng, monkeypatch, edge, name):
    monkeypatch.setattr(pooling, "CORE_BYTES", 1)
    node, operands = problem(name, rng, edge, "float32")
    one = compute(node, operands)
    for threads in (2, 3, 5):
        np.testing.assert_array_equal(compute(node, operands, threads), one)


def test_first_maximum_takes_the_gradient(isa):
    x = np.ones((1, 2, 2, 1), "float32")
    values = [ir.leaf(s, "float32", "x") for s in ((1, 2, 2, 1), (1, 1, 1, 1), (1, 1, 1, 1))]
    node = ir.apply(
        OPS["max_pool2d_gradient"], *values, window=(2, 2), strides=(2, 2), padding=((0, 0), (0, 0))
    ).node
    one = np.ones((1, 1, 1, 1), "float32")
    assert compute(node, [x, one, one]).ravel().tolist() == [1, 0, 0, 0]
