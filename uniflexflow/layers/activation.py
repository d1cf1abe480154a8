"""Activations as layers."""

from __future__ import annotations

from typing import Any

from uniflexflow import activations, constraints, initializers, ops, regularizers
from uniflexflow.layers.base import Layer
from uniflexflow.layers.input_spec import InputSpec


class _Elementwise(Layer):
    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True


class Activation(_Elementwise):
    """Apply an activation.

    Parameters
    ----------
    activation : str or callable
    """

    def __init__(self, activation: Any, **kwargs: Any):
        super().__init__(**kwargs)
        self.activation = activations.get(activation)

    def call(self, inputs: Any) -> Any:
        return self.activation(inputs)


class ReLU(_Elementwise):
    """``max(x, 0)``, with a slope below 0, an upper limit and a threshold.

    Parameters
    ----------
    max_value : float, optional
    negative_slope : float
    threshold : float
    """

    def __init__(
        self,
        max_value: float | None = None,
        negative_slope: float = 0.0,
        threshold: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        for name, value in (
            ("max_value", max_value),
            ("negative_slope", negative_slope),
            ("threshold", threshold),
        ):
            if (value is None and name != "max_value") or (value is not None and value < 0):
                raise ValueError(f"ReLU: `{name}` must not be negative; received {value!r}.")
        self.max_value = max_value
        self.negative_slope = negative_slope
        self.threshold = threshold

    def call(self, inputs: Any) -> Any:
        return activations.relu(inputs, self.negative_slope, self.max_value, self.threshold)


class LeakyReLU(_Elementwise):
    """x where positive, else ``negative_slope * x``.

    Parameters
    ----------
    negative_slope : float
    """

    def __init__(self, negative_slope: float = 0.3, **kwargs: Any):
        if "alpha" in kwargs:  # its name in Keras 2
            negative_slope = kwargs.pop("alpha")
        super().__init__(**kwargs)
        if negative_slope is None or negative_slope < 0:
            raise ValueError(
                f"LeakyReLU: `negative_slope` must not be negative; received {negative_slope!r}."
            )
        self.negative_slope = negative_slope

    def call(self, inputs: Any) -> Any:
        return activations.leaky_relu(inputs, self.negative_slope)


class ELU(_Elementwise):
    """x where positive, else ``alpha * (exp(x) - 1)``.

    Parameters
    ----------
    alpha : float
    """

    def __init__(self, alpha: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.alpha = alpha

    def call(self, inputs: Any) -> Any:
        return activations.elu(inputs, self.alpha)


class PReLU(_Elementwise):
    """x where positive, else ``alpha * x`` with a learned alpha.

    Parameters
    ----------
    alpha_initializer : str or Initializer
    alpha_regularizer : Regularizer, optional
    alpha_constraint : Constraint, optional
    shared_axes : list of int, optional
        Axes (1 is the first after the batch) along which one alpha is used.
    """

    def __init__(
        self,
        alpha_initializer: Any = "Zeros",
        alpha_regularizer: Any = None,
        alpha_constraint: Any = None,
        shared_axes: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.alpha_initializer = initializers.get(alpha_initializer)
        self.alpha_regularizer = regularizers.get(alpha_regularizer)
        self.alpha_constraint = constraints.get(alpha_constraint)
        if shared_axes is not None and not isinstance(shared_axes, (list, tuple)):
            shared_axes = [shared_axes]
        self.shared_axes = None if shared_axes is None else list(shared_axes)

    def build(self, input_shape: Any) -> None:
        shape = list(input_shape[1:])
        for axis in self.shared_axes or ():
            shape[axis - 1] = 1
        self.alpha = self.add_weight(
            shape,
            self.alpha_initializer,
            regularizer=self.alpha_regularizer,
            constraint=self.alpha_constraint,
            name="alpha",
        )
        fixed = {i: n for i, n in enumerate(input_shape) if i and i not in (self.shared_axes or ())}
        self.input_spec = InputSpec(ndim=len(input_shape), axes=fixed)

    def call(self, inputs: Any) -> Any:
        return ops.relu(inputs) - self.alpha * ops.relu(-inputs)


class Softmax(_Elementwise):
    """``exp(x) / sum(exp(x))`` along an axis, or several.

    Parameters
    ----------
    axis : int or sequence of int
    """

    def __init__(self, axis: Any = -1, **kwargs: Any):
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs: Any, mask: Any = None) -> Any:
        if mask is not None:
            inputs = inputs + (1.0 - ops.cast(mask, inputs.dtype)) * -1e9
        if isinstance(self.axis, (tuple, list)):
            if len(self.axis) > 1:
                top = ops.stop_gradient(ops.max(inputs, axis=self.axis, keepdims=True))
                e = ops.exp(inputs - top)
                return e / ops.sum(e, axis=self.axis, keepdims=True)
            return activations.softmax(inputs, axis=self.axis[0])
        return activations.softmax(inputs, axis=self.axis)
