"""Dense and the small general layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uniflexflow import activations, constraints, initializers, ops, regularizers
from uniflexflow.layers.base import Layer
from uniflexflow.layers.input_spec import InputSpec
from uniflexflow.ops.dtypes import is_float


def positive(where: str, name: str, value: Any) -> int:
    """Return ``value`` if it is a positive int; else raise ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError(f"{where}: `{name}` must be a positive integer; received {value!r}.")
    return value


class Dense(Layer):
    """``activation(x @ kernel + bias)``, over the last axis.

    Parameters
    ----------
    units : int
        Size of the output's last axis.
    activation : str or callable, optional
    use_bias : bool
    kernel_initializer, bias_initializer : str or Initializer
    kernel_regularizer, bias_regularizer, activity_regularizer : Regularizer, optional
    kernel_constraint, bias_constraint : Constraint, optional

    Examples
    --------
    >>> import numpy as np
    >>> Dense(4)(np.ones((2, 3), "float32")).shape
    (2, 4)
    """

    def __init__(
        self,
        units: int,
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
        self.units = positive("Dense", "units", units)
        self.activation = activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.bias_constraint = constraints.get(bias_constraint)
        self.input_spec = InputSpec(min_ndim=2)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        self.kernel = self.add_weight(
            (input_shape[-1], self.units),
            self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            name="kernel",
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                (self.units,),
                self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
                name="bias",
            )
        self.input_spec = InputSpec(min_ndim=2, axes={-1: input_shape[-1]})

    def call(self, inputs: Any) -> Any:
        x = ops.matmul(inputs, self.kernel)
        if self.bias is not None:
            x = x + self.bias
        return self.activation(x)


class Embedding(Layer):
    """A table of vectors, looked up by index.

    Parameters
    ----------
    input_dim : int
        Number of vectors: one more than the largest index.
    output_dim : int
        Their length.
    embeddings_initializer : str or Initializer
    embeddings_regularizer : Regularizer, optional
    embeddings_constraint : Constraint, optional
    mask_zero : bool
        Whether index 0 is padding: the layers that follow get a mask.
    weights : array, optional
        The table to start from.
    """

    _not_in_config = ("weights",)

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        embeddings_constraint: Any = None,
        mask_zero: bool = False,
        weights: Any = None,
        **kwargs: Any,
    ):
        input_length = kwargs.pop("input_length", None)
        if input_length is not None:
            raise ValueError(
                "Embedding: `input_length` is not an argument any more: remove it; the length "
                "is that of the input."
            )
        super().__init__(**kwargs)
        self.input_dim = positive("Embedding", "input_dim", input_dim)
        self.output_dim = positive("Embedding", "output_dim", output_dim)
        self.embeddings_initializer = initializers.get(embeddings_initializer)
        self.embeddings_regularizer = regularizers.get(embeddings_regularizer)
        self.embeddings_constraint = constraints.get(embeddings_constraint)
        self.mask_zero = mask_zero
        self.supports_masking = mask_zero
        self.autocast = False
        if weights is not None:
            self.build(None)
            weights = weights if isinstance(weights, (list, tuple)) else [weights]
            self.set_weights(weights)

    def build(self, input_shape: Any = None) -> None:
        self.embeddings = self.add_weight(
            (self.input_dim, self.output_dim),
            self.embeddings_initializer,
            regularizer=self.embeddings_regularizer,
            constraint=self.embeddings_constraint,
            name="embeddings",
            autocast=False,
        )

    def call(self, inputs: Any) -> Any:
        if is_float(inputs.dtype):
            inputs = ops.cast(inputs, "int32")
        # the rows that are taken are cast, not the table
        return ops.cast(ops.take(self.embeddings, inputs, axis=0), self.compute_dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return ops.not_equal(inputs, 0) if self.mask_zero else None

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.setdefault("activity_regularizer", None)
        return config


class Identity(Layer):
    """Return the input."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        return inputs


class Lambda(Layer):
    """A function of ``uff.ops`` as a layer.

    Parameters
    ----------
    function : callable
        Takes the input, and ``training`` and ``mask`` if it has such parameters.
    output_shape : tuple of int or None, or callable, optional
        Without the batch axis. The shape is found by tracing; a tuple is checked against it.
    mask : tensor or callable, optional
        The output's mask, or a function ``(inputs, mask) -> mask``.
    arguments : dict, optional
        More keyword arguments of the function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        output_shape: Any = None,
        mask: Any = None,
        arguments: dict[str, Any] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if not callable(function):
            raise TypeError(f"Lambda: `function` must be callable; received {function!r}.")
        self.function = function
        self.output_shape = output_shape
        self.mask = mask
        self.arguments = dict(arguments or {})
        self.supports_masking = mask is not None
        from uniflexflow.layers.call import Signature

        self._takes = Signature(function).names

    def call(self, inputs: Any, mask: Any = None, training: Any = None) -> Any:
        extra = dict(self.arguments)
        if "mask" in self._takes:
            extra["mask"] = mask
        if "training" in self._takes:
            extra["training"] = training
        outputs = self.function(inputs, **extra)
        expected = self.output_shape
        if expected is not None and not callable(expected):
            got = tuple(outputs.shape)[1:]
            if len(got) != len(expected) or any(
                e is not None and e != g for e, g in zip(expected, got)
            ):
                raise ValueError(
                    f"Layer '{self.name}': the function returned the shape {tuple(outputs.shape)}; "
                    f"`output_shape` says {tuple(expected)} after the batch axis."
                )
        return outputs

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return self.mask(inputs, previous_mask) if callable(self.mask) else self.mask


class Masking(Layer):
    """Mask the steps at which every feature is ``mask_value``.

    Parameters
    ----------
    mask_value : float
    """

    def __init__(self, mask_value: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.mask_value = mask_value
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        real = ops.any(ops.not_equal(inputs, self.mask_value), axis=-1, keepdims=True)
        return inputs * ops.cast(real, inputs.dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return ops.any(ops.not_equal(inputs, self.mask_value), axis=-1)
