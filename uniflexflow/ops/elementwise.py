"""Elementwise operations: one row each, with broadcasting by NumPy's rule.

A row gives the name, the meaning in NumPy, and the derivative. Primitives take
operands of one dtype; the public functions below them promote first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import Node, OpDef, TensorSpec, Value, apply
from uniflexflow.ops.dispatch import as_value, cast_to, meet, op
from uniflexflow.ops.dtypes import canonical_dtype, floatx, is_float
from uniflexflow.ops.elementwise_rules import elementwise_indices, row, same_dtype, unary
from uniflexflow.ops.registry import primitive
from uniflexflow.ops.shape_rules import broadcast_shapes, sum_to

__all__ = [
    "abs",
    "absolute",
    "add",
    "cast",
    "ceil",
    "cos",
    "divide",
    "equal",
    "erf",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "isfinite",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "power",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "softplus",
    "sqrt",
    "square",
    "stop_gradient",
    "subtract",
    "tanh",
    "true_divide",
    "where",
]


def _erf(x: np.ndarray) -> np.ndarray:
    # NumPy has no erf, so one number at a time
    return np.vectorize(math.erf, otypes=[x.dtype])(x) if x.size else x.copy()


def _sigmoid(x: np.ndarray) -> np.ndarray:
    z = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + z), z / (1 + z)).astype(x.dtype)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


# -- the rows ----------------------------------------------------------------------

NEGATIVE = unary("negative", np.negative, lambda x, y, g: -g, linear="all")
ABS = unary("abs", np.abs, lambda x, y, g: g * sign(x))
SIGN = unary("sign", np.sign, None)
EXP = unary("exp", np.exp, lambda x, y, g: g * y, kinds="f")
EXPM1 = unary("expm1", np.expm1, lambda x, y, g: g * (y + 1), kinds="f")
LOG = unary("log", np.log, lambda x, y, g: g / x, kinds="f")
LOG1P = unary("log1p", np.log1p, lambda x, y, g: g / (x + 1), kinds="f")
SQRT = unary("sqrt", np.sqrt, lambda x, y, g: g * 0.5 / y, kinds="f")
RSQRT = unary("rsqrt", lambda x: 1 / np.sqrt(x), lambda x, y, g: g * -0.5 * y / x, kinds="f")
RECIPROCAL = unary("reciprocal", lambda x: 1 / x, lambda x, y, g: -g * y * y, kinds="f")
SQUARE = unary("square", np.square, lambda x, y, g: g * 2 * x)
SIN = unary("sin", np.sin, lambda x, y, g: g * cos(x), kinds="f")
COS = unary("cos", np.cos, lambda x, y, g: -g * sin(x), kinds="f")
TANH = unary("tanh", np.tanh, lambda x, y, g: g * (1 - y * y), kinds="f")
SIGMOID = unary("sigmoid", _sigmoid, lambda x, y, g: g * y * (1 - y), kinds="f")
SOFTPLUS = unary("softplus", _softplus, lambda x, y, g: g * sigmoid(x), kinds="f")
ERF = unary("erf", _erf, lambda x, y, g: g * (2 / math.sqrt(math.pi)) * exp(-x * x), kinds="f")
RELU = unary(
    "relu",
    lambda x: np.maximum(x, 0),
    lambda x, y, g: apply(RELU_GRADIENT, g, y),
)
FLOOR = unary("floor", np.floor, None, kinds="f")
CEIL = unary("ceil", np.ceil, None, kinds="f")
ROUND = unary("round", np.round, None, kinds="f")
LOGICAL_NOT = unary("logical_not", np.logical_not, None, kinds="b")
ISNAN = unary("isnan", np.isnan, None, out_dtype="bool", kinds="f")
ISFINITE = unary("isfinite", np.isfinite, None, out_dtype="bool", kinds="f")

# relu_gradient(g, y) = g where y > 0, else 0; linear in g
RELU_GRADIENT = row(
    "relu_gradient",
    lambda g, y: np.where(y > 0, g, np.zeros_like(g)),
    lambda node, gg: (apply(RELU_GRADIENT, gg, node.inputs[1]), None),
)

ADD = row("add", np.add, lambda node, g: (g, g), linear="all")
SUBTRACT = row("subtract", np.subtract, lambda node, g: (g, -g), linear="all")
MULTIPLY = row(
    "multiply",
    np.multiply,
    lambda node, g: (g * node.inputs[1], g * node.inputs[0]),
    linear="one",
)
DIVIDE = row(
    "divide",
    np.divide,
    lambda node, g: (g / node.inputs[1], -g * node.outputs[0] / node.inputs[1]),
    kinds="f",
)


def _power_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f":
        return np.power(x, y)
    # whole numbers: the fraction of x**-n is cut, which leaves something of 1 and -1 only
    exact = np.power(x, np.maximum(y, 0))
    inverse = np.where(np.abs(x) == 1, np.where(y % 2 == 0, 1, x), 0)
    return np.where(y < 0, inverse, exact).astype(x.dtype)


def _power_derivative(node: Node, g: Value) -> tuple[Value, Value]:
    # d/dx x**y = y x**(y-1), 0 where y = 0;  d/dy x**y = x**y log x, 0 where x <= 0
    x, y = node.inputs
    positive = x > 0
    by_x = y * power(x, where(equal(y, 0.0), 1.0, y - 1))
    by_y = where(positive, node.outputs[0] * log(where(positive, x, 1.0)), 0.0)
    return g * by_x, g * by_y


# whole numbers with a negative exponent: the fraction is cut, 1/0 gives 0
POWER = row("power", _power_reference, _power_derivative)


def _pick(node: Node, g: Value, first: Value) -> tuple[Value, Value]:
    # ties share the gradient equally, as a sum over both operands must give g
    a, b = node.inputs
    tie = cast(equal(a, b), g.dtype) * 0.5
    share = cast(first, g.dtype) + tie
    return g * share, g * (1 - share)


MAXIMUM = row("maximum", np.maximum, lambda n, g: _pick(n, g, n.inputs[0] > n.inputs[1]))
MINIMUM = row("minimum", np.minimum, lambda n, g: _pick(n, g, n.inputs[0] < n.inputs[1]))
# whole numbers divided by 0 give 0, as NumPy has it
FLOOR_DIVIDE = row("floor_divide", np.floor_divide, lambda node, g: (None, None))
MOD = row(
    "mod",
    np.mod,
    lambda n, g: (g, -g * floor_divide(n.inputs[0], n.inputs[1])),
)


def _comparison(name: str, reference: Callable[..., Any], kinds: str = "fiub") -> OpDef:
    return row(name, reference, lambda node, g: (None, None), out_dtype="bool", kinds=kinds)


EQUAL = _comparison("equal", np.equal)
NOT_EQUAL = _comparison("not_equal", np.not_equal)
LESS = _comparison("less", np.less)
LESS_EQUAL = _comparison("less_equal", np.less_equal)
GREATER = _comparison("greater", np.greater)
GREATER_EQUAL = _comparison("greater_equal", np.greater_equal)
LOGICAL_AND = _comparison("logical_and", np.logical_and, kinds="b")
LOGICAL_OR = _comparison("logical_or", np.logical_or, kinds="b")


def _where_infer(condition: TensorSpec, a: TensorSpec, b: TensorSpec) -> TensorSpec:
    if condition.dtype != "bool":
        raise TypeError(f"where: the condition must be bool; received {condition.dtype}.")
    dtype = same_dtype("where", (a, b))
    return TensorSpec(broadcast_shapes("where", condition.shape, a.shape, b.shape), dtype)


def _where_gradient(node: Node, g: Value) -> tuple[Value | None, ...]:
    condition, a, b = node.inputs
    return (
        None,
        sum_to(where(condition, g, 0.0), a.shape),
        sum_to(where(condition, 0.0, g), b.shape),
    )


# y = a where the condition holds, else b
WHERE = primitive(
    "where",
    infer=_where_infer,
    reference=np.where,
    gradient=_where_gradient,
    indices=elementwise_indices,
    elementwise=True,
)


def _cast_reference(x: np.ndarray, *, dtype: str, unrounded: bool = False) -> np.ndarray:
    # to bfloat16 from float32 alone: numbers of more bits are rounded twice
    return (x.astype("float32") if dtype == "bfloat16" else x).astype(dtype)


# y = x in another dtype: a float loses its fraction in an integer (NaN and numbers outside
# of the dtype give any integer), and is true in a bool if it is not 0. `unrounded`: x was
# rounded for want of a kernel, and what it was rounded from will do; see passes.widen.
CAST = primitive(
    "cast",
    infer=lambda x, *, dtype, unrounded=False: TensorSpec(x.shape, dtype),
    reference=_cast_reference,
    gradient=lambda node, g: (
        apply(CAST, g, dtype=node.inputs[0].dtype) if is_float(node.inputs[0].dtype) else None,
    ),
    indices=elementwise_indices,
    linear="all",
    elementwise=True,
)
# y = x, a constant for derivatives
STOP_GRADIENT = primitive(
    "stop_gradient",
    infer=lambda x: x,
    reference=lambda x: x,
    gradient=lambda node, g: (None,),
    indices=elementwise_indices,
    linear="all",
    elementwise=True,
)

# -- public functions --------------------------------------------------------------


def _float_value(x: Any) -> Value:
    """Return ``x`` as a float tensor; integers become ``floatx()``."""
    value = as_value(x)
    return value if is_float(value.dtype) else cast_to(value, floatx())


def _number(value: Value) -> Value:
    """Return booleans as whole numbers."""
    return cast_to(value, "int32") if value.dtype == "bool" else value


def _public_unary(row: OpDef, summary: str, needs_float: bool = True) -> Callable[..., Any]:
    def f(x: ArrayLike) -> Any:
        return apply(row, _float_value(x) if needs_float else _number(as_value(x)))

    f.__name__ = f.__qualname__ = row.name
    f.__doc__ = f"{summary}, element by element."
    return op(f)


def _public_binary(
    row: OpDef, summary: str, needs_float: bool = False, keeps_bool: bool = False
) -> Callable[..., Any]:
    def f(x1: ArrayLike, x2: ArrayLike) -> Any:
        a, b = meet(x1, x2)
        if needs_float and not is_float(a.dtype):
            a, b = cast_to(a, floatx()), cast_to(b, floatx())
        elif not keeps_bool:
            a, b = _number(a), _number(b)
        return apply(row, a, b)

    f.__name__ = f.__qualname__ = row.name
    f.__doc__ = f"{summary}, element by element, with broadcasting."
    return op(f)


negative = _public_unary(NEGATIVE, "Return -x", needs_float=False)
abs = absolute = _public_unary(ABS, "Return the absolute value", needs_float=False)
sign = _public_unary(SIGN, "Return -1, 0 or 1 by the sign", needs_float=False)
exp = _public_unary(EXP, "Return e to the power x")
expm1 = _public_unary(EXPM1, "Return exp(x) - 1, precise near 0")
log = _public_unary(LOG, "Return the natural logarithm")
log1p = _public_unary(LOG1P, "Return log(1 + x), precise near 0")
sqrt = _public_unary(SQRT, "Return the square root")
rsqrt = _public_unary(RSQRT, "Return 1 / sqrt(x)")
reciprocal = _public_unary(RECIPROCAL, "Return 1 / x")
square = _public_unary(SQUARE, "Return x * x", needs_float=False)
sin = _public_unary(SIN, "Return the sine of x in radians")
cos = _public_unary(COS, "Return the cosine of x in radians")
tanh = _public_unary(TANH, "Return the hyperbolic tangent")
sigmoid = _public_unary(SIGMOID, "Return 1 / (1 + exp(-x))")
softplus = _public_unary(SOFTPLUS, "Return log(1 + exp(x))")
erf = _public_unary(ERF, "Return the error function")
relu = _public_unary(RELU, "Return max(x, 0)", needs_float=False)
floor = _public_unary(FLOOR, "Return the largest whole number not above x")
ceil = _public_unary(CEIL, "Return the smallest whole number not below x")
round = _public_unary(ROUND, "Return the nearest whole number, ties to even")
isnan = _public_unary(ISNAN, "Say whether x is not a number")
isfinite = _public_unary(ISFINITE, "Say whether x is neither infinite nor NaN")

add = _public_binary(ADD, "Return x1 + x2")
subtract = _public_binary(SUBTRACT, "Return x1 - x2")
multiply = _public_binary(MULTIPLY, "Return x1 * x2")
divide = true_divide = _public_binary(DIVIDE, "Return x1 / x2", needs_float=True)
maximum = _public_binary(MAXIMUM, "Return the larger of x1 and x2")
minimum = _public_binary(MINIMUM, "Return the smaller of x1 and x2")
floor_divide = _public_binary(FLOOR_DIVIDE, "Return floor(x1 / x2)")
mod = _public_binary(MOD, "Return x1 - x2 * floor(x1 / x2)")
equal = _public_binary(EQUAL, "Say whether x1 == x2", keeps_bool=True)
not_equal = _public_binary(NOT_EQUAL, "Say whether x1 != x2", keeps_bool=True)
less = _public_binary(LESS, "Say whether x1 < x2")
less_equal = _public_binary(LESS_EQUAL, "Say whether x1 <= x2")
greater = _public_binary(GREATER, "Say whether x1 > x2")
greater_equal = _public_binary(GREATER_EQUAL, "Say whether x1 >= x2")


@op
def power(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Return x1 to the power x2, element by element, with broadcasting.

    A Python number as exponent is done by cheaper operations where there are some, and a
    negative one makes whole numbers floats. Otherwise whole numbers stay whole: the
    fraction of a negative power is cut.
    """
    if isinstance(x2, (int, float)) and not isinstance(x2, bool):
        x = as_value(x1)
        if x2 < 0 or isinstance(x2, float):
            x = _float_value(x)
        simple = {2: SQUARE, 0.5: SQRT, -1: RECIPROCAL, -0.5: RSQRT}.get(x2)
        if simple is not None:
            return apply(simple, _number(x))
        if x2 == 1:
            return _number(x)
        x1 = x
    a, b = meet(x1, x2)
    return apply(POWER, _number(a), _number(b))


