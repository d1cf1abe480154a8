"""Every operation behind a number that was rounded: what is compiled, and the graph before."""

import numpy as np
import pytest
from all_cases import CASES

import uniflexflow as uff
from uniflexflow import ops
from uniflexflow.compiler import Function, Traced
from uniflexflow.runtime import reference

APART = {
    "exp wide",  # roundings of an argument of 80 are a third of its exponential
    "tanh saturated",  # 1 - tanh(x)^2, which is 0 once the tangent has been rounded
    "simple_rnn last",  # the same
    "cast to float64",  # nothing of it is bfloat16
    # the graph that rounds everywhere adds up two of bfloat16's least numbers, which is -inf
    "attention mask of none",
    "attention of which some targets see nothing",
}
ROWS = [c for c in CASES if c.gradient and c.id not in APART]


def test_the_rows_left_out_exist():
    assert {c.id for c in CASES} >= APART


@pytest.mark.parametrize("case", ROWS, ids=[c.id for c in ROWS])
def test_gradients_are_those_of_the_graph_that_rounds_everywhere(case, rng):
    """Up to roundings: what compares must not compare a rounded number with another."""
    arrays = case.arrays("float32")
    real = [x.dtype.kind == "f" for x in arrays]
    arrays = [x.astype("bfloat16") if r else x for x, r in zip(arrays, real)]
    weights = rng.standard_normal(10000).astype("float32")

    def step(*xs):
        # a product that nobody stores: its readers may have it in float32
        made = [x * 1.0625 if r else x for x, r in zip(xs, real)]
        out = case.fn(*made)
        outs = out if isinstance(out, list | tuple) else [out]
        total, begin = 0, 0
        for y in outs:
            if y.dtype == "bfloat16":
                each = weights[begin : begin + y.size].reshape(y.shape)
                total += ops.sum(ops.cast(y, "float32") * each)
                begin += y.size
        found = uff.gradients(total, [x for x, r in zip(xs, real) if r])
        return [g for g in found if g is not None]

    got = Function(step)(*arrays)
    want = reference.run(Traced(step, arrays, "example").graph, arrays)[0]
    for g, w in zip(got, want, strict=True):
        g, w = np.asarray(g).astype("float64"), np.asarray(w).astype("float64")
        assert np.linalg.norm(g - w) <= 2.0**-4 * np.linalg.norm(w) + 1e-6


def test_pooling_behind_a_normalization_far_from_its_gradient(rng):
    """There the backward pass computes the normalized numbers again, and has not rounded them."""
    x = rng.standard_normal((4, 32, 32, 16)).astype("bfloat16")
    k = (rng.standard_normal((3, 3, 16, 16)) / 8).astype("bfloat16")

    def step(x, k):
        y = ops.cast(ops.conv(x, k, padding="same"), "float32")
        mean = ops.mean(y, axis=(0, 1, 2))
        y = (y - mean) * ops.rsqrt(ops.mean(ops.square(y - mean), axis=(0, 1, 2)) + 1e-3)
        y = z = ops.max_pool(ops.relu(ops.cast(y, "bfloat16")), 3, 2, padding="same")
        for _ in range(12):
            z = ops.relu(ops.conv(z, k, padding="same"))
        return uff.gradients(ops.sum(ops.cast(y * z, "float32")), [x])

    (got,) = Function(step)(x, k)
    (want,) = reference.run(Traced(step, [x, k], "example").graph, [x, k])[0]
    got, want = got.astype("float64"), np.asarray(want).astype("float64")
    assert np.linalg.norm(got - want) <= 2.0**-4 * np.linalg.norm(want) > 0
