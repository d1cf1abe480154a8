"""Order and running sums: argsort and what follows from it, cumulative sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import Indices, Node, TensorSpec, apply
from uniflexflow.ops.dispatch import as_value, cast_to, meet, op
from uniflexflow.ops.dtypes import is_float
from uniflexflow.ops.elementwise import isfinite
from uniflexflow.ops.indexing import TAKE_ALONG_LAST, index_value, take_along_axis
from uniflexflow.ops.reduction import sum as sum_over
from uniflexflow.ops.reduction import wide_integer
from uniflexflow.ops.registry import primitive
from uniflexflow.ops.shape_rules import normalize_axis
from uniflexflow.ops.shaping import expand_dims, reshape, swap_with_last
from uniflexflow.ops.slicing import slice_axis

__all__ = [
    "argsort",
    "cumsum",
    "digitize",
    "in_top_k",
    "median",
    "searchsorted",
    "sort",
    "top_k",
]


def _argsort_reference(x: np.ndarray, *, descending: bool) -> np.ndarray:
    # descending keeps the order of equal elements too: reverse, sort, reverse back
    if not descending:
        return np.argsort(x, axis=-1, kind="stable").astype("int32")
    back = np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return (x.shape[-1] - 1 - back).astype("int32")


def _rows_only(node: Node) -> Indices:
    rows = tuple(range(node.inputs[0].ndim - 1)) + (None,)
    return Indices((rows,), (rows,))


# Places of the elements of each row in rising (falling) order; equal elements stay in
# order; NaN counts as larger than all.
ARGSORT = primitive(
    "argsort",
    infer=lambda x, *, descending: TensorSpec(x.shape, "int32"),
    reference=_argsort_reference,
    gradient=lambda node, g: (None,),
    indices=_rows_only,
)


def _cumsum_reference(x: np.ndarray, *, reverse: bool) -> np.ndarray:
    if reverse:
        return np.cumsum(x[..., ::-1], axis=-1, dtype=x.dtype)[..., ::-1]
    return np.cumsum(x, axis=-1, dtype=x.dtype)


# y[b.., k] = sum of x[b.., j] over j <= k (j >= k if reverse)
CUMSUM = primitive(
    "cumsum",
    infer=lambda x, *, reverse: x,
    reference=_cumsum_reference,
    gradient=lambda node, g: (apply(CUMSUM, g, reverse=not node.attrs["reverse"]),),
    indices=_rows_only,
    linear="all",
)

# -- public functions --------------------------------------------------------------


@op
def argsort(x: ArrayLike, axis: int | None = -1) -> Any:
    """Return the places of the elements in rising order, as int32; ties keep theirs."""
    x = as_value(x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = normalize_axis("argsort", axis, x.ndim)
    return swap_with_last(apply(ARGSORT, swap_with_last(x, axis), descending=False), axis)


@op
def sort(x: ArrayLike, axis: int | None = -1) -> Any:
    """Return the elements in rising order along an axis; NaN comes last."""
    x = as_value(x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = normalize_axis("sort", axis, x.ndim)
    rows = swap_with_last(x, axis)
    return swap_with_last(
        apply(TAKE_ALONG_LAST, rows, apply(ARGSORT, rows, descending=False)), axis
    )


@op
def top_k(x: ArrayLike, k: int, sorted: bool = True) -> Any:
    """Return the k largest elements along the last axis, and their places.

    Parameters
    ----------
    x : tensor
    k : int
    sorted : bool
        The result is always in falling order; of equal elements the first comes first.

    Returns
    -------
    values, indices : tensors of shape (..., k), the second int32
    """
    x = as_value(x)
    if x.ndim == 0 or not 0 < k <= x.shape[-1]:
        raise ValueError(f"top_k: can't take {k} elements along the last axis of {x.shape}.")
    order = apply(ARGSORT, x, descending=True)
    places = slice_axis(order, x.ndim - 1, 0, k)
    return apply(TAKE_ALONG_LAST, x, places), places


@op
def in_top_k(targets: ArrayLike, predictions: ArrayLike, k: int) -> Any:
    """Say whether the target class is among the k largest predictions.

    Classes that tie with the target do not push it out. A target that is no class, or
    whose prediction is not finite, gives False.

    Parameters
    ----------
    targets : integer vector
    predictions : tensor (batch, classes)
    k : int
    """
    targets, predictions = index_value("in_top_k", targets), as_value(predictions)
    picked = take_along_axis(predictions, expand_dims(targets, targets.ndim), axis=-1)
    larger = sum_over(cast_to(predictions > picked, "int32"), -1)
    inside = (targets >= 0) & reshape(isfinite(picked), targets.shape)
    return (larger < k) & inside


@op
def cumsum(x: ArrayLike, axis: int | None = None) -> Any:
    """Return running sums along an axis, or of the flattened tensor."""
    x = wide_integer(as_value(x))
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = normalize_axis("cumsum", axis, x.ndim)
    return swap_with_last(apply(CUMSUM, swap_with_last(x, axis), reverse=False), axis)


@op
def median(x: ArrayLike, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the middle element along an axis, or the mean of the two in the middle.

    Parameters
    ----------
    x : tensor
    axis : int, optional
        All axes by default.
    keepdims : bool
        Whether the axes stay, with size 1.
    """
    x = as_value(x)
    ndim = x.ndim
    if axis is None:
        x, at = reshape(x, (-1,)), 0
    else:
        at = normalize_axis("median", axis, ndim)
    n = x.shape[at]
    if n == 0:
        raise ValueError(f"median: the tensor of shape {x.shape} is empty along axis {at}.")
    ordered = sort(x, at)
    low, high = (n - 1) // 2, n // 2
    out = slice_axis(ordered, at, low, low + 1)
    if high != low or not is_float(x.dtype):
        out = (out + slice_axis(ordered, at, high, high + 1)) * 0.5
    if axis is None:
        return reshape(out, (1,) * ndim if keepdims else ())
    return out if keepdims else reshape(out, out.shape[:at] + out.shape[at + 1 :])


@op
def searchsorted(sorted_sequence: ArrayLike, values: ArrayLike, side: str = "left") -> Any:
    """Return where values would be put into a rising vector to keep it so, as int32.

    With ``side="left"`` that is the count of elements below the value; with ``"right"``,
    of those not above it.

    Parameters
    ----------
    sorted_sequence : vector
    values : tensor
    side : {"left", "right"}
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: unknown side {side!r}; expected 'left' or 'right'.")
    edges, values = meet(sorted_sequence, values)
    if edges.ndim != 1:
        raise ValueError(f"searchsorted: expected a rising vector; received shape {edges.shape}.")
    column = expand_dims(values, values.ndim)
    below = edges < column if side == "left" else edges <= column
    return sum_over(cast_to(below, "int32"), -1)


@op
def digitize(x: ArrayLike, bins: ArrayLike) -> Any:
    """Return for each element the number of bin edges not above it, as int32.

    ``bins`` is a rising vector.
    """
    return searchsorted(bins, x, side="right")
