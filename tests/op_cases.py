"""Rows of the elementwise operations and reductions; see ``op_case``."""

import math

import numpy as np
from op_case import Case, away, distinct, given, real, truth, whole

from uniflexflow import ops
from uniflexflow.ops.ordering import after

S = (3, 5)
erf = np.vectorize(math.erf)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = [
    Case("negative", ops.negative, [real(*S)], np.negative),
    Case("abs", ops.abs, [away(*S)], np.abs),
    Case("sign", ops.sign, [away(*S)], np.sign),
    Case("exp", ops.exp, [real(*S)], np.exp),
    Case("exp wide", ops.exp, [real(40, low=-80, high=80)], np.exp, slack=4),  # e^x: x ulp
    Case("expm1", ops.expm1, [real(*S)], np.expm1),
    Case("expm1 near 0", ops.expm1, [real(9, low=-1e-6, high=1e-6)], np.expm1),
    Case("log", ops.log, [real(*S, low=0.1, high=3)], np.log),
    Case("log wide", ops.log, [real(40, low=1e-6, high=1e6)], np.log),
    Case("log1p", ops.log1p, [real(*S, low=-0.8, high=3)], np.log1p),
    Case("log1p near 0", ops.log1p, [real(9, low=-1e-6, high=1e-6)], np.log1p),
    Case("sqrt", ops.sqrt, [real(*S, low=0.1, high=3)], np.sqrt),
    Case("rsqrt", ops.rsqrt, [real(*S, low=0.2, high=3)], lambda x: x**-0.5),
    Case("reciprocal", ops.reciprocal, [away(*S, gap=0.4)], lambda x: 1 / x),
    Case("square", ops.square, [real(*S)], np.square),
    Case("sin", ops.sin, [real(*S, low=-7, high=7)], np.sin),
    Case("cos", ops.cos, [real(*S, low=-7, high=7)], np.cos),
    Case("tanh", ops.tanh, [real(*S)], np.tanh),
    Case("tanh saturated", ops.tanh, [real(20, low=-40, high=40)], np.tanh),
    Case("sigmoid", ops.sigmoid, [real(*S)], sigmoid),
    Case("softplus", ops.softplus, [real(*S)], lambda x: np.log1p(np.exp(x))),
    Case("erf", ops.erf, [real(*S)], erf),
    Case("relu", ops.relu, [away(*S)], lambda x: np.maximum(x, 0)),
    Case("floor", ops.floor, [real(*S)], np.floor, gradient=False),
    Case("ceil", ops.ceil, [real(*S)], np.ceil, gradient=False),
    Case("round", ops.round, [given([0.5, 1.5, -0.5, 2.4, -2.6])], np.round, gradient=False),
    Case("isnan", ops.isnan, [given(SPECIAL)], np.isnan, gradient=False),
    Case("isfinite", ops.isfinite, [given(SPECIAL)], np.isfinite, gradient=False),
    Case("isinf", ops.isinf, [given(SPECIAL)], np.isinf, gradient=False),
    Case("logical_not", ops.logical_not, [truth(*S)], np.logical_not, gradient=False),
    Case("after", lambda x: after(x, ops.exp(x[0])) * x, [real(*S)], np.square),
    Case("stop_gradient", ops.stop_gradient, [real(*S)], lambda x: x, gradient=False),
    Case("tan", ops.tan, [real(*S, low=-1, high=1)], np.tan),
    Case("sinh", ops.sinh, [real(*S)], np.sinh),
    Case("cosh", ops.cosh, [real(*S)], np.cosh),
    Case("arctanh", ops.arctanh, [real(*S, low=-0.8, high=0.8)], np.arctanh),
    Case("log2", ops.log2, [real(*S, low=0.1, high=3)], np.log2),
    Case("log10", ops.log10, [real(*S, low=0.1, high=3)], np.log10),
    Case("exp2", ops.exp2, [real(*S)], np.exp2),
    Case("deg2rad", ops.deg2rad, [real(*S)], np.deg2rad),
    Case("rad2deg", ops.rad2deg, [real(*S)], np.rad2deg),
    Case("trunc", ops.trunc, [real(*S)], np.trunc, gradient=False),
    Case("nan_to_num", lambda x: ops.nan_to_num(x, 7.0, 8.0, 9.0), [given(SPECIAL)],
         lambda x: np.nan_to_num(x, nan=7, posinf=8, neginf=9), gradient=False),
    Case("clip", lambda x: ops.clip(x, -1.0, 1.0), [away(*S, kinks=(-1, 1))],
         lambda x: np.clip(x, -1, 1)),
    Case("negative integers", ops.negative, [whole(*S, low=-5)], np.negative, gradient=False),
    Case("abs integers", ops.abs, [whole(*S, low=-5)], np.abs, gradient=False),
    Case("sign integers", ops.sign, [whole(*S, low=-5, dtype="int64")], np.sign, gradient=False),
    Case("square integers", ops.square, [whole(*S, low=-5)], np.square, gradient=False),
    Case("relu integers", ops.relu, [whole(*S, low=-5)], lambda x: np.maximum(x, 0),
         gradient=False),
    Case("exp of integers", ops.exp, [whole(*S)], np.exp, gradient=False),
    *[
        Case(f"{f.__name__} of special values", f, [given(SPECIAL)], e, gradient=False)
        for f, e in [
            (ops.exp, np.exp), (ops.log, np.log), (ops.log1p, np.log1p), (ops.sqrt, np.sqrt),
            (ops.tanh, np.tanh), (ops.sigmoid, sigmoid), (ops.erf, erf), (ops.sign, np.sign),
            (ops.abs, np.abs), (ops.floor, np.floor), (ops.reciprocal, lambda x: 1 / x),
            (ops.relu, lambda x: np.maximum(x, 0)), (ops.expm1, np.expm1), (ops.square, np.square),
            (ops.softplus, lambda x: np.logaddexp(x, 0)), (ops.round, np.round),
            (ops.rsqrt, lambda x: 1 / np.sqrt(x)), (ops.ceil, np.ceil),
        ]
    ],
]  # fmt: skip

