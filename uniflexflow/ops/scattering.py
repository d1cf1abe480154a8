"""Sums by place: scatter, segment sums, counts; the transpose of ``take``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from uniflexflow.ir import Value, apply, constant
from uniflexflow.ops.dispatch import as_value, cast_to, op
from uniflexflow.ops.elementwise import where
from uniflexflow.ops.indexing import TAKE_GRADIENT, index_value
from uniflexflow.ops.reduction import all as all_over
from uniflexflow.ops.reduction import sum as sum_over
from uniflexflow.ops.shaping import broadcast_to, reshape

__all__ = ["bincount", "scatter", "scatter_update", "segment_sum"]


@op
def scatter(indices: ArrayLike, values: ArrayLike, shape: Sequence[int]) -> Any:
    """Return a tensor of zeros with ``values`` added at ``indices``.

    Parameters
    ----------
    indices : integer tensor of shape (..., n)
        Each row is a place along the first n axes of the result.
    values : tensor of shape ``(..., *shape[n:])``
    shape : sequence of int

    Examples
    --------
    >>> scatter([[0], [2], [0]], [1.0, 2.0, 3.0], (3,))
    array([4., 0., 2.], dtype=float32)
    """
    indices, values, shape = index_value("scatter", indices), as_value(values), tuple(shape)
    n = indices.shape[-1] if indices.ndim else 0
    if not 0 < n <= len(shape) or values.shape != indices.shape[:-1] + shape[n:]:
        raise ValueError(
            f"scatter: indices of shape {indices.shape} into a tensor of shape {shape} need "
            f"values of shape {indices.shape[:-1] + shape[n:]}; received {values.shape}."
        )
    rows = math.prod(shape[:n])
    flat = _flat_places(reshape(indices, (-1, n)), shape[:n])
    updates = reshape(values, (flat.shape[0], *shape[n:]))
    out = apply(TAKE_GRADIENT, updates, flat, shape=(rows, *shape[n:]), axis=0)
    return reshape(out, shape)


def _flat_places(places: Value, sizes: tuple[int, ...]) -> Value:
    """Turn rows of indices (m, n) into numbers of the flattened axes; -1 counts from the end.

    A row with an index outside its axis gets a number outside of all.
    """
    limit = constant(sizes, places.dtype)
    wrapped = where(places < 0, places + limit, places)
    strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    flat = sum_over(wrapped * constant(strides, places.dtype), 1)
    inside = all_over((wrapped >= 0) & (wrapped < limit), 1)
    return where(inside, flat, math.prod(sizes))


@op
def scatter_update(inputs: ArrayLike, indices: ArrayLike, updates: ArrayLike) -> Any:
    """Return ``inputs`` with the elements at ``indices`` replaced.

    Parameters are as in ``scatter``; the places must differ from each other (the updates
    of a place named twice are added).

    Parameters
    ----------
    inputs : tensor
    indices : integer tensor of shape (..., n)
    updates : tensor
    """
    inputs, indices, updates = as_value(inputs), as_value(indices), as_value(updates)
    updates = cast_to(updates, inputs.dtype)
    hits = scatter(indices, broadcast_to(constant(1, "int32"), updates.shape), inputs.shape)
    return where(hits > 0, scatter(indices, updates, inputs.shape), inputs)


@op
def segment_sum(data: ArrayLike, segment_ids: ArrayLike, num_segments: int) -> Any:
    """Sum the rows of ``data`` that have the same segment number.

    ``segment_ids`` is a vector with one number per row; they need not be sorted. Rows with
    a number outside 0..num_segments-1 are left out.

    Parameters
    ----------
    data : tensor
        Its rows are summed.
    segment_ids : integer vector
    num_segments : int
        Rows of the result.
    """
    data, ids = as_value(data), index_value("segment_sum", segment_ids)
    if ids.ndim != 1 or data.shape[:1] != ids.shape:
        raise ValueError(
            f"segment_sum: data of shape {data.shape} needs one segment number per row; "
            f"received shape {ids.shape}."
        )
    ids = where(ids < 0, num_segments, ids)
    shape = (int(num_segments), *data.shape[1:])
    return apply(TAKE_GRADIENT, data, ids, shape=shape, axis=0)


@op
def bincount(x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0) -> Any:
    """Count the numbers 0..minlength-1 in an integer vector, or sum their weights.

    The length of the result must be known beforehand, so larger numbers are left out.

    Parameters
    ----------
    x : integer vector
    weights : vector, optional
        One for each number.
    minlength : int
        Length of the result.
    """
    x = index_value("bincount", x)
    if minlength <= 0:
        raise ValueError(f"bincount: expected a positive `minlength`; received {minlength}.")
    counted = broadcast_to(constant(1, "int32"), x.shape) if weights is None else weights
    return segment_sum(reshape(counted, (-1,)), reshape(x, (-1,)), minlength)
