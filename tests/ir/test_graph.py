"""Nodes, scopes, rewriting and the printed form."""

import numpy as np
import pytest

from uniflexflow import ir, ops
from uniflexflow.ir import Graph, Node, TensorSpec, apply, constant, leaf, rewrite, to_text, verify
from uniflexflow.ops.registry import OPS


def test_only_needed_nodes_are_in_a_graph():
    x = leaf((2,), "float32", "x")
    wanted, _ = ops.exp(x), ops.log(x)
    graph = Graph(inputs=(x,), outputs=(wanted,))
    assert [n.op.name for n in graph.nodes] == ["input", "exp"]
    assert [n.op.name for n in graph.compute_nodes] == ["exp"]


def test_text():
    x = leaf((2, 3), "float32", "x")
    w = leaf((3,), "float32", "w", kind="variable")
    with ir.scope("model"), ir.scope("dense"):
        y = ops.sum(x * w, axis=1)
    graph = Graph(inputs=(x, w), outputs=(y,), updates=((w, w + 1),))
    assert to_text(graph) == "\n".join(
        [
            "%0: float32[2, 3] = feed 'x'",
            "%1: float32[3] = variable 'w'",
            "%2: float32[2, 3] = multiply(%0, %1)  # model/dense",
            "%3: float32[2] = sum(%2) {axes=(1,)}  # model/dense",
            "%4: float32[] = constant 1.0",
            "%5: float32[3] = add(%1, %4)",
            "return %3",
            "update %1 <- %5",
        ]
    )


def test_values_are_no_numbers():
    x = leaf((2,), "float32", "x")
    with pytest.raises(TypeError, match="has no numbers until the step runs"):
        np.asarray(x)
    with pytest.raises(TypeError, match="truth of .* is not known while a step is being traced"):
        bool(x > 0)
    with pytest.raises(TypeError):
        iter(x)
    assert len(x) == 2
    with pytest.raises(TypeError, match="has no axes"):
        len(ops.sum(x))


def test_operators_stand_on_either_side():
    x = leaf((2,), "float32", "x")
    for value, name in [(1 - x, "subtract"), (np.ones(2, "float32") * x, "multiply")]:
        assert value.node.op.name == name
        assert value.shape == (2,)


def test_constants_are_frozen():
    array = np.zeros(3)
    value = constant(array)
    array[0] = 7
    np.testing.assert_array_equal(value.node.attrs["array"], [0, 0, 0])
    with pytest.raises(ValueError, match="read-only"):
        value.node.attrs["array"][0] = 1


def test_rewrite_replaces_and_rebuilds_what_follows():
    x = leaf((2,), "float32", "x")
    with ir.scope("layer"):
        y = ops.exp(ops.negative(x))
    z = ops.log(x)
    graph = Graph(inputs=(x,), outputs=(y, z))

    def positive(node, inputs):
        return inputs[0] if node.op.name == "negative" else None

    new = rewrite(graph, positive)
    assert [n.op.name for n in new.nodes] == ["input", "log", "exp"]
    assert new.outputs[0].node.scope == "layer"
    assert new.outputs[1] is z  # untouched nodes are kept
    assert rewrite(graph, lambda node, inputs: None).nodes == graph.nodes


def test_over_infers_where_specs_change():
    x, y = leaf((2, 3), "float32", "x"), leaf((3,), "float32", "y")
    node = ops.add(x, y).node
    assert node.over((y, y)).outputs[0].shape == (3,)
    same = node.over((leaf((2, 3), "float32", "z"), y))
    assert same.outputs[0].spec == node.outputs[0].spec
    assert same.id > node.id


def test_several_outputs():
    def infer(x):
        return x, TensorSpec((), "int32")

    pair = ir.OpDef("pair", infer=infer, reference=lambda x: (x, np.int32(1)), gradient=None)
    first, second = apply(pair, leaf((2,), "float32", "x"))
    assert (first.index, second.index) == (0, 1)
    assert second.spec == TensorSpec((), "int32")
    assert verify(Graph(inputs=(first.node.inputs[0],), outputs=(second,)))


def test_scopes_nest_and_end():
    with ir.scope("a"):
        with ir.scope("b"):
            assert ir.current_scope() == "a/b"
        assert ir.current_scope() == "a"
    assert ir.current_scope() == ""


def test_shape_errors_come_when_a_node_is_made():
    with pytest.raises(ValueError, match="add: shapes"):
        Node(OPS["add"], (leaf((2,), "float32", "a"), leaf((3,), "float32", "b")), {})
