"""Shape arithmetic shared by the operation families: broadcasting, axes, conv sizes."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from uniflexflow.ir import Value, apply
from uniflexflow.ops.registry import OPS


@functools.lru_cache(maxsize=4096)
def broadcast_shapes(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape by NumPy's rule.

    Raises
    ------
    ValueError
        Names the operation, all shapes and the first axis that does not fit.
    """
    ndim = max(len(s) for s in shapes)
    padded = [(1,) * (ndim - len(s)) + tuple(s) for s in shapes]
    out = []
    for axis, sizes in enumerate(zip(*padded)):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            raise ValueError(
                f"{name}: shapes {', '.join(map(str, shapes))} can't be broadcast together: "
                f"axis {axis} of the result would have the sizes {sorted(wide)}. "
                "Sizes must be equal or 1; reshape or expand_dims one of the tensors."
            )
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def normalize_axis(name: str, axis: int, ndim: int) -> int:
    """Return a non-negative axis.

    Raises
    ------
    ValueError
        If the tensor has no such axis.
    """
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"{name}: axis {axis} does not exist in a tensor of {ndim} dimensions; "
            f"expected {-ndim} to {ndim - 1}."
        )
    return axis % ndim


def normalize_axes(name: str, axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Return sorted non-negative axes; None means all of them."""
    if axis is None:
        return tuple(range(ndim))
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(sorted(normalize_axis(name, a, ndim) for a in axes))
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: axis {axis} names a dimension twice.")
    return axes


def sum_to(value: Value, shape: tuple[int, ...]) -> Value:
    """Sum a gradient over the axes along which an operand was broadcast."""
    if value.shape == shape:
        return value
    extra = value.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        i + extra for i, n in enumerate(shape) if n == 1 and value.shape[i + extra] != 1
    )
    out = apply(OPS["sum"], value, axes=axes) if axes else value
    return out if out.shape == shape else apply(OPS["reshape"], out, shape=shape)
