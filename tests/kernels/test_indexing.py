"""Taking and adding by index, order, softmax and random numbers."""

import itertools

import numpy as np
import pytest
from lowered import check, compute, node_of

pytestmark = pytest.mark.usefixtures("isa")

DTYPES = ("float32", "float64", "int32", "int8")
SHAPES = [(5,), (4, 6), (3, 5, 7), (2, 300, 64), (1, 1)]


def numbers(rng, dtype, shape):
    return np.asarray(rng.standard_normal(shape) * 9).astype(dtype)


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_take_moves_bfloat16(index, rng):
    for shape, axis in (((5,), 0), ((3, 5, 7), 1), ((2, 300, 64), 2)):
        i = rng.integers(-shape[axis] - 1, shape[axis] + 1, (9,)).astype(index)
        check("take", numbers(rng, "bfloat16", shape), i, axis=axis)
        along = rng.integers(-shape[-1] - 1, shape[-1] + 1, (*shape[:-1], 4)).astype(index)
        check("take_along_last", numbers(rng, "bfloat16", shape), along)


@pytest.mark.parametrize("dtype, index", list(itertools.product(DTYPES, ("int32", "int64"))))
def test_take_and_its_transpose(dtype, index, rng):
    for shape in SHAPES:
        for axis, picks in itertools.product(range(len(shape)), ((), (0,), (4,), (2, 3), (500,))):
            n = shape[axis]
            i = np.asarray(rng.integers(-n - 1, n + 1, picks)).astype(index)
            check("take", numbers(rng, dtype, shape), i, axis=axis)
            g = numbers(rng, dtype, shape[:axis] + picks + shape[axis + 1 :])
            check("take_gradient", g, i, axis=axis, shape=shape)


@pytest.mark.parametrize("dtype, index", list(itertools.product(DTYPES, ("int32", "int64"))))
def test_take_along_the_last_axis_and_its_transpose(dtype, index, rng):
    for shape, picks in itertools.product((*SHAPES, (3000, 10)), (0, 1, 4)):
        n = shape[-1]
        i = rng.integers(-n - 1, n + 1, (*shape[:-1], picks)).astype(index)
        check("take_along_last", numbers(rng, dtype, shape), i)
        check("add_along_last", numbers(rng, dtype, i.shape), i, size=n)


def test_nothing_to_take_from():
    empty, i = np.ones((0, 3), "float32"), np.array([0, -1])
    check("take", empty, i, axis=0)
    check("take_gradient", np.ones((2, 3), "float32"), i, axis=0, shape=(0, 3))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [*DTYPES, "int64", "uint8", "bool"])
def test_order_is_stable(descending, dtype, rng):
    for shape in ((0,), (1,), (2,), (7,), (64,), (5, 65), (40, 100)):
        x = abs(np.round(numbers(rng, "float32", shape) / 4)).astype(dtype)
        if dtype.startswith("float"):
            x.reshape(-1)[::5] = np.nan
        check("argsort", x, descending=descending)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax(name, dtype, rng):
    for rows, n in itertools.product((1, 5, 300), (1, 2, 3, 7, 8, 9, 10, 33, 1000, 1024, 1025)):
        x = (rng.standard_normal((rows, n)) * 5).astype(dtype)
        (y,) = compute(node_of(name, (x,)), (x,))
        wide = x.astype(np.longdouble)
        high = wide.max(-1, keepdims=True)
        e = np.exp(wide - high)
        total = e.sum(-1, keepdims=True)
        exact = {
            "softmax": e / total,
            "log_softmax": wide - high - np.log(total),
            "logsumexp": (np.log(total) + high)[:, 0],
        }[name]
        eps = np.finfo(dtype).eps
        near = 0 if name == "softmax" else 30 * eps
        # x - max is rounded: half an ulp of up to 32 becomes a relative error of exp
        np.testing.assert_allclose(y, exact, rtol=32 * eps, atol=near)
        (again,) = compute(node_of(name, (x,)), (x,), threads=2)
        assert again.tobytes() == y.tobytes()


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_softmax_of_special_values(name, value):
    for n in (1, 5, 40):
        x = np.linspace(-1, 1, 2 * n, dtype="float32").reshape(2, n)
        x[0, n // 2] = value
        check(name, x, ulp=8, scale=1)
        x[1] = value
        check(name, x, ulp=8, scale=1)
    check(name, np.ones((0, 3), "float32"))


SHARES = [
    # share's shape, its start, the whole
    ((5,), (0,), (5,)), ((), (), ()), ((1000,), (0,), (1000,)), ((100,), (33,), (1000,)),
    ((3, 5), (2, 1), (9, 7)), ((3, 7), (2, 0), (9, 7)), ((2, 3, 4), (1, 0, 0), (5, 3, 4)),
    ((2, 3, 4), (1, 2, 1), (5, 9, 6)), ((70, 200), (1, 0), (100, 200)), ((0, 3), (0, 0), (0, 3)),
    ((5000,), (7, ), (9999,)), ((2, 3), (2**20, 0), (2**21, 2**14)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape, start, whole", SHARES)
def test_random_numbers_of_any_share(dtype, shape, start, whole):
    for key in ((0, 0), (5, 7), (-1, 2**40), (2**62, -5)):
        check(
            "random_uniform", np.array(key),
            shape=shape, dtype=dtype, start=start, global_shape=whole,
        )  # fmt: skip
