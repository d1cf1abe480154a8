"""Operations that cut tensors, pad them and put them together."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import Indices, Node, TensorSpec, Value, apply, constant
from uniflexflow.ops.dispatch import as_value, meet, op
from uniflexflow.ops.registry import OPS, primitive
from uniflexflow.ops.shape_rules import normalize_axes, normalize_axis
from uniflexflow.ops.shaping import expand_dims, reshape

__all__ = ["concatenate", "flip", "get_item", "pad", "slice", "split", "stack"]

# -- concatenate, slice, pad -------------------------------------------------------


def _concatenate_infer(*xs: TensorSpec, axis: int) -> TensorSpec:
    first = xs[0]
    if len({x.dtype for x in xs}) > 1:
        raise TypeError(
            f"concatenate: tensors must share one dtype; received {[x.dtype for x in xs]}."
        )
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


# y = the inputs one after another along `axis`; equal shapes elsewhere
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


def box(
    start: Sequence[int], size: Sequence[int], step: Sequence[int]
) -> tuple[builtins.slice, ...]:
    """Return Python slices for one start, size and step per axis."""
    cuts = []
    for b, n, s in zip(start, size, step):
        end = b + n * s
        cuts.append(builtins.slice(b, end if end >= 0 else None, s) if n else builtins.slice(0, 0))
    return tuple(cuts)


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


def _slice_infer(
    x: TensorSpec, *, start: tuple[int, ...], size: tuple[int, ...], step: tuple[int, ...]
) -> TensorSpec:
    fits = len(start) == len(size) == len(step) == x.ndim and all(
        n == 0 or (s != 0 and n > 0 and 0 <= b < full and 0 <= b + (n - 1) * s < full)
        for full, b, n, s in zip(x.shape, start, size, step)
    )
    if not fits:
        raise ValueError(
            f"slice: start {start}, size {size}, step {step} leave the tensor of shape {x.shape}."
        )
    return TensorSpec(size, x.dtype)


# y[i, ..] = x[start + i * step, ..] for i < size, per axis; a step may be negative
SLICE = primitive(
    "slice",
    infer=_slice_infer,
    reference=lambda x, *, start, size, step: x[box(start, size, step)],
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
    if min(low + high + interior, default=0) < 0:
        raise ValueError(f"pad: widths must not be negative; received low={low}, high={high}.")
    shape = tuple(
        n + (n - 1 if n else 0) * gap + a + b for n, a, b, gap in zip(x.shape, low, high, interior)
    )
    return TensorSpec(shape, x.dtype)


def _pad_reference(x: np.ndarray, *, low: Any, high: Any, interior: Any, value: float) -> Any:
    spec = _pad_infer(
        TensorSpec(x.shape, x.dtype.name), low=low, high=high, interior=interior, value=value
    )
    out = np.full(spec.shape, value, x.dtype)
    out[box(low, x.shape, [g + 1 for g in interior])] = x
    return out


def _pad_gradient(node: Node, g: Value) -> tuple[Value]:
    a = node.attrs
    step = tuple(gap + 1 for gap in a["interior"])
    return (apply(SLICE, g, start=a["low"], size=node.inputs[0].shape, step=step),)


def _pad_untouched(node: Node) -> tuple[int | None, ...]:
    a = node.attrs
    widths = zip(a["low"], a["high"], a["interior"])
    return tuple(i if not any(w) else None for i, w in enumerate(widths))


# y[low + i * (interior + 1), ..] = x[i, ..] per axis, `value` elsewhere
PAD = primitive(
    "pad",
    infer=_pad_infer,
    reference=_pad_reference,
    gradient=_pad_gradient,
    indices=lambda node: Indices((_pad_untouched(node),), (_pad_untouched(node),)),
)

# -- public functions --------------------------------------------------------------


@op
def concatenate(xs: Sequence[ArrayLike], axis: int = 0) -> Any:
    """Join tensors along an axis that they have.

    Examples
    --------
    >>> concatenate([np.zeros((2, 1)), np.ones((2, 2))], axis=1)
    array([[0., 1., 1.],
           [0., 1., 1.]])
    """
    if len(xs) == 0:
        raise ValueError("concatenate: expected at least one tensor; received none.")
    values = meet(*xs)
    axis = normalize_axis("concatenate", axis, values[0].ndim)
    return values[0] if len(values) == 1 else apply(CONCATENATE, *values, axis=axis)


@op
def stack(x: Sequence[ArrayLike], axis: int = 0) -> Any:
    """Join tensors of one shape along a new axis."""
    if len(x) == 0:
        raise ValueError("stack: expected at least one tensor; received none.")
    values = meet(*x)
    if len({v.shape for v in values}) > 1:
        raise ValueError(f"stack: shapes must be equal; received {[v.shape for v in values]}.")
    return concatenate([expand_dims(v, axis) for v in values], axis=axis)


def slice_axis(x: Value, axis: int, start: int, stop: int) -> Value:
    """Return ``x[start:stop]`` along one axis."""
    begin = tuple(start if i == axis else 0 for i in range(x.ndim))
    size = tuple(stop - start if i == axis else n for i, n in enumerate(x.shape))
    return x if size == x.shape else apply(SLICE, x, start=begin, size=size, step=(1,) * x.ndim)


@op
def split(x: ArrayLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> Any:
    """Cut a tensor along an axis: into equal parts, or at the places given.

    Parameters
    ----------
    x : tensor
    indices_or_sections : int or sequence of int
    axis : int

    Returns
    -------
    list of tensors
    """
    x = as_value(x)
    axis = normalize_axis("split", axis, x.ndim)
    n = x.shape[axis]
    if isinstance(indices_or_sections, (int, np.integer)):
        if indices_or_sections <= 0 or n % indices_or_sections:
            raise ValueError(
                f"split: axis {axis} of shape {x.shape} can't be cut into "
                f"{indices_or_sections} equal parts."
            )
        width = n // indices_or_sections
        cuts = list(range(0, n, width)) if width else [0] * indices_or_sections
    else:
        cuts = [0, *[builtins.min(c if c >= 0 else n + c, n) for c in indices_or_sections]]
    return [slice_axis(x, axis, a, builtins.max(a, b)) for a, b in zip(cuts, [*cuts[1:], n])]


@op
def flip(x: ArrayLike, axis: int | Sequence[int] | None = None) -> Any:
    """Reverse the order along axes."""
    x = as_value(x)
    axes = normalize_axes("flip", axis, x.ndim)
    start = tuple(n - 1 if i in axes else 0 for i, n in enumerate(x.shape))
    step = tuple(-1 if i in axes else 1 for i in range(x.ndim))
    return apply(SLICE, x, start=start, size=x.shape, step=step)


@op
def pad(
    x: ArrayLike, pad_width: Any, mode: str = "constant", constant_values: float | None = None
) -> Any:
    """Add elements around a tensor.

    Parameters
    ----------
    x : tensor
    pad_width : int, pair of int, or one pair (before, after) per axis
    mode : {"constant", "reflect", "symmetric", "edge"}
        What the new elements are: one value; the mirror image without or with the border
        element; copies of the border element.
    constant_values : number, optional
        The value of mode ``"constant"``; 0 by default.
    """
    x = as_value(x)
    widths = np.broadcast_to(np.asarray(pad_width, dtype=int), (x.ndim, 2)).tolist()
    low, high = tuple(a for a, _ in widths), tuple(b for _, b in widths)
    if mode == "constant":
        fill = float(constant_values or 0)
        return apply(PAD, x, low=low, high=high, interior=(0,) * x.ndim, value=fill)
    if mode not in ("reflect", "symmetric", "edge"):
        raise ValueError(
            f"pad: unknown mode {mode!r}; expected 'constant', 'reflect', 'symmetric' or 'edge'."
        )
    if constant_values is not None:
        raise ValueError(f"pad: `constant_values` has no meaning with mode {mode!r}.")
    for axis, (n, width) in enumerate(zip(x.shape, widths)):
        if any(width):
            places = np.pad(np.arange(n), width, mode=mode)
            x = apply(OPS["take"], x, constant(places, "int32"), axis=axis)
    return x


@op
def get_item(x: ArrayLike, key: Any) -> Any:
    """Return ``x[key]`` for integers, slices, None and Ellipsis."""
    x = as_value(x)
    keys = key if isinstance(key, tuple) else (key,)
    known = (int, np.integer, builtins.slice, type(None), type(Ellipsis))
    if not all(isinstance(k, known) and not isinstance(k, bool) for k in keys):
        raise TypeError(
            f"Indexing a symbolic tensor with {key!r} is not supported; expected integers, "
            "slices, None and Ellipsis. Use uff.ops.take for index arrays."
        )
    used = sum(k is not None and k is not Ellipsis for k in keys)
    if used > x.ndim:
        raise IndexError(f"{used} indices for a tensor of shape {x.shape}.")
    if Ellipsis in keys:
        at = keys.index(Ellipsis)
        keys = keys[:at] + (builtins.slice(None),) * (x.ndim - used) + keys[at + 1 :]
    else:
        keys += (builtins.slice(None),) * (x.ndim - used)
    start, size, step, shape = [], [], [], []
    axis = 0
    for k in keys:
        if k is None:
            shape.append(1)
            continue
        n = x.shape[axis]
        if isinstance(k, builtins.slice):
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


@op
def slice(x: ArrayLike, start_indices: Sequence[int], shape: Sequence[int]) -> Any:
    """Return the block of a shape that begins at ``start_indices``; -1 is all that is left.

    Parameters
    ----------
    x : tensor
    start_indices, shape : sequence of int
    """
    x = as_value(x)
    start = tuple(int(i) for i in start_indices)
    if len(start) != x.ndim or len(shape) != x.ndim:
        raise ValueError(
            f"slice: a tensor of shape {x.shape} needs {x.ndim} starts and sizes; received "
            f"{start} and {tuple(shape)}."
        )
    size = tuple(full - b if n == -1 else int(n) for full, b, n in zip(x.shape, start, shape))
    return apply(SLICE, x, start=start, size=size, step=(1,) * x.ndim)