PAIRS = [np.repeat(SPECIAL, 7), np.tile(SPECIAL, 7)]
INT_PAIRS = [given(np.repeat(np.arange(-3, 4), 7), "int32"),
             given(np.tile(np.arange(-3, 4), 7), "int32")]  # fmt: skip


def integer_power(x, y):
    return np.array([int(a) ** int(b) if b >= 0 else (int(a) ** int(b) if abs(a) == 1 else 0)
                     for a, b in zip(x, y)])  # fmt: skip


BINARY = [
    Case("add", ops.add, [real(*S), real(*S)], np.add),
    Case("add row", ops.add, [real(2, *S), real(5)], np.add),
    Case("add column", ops.add, [real(3, 1), real(3, 5)], np.add),
    Case("add both broadcast", ops.add, [real(3, 1), real(1, 5)], np.add),
    Case("add scalar", lambda x: x + 2, [real(*S)], lambda x: x + 2),
    Case("add empty", ops.add, [real(0, 3), real(3)], np.add),
    Case("subtract", ops.subtract, [real(*S), real(5)], np.subtract),
    Case("multiply", ops.multiply, [real(*S), real(3, 1)], np.multiply),
    Case("multiply itself", lambda x: x * x, [real(*S)], np.square),
    Case("divide", ops.divide, [real(*S), away(5, gap=0.5)], np.divide),
    Case("divide scalar", lambda x: 2 / x, [away(*S, gap=0.5)], lambda x: 2 / x),
    Case("power", ops.power, [real(*S, low=0.3, high=2), real(5)], np.power),
    Case("power scalar", lambda x: x**3, [real(*S)], lambda x: x**3),
    Case("power 2", lambda x: x**2, [real(*S)], np.square),
    Case("power 0.5", lambda x: x**0.5, [real(*S, low=0.2)], np.sqrt),
    Case("power -1", lambda x: x**-1, [away(*S, gap=0.5)], lambda x: 1 / x),
    Case("power of 0", ops.power, [given([0.0, 0.0, -2.0, 0.0]), given([2.0, 3.0, 2.0, 2.5])],
         np.power, gradient=False),
    Case("power of scalar base", lambda x: 2.0**x, [real(*S)], lambda x: 2.0**x),
    Case("maximum", ops.maximum, [distinct(3, 4), distinct(4)], np.maximum),
    Case("minimum", ops.minimum, [distinct(3, 4), distinct(3, 1)], np.minimum),
    Case("floor_divide", ops.floor_divide, [real(*S), away(*S, gap=0.3)], np.floor_divide,
         gradient=False),
    Case("mod", ops.mod, [given([2.2, -2.2, 5.5]), given([1.5, 1.5, -2.0])], np.mod),
    Case(
        "divide_no_nan",
        ops.divide_no_nan,
        [given([1.0, 2.0, 0.0]), given([0.0, 4.0, 0.0])],
        lambda a, b: np.array([0, 0.5, 0]),
        gradient=False,
    ),
    Case("divide_no_nan away from 0", ops.divide_no_nan, [real(*S), away(*S, gap=0.5)], np.divide),
    Case("logaddexp", ops.logaddexp, [real(*S), real(*S)], np.logaddexp),
    Case("logical_and", ops.logical_and, [truth(*S), truth(5)], np.logical_and, gradient=False),
    Case("logical_or", ops.logical_or, [truth(*S), truth(5)], np.logical_or, gradient=False),
    Case("logical_xor", ops.logical_xor, [truth(*S), truth(5)], np.logical_xor, gradient=False),
    Case("logical_and of numbers", ops.logical_and,
         [whole(*S, high=2), given([0.0, 0.5, -1, 0, 2])],
         np.logical_and, gradient=False),
    Case("isclose", ops.isclose, [given([1.0, 1.0, np.inf, np.nan]),
                                  given([1.0000001, 1.1, np.inf, np.nan])],
         np.isclose, gradient=False),
    Case("where", ops.where, [truth(3, 1), real(*S), real(5)], np.where),
    Case("where scalar", lambda c, x: ops.where(c, x, 0), [truth(*S), real(*S)],
         lambda c, x: np.where(c, x, 0)),
    *[
        Case(f"{f.__name__} {kind}", f, [a, b], e, gradient=False)
        for f, e in [
            (ops.equal, np.equal), (ops.not_equal, np.not_equal), (ops.less, np.less),
            (ops.less_equal, np.less_equal), (ops.greater, np.greater),
            (ops.greater_equal, np.greater_equal),
        ]
        for kind, a, b in [("floats", given(PAIRS[0]), given(PAIRS[1])), ("integers", *INT_PAIRS)]
    ],
    Case("equal booleans", ops.equal, [truth(*S), truth(*S)], np.equal, gradient=False),
    *[
        Case(f"{f.__name__} of special values", f, [given(PAIRS[0]), given(PAIRS[1])], e,
             gradient=False)
        for f, e in [
            (ops.add, np.add), (ops.subtract, np.subtract), (ops.multiply, np.multiply),
            (ops.divide, np.divide), (ops.maximum, np.maximum), (ops.minimum, np.minimum),
            (ops.power, np.power),
        ]
    ],
    *[
        Case(f"{f.__name__} of integers", f, INT_PAIRS, e, gradient=False)
        for f, e in [
            (ops.add, np.add), (ops.subtract, np.subtract), (ops.multiply, np.multiply),
            (ops.maximum, np.maximum), (ops.minimum, np.minimum), (ops.power, integer_power),
            (ops.floor_divide, np.floor_divide), (ops.mod, np.mod),
        ]
    ],
]  # fmt: skip

