"""Copies and rearrangements made of the primitives of ``slicing`` and ``shaping``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import apply, constant
from uniflexflow.ops.dispatch import as_value, cast_to, meet, op
from uniflexflow.ops.elementwise import where
from uniflexflow.ops.indexing import TAKE
from uniflexflow.ops.shape_rules import normalize_axis
from uniflexflow.ops.shaping import broadcast_to, reshape
from uniflexflow.ops.slicing import CONCATENATE, PAD, box, concatenate, slice_axis

__all__ = [
    "append",
    "diff",
    "hstack",
    "repeat",
    "roll",
    "slice_update",
    "tile",
    "unstack",
    "vstack",
]


@op
def hstack(xs: Sequence[ArrayLike]) -> Any:
    """Join tensors along axis 1, vectors along their only one."""
    values = [reshape(v, (-1,)) if v.ndim == 0 else v for v in meet(*xs)]
    return concatenate(values, axis=0 if values[0].ndim == 1 else 1)


@op
def vstack(xs: Sequence[ArrayLike]) -> Any:
    """Join tensors along axis 0; vectors become its rows."""
    return concatenate([reshape(v, (1, -1)) if v.ndim < 2 else v for v in meet(*xs)], axis=0)


@op
def append(x1: ArrayLike, x2: ArrayLike, axis: int | None = None) -> Any:
    """Join two tensors along an axis, or flattened.

    Parameters
    ----------
    x1, x2 : tensor
    axis : int, optional
        Both are flattened by default.
    """
    values = meet(x1, x2)
    if axis is None:
        return concatenate([reshape(v, (-1,)) for v in values])
    return concatenate(values, axis)


@op
def slice_update(x: ArrayLike, start_indices: Sequence[int], updates: ArrayLike) -> Any:
    """Return ``x`` with the block that begins at ``start_indices`` replaced by ``updates``.

    Parameters
    ----------
    x : tensor
    start_indices : sequence of int
    updates : tensor
        Its shape is that of the block.
    """
    x = as_value(x)
    updates = cast_to(as_value(updates), x.dtype)
    low = tuple(int(i) for i in start_indices)
    high = tuple(n - b - m for n, b, m in zip(x.shape, low, updates.shape))
    if not len(low) == x.ndim == updates.ndim or min(low + high, default=0) < 0:
        raise ValueError(
            f"slice_update: a block of shape {updates.shape} at {low} is not inside a tensor of "
            f"shape {x.shape}."
        )
    widths = {"low": low, "high": high, "interior": (0,) * x.ndim, "value": 0.0}
    inside = np.zeros(x.shape, bool)
    inside[box(low, updates.shape, (1,) * x.ndim)] = True
    return where(constant(inside), apply(PAD, updates, **widths), x)


@op
def unstack(x: ArrayLike, num: int | None = None, axis: int = 0) -> Any:
    """Cut a tensor along an axis into a list of tensors without it.

    Parameters
    ----------
    x : tensor
    num : int, optional
        Size of the axis, if it is to be checked.
    axis : int
    """
    x = as_value(x)
    axis = normalize_axis("unstack", axis, x.ndim)
    if num is not None and num != x.shape[axis]:
        raise ValueError(f"unstack: axis {axis} of shape {x.shape} has not {num} parts.")
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    return [reshape(slice_axis(x, axis, i, i + 1), shape) for i in range(x.shape[axis])]


@op
def tile(x: ArrayLike, repeats: int | Sequence[int]) -> Any:
    """Put copies of a whole tensor one after another, ``repeats`` times per axis."""
    x = as_value(x)
    times = (repeats,) if isinstance(repeats, int) else tuple(repeats)
    ndim = max(x.ndim, len(times))
    times = (1,) * (ndim - len(times)) + times
    sizes = (1,) * (ndim - x.ndim) + x.shape
    apart = [(1, n) if r != 1 else (n,) for r, n in zip(times, sizes)]
    wide = [(r, n) if r != 1 else (n,) for r, n in zip(times, sizes)]
    x = broadcast_to(reshape(x, sum(apart, ())), sum(wide, ()))
    return reshape(x, tuple(r * n for r, n in zip(times, sizes)))


@op
def repeat(x: ArrayLike, repeats: int | Sequence[int], axis: int | None = None) -> Any:
    """Put copies of each element along an axis one after another.

    ``repeats`` is one count for all elements, or one for each.

    Parameters
    ----------
    x : tensor
    repeats : int or sequence of int
    axis : int, optional
        The tensor is flattened by default.
    """
    x = as_value(x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = normalize_axis("repeat", axis, x.ndim)
    before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    if not isinstance(repeats, (int, np.integer)):
        places = np.repeat(np.arange(n), np.asarray(repeats))
        return apply(TAKE, x, constant(places, "int32"), axis=axis)
    x = broadcast_to(reshape(x, (*before, n, 1, *after)), (*before, n, int(repeats), *after))
    return reshape(x, (*before, n * int(repeats), *after))


@op
def roll(x: ArrayLike, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Any:
    """Move elements along axes; what leaves at the end comes in at the start.

    Parameters
    ----------
    x : tensor
    shift : int or sequence of int
        Places towards the end, for each axis.
    axis : int or sequence of int, optional
        The flattened tensor by default; the shape stays.
    """
    x = as_value(x)
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, 0), x.shape)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    if len(shifts) != len(axes):
        raise ValueError(f"roll: expected one shift per axis; received {shift} for axes {axis}.")
    for a, by in zip(axes, shifts):
        a = normalize_axis("roll", a, x.ndim)
        n = x.shape[a]
        cut = n - by % n if n and by % n else 0
        if cut:
            x = apply(CONCATENATE, slice_axis(x, a, cut, n), slice_axis(x, a, 0, cut), axis=a)
    return x


@op
def diff(a: ArrayLike, n: int = 1, axis: int = -1) -> Any:
    """Return the differences of neighbours along an axis, taken n times.

    Parameters
    ----------
    a : tensor
    n : int
    axis : int
    """
    a = as_value(a)
    axis = normalize_axis("diff", axis, a.ndim)
    for _ in range(n):
        size = a.shape[axis]
        if size == 0:
            break
        a = slice_axis(a, axis, 1, size) - slice_axis(a, axis, 0, size - 1)
    return a
