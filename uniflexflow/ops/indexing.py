"""Operations that choose elements by number: take, scatter, one-hot vectors.

Indices outside of the axis can't raise inside a step. They are defined instead: an
index from -n to -1 counts from the end; any other gives NaN (0 in an integer or
boolean tensor) when taken from, and is left out when added to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import Indices, Node, TensorSpec, Value, apply
from uniflexflow.ops.creation import arange
from uniflexflow.ops.dispatch import as_value, cast_to, op
from uniflexflow.ops.dtypes import canonical_dtype, floatx, is_float
from uniflexflow.ops.elementwise import equal, where
from uniflexflow.ops.reduction import sum as sum_over
from uniflexflow.ops.registry import primitive
from uniflexflow.ops.shape_rules import broadcast_shapes, normalize_axis
from uniflexflow.ops.shaping import broadcast_to, expand_dims, reshape, swap_with_last

__all__ = ["multi_hot", "one_hot", "take", "take_along_axis"]


def _require_integer(name: str, indices: TensorSpec) -> None:
    if indices.dtype not in ("int32", "int64"):
        raise TypeError(f"{name}: indices must be int32 or int64; received {indices.dtype}.")


def index_value(name: str, x: Any) -> Value:
    """Return indices as int32 or int64, the types the primitives take."""
    value = as_value(x)
    if is_float(value.dtype) or value.dtype == "bool":
        raise TypeError(f"{name}: indices must be integers; received {value.dtype}.")
    return value if value.dtype in ("int32", "int64") else cast_to(value, "int32")


def _missing(dtype: str) -> Any:
    return math.nan if is_float(dtype) else 0


def _places(indices: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return indices in 0..n-1, and where they are valid; invalid ones become 0."""
    i = indices.astype(np.int64)
    i = np.where(i < 0, i + n, i)
    valid = (i >= 0) & (i < n)
    return np.where(valid, i, 0), valid


# -- take and its transpose --------------------------------------------------------


def _take_infer(x: TensorSpec, indices: TensorSpec, *, axis: int) -> TensorSpec:
    _require_integer("take", indices)
    if not 0 <= axis < x.ndim:
        raise ValueError(f"take: a tensor of shape {x.shape} has no axis {axis}.")
    return TensorSpec(x.shape[:axis] + indices.shape + x.shape[axis + 1 :], x.dtype)


def _take_reference(x: np.ndarray, indices: np.ndarray, *, axis: int) -> np.ndarray:
    i, valid = _places(indices, x.shape[axis])
    shape = x.shape[:axis] + indices.shape + x.shape[axis + 1 :]
    if x.shape[axis] == 0:
        return np.full(shape, _missing(x.dtype.name), x.dtype)
    valid = valid.reshape((1,) * axis + indices.shape + (1,) * (x.ndim - axis - 1))
    return np.where(valid, np.take(x, i, axis=axis), np.asarray(_missing(x.dtype.name), x.dtype))


def _take_labels(node: Node, dense_ndim: int) -> tuple[tuple[Any, ...], ...]:
    """Labels of the dense tensor, the indices and the taken tensor."""
    axis = node.attrs["axis"]
    dense = tuple(None if i == axis else i for i in range(dense_ndim))
    picks = tuple(("pick", i) for i in range(node.inputs[1].ndim))
    return dense, picks, dense[:axis] + picks + dense[axis + 1 :]


def _take_indices(node: Node) -> Indices:
    dense, picks, taken = _take_labels(node, node.inputs[0].ndim)
    return Indices((dense, picks), (taken,))


def _take_gradient(node: Node, g: Value) -> tuple[Value, None]:
    x, indices = node.inputs
    return apply(TAKE_GRADIENT, g, indices, shape=x.shape, axis=node.attrs["axis"]), None


# y = x with axis replaced by indices: y[a.., i.., b..] = x[a.., indices[i..], b..]
TAKE = primitive(
    "take",
    infer=_take_infer,
    reference=_take_reference,
    gradient=_take_gradient,
    indices=_take_indices,
    linear="one",
)


def _take_gradient_infer(
    g: TensorSpec, indices: TensorSpec, *, shape: tuple[int, ...], axis: int
) -> TensorSpec:
    taken = _take_infer(TensorSpec(shape, g.dtype), indices, axis=axis)
    if taken != g:
        raise ValueError(
            f"take_gradient: with indices of shape {indices.shape} along axis {axis} of shape "
            f"{shape}, expected {taken}; received {g}."
        )
    return TensorSpec(shape, g.dtype)


