"""Fusion keeps the meaning of random graphs, and finds what it is made for."""

import numpy as np
import pytest
from random_graphs import arrays_of, random_step

import uniflexflow as uff
from uniflexflow import ops
from uniflexflow.compiler import Traced
from uniflexflow.ir import verify
from uniflexflow.passes.fuse import fuse, fuse_chains, fuse_epilogues
from uniflexflow.passes.materialize import materialize
from uniflexflow.runtime import reference


def names(graph):
    return [n.op.name for n in graph.compute_nodes]


def traced(step, *arrays):
    return Traced(step, arrays, "step").graph


@pytest.mark.parametrize("run_pass", [materialize, fuse_epilogues, fuse_chains, fuse])
@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_keep_their_meaning(run_pass, seed):
    step, feeds = random_step(seed)
    arrays = arrays_of(step, feeds)
    new = verify(run_pass(verify(step.graph)))
    assert new.inputs == step.graph.inputs
    before, after = (reference.run(g, arrays) for g in (step.graph, new))
    for a, b in zip([*before[0], *before[1]], [*after[0], *after[1]], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)


def test_a_chain_of_ten_is_one_node():
    def step(x):
        for _ in range(5):
            x = ops.tanh(x) * 2.0
        return x

    assert names(fuse(traced(step, np.ones((4, 3))))) == ["chain"]


def test_bias_and_relu_go_into_the_product():
    w, b = uff.Variable(np.ones((3, 4))), uff.Variable(np.ones(4))
    graph = fuse_epilogues(traced(lambda x: ops.relu(x @ w + b), np.ones((5, 3))))
    assert names(graph) == ["dense"]
    assert graph.nodes[-1].attrs["activation"] == "relu"


def test_bias_goes_through_the_reshape_of_a_product():
    w, b = uff.Variable(np.ones((3, 4))), uff.Variable(np.ones(4))
    graph = fuse_epilogues(traced(lambda x: ops.relu(x @ w + b), np.ones((5, 2, 3))))
    assert [n for n in names(graph) if n != "reshape"] == ["dense"]


def test_a_product_with_two_uses_keeps_its_own_result():
    w, b = uff.Variable(np.ones((3, 4))), uff.Variable(np.ones(4))

    def step(x):
        y = x @ w
        return ops.relu(y + b), y

    assert "matmul" in names(fuse_epilogues(traced(step, np.ones((5, 3)))))


def test_a_sum_takes_up_the_chain_before_it():
    graph = fuse(traced(lambda x: ops.sum(ops.square(x - 1.0)), np.ones((5, 3))))
    assert names(graph) == ["chain_reduce"]


def test_a_way_round_keeps_chains_apart():
    # exp(x) feeds a sum whose result comes back: the two halves can't be one chain
    def step(x):
        y = ops.exp(x)
        return y / ops.sum(y, axis=1, keepdims=True)

    graph = fuse_chains(traced(step, np.ones((5, 3))))
    assert "sum" in names(graph) and len(names(graph)) >= 3
