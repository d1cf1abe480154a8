"""Each row's values: executor against NumPy and against the references."""

import numpy as np
import pytest
from all_cases import CASES, IDS
from oracle import assert_close, by_executor, by_reference, tolerance

from uniflexflow import tree
from uniflexflow.ops.dtypes import kind_of


def expected_of(case, arrays):
    with np.errstate(all="ignore"):
        return [np.asarray(y) for y in tree.flatten(case.expect(*arrays))]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_values(case, dtype):
    arrays = case.arrays(dtype)
    got = by_executor(case, arrays)
    references = by_reference(case.fn, arrays)
    assert [y.dtype for y in got] == [y.dtype for y in references]
    for y, expected in zip(got, references, strict=True):
        assert_close(y, expected, tolerance(y, case), f"{case.id} against its reference")
    if case.expect is not None:
        for y, expected in zip(got, expected_of(case, case.arrays("float64")), strict=True):
            assert_close(y, expected, tolerance(y, case), f"{case.id} against NumPy")


FLOATS = [c for c in CASES if any(x.dtype.kind == "f" for x in c.arrays())]
#: each rounding to bfloat16 is off by at most so much
ROUNDING = 2.0**-9


@pytest.mark.parametrize("case", FLOATS, ids=[case.id for case in FLOATS])
def test_values_in_bfloat16(case):
    arrays = case.arrays("bfloat16")
    exact = by_reference(case.fn, [_wide(x) for x in arrays])
    got = by_executor(case, arrays)
    references = by_reference(case.fn, arrays)
    assert [y.dtype for y in got] == [y.dtype for y in references]
    for y, reference, expected in zip(got, references, exact, strict=True):
        if kind_of(y.dtype) != "f":
            np.testing.assert_array_equal(y, reference, err_msg=case.id)
            continue
        y, reference = _wide(y), _wide(reference)
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(y[~finite], expected[~finite], err_msg=case.id)
        if not finite.any():
            continue
        # The result is rounded once. Of the roundings before it, which the references make
        # each time and the executor at times, another selection may add up to twice as much.
        off, allowed = (np.abs(z[finite] - expected[finite]).max() for z in (y, reference))
        scale = np.abs(expected[finite]).max()
        assert off <= 2 * allowed + ROUNDING * scale, f"{case.id}: {off} beside {allowed}"
        assert allowed <= 16 * ROUNDING * scale * np.sqrt(case.terms) * case.slack, case.id


def _wide(x):
    return x.astype("float64") if x.dtype.name == "bfloat16" else x


def test_ids_are_unique():
    assert len(set(IDS)) == len(IDS)


def test_draws_differ_and_repeat():
    for case in CASES:
        for x, again in zip(case.arrays(), case.arrays()):
            np.testing.assert_array_equal(x, again)
