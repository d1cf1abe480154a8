"""Operations that move elements without changing them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import Indices, Node, TensorSpec, Value, apply
from uniflexflow.ops.dispatch import as_value, meet, op
from uniflexflow.ops.registry import primitive
from uniflexflow.ops.shape_rules import broadcast_shapes, normalize_axis, sum_to

# -- reshape -----------------------------------------------------------------------


def _reshape_infer(x: TensorSpec, *, shape: tuple[int, ...]) -> TensorSpec:
    if math.prod(shape) != x.size:
        raise ValueError(
            f"reshape: a tensor of shape {x.shape} has {x.size} elements; "
            f"it can't get the shape {shape} of {math.prod(shape)}."
        )
    return TensorSpec(shape, x.dtype)


def _reshape_indices(node: Node) -> Indices:
    """Groups of dimensions with equal products share the index of their outermost one."""
    old, new = node.inputs[0].shape, node.outputs[0].shape
    in_labels: list[int | None] = [None] * len(old)
    out_labels: list[int | None] = [None] * len(new)
    i = j = 0
    while i < len(old) and j < len(new):
        first_i, first_j = i, j
        a, b = old[i], new[j]
        while a != b:
            if a < b:
                i += 1
                if i == len(old):
                    return Indices((tuple(in_labels),), (tuple(out_labels),))
                a *= old[i]
            else:
                j += 1
                if j == len(new):
                    return Indices((tuple(in_labels),), (tuple(out_labels),))
                b *= new[j]
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
    labels = [i + extra if n == out[i + extra] else None for i, n in enumerate(node.inputs[0].shape)]
    return Indices((tuple(labels),), (tuple(range(len(out))),))


BROADCAST_TO = primitive(
    "broadcast_to",
    infer=_broadcast_to_infer,
    reference=lambda x, *, shape: np.broadcast_to(x, shape),
    gradient=lambda node, g: (sum_to(g, node.inputs[0].shape),),
    indices=_broadcast_to_indices,
    localise=_local_shape,
    linear="all",
)

# -- concatenate, slice, pad -------------------------------------------------------


def _concatenate_infer(*xs: TensorSpec, axis: int) -> TensorSpec:
    first = xs[0]
    for x in xs[1:]:
        same = x.ndim == first.ndim and all(
            a == b for i, (a, b) in enumerate(zip(x.shape, first.shape)) if i != axis
        )
        if not same:
            raise ValueError(
                f"concatenate: shapes {', '.join(str(s.shape) for s in xs)} must be equal in "
                f"every axis but axis {axis}."
            )
    shape = list(first.shape)
    shape[axis] = sum(x.shape[axis] for x in xs)
    return TensorSpec(tuple(shape), first.dtype)


def _all_but(node: Node, axes: Sequence[int]) -> tuple[int | None, ...]:
    return tuple(None if i in axes else i for i in range(node.outputs[0].ndim))


def _concatenate_gradient(node: Node, g: Value) -> tuple[Value, ...]:
    axis, start, grads = node.attrs["axis"], 0, []
    for x in node.inputs:
        grads.append(slice_axis(g, axis, start, start + x.shape[axis]))
        start += x.shape[axis]
    return tuple(grads)


CONCATENATE = primitive(
    "concatenate",
    infer=_concatenate_infer,
    reference=lambda *xs, axis: np.concatenate(xs, axis=axis),
    gradient=_concatenate_gradient,
    indices=lambda node: Indices(
        tuple(_all_but(node, [node.attrs["axis"]]) for _ in node.inputs),
        (_all_but(node, [node.attrs["axis"]]),),
    ),
    linear="all",
)


def _slices(start: Sequence[int], size: Sequence[int], step: Sequence[int]) -> tuple[slice, ...]:
    return tuple(
        slice(b, e if (e := b + n * s) >= 0 else None, s) if n else slice(0, 0)
        for b, n, s in zip(start, size, step)
    )


def _slice_untouched(node: Node) -> tuple[int | None, ...]:
    x, a = node.inputs[0], node.attrs
    return tuple(
        i if n == x.shape[i] and b == 0 and s == 1 else None
        for i, (b, n, s) in enumerate(zip(a["start"], a["size"], a["step"]))
    )


def _slice_gradient(node: Node, g: Value) -> tuple[Value]:
    # put the elements back where they came from: flip, then pad with gaps
    a, shape = node.attrs, node.inputs[0].shape
    start, step = list(a["start"]), list(a["step"])
    if any(s < 0 for s in step):
        flip = tuple(-1 if s < 0 else 1 for s in step)
        first = tuple(n - 1 if s < 0 and n else 0 for n, s in zip(g.shape, flip))
        g = apply(SLICE, g, start=first, size=g.shape, step=flip)
        for i, s in enumerate(step):
            if s < 0:
                start[i] += (g.shape[i] - 1) * s if g.shape[i] else 0
                step[i] = -s
    high = tuple(
        full - b - ((n - 1) * s + 1 if n else 0)
        for full, b, n, s in zip(shape, start, g.shape, step)
    )
    return (
        apply(PAD, g, low=tuple(start), high=high, interior=tuple(s - 1 for s in step), value=0.0),
    )


SLICE = primitive(
    "slice",
    infer=lambda x, *, start, size, step: TensorSpec(tuple(size), x.dtype),
    reference=lambda x, *, start, size, step: x[_slices(start, size, step)],
    gradient=_slice_gradient,
    indices=lambda node: Indices((_slice_untouched(node),), (_slice_untouched(node),)),
    localise=lambda attrs, ins, outs, starts: {**attrs, "size": outs[0].shape},
    linear="all",
)


def _pad_infer(
    x: TensorSpec,
    *,
    low: tuple[int, ...],
    high: tuple[int, ...],
    interior: tuple[int, ...],
    value: float,
) -> TensorSpec:
    shape = tuple(
        n + (n - 1 if n else 0) * gap + a + b for n, a, b, gap in zip(x.shape, low, high, interior)
    )
    if min(low + high + interior, default=0) < 0:
        raise ValueError(f"pad: widths must not be negative; received low={low}, high={high}.")
    return TensorSpec(shape, x.dtype)


def _pad_reference(x: np.ndarray, *, low: Any, high: Any, interior: Any, value: float) -> Any:
    spec = _pad_infer(
        TensorSpec(x.shape, x.dtype.name), low=low, high=high, interior=interior, value=value
    )
    out = np.full(spec.shape, value, x.dtype)
    out[_slices(low, x.shape, [g + 1 for g in interior])] = x
    return out


def _pad_gradient(node: Node, g: Value) -> tuple[Value]:
    a = node.attrs
    step = tuple(gap + 1 for gap in a["interior"])
    return (apply(SLICE, g, start=a["low"], size=node.inputs[0].shape, step=step),)


def _pad_untouched(node: Node) -> tuple[int | None, ...]:
    a = node.attrs
    widths = zip(a["low"], a["high"], a["interior"])
    return tuple(i if not any(w) else None for i, w in enumerate(widths))


PAD = primitive(
    "pad",
    infer=_pad_infer,
    reference=_pad_reference,
    gradient=_pad_gradient,
    indices=lambda node: Indices((_pad_untouched(node),), (_pad_untouched(node),)),
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
def expand_dims(x: ArrayLike, axis: int) -> Any:
    """Insert an axis of size 1."""
    x = as_value(x)
    axis = normalize_axis("expand_dims", axis, x.ndim + 1)
    return reshape(x, x.shape[:axis] + (1,) + x.shape[axis:])


@op
def squeeze(x: ArrayLike, axis: int | Sequence[int] | None = None) -> Any:
    """Drop axes of size 1: those given, or all."""
    x = as_value(x)
    axes = (axis,) if isinstance(axis, int) else axis
    if axes is None:
        axes = [i for i, n in enumerate(x.shape) if n == 1]
    axes = [normalize_axis("squeeze", a, x.ndim) for a in axes]
    if any(x.shape[a] != 1 for a in axes):
        raise ValueError(f"squeeze: axes {axes} of a tensor of shape {x.shape} are not all 1.")
    return reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))


@op
def concatenate(xs: Sequence[ArrayLike], axis: int = 0) -> Any:
    """Join tensors along an axis that they have."""
    if not xs:
        raise ValueError("concatenate: expected at least one tensor; received none.")
    values = meet(*xs)
    axis = normalize_axis("concatenate", axis, values[0].ndim)
    return values[0] if len(values) == 1 else apply(CONCATENATE, *values, axis=axis)


@op
def stack(xs: Sequence[ArrayLike], axis: int = 0) -> Any:
    """Join tensors of one shape along a new axis."""
    values = [as_value(x) for x in xs]
    return concatenate([expand_dims(v, axis) for v in values], axis=axis)


def slice_axis(x: Value, axis: int, start: int, stop: int) -> Value:
    """Return x[start:stop] along one axis."""
    begin = tuple(start if i == axis else 0 for i in range(x.ndim))
    size = tuple(stop - start if i == axis else n for i, n in enumerate(x.shape))
    return x if size == x.shape else apply(SLICE, x, start=begin, size=size, step=(1,) * x.ndim)


@op
def split(x: ArrayLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> Any:
    """Cut a tensor along an axis: into equal parts, or at the places given."""
    x = as_value(x)
    axis = normalize_axis("split", axis, x.ndim)
    n = x.shape[axis]
    if isinstance(indices_or_sections, int):
        if n % indices_or_sections:
            raise ValueError(
                f"split: axis {axis} of shape {x.shape} can't be cut into "
                f"{indices_or_sections} equal parts."
            )
        width = n // indices_or_sections
        cuts = list(range(0, n, width)) if width else [0] * indices_or_sections
    else:
        cuts = [0, *indices_or_sections]
    return [slice_axis(x, axis, a, b) for a, b in zip(cuts, [*cuts[1:], n])]


@op
def flip(x: ArrayLike, axis: int | Sequence[int] | None = None) -> Any:
    """Reverse the order along axes."""
    x = as_value(x)
    axes = range(x.ndim) if axis is None else ((axis,) if isinstance(axis, int) else axis)
    axes = {normalize_axis("flip", a, x.ndim) for a in axes}
    start = tuple(n - 1 if i in axes else 0 for i, n in enumerate(x.shape))
    step = tuple(-1 if i in axes else 1 for i in range(x.ndim))
    return apply(SLICE, x, start=start, size=x.shape, step=step)


@op
def pad(x: ArrayLike, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    """Add elements of one value around a tensor.

    ``pad_width`` is one (before, after) pair per axis, one pair for all, or one number.
    """
    if mode != "constant":
        raise ValueError(f"pad: mode {mode!r} is not supported; expected 'constant'.")
    x = as_value(x)
    widths = np.broadcast_to(np.asarray(pad_width, dtype=int), (x.ndim, 2)).tolist()
    low, high = tuple(a for a, _ in widths), tuple(b for _, b in widths)
    return apply(PAD, x, low=low, high=high, interior=(0,) * x.ndim, value=float(constant_values))


@op
def get_item(x: ArrayLike, key: Any) -> Any:
    """Return ``x[key]`` for integers, slices, None and Ellipsis."""
    x = as_value(x)
    keys = key if isinstance(key, tuple) else (key,)
    if not all(k is None or k is Ellipsis or isinstance(k, (int, np.integer, slice)) for k in keys):
        raise TypeError(
            f"Indexing a symbolic tensor with {key!r} is not supported; expected integers, "
            "slices, None and Ellipsis. Use uff.ops.take for index arrays."
        )
    used = sum(k is not None and k is not Ellipsis for k in keys)
    if used > x.ndim:
        raise IndexError(f"{used} indices for a tensor of shape {x.shape}.")
    if Ellipsis in keys:
        at = keys.index(Ellipsis)
        keys = keys[:at] + (slice(None),) * (x.ndim - used) + keys[at + 1 :]
    else:
        keys += (slice(None),) * (x.ndim - used)
    start, size, step, shape = [], [], [], []
    axis = 0
    for k in keys:
        if k is None:
            shape.append(1)
            continue
        n = x.shape[axis]
        if isinstance(k, slice):
            places = range(n)[k]
            start.append(places.start if len(places) else 0)
            size.append(len(places))
            step.append(places.step)
            shape.append(len(places))
        else:
            if not -n <= k < n:
                raise IndexError(f"index {k} is out of range for axis {axis} of shape {x.shape}.")
            start.append(int(k) % n)
            size.append(1)
            step.append(1)
        axis += 1
    whole = all(n == m and s == 1 for n, m, s in zip(size, x.shape, step))
    if not whole:
        x = apply(SLICE, x, start=tuple(start), size=tuple(size), step=tuple(step))
    return reshape(x, tuple(shape))