def _take_gradient_reference(
    g: np.ndarray, indices: np.ndarray, *, shape: tuple[int, ...], axis: int
) -> np.ndarray:
    out = np.zeros(shape, g.dtype)
    if shape[axis]:
        i, valid = _places(indices, shape[axis])
        first = (shape[axis],) + shape[:axis] + shape[axis + 1 :]
        rows = np.moveaxis(g.reshape(shape[:axis] + (indices.size,) + shape[axis + 1 :]), axis, 0)
        summed = np.zeros(first, g.dtype)
        keep = valid.reshape(-1)
        np.add.at(summed, i.reshape(-1)[keep], rows[keep])
        out[...] = np.moveaxis(summed, 0, axis)
    return out


def _take_gradient_indices(node: Node) -> Indices:
    dense, picks, taken = _take_labels(node, len(node.attrs["shape"]))
    return Indices((taken, picks), (dense,))


def _local_shape(
    attrs: Mapping[str, Any],
    local_inputs: Sequence[TensorSpec],
    local_outputs: Sequence[TensorSpec],
    starts: Sequence[tuple[int, ...]],
) -> dict[str, Any]:
    return {**attrs, "shape": local_outputs[0].shape}


# The transpose of take: x[a.., j, b..] = sum of g[a.., i.., b..] over indices[i..] = j,
# added in the order of the indices, from 0.
TAKE_GRADIENT = primitive(
    "take_gradient",
    infer=_take_gradient_infer,
    reference=_take_gradient_reference,
    gradient=lambda node, gg: (
        _zero_where_invalid(
            apply(TAKE, gg, node.inputs[1], axis=node.attrs["axis"]), node.inputs[1], node.attrs
        ),
        None,
    ),
    indices=_take_gradient_indices,
    localise=_local_shape,
    linear="one",
)


def _valid(indices: Value, n: int) -> Value:
    return (indices >= -n) & (indices < n)


def _zero_where_invalid(taken: Value, indices: Value, attrs: Mapping[str, Any]) -> Value:
    """Replace the NaN that stands for an invalid index by 0: it was never added."""
    axis, shape = attrs["axis"], attrs["shape"]
    after = (1,) * (len(shape) - axis - 1)
    valid = reshape(_valid(indices, shape[axis]), indices.shape + after)
    return where(valid, taken, 0.0)


# -- take along the last axis, and its transpose -----------------------------------


def _along_infer(x: TensorSpec, indices: TensorSpec) -> TensorSpec:
    _require_integer("take_along_axis", indices)
    if x.ndim == 0 or x.shape[:-1] != indices.shape[:-1] or x.ndim != indices.ndim:
        raise ValueError(
            f"take_along_axis: shapes {x.shape} and {indices.shape} of the tensor and the "
            "indices must be equal but for the axis taken along."
        )
    return TensorSpec(indices.shape, x.dtype)


