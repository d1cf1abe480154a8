"""Normalization: moving statistics, frozen layers, masks, adapt."""

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import layers


def test_moving_statistics_follow_the_batch(rng):
    x = rng.normal(3, 2, size=(50, 4)).astype("float32")
    layer = layers.BatchNormalization(momentum=0.9)
    y = layer(x, training=True)
    np.testing.assert_allclose(y.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(y.var(0), 1, rtol=1e-3)
    np.testing.assert_allclose(layer.moving_mean.numpy(), 0.1 * x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(layer.moving_variance.numpy(), 0.9 + 0.1 * x.var(0), rtol=1e-5)
    before = layer.moving_mean.numpy()
    layer(x)
    np.testing.assert_array_equal(layer.moving_mean.numpy(), before)


def test_not_trainable_means_inference(rng):
    x = rng.normal(3, 2, size=(5, 4)).astype("float32")
    layer = layers.BatchNormalization()
    layer(x, training=True)
    layer.trainable = False
    before = layer.get_weights()
    np.testing.assert_array_equal(layer(x, training=True), layer(x))
    for a, b in zip(layer.get_weights(), before):
        np.testing.assert_array_equal(a, b)
    layer.trainable = True
    layer(x, training=True)
    assert not np.array_equal(layer.moving_mean.numpy(), before[2])


def test_drawing_a_model_changes_no_statistics():
    layer = layers.BatchNormalization()
    layer(uff.Input((4,)), training=True)
    np.testing.assert_array_equal(layer.moving_mean.numpy(), 0)


def test_masked_batch_normalization(rng):
    x = rng.normal(size=(3, 4, 2)).astype("float32")
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]], bool)
    layer = layers.BatchNormalization(momentum=0.0)
    layer(x, training=True, mask=mask)
    np.testing.assert_allclose(layer.moving_mean.numpy(), x[mask].mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.moving_variance.numpy(), x[mask].var(0), rtol=1e-4)


def test_axis_that_does_not_exist():
    with pytest.raises(ValueError, match="axis=3"):
        layers.BatchNormalization(axis=3)(np.ones((2, 3), "float32"))
    with pytest.raises(ValueError, match="multiple of groups=2"):
        layers.GroupNormalization(2)(np.ones((2, 3), "float32"))


@pytest.mark.parametrize("axis", [-1, None, (1, 2)])
def test_adapt(axis, rng):
    x = rng.normal(5, 3, size=(20, 4, 3))
    layer = layers.Normalization(axis=axis)
    layer.adapt([x[:7], x[7:]])
    kept = () if axis is None else ((2,) if axis == -1 else axis)
    others = tuple(i for i in range(3) if i not in kept)
    mean, std = x.mean(others, keepdims=True), x.std(others, keepdims=True)
    np.testing.assert_allclose(layer(x), (x - mean) / std, rtol=1e-4, atol=1e-5)
    inverse = layers.Normalization(axis=axis, invert=True)
    inverse.adapt(x)
    np.testing.assert_allclose(inverse((x - mean) / std), x, rtol=1e-4, atol=1e-4)
    copy = layers.Normalization(axis=axis)
    copy.build(x.shape)
    copy.set_weights(layer.get_weights())
    np.testing.assert_array_equal(copy(x), layer(x))


def test_rescaling_of_bytes():
    x = np.array([[0, 255]], "uint8")
    np.testing.assert_allclose(layers.Rescaling(1 / 127.5, -1)(x), [[-1, 1]])