CASTS = [
    Case("cast to float32", lambda x: ops.cast(x, "float32"), [real(*S)],
         lambda x: x.astype("float32"), gradient=False),
    Case("cast to float64", lambda x: ops.cast(x, "float64") * 2, [real(*S)], lambda x: x * 2),
    *[
        Case(f"cast to {dtype}", lambda x, dtype=dtype: ops.cast(x, dtype),
             [given([0.0, 1.9, -1.9, 100.5] if dtype != "uint8" else [0.0, 1.9, 200.5])],
             lambda x, dtype=dtype: x.astype(dtype), gradient=False)
        for dtype in ["int8", "uint8", "int32", "int64", "bool"]
    ],
    *[
        Case(f"cast {dtype} to float", lambda x: ops.cast(x, "float32"),
             [whole(*S, low=0, high=2, dtype=dtype)], lambda x: x.astype("float32"),
             gradient=False)
        for dtype in ["int8", "uint8", "int32", "int64", "bool"]
    ],
]  # fmt: skip


def over(f, **kwargs):
    return lambda x: f(x, **kwargs)


T = (2, 3, 4)
AXES = [None, 0, 1, 2, -1, (0, 2), (0, 1), (1, 2)]
REDUCTIONS = [
    *[
        Case(f"{f.__name__} axis={axis} keepdims={keep}", over(f, axis=axis, keepdims=keep),
             [draw(*T)], over(e, axis=axis, keepdims=keep), terms=24)
        for f, e, draw in [
            (ops.sum, np.sum, real), (ops.mean, np.mean, real), (ops.max, np.max, distinct),
            (ops.min, np.min, distinct),
        ]
        for axis in AXES for keep in [False, True]
    ],
    *[
        Case(f"{f.__name__} axis={axis}", over(f, axis=axis), [real(*T)], over(e, axis=axis),
             terms=24)
        for f, e in [(ops.var, np.var), (ops.std, np.std), (ops.prod, np.prod)]
        for axis in AXES
    ],
    *[
        Case(f"{f.__name__} axis={axis}", over(f, axis=axis), [draw], over(e, axis=axis),
             gradient=False)
        for f, e, draw in [
            (ops.argmax, np.argmax, distinct(*T)), (ops.argmin, np.argmin, distinct(*T)),
            (ops.any, np.any, truth(*T)), (ops.all, np.all, truth(*T)),
            (ops.count_nonzero, np.count_nonzero, whole(*T, high=2)),
        ]
        for axis in [None, 0, 1, -1]
    ],
    Case("sum no axis", over(ops.sum, axis=()), [real(*T)], lambda x: x),
    Case("sum empty", over(ops.sum, axis=0), [real(0, 3)], over(np.sum, axis=0)),
    Case("sum long", ops.sum, [real(1000)], np.sum, terms=1000, gradient=False),
    Case("sum long axis 0", over(ops.sum, axis=0), [real(300, 7)], over(np.sum, axis=0), terms=300,
         gradient=False),
    Case("sum integers", over(ops.sum, axis=1), [whole(*T)], over(np.sum, axis=1),
         gradient=False),
    Case("sum booleans", ops.sum, [truth(*T)], np.sum, gradient=False),
    Case("sum uint8", ops.sum, [whole(600, low=200, high=255, dtype="uint8")],
         lambda x: x.astype(int).sum(), gradient=False),
    Case("mean integers", ops.mean, [whole(*T)], np.mean, gradient=False),
    Case("max with nan", over(ops.max, axis=1), [given([[1.0, np.nan], [2.0, np.inf]])],
         over(np.max, axis=1), gradient=False),
    Case("max integers", over(ops.max, axis=0), [whole(*T)], over(np.max, axis=0),
         gradient=False),
    Case("max booleans", over(ops.max, axis=0), [truth(*T)], over(np.max, axis=0),
         gradient=False),
    Case("argmax ties", over(ops.argmax, axis=1), [whole(4, 9, high=2)], over(np.argmax, axis=1),
         gradient=False),
    Case("argmax with nan", over(ops.argmax, axis=1), [given([[1.0, np.nan, 3.0]])],
         over(np.argmax, axis=1), gradient=False),
    Case("argmax keepdims", over(ops.argmax, axis=1, keepdims=True), [distinct(*T)],
         over(np.argmax, axis=1, keepdims=True), gradient=False),
    Case("prod with zeros", over(ops.prod, axis=1),
         [given([[1.0, 0.0, 3.0], [0.0, 0.0, 2.0], [1.5, 2.0, 3.0]])], over(np.prod, axis=1)),
    Case("average weighted", lambda x, w: ops.average(x, 1, w), [real(*T), real(3, low=0.5)],
         lambda x, w: np.average(x, 1, w), terms=3),
]  # fmt: skip

CASES = [*UNARY, *BINARY, *CASTS, *REDUCTIONS]
