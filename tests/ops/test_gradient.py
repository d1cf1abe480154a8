"""Each row's gradient, and the gradient of its gradient, against differences."""

import numpy as np
import pytest
from all_cases import CASES
from oracle import (
    assert_close,
    check_derivative,
    float_places,
    gradient_of,
    scalar,
    tolerance,
)

from uniflexflow import ops
from uniflexflow.compiler import Function

ROWS = [case for case in CASES if case.gradient]
IDS = [case.id for case in ROWS]


@pytest.mark.parametrize("case", ROWS, ids=IDS)
def test_first(case):
    arrays = case.arrays()
    places = float_places(arrays)
    assert places, f"{case.id} has no float input: set gradient=False"
    loss = scalar(case, arrays)
    check_derivative(loss, gradient_of(loss, places), arrays, places, case.id)


@pytest.mark.parametrize("case", ROWS, ids=IDS)
def test_second(case):
    arrays = case.arrays()
    places = float_places(arrays)
    first = gradient_of(scalar(case, arrays), places)
    rng = np.random.default_rng(3)
    along = [rng.normal(size=arrays[i].shape) for i in places]

    def slope(*xs):
        total = None
        for g, v in zip(first(*xs), along):
            term = ops.sum(g * ops.cast(v, g.dtype))
            total = term if total is None else total + term
        return total

    check_derivative(slope, gradient_of(slope, places), arrays, places, f"{case.id}, second")


@pytest.mark.parametrize("case", ROWS, ids=IDS)
def test_float32(case):
    double, single = case.arrays(), case.arrays("float32")
    places = float_places(double)
    exact = Function(gradient_of(scalar(case, double), places))(*double)
    got = Function(gradient_of(scalar(case, single), places))(*single)
    for g, expected in zip(got, exact, strict=True):
        assert g.dtype == np.float32
        assert_close(g, expected, 8 * tolerance(g, case), f"gradient of {case.id}")
