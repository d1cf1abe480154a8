"""A Sequential model takes its input in the forms in which Keras takes it, and no other."""

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import layers

X = np.random.default_rng(0).normal(size=(5, 8)).astype("float32")


def stack(shape, *rest, **options):
    model = uff.Sequential([layers.Input(shape, **options), *rest])
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize("given", [[X], {"a": X}, X[..., None]], ids=["list", "dict", "axis"])
def test_forms_of_one_input(given):
    model = stack((8,), layers.Dense(2), name="a")
    expected = model.predict(X, verbose=0)
    np.testing.assert_array_equal(model.predict(given, verbose=0), expected)
    np.testing.assert_array_equal(model(given), model(X))


def test_a_list_of_one_input_builds_a_model():
    assert uff.Sequential([layers.Dense(2)])([X]).shape == (5, 2)


def test_a_missing_last_axis_of_one_is_added():
    column = stack((1,), layers.Dense(2))
    assert column.predict(np.arange(3.0), verbose=0).shape == (3, 2)
    assert "loss" in column.fit(np.arange(3.0), np.ones((3, 2)), verbose=0).history
    images = stack((8, 8, 1), layers.Conv2D(2, 3))
    assert images.predict(np.ones((2, 8, 8)), verbose=0).shape == (2, 6, 6, 2)


def test_the_input_has_the_dtype_of_its_placeholder():
    model = stack((8,), layers.Rescaling(1.0), dtype="int32")
    np.testing.assert_array_equal(model(np.full((1, 8), 2.7)), np.full((1, 8), 2.0))


def test_masks_come_through():
    steps = stack((None, 3), layers.LSTM(4))
    inputs = uff.Input((None, 3))
    model = uff.Model(inputs, steps(layers.Masking()(inputs)))
    x = np.random.default_rng(1).normal(size=(2, 6, 3)).astype("float32")
    x[:, 4:] = 0
    np.testing.assert_allclose(model(x), steps(x[:, :4]), rtol=1e-6)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"b": X}, "Missing data for input 'a' of model 'stack'"),
        ([X, X], "Model 'stack' expects 1 input"),
        (np.ones((2, 8, 8)), r"model 'stack'.*expected shape=\(None, 8\), found shape=\(2, 8, 8\)"),
        (np.ones((2, 7)), r"Input 0 of layer 'head' is incompatible.*received.*\(2, 7\)"),
    ],
)
def test_other_inputs_are_refused_by_name(given, message):
    model = uff.Sequential(
        [layers.Input((8,), name="a"), layers.Dense(2, name="head")], name="stack"
    )
    with pytest.raises(ValueError, match=message):
        model.predict(given, verbose=0)
