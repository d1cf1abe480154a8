"""Tensors made of nothing, and conversions, against NumPy."""

import numpy as np
import pytest

from uniflexflow import KerasTensor, ops
from uniflexflow.compiler import Function
from uniflexflow.ir import Value
from uniflexflow.ops.variable import Variable

MADE = {
    "zeros": (lambda: ops.zeros((2, 3)), np.zeros((2, 3), "float32")),
    "zeros int": (lambda: ops.zeros(3, "int32"), np.zeros(3, "int32")),
    "ones": (lambda: ops.ones((2,), "float64"), np.ones(2)),
    "full": (lambda: ops.full((2, 2), 7), np.full((2, 2), 7)),
    "full float": (lambda: ops.full((2,), 1.5), np.full(2, 1.5, "float32")),
    "arange": (lambda: ops.arange(4), np.arange(4, dtype="int32")),
    "arange float": (lambda: ops.arange(0.0, 1.0, 0.25), np.arange(0, 1, 0.25).astype("float32")),
    "arange back": (lambda: ops.arange(5, 0, -2), np.array([5, 3, 1], "int32")),
    "linspace": (lambda: ops.linspace(0, 1, 5), np.linspace(0, 1, 5).astype("float32")),
    "eye": (lambda: ops.eye(2, 3, 1), np.eye(2, 3, 1, dtype="float32")),
    "identity": (lambda: ops.identity(3, "int32"), np.identity(3, "int32")),
    "tri": (lambda: ops.tri(3, 4, -1), np.tri(3, 4, -1, dtype="float32")),
    "empty": (lambda: ops.zeros((0, 3)), np.zeros((0, 3), "float32")),
}


@pytest.mark.parametrize("name", MADE)
def test_made(name):
    make, expected = MADE[name]
    for got in (make(), Function(make)()):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def test_convert_to_tensor():
    array = np.arange(3.0)
    assert ops.convert_to_tensor(array) is array
    assert ops.convert_to_tensor(array, "float32").dtype == "float32"
    assert ops.convert_to_tensor([1, 2]).dtype == "int64"
    np.testing.assert_array_equal(ops.convert_to_tensor(Variable(array)), array)
    run = Function(lambda x: ops.convert_to_tensor(x, "float64") + ops.convert_to_tensor(2))
    assert run(np.ones(2, "float32")).dtype == "float64"
    symbol = KerasTensor((None, 3))
    assert ops.convert_to_tensor(symbol) is symbol
    assert ops.convert_to_tensor(symbol, "float64").dtype == "float64"


def test_convert_to_numpy():
    np.testing.assert_array_equal(ops.convert_to_numpy([1, 2]), [1, 2])
    assert isinstance(ops.convert_to_numpy(Variable([1.0])), np.ndarray)
    with pytest.raises(TypeError, match="has no numbers until the step runs"):
        Function(lambda x: ops.convert_to_numpy(x))(np.ones(2))


def test_what_is_known_of_a_shape():
    symbol = KerasTensor((None, 3))
    assert ops.shape(symbol) == (None, 3)
    assert ops.size(symbol) is None
    assert ops.ndim(symbol) == 2
    assert ops.shape([[1, 2]]) == (1, 2)
    assert ops.size(np.zeros((2, 3))) == 6


def test_is_tensor():
    assert ops.is_tensor(np.zeros(2)) and ops.is_tensor(KerasTensor((2,)))
    assert not ops.is_tensor([1.0]) and not ops.is_tensor(2)
    seen = []
    Function(lambda x: seen.append((ops.is_tensor(x), isinstance(x, Value))) or x)(np.ones(2))
    assert seen == [(True, True)]


def test_placeholders_keep_unknown_sizes():
    x = KerasTensor((None, 4, 3))
    assert ops.softmax(x).shape == (None, 4, 3)
    assert ops.sum(x, axis=0).shape == (4, 3)
    assert ops.reshape(x, (-1, 12)).shape == (None, 12)
    assert ops.einsum("btd,dk->btk", x, np.ones((3, 5), "float32")).shape == (None, 4, 5)
    assert (x[:, 0] + 1).shape == (None, 3)
    assert ops.concatenate([x, x], axis=-1).shape == (None, 4, 6)
    assert [y.shape for y in ops.split(x, 2, axis=1)] == [(None, 2, 3)] * 2
    assert ops.one_hot(ops.argmax(x, axis=-1), 3).shape == (None, 4, 3)
    with pytest.raises(ValueError, match="add: shapes"):
        x + np.ones((4, 5), "float32")
