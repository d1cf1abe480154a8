"""Softmax and its kin, and cross-entropy from logits."""

import numpy as np
import pytest
from lowered import check, compute, node_of

pytestmark = pytest.mark.usefixtures("isa")

ROWS = ("softmax", "log_softmax", "logsumexp")
SHAPES = [(0, 5), (1, 1), (3, 7), (2, 8), (5, 9), (3, 15), (4, 17), (2, 33), (3, 1000), (3, 1024),
          (2, 1025), (2, 5000), (100, 100)]  # fmt: skip
DTYPES = ("float32", "float64")


def special_rows(dtype, n=40):
    """Rows with NaN and infinities at the begin, in the middle and at the end."""
    rows = []
    for value in (np.nan, np.inf, -np.inf):
        for at in ([0], [n // 2], [n - 1], [0, n - 1], range(n)):
            x = np.linspace(-3, 3, n)
            x[list(at)] = value
            rows.append(x)
    rows.append(np.where(np.arange(n) % 2, np.inf, np.nan))
    rows.append(np.where(np.arange(n) % 2, -np.inf, np.nan))
    rows.append(np.where(np.arange(n) % 2, -np.inf, 1e4))
    return np.array(rows, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROWS)
def test_rows(name, dtype, rng):
    for rows, n in SHAPES:
        x = (rng.standard_normal((rows, n)) * 5).astype(dtype)
        # the reference rounds too: its sums, and x - max before the exponential
        check(name, x, ulp=24, scale=1e-30 if name == "softmax" else 16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROWS)
def test_rows_with_nan_and_infinities(name, dtype):
    with np.errstate(all="ignore"):
        for n in (1, 5, 40, 1500):
            check(name, special_rows(dtype, n), ulp=8, scale=4)


def test_softmax_is_exact_down_to_the_subnormal_numbers():
    for dtype, low in (("float32", -104), ("float64", -746)):
        x = np.linspace(low, 0, 3000).astype(dtype)[:, None] * np.array([1, 0], dtype)
        (y,) = compute(node_of("softmax", (x,)), (x,))
        e = np.exp(x.astype(np.longdouble))
        exact = e / e.sum(-1, keepdims=True)
        unit = np.spacing(exact.astype(dtype))
        assert (np.abs(y - exact) <= 2.5 * unit).all()


def targets(rng, shape, dtype):
    t = rng.uniform(0, 1, shape)
    return (t / np.maximum(t.sum(-1, keepdims=True), 1e-9)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_crossentropy(dtype, rng):
    for rows, n in SHAPES:
        x = (rng.standard_normal((rows, n)) * 5).astype(dtype)
        a, b, weight = (rng.standard_normal(rows).astype(dtype) for _ in range(3))
        for labels in ("int32", "int64"):
            y = rng.integers(0, n, rows).astype(labels)
            _, lse = check("sparse_softmax_crossentropy", x, y, ulp=16, scale=16)
            check("sparse_softmax_crossentropy_gradient", x, y, lse, a, b, ulp=64, scale=1)
        t = targets(rng, (rows, n), dtype) * weight[:, None]
        # float32 sums are made by lanes
        _, lse, _ = check("softmax_crossentropy", x, t, ulp=64, scale=16)
        check("softmax_crossentropy_gradient", x, t, lse, a, b, ulp=64, scale=1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_crossentropy_of_nan_and_infinities(dtype):
    for n in (1, 5, 40, 1500):
        x = special_rows(dtype, n)
        one = np.ones(len(x), dtype)
        with np.errstate(all="ignore"):
            for label in (0, n // 2, n - 1):
                y = np.full(len(x), label, "int32")
                _, lse = check("sparse_softmax_crossentropy", x, y, ulp=8, scale=16)
                check("sparse_softmax_crossentropy_gradient", x, y, lse, one, one, ulp=64, scale=1)
            t = np.full(x.shape, 1 / n, dtype)
            _, lse, _ = check("softmax_crossentropy", x, t, ulp=64, scale=16)
            check("softmax_crossentropy_gradient", x, t, lse, one, one, ulp=64, scale=1)


def test_a_label_that_is_no_class_gives_nan():
    x = np.zeros((4, 3), "float32")
    for dtype in ("int32", "int64"):
        labels = np.array([-1, 3, 2, np.iinfo(dtype).min], dtype)
        one = np.ones(4, "float32")
        loss, lse = check("sparse_softmax_crossentropy", x, labels, ulp=4)
        np.testing.assert_array_equal(np.isnan(loss), [True, True, False, True])
        (dx,) = check("sparse_softmax_crossentropy_gradient", x, labels, lse, one, one, ulp=4)
        np.testing.assert_array_equal(np.isnan(dx).all(1), [True, True, False, True])


def test_rows_that_have_no_say_have_no_gradient_whatever_is_in_them():
    x = np.array([[np.nan, 1.0], [np.inf, 0.0], [1.0, 2.0]])
    zero = np.zeros(3)
    for name, target in (
        ("sparse_softmax_crossentropy_gradient", np.array([0, 7, -1], "int32")),
        ("softmax_crossentropy_gradient", np.full((3, 2), np.nan)),
    ):
        (dx,) = check(name, x, target, np.full(3, np.nan), zero, zero)
        np.testing.assert_array_equal(dx, 0)


def test_crossentropy_of_large_logits_is_precise():
    x = np.array([[1000.0, 1001.0, 999.0]], "float32")
    arrays = x, np.array([1], "int32")
    loss, _ = compute(node_of("sparse_softmax_crossentropy", arrays), arrays)
    exact = np.log(np.exp(-1.0) + 1 + np.exp(-2.0))
    np.testing.assert_allclose(loss, exact, rtol=2e-7)
