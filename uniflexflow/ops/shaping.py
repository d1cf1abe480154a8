"""Operations that change a tensor's shape or the order of its axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import Indices, Node, TensorSpec, Value, apply
from uniflexflow.ops.dispatch import as_value, op
from uniflexflow.ops.registry import primitive
from uniflexflow.ops.shape_rules import broadcast_shapes, normalize_axes, normalize_axis, sum_to

__all__ = [
    "broadcast_to",
    "expand_dims",
    "moveaxis",
    "ravel",
    "reshape",
    "squeeze",
    "swapaxes",
    "transpose",
]

# -- reshape -----------------------------------------------------------------------


def _reshape_infer(x: TensorSpec, *, shape: tuple[int, ...]) -> TensorSpec:
    if math.prod(shape) != x.size:
        raise ValueError(
            f"reshape: a tensor of shape {x.shape} has {x.size} elements; "
            f"it can't get the shape {shape} of {math.prod(shape)}."
        )
    return TensorSpec(shape, x.dtype)


def _reshape_indices(node: Node) -> Indices:
    """Groups of dimensions with equal products share the index of their outermost one.

    Equal leading dimensions are groups; behind them, dimensions of size 1 belong to none.
    """
    old, new = node.inputs[0].shape, node.outputs[0].shape
    in_labels: list[int | None] = [None] * len(old)
    out_labels: list[int | None] = [None] * len(new)
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        in_labels[same] = out_labels[same] = same
        same += 1
    ins = [k for k in range(same, len(old)) if old[k] != 1]
    outs = [k for k in range(same, len(new)) if new[k] != 1]
    i = j = 0
    while i < len(ins) and j < len(outs):
        first_i, first_j = ins[i], outs[j]
        a, b = old[first_i], new[first_j]
        while a != b:
            if a < b:
                i += 1
                if i == len(ins):
                    return Indices((tuple(in_labels),), (tuple(out_labels),))
                a *= old[ins[i]]
            else:
                j += 1
                if j == len(outs):
                    return Indices((tuple(in_labels),), (tuple(out_labels),))
                b *= new[outs[j]]
        in_labels[first_i] = out_labels[first_j] = first_i
        i, j = i + 1, j + 1
    return Indices((tuple(in_labels),), (tuple(out_labels),))


def _local_shape(
    attrs: Mapping[str, Any],
    local_inputs: Sequence[TensorSpec],
    local_outputs: Sequence[TensorSpec],
    starts: Sequence[tuple[int, ...]],
) -> dict[str, Any]:
    return {**attrs, "shape": local_outputs[0].shape}


# y = the elements of x, in row-major order, in another shape
RESHAPE = primitive(
    "reshape",
    infer=_reshape_infer,
    reference=lambda x, *, shape: x.reshape(shape),
    gradient=lambda node, g: (reshape(g, node.inputs[0].shape),),
    indices=_reshape_indices,
    localise=_local_shape,
    linear="all",
)

# -- transpose, broadcast_to -------------------------------------------------------

# axis i of y is axis axes[i] of x
TRANSPOSE = primitive(
    "transpose",
    infer=lambda x, *, axes: TensorSpec(tuple([x.shape[a] for a in axes]), x.dtype),
    reference=lambda x, *, axes: np.transpose(x, axes),
    gradient=lambda node, g: (transpose(g, tuple(np.argsort(node.attrs["axes"]).tolist())),),
    indices=lambda node: Indices(
        (tuple(range(node.inputs[0].ndim)),), (tuple(node.attrs["axes"]),)
    ),
    linear="all",
)


def _broadcast_to_infer(x: TensorSpec, *, shape: tuple[int, ...]) -> TensorSpec:
    if broadcast_shapes("broadcast_to", x.shape, shape) != shape:
        raise ValueError(f"broadcast_to: shape {x.shape} can't be broadcast to {shape}.")
    return TensorSpec(shape, x.dtype)


def _broadcast_to_indices(node: Node) -> Indices:
    out = node.outputs[0].shape
    extra = len(out) - node.inputs[0].ndim
    labels = [
        i + extra if n == out[i + extra] else None for i, n in enumerate(node.inputs[0].shape)
    ]
    return Indices((tuple(labels),), (tuple(range(len(out))),))


# y[.., i, ..] = x[.., i or 0, ..]; missing axes come first
BROADCAST_TO = primitive(
    "broadcast_to",
    infer=_broadcast_to_infer,
    reference=lambda x, *, shape: np.broadcast_to(x, shape),
    gradient=lambda node, g: (sum_to(g, node.inputs[0].shape),),
    indices=_broadcast_to_indices,
    localise=_local_shape,
    linear="all",
)

# -- public functions --------------------------------------------------------------


def resolve_shape(x: Value, shape: Sequence[int]) -> tuple[int, ...]:
    """Replace a -1 by the size that is left."""
    shape = tuple(int(n) for n in shape)
    if shape.count(-1) > 1:
        raise ValueError(f"reshape: only one size may be -1; received {shape}.")
    if -1 in shape:
        known = math.prod(n for n in shape if n != -1)
        if known == 0 or x.size % known:
            raise ValueError(f"reshape: a tensor of shape {x.shape} can't get the shape {shape}.")
        shape = tuple(x.size // known if n == -1 else n for n in shape)
    return shape


@op
def reshape(x: ArrayLike, newshape: Sequence[int]) -> Any:
    """Give a tensor another shape with the same elements in the same order."""
    x = as_value(x)
    shape = resolve_shape(x, (newshape,) if isinstance(newshape, int) else newshape)
    return x if shape == x.shape else apply(RESHAPE, x, shape=shape)


@op
def transpose(x: ArrayLike, axes: Sequence[int] | None = None) -> Any:
    """Reorder the axes; reverse them by default."""
    x = as_value(x)
    order = range(x.ndim)[::-1] if axes is None else axes
    perm = tuple(normalize_axis("transpose", a, x.ndim) for a in order)
    if sorted(perm) != list(range(x.ndim)):
        raise ValueError(f"transpose: axes {axes} must name each of {x.ndim} axes once.")
    return x if perm == tuple(range(x.ndim)) else apply(TRANSPOSE, x, axes=perm)


@op
def broadcast_to(x: ArrayLike, shape: Sequence[int]) -> Any:
    """Repeat a tensor along new axes and axes of size 1."""
    x, shape = as_value(x), tuple(shape)
    return x if x.shape == shape else apply(BROADCAST_TO, x, shape=shape)


@op
def expand_dims(x: ArrayLike, axis: int | Sequence[int]) -> Any:
    """Insert axes of size 1, at these places of the result."""
    x = as_value(x)
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    places = normalize_axes("expand_dims", axes, x.ndim + len(axes))
    sizes = iter(x.shape)
    shape = [1 if i in places else next(sizes) for i in range(x.ndim + len(axes))]
    return reshape(x, tuple(shape))


@op
def squeeze(x: ArrayLike, axis: int | Sequence[int] | None = None) -> Any:
    """Drop axes of size 1: those given, or all."""
    x = as_value(x)
    if axis is None:
        axes = tuple(i for i, n in enumerate(x.shape) if n == 1)
    else:
        axes = normalize_axes("squeeze", axis, x.ndim)
    if any(x.shape[a] != 1 for a in axes):
        raise ValueError(
            f"squeeze: axes {axes} of a tensor of shape {x.shape} can't be dropped: their sizes "
            f"are {tuple(x.shape[a] for a in axes)}; expected 1."
        )
    return reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))


@op
def ravel(x: ArrayLike) -> Any:
    """Give a tensor one axis."""
    return reshape(x, (-1,))


@op
def swapaxes(x: ArrayLike, axis1: int, axis2: int) -> Any:
    """Exchange two axes.

    Parameters
    ----------
    x : tensor
    axis1, axis2 : int
    """
    x = as_value(x)
    order = list(range(x.ndim))
    a, b = (normalize_axis("swapaxes", i, x.ndim) for i in (axis1, axis2))
    order[a], order[b] = b, a
    return transpose(x, order)


def swap_with_last(x: Value, axis: int) -> Value:
    """Exchange an axis with the last one; its own inverse."""
    return swapaxes(x, axis, -1)


@op
def moveaxis(x: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Move axes to other places; the rest keep their order.

    Parameters
    ----------
    x : tensor
    source, destination : int or sequence of int
    """
    x = as_value(x)
    sources = (source,) if isinstance(source, int) else tuple(source)
    targets = (destination,) if isinstance(destination, int) else tuple(destination)
    if len(sources) != len(targets):
        raise ValueError(
            f"moveaxis: expected as many destinations as sources; received {source} and "
            f"{destination}."
        )
    moved = [normalize_axis("moveaxis", a, x.ndim) for a in sources]
    rest = [i for i in range(x.ndim) if i not in moved]
    for target, axis in sorted(
        (normalize_axis("moveaxis", t, x.ndim), a) for t, a in zip(targets, moved)
    ):
        rest.insert(target, axis)
    return transpose(x, rest)
