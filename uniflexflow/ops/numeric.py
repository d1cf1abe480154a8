"""Element by element, made of other operations: limits, tests of floats, more functions."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import ArrayLike

from uniflexflow.ops.dispatch import as_value, cast_to, meet, op
from uniflexflow.ops.dtypes import finfo, floatx, is_float
from uniflexflow.ops.elementwise import (
    abs,
    cos,
    equal,
    exp,
    expm1,
    floor,
    isfinite,
    isnan,
    less_equal,
    log,
    log1p,
    logical_or,
    maximum,
    minimum,
    not_equal,
    sin,
    where,
)

__all__ = [
    "arctanh",
    "clip",
    "cosh",
    "deg2rad",
    "divide_no_nan",
    "exp2",
    "isclose",
    "isinf",
    "log2",
    "log10",
    "logaddexp",
    "logical_xor",
    "nan_to_num",
    "rad2deg",
    "sinh",
    "tan",
    "trunc",
]


@op
def clip(x: ArrayLike, x_min: ArrayLike | None, x_max: ArrayLike | None) -> Any:
    """Bring each element between two limits; None is no limit.

    The gradient is 1 inside and 0 outside; on a limit it is 1/2.

    Parameters
    ----------
    x : tensor
    x_min, x_max : number, tensor or None

    Examples
    --------
    >>> clip(np.array([-2.0, 0.5, 9.0]), 0.0, 1.0)
    array([0. , 0.5, 1. ])
    """
    x = as_value(x)
    if x_min is not None:
        x = maximum(x, x_min)
    return x if x_max is None else minimum(x, x_max)


@op
def tan(x: ArrayLike) -> Any:
    """Return the tangent of x in radians, element by element."""
    return sin(x) / cos(x)


@op
def sinh(x: ArrayLike) -> Any:
    """Return the hyperbolic sine (e**x - e**-x) / 2, element by element."""
    return (expm1(x) - expm1(-as_value(x))) * 0.5


@op
def cosh(x: ArrayLike) -> Any:
    """Return the hyperbolic cosine (e**x + e**-x) / 2, element by element."""
    return (exp(x) + exp(-as_value(x))) * 0.5


@op
def arctanh(x: ArrayLike) -> Any:
    """Return the number whose hyperbolic tangent is x, element by element."""
    return (log1p(x) - log1p(-as_value(x))) * 0.5


@op
def log2(x: ArrayLike) -> Any:
    """Return the logarithm to base 2, element by element."""
    return log(x) * (1 / math.log(2))


@op
def log10(x: ArrayLike) -> Any:
    """Return the logarithm to base 10, element by element."""
    return log(x) * (1 / math.log(10))


@op
def exp2(x: ArrayLike) -> Any:
    """Return 2 to the power x, element by element."""
    return exp(as_value(x) * math.log(2))


@op
def logaddexp(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Return log(exp(x1) + exp(x2)) without overflow, element by element."""
    a, b = meet(x1, x2)
    high = maximum(a, b)
    distance = abs(a - b)
    # equal infinities have no distance
    return where(isfinite(distance), high + log1p(exp(-distance)), high)


@op
def divide_no_nan(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Return x1 / x2, and 0 where x2 is 0, element by element; the gradient there is 0 too."""
    a, b = meet(x1, x2)
    empty = equal(b, 0)
    return where(empty, 0.0, a / where(empty, 1, b))


@op
def deg2rad(x: ArrayLike) -> Any:
    """Return degrees as radians, element by element."""
    return as_value(x) * (math.pi / 180)


@op
def rad2deg(x: ArrayLike) -> Any:
    """Return radians as degrees, element by element."""
    return as_value(x) * (180 / math.pi)


@op
def trunc(x: ArrayLike) -> Any:
    """Cut the fraction, element by element; whole numbers become floats."""
    x = as_value(x)
    return where(x < 0, -floor(-x), floor(x))


@op
def isinf(x: ArrayLike) -> Any:
    """Say whether x is plus or minus infinity, element by element."""
    x = as_value(x)
    return equal(abs(x if is_float(x.dtype) else cast_to(x, floatx())), math.inf)


@op
def isclose(
    x1: ArrayLike,
    x2: ArrayLike,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Any:
    """Say whether ``|x1 - x2| <= atol + rtol |x2|``, element by element; equal infinities are.

    Parameters
    ----------
    x1, x2 : tensor
    rtol, atol : float
        How far they may be apart, relative to x2 and at all.
    equal_nan : bool
        Whether NaN is close to NaN.
    """
    a, b = meet(x1, x2)
    if not is_float(a.dtype):
        a, b = cast_to(a, "float64"), cast_to(b, "float64")
    near = isfinite(b) & less_equal(abs(a - b), abs(b) * rtol + atol)
    close = logical_or(near, equal(a, b))
    return logical_or(close, isnan(a) & isnan(b)) if equal_nan else close


@op
def nan_to_num(
    x: ArrayLike, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """Replace NaN and infinities, element by element; by default with 0 and the largest floats.

    Parameters
    ----------
    x : tensor
    nan, posinf, neginf : float, optional
        What stands for NaN and the infinities.
    """
    x = as_value(x)
    if not is_float(x.dtype):
        return x
    limits = finfo(x.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    x = where(equal(x, math.inf), high, where(equal(x, -math.inf), low, x))
    return where(isnan(x), nan, x)


@op
def logical_xor(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Say whether exactly one of both is true, element by element."""
    return not_equal(cast_to(as_value(x1), "bool"), cast_to(as_value(x2), "bool"))
