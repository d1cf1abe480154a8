"""Strategies as values and files, meshes, and the check that all ranks have one model."""

import json

import numpy as np
import pytest

from uniflexflow import config, ops
from uniflexflow.compiler import Traced
from uniflexflow.ir import TensorSpec, scope
from uniflexflow.ops.variable import Variable
from uniflexflow.parallel import Choice, DataParallel, Mesh, Strategy, batch_rows
from uniflexflow.parallel.distribute import require_same
from uniflexflow.parallel.strategy import get


def test_a_strategy_survives_its_file(tmp_path):
    strategy = Strategy(
        {"data": -1, "model": 2},
        choices=[Choice("model", "n", layer="*/up"), Choice("model", None, operation="sum")],
        rest={"*": "replicate"},
        gradient_dtype="bfloat16",
    )
    strategy.save(tmp_path / "strategy.json")
    again = Strategy.load(tmp_path / "strategy.json")
    assert again == strategy and again.to_json() == strategy.to_json()
    assert get(str(tmp_path / "strategy.json")) == strategy
    assert get(json.loads(strategy.to_json())) == strategy
    assert get(strategy) is strategy and get(None) == DataParallel()


def test_the_rows_are_those_of_the_batch_axis():
    strategy = Strategy({"data": 2, "model": 3})
    rows = [strategy.batch_rows(13, rank, 6) for rank in range(6)]
    assert rows == [(0, 6)] * 3 + [(6, 13)] * 3
    assert [DataParallel().batch_rows(13, r, 4) for r in range(4)] == [
        batch_rows(13, r, 4) for r in range(4)
    ]


def test_a_mesh_is_a_grid():
    mesh = Mesh.of({"stage": 2, "data": 2, "model": 2})
    places = [tuple(mesh.coordinates(rank).values()) for rank in range(8)]
    assert places == [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    assert mesh.neighbours("model", 5) == (4, 5)
    assert mesh.neighbours("data", 5) == (5, 7)
    assert mesh.neighbours("stage", 5) == (1, 5)
    assert str(mesh.axis("data", 6)) == "data[1/2]"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Strategy({"data": 3}).mesh_for(4),
            "the mesh is {'data': 3}, but there are 4 ranks",
        ),
        (lambda: Strategy({"data": -1, "model": 3}).mesh_for(4), "but there are 4 ranks"),
        (lambda: Strategy({"data": -1, "model": 3}).mesh_for(2), "but there are 2 ranks"),
        (lambda: Strategy({"data": 2}).mesh_for(1), "but there are 1 ranks"),
        (lambda: Strategy({"model": 2}), "batch_axis is 'data'"),
        (lambda: Strategy({"data": 0}), "expected lengths of 1 or more"),
        (lambda: Strategy({"data": -1, "model": -1}), "one of them -1 at most"),
        (lambda: Strategy(choices=[Choice("depth", "n")]), "mesh axis 'depth'"),
        (lambda: Strategy(gradient_dtype="float16"), "gradient_dtype is 'float16'"),
        (lambda: Strategy.from_json('{"format": 99}'), "format is 99; expected 1"),
        (lambda: Strategy.from_json('{"format": 1, "mesh": {"data": 1}, "x": 1}'), "entries .'x'"),
        (
            lambda: Strategy.from_json('{"format": 1, "mesh": {"data": 1}, "choices": [{"a": 1}]}'),
            "a choice can't be read",
        ),
        (lambda: Mesh((("a", 1), ("a", 2))), "different names"),
        (lambda: batch_rows(4, 2, 2), "rank 2 does not exist; expected 0 to 1"),
        (lambda: batch_rows(-1, 0, 2), "expected 0 or more"),
    ],
)
def test_what_does_not_fit_is_an_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_is_not_supported_says_so():
    with pytest.raises(NotImplementedError, match="only 'replicate' is supported"):
        Strategy(rest={"*/kernel": "split"})
    with pytest.raises(TypeError, match="expected a uniflexflow.parallel.Strategy"):
        get(4)


@pytest.mark.parametrize("n", range(0, 12))
@pytest.mark.parametrize("size", range(1, 6))
def test_rows_cover_the_batch_once(n, size):
    ranges = [batch_rows(n, rank, size) for rank in range(size)]
    assert [i for lo, hi in ranges for i in range(lo, hi)] == list(range(n))
    lengths = [hi - lo for lo, hi in ranges]
    assert max(lengths) - min(lengths) <= 1


# -- one model on all ranks --------------------------------------------------------


class TwoRanks:
    """Stands in for a communicator: this rank and one other, whose word is given."""

    rank, size = 0, 2

    def __init__(self, other=None):
        self.other = other
        self.said = []

    def allgather(self, array, what=""):
        self.said.append(array)
        return np.concatenate([array, self.other.said[-1] if self.other else array])

    def allreduce(self, array, op, what=""):
        return array

    def gather_objects(self, lines):
        self.lines = lines
        return [lines, self.other.lines]


def graph_of(units=64, rate=0.1, rows=8, extra=False, table=0):
    with scope("model/wide"):
        kernel = Variable(np.zeros((16, units)), name="kernel")

    def step(x):
        with scope("model/wide"):
            h = ops.matmul(x + np.full(16, table), kernel.value) * rate
        return ops.sum(ops.relu(h) if extra else h)

    return Traced(step, (TensorSpec((rows, 16), "float64"),), "train").graph


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"units": 65}, ["layer 'model/wide'", "'model/wide/kernel'", "(16, 64)", "(16, 65)"]),
        ({"rate": 0.2}, ["0.1", "0.2", "model/wide"]),
        ({"rows": 9}, ["[8, 16]", "[9, 16]", "train:0"]),
        ({"extra": True}, ["relu"]),
        ({"table": 1}, ["constant 0 in layer 'model/wide'", "[16] with the checksum"]),
    ],
)
def test_ranks_with_different_models_are_told_the_difference(change, words):
    other = TwoRanks()
    other.other = other
    require_same(graph_of(**change), DataParallel(), other)  # the other rank's word
    other.lines = lines_of(graph_of(**change))
    with pytest.raises(ValueError, match="the model differs between ranks") as error:
        require_same(graph_of(), DataParallel(), TwoRanks(other))
    for word in words:
        assert word in str(error.value)


def test_ranks_with_different_algorithms_are_told():
    other = TwoRanks()
    other.other = other
    config.set_convolution_algorithm("winograd")
    try:
        require_same(graph_of(), DataParallel(), other)
        other.lines = lines_of(graph_of())
    finally:
        config.set_convolution_algorithm("direct")
    with pytest.raises(ValueError, match="algorithm 'direct'.*algorithm 'winograd'"):
        require_same(graph_of(), DataParallel(), TwoRanks(other))


def lines_of(graph):
    """Return what a rank says of its graph when asked."""

    class Asked(TwoRanks):
        def allreduce(self, array, op, what=""):
            return np.array(0)

    asked = Asked()
    asked.other = asked
    require_same(graph, DataParallel(), asked)
    return asked.lines


def test_ranks_with_the_same_model_agree():
    other = TwoRanks()
    other.other = other
    require_same(graph_of(), DataParallel(), other)
    require_same(graph_of(), DataParallel(), TwoRanks(other))
