"""Pooling of images, channels last: the largest or the mean element of each window.

Padding never counts: it is below everything for the maximum and outside of the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import Indices, Node, OpDef, TensorSpec, Value, apply
from uniflexflow.ops.dispatch import as_value, cast_to, op
from uniflexflow.ops.dtypes import floatx, is_float
from uniflexflow.ops.registry import primitive
from uniflexflow.ops.shaping import reshape
from uniflexflow.ops.window import (
    Padding,
    Pair,
    check_images,
    output_sizes,
    padded,
    resolve_padding,
    spatial,
    taps,
    with_height,
)

__all__ = ["average_pool", "max_pool"]

_ONE = (1, 1)  # windows of pooling have no gaps

# -- shapes ------------------------------------------------------------------------


def _output_shape(
    where: str, x: tuple[int, ...], window: Pair, strides: Pair, padding: Padding
) -> tuple[int, ...]:
    if len(x) != 4:
        raise ValueError(
            f"{where}: a tensor of {len(x)} axes doesn't fit: received {x}; expected (batch, "
            "height, width, channels)."
        )
    if any(max(p) >= k for p, k in zip(padding, window)):
        raise ValueError(
            f"{where}: padding {padding} is as wide as the window {window}; expected less, so that "
            "every window holds an element."
        )
    return (x[0], *output_sizes(where, x[1:3], window, strides, padding), x[3])


def _check_floats(where: str, *specs: TensorSpec) -> None:
    if len({s.dtype for s in specs}) > 1 or not is_float(specs[0].dtype):
        raise TypeError(
            f"{where}: dtypes don't fit: received {[s.dtype for s in specs]}; expected one "
            "floating-point dtype for all. Cast the tensors first."
        )


def _pool_infer(where: str) -> Callable[..., TensorSpec]:
    def infer(x: TensorSpec, **attrs: Any) -> TensorSpec:
        _check_floats(where, x)
        return TensorSpec(_output_shape(where, x.shape, **attrs), x.dtype)

    return infer


def _check_gradient(where: str, shape: tuple[int, ...], out: tuple[int, ...], attrs: Any) -> None:
    expected = _output_shape(where, shape, **attrs)
    if out != expected:
        raise ValueError(
            f"{where}: the shape of the pooled side doesn't fit: received {out}; expected "
            f"{expected}, the shape of {shape} pooled."
        )


def _max_gradient_infer(x: TensorSpec, y: TensorSpec, g: TensorSpec, **attrs: Any) -> TensorSpec:
    _check_floats("max_pool2d_gradient", x, y, g)
    _check_gradient("max_pool2d_gradient", x.shape, y.shape, attrs)
    _check_gradient("max_pool2d_gradient", x.shape, g.shape, attrs)
    return x


def _max_gather_infer(x: TensorSpec, y: TensorSpec, v: TensorSpec, **attrs: Any) -> TensorSpec:
    _check_floats("max_pool2d_gather", x, y, v)
    _check_gradient("max_pool2d_gather", x.shape, y.shape, attrs)
    if v.shape != x.shape:
        raise ValueError(
            f"max_pool2d_gather: values of shape {v.shape} don't fit; expected {x.shape}, the "
            "shape of the images."
        )
    return y


def _avg_gradient_infer(g: TensorSpec, *, shape: tuple[int, ...], **attrs: Any) -> TensorSpec:
    _check_floats("avg_pool2d_gradient", g)
    _check_gradient("avg_pool2d_gradient", shape, g.shape, attrs)
    return TensorSpec(shape, g.dtype)


# -- meaning -----------------------------------------------------------------------


def _crop(x: np.ndarray, like: tuple[int, ...], padding: Padding) -> np.ndarray:
    (top, _), (left, _) = padding
    return x[:, top : top + like[1], left : left + like[2]]


def _max_reference(x: np.ndarray, *, window: Pair, strides: Pair, padding: Padding) -> np.ndarray:
    shape = _output_shape("max_pool2d", x.shape, window, strides, padding)
    xp = padded(x, padding, -np.inf)
    y = np.full(shape, -np.inf, x.dtype)
    for _, _, at in taps(window, strides, _ONE, shape[1:3]):
        np.maximum(y, xp[at], out=y)
    return y


def _first_hits(x: np.ndarray, y: np.ndarray, window: Pair, strides: Pair, padding: Padding) -> Any:
    """Give, per place in the window, its slices and where the first maximum is there."""
    xp, inside = padded(x, padding), padded(np.ones((1, *x.shape[1:3], 1), bool), padding, False)
    free = np.ones(y.shape, bool)
    for _, _, at in taps(window, strides, _ONE, y.shape[1:3]):
        hit = free & inside[at] & ((xp[at] == y) | np.isnan(xp[at]))
        free &= ~hit
        yield at, hit


def _max_gradient_reference(
    x: np.ndarray, y: np.ndarray, g: np.ndarray, *, window: Pair, strides: Pair, padding: Padding
) -> np.ndarray:
    spread = padded(np.zeros_like(x), padding)
    for at, hit in _first_hits(x, y, window, strides, padding):
        spread[at] += np.where(hit, g, 0)
    return _crop(spread, x.shape, padding)


def _max_gather_reference(
    x: np.ndarray, y: np.ndarray, v: np.ndarray, *, window: Pair, strides: Pair, padding: Padding
) -> np.ndarray:
    out, vp = np.zeros_like(y), padded(v, padding)
    for at, hit in _first_hits(x, y, window, strides, padding):
        out[hit] = vp[at][hit]
    return out


def _counts(shape: tuple[int, ...], window: Pair, strides: Pair, padding: Padding) -> np.ndarray:
    """Return how many elements each window holds, as (height, width, 1)."""
    out = _output_shape("avg_pool2d", shape, window, strides, padding)
    per_axis = []
    for n, size, k, s, (before, _) in zip(out[1:3], shape[1:3], window, strides, padding):
        start = np.arange(n) * s - before
        per_axis.append(np.minimum(start + k, size) - np.maximum(start, 0))
    return (per_axis[0][:, None] * per_axis[1])[:, :, None]


def _avg_reference(x: np.ndarray, *, window: Pair, strides: Pair, padding: Padding) -> np.ndarray:
    shape = _output_shape("avg_pool2d", x.shape, window, strides, padding)
    xp, y = padded(x, padding), np.zeros(shape, x.dtype)
    for _, _, at in taps(window, strides, _ONE, shape[1:3]):
        y += xp[at]
    return (y / _counts(x.shape, window, strides, padding)).astype(x.dtype)


def _avg_gradient_reference(
    g: np.ndarray, *, shape: tuple[int, ...], window: Pair, strides: Pair, padding: Padding
) -> np.ndarray:
    share = (g / _counts(shape, window, strides, padding)).astype(g.dtype)
    spread = padded(np.zeros(shape, g.dtype), padding)
    for _, _, at in taps(window, strides, _ONE, g.shape[1:3]):
        spread[at] += share
    return _crop(spread, shape, padding)


# -- rows --------------------------------------------------------------------------


def _indices(node: Node) -> Indices:
    image = ("b", None, None, "c")
    return Indices((image,) * len(node.inputs), (image,))


def _window(node: Node) -> dict[str, Any]:
    return {k: node.attrs[k] for k in ("window", "strides", "padding")}


# The place of a maximum does not move with the numbers: x and y get no gradient below.
MAX_POOL2D_GRADIENT = primitive(
    "max_pool2d_gradient",
    infer=_max_gradient_infer,
    reference=_max_gradient_reference,
    gradient=lambda node, gg: (
        None,
        None,
        apply(MAX_POOL2D_GATHER, *node.inputs[:2], gg, **node.attrs),
    ),
    indices=_indices,
)
MAX_POOL2D_GATHER = primitive(
    "max_pool2d_gather",
    infer=_max_gather_infer,
    reference=_max_gather_reference,
    gradient=lambda node, g: (
        None,
        None,
        apply(MAX_POOL2D_GRADIENT, *node.inputs[:2], g, **node.attrs),
    ),
    indices=_indices,
)
MAX_POOL2D = primitive(
    "max_pool2d",
    infer=_pool_infer("max_pool2d"),
    reference=_max_reference,
    gradient=lambda node, g: (
        apply(MAX_POOL2D_GRADIENT, node.inputs[0], node.outputs[0], g, **node.attrs),
    ),
    indices=_indices,
)
AVG_POOL2D = primitive(
    "avg_pool2d",
    infer=_pool_infer("avg_pool2d"),
    reference=_avg_reference,
    gradient=lambda node, g: (
        apply(AVG_POOL2D_GRADIENT, g, shape=node.inputs[0].shape, **_window(node)),
    ),
    indices=_indices,
    linear="all",
)
AVG_POOL2D_GRADIENT = primitive(
    "avg_pool2d_gradient",
    infer=_avg_gradient_infer,
    reference=_avg_gradient_reference,
    gradient=lambda node, gg: (apply(AVG_POOL2D, gg, **_window(node)),),
    indices=_indices,
    localise=lambda attrs, ins, outs, starts: {**attrs, "shape": outs[0].shape},
    linear="all",
)

# -- public functions --------------------------------------------------------------

Sizes = int | Sequence[int]


def _pool(
    row: OpDef,
    where: str,
    inputs: Any,
    pool_size: Sizes,
    strides: Sizes | None,
    padding: str,
    data_format: str | None,
) -> Value:
    x = as_value(inputs)
    x = x if is_float(x.dtype) else cast_to(x, floatx())
    rank = check_images(where, x.shape, data_format)
    window = with_height(spatial(where, "pool_size", pool_size, rank))
    step = window if strides is None else with_height(spatial(where, "strides", strides, rank))
    if rank == 1:
        x = reshape(x, (x.shape[0], 1, *x.shape[1:]))
    widths = resolve_padding(where, padding, x.shape[1:3], window, step)
    y = apply(row, x, window=window, strides=step, padding=widths)
    return reshape(y, (y.shape[0], *y.shape[2:])) if rank == 1 else y


@op
def max_pool(
    inputs: ArrayLike,
    pool_size: Sizes,
    strides: Sizes | None = None,
    padding: str = "valid",
    data_format: str | None = None,
) -> Any:
    """Return the largest element of each window, channel by channel.

    Parameters
    ----------
    inputs : tensor (batch, steps, channels) or (batch, height, width, channels)
    pool_size : int or sequence of int
        The window, one size per spatial axis.
    strides : int or sequence of int, optional
        Step of the window; ``pool_size`` by default.
    padding : str
        ``"valid"`` for none, ``"same"`` for ``ceil(size / stride)`` results an axis.
    data_format : str, optional
        Only ``"channels_last"``.

    Returns
    -------
    tensor (batch, ..., channels)
        Where a window holds its maximum more than once, the first gets the gradient.

    Raises
    ------
    ValueError
        If shapes don't fit or an option is not supported.

    Examples
    --------
    >>> import numpy as np
    >>> max_pool(np.arange(6, dtype="float32").reshape(1, 6, 1), 2).ravel().tolist()
    [1.0, 3.0, 5.0]
    """
    return _pool(MAX_POOL2D, "max_pool", inputs, pool_size, strides, padding, data_format)


@op
def average_pool(
    inputs: ArrayLike,
    pool_size: Sizes,
    strides: Sizes | None = None,
    padding: str = "valid",
    data_format: str | None = None,
) -> Any:
    """Return the mean of each window, channel by channel; see ``max_pool``.

    Padding is left out of the mean.

    Parameters
    ----------
    inputs : tensor (batch, steps, channels) or (batch, height, width, channels)
    pool_size, strides, padding, data_format
        As in ``max_pool``.

    Examples
    --------
    >>> import numpy as np
    >>> average_pool(np.ones((1, 5, 5, 2), "float32"), 2, padding="same").min().item()
    1.0
    """
    return _pool(AVG_POOL2D, "average_pool", inputs, pool_size, strides, padding, data_format)
