"""Pooling layers, over sequences and images; channels last."""

from __future__ import annotations

from typing import Any

from uniflexflow import ops
from uniflexflow.layers.base import Layer
from uniflexflow.layers.convolution import check_padding, sizes
from uniflexflow.layers.input_spec import InputSpec
from uniflexflow.layers.reshaping import check_channels_last


class _Pooling(Layer):
    _axes: int
    _pool: Any

    def __init__(
        self,
        pool_size: Any,
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = None,
        name: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(name=name, **kwargs)
        where = type(self).__name__
        self.pool_size = sizes(where, "pool_size", pool_size, self._axes)
        strides = self.pool_size if strides is None else strides
        self.strides = sizes(where, "strides", strides, self._axes)
        self.padding = check_padding(where, padding, causal=False)
        self.data_format = check_channels_last(where, data_format)
        self.input_spec = InputSpec(ndim=self._axes + 2)

    def call(self, inputs: Any) -> Any:
        return type(self)._pool(
            inputs, self.pool_size, self.strides, self.padding, self.data_format
        )


class _MaxPooling(_Pooling):
    _pool = ops.max_pool

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = None,
        name: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(pool_size, strides, padding, data_format, name, **kwargs)


class MaxPooling1D(_MaxPooling):
    """Take the largest of each window of steps, channel by channel.

    Parameters
    ----------
    pool_size : int
    strides : int, optional
        Default: ``pool_size``.
    padding : {"valid", "same"}
    data_format : {"channels_last"}, optional
    name : str, optional
    """

    _axes = 1


class MaxPooling2D(_MaxPooling):
    """Take the largest of each window of pixels, channel by channel.

    Parameters
    ----------
    pool_size : int or (int, int)
    strides : int or (int, int), optional
        Default: ``pool_size``.
    padding : {"valid", "same"}
    data_format : {"channels_last"}, optional
    name : str, optional
    """

    _axes = 2


class AveragePooling1D(_Pooling):
    """Take the mean of each window of steps, channel by channel.

    Parameters
    ----------
    pool_size : int
    strides : int, optional
        Default: ``pool_size``.
    padding : {"valid", "same"}
        Padding is left out of the mean.
    data_format : {"channels_last"}, optional
    name : str, optional
    """

    _axes = 1
    _pool = ops.average_pool


class AveragePooling2D(_Pooling):
    """Take the mean of each window of pixels, channel by channel.

    Parameters
    ----------
    pool_size : int or (int, int)
    strides : int or (int, int), optional
        Default: ``pool_size``.
    padding : {"valid", "same"}
        Padding is left out of the mean.
    data_format : {"channels_last"}, optional
    name : str, optional
    """

    _axes = 2
    _pool = ops.average_pool


class _GlobalPooling(Layer):
    _axes: int

    def __init__(self, data_format: str | None = None, keepdims: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        self.data_format = check_channels_last(type(self).__name__, data_format)
        self.keepdims = keepdims
        self.input_spec = InputSpec(ndim=self._axes + 2)

    @property
    def _spatial(self) -> tuple[int, ...]:
        return tuple(range(1, self._axes + 1))


class GlobalMaxPooling1D(_GlobalPooling):
    """Take the largest over all steps, channel by channel.

    Parameters
    ----------
    data_format : {"channels_last"}, optional
    keepdims : bool
        Whether the steps' axis stays, with size 1.
    """

    _axes = 1

    def call(self, inputs: Any) -> Any:
        return ops.max(inputs, axis=self._spatial, keepdims=self.keepdims)


class GlobalMaxPooling2D(GlobalMaxPooling1D):
    """Take the largest over all pixels, channel by channel.

    Parameters
    ----------
    data_format : {"channels_last"}, optional
    keepdims : bool
        Whether the spatial axes stay, with size 1.
    """

    _axes = 2


class GlobalAveragePooling1D(_GlobalPooling):
    """Take the mean over all steps, or over those that the mask says are real.

    Parameters
    ----------
    data_format : {"channels_last"}, optional
    keepdims : bool
        Whether the steps' axis stays, with size 1.
    """

    _axes = 1

    def __init__(self, data_format: str | None = None, keepdims: bool = False, **kwargs: Any):
        super().__init__(data_format, keepdims, **kwargs)
        self.supports_masking = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        if mask is None:
            return ops.mean(inputs, axis=1, keepdims=self.keepdims)
        real = ops.expand_dims(ops.cast(mask, inputs.dtype), 2)
        total = ops.sum(inputs * real, axis=1, keepdims=self.keepdims)
        return total / ops.sum(real, axis=1, keepdims=self.keepdims)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return None


class GlobalAveragePooling2D(_GlobalPooling):
    """Take the mean over all pixels, channel by channel.

    Parameters
    ----------
    data_format : {"channels_last"}, optional
    keepdims : bool
        Whether the spatial axes stay, with size 1.
    """

    _axes = 2

    def call(self, inputs: Any) -> Any:
        return ops.mean(inputs, axis=self._spatial, keepdims=self.keepdims)


# Keras's short names
MaxPool1D, MaxPool2D = MaxPooling1D, MaxPooling2D
AvgPool1D, AvgPool2D = AveragePooling1D, AveragePooling2D
GlobalMaxPool1D, GlobalMaxPool2D = GlobalMaxPooling1D, GlobalMaxPooling2D
GlobalAvgPool1D, GlobalAvgPool2D = GlobalAveragePooling1D, GlobalAveragePooling2D
