"""The proofs themselves: wrong values and wrong gradients must not pass."""

import numpy as np
import pytest
from op_case import Case, away, real
from oracle import assert_close, check_derivative, gradient_of, scalar, tolerance

from uniflexflow import ops
from uniflexflow.ir import OpDef, apply


@pytest.fixture(autouse=True)
def on_references(monkeypatch):
    """The rows made here have no kernel."""
    monkeypatch.setenv("UNIFLEXFLOW_EXECUTOR", "reference")


def op_with(gradient):
    return OpDef("test_square", infer=lambda x: x, reference=np.square, gradient=gradient)


def case_of(gradient):
    row = op_with(gradient)
    return Case("square", lambda x: apply(row, x), [real(3, 4)], np.square)


def prove(case, order=1):
    arrays = case.arrays()
    loss = scalar(case, arrays)
    gradient = gradient_of(loss, [0])
    if order == 1:
        check_derivative(loss, gradient, arrays, [0], case.id)
        return
    along = np.random.default_rng(0).normal(size=arrays[0].shape)

    def slope(x):
        return ops.sum(gradient(x)[0] * along)

    check_derivative(slope, gradient_of(slope, [0]), arrays, [0], case.id)


def right(node, g):
    return (g * node.inputs[0] * 2,)


WRONG = {
    "factor": lambda node, g: (g * node.inputs[0] * 1.999,),
    "sign": lambda node, g: (g * node.inputs[0] * -2,),
    "no upstream": lambda node, g: (node.inputs[0] * 2,),
    "zero": lambda node, g: (None,),
    "other elements": lambda node, g: (ops.flip(g) * node.inputs[0] * 2,),
}


def test_a_right_gradient_passes():
    prove(case_of(right))
    prove(case_of(right), order=2)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_gradient_is_found(name):
    with pytest.raises(AssertionError, match="differences give"):
        prove(case_of(WRONG[name]))


def test_a_wrong_second_gradient_is_found():
    def first_only(node, g):
        return (g * ops.stop_gradient(node.inputs[0]) * 2,)

    prove(case_of(first_only))
    with pytest.raises(AssertionError, match="differences give"):
        prove(case_of(first_only), order=2)


def test_wrong_values_are_found():
    case = Case("x", ops.exp, [real(3)], np.exp)
    y = np.exp(case.arrays()[0])
    rtol = tolerance(y, case)
    assert_close(y * (1 + rtol / 2), y, rtol, "near")
    for wrong in (y * (1 + 1e-12), y[:2], y + 1, np.where(y > 1, np.nan, y)):
        with pytest.raises(AssertionError):
            assert_close(wrong, y, rtol, "wrong")
    with pytest.raises(AssertionError):
        assert_close(np.array([1, 2]), np.array([1, 3]), 0.0, "whole numbers")


def test_draws_keep_away_from_kinks():
    x = away(1000, kinks=(-1, 0.5), gap=0.1)(np.random.default_rng(0))
    assert np.abs(x + 1).min() >= 0.1 and np.abs(x - 0.5).min() >= 0.1
    assert len(np.unique(x)) > 800
