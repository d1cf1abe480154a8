"""Convolution layers, over sequences and images; channels last."""

from __future__ import annotations

from typing import Any

from uniflexflow import activations, constraints, initializers, ops, regularizers
from uniflexflow.layers.base import Layer
from uniflexflow.layers.core import positive
from uniflexflow.layers.input_spec import InputSpec
from uniflexflow.layers.reshaping import check_channels_last


def sizes(where: str, name: str, value: Any, axes: int) -> tuple[int, ...]:
    """Return one positive int per axis, from an int or a sequence."""
    out = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(out) != axes:
        raise ValueError(
            f"{where}: `{name}` must be an integer or have {axes} elements; received {value!r}."
        )
    return tuple(positive(where, name, n) for n in out)


def check_padding(where: str, padding: Any, causal: bool) -> str:
    """Return a padding's name in lower case; raise ValueError for an unknown one."""
    allowed = ("valid", "same", "causal") if causal else ("valid", "same")
    if not isinstance(padding, str) or padding.lower() not in allowed:
        raise ValueError(f"{where}: padding={padding!r}; expected one of {allowed}.")
    return padding.lower()


class _Convolution(Layer):
    """What all convolutions share; ``_axes`` is the number of spatial axes."""

    _axes: int
    _causal = False

    def _set_window(
        self, kernel_size: Any, strides: Any, padding: Any, data_format: Any, dilation_rate: Any
    ) -> None:
        where = type(self).__name__
        self.kernel_size = sizes(where, "kernel_size", kernel_size, self._axes)
        self.strides = sizes(where, "strides", strides, self._axes)
        self.dilation_rate = sizes(where, "dilation_rate", dilation_rate, self._axes)
        self.padding = check_padding(where, padding, self._causal)
        self.data_format = check_channels_last(where, data_format)
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ValueError(
                f"{where}: strides={self.strides} and dilation_rate={self.dilation_rate} can't "
                "both be above 1."
            )
        self.input_spec = InputSpec(ndim=self._axes + 2)

    def _set_bias(
        self, use_bias: bool, initializer: Any, regularizer: Any, constraint: Any
    ) -> None:
        self.use_bias = use_bias
        self.bias_initializer = initializers.get(initializer)
        self.bias_regularizer = regularizers.get(regularizer)
        self.bias_constraint = constraints.get(constraint)

    def _channels(self, input_shape: Any) -> int:
        if input_shape[-1] is None:
            raise ValueError(
                f"Layer '{self.name}': the channels (axis -1) of the input must be known; "
                f"received the shape {tuple(input_shape)}."
            )
        self.input_spec = InputSpec(ndim=self._axes + 2, axes={-1: input_shape[-1]})
        return input_shape[-1]

    def _add_bias(self, channels: int) -> None:
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                (channels,),
                self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
                name="bias",
            )

    def _finish(self, x: Any) -> Any:
        if self.bias is not None:
            x = x + self.bias
        return self.activation(x)

    def _pad_causal(self, x: Any) -> tuple[Any, str]:
        """Return the input padded in front for ``causal``, and the padding that is left."""
        if self.padding != "causal":
            return x, self.padding
        before = self.dilation_rate[0] * (self.kernel_size[0] - 1)
        return ops.pad(x, ((0, 0), (before, 0), (0, 0))), "valid"


