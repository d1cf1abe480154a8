"""Seeds and distributions of ``uniflexflow.random``."""

import random as python_random

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import ops, random
from uniflexflow.compiler import Function


def test_a_generator_gives_each_draw_its_own_key():
    generator = random.SeedGenerator(5)
    draws = [random.uniform((4,), seed=generator) for _ in range(3)]
    assert len({d.tobytes() for d in draws}) == 3
    np.testing.assert_array_equal(generator.state.numpy(), [5, 3])


def test_a_compiled_step_advances_the_state():
    generator = random.SeedGenerator(5)
    step = Function(
        lambda x: (
            x + random.uniform((4,), seed=generator) * 0 + random.uniform((4,), seed=generator)
        )
    )
    first, second = step(np.zeros(4, "float32")), step(np.zeros(4, "float32"))
    np.testing.assert_array_equal(generator.state.numpy(), [5, 4])
    eager = random.SeedGenerator(5)
    draws = [random.uniform((4,), seed=eager) for _ in range(4)]
    np.testing.assert_array_equal(first, draws[1])
    np.testing.assert_array_equal(second, draws[3])


def test_an_int_seed_gives_the_same_numbers():
    np.testing.assert_array_equal(random.normal((5,), seed=3), random.normal((5,), seed=3))
    assert (random.normal((5,), seed=3) != random.normal((5,), seed=4)).all()


def test_set_random_seed_starts_everything_anew():
    def numbers():
        return (
            python_random.random(),
            np.random.rand(),
            random.make_seed(),
            random.SeedGenerator().seed,
            float(random.uniform(())),
        )

    random.global_seed_generator()
    random.set_random_seed(11)
    first = numbers()
    assert numbers() != first
    random.set_random_seed(11)
    assert numbers() == first


def test_unseeded_draws_differ():
    assert (random.uniform((8,)) != random.uniform((8,))).all()


def test_seed_errors():
    with pytest.raises(TypeError, match="`seed` must be None, an int, a SeedGenerator"):
        random.uniform((2,), seed="one")
    with pytest.raises(TypeError, match="SeedGenerator: `seed` must be an integer"):
        random.SeedGenerator(1.5)
    with pytest.raises(ValueError, match="0 <= seed < 2"):
        random.set_random_seed(-1)


def test_config_round_trip():
    generator = random.SeedGenerator(9, name="dropout_seed")
    again = random.SeedGenerator.from_config(generator.get_config())
    assert (again.seed, again.name) == (9, "dropout_seed")


def moments(x):
    return [float(np.mean(x**k)) for k in (1, 2, 3, 4)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_has_the_moments_of_a_normal(dtype):
    z = random.normal((200_000,), dtype=dtype, seed=1)
    assert z.dtype == dtype
    # standard errors of the moments: 0.0022, 0.0032, 0.0087, 0.022
    np.testing.assert_allclose(moments(z.astype("float64")), [0, 1, 0, 3], atol=0.07)
    shifted = random.normal((200_000,), mean=5.0, stddev=2.0, dtype=dtype, seed=1)
    np.testing.assert_allclose(shifted, z * 2 + 5, rtol=1e-5, atol=1e-5)


def test_uniform_range():
    u = random.uniform((10_000,), minval=-3.0, maxval=1.0, seed=2)
    assert u.min() >= -3 and u.max() < 1
    assert abs(u.mean() + 1) < 0.05


def test_truncated_normal_matches_its_distribution():
    from math import erf, sqrt

    z = np.sort(random.truncated_normal((100_000,), dtype="float64", seed=3))
    assert -2 <= z[0] and z[-1] <= 2
    phi = np.array([0.5 * (1 + erf(v / sqrt(2))) for v in z])
    low, high = 0.5 * (1 + erf(-sqrt(2))), 0.5 * (1 + erf(sqrt(2)))
    expected = (phi - low) / (high - low)
    distance = np.abs(expected - (np.arange(len(z)) + 0.5) / len(z)).max()
    assert distance < 1.95 / np.sqrt(len(z))  # Kolmogorov's 99.9 % bound


def test_randint():
    x = random.randint((60_000,), -2, 4, seed=4)
    assert x.dtype == "int32"
    counts = np.bincount(x + 2, minlength=6)
    assert len(counts) == 6
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 20.5  # chi-square, 5 degrees, 99.9 %
    with pytest.raises(ValueError, match="minval < maxval"):
        random.randint((2,), 3, 3)
    with pytest.raises(ValueError, match="does not fit in uint8"):
        random.randint((2,), -1, 3, dtype="uint8")


def test_categorical_draws_by_probability():
    p = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    with np.errstate(divide="ignore"):
        x = random.categorical(np.log(p), 20_000, seed=5)
    assert x.shape == (2, 20_000)
    for row, probabilities in zip(x, p):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / 2e4, probabilities, atol=0.015)


def test_shuffle_is_a_permutation_of_slices():
    x = np.arange(40).reshape(20, 2)
    y = random.shuffle(x, seed=6)
    assert not np.array_equal(x, y)
    np.testing.assert_array_equal(y[np.argsort(y[:, 0])], x)
    np.testing.assert_array_equal(random.shuffle(x.T, axis=1, seed=6), y.T)


def test_dropout():
    x = np.full((100, 100), 3.0)
    y = random.dropout(x, 0.25, seed=7)
    np.testing.assert_allclose(np.unique(y), [0, 4])
    assert abs((y == 0).mean() - 0.25) < 0.02
    np.testing.assert_array_equal(random.dropout(x, 0.0, seed=7), x)
    np.testing.assert_array_equal(random.dropout(x, 1.0, seed=7), 0 * x)
    single = random.dropout(x.astype("float32"), 0.25, seed=7)
    np.testing.assert_array_equal(single == 0, y == 0)
    rows = random.dropout(x, 0.5, noise_shape=(None, 1), seed=7)
    assert all(len(set(row)) == 1 for row in rows.tolist())
    assert len(np.unique(rows)) == 2


def test_dropout_gradient_is_its_pattern():
    def loss(x):
        y = random.dropout(x, 0.25, seed=7)
        return uff.gradients(ops.sum(y), [x])[0], y

    gradient, y = Function(loss)(np.ones((20, 20)))
    np.testing.assert_array_equal(gradient, y)


def test_dropout_errors():
    with pytest.raises(ValueError, match=r"`rate` must be in \[0, 1\]; received 1.5"):
        random.dropout(np.ones(3), 1.5)
    with pytest.raises(ValueError, match="`noise_shape`"):
        random.dropout(np.ones((3, 2)), 0.5, noise_shape=(2, 2))


@pytest.mark.parametrize("draw", [random.normal, random.truncated_normal])
def test_bfloat16_is_drawn_in_float32_and_rounded(draw):
    single = draw((1000,), dtype="float32", seed=3)
    np.testing.assert_array_equal(
        draw((1000,), dtype="bfloat16", seed=3), single.astype("bfloat16")
    )


def test_uniform_bfloat16_stays_below_one():
    x = random.uniform((100_000,), dtype="bfloat16", seed=3)
    single = random.uniform((100_000,), dtype="float32", seed=3)
    assert x.dtype == "bfloat16"
    np.testing.assert_array_equal(x.astype("float32"), np.floor(single * 256) / 256)
