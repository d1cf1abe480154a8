"""What passes over memory are left: values computed where they are read, reductions joined."""

import numpy as np
import pytest
from random_graphs import arrays_of, random_step

import uniflexflow as uff
from uniflexflow import layers, ops
from uniflexflow.compiler import Traced, optimize
from uniflexflow.ir import verify
from uniflexflow.passes import inline as inline_module
from uniflexflow.passes.fuse import fuse, fuse_chains
from uniflexflow.passes.fuse_reductions import fuse_reductions
from uniflexflow.passes.inline import NEAR, inline
from uniflexflow.runtime import reference

X = np.ones((512, 256), "float32")


def traced(step, *arrays):
    return Traced(step, arrays, "step").graph


def large(graph):
    """The nodes that read or write a tensor of the size of X, as (operation, reads, writes)."""

    def count(values):
        return sum(v.size == X.size for v in values)

    found = [(n.op.name, count(n.inputs), count(n.outputs)) for n in graph.compute_nodes]
    return [row for row in found if row[1] or row[2]]


@pytest.mark.parametrize("run_pass", [inline, fuse_reductions, lambda g: fuse(fuse(g))])
@pytest.mark.parametrize("seed", range(40, 70))
def test_random_graphs_keep_their_meaning(run_pass, seed, monkeypatch):
    monkeypatch.setattr(inline_module, "SMALL_BYTES", 0)
    step, feeds = random_step(seed)
    arrays = arrays_of(step, feeds)
    new = verify(run_pass(fuse_chains(step.graph)))
    before, after = (reference.run(g, arrays) for g in (step.graph, new))
    for a, b in zip([*before[0], *before[1]], [*after[0], *after[1]], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)


def test_batch_normalization_and_relu_have_no_pass_too_many():
    layer = layers.BatchNormalization()
    layer.build(X.shape)

    def forward(x):
        return ops.relu(layer(x, training=True))

    # mean, variance, application
    assert large(optimize(traced(forward, X))) == [
        ("sum", 1, 0),
        ("chain_reduce", 1, 0),
        ("chain", 1, 1),
    ]

    def backward(x, upstream):
        y = forward(x)
        sources = [x, layer.gamma.value, layer.beta.value]
        return [y, *uff.gradients(ops.sum(y * upstream), sources)]

    # both sums over what flows in, x and y; then the gradient of x
    assert large(optimize(traced(backward, X, X)))[3:] == [("chain_reduce", 3, 0), ("chain", 3, 1)]


def test_layer_normalization_keeps_only_its_input():
    def step(x, upstream, gamma, beta):
        y = ops.layer_normalization(x, gamma, beta)
        return [y, *uff.gradients(ops.sum(y * upstream), [x, gamma, beta])]

    vector = np.ones(X.shape[1], "float32")
    # the mean; the variance with the sums over features; y; the sums over samples; x's gradient
    assert sorted(large(optimize(traced(step, X, X, vector, vector)))) == [
        ("chain", 1, 1),
        ("chain", 2, 1),
        ("chain_reduce", 2, 0),
        ("chain_reduce", 2, 0),
        ("sum", 1, 0),
    ]


@pytest.mark.parametrize("normalize", ["batch", "layer", "group"])
def test_normalizations_keep_their_meaning(normalize, rng, monkeypatch):
    monkeypatch.setattr(inline_module, "SMALL_BYTES", 0)
    x, u = rng.standard_normal((2, 6, 4, 8))
    g, b = rng.standard_normal((2, 8))
    axes = {"batch": (0, 1), "layer": 2, "group": (1, 2)}[normalize]

    def step(x, u, g, b):
        if normalize == "layer":
            y = ops.layer_normalization(x, g, b, axes)
        else:
            mean, variance = ops.moments(x, axes, keepdims=True)
            y = (x - mean) * ops.rsqrt(variance + 1e-3) * g + b
        y = ops.relu(y)
        slopes = uff.gradients(ops.sum(y * u), [x, g, b])
        return [y, *slopes, *uff.gradients(ops.sum(ops.square(slopes[0])), [x, g])]

    graph = traced(step, x, u, g, b)
    before, after = (reference.run(f, [x, u, g, b])[0] for f in (graph, optimize(graph)))
    for a, c in zip(before, after, strict=True):
        np.testing.assert_allclose(c, a, rtol=1e-9, atol=1e-9)


def test_what_is_cheap_is_computed_again_and_what_is_not_is_stored():
    def step(x, f):
        y = f(x)
        return ops.sum(y, axis=0), y / ops.sum(y, axis=1, keepdims=True)

    cheap = large(fuse(traced(lambda x: step(x, ops.square), X)))
    assert all(writes == 0 for _, _, writes in cheap[:-1])
    dear = large(fuse(traced(lambda x: step(x, ops.erf), X)))
    assert dear[0] == ("erf", 1, 1)


def test_two_inputs_are_not_kept_for_long_in_place_of_one_result():
    def step(a, b, far):
        y = a * b
        first = ops.sum(y, axis=0)
        for _ in range(NEAR + 2 if far else 1):
            first = ops.cumsum(first)
        return y * ops.sum(first)

    stored, near = (large(fuse(traced(lambda a, b, f=f: step(a, b, f), X, X))) for f in (1, 0))
    assert [row[2] for row in stored] == [1, 0, 1]
    assert near == [("chain_reduce", 2, 0), ("chain", 2, 1)]


def test_a_variable_is_not_read_after_its_update(monkeypatch):
    monkeypatch.setattr(inline_module, "SMALL_BYTES", 0)
    v = uff.Variable(np.ones((6, 5)))

    def step(x):
        y = ops.square(v.value)
        v.assign(x @ ops.transpose(v.value)[:, :6] @ v.value)
        return y / ops.sum(y)

    graph = fuse(traced(lambda x: step(x), np.ones((6, 5))))
    assert [n.op.name for n in graph.compute_nodes].count("square") == 1


def test_reductions_of_one_tensor_are_one_pass():
    graph = fuse(traced(lambda x, y: (ops.sum(x, 0), ops.sum(x * y, 0), ops.sum(y, 0)), X, X))
    assert large(graph) == [("chain_reduce", 2, 0)]
    (node,) = [n for n in graph.compute_nodes if n.op.name == "chain_reduce"]
    assert len(node.outputs) == 3 and len(node.attrs["program"]) == 1


def test_reductions_that_need_one_another_or_differ_stay_apart():
    def needing(x):
        total = ops.sum(x, 0)
        return ops.sum(x * total, 0)

    assert len(large(fuse(traced(needing, X)))) == 2
    for other in (lambda x: ops.sum(x, 1), lambda x: ops.max(x, 0)):
        assert len(large(fuse(traced(lambda x, f=other: (ops.sum(x, 0), f(x)), X)))) == 2


def test_joining_makes_no_cycle():
    # a, b over x and c, d over y; c needs a, b needs d: the pairs must not both be joined
    def step(x, y):
        a = ops.sum(x, 0)
        d = ops.sum(ops.square(y), 0)
        c = ops.sum(y * a, 0)
        b = ops.sum(x * ops.abs(d), 0)
        return a, b, c, d

    graph = verify(fuse(traced(step, X, X)))
    assert len(large(graph)) == 3
