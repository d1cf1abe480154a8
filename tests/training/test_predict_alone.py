"""predict of one array that is one batch: the short way gives what the long way gives."""

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import layers
from uniflexflow.training import loop


@pytest.fixture
def model():
    made = uff.Sequential([uff.Input((4,)), layers.Dense(6, activation="relu"), layers.Dense(2)])
    made.compile("sgd", "mse")
    return made


@pytest.fixture
def short(monkeypatch):
    """Return a list that notes for each prediction whether it went the short way."""
    taken = []
    at_once = loop.predict_alone

    def predict_alone(*args):
        result = at_once(*args)
        taken.append(result[0])
        return result

    monkeypatch.setattr(loop, "predict_alone", predict_alone)
    return taken


def long_way(model, x):
    return model.predict(x, verbose=0, callbacks=[uff.callbacks.Callback()])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int16", ">f4"])
def test_both_ways_are_one(model, short, rng, dtype):
    x = (10 * rng.normal(size=(3, 4))).astype(dtype)
    expected = long_way(model, x)
    for _ in range(3):
        got = model.predict(x, verbose=0)
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == expected.dtype
    assert short == [False, True, True]


def test_rows_with_gaps(model, short, rng):
    x = rng.normal(size=(6, 8)).astype("float32")[::2, ::2]
    for _ in range(2):
        np.testing.assert_array_equal(model.predict(x, verbose=0), long_way(model, x.copy()))
    assert short == [False, True]


def test_outputs_are_the_callers_own(model, short, rng):
    x, y = rng.normal(size=(2, 1, 4)).astype("float32")
    first = [model.predict(v, verbose=0) for v in (x, x, x)][-1]
    kept = first.copy()
    model.predict(y, verbose=0)
    np.testing.assert_array_equal(first, kept)
    assert short[-1]


def test_on_batch_takes_it_too(model, short, rng):
    x = rng.normal(size=(50, 4)).astype("float32")
    for _ in range(2):
        np.testing.assert_array_equal(model.predict_on_batch(x), long_way(model, x)[:50])
    assert short == [False, True]


def test_training_shows(model, short, rng):
    x = rng.normal(size=(4, 4)).astype("float32")
    before = [model.predict(x, verbose=0) for _ in range(2)][-1]
    model.fit(x, np.ones((4, 2), "float32"), verbose=0)
    after = model.predict(x, verbose=0)
    assert short[-1] and not (before == after).any()
    np.testing.assert_array_equal(after, long_way(model, x))


def test_a_layer_that_is_replaced_shows(short, rng):
    class Blocks(uff.Model):
        def __init__(self):
            super().__init__()
            self.blocks = [layers.Dense(3)]

        def call(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    model = Blocks()
    x = rng.normal(size=(2, 3)).astype("float32")
    before = [model.predict(x, verbose=0) for _ in range(2)][-1]
    model.blocks[0] = layers.Dense(3, kernel_initializer="zeros")
    after = model.predict(x, verbose=0)
    assert short == [False, True, False]
    assert before.any() and not after.any()
    model.predict(x, verbose=0)
    assert short[-1]


def test_what_is_more_than_one_batch_goes_the_long_way(model, short, rng):
    x = rng.normal(size=(40, 4)).astype("float32")
    for options in ({}, {"batch_size": 39}, {"batch_size": 40, "steps": 1}):
        model.predict(x, verbose=0, **options)
    model.predict([x], verbose=0, batch_size=40)
    assert short == []


def test_a_new_predict_step_counts(model, short, rng):
    x = rng.normal(size=(2, 4)).astype("float32")
    before = [model.predict(x, verbose=0) for _ in range(2)][-1]
    model.predict_step = lambda data: model(data) + 1.0
    model.make_predict_function(force=True)
    np.testing.assert_allclose(model.predict(x, verbose=0), before + 1.0, rtol=1e-6)


def test_wrong_shapes_are_told(model, rng):
    x = rng.normal(size=(2, 4)).astype("float32")
    for _ in range(2):
        model.predict(x, verbose=0)
    with pytest.raises(ValueError, match="incompatible"):
        model.predict(x[:, :3], verbose=0)
    with pytest.raises(ValueError, match="no samples"):
        model.predict(x[:0], verbose=0)


def test_steps_of_every_shape_are_forgotten_when_layers_change(model, short, rng):
    a, b = rng.normal(size=(4, 4)).astype("float32"), rng.normal(size=(8, 4)).astype("float32")
    for x in (a, a, b, b):
        model.predict(x, verbose=0)
    assert short[-1]
    model.add(layers.Dense(1))
    assert model.predict(a, verbose=0).shape == (4, 1)
    assert model.predict(b, verbose=0).shape == (8, 1)
    assert model.predict_on_batch(b).shape == (8, 1)