class _Conv(_Convolution):
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        where = type(self).__name__
        self.filters = positive(where, "filters", filters)
        self.groups = positive(where, "groups", groups)
        if filters % groups:
            raise ValueError(f"{where}: filters={filters} must be a multiple of groups={groups}.")
        self._set_window(kernel_size, strides, padding, data_format, dilation_rate)
        self._set_bias(use_bias, bias_initializer, bias_regularizer, bias_constraint)
        self.activation = activations.get(activation)
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)

    def build(self, input_shape: Any) -> None:
        channels = self._channels(input_shape)
        if channels % self.groups:
            raise ValueError(
                f"Layer '{self.name}': the input's {channels} channels must be a multiple of "
                f"groups={self.groups}; received the shape {tuple(input_shape)}."
            )
        self.kernel = self.add_weight(
            (*self.kernel_size, channels // self.groups, self.filters),
            self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            name="kernel",
        )
        self._add_bias(self.filters)

    def call(self, inputs: Any) -> Any:
        x, padding = self._pad_causal(inputs)
        x = ops.conv(x, self.kernel, self.strides, padding, self.data_format, self.dilation_rate)
        return self._finish(x)


_CONV_ARGUMENTS = """
    Parameters
    ----------
    filters : int
        Number of output channels.
    kernel_size : int or tuple of int
        Size of the window.
    strides : int or tuple of int
    padding : {padding}
        ``"same"`` adds zeros so that the output is as large as the input over the stride.
    data_format : {{"channels_last"}}, optional
    dilation_rate : int or tuple of int
        Distance between the taps of the window.
    groups : int
        Number of groups of channels that are convolved separately.
    activation : str or callable, optional
    use_bias : bool
    kernel_initializer, bias_initializer : str or Initializer
    kernel_regularizer, bias_regularizer, activity_regularizer : Regularizer, optional
    kernel_constraint, bias_constraint : Constraint, optional
    """


class Conv1D(_Conv):
    __doc__ = "Convolve sequences (batch, steps, channels) with a kernel.\n" + (
        _CONV_ARGUMENTS.format(padding='{"valid", "same", "causal"}')
    )
    _axes = 1
    _causal = True


class Conv2D(_Conv):
    __doc__ = "Convolve images (batch, height, width, channels) with a kernel.\n" + (
        _CONV_ARGUMENTS.format(padding='{"valid", "same"}')
    )
    _axes = 2


class _ConvTranspose(_Convolution):
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        output_padding: Any = None,
        data_format: str | None = None,
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        where = type(self).__name__
        self.filters = positive(where, "filters", filters)
        self._set_window(kernel_size, strides, padding, data_format, dilation_rate)
        self._set_bias(use_bias, bias_initializer, bias_regularizer, bias_constraint)
        if output_padding is not None:
            output_padding = (
                (output_padding,) * self._axes
                if isinstance(output_padding, int)
                else tuple(output_padding)
            )
            if len(output_padding) != self._axes or any(
                p < 0 or p >= s for p, s in zip(output_padding, self.strides)
            ):
                raise ValueError(
                    f"{where}: output_padding={output_padding} must have {self._axes} elements, "
                    f"each at least 0 and below its stride; strides={self.strides}."
                )
        self.output_padding = output_padding
        self.activation = activations.get(activation)
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)

    def build(self, input_shape: Any) -> None:
        self.kernel = self.add_weight(
            (*self.kernel_size, self.filters, self._channels(input_shape)),
            self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            name="kernel",
        )
        self._add_bias(self.filters)

    def call(self, inputs: Any) -> Any:
        x = ops.conv_transpose(
            inputs,
            self.kernel,
            self.strides,
            self.padding,
            self.output_padding,
            self.data_format,
            self.dilation_rate,
        )
        return self._finish(x)


_TRANSPOSE_ARGUMENTS = """
    Parameters
    ----------
    filters : int
        Number of output channels.
    kernel_size : int or tuple of int
        Size of the window.
    strides : int or tuple of int
    padding : {"valid", "same"}
        ``"same"`` makes the output as large as the input times the stride.
    output_padding : int or tuple of int, optional
        How much is added at the output's end; below the stride.
    data_format : {"channels_last"}, optional
    dilation_rate : int or tuple of int
        Distance between the taps of the window.
    activation : str or callable, optional
    use_bias : bool
    kernel_initializer, bias_initializer : str or Initializer
    kernel_regularizer, bias_regularizer, activity_regularizer : Regularizer, optional
    kernel_constraint, bias_constraint : Constraint, optional
    """


class Conv1DTranspose(_ConvTranspose):
    __doc__ = "Spread each step over a window: the transpose of Conv1D.\n" + _TRANSPOSE_ARGUMENTS
    _axes = 1


class Conv2DTranspose(_ConvTranspose):
    __doc__ = "Spread each pixel over a window: the transpose of Conv2D.\n" + _TRANSPOSE_ARGUMENTS
    _axes = 2


