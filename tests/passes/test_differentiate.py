"""What ``gradients`` gives besides the derivative of each operation."""

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import ir, ops
from uniflexflow.compiler import Function
from uniflexflow.ir import leaf
from uniflexflow.ops.variable import Trace, Variable


def symbols(*shapes, dtype="float64"):
    return [leaf(shape, dtype, f"x{i}") for i, shape in enumerate(shapes)]


def test_an_unused_source_has_none():
    x, y = symbols((2,), (3,))
    grads = uff.gradients(ops.sum(x), [y, x])
    assert grads[0] is None
    assert grads[1].shape == (2,)


def test_a_way_through_stop_gradient_or_an_integer_is_none():
    (x,) = symbols((2,))
    assert uff.gradients(ops.sum(ops.stop_gradient(x)), [x]) == [None]
    assert uff.gradients(ops.sum(ops.cast(ops.cast(x, "int32"), "float64")), [x]) == [None]
    assert uff.gradients(ops.sum(ops.floor(x)), [x]) == [None]


def test_uses_add_up():
    run = Function(lambda x: uff.gradients(ops.sum(x * x + ops.exp(x) + x), [x])[0])
    x = np.array([0.5, -1.0])
    np.testing.assert_allclose(run(x), 2 * x + np.exp(x) + 1)


def test_the_target_itself_and_results_on_the_way():
    def steps(x):
        y = x * 3
        z = ops.sum(y * y)
        return uff.gradients(z, [z, y, x])

    dz, dy, dx = Function(steps)(np.array([1.0, 2.0]))
    assert dz == 1
    np.testing.assert_allclose(dy, [6, 12])
    np.testing.assert_allclose(dx, [18, 36])


def test_grad_target_weights_a_target_with_axes():
    run = Function(lambda x, w: uff.gradients(x * x, [x], grad_target=w)[0])
    x, w = np.array([1.0, 2.0]), np.array([10.0, 100.0])
    np.testing.assert_allclose(run(x, w), 2 * x * w)


def test_variables_are_sources():
    v = Variable(np.array([1.0, 2.0]))
    unused = Variable(np.array([1.0]))

    def loss_and_grads(x):
        return uff.gradients(ops.sum(x * v * v), [v, unused])

    grads = Function(loss_and_grads)(np.array([3.0, 4.0]))
    np.testing.assert_allclose(grads[0], [6, 16])
    assert grads[1] is None


def test_third_derivative():
    def third(x):
        y = ops.sum(x**4)
        for _ in range(3):
            (y,) = uff.gradients(ops.sum(y), [x])
        return y

    np.testing.assert_allclose(Function(third)(np.array([2.0, -1.0])), [48, -24])


def test_the_target_must_be_a_float():
    with Trace():
        (x,) = symbols((2,), dtype="int32")
        with pytest.raises(ValueError, match="target must be a float tensor; received int32"):
            uff.gradients(ops.sum(x), [x])


def test_an_operation_without_gradient_is_named_with_its_layer():
    no_gradient = ir.OpDef("opaque", infer=lambda x: x, reference=lambda x: x, gradient=None)
    (x,) = symbols((2,))
    with ir.scope("model"), ir.scope("layer"):
        y = ir.apply(no_gradient, x)
    with pytest.raises(ValueError, match="'opaque' in layer 'model/layer' has no gradient"):
        uff.gradients(ops.sum(y), [x])
    assert uff.gradients(ops.sum(ops.stop_gradient(y)) + ops.sum(x), [x])[0] is not None


def test_gradients_have_the_layer_of_their_operation():
    (x,) = symbols((2,))
    with ir.scope("dense"):
        y = ops.exp(x)
    (g,) = uff.gradients(ops.sum(y), [x])
    assert g.node.scope == "dense"
