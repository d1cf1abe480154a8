"""Each row's values: executor against NumPy and against the references."""

import numpy as np
import pytest
from all_cases import CASES, IDS
from oracle import assert_close, by_executor, by_reference, tolerance

from uniflexflow import tree


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


def test_ids_are_unique():
    assert len(set(IDS)) == len(IDS)


def test_draws_differ_and_repeat():
    for case in CASES:
        for x, again in zip(case.arrays(), case.arrays()):
            np.testing.assert_array_equal(x, again)
