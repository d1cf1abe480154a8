"""Initializers, regularizers, constraints and activations by their definitions."""

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import activations, constraints, initializers, regularizers

SHAPE = (200, 100)


@pytest.mark.parametrize(
    ("name", "std", "bound"),
    [
        ("glorot_uniform", (2 / 300) ** 0.5, (6 / 300) ** 0.5),
        ("glorot_normal", (2 / 300) ** 0.5, 2 * (2 / 300) ** 0.5 / 0.8796),
        ("he_uniform", (2 / 200) ** 0.5, (6 / 200) ** 0.5),
        ("he_normal", (2 / 200) ** 0.5, 2 * (2 / 200) ** 0.5 / 0.8796),
        ("lecun_uniform", (1 / 200) ** 0.5, (3 / 200) ** 0.5),
        ("lecun_normal", (1 / 200) ** 0.5, 2 * (1 / 200) ** 0.5 / 0.8796),
        ("uniform", 0.05 / 3**0.5, 0.05),
        ("normal", 0.05, np.inf),
        ("truncated_normal", 0.05 * 0.8796, 0.1),
    ],
)
def test_spread(name, std, bound):
    uff.random.set_random_seed(3)
    x = initializers.get(name)(SHAPE, "float64")
    assert x.std() == pytest.approx(std, rel=0.03)  # 20,000 draws: 0.5 % is one deviation
    assert abs(x.mean()) < 5 * std / 141
    assert np.abs(x).max() <= bound
    assert np.unique(x).size > 19_000


def test_seeds():
    seeded, free = initializers.HeNormal(seed=4), initializers.HeNormal()
    np.testing.assert_array_equal(seeded((3, 3)), seeded((3, 3)))
    assert not np.array_equal(free((3, 3)), free((3, 3)))
    uff.random.set_random_seed(1)
    first = free((3, 3))
    uff.random.set_random_seed(1)
    np.testing.assert_array_equal(free((3, 3)), first)


def test_orthogonal_and_identity():
    for shape in ((5, 3), (3, 5)):
        x = initializers.Orthogonal(gain=2.0, seed=1)(shape, "float64")
        small = x.T @ x if shape[0] > shape[1] else x @ x.T
        np.testing.assert_allclose(small, 4 * np.eye(3), atol=1e-12)
    np.testing.assert_array_equal(initializers.get("identity")((2, 2)), np.eye(2))
    np.testing.assert_array_equal(initializers.Constant([1, 2])((3, 2)), [[1, 2]] * 3)


def test_regularizers_and_constraints():
    w = np.array([[3.0, -1.0], [4.0, 0.0]])
    assert regularizers.L1L2(0.5, 0.25)(w) == pytest.approx(0.5 * 8 + 0.25 * 26)
    assert regularizers.get("l2")(w) == pytest.approx(0.26)
    assert regularizers.get("l1")(w) == pytest.approx(0.08)
    np.testing.assert_allclose(constraints.MaxNorm(2)(w), [[1.2, -1.0], [1.6, 0]], rtol=1e-6)
    np.testing.assert_allclose(constraints.UnitNorm()(w), [[0.6, -1.0], [0.8, 0]], rtol=1e-6)
    np.testing.assert_array_equal(constraints.get("non_neg")(w), np.maximum(w, 0))
    np.testing.assert_allclose(
        constraints.MinMaxNorm(2, 4, rate=0.5)(w), w * [[0.9, 1.5]], rtol=1e-6
    )


def test_unknown_names():
    for room in (activations, initializers, regularizers, constraints):
        with pytest.raises(ValueError, match="nonsense"):
            room.get("nonsense")
        with pytest.raises(ValueError, match="interpret"):
            room.get(3.5)


@pytest.mark.parametrize("name", sorted(activations.ALL))
def test_activations_keep_shape_and_have_gradients(name, rng):
    x = rng.normal(size=(3, 4)) * 2
    fn = activations.get(name)
    y = fn(x)
    assert y.shape == ((3, 2) if name == "glu" else (3, 4))
    assert np.isfinite(y).all()
    assert activations.serialize(fn) == name
