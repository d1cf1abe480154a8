"""Copies and pickles of models go on training as the model itself does."""

import copy
import pickle

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import layers

X = np.random.default_rng(0).normal(size=(24, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


class Subclassed(uff.Model):
    def __init__(self):
        super().__init__()
        self.first, self.last = layers.Dense(4), layers.Dense(1)

    def call(self, x):
        return self.last(self.first(x))


def stack():
    return uff.Sequential(
        [layers.Input((4,)), layers.Dense(8), layers.Dropout(0.3), layers.Dense(1)]
    )


def nested():
    inner_input, inputs = layers.Input((4,)), layers.Input((4,))
    inner = uff.Model(inner_input, layers.Dense(3)(inner_input))
    return uff.Model(inputs, layers.Dense(1)(inner(inputs) + inner(inputs * 2.0)))


def pickled(model):
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("make", [stack, nested, Subclassed])
@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_copy_trains_as_the_model_does(make, copied):
    model = make()
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(X, Y, verbose=0)
    before = model.predict(X, verbose=0)
    other = copied(model)
    assert all(v.array.ctypes.data % 64 == 0 for v in other.variables if v.array.size)
    histories = other.fit(X, Y, epochs=2, shuffle=False, verbose=0).history
    np.testing.assert_array_equal(model.predict(X, verbose=0), before)
    assert model.fit(X, Y, epochs=2, shuffle=False, verbose=0).history == histories
    for mine, others in zip(model.get_weights(), other.get_weights()):
        np.testing.assert_array_equal(mine, others)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_deep_network_is_no_deep_recursion(copied):
    x = inputs = layers.Input((4,))
    for _ in range(300):
        x = layers.Add()([x, inputs])
    model = copied(uff.Model(inputs, x))
    np.testing.assert_allclose(model(X), X * 301, rtol=1e-4)
