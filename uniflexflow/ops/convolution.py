"""Convolutions of images, channels last, and their two gradients.

One primitive each: ``y = conv2d(x, k)``, ``dx = conv2d_data_gradient(g, k)`` and
``dk = conv2d_weight_gradient(x, g)``. Each is linear in both operands, and the
derivative of any is made of the other two, so gradients of all orders exist. Images are
``(batch, height, width, channels)``, kernels ``(height, width, channels / groups,
filters)``; filters and channels of one group are consecutive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import Indices, Node, TensorSpec, Value, apply
from uniflexflow.ops.dispatch import cast_to, meet, op
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
    same_padding,
    spatial,
    taps,
    with_height,
)

__all__ = ["conv", "conv_transpose", "depthwise_conv", "separable_conv"]

# -- shapes ------------------------------------------------------------------------


def _check_floats(where: str, *specs: TensorSpec) -> None:
    if len({s.dtype for s in specs}) > 1 or not is_float(specs[0].dtype):
        raise TypeError(
            f"{where}: dtypes don't fit: received {[s.dtype for s in specs]}; expected one "
            "floating-point dtype for all. Cast the tensors first."
        )


def _output_shape(
    where: str,
    x: tuple[int, ...],
    k: tuple[int, ...],
    strides: Pair,
    padding: Padding,
    dilations: Pair,
    groups: int,
) -> tuple[int, ...]:
    if len(x) != 4 or len(k) != 4:
        raise ValueError(
            f"{where}: tensors of {len(x)} and {len(k)} axes don't fit: received images {x} and "
            f"kernel {k}; expected (batch, height, width, channels) and (height, width, "
            "channels / groups, filters)."
        )
    if groups < 1 or x[3] != k[2] * groups:
        raise ValueError(
            f"{where}: channels don't fit: received images {x} with {x[3]} channels and a kernel "
            f"{k} for {k[2]} channels in each of {groups} groups; expected "
            f"{k[2]} * {groups} = {k[2] * groups} channels. Make the kernel for the images' "
            "channels, which are their last axis."
        )
    if k[3] % groups:
        raise ValueError(
            f"{where}: filters don't fit: received a kernel {k} of {k[3]} filters for {groups} "
            f"groups; expected a multiple of {groups} filters."
        )
    out = output_sizes(where, x[1:3], k[:2], strides, padding, dilations)
    return (x[0], *out, k[3])


def _conv2d_infer(x: TensorSpec, k: TensorSpec, **attrs: Any) -> TensorSpec:
    _check_floats("conv2d", x, k)
    return TensorSpec(_output_shape("conv2d", x.shape, k.shape, **attrs), x.dtype)


def _data_gradient_infer(
    g: TensorSpec, k: TensorSpec, *, shape: tuple[int, ...], **attrs: Any
) -> TensorSpec:
    where = "conv2d_data_gradient"
    _check_floats(where, g, k)
    out = _output_shape(where, shape, k.shape, **attrs)
    if g.shape != out:
        raise ValueError(
            f"{where}: the gradient's shape doesn't fit: received {g.shape}; expected {out}, the "
            f"shape of a convolution of {shape} with {k.shape}."
        )
    return TensorSpec(shape, g.dtype)


def _weight_gradient_infer(
    x: TensorSpec, g: TensorSpec, *, shape: tuple[int, ...], **attrs: Any
) -> TensorSpec:
    where = "conv2d_weight_gradient"
    _check_floats(where, x, g)
    out = _output_shape(where, x.shape, shape, **attrs)
    if g.shape != out:
        raise ValueError(
            f"{where}: the gradient's shape doesn't fit: received {g.shape}; expected {out}, the "
            f"shape of a convolution of {x.shape} with {shape}."
        )
    return TensorSpec(shape, x.dtype)


def _conv2d_bias_infer(
    x: TensorSpec, k: TensorSpec, bias: TensorSpec, *, activation: str | None, **attrs: Any
) -> TensorSpec:
    _check_floats("conv2d_bias", x, k, bias)
    if bias.shape != k.shape[3:]:
        raise ValueError(
            f"conv2d_bias: the bias doesn't fit: received shape {bias.shape} for a kernel "
            f"{k.shape}; expected {k.shape[3:]}."
        )
    if activation not in (None, "relu"):
        raise ValueError(
            f"conv2d_bias: unknown activation {activation!r}; expected None or 'relu'."
        )
    return TensorSpec(_output_shape("conv2d_bias", x.shape, k.shape, **attrs), x.dtype)


# -- meaning -----------------------------------------------------------------------


def _conv2d_reference(
    x: np.ndarray, k: np.ndarray, *, strides: Pair, padding: Padding, dilations: Pair, groups: int
) -> np.ndarray:
    n, oh, ow, f = _output_shape("conv2d", x.shape, k.shape, strides, padding, dilations, groups)
    xp = padded(x, padding)
    y = np.zeros((n, oh, ow, groups, f // groups), x.dtype)
    for i, j, at in taps(k.shape[:2], strides, dilations, (oh, ow)):
        under = xp[at].reshape(n, oh, ow, groups, 1, k.shape[2])
        y += (under @ k[i, j].reshape(k.shape[2], groups, f // groups).swapaxes(0, 1))[..., 0, :]
    return y.reshape(n, oh, ow, f)


def _data_gradient_reference(
    g: np.ndarray,
    k: np.ndarray,
    *,
    shape: tuple[int, ...],
    strides: Pair,
    padding: Padding,
    dilations: Pair,
    groups: int,
) -> np.ndarray:
    (n, oh, ow, f), (top, _), (left, _) = g.shape, *padding
    out = np.zeros(shape, g.dtype)
    spread = padded(out, padding)
    for i, j, at in taps(k.shape[:2], strides, dilations, (oh, ow)):
        per_group = k[i, j].reshape(k.shape[2], groups, f // groups).transpose(1, 2, 0)
        back = g.reshape(n, oh, ow, groups, 1, f // groups) @ per_group
        spread[at] += back.reshape(n, oh, ow, shape[3])
    out[...] = spread[:, top : top + shape[1], left : left + shape[2]]
    return out


def _weight_gradient_reference(
    x: np.ndarray,
    g: np.ndarray,
    *,
    shape: tuple[int, ...],
    strides: Pair,
    padding: Padding,
    dilations: Pair,
    groups: int,
) -> np.ndarray:
    n, oh, ow, f = g.shape
    xp, out = padded(x, padding), np.zeros(shape, x.dtype)
    right = g.reshape(n * oh * ow, groups, f // groups).swapaxes(0, 1)
    for i, j, at in taps(shape[:2], strides, dilations, (oh, ow)):
        left = xp[at].reshape(n * oh * ow, groups, shape[2]).transpose(1, 2, 0)
        out[i, j] = (left @ right).swapaxes(0, 1).reshape(shape[2], f)
    return out


def _conv2d_bias_reference(
    x: np.ndarray, k: np.ndarray, bias: np.ndarray, *, activation: str | None, **attrs: Any
) -> np.ndarray:
    y = _conv2d_reference(x, k, **attrs) + bias
    return np.maximum(y, 0) if activation == "relu" else y


# -- derivatives: x, k and y turn round in a ring ----------------------------------


def _geometry(node: Node) -> dict[str, Any]:
    return {k: node.attrs[k] for k in ("strides", "padding", "dilations", "groups")}


def _data(g: Value, k: Value, node: Node, like: Value) -> Value:
    return apply(CONV2D_DATA_GRADIENT, g, k, shape=like.shape, **_geometry(node))


def _weight(x: Value, g: Value, node: Node, like: Value) -> Value:
    return apply(CONV2D_WEIGHT_GRADIENT, x, g, shape=like.shape, **_geometry(node))


def _conv2d_gradient(node: Node, g: Value) -> tuple[Value, Value]:
    x, k = node.inputs
    return _data(g, k, node, x), _weight(x, g, node, k)


def _data_gradient_gradient(node: Node, gx: Value) -> tuple[Value, Value]:
    g, k = node.inputs
    return apply(CONV2D, gx, k, **_geometry(node)), _weight(gx, g, node, k)


def _weight_gradient_gradient(node: Node, gk: Value) -> tuple[Value, Value]:
    x, g = node.inputs
    return _data(g, gk, node, x), apply(CONV2D, x, gk, **_geometry(node))


# -- loop indices: the batch b, channels c, filters f ------------------------------


def _labels(groups: int, channels: int, filters: int) -> tuple[Any, Any, Any]:
    """Return the labels of the channels of x, of k, and of the filters."""
    if groups == 1:
        return "c", "c", "f"
    # one filter on each channel: both are one index, and the groups go with it
    return ("f", None, "f") if groups == channels == filters else (None, None, None)


def _conv2d_indices(node: Node) -> Indices:
    x, k = node.inputs[:2]
    c, kc, f = _labels(node.attrs["groups"], x.shape[3], k.shape[3])
    images, kernel = ("b", None, None, c), (None, None, kc, f)
    return Indices((images, kernel), (("b", None, None, f),))


def _conv2d_bias_indices(node: Node) -> Indices:
    # the bias is added once, so the channels must not be contracted in parts
    (x, kernel), (y,) = _conv2d_indices(node).inputs, _conv2d_indices(node).outputs
    f = y[3]
    if f != x[3]:
        x, kernel = (*x[:3], None), (None, None, None, f)
    return Indices((x, kernel, (f,)), (y,))


def _data_gradient_indices(node: Node) -> Indices:
    c, kc, f = _labels(node.attrs["groups"], node.attrs["shape"][3], node.inputs[1].shape[3])
    return Indices((("b", None, None, f), (None, None, kc, f)), (("b", None, None, c),))


def _weight_gradient_indices(node: Node) -> Indices:
    c, kc, f = _labels(node.attrs["groups"], node.inputs[0].shape[3], node.attrs["shape"][3])
    return Indices((("b", None, None, c), ("b", None, None, f)), ((None, None, kc, f),))


def _localise(attrs: Any, ins: Any, outs: Any, starts: Any) -> dict[str, Any]:
    # only depthwise groups can be split, and then each channel is a group
    return {**attrs, "groups": min(attrs["groups"], ins[1].shape[3])}


def _localise_data_gradient(attrs: Any, ins: Any, outs: Any, starts: Any) -> dict[str, Any]:
    return {**_localise(attrs, ins, outs, starts), "shape": outs[0].shape}


CONV2D = primitive(
    "conv2d",
    infer=_conv2d_infer,
    reference=_conv2d_reference,
    gradient=_conv2d_gradient,
    indices=_conv2d_indices,
    localise=_localise,
    linear="one",
)
CONV2D_DATA_GRADIENT = primitive(
    "conv2d_data_gradient",
    infer=_data_gradient_infer,
    reference=_data_gradient_reference,
    gradient=_data_gradient_gradient,
    indices=_data_gradient_indices,
    localise=_localise_data_gradient,
    linear="one",
)
# its second operand is the gradient of the output, whose last axis is the filters too
CONV2D_WEIGHT_GRADIENT = primitive(
    "conv2d_weight_gradient",
    infer=_weight_gradient_infer,
    reference=_weight_gradient_reference,
    gradient=_weight_gradient_gradient,
    indices=_weight_gradient_indices,
    localise=_localise_data_gradient,
    linear="one",
)
# conv2d, a bias and an activation at the write-back: made by the fusion of a finished graph
CONV2D_BIAS = primitive(
    "conv2d_bias",
    infer=_conv2d_bias_infer,
    reference=_conv2d_bias_reference,
    gradient=None,
    indices=_conv2d_bias_indices,
    localise=_localise,
)

# -- public functions --------------------------------------------------------------

Sizes = int | Sequence[int]


def _operands(
    where: str, inputs: Any, kernel: Any, data_format: str | None
) -> tuple[Value, Value, int]:
    x, k = meet(inputs, kernel)
    if not is_float(x.dtype):
        x, k = cast_to(x, floatx()), cast_to(k, floatx())
    rank = check_images(where, x.shape, data_format)
    if k.ndim != x.ndim:
        raise ValueError(
            f"{where}: the kernel doesn't fit: received a kernel {k.shape} of {k.ndim} axes for "
            f"inputs {x.shape}; expected {x.ndim} axes: {rank} spatial ones, channels, filters."
        )
    if rank == 1:
        x = reshape(x, (x.shape[0], 1, *x.shape[1:]))
        k = reshape(k, (1, *k.shape))
    return x, k, rank


def _squeeze(y: Value, rank: int) -> Value:
    return reshape(y, (y.shape[0], *y.shape[2:])) if rank == 1 else y


def _conv(
    where: str,
    x: Value,
    k: Value,
    groups: int,
    rank: int,
    padding: str,
    strides: Sizes,
    dilation: Sizes,
) -> Value:
    step = with_height(spatial(where, "strides", strides, rank))
    gaps = with_height(spatial(where, "dilation_rate", dilation, rank))
    widths = resolve_padding(where, padding, x.shape[1:3], k.shape[:2], step, gaps)
    y = apply(CONV2D, x, k, strides=step, padding=widths, dilations=gaps, groups=groups)
    return _squeeze(y, rank)


@op
def conv(
    inputs: ArrayLike,
    kernel: ArrayLike,
    strides: Sizes = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = 1,
) -> Any:
    """Convolve sequences or images with a kernel.

    Parameters
    ----------
    inputs : tensor (batch, steps, channels) or (batch, height, width, channels)
    kernel : tensor ``(*window, channels / groups, filters)``
        Fewer channels than the inputs have mean that both are cut into groups.
    strides : int or sequence of int
        Step of the window along each spatial axis.
    padding : str
        ``"valid"`` for none, ``"same"`` for ``ceil(size / stride)`` results an axis.
    data_format : str, optional
        Only ``"channels_last"``.
    dilation_rate : int or sequence of int
        Distance of neighbours within the window.

    Returns
    -------
    tensor (batch, ..., filters)

    Raises
    ------
    ValueError
        If shapes don't fit or an option is not supported.

    Examples
    --------
    >>> import numpy as np
    >>> conv(np.ones((1, 4, 4, 3), "float32"), np.ones((3, 3, 3, 8), "float32")).shape
    (1, 2, 2, 8)
    """
    x, k, rank = _operands("conv", inputs, kernel, data_format)
    channels = k.shape[2]
    if channels == 0 or x.shape[3] % channels:
        raise ValueError(
            f"conv: channels don't fit: received inputs with {x.shape[3]} channels (the last axis) "
            f"and a kernel for {channels} (its last but one); expected the same number, or a "
            "multiple of the kernel's for a grouped convolution."
        )
    groups = max(x.shape[3] // channels, 1)
    return _conv("conv", x, k, groups, rank, padding, strides, dilation_rate)


@op
def depthwise_conv(
    inputs: ArrayLike,
    kernel: ArrayLike,
    strides: Sizes = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = 1,
) -> Any:
    """Convolve each channel with kernels of its own.

    ``kernel`` is ``(*window, channels, multiplier)``; result ``c * multiplier + m`` is
    channel c convolved with its kernel m. The other arguments are those of ``conv``.

    Parameters
    ----------
    inputs : tensor (batch, steps, channels) or (batch, height, width, channels)
    kernel : tensor ``(*window, channels, multiplier)``
    strides, padding, data_format, dilation_rate
        As in ``conv``.

    Examples
    --------
    >>> import numpy as np
    >>> depthwise_conv(np.ones((1, 4, 4, 3), "float32"), np.ones((3, 3, 3, 2), "float32")).shape
    (1, 2, 2, 6)
    """
    x, k, rank = _operands("depthwise_conv", inputs, kernel, data_format)
    channels, multiplier = k.shape[2:]
    if x.shape[3] != channels:
        raise ValueError(
            f"depthwise_conv: channels don't fit: received inputs with {x.shape[3]} channels (the "
            f"last axis) and a kernel for {channels} (its last but one); expected the same number."
        )
    k = reshape(k, (*k.shape[:2], 1, channels * multiplier))
    return _conv("depthwise_conv", x, k, channels, rank, padding, strides, dilation_rate)


@op
def separable_conv(
    inputs: ArrayLike,
    depthwise_kernel: ArrayLike,
    pointwise_kernel: ArrayLike,
    strides: Sizes = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = 1,
) -> Any:
    """Convolve each channel by itself, then mix the channels with a window of size 1.

    Parameters
    ----------
    inputs : tensor (batch, steps, channels) or (batch, height, width, channels)
    depthwise_kernel : tensor ``(*window, channels, multiplier)``
    pointwise_kernel : tensor ``(1, ..., channels * multiplier, filters)``
    strides, padding, data_format, dilation_rate
        As in ``conv``.
    """
    y = depthwise_conv(inputs, depthwise_kernel, strides, padding, data_format, dilation_rate)
    return conv(y, pointwise_kernel, 1, "valid", data_format, 1)


def _transposed_size(
    where: str, size: int, window: int, stride: int, padding: str, extra: int | None, dilation: int
) -> tuple[int, Pair]:
    """Return the size of a transposed convolution and the padding of the one it inverts."""
    span = (window - 1) * dilation + 1
    if extra is None:
        out = size * stride if padding == "same" else size * stride + max(span - stride, 0)
    else:
        if not 0 <= extra < stride:
            raise ValueError(
                f"{where}: output_padding {extra} is out of range; expected at least 0 and less "
                f"than the stride {stride}."
            )
        trim = span // 2 if padding == "same" else 0
        out = (size - 1) * stride + span - 2 * trim + extra
    return out, same_padding(out, window, stride, dilation) if padding == "same" else (0, 0)


@op
def conv_transpose(
    inputs: ArrayLike,
    kernel: ArrayLike,
    strides: Sizes = 1,
    padding: str = "valid",
    output_padding: Sizes | None = None,
    data_format: str | None = None,
    dilation_rate: Sizes = 1,
) -> Any:
    """Spread each input element over a window: the transpose of ``conv``.

    Parameters
    ----------
    inputs : tensor (batch, steps, channels) or (batch, height, width, channels)
    kernel : tensor ``(*window, filters, channels)``
    strides : int or sequence of int
        Step of the window in the result.
    padding : str
        ``"same"`` gives ``size * stride`` results along an axis, ``"valid"`` all that
        the windows reach.
    output_padding : int or sequence of int, optional
        Further results along each axis, less than the stride.
    data_format, dilation_rate
        As for ``conv``.

    Returns
    -------
    tensor (batch, ..., filters)

    Examples
    --------
    >>> import numpy as np
    >>> x, k = np.ones((1, 4, 4, 8), "float32"), np.ones((3, 3, 2, 8), "float32")
    >>> conv_transpose(x, k, strides=2, padding="same").shape
    (1, 8, 8, 2)
    """
    where = "conv_transpose"
    x, k, rank = _operands(where, inputs, kernel, data_format)
    if x.shape[3] != k.shape[3]:
        raise ValueError(
            f"{where}: channels don't fit: received inputs with {x.shape[3]} channels and a kernel "
            f"for {k.shape[3]}, both in the last axis; expected the same number."
        )
    if padding not in ("valid", "same"):
        raise ValueError(
            f"{where}: padding {padding!r} is not supported; expected 'valid' or 'same'."
        )
    step = with_height(spatial(where, "strides", strides, rank))
    gaps = with_height(spatial(where, "dilation_rate", dilation_rate, rank))
    extra: Sequence[int | None] = (None,) * rank
    if output_padding is not None:
        extra = (
            (output_padding,) * rank if isinstance(output_padding, int) else tuple(output_padding)
        )
    sizes = [
        _transposed_size(where, *each[:3], padding, *each[3:])
        for each in zip(x.shape[1:3], k.shape[:2], step, with_height(tuple(extra), None), gaps)
    ]
    (height, top), (width, left) = sizes
    shape = (x.shape[0], height, width, k.shape[2])
    y = apply(
        CONV2D_DATA_GRADIENT,
        x,
        k,
        shape=shape,
        strides=step,
        padding=(top, left),
        dilations=gaps,
        groups=1,
    )
    return _squeeze(y, rank)