def _along_reference(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    missing = np.asarray(_missing(x.dtype.name), x.dtype)
    if x.shape[-1] == 0:
        return np.full(indices.shape, missing, x.dtype)
    i, valid = _places(indices, x.shape[-1])
    return np.where(valid, np.take_along_axis(x, i, axis=-1), missing)


def _along_labels(node: Node) -> tuple[Any, ...]:
    ndim = node.inputs[1].ndim
    return tuple(range(ndim - 1))


def _along_gradient(node: Node, g: Value) -> tuple[Value, None]:
    x, indices = node.inputs
    n = x.shape[-1]
    if indices.shape[-1] == 1:
        # one pick a row, as a loss does: a comparison, which fuses with what follows
        place = where(indices < 0, indices + n, indices)
        hit = equal(place, arange(n, dtype=indices.dtype))
        return where(hit, g, 0.0), None
    return apply(ADD_ALONG_LAST, g, indices, size=n), None


# y[b.., k] = x[b.., indices[b.., k]]
TAKE_ALONG_LAST = primitive(
    "take_along_last",
    infer=_along_infer,
    reference=_along_reference,
    gradient=_along_gradient,
    indices=lambda node: Indices(
        (_along_labels(node) + (None,), _along_labels(node) + ("pick",)),
        (_along_labels(node) + ("pick",),),
    ),
    linear="one",
)


def _add_along_infer(g: TensorSpec, indices: TensorSpec, *, size: int) -> TensorSpec:
    _require_integer("add_along_last", indices)
    if g.shape != indices.shape or g.ndim == 0:
        raise ValueError(
            f"add_along_last: shapes {g.shape} and {indices.shape} of the tensor and the "
            "indices must be equal."
        )
    return TensorSpec(g.shape[:-1] + (size,), g.dtype)


def _add_along_reference(g: np.ndarray, indices: np.ndarray, *, size: int) -> np.ndarray:
    rows = math.prod(g.shape[:-1])
    out = np.zeros((rows, size), g.dtype)
    if size and g.size:
        i, valid = _places(indices.reshape(rows, -1), size)
        row = np.broadcast_to(np.arange(rows)[:, None], i.shape)
        np.add.at(out, (row[valid], i[valid]), g.reshape(rows, -1)[valid])
    return out.reshape(g.shape[:-1] + (size,))


def _add_along_gradient(node: Node, gg: Value) -> tuple[Value, None]:
    indices = node.inputs[1]
    taken = apply(TAKE_ALONG_LAST, gg, indices)
    return where(_valid(indices, node.attrs["size"]), taken, 0.0), None


# The transpose of take_along_last: x[b.., j] = sum of g[b.., k] over indices[b.., k] = j
ADD_ALONG_LAST = primitive(
    "add_along_last",
    infer=_add_along_infer,
    reference=_add_along_reference,
    gradient=_add_along_gradient,
    indices=lambda node: Indices(
        (_along_labels(node) + ("pick",), _along_labels(node) + ("pick",)),
        (_along_labels(node) + (None,),),
    ),
    linear="one",
)

# -- public functions --------------------------------------------------------------


@op
def take(x: ArrayLike, indices: ArrayLike, axis: int | None = None) -> Any:
    """Take elements (or slices) along an axis, by number.

    Parameters
    ----------
    x : tensor
    indices : integer tensor
        Its shape replaces ``axis`` in the result. An index from -n to -1 counts from
        the end; any other outside 0..n-1 gives NaN, or 0 in an integer tensor.
    axis : int, optional
        By default, of the flattened tensor.

    Examples
    --------
    >>> take(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 0, 1]), axis=0)
    array([[3., 4.],
           [1., 2.],
           [3., 4.]])
    """
    x, indices = as_value(x), index_value("take", indices)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    return apply(TAKE, x, indices, axis=normalize_axis("take", axis, x.ndim))


@op
def take_along_axis(x: ArrayLike, indices: ArrayLike, axis: int | None = None) -> Any:
    """Take elements along an axis, each row by its own numbers.

    ``x`` and ``indices`` are broadcast against each other in all other axes.

    Parameters
    ----------
    x : tensor
    indices : integer tensor
    axis : int, optional
        The flattened tensor by default.
    """
    x, indices = as_value(x), index_value("take_along_axis", indices)
    if axis is None:
        x, indices, axis = reshape(x, (-1,)), reshape(indices, (-1,)), 0
    axis = normalize_axis("take_along_axis", axis, x.ndim)
    if indices.ndim != x.ndim:
        raise ValueError(
            f"take_along_axis: a tensor of shape {x.shape} needs indices of {x.ndim} axes; "
            f"received shape {indices.shape}."
        )
    x, indices = swap_with_last(x, axis), swap_with_last(indices, axis)
    rows = broadcast_shapes("take_along_axis", x.shape[:-1], indices.shape[:-1])
    out = apply(
        TAKE_ALONG_LAST,
        broadcast_to(x, rows + x.shape[-1:]),
        broadcast_to(indices, rows + indices.shape[-1:]),
    )
    return swap_with_last(out, axis)


@op
def one_hot(x: ArrayLike, num_classes: int, axis: int = -1, dtype: str | None = None) -> Any:
    """Turn class numbers into vectors that are 1 at the class and 0 elsewhere.

    A number outside 0..num_classes-1 gives zeros.

    Parameters
    ----------
    x : integer tensor
    num_classes : int
    axis : int
        Where the classes are in the result.
    dtype : str, optional
        ``floatx()`` by default.

    Examples
    --------
    >>> one_hot(np.array([0, 2]), 3)
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    x = index_value("one_hot", x)
    axis = normalize_axis("one_hot", axis, x.ndim + 1)
    classes = arange(num_classes, dtype=x.dtype)
    after = (1,) * (x.ndim - axis)
    hit = equal(expand_dims(x, axis), reshape(classes, (num_classes, *after)))
    return cast_to(hit, canonical_dtype(dtype or floatx()))


@op
def multi_hot(x: ArrayLike, num_classes: int, axis: int = -1, dtype: str | None = None) -> Any:
    """Turn sets of class numbers along an axis into vectors that are 1 at each of them.

    Parameters
    ----------
    x : integer tensor
    num_classes : int
    axis : int
        Where the classes are in the result.
    dtype : str, optional
        ``floatx()`` by default.
    """
    x = index_value("multi_hot", x)
    axis = normalize_axis("multi_hot", axis, x.ndim)
    hits = sum_over(one_hot(x, num_classes, axis=x.ndim, dtype="int32"), axis)
    return cast_to(hits > 0, canonical_dtype(dtype or floatx()))
