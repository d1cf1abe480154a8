"""Reshape, transpose, broadcast, concatenate, slice and pad: bit by bit."""

import itertools

import numpy as np
import pytest
from lowered import check

pytestmark = pytest.mark.usefixtures("isa")

SHAPES = [
    (5,), (3, 4), (33, 65), (1, 7), (7, 1), (0, 3), (2, 3, 4), (16, 16), (100, 130), (300, 257),
    (2, 3, 4, 5), (4, 17, 3, 19), (2, 1, 3, 1, 2), (),
]  # fmt: skip
DTYPES = ("float32", "float64", "int8", "bool", "int64", "bfloat16")


def numbers(rng, dtype, shape):
    return np.asarray(rng.integers(-100, 100, shape)).astype(dtype)


@pytest.fixture(params=list(itertools.product(SHAPES, DTYPES)), ids=str)
def x(request, rng):
    shape, dtype = request.param
    return numbers(rng, dtype, shape)


def test_transpose(x):
    for axes in itertools.permutations(range(x.ndim)):
        check("transpose", x, axes=axes)


def test_reshape_and_broadcast(x):
    check("reshape", x, shape=(x.size,))
    check("broadcast_to", x, shape=(3, *x.shape))
    for axis in range(x.ndim):
        if x.shape[axis]:
            one = x.take([0], axis)
            check("broadcast_to", one, shape=(2, *x.shape))


def test_concatenate(x):
    for axis in range(x.ndim):
        parts = [x, x[(slice(None),) * axis + (slice(0, 1),)], x]
        check("concatenate", *[np.ascontiguousarray(p) for p in parts], axis=axis)


@pytest.mark.parametrize("step", [1, 2, 5, -1, -3])
def test_slice(x, step):
    for axis in range(x.ndim):
        places = range(x.shape[axis])[slice(None, None, step)]
        start, size, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
        start[axis], size[axis], steps[axis] = places.start if places else 0, len(places), step
        check("slice", x, start=tuple(start), size=tuple(size), step=tuple(steps))


def test_pad(x):
    for axis in range(x.ndim):
        low, high, interior = [0] * x.ndim, [0] * x.ndim, [0] * x.ndim
        low[axis], high[0], interior[axis] = 2, 1, 3
        for value in (0.0, 1.0, 5.0):
            check("pad", x, low=tuple(low), high=tuple(high), interior=tuple(interior), value=value)
            check("pad", x, low=tuple(low), high=tuple(high), interior=(0,) * x.ndim, value=value)
    some, more, none = tuple(range(x.ndim)), tuple(range(3, 3 + x.ndim)), (0,) * x.ndim
    check("pad", x, low=some, high=more, interior=none, value=1.0)
    check("pad", x, low=more, high=none, interior=none, value=1.0)


def test_large_transposes_are_shared_by_cores(rng):
    for dtype in ("float32", "float64", "int8", "bfloat16"):
        x = numbers(rng, dtype, (700, 901))
        check("transpose", x, axes=(1, 0))
        check("pad", x, low=(1, 2), high=(0, 70), interior=(1, 0), value=7.0)
        check("pad", x, low=(1, 2), high=(300, 70), interior=(0, 0), value=7.0)
