"""Operations on bfloat16 without a kernel run in float32, between casts."""

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import ops
from uniflexflow._core import NATIVE_BFLOAT16, takes_bfloat16
from uniflexflow.compiler import Function, Traced, optimize
from uniflexflow.ir import verify
from uniflexflow.ops.registry import OPS
from uniflexflow.passes import widen
from uniflexflow.runtime import reference

X = (np.arange(12.0).reshape(3, 4) / 7).astype("bfloat16")


def traced(fn, *arrays):
    return Traced(fn, arrays, "example").graph


def names(graph):
    return [node.op.name for node in graph.compute_nodes]


def widened(fn, *arrays):
    return verify(widen(traced(fn, *arrays), takes_bfloat16))


def test_a_graph_without_bfloat16_is_returned_as_it_is():
    graph = traced(lambda x: ops.exp(x) @ x, np.ones((3, 3), "float32"))
    assert widen(graph, takes_bfloat16) is graph


def test_only_native_operations_work_on_bfloat16():
    def step(x):
        y = ops.relu(ops.transpose(x) @ x)
        return ops.softmax(y), ops.argmax(y, axis=0), ops.max(y), ops.cumsum(x)

    graph = widened(step, X)
    for node in graph.compute_nodes:
        if any(v.dtype == "bfloat16" for v in (*node.inputs, *node.outputs)):
            assert takes_bfloat16(node)
    assert [v.dtype for v in graph.outputs] == ["bfloat16", "int32", "bfloat16", "bfloat16"]


def test_what_is_called_native_is_an_operation_with_a_kernel_for_it():
    assert NATIVE_BFLOAT16 <= set(OPS)
    assert {"cast", "transpose", "slice", "take"} <= NATIVE_BFLOAT16


def test_an_elementwise_run_rounds_once():
    def step(x):
        for _ in range(6):
            x = ops.tanh(x) * 1.5 + 0.25
        return x

    graph = optimize(traced(step, X))
    assert names(graph) == ["chain"]
    casts = [step for step in graph.nodes[-1].attrs["program"] if step[0] == "cast"]
    assert len(casts) == 2  # one at each end
    exact = reference.run(traced(step, X.astype("float64")), [X.astype("float64")])[0][0]
    (got,) = reference.run(graph, [X])[0]
    np.testing.assert_array_equal(got, exact.astype("float32").astype("bfloat16"))


def test_a_value_that_is_stored_between_is_rounded_there_alone():
    def step(x):
        y = ops.exp(x)
        return y, ops.tanh(y)

    (node,) = optimize(traced(step, X)).compute_nodes
    program = [name for name, _, _ in node.attrs["program"]]
    assert program.count("cast") == 3 and program.count("exp") == 1
    y, z = Function(step)(X)
    exact = np.exp(X.astype("float32"))
    np.testing.assert_array_equal(y, exact.astype("bfloat16"))
    np.testing.assert_array_equal(z, np.tanh(exact).astype("bfloat16"))


def test_a_cast_of_the_users_own_rounds():
    x = np.float32([1.001, 3.3333, 1e-3])
    step = Function(lambda x: ops.cast(ops.cast(x * 1.0, "bfloat16"), "float32") * 1.0)
    np.testing.assert_array_equal(step(x), x.astype("bfloat16").astype("float32"))


def test_weights_are_read_unrounded():
    w = uff.Variable(np.float32([1.001, 3.3333, 1e-3]))
    graph = widened(lambda x: ops.cast(w, "bfloat16") * x, np.ones(3, "bfloat16"))
    (product,) = [node for node in graph.compute_nodes if node.op.name == "multiply"]
    assert any(v.is_leaf and v.dtype == "float32" for v in product.inputs)


def test_a_number_for_long_away_is_read_rounded():
    """It takes half the memory, so it is not kept in float32 for a reader far away."""

    def step(x):
        y = z = ops.softmax(x)
        for _ in range(12):
            z = ops.softmax(z)
        return ops.cumsum(y), z

    large = np.ones((300, 40), "bfloat16")
    graph = widened(step, large)
    (last,) = [node for node in graph.compute_nodes if node.op.name == "cumsum"]
    assert last.inputs[0].node.attrs == {"dtype": "float32", "unrounded": True}
    softmaxes = [node for node in graph.compute_nodes if node.op.name == "softmax"]
    assert all(node.inputs[0].node.op.name == "softmax" for node in softmaxes[1:])


def test_gradients_are_bfloat16_and_those_of_weights_float32():
    w = uff.Variable(np.ones((4, 2), "float32"))

    def step(x):
        return uff.gradients(ops.sum(ops.tanh(x @ ops.cast(w, "bfloat16"))), [x, w])

    for graph in (traced(step, X), optimize(traced(step, X))):
        assert [v.dtype for v in graph.outputs] == ["bfloat16", "float32"]


@pytest.mark.parametrize("name", ["add", "maximum", "power", "less"])
def test_mixes_with_other_dtypes(name):
    fn = getattr(ops, name)
    single, whole = np.ones(4, "float32"), np.arange(4, dtype="int32")
    logical = name == "less"
    assert fn(X, 2.5).dtype == ("bool" if logical else "bfloat16")
    assert fn(X, whole).dtype == ("bool" if logical else "bfloat16")
    assert fn(X, single).dtype == ("bool" if logical else "float32")
    assert fn(X, single.astype("float64")).dtype == ("bool" if logical else "float64")
