"""The verifier rejects each kind of broken graph, and says what is wrong."""

import pytest

from uniflexflow import ops
from uniflexflow.ir import Graph, TensorSpec, Value, constant, leaf, verify
from uniflexflow.ir.verify import GraphError


def x(name="x", shape=(2,), dtype="float32", kind="feed"):
    return leaf(shape, dtype, name, kind)


def test_a_good_graph_passes():
    a, w = x(), x("w", kind="variable")
    graph = Graph(inputs=(a, w), outputs=(a * w, a), updates=((w, w + a),))
    assert verify(graph) is graph


def missing_input():
    a = x("a")
    return Graph(inputs=(), outputs=(ops.exp(a),))


def use_before_made():
    a = x("a")
    late = ops.exp(a)
    early = ops.exp(a)
    late.node.inputs = (early,)  # made later: the numbers are no order any more
    return Graph(inputs=(a,), outputs=(late,))


def wrong_spec():
    a = x("a")
    y = ops.exp(a)
    y.spec = TensorSpec((3,), "float32")
    return Graph(inputs=(a,), outputs=(y,))


def wrong_dtype():
    a = x("a")
    y = ops.exp(a)
    y.spec = TensorSpec((2,), "float64")
    return Graph(inputs=(a,), outputs=(y,))


def update_of_a_feed():
    a = x("a")
    return Graph(inputs=(a,), outputs=(), updates=((a, ops.exp(a)),))


def update_of_a_result():
    a = x("a")
    y = ops.exp(a)
    return Graph(inputs=(a,), outputs=(), updates=((y, ops.exp(y)),))


def two_updates():
    w = x("w", kind="variable")
    return Graph(inputs=(w,), outputs=(), updates=((w, w + 1), (w, w + 2)))


def update_of_another_shape():
    w = x("w", kind="variable")
    return Graph(inputs=(w,), outputs=(), updates=((w, ops.sum(w)),))


def update_of_another_dtype():
    w = x("w", kind="variable")
    return Graph(inputs=(w,), outputs=(), updates=((w, ops.cast(w, "float64")),))


def input_that_is_no_leaf():
    a = x("a")
    y = ops.exp(a)
    return Graph(inputs=(a, y), outputs=(y,))


def a_foreign_output():
    a = x("a")
    y = ops.exp(a)
    return Graph(inputs=(a,), outputs=(Value(y.node, 0, y.spec),))


BROKEN = {
    missing_input: "Leaf 'a' is used but is not an input of the graph",
    use_before_made: "before it is made",
    wrong_spec: r"outputs are .*\(3,\).*, the operation infers .*\(2,\)",
    wrong_dtype: "outputs are .*float64.*, the operation infers .*float32",
    update_of_a_feed: "is updated but is not a variable",
    update_of_a_result: "is updated but is not a variable",
    two_updates: "Variable 'w' is updated twice",
    update_of_another_shape: r"Variable 'w' is float32\[2\], its update is float32\[\]",
    update_of_another_dtype: r"Variable 'w' is float32\[2\], its update is float64\[2\]",
    input_that_is_no_leaf: "is not a leaf",
    a_foreign_output: "is not made",
}


@pytest.mark.parametrize("make", BROKEN, ids=lambda make: make.__name__)
def test_broken(make):
    with pytest.raises(GraphError, match=BROKEN[make]):
        verify(make())


def test_the_message_shows_the_graph():
    with pytest.raises(GraphError, match=r"%0: float32\[2\] = variable 'w'"):
        verify(two_updates())


def test_an_unused_variable_may_keep_its_value():
    w = x("w", kind="variable")
    assert verify(Graph(inputs=(w,), outputs=(constant(1.0),), updates=((w, w),)))
