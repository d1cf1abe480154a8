"""Tensors made of nothing: constants by shape, ranges, the identity.

Equal elements are one number, broadcast: a constant of a large shape costs no memory
until something needs it whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import constant
from uniflexflow.ops.dispatch import as_value, cast_to, op
from uniflexflow.ops.dtypes import canonical_dtype, floatx
from uniflexflow.ops.elementwise import where
from uniflexflow.ops.shaping import broadcast_to, reshape

__all__ = [
    "arange",
    "eye",
    "full",
    "full_like",
    "identity",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tri",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

Shape = int | Sequence[int]


def _shape(shape: Shape) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(n) for n in shape)


@op
def full(shape: Shape, fill_value: ArrayLike, dtype: str | None = None) -> Any:
    """Return a tensor of equal elements (or of a value broadcast to ``shape``).

    Parameters
    ----------
    shape : int or sequence of int
    fill_value : number or tensor
    dtype : str, optional
        That of ``fill_value`` by default.
    """
    value = as_value(fill_value)
    if dtype is not None:
        value = cast_to(value, canonical_dtype(dtype))
    return broadcast_to(value, _shape(shape))


@op
def zeros(shape: Shape, dtype: str | None = None) -> Any:
    """Return zeros of a shape; ``floatx()`` by default."""
    return full(shape, 0, dtype or floatx())


@op
def ones(shape: Shape, dtype: str | None = None) -> Any:
    """Return ones of a shape; ``floatx()`` by default."""
    return full(shape, 1, dtype or floatx())


@op
def full_like(x: ArrayLike, fill_value: ArrayLike, dtype: str | None = None) -> Any:
    """Return equal elements of the shape, and by default the dtype, of a tensor.

    Parameters
    ----------
    x : tensor
    fill_value : number or tensor
    dtype : str, optional
    """
    x = as_value(x)
    return full(x.shape, fill_value, dtype or x.dtype)


@op
def zeros_like(x: ArrayLike, dtype: str | None = None) -> Any:
    """Return zeros of the shape, and by default the dtype, of a tensor."""
    return full_like(x, 0, dtype)


@op
def ones_like(x: ArrayLike, dtype: str | None = None) -> Any:
    """Return ones of the shape, and by default the dtype, of a tensor."""
    return full_like(x, 1, dtype)


@op
def arange(
    start: float, stop: float | None = None, step: float = 1, dtype: str | None = None
) -> Any:
    """Return start, start + step, ... below stop; from 0 if only one number is given.

    The dtype is int32 by default, ``floatx()`` if a number is a float.

    Parameters
    ----------
    start, stop, step : number
    dtype : str, optional

    Examples
    --------
    >>> arange(2, 8, 3)
    array([2, 5], dtype=int32)
    """
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        dtype = floatx() if any(isinstance(n, float) for n in (start, stop, step)) else "int32"
    return constant(np.arange(start, stop, step), canonical_dtype(dtype))


@op
def linspace(
    start: float,
    stop: float,
    num: int = 50,
    endpoint: bool = True,
    dtype: str | None = None,
) -> Any:
    """Return ``num`` evenly spaced numbers from start to stop.

    Parameters
    ----------
    start, stop : number
    num : int
    endpoint : bool
        Whether ``stop`` is the last of them.
    dtype : str, optional
        ``floatx()`` by default.
    """
    return constant(
        np.linspace(start, stop, num, endpoint=endpoint), canonical_dtype(dtype or floatx())
    )


@op
def eye(N: int, M: int | None = None, k: int = 0, dtype: str | None = None) -> Any:
    """Return an N x M matrix with ones on its k-th diagonal.

    Parameters
    ----------
    N, M : int
        Rows and columns; M is N by default.
    k : int
        Above the main diagonal if positive.
    dtype : str, optional
        ``floatx()`` by default.
    """
    return constant(np.eye(N, M, k), canonical_dtype(dtype or floatx()))


@op
def identity(n: int, dtype: str | None = None) -> Any:
    """Return the n x n identity matrix."""
    return eye(n, dtype=dtype)


@op
def tri(N: int, M: int | None = None, k: int = 0, dtype: str | None = None) -> Any:
    """Return an N x M matrix with ones on and below its k-th diagonal.

    Parameters
    ----------
    N, M : int
        Rows and columns; M is N by default.
    k : int
        Above the main diagonal if positive.
    dtype : str, optional
        ``floatx()`` by default.
    """
    return constant(np.tri(N, M, k), canonical_dtype(dtype or floatx()))


def _triangle(name: str, x: Any, k: int, lower: bool) -> Any:
    x = as_value(x)
    if x.ndim < 2:
        raise ValueError(f"{name}: expected a matrix or a stack of them; received {x.shape}.")
    keep = np.tri(x.shape[-2], x.shape[-1], k if lower else k - 1, dtype=bool)
    return where(constant(keep if lower else ~keep), x, constant(0, x.dtype))


@op
def tril(x: ArrayLike, k: int = 0) -> Any:
    """Return the elements on and below the k-th diagonal, zeros above it."""
    return _triangle("tril", x, k, lower=True)


@op
def triu(x: ArrayLike, k: int = 0) -> Any:
    """Return the elements on and above the k-th diagonal, zeros below it."""
    return _triangle("triu", x, k, lower=False)


@op
def meshgrid(*xs: ArrayLike, indexing: str = "xy") -> Any:
    """Return coordinate grids of vectors: one tensor each, of all their lengths.

    Parameters
    ----------
    *xs : vectors
    indexing : {"xy", "ij"}
        With ``"xy"`` the first two axes of the results are exchanged.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: unknown indexing {indexing!r}; expected 'xy' or 'ij'.")
    vectors = [reshape(as_value(x), (-1,)) for x in xs]
    place = list(range(len(vectors)))
    if indexing == "xy" and len(place) > 1:
        place[:2] = 1, 0
    shape = [0] * len(vectors)
    for axis, vector in zip(place, vectors):
        shape[axis] = vector.shape[0]
    grids = []
    for axis, vector in zip(place, vectors):
        column = (1,) * axis + vector.shape + (1,) * (len(shape) - axis - 1)
        grids.append(broadcast_to(reshape(vector, column), tuple(shape)))
    return grids
