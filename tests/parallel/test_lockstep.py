"""The same training on any number of ranks, and the faults that must show."""

import numpy as np
import pytest
from ranks import error, train
from small_models import MODELS, batches, generated, normalised, perceptron

from uniflexflow import ops
from uniflexflow.compiler import Traced
from uniflexflow.ir import TensorSpec
from uniflexflow.ops.registry import OPS
from uniflexflow.parallel import Choice, Split, Strategy
from uniflexflow.parallel.distribute import local_graph
from uniflexflow.passes.shard import shard
from uniflexflow.runtime import lockstep

# sums of a few dozen numbers, in another order, through five steps
TOLERANCE = 1e-12


def results(make, size, **options):
    variables, outputs = train(make, batches(), size, **options)
    return [*variables, *[x for step in outputs for x in step]]


@pytest.mark.parametrize("size", [2, 3, 4, 16])
@pytest.mark.parametrize("make", MODELS)
def test_same_training_on_any_number_of_ranks(make, size):
    assert error(results(make, size), results(make, 1)) <= TOLERANCE


@pytest.mark.parametrize("make", MODELS)
def test_training_changes_every_weight(make):
    # else the comparison above would compare nothing
    before = [v.numpy() for v in make()[0]]
    after, _ = train(make, batches(), 2)
    assert all((a != b).any() for a, b in zip(before, after))


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_are_dealt_out_in_order(axis):
    layout = Split(axis, 13)
    bounds = [layout.bounds((26, 26), rank, 4) for rank in range(4)]
    assert bounds == [(0, 6), (6, 12), (12, 18), (18, 26)]


# -- other meshes and choices ------------------------------------------------------

FEATURES = [
    Choice("model", "n", operation="matmul", layer="up"),
    Choice("model", None, operation="matmul", layer="down"),
]


def two_layers():
    from small_models import Weights, sgd

    from uniflexflow.ir import scope

    new = Weights()
    w1, b1, w2 = new(5, 6), new(value=np.zeros(6)), new(6, 4)

    def step(x, y, weight):
        with scope("up"):
            h = ops.matmul(x, w1.value)
        h = ops.relu(h + b1.value)
        with scope("down"):
            out = ops.matmul(h, w2.value)
        loss = ops.mean(out**2)
        sgd(loss, [w1, b1, w2])
        return loss, out

    return new.made, step


@pytest.mark.parametrize("choices", [[], FEATURES], ids=["follow", "chosen"])
def test_features_split_too(choices):
    strategy = Strategy({"data": 2, "model": 2}, choices=choices)
    got = results(two_layers, 4, strategy=strategy)
    assert error(got, results(two_layers, 1)) <= TOLERANCE


def test_a_matrix_product_split_by_its_output_feature():
    def step(x, w):
        return ops.matmul(x, w)

    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(13, 5)), rng.normal(size=(5, 6))
    traced = Traced(step, (TensorSpec(x.shape, "float64"), w), "step")
    strategy = Strategy({"data": 2, "model": 3}, choices=[Choice("model", "n")])
    mesh = strategy.mesh_for(6)
    graphs, arrays = [], []
    for rank in range(6):
        graph, layouts = local_graph(traced.graph, traced.split, strategy, mesh, rank)
        graphs.append(graph)
        arrays.append([x[slice(*strategy.batch_rows(13, rank, 6))], w])
    outputs, _ = lockstep.run(graphs, arrays, mesh)
    got = np.concatenate([outputs[rank][0] for rank in (0, 3)])
    np.testing.assert_allclose(got, x @ w, rtol=1e-13)
    widths = [n.outputs[0].shape for n in graphs[1].nodes if n.op.name == "matmul"]
    assert widths == [(6, 2)]  # computed in part, not whole
    assert layouts == (Split(0, 13),)


def test_an_index_that_does_not_exist_is_an_error():
    strategy = Strategy({"data": 1, "model": 2}, choices=[Choice("model", "z", operation="matmul")])
    with pytest.raises(ValueError, match=r"'matmul'.*can't be split by index 'z'.*'k'"):
        results(perceptron, 2, strategy=strategy)


def test_features_must_divide():
    strategy = Strategy({"data": 1, "model": 2}, choices=[Choice("model", "n", operation="matmul")])
    with pytest.raises(ValueError, match="of size 7: only the batch may be split unevenly"):
        results(perceptron, 2, strategy=strategy)


def test_operations_can_be_kept_whole():
    strategy = Strategy({"data": -1}, choices=[Choice("data", None, operation="matmul")])
    assert error(results(perceptron, 3, strategy=strategy), results(perceptron, 1)) <= TOLERANCE


# -- what is sent ------------------------------------------------------------------


def messages(make, size=2, capacity=1 << 24):
    from uniflexflow.passes.bucket import bucket

    variables, fn = make()
    specs = [TensorSpec(x.shape, x.dtype.name) for x in batches()[0]]
    traced = Traced(fn, tuple(specs), "step")
    strategy = Strategy()
    graph, _ = local_graph(traced.graph, traced.split, strategy, strategy.mesh_for(size), 0)
    nodes = bucket(graph, capacity).nodes
    assert not any(n.op.name == "reshard" and str(n.attrs["source"]) == "Partial" for n in nodes)
    return [[v.shape for v in n.inputs] for n in nodes if n.op.name == "allreduce_start"], nodes


def test_gradients_travel_together_and_each_once():
    sent, _ = messages(perceptron)
    # the sum of weights on its own (the loss needs it), gradients, and loss and metrics
    flat = sorted(shape for shapes in sent for shape in shapes)
    assert flat.count((5, 7)) == flat.count((7, 3)) == flat.count((7,)) == 1
    assert any({(5, 7), (7,), (7, 3)} <= set(shapes) for shapes in sent)
    assert len(sent) <= 3


