"""Transcendental kernels: errors in ulp over all magnitudes, special values as NumPy's."""

import math

import numpy as np
import pytest
from lowered import check, compute, node_of

pytestmark = pytest.mark.usefixtures("isa")

SPECIAL = (
    0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-40, -1e-40, 1, -1, 88.7, 89, -87.5,
    -100, -103.9, -104, -150, 709.7, 710, -708, -740, -745, -746, -800, 2, -2, -1.5, 1e30, -1e30,
)  # fmt: skip


def _sigmoid(x):
    z = np.exp(-abs(x))
    return np.where(x >= 0, 1, z) / (1 + z)


FUNCTIONS = {
    # name: (function of long doubles, largest error in ulp)
    "exp": (np.exp, 1.5),
    "expm1": (np.expm1, 2),
    "log": (np.log, 1),
    "log1p": (np.log1p, 2),
    "tanh": (np.tanh, 3),
    "sin": (np.sin, 1.5),
    "cos": (np.cos, 1.5),
    "sigmoid": (_sigmoid, 2.5),
    "softplus": (lambda x: np.maximum(x, 0) + np.log1p(np.exp(-abs(x))), 2.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5),
}


def everywhere(rng, dtype):
    n = 20001
    parts = [
        rng.standard_normal(n),
        rng.standard_normal(n) * 30,
        rng.uniform(0.4, 2.5, n),
        np.exp(rng.uniform(-85, 85, n)) * rng.choice([-1, 1], n),
        np.array(SPECIAL),
    ]
    return np.concatenate(parts).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_within_a_few_ulp(name, dtype, rng):
    exact, limit = FUNCTIONS[name]
    x = everywhere(rng, dtype)
    if name in ("sin", "cos"):
        # beyond this, the reduction is the C library's, and the reference's is not exact
        x = np.where(abs(x) < 1e6, x, np.array(1.0, dtype))
    (y,) = compute(node_of(name, (x,)), (x,))
    with np.errstate(all="ignore"):
        wide = exact(x.astype(np.longdouble))
        ref = wide.astype(dtype)
    finite = np.isfinite(ref)
    np.testing.assert_array_equal(y[~finite], ref[~finite])
    error = abs(y[finite] - wide[finite]) / np.spacing(abs(ref[finite]))
    worst = np.argmax(error)
    assert error[worst] <= limit, f"{error[worst]} ulp at {x[finite][worst]}"
    zero = ref == 0
    np.testing.assert_array_equal(np.signbit(y[zero]), np.signbit(ref[zero]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_erf_is_within_a_few_ulp(dtype, rng):
    x = everywhere(rng, dtype)[::7]
    (y,) = compute(node_of("erf", (x,)), (x,))
    ref = np.array([math.erf(v) for v in x.tolist()])
    same = np.isnan(ref)
    np.testing.assert_array_equal(np.isnan(y), same)
    error = abs(y[~same] - ref[~same]) / np.spacing(abs(ref[~same]).astype(dtype))
    assert error.max() <= 2
    np.testing.assert_array_equal(np.signbit(y[~same]), np.signbit(x[~same]))


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_large_angles(name):
    check(name, np.array([1e7, -3e10, 1e30, np.inf, 2.0], "float32"), ulp=2)
    check(name, np.array([1e7, -3e10, 1e300, np.nan, 2.0]), ulp=2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("exponent", [2, 0.5, -1, -0.5, 1, 3, 0, 1.7, -2.5, np.inf, np.nan])
def test_powers_with_one_exponent(dtype, exponent, rng):
    for x in (everywhere(rng, dtype), abs(rng.standard_normal(999)).astype(dtype) + 0.1):
        # an array: with one number NumPy takes sqrt, which is not C's pow for -inf
        check("power", x, np.full_like(x, exponent), ulp=2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_with_many_exponents(dtype, rng):
    y = (rng.standard_normal(3001) * 5).astype(dtype)
    check("power", np.exp(rng.standard_normal(3001)).astype(dtype), y, ulp=2)
    check("power", np.resize(np.array(SPECIAL, dtype), 3001), np.round(y), ulp=2)
    check("power", np.array(2.5, dtype), y, ulp=2)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integer_powers_wrap_around(dtype, rng):
    x = rng.integers(0, 100, 500).astype(dtype)
    check("power", x, rng.integers(0, 9, 500).astype(dtype))
