"""Every row's loop indices: split by any of them, an operation gives what it gives whole.

Over all rows of the tables of operations, forward and backward: each node of a row's
graph is split by each index that its rule names, over three ranks, and run on random
numbers.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))

from all_cases import CASES, IDS
from oracle import float_places, gradient_of, scalar

from uniflexflow.compiler import Traced
from uniflexflow.ir import Graph, Node, leaf
from uniflexflow.parallel.layout import PARTIAL, Split
from uniflexflow.parallel.mesh import Mesh, MeshAxis
from uniflexflow.passes.shard import assign, is_linear, shard
from uniflexflow.runtime import lockstep, reference

SIZE = 3
MESH = Mesh((("data", SIZE),))


def labels_of(node):
    indices = node.op.indices(node)
    return list(
        dict.fromkeys(
            label
            for labels in (*indices.inputs, *indices.outputs)
            for label in labels
            if label is not None
        )
    )


def units_of(node, label):
    indices = node.op.indices(node)
    operands = zip((*node.inputs, *node.outputs), (*indices.inputs, *indices.outputs))
    return min(v.shape[ls.index(label)] for v, ls in operands if label in ls)


_seen = {"split": set(), "partial": set()}  # kinds of nodes that are done


def nodes_of(case, done, dtype="float64"):
    """Each different kind of node in a row and in its gradient, with numbers to run it on."""
    arrays = case.arrays(dtype)
    graphs = [Traced(case.fn, tuple(arrays), case.id).graph]
    places = float_places(arrays)
    if case.gradient and places:
        gradient = gradient_of(scalar(case, arrays), places)
        graphs.append(Traced(gradient, tuple(arrays), case.id).graph)
    for graph in graphs:
        env = dict(zip(graph.inputs, arrays))
        for node in graph.nodes:
            if node.op.name == "constant":
                env[node.outputs[0]] = node.attrs["array"]
            elif node.inputs or node.op.name != "input":
                given = [env[v] for v in node.inputs]
                env.update(zip(node.outputs, reference.run_node(node, given)))
                key = node.op.name, str(node.attrs), tuple(v.spec for v in node.inputs)
                if key not in done and node.op.indices is not None:
                    done.add(key)
                    yield node, given


def alone(node):
    """Return a graph of the node alone, its inputs as feeds."""
    inputs = tuple(leaf(v.shape, v.dtype, f"x{i}") for i, v in enumerate(node.inputs))
    copy = Node(node.op, inputs, node.attrs)
    return Graph(inputs=inputs, outputs=copy.outputs), copy


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_split_by_every_index(case):
    for node, given in nodes_of(case, _seen["split"]):
        graph, copy = alone(node)
        expected, _ = reference.run(graph, given)
        indices = node.op.indices(node)
        assert len(indices.inputs) == len(node.inputs), node
        for operand, labels in zip(
            (*node.inputs, *node.outputs), (*indices.inputs, *indices.outputs), strict=True
        ):
            assert len(labels) == operand.ndim, f"{node}: one label per dimension"
        for label in labels_of(node):
            units = units_of(node, label)
            rows = {ls[0] for ls in (*indices.inputs, *indices.outputs) if ls}
            if units % SIZE and label not in rows:
                continue  # only the batch is ever split unevenly
            if assign(copy, indices, label, units) is None:
                continue
            graphs = [
                shard(graph, MeshAxis("data", SIZE, rank), (), lambda n, at=label: at, False)[0]
                for rank in range(SIZE)
            ]
            outputs, _ = lockstep.run(graphs, [given] * SIZE, MESH)
            for got in outputs:
                compare(got, expected, f"{node} split by index {label!r}")


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_partial_sums_pass_where_the_row_says_so(case):
    rng = np.random.default_rng(0)
    for node, given in nodes_of(case, _seen["partial"]):
        finite = all(x.dtype.kind == "f" and np.isfinite(x).all() for x in given)
        if not is_linear(node) or not finite:
            continue  # a sum of summands is not exact for special values
        graph, _ = alone(node)
        expected, _ = reference.run(graph, given)
        every = set(range(len(given)))
        for partial in [{i} for i in every] if node.op.linear == "one" else [every]:
            first = [
                (x * rng.uniform(0, 1, x.shape)).astype(x.dtype) if i in partial else x
                for i, x in enumerate(given)
            ]
            second = [x - a if i in partial else x for i, (x, a) in enumerate(zip(given, first))]
            parts = [reference.run(graph, xs)[0] for xs in (first, second)]
            compare([a + b for a, b in zip(*parts)], expected, f"{node}, partial in {partial}")


def compare(got, expected, what):
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype, what
        finite = np.abs(b[np.isfinite(b)]) if b.dtype.kind == "f" else np.zeros(0)
        tolerance = 1e-6 if a.dtype == "float32" else 1e-11  # sums of few numbers, reordered
        np.testing.assert_allclose(
            a, b, rtol=tolerance, atol=tolerance * (1 + finite.max(initial=0.0)), err_msg=what
        )


def test_layout_names():
    assert str(PARTIAL) == "Partial" and str(Split(1, 4)) == "Split(1 of 4)"