def test_a_full_bucket_starts_before_the_backward_pass_is_done():
    sent, nodes = messages(perceptron, capacity=16)
    names = [n.op.name for n in nodes]
    start = names.index("allreduce_start", names.index("allreduce_wait") + 1)
    assert "matmul" in names[start:]
    assert len(sent) > 3


@pytest.mark.parametrize("capacity", [1, 100, 1 << 24])
@pytest.mark.parametrize("make", MODELS)
def test_buckets_do_not_change_a_bit(make, capacity, monkeypatch):
    from uniflexflow.passes import bucket as module

    expected = results(make, 3)
    monkeypatch.setattr(
        "ranks.join_messages", lambda graph: module.bucket(graph, capacity), raising=True
    )
    got = results(make, 3)
    assert [x.tobytes() for x in got] == [x.tobytes() for x in expected]


def test_random_numbers_are_drawn_by_share():
    variables, fn = generated()
    specs = [TensorSpec(x.shape, x.dtype.name) for x in batches()[0]]
    traced = Traced(fn, tuple(specs), "step")
    strategy = Strategy()
    graph, _ = local_graph(traced.graph, traced.split, strategy, strategy.mesh_for(4), 3)
    drawn = [n.outputs[0].shape for n in graph.nodes if n.op.name == "random_uniform"]
    products = [n.inputs[0].shape for n in graph.nodes if n.op.name == "matmul"]
    assert drawn == [(4, 4)]
    assert products[0] == (4, 4)  # the generator runs on this rank's share


# -- faults that must show ---------------------------------------------------------


def unlike(make, size=4):
    """Return the error of training with a fault, or inf if the ranks drifted apart."""
    try:
        return error(results(make, size), results(make, 1))
    except (AssertionError, RuntimeError):
        return float("inf")


def test_a_missing_allreduce_is_seen(monkeypatch):
    real = lockstep._communicate

    def fault(node, given):
        if node.op.name == "allreduce_wait" and node.outputs[0].shape == (5, 7):
            return [arrays[0] for arrays in [given[0][1:]]]
        return real(node, given)

    monkeypatch.setattr(lockstep, "_communicate", fault)
    monkeypatch.setattr("ranks.join_messages", lambda g: _bucket_each(g))
    assert unlike(perceptron) > 1e-3


def _bucket_each(graph):
    from uniflexflow.passes.bucket import bucket

    return bucket(graph, 1)


def test_a_mean_over_ranks_for_a_sum_is_seen(monkeypatch):
    real = lockstep._sum
    monkeypatch.setattr(lockstep, "_sum", lambda pieces: real(pieces) / len(pieces))
    assert unlike(perceptron) > 1e-3


def test_the_same_dropout_on_every_rank_is_seen(monkeypatch):
    row = OPS["random_uniform"]
    real = row.localise
    object.__setattr__(
        row,
        "localise",
        lambda attrs, ins, outs, starts: {
            **real(attrs, ins, outs, starts),
            "start": attrs["start"],
        },
    )
    try:
        assert unlike(normalised) > 1e-3
    finally:
        object.__setattr__(row, "localise", real)


def test_a_wrong_index_is_seen(monkeypatch):
    # a sum that forgets that it contracts: statistics of each rank's own rows
    from uniflexflow.passes import shard as module

    real = module.assign

    def fault(node, indices, label, units):
        plan = real(node, indices, label, units)
        if plan is not None and node.op.name == "sum":
            plan = plan[0], [module.REPLICATE if x == module.PARTIAL else x for x in plan[1]]
        return plan

    monkeypatch.setattr(module, "assign", fault)
    assert unlike(normalised) > 1e-3


# -- feeds -------------------------------------------------------------------------


def test_arrays_are_the_same_on_every_rank_and_specs_are_split():
    def step(x, table):
        return ops.matmul(x, table), ops.sum(table)

    traced = Traced(step, (TensorSpec((6, 2), "float64"), np.ones((2, 3))), "step")
    assert traced.split == (True, False)
    strategy = Strategy()
    graph, layouts = local_graph(traced.graph, traced.split, strategy, strategy.mesh_for(2), 1)
    assert [v.shape for v in graph.inputs] == [(3, 2), (2, 3)]
    assert [str(at) for at in layouts] == ["Split(0 of 6)", "Replicate"]


@pytest.mark.parametrize("shape", [(), (0, 3)])
def test_a_feed_without_rows_can_not_be_split(shape):
    traced = Traced(ops.exp, (TensorSpec(shape, "float64"),), "step")
    axis = Strategy().mesh_for(2).axis("data", 0)
    with pytest.raises(ValueError, match="has no rows to split"):
        shard(traced.graph, axis, traced.graph.inputs)


def test_what_is_summed_in_place_has_no_other_reader():
    from uniflexflow.ir import Graph, apply, leaf
    from uniflexflow.ops.registry import OPS
    from uniflexflow.parallel.layout import PARTIAL
    from uniflexflow.parallel.reshard import reshard
    from uniflexflow.passes.bucket import bucket

    axis = Strategy().mesh_for(2).axis("data", 0)
    x = leaf((4,), "float64", "x")
    own = apply(OPS["negative"], x)
    view = apply(OPS["reshape"], own, shape=(2, 2))
    alone = apply(OPS["negative"], x)
    sums = [reshard(v, PARTIAL, v.shape, axis) for v in (x, view, alone)]
    graph = bucket(Graph(inputs=(x,), outputs=(*sums, own)))
    start = next(n for n in graph.nodes if n.op.name == "allreduce_start")
    assert [v.node.op.name for v in start.inputs] == ["stop_gradient", "stop_gradient", "negative"]
