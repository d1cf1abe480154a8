"""Recomputation: the same numbers, from values that are not kept."""

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import ops
from uniflexflow.compiler import Function, Traced, optimize
from uniflexflow.ir import TensorSpec, region, verify
from uniflexflow.ops.variable import Variable

N = 64


def deep(part, units=4, depth=4):
    """Return a step through units of layers; ``part`` wraps each."""
    rng = np.random.default_rng(3)
    weights = [Variable(rng.normal(size=(N, N)) / 8) for _ in range(units * depth)]

    def unit(k):
        def run(h):
            for w in weights[k * depth : (k + 1) * depth]:
                h = ops.tanh(ops.matmul(h, w))
            return h

        return part(run)

    def step(x):
        h = x
        for k in range(units):
            h = unit(k)(h)
        loss = ops.sum(h * h)
        return loss, uff.gradients(loss, weights)

    return step


def arena(step, *specs):
    function = Function(step)
    return function.step(*specs)[0].plan.arena_bytes


def names(graph):
    return [node.op.name for node in graph.compute_nodes]


def test_results_are_the_same_bit_by_bit(rng):
    x = rng.normal(size=(8, N))
    plain, again = (Function(deep(part))(x) for part in (lambda f: f, uff.remat))
    np.testing.assert_array_equal(plain[0], again[0])
    for a, b in zip(plain[1], again[1], strict=True):
        np.testing.assert_array_equal(a, b)


def test_memory_falls_to_the_units_inputs_and_one_unit():
    x = TensorSpec((4096, N), "float64")
    one = 4096 * N * 8
    gradients = 25 * N * N * 8
    plain, again = (arena(deep(part, 5, 5), x) for part in (lambda f: f, uff.remat))
    assert plain >= 25 * one
    # 5 units' results, 5 layers of the unit at work, and what its gradient needs
    assert again <= 14 * one + gradients


def test_a_unit_is_computed_when_its_gradient_has_come():
    """The copies stand behind the gradient of what follows them, in every pass."""
    graph = optimize(Traced(deep(uff.remat), (TensorSpec((8, N), "float64"),), "step").graph)
    verify(graph)
    place = {node.id: i for i, node in enumerate(graph.nodes)}
    gates = [n for n in graph.nodes if n.op.name == "after"]
    assert gates
    for gate in gates:
        waited = [place[v.node.id] for v in gate.inputs[1:]]
        assert waited, "it waits for nothing"
        readers = [n for n in graph.nodes if gate.outputs[0] in n.inputs]
        assert all(place[r.id] > max(waited) for r in readers)
    # each layer's product and its two gradients, and once more; x has no gradient
    assert names(graph).count("matmul") == 16 * 4 - 1


def test_regions_within_regions(rng):
    def step(x):
        outer = uff.remat(lambda h: inner(ops.exp(inner(ops.sin(h)))))
        inner = uff.remat(lambda h: ops.tanh(ops.tanh(h) * h))
        loss = ops.sum(outer(x) * x)
        return loss, *uff.gradients(loss, [x])

    def plain(x):
        def inner(h):
            return ops.tanh(ops.tanh(h) * h)

        loss = ops.sum(inner(ops.exp(inner(ops.sin(x)))) * x)
        return loss, *uff.gradients(loss, [x])

    x = rng.normal(size=(5, 7))
    for a, b in zip(Function(step)(x), Function(plain)(x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_second_derivatives_and_sources_within(rng):
    def of(wrap):
        def step(x):
            kept = []

            def f(h):
                kept.append(ops.sin(h))
                return ops.exp(kept[0]) * h

            y = ops.sum(wrap(f)(x) ** 2)
            first, middle = uff.gradients(y, [x, kept[0]])
            return first, middle, *uff.gradients(ops.sum(first * first), [x])

        return step

    x = rng.normal(size=(4, 3))
    for a, b in zip(Function(of(uff.remat))(x), Function(of(lambda f: f))(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_several_results_and_arguments(rng):
    def of(wrap):
        def step(x, y):
            a, b = wrap(lambda u, v: (ops.exp(u) * v, ops.sin(u * v)))(x, y)
            loss = ops.sum(a * b) + ops.sum(a)
            return uff.gradients(loss, [x, y])

        return step

    x, y = rng.normal(size=(2, 3, 4))
    for a, b in zip(Function(of(uff.remat))(x, y), Function(of(lambda f: f))(x, y), strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_inactive_region_is_none():
    def step(x):
        with region() as part:
            y = ops.exp(ops.sin(x))
        part.active = False
        return uff.gradients(ops.sum(y), [x])

    graph = Traced(step, (TensorSpec((3,), "float64"),), "step").graph
    assert "after" not in names(graph)


def test_random_numbers_are_the_same(rng):
    def of(wrap):
        def step(x):
            def noisy(h):
                return ops.exp(uff.random.dropout(ops.sin(h), 0.5, seed=3)) * h

            y = wrap(noisy)(x)
            return y, *uff.gradients(ops.sum(y), [x])

        return step

    x = rng.normal(size=(50, 40))
    for a, b in zip(Function(of(uff.remat))(x), Function(of(lambda f: f))(x), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("wrong", [3, "relu"])
def test_it_takes_what_can_be_called(wrong):
    with pytest.raises(TypeError, match="remat: expected a layer, a model or a function"):
        uff.remat(wrong)


def test_arrays_run_at_once(rng):
    x = rng.normal(size=4)
    np.testing.assert_allclose(uff.remat(ops.exp)(x), np.exp(x))