@op
def logical_not(x: ArrayLike) -> Any:
    """Return the truth of ``x == 0``, element by element."""
    return apply(LOGICAL_NOT, cast_to(as_value(x), "bool"))


@op
def logical_and(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Say whether both are true, element by element."""
    return apply(LOGICAL_AND, *[cast_to(as_value(x), "bool") for x in (x1, x2)])


@op
def logical_or(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Say whether at least one is true, element by element."""
    return apply(LOGICAL_OR, *[cast_to(as_value(x), "bool") for x in (x1, x2)])


@op
def where(condition: ArrayLike, x1: ArrayLike, x2: ArrayLike) -> Any:
    """Choose x1 where the condition is true, else x2, with broadcasting.

    Parameters
    ----------
    condition : tensor of bool
    x1, x2 : tensor or number
    """
    return apply(WHERE, cast_to(as_value(condition), "bool"), *meet(x1, x2))


@op
def cast(x: ArrayLike, dtype: str) -> Any:
    """Convert to ``dtype``; a float becomes an integer by cutting its fraction."""
    return cast_to(as_value(x), canonical_dtype(dtype))


@op
def stop_gradient(x: ArrayLike) -> Any:
    """Return x, with a gradient of zero."""
    return apply(STOP_GRADIENT, as_value(x))
