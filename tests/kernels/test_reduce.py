"""Sums, extremes, their places, and running sums."""

import itertools

import numpy as np
import pytest
from lowered import check, compute, node_of

pytestmark = pytest.mark.usefixtures("isa")

DTYPES = ("float32", "float64", "int8", "uint8", "int32", "int64")
SHAPES = [
    (5,), (1,), (100, 7), (7, 100), (3, 4, 5), (2, 3, 4, 5), (33, 65), (1000, 3), (3, 1000),
    (4, 1, 6), (70000,), (300, 300), (8192, 10), (10, 8192), (2, 20000, 3), (20000, 2, 3),
    (64, 14, 14, 8), (3, 500, 63), (1, 1, 1), (2, 1100, 2, 40),
]  # fmt: skip


def axes_of(shape):
    every = range(len(shape))
    return [a for k in range(1, len(shape) + 1) for a in itertools.combinations(every, k)]


def numbers(rng, dtype, shape):
    return (
        (rng.standard_normal(shape) * 30)
        .astype("int32" if dtype == "uint8" else dtype)
        .astype(dtype)
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_over_all_axes(shape, rng):
    for axes in axes_of(shape):
        for dtype in ("int8", "uint8", "int32", "int64"):
            check("sum", numbers(rng, dtype, shape), axes=axes)
        x = rng.standard_normal(shape)
        exact = x.astype("float32").astype(float).sum(axes)
        size = np.sqrt(x.size)
        f = x.astype("float32")
        one, two = (compute(node_of("sum", (f,), axes=axes), (f,), t)[0] for t in (1, 2))
        np.testing.assert_allclose(one, exact, rtol=3e-7, atol=2e-6 * size)
        assert one.tobytes() == two.tobytes()
        check("sum", x, axes=axes, ulp=64, scale=size)  # NumPy adds rows one by one


@pytest.mark.parametrize("shape", SHAPES)
def test_extremes_over_all_axes(shape, rng):
    for axes, dtype, name in itertools.product(axes_of(shape), ("float32", "int8"), ("max", "min")):
        check(name, numbers(rng, dtype, shape), axes=axes)


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_in_every_dtype(name, rng):
    for dtype, axes in itertools.product((*DTYPES, "bool"), ((0,), (1,), (0, 1))):
        check(name, numbers(rng, dtype, (70, 33)), axes=axes)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("at", [0, 5, 40, 62])
def test_nan_is_the_extreme(name, at, rng):
    for shape in ((63,), (63, 1), (63, 33)):
        x = numbers(rng, "float32", shape)
        x[at, ...] = np.nan
        x[62, ...] = np.nan
        x[3, ...] = np.inf
        check(name, x, **({"axis": 0} if "arg" in name else {"axes": (0,)}))
        check(
            name,
            np.ascontiguousarray(x.T),
            **({"axis": x.ndim - 1} if "arg" in name else {"axes": (x.ndim - 1,)}),
        )


def test_extremes_of_infinities():
    for value in (np.inf, -np.inf):
        x = np.full((40, 20), value, "float32")
        for axes in ((0,), (1,), (0, 1)):
            check("max", x, axes=axes)
            check("min", x, axes=axes)


def test_an_empty_sum_is_zero():
    cases = [((0,), (0,)), ((0, 5), (0,)), ((5, 0), (1,)), ((0, 5), (1,)), ((3, 0, 2), (1, 2))]
    for shape, axes in cases:
        check("sum", np.ones(shape, "float32"), axes=axes)
        check("sum", np.ones(shape, "int32"), axes=axes)


def test_a_long_float32_sum_is_as_good_as_a_short_one():
    for shape, axes in (((1 << 22,), (0,)), ((1 << 18, 16), (0,)), ((1 << 12, 1 << 10), (0,))):
        x = np.full(shape, 0.1, "float32")
        (y,) = compute(node_of("sum", (x,), axes=axes), (x,))
        np.testing.assert_allclose(y, float(np.float32(0.1)) * shape[0], rtol=4e-6)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes(name, rng):
    for shape, dtype in itertools.product(((1,), (65,), (33, 70), (5, 9, 40), (70000,)), DTYPES):
        x = numbers(rng, dtype, shape)
        for axis in range(len(shape)):
            check(name, x, axis=axis)
        check(name, np.zeros_like(x), axis=0)  # the first of equals


@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums(reverse, rng):
    for shape, dtype in itertools.product(((0,), (1,), (7, 65), (3, 2, 100), (300, 300)), DTYPES):
        x = numbers(rng, dtype, shape)
        if not dtype.startswith("float"):
            check("cumsum", x, reverse=reverse)
            continue
        (y,) = compute(node_of("cumsum", (x,), reverse=reverse), (x,))
        wide = x[..., ::-1] if reverse else x
        exact = np.cumsum(wide, axis=-1, dtype=np.longdouble)
        exact = exact[..., ::-1] if reverse else exact
        unit = np.finfo(dtype).eps
        np.testing.assert_allclose(y, exact, rtol=unit, atol=1e4 * np.finfo(float).eps)
