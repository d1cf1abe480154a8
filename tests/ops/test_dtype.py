"""Which dtype comes out: tensors meet by NumPy's rule, floats win, numbers are weak."""

import operator

import numpy as np
import pytest

from uniflexflow import KerasTensor, ops
from uniflexflow.compiler import Function
from uniflexflow.ops import dtypes
from uniflexflow.ops.variable import Variable


def one(dtype):
    return np.ones((2, 2), dtype)


PROMOTIONS = [
    ("float32", "float32", "float32"),
    ("float32", "float64", "float64"),
    ("float32", "int64", "float32"),
    ("float32", "bool", "float32"),
    ("float64", "uint8", "float64"),
    ("int32", "int64", "int64"),
    ("int8", "uint8", "int32"),
    ("int8", "int32", "int32"),
    ("bool", "int8", "int8"),
    ("bool", "bool", "int32"),
]


@pytest.mark.parametrize(("a", "b", "expected"), PROMOTIONS)
def test_two_tensors(a, b, expected):
    assert ops.add(one(a), one(b)).dtype == expected
    assert ops.add(one(b), one(a)).dtype == expected


NUMBERS = [
    ("float32", 2, "float32"),
    ("float32", 2.5, "float32"),
    ("float64", 2.5, "float64"),
    ("int32", 2, "int32"),
    ("uint8", 2, "uint8"),
    ("int32", 2.5, "float32"),
    ("bool", 2, "int32"),
    ("bool", True, "int32"),
    ("float32", [1.0, 2.0], "float32"),
    ("int32", [1.0, 2.0], "float32"),
]


@pytest.mark.parametrize(("dtype", "number", "expected"), NUMBERS)
def test_numbers_are_weak(dtype, number, expected):
    traced = Function(lambda x: (x * number, number * x if isinstance(number, float) else x))
    assert traced(one(dtype))[0].dtype == expected


def test_numpy_scalars_are_weak_in_a_trace():
    out = Function(lambda x: x * np.sqrt(2.0) + np.float64(1))(one("float32"))
    assert out.dtype == "float32"


def test_a_number_that_does_not_fit_raises():
    with pytest.raises(OverflowError, match="300 does not fit in the tensors' dtype uint8"):
        Function(lambda x: x + 300)(one("uint8"))


def test_what_is_no_number_raises():
    with pytest.raises(TypeError, match="received None of NoneType"):
        ops.add(one("float32"), None)


INTEGER_RESULTS = [
    (ops.exp, "float32"),
    (ops.sigmoid, "float32"),
    (ops.divide, "float32"),
    (ops.floor, "float32"),
    (ops.square, "int32"),
    (ops.abs, "int32"),
    (ops.sum, "int32"),
    (ops.mean, "float32"),
    (ops.max, "int32"),
    (ops.argmax, "int32"),
    (ops.cumsum, "int32"),
    (ops.softmax, "float32"),
    (ops.equal, "bool"),
    (ops.isnan, "bool"),
]


@pytest.mark.parametrize(("fn", "expected"), INTEGER_RESULTS)
def test_whole_numbers(fn, expected):
    x = one("int32")
    got = fn(x, x) if fn in (ops.divide, ops.equal) else fn(x)
    assert got.dtype == expected


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8"])
@pytest.mark.parametrize("fn", [ops.sum, ops.prod, ops.cumsum])
def test_small_numbers_are_added_up_as_int32(fn, dtype):
    assert fn(one(dtype)).dtype == "int32"


def test_floatx_rules_what_has_no_dtype():
    assert ops.zeros((2,)).dtype == "float32"
    assert ops.convert_to_tensor([1.5]).dtype == "float32"
    dtypes.set_floatx("float64")
    try:
        assert ops.zeros((3,)).dtype == "float64"
        assert ops.convert_to_tensor([1.5]).dtype == "float64"
    finally:
        dtypes.set_floatx("float32")


def test_powers():
    assert ops.power(one("int32"), 2).dtype == "int32"
    assert ops.power(one("int32"), -1).dtype == "float32"
    assert ops.power(one("int32"), 2.0).dtype == "float32"
    assert ops.power(one("float64"), 0.5).dtype == "float64"


def test_unsupported_dtypes():
    with pytest.raises(ValueError, match="dtype 'complex64' is not supported"):
        ops.cast(one("float32"), "complex64")


ROWS_THAT_REFUSE = [
    (lambda o: o["sqrt"], "int32", "sqrt: the operation is not defined on int32"),
    (lambda o: o["negative"], "bool", "negative: the operation is not defined on bool"),
    (lambda o: o["logical_not"], "float32", "logical_not: the operation is not defined on float32"),
    (lambda o: o["softmax"], "int32", "softmax: the operation is not defined on int32"),
]


@pytest.mark.parametrize(("row", "dtype", "message"), ROWS_THAT_REFUSE)
def test_primitives_refuse_wrong_dtypes(row, dtype, message):
    from uniflexflow.ir import TensorSpec
    from uniflexflow.ops.registry import OPS

    with pytest.raises(TypeError, match=message):
        row(OPS).infer(TensorSpec((2,), dtype))


@pytest.mark.parametrize("other", [0, 1.0, np.float32(2), np.zeros(2)])
@pytest.mark.parametrize("tensor", [Variable(np.zeros(2)), KerasTensor((2,))])
def test_equality_with_numbers_is_no_silent_false(tensor, other):
    assert tensor == tensor  # one object
    assert len({tensor, KerasTensor((2,))}) == 2
    for compare in (operator.eq, operator.ne):
        with pytest.raises(TypeError, match=r"use uff\.ops\.equal"):
            compare(tensor, other)
    with pytest.raises(TypeError, match=r"use uff\.ops\.equal"):
        Function(lambda x: ops.where(x == other, 1.0, 0.0))(np.zeros(2))
