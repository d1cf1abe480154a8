"""Products and parts of matrices: dot, tensordot, outer, norms, diagonals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from uniflexflow.ir import Value, apply
from uniflexflow.ops.contraction import matmul
from uniflexflow.ops.dispatch import as_value, cast_to, meet, op
from uniflexflow.ops.dtypes import floatx, is_float
from uniflexflow.ops.elementwise import abs, not_equal, power, sqrt, square
from uniflexflow.ops.reduction import max as max_over
from uniflexflow.ops.reduction import min as min_over
from uniflexflow.ops.reduction import sum as sum_over
from uniflexflow.ops.shape_rules import normalize_axes, normalize_axis
from uniflexflow.ops.shaping import reshape, transpose
from uniflexflow.ops.slicing import PAD, SLICE

__all__ = [
    "diag",
    "diagonal",
    "dot",
    "inner",
    "norm",
    "outer",
    "tensordot",
    "trace",
    "vdot",
]


@op
def dot(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Contract the last axis of x1 with the one but last of x2 (its only one if a vector).

    Scalars multiply.
    """
    a, b = meet(x1, x2)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    return tensordot(a, b, axes=((a.ndim - 1,), (max(b.ndim - 2, 0),)))


@op
def inner(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Contract the last axes of both. Scalars multiply."""
    a, b = meet(x1, x2)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    return tensordot(a, b, axes=((a.ndim - 1,), (b.ndim - 1,)))


@op
def vdot(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Return the sum of products of all elements of two flattened tensors."""
    a, b = meet(x1, x2)
    return tensordot(reshape(a, (-1,)), reshape(b, (-1,)), axes=1)


@op
def outer(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Return all products of an element of x1 and one of x2, both flattened: a matrix."""
    a, b = meet(x1, x2)
    return reshape(a, (-1, 1)) * reshape(b, (1, -1))


@op
def tensordot(x1: ArrayLike, x2: ArrayLike, axes: int | Sequence[int | Sequence[int]] = 2) -> Any:
    """Contract axes of two tensors.

    Parameters
    ----------
    x1, x2 : tensors
    axes : int or pair
        The last n axes of x1 with the first n of x2; or (axes of x1, axes of x2), each an
        int or a sequence.

    Returns
    -------
    tensor
        Its axes are the rest of x1's, then the rest of x2's.
    """
    a, b = meet(x1, x2)
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ValueError(
                f"tensordot: can't contract {axes} axes of shapes {a.shape} and {b.shape}."
            )
        first, second = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        first, second = ([x] if isinstance(x, int) else list(x) for x in axes)
        first = [normalize_axis("tensordot", i, a.ndim) for i in first]
        second = [normalize_axis("tensordot", i, b.ndim) for i in second]
    if [a.shape[i] for i in first] != [b.shape[i] for i in second]:
        raise ValueError(
            f"tensordot: axes {first} of shape {a.shape} and {second} of shape {b.shape} must "
            "have equal sizes."
        )
    rows = [i for i in range(a.ndim) if i not in first]
    columns = [i for i in range(b.ndim) if i not in second]
    shape = tuple([a.shape[i] for i in rows] + [b.shape[i] for i in columns])
    width = math.prod(a.shape[i] for i in first)
    m = math.prod(a.shape[i] for i in rows)
    n = math.prod(b.shape[i] for i in columns)
    left = reshape(transpose(a, rows + first), (m, width))
    right = reshape(transpose(b, second + columns), (width, n))
    return reshape(matmul(left, right), shape)


@op
def diagonal(x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return a diagonal of matrices; it becomes the last axis.

    A positive offset is above the main diagonal.

    Parameters
    ----------
    x : tensor
    offset : int
    axis1, axis2 : int
        Rows and columns of the matrices.
    """
    x = as_value(x)
    if x.ndim < 2:
        raise ValueError(f"diagonal: expected a tensor of two axes or more; received {x.shape}.")
    a, b = (normalize_axis("diagonal", i, x.ndim) for i in (axis1, axis2))
    if a == b:
        raise ValueError(f"diagonal: axes {axis1} and {axis2} are the same.")
    rest = [i for i in range(x.ndim) if i not in (a, b)]
    x = transpose(x, [*rest, a, b])
    lead, (n, m) = x.shape[:-2], x.shape[-2:]
    count = max(min(n, m - offset) if offset >= 0 else min(n + offset, m), 0)
    # in a row-major matrix the next diagonal element is one row and one column further
    first = (offset if offset >= 0 else -offset * m) if count else 0
    flat = reshape(x, (*lead, n * m))
    return apply(
        SLICE,
        flat,
        start=(0,) * len(lead) + (first,),
        size=(*lead, count),
        step=(1,) * len(lead) + (m + 1,),
    )


@op
def diag(x: ArrayLike, k: int = 0) -> Any:
    """Return the k-th diagonal of a matrix, or the matrix that has a vector there."""
    x = as_value(x)
    if x.ndim == 2:
        return diagonal(x, offset=k)
    if x.ndim != 1:
        raise ValueError(f"diag: expected a vector or a matrix; received shape {x.shape}.")
    n = x.shape[0] + (k if k >= 0 else -k)
    if x.shape[0] == 0:
        return reshape(apply(PAD, x, low=(n * n,), high=(0,), interior=(0,), value=0.0), (n, n))
    first = k if k >= 0 else -k * n
    last = first + (x.shape[0] - 1) * (n + 1)
    flat = apply(PAD, x, low=(first,), high=(n * n - 1 - last,), interior=(n,), value=0.0)
    return reshape(flat, (n, n))


@op
def trace(x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the sum of a diagonal of matrices.

    Parameters
    ----------
    x : tensor
    offset : int
    axis1, axis2 : int
        Rows and columns of the matrices.
    """
    return sum_over(diagonal(x, offset, axis1, axis2), -1)


@op
def norm(
    x: ArrayLike,
    ord: float | str | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
) -> Any:
    """Return the norm of vectors or matrices.

    Parameters
    ----------
    x : tensor
    ord : number, inf, -inf or "fro", optional
        Along one axis: the p-norm ``sum(|x|**p)**(1/p)``, the largest or smallest ``|x|``, or
        for 0 the count of elements that are not 0. Over two axes: "fro", or 1, -1, inf,
        -inf: the extreme sum of ``|x|`` over columns or rows. Default: the square root of
        the sum of squares.
    axis : int or pair of int, optional
        All axes by default.
    keepdims : bool
    """
    x = as_value(x)
    x = x if is_float(x.dtype) else cast_to(x, floatx())
    axes = normalize_axes("norm", axis, x.ndim)
    if ord is None or (ord == "fro" and len(axes) == 2) or (ord == 2 and len(axes) == 1):
        return sqrt(sum_over(square(x), axes, keepdims))
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) == 2 and ord in (1, -1, math.inf, -math.inf):
        row, column = axes if axis is None or isinstance(axis, int) else tuple(axis)
        summed, kept = (row, column) if ord in (1, -1) else (column, row)
        sums = sum_over(abs(x), summed, keepdims=True)
        extreme = max_over if ord > 0 else min_over
        out = extreme(sums, kept, keepdims=True)
        shape = [n for i, n in enumerate(out.shape) if keepdims or i not in axes]
        return reshape(out, tuple(shape))
    raise ValueError(
        f"norm: order {ord!r} over axes {axes} of a tensor of shape {x.shape} is not supported; "
        "over two axes expected None, 'fro', 1, -1, inf or -inf, over one a number."
    )


def _vector_norm(x: Value, order: Any, axes: tuple[int, ...], keepdims: bool) -> Value:
    if isinstance(order, str):
        raise ValueError(f"norm: order {order!r} needs two axes; received {axes}.")
    if order == math.inf:
        return max_over(abs(x), axes, keepdims)
    if order == -math.inf:
        return min_over(abs(x), axes, keepdims)
    if order == 0:
        return sum_over(cast_to(not_equal(x, 0.0), x.dtype), axes, keepdims)
    if order == 1:
        return sum_over(abs(x), axes, keepdims)
    return power(sum_over(power(abs(x), order), axes, keepdims), 1.0 / order)