class _DepthwiseConv(_Convolution):
    def __init__(
        self,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.depth_multiplier = positive(type(self).__name__, "depth_multiplier", depth_multiplier)
        self._set_window(kernel_size, strides, padding, data_format, dilation_rate)
        self._set_bias(use_bias, bias_initializer, bias_regularizer, bias_constraint)
        self.activation = activations.get(activation)
        self.depthwise_initializer = initializers.get(depthwise_initializer)
        self.depthwise_regularizer = regularizers.get(depthwise_regularizer)
        self.depthwise_constraint = constraints.get(depthwise_constraint)

    def build(self, input_shape: Any) -> None:
        channels = self._channels(input_shape)
        self.kernel = self.add_weight(
            (*self.kernel_size, channels, self.depth_multiplier),
            self.depthwise_initializer,
            regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
            name="kernel",
        )
        self._add_bias(channels * self.depth_multiplier)

    def call(self, inputs: Any) -> Any:
        x, padding = self._pad_causal(inputs)
        x = ops.depthwise_conv(
            x, self.kernel, self.strides, padding, self.data_format, self.dilation_rate
        )
        return self._finish(x)


_DEPTHWISE_ARGUMENTS = """
    Parameters
    ----------
    kernel_size : int or tuple of int
    strides : int or tuple of int
    padding : {padding}
    depth_multiplier : int
        Number of kernels, and so of outputs, per channel.
    data_format : {{"channels_last"}}, optional
    dilation_rate : int or tuple of int
    activation : str or callable, optional
    use_bias : bool
    depthwise_initializer, bias_initializer : str or Initializer
    depthwise_regularizer, bias_regularizer, activity_regularizer : Regularizer, optional
    depthwise_constraint, bias_constraint : Constraint, optional
    """


class DepthwiseConv1D(_DepthwiseConv):
    __doc__ = "Convolve each channel of sequences with kernels of its own.\n" + (
        _DEPTHWISE_ARGUMENTS.format(padding='{"valid", "same", "causal"}')
    )
    _axes = 1
    _causal = True


class DepthwiseConv2D(_DepthwiseConv):
    __doc__ = "Convolve each channel of images with kernels of its own.\n" + (
        _DEPTHWISE_ARGUMENTS.format(padding='{"valid", "same"}')
    )
    _axes = 2


class _SeparableConv(_Convolution):
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        pointwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        where = type(self).__name__
        self.filters = positive(where, "filters", filters)
        self.depth_multiplier = positive(where, "depth_multiplier", depth_multiplier)
        self._set_window(kernel_size, strides, padding, data_format, dilation_rate)
        self._set_bias(use_bias, bias_initializer, bias_regularizer, bias_constraint)
        self.activation = activations.get(activation)
        self.depthwise_initializer = initializers.get(depthwise_initializer)
        self.depthwise_regularizer = regularizers.get(depthwise_regularizer)
        self.depthwise_constraint = constraints.get(depthwise_constraint)
        self.pointwise_initializer = initializers.get(pointwise_initializer)
        self.pointwise_regularizer = regularizers.get(pointwise_regularizer)
        self.pointwise_constraint = constraints.get(pointwise_constraint)

    def build(self, input_shape: Any) -> None:
        channels = self._channels(input_shape)
        self.depthwise_kernel = self.add_weight(
            (*self.kernel_size, channels, self.depth_multiplier),
            self.depthwise_initializer,
            regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
            name="depthwise_kernel",
        )
        self.pointwise_kernel = self.add_weight(
            (*(1,) * self._axes, channels * self.depth_multiplier, self.filters),
            self.pointwise_initializer,
            regularizer=self.pointwise_regularizer,
            constraint=self.pointwise_constraint,
            name="pointwise_kernel",
        )
        self._add_bias(self.filters)

    def call(self, inputs: Any) -> Any:
        x, padding = self._pad_causal(inputs)
        x = ops.separable_conv(
            x,
            self.depthwise_kernel,
            self.pointwise_kernel,
            self.strides,
            padding,
            self.data_format,
            self.dilation_rate,
        )
        return self._finish(x)


_SEPARABLE_ARGUMENTS = """
    Parameters
    ----------
    filters : int
    kernel_size : int or tuple of int
    strides : int or tuple of int
    padding : {padding}
    data_format : {{"channels_last"}}, optional
    dilation_rate : int or tuple of int
    depth_multiplier : int
        Number of depthwise kernels per channel.
    activation : str or callable, optional
    use_bias : bool
    depthwise_initializer, pointwise_initializer, bias_initializer : str or Initializer
    depthwise_regularizer, pointwise_regularizer, bias_regularizer : Regularizer, optional
    activity_regularizer : Regularizer, optional
    depthwise_constraint, pointwise_constraint, bias_constraint : Constraint, optional
    """


class SeparableConv1D(_SeparableConv):
    __doc__ = "Convolve each channel of sequences by itself, then mix the channels.\n" + (
        _SEPARABLE_ARGUMENTS.format(padding='{"valid", "same", "causal"}')
    )
    _axes = 1
    _causal = True


class SeparableConv2D(_SeparableConv):
    __doc__ = "Convolve each channel of images by itself, then mix the channels.\n" + (
        _SEPARABLE_ARGUMENTS.format(padding='{"valid", "same"}')
    )
    _axes = 2
