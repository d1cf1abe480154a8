"""Layers that move elements: Flatten, Reshape, padding, cropping, upsampling."""

from __future__ import annotations

import math
from typing import Any

from uniflexflow import ops
from uniflexflow.layers.base import Layer
from uniflexflow.layers.core import positive
from uniflexflow.layers.input_spec import InputSpec


def check_channels_last(where: str, data_format: Any) -> str:
    """Return ``"channels_last"``; raise ValueError for any other layout."""
    if data_format not in (None, "channels_last"):
        raise ValueError(
            f"{where}: data_format={data_format!r} is not supported; expected 'channels_last'. "
            "Move the channels to the last axis with Permute."
        )
    return "channels_last"


class Flatten(Layer):
    """Make one axis of all axes after the batch.

    Parameters
    ----------
    data_format : {"channels_last"}, optional
    """

    def __init__(self, data_format: str | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.data_format = check_channels_last("Flatten", data_format)
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: Any) -> Any:
        return ops.reshape(inputs, (inputs.shape[0], math.prod(inputs.shape[1:])))


class Reshape(Layer):
    """Give the axes after the batch another shape.

    Parameters
    ----------
    target_shape : tuple of int
        Without the batch axis; one size may be -1.
    """

    def __init__(self, target_shape: Any, **kwargs: Any):
        super().__init__(**kwargs)
        if isinstance(target_shape, int):
            target_shape = (target_shape,)
        self.target_shape = tuple(int(n) for n in target_shape)
        if self.target_shape.count(-1) > 1 or any(n < -1 for n in self.target_shape):
            raise ValueError(
                f"Reshape: sizes must not be negative, and one may be -1; received "
                f"target_shape={self.target_shape}."
            )

    def call(self, inputs: Any) -> Any:
        size, known = math.prod(inputs.shape[1:]), math.prod(n for n in self.target_shape if n >= 0)
        fits = size % known == 0 if -1 in self.target_shape and known else size == known
        if not fits:
            raise ValueError(
                f"Layer '{self.name}': an input of shape {tuple(inputs.shape)} has {size} elements "
                f"a sample; it can't get the shape {self.target_shape}."
            )
        shape = tuple(size // known if n == -1 else n for n in self.target_shape)
        return ops.reshape(inputs, (inputs.shape[0], *shape))


class Permute(Layer):
    """Reorder the axes after the batch.

    Parameters
    ----------
    dims : tuple of int
        New order; 1 is the first axis after the batch.
    """

    def __init__(self, dims: Any, **kwargs: Any):
        super().__init__(**kwargs)
        self.dims = tuple(dims)
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(
                f"Permute: `dims` must name each of 1 to {len(self.dims)} once; received "
                f"{self.dims}."
            )
        self.input_spec = InputSpec(ndim=len(self.dims) + 1)

    def call(self, inputs: Any) -> Any:
        return ops.transpose(inputs, (0, *self.dims))


class RepeatVector(Layer):
    """Repeat a vector n times: (batch, features) to (batch, n, features).

    Parameters
    ----------
    n : int
    """

    def __init__(self, n: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.n = positive("RepeatVector", "n", n)
        self.input_spec = InputSpec(ndim=2)

    def call(self, inputs: Any) -> Any:
        batch, features = inputs.shape
        return ops.broadcast_to(ops.expand_dims(inputs, 1), (batch, self.n, features))


def pairs(where: str, name: str, value: Any, axes: int) -> tuple[tuple[int, int], ...]:
    """Return one (before, after) per axis, from an int, one per axis, or such pairs."""
    if isinstance(value, int):
        value = (value,) * axes
    elif axes == 1 and len(value) == 2 and all(isinstance(v, int) for v in value):
        value = (tuple(value),)
    if len(value) != axes:
        raise ValueError(f"{where}: `{name}` must have {axes} elements; received {value!r}.")
    out = []
    for v in value:
        pair = (v, v) if isinstance(v, int) else tuple(v)
        if len(pair) != 2 or any(not isinstance(n, int) or n < 0 for n in pair):
            raise ValueError(
                f"{where}: `{name}` must be non-negative ints or pairs of them; received {value!r}."
            )
        out.append(pair)
    return tuple(out)


class ZeroPadding1D(Layer):
    """Add zeros before and after the steps.

    Parameters
    ----------
    padding : int or (int, int)
    data_format : {"channels_last"}, optional
    """

    def __init__(self, padding: Any = 1, data_format: str | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.padding = pairs("ZeroPadding1D", "padding", padding, 1)[0]
        self.data_format = check_channels_last("ZeroPadding1D", data_format)
        self.input_spec = InputSpec(ndim=3)

    def call(self, inputs: Any) -> Any:
        return ops.pad(inputs, ((0, 0), self.padding, (0, 0)))


class ZeroPadding2D(Layer):
    """Add zeros around images.

    Parameters
    ----------
    padding : int, (int, int) or ((int, int), (int, int))
        One number, (rows, columns), or ((top, bottom), (left, right)).
    data_format : {"channels_last"}, optional
    """

    def __init__(self, padding: Any = (1, 1), data_format: str | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.padding = pairs("ZeroPadding2D", "padding", padding, 2)
        self.data_format = check_channels_last("ZeroPadding2D", data_format)
        self.input_spec = InputSpec(ndim=4)

    def call(self, inputs: Any) -> Any:
        return ops.pad(inputs, ((0, 0), *self.padding, (0, 0)))


def _crop(layer: Layer, inputs: Any, cropping: tuple[tuple[int, int], ...]) -> Any:
    key: list[slice] = [slice(None)]
    for axis, (before, after) in enumerate(cropping, start=1):
        size = inputs.shape[axis]
        if before + after >= size:
            raise ValueError(
                f"Layer '{layer.name}': cropping {cropping} leaves nothing of axis {axis} of an "
                f"input of shape {tuple(inputs.shape)}."
            )
        key.append(slice(before, size - after))
    return inputs[tuple(key)]


class Cropping1D(Layer):
    """Cut steps off the ends.

    Parameters
    ----------
    cropping : int or (int, int)
    """

    def __init__(self, cropping: Any = (1, 1), **kwargs: Any):
        super().__init__(**kwargs)
        self.cropping = pairs("Cropping1D", "cropping", cropping, 1)[0]
        self.input_spec = InputSpec(ndim=3)

    def call(self, inputs: Any) -> Any:
        return _crop(self, inputs, (self.cropping,))


class Cropping2D(Layer):
    """Cut the edges off images.

    Parameters
    ----------
    cropping : int, (int, int) or ((int, int), (int, int))
        One number, (rows, columns), or ((top, bottom), (left, right)).
    data_format : {"channels_last"}, optional
    """

    def __init__(
        self, cropping: Any = ((0, 0), (0, 0)), data_format: str | None = None, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.cropping = pairs("Cropping2D", "cropping", cropping, 2)
        self.data_format = check_channels_last("Cropping2D", data_format)
        self.input_spec = InputSpec(ndim=4)

    def call(self, inputs: Any) -> Any:
        return _crop(self, inputs, self.cropping)


def _repeat(x: Any, times: int, axis: int) -> Any:
    """Repeat each element along an axis."""
    shape = tuple(x.shape)
    x = ops.expand_dims(x, axis + 1)
    x = ops.broadcast_to(x, (*shape[: axis + 1], times, *shape[axis + 1 :]))
    return ops.reshape(x, (*shape[:axis], shape[axis] * times, *shape[axis + 1 :]))


class UpSampling1D(Layer):
    """Repeat each step.

    Parameters
    ----------
    size : int
    """

    def __init__(self, size: int = 2, **kwargs: Any):
        super().__init__(**kwargs)
        self.size = positive("UpSampling1D", "size", size)
        self.input_spec = InputSpec(ndim=3)

    def call(self, inputs: Any) -> Any:
        return _repeat(inputs, self.size, 1)


class UpSampling2D(Layer):
    """Repeat each pixel.

    Parameters
    ----------
    size : int or (int, int)
    data_format : {"channels_last"}, optional
    interpolation : {"nearest"}
    """

    def __init__(
        self,
        size: Any = (2, 2),
        data_format: str | None = None,
        interpolation: str = "nearest",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.size = (size, size) if isinstance(size, int) else tuple(size)
        for n in self.size:
            positive("UpSampling2D", "size", n)
        if len(self.size) != 2:
            raise ValueError(f"UpSampling2D: `size` must be one integer or two; received {size!r}.")
        if interpolation != "nearest":
            raise ValueError(
                f"UpSampling2D: interpolation={interpolation!r} is not supported; expected "
                "'nearest'."
            )
        self.data_format = check_channels_last("UpSampling2D", data_format)
        self.interpolation = interpolation
        self.input_spec = InputSpec(ndim=4)

    def call(self, inputs: Any) -> Any:
        return _repeat(_repeat(inputs, self.size[0], 1), self.size[1], 2)
