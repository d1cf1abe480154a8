"""Classes of the user's own that are written wrongly are told how to do it."""

import warnings

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import layers


class NoSuper(layers.Layer):
    def __init__(self):
        self.dense = layers.Dense(2)


class NoSuperModel(uff.Model):
    def __init__(self):
        self.dense = layers.Dense(2)


@pytest.mark.parametrize("cls", [NoSuper, NoSuperModel])
def test_a_constructor_without_super(cls):
    with pytest.raises(RuntimeError, match=rf"Class {cls.__name__}: call super.*gets `dense`"):
        cls()


class WeightInCall(layers.Layer):
    def call(self, x):
        return x * self.add_weight(shape=(3,), name="scale")


@pytest.mark.parametrize("x", [np.ones((2, 3)), uff.Input((3,))], ids=["numbers", "symbols"])
def test_a_weight_made_in_call(x):
    with pytest.raises(ValueError, match="Layer 'late': weight 'scale' is made in `call`"):
        WeightInCall(name="late")(x)


class ReturnsNone(layers.Layer):
    def call(self, x):
        x + 1


def test_a_call_that_returns_nothing():
    with pytest.raises(ValueError, match="Layer 'none' of class ReturnsNone: `call` must return"):
        uff.Sequential([layers.Input((3,)), ReturnsNone(name="none")])


@pytest.mark.parametrize("shape", [(-3,), ("a",), (2.5,), (True,)])
def test_sizes_of_an_input(shape):
    with pytest.raises(ValueError, match="InputLayer: sizes must be integers of 0 or more"):
        layers.Input(shape)


def test_attention_uses_masks_without_a_warning():
    inputs = layers.Input((6,), dtype="int32")
    x = layers.Embedding(9, 8, mask_zero=True)(inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = layers.MultiHeadAttention(2, 4)(x, x)
