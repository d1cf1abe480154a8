"""Broadcasting, slicing, reshaping and reducing of random shapes, against NumPy."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import uniflexflow as uff
from uniflexflow import ops
from uniflexflow.compiler import Traced
from uniflexflow.runtime import reference

settings.register_profile("rows", max_examples=60, deadline=None, derandomize=True)
settings.load_profile("rows")


def run(fn, *arrays):
    """Run by the references; the executor has the rows of the tables."""
    graph = Traced(fn, arrays, "property").graph
    return reference.run(uff.ir.verify(graph), arrays)[0]


def numbered(shape):
    return np.arange(np.prod(shape, dtype=int), dtype="float64").reshape(shape) + 1


shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@given(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=4, max_side=4, min_side=0))
def test_broadcasting_and_its_gradient(drawn):
    a, b, c = (numbered(s) for s in drawn.input_shapes)
    got = run(lambda a, b, c: ops.where(a > 2, a + b, c), a, b, c)[0]
    np.testing.assert_array_equal(got, np.where(a > 2, a + b, c))

    grads = run(lambda a, b: uff.gradients(ops.sum(a * b), [a, b]), a, b)
    both = np.broadcast_shapes(a.shape, b.shape)
    for g, x, other in zip(grads, (a, b), (b, a)):
        spread = np.broadcast_to(other, both)
        extra = len(both) - x.ndim
        axes = tuple(range(extra)) + tuple(
            i + extra for i, n in enumerate(x.shape) if n == 1 and both[i + extra] != 1
        )
        np.testing.assert_allclose(g, spread.sum(axes).reshape(x.shape))


@given(st.data())
def test_indexing_and_its_gradient(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=5))
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    x = numbered(shape)
    expected = x[key]
    np.testing.assert_array_equal(run(lambda x: x[key], x)[0], expected)
    weights = numbered(np.shape(expected))
    (g,) = run(lambda x, w: uff.gradients(ops.sum(x[key] * w), [x]), x, weights)
    scattered = np.zeros(shape)
    scattered[key] = weights
    np.testing.assert_array_equal(g, scattered)


@given(st.data())
def test_reshape(data):
    x = numbered(data.draw(shapes))
    n, target = x.size, []
    while n > 1:
        divisor = data.draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))
        target.append(divisor)
        n //= divisor
    target = target if x.size else list(x.shape)
    if target and x.size and data.draw(st.booleans()):
        target[data.draw(st.integers(0, len(target) - 1))] = -1
    expected = x.reshape(target)
    np.testing.assert_array_equal(run(lambda x: ops.reshape(x, target), x)[0], expected)


@given(st.data())
def test_reductions(data):
    x = numbered(data.draw(shapes))
    axes = data.draw(st.none() | hnp.valid_tuple_axes(x.ndim))
    keep = data.draw(st.booleans())
    got = run(lambda x: ops.sum(x, axis=axes, keepdims=keep), x)[0]
    np.testing.assert_allclose(got, np.sum(x, axis=axes, keepdims=keep))
    some = range(x.ndim) if axes is None else [a % x.ndim for a in axes]
    if all(x.shape[a] for a in some):
        got = run(lambda x: ops.max(x, axis=axes, keepdims=keep), x)[0]
        np.testing.assert_array_equal(got, np.max(x, axis=axes, keepdims=keep))


@given(st.data())
def test_transpose_and_pad(data):
    x = numbered(data.draw(shapes))
    order = data.draw(st.permutations(range(x.ndim)))
    widths = data.draw(
        st.lists(st.tuples(*[st.integers(0, 3)] * 2), min_size=x.ndim, max_size=x.ndim)
    )
    got = run(lambda x: ops.transpose(x, order), x)[0]
    np.testing.assert_array_equal(got, np.transpose(x, order))
    if x.ndim:
        got = run(lambda x: ops.pad(x, widths, constant_values=9), x)[0]
        np.testing.assert_array_equal(got, np.pad(x, widths, constant_values=9))


@given(st.data())
def test_take(data):
    x = numbered(data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    n = x.shape[axis]
    indices = data.draw(hnp.arrays("int32", shapes, elements=st.integers(-n, n - 1)))
    got = run(lambda x, i: ops.take(x, i, axis=axis), x, indices)[0]
    np.testing.assert_array_equal(got, np.take(x, indices, axis=axis))


@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3))
def test_matmul_of_stacks(drawn):
    a, b = (numbered((*s, *m)) for s, m in zip(drawn.input_shapes, [(2, 3), (3, 4)]))
    np.testing.assert_allclose(run(ops.matmul, a, b)[0], np.matmul(a, b))


def test_a_number_that_is_no_class_has_no_crossentropy():
    targets, p = np.array([-1, 3, -4, 0]), np.tile([0.2, 0.3, 0.5], (4, 1))
    for from_logits in (False, True):
        loss = ops.sparse_categorical_crossentropy(targets, p, from_logits=from_logits)
        assert np.isnan(loss).tolist() == [True, True, True, False]
