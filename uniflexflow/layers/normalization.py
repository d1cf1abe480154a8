"""Normalization layers: compositions of means and variances.

The batch is the global one: under data parallelism a mean over the batch axis is
reduced over all ranks by itself, so batch normalization is always synchronised.

bfloat16 is normalized in float32, with weights and statistics that are not rounded; the
result is rounded.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from uniflexflow import constraints, initializers, ops, regularizers
from uniflexflow.layers.base import Layer
from uniflexflow.layers.core import positive
from uniflexflow.layers.input_spec import InputSpec
from uniflexflow.ops.dtypes import epsilon as small
from uniflexflow.ops.normalization import wide


class _Affine(Layer):
    """Learned ``gamma`` and ``beta``, each only if asked for."""

    def _set_affine(
        self,
        center: bool,
        scale: bool,
        beta_initializer: Any,
        gamma_initializer: Any,
        beta_regularizer: Any,
        gamma_regularizer: Any,
        beta_constraint: Any,
        gamma_constraint: Any,
    ) -> None:
        self.center, self.scale = center, scale
        self.beta_initializer = initializers.get(beta_initializer)
        self.gamma_initializer = initializers.get(gamma_initializer)
        self.beta_regularizer = regularizers.get(beta_regularizer)
        self.gamma_regularizer = regularizers.get(gamma_regularizer)
        self.beta_constraint = constraints.get(beta_constraint)
        self.gamma_constraint = constraints.get(gamma_constraint)

    def _add_affine(self, shape: tuple[int, ...]) -> None:
        self.gamma = self.beta = None
        if self.scale:
            self.gamma = self.add_weight(
                shape,
                self.gamma_initializer,
                regularizer=self.gamma_regularizer,
                constraint=self.gamma_constraint,
                name="gamma",
                autocast=False,
            )
        if self.center:
            self.beta = self.add_weight(
                shape,
                self.beta_initializer,
                regularizer=self.beta_regularizer,
                constraint=self.beta_constraint,
                name="beta",
                autocast=False,
            )

    def _wide(self, x: Any) -> Any:
        """Return a tensor in a dtype in which statistics can be computed."""
        return x if x is None else wide(x)

    def _place(self, axis: Any, ndim: int) -> tuple[int, ...]:
        axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
        for a in axes:
            if not -ndim <= a < ndim:
                raise ValueError(
                    f"Layer '{self.name}': axis={axis} does not exist in an input of {ndim} "
                    "dimensions."
                )
        return tuple(sorted(a % ndim for a in axes))


class BatchNormalization(_Affine):
    """Normalize each channel over the batch: ``gamma * (x - mean) / sqrt(var + eps) + beta``.

    While training, mean and variance are those of the batch, and the moving ones follow
    them. Otherwise, and if ``trainable`` is False, the moving ones are used.

    Parameters
    ----------
    axis : int
        The axis of the channels.
    momentum : float
        Of the moving mean and variance.
    epsilon : float
    center, scale : bool
        Whether there are ``beta`` and ``gamma``.
    beta_initializer, gamma_initializer : str or Initializer
    moving_mean_initializer, moving_variance_initializer : str or Initializer
    beta_regularizer, gamma_regularizer : Regularizer, optional
    beta_constraint, gamma_constraint : Constraint, optional
    synchronized : bool
        Whether ranks share their statistics. They always do.
    """

    def __init__(
        self,
        axis: int = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        synchronized: bool = False,
        **kwargs: Any,
    ):
        if kwargs.pop("renorm", False):
            raise ValueError("BatchNormalization: `renorm` is not supported.")
        for unused in ("renorm_clipping", "renorm_momentum"):
            kwargs.pop(unused, None)  # they mean something with `renorm` only
        super().__init__(**kwargs)
        if isinstance(axis, (list, tuple)):
            raise ValueError(f"BatchNormalization: `axis` must be one integer; received {axis}.")
        self.axis = int(axis)
        self.momentum, self.epsilon, self.synchronized = momentum, epsilon, synchronized
        self._set_affine(
            center,
            scale,
            beta_initializer,
            gamma_initializer,
            beta_regularizer,
            gamma_regularizer,
            beta_constraint,
            gamma_constraint,
        )
        self.moving_mean_initializer = initializers.get(moving_mean_initializer)
        self.moving_variance_initializer = initializers.get(moving_variance_initializer)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        (axis,) = self._place(self.axis, len(input_shape))
        size = input_shape[axis]
        self._add_affine((size,))
        self.moving_mean, self.moving_variance = (
            self.add_weight((size,), initializer, trainable=False, name=name, autocast=False)
            for name, initializer in (
                ("moving_mean", self.moving_mean_initializer),
                ("moving_variance", self.moving_variance_initializer),
            )
        )
        self.input_spec = InputSpec(ndim=len(input_shape), axes={axis: size})

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        out = self._normalized(self._wide(inputs), training, mask)
        return ops.cast(out, inputs.dtype)

    def _normalized(self, inputs: Any, training: Any, mask: Any) -> Any:
        gamma, beta = self._wide(self.gamma), self._wide(self.beta)
        moving_mean, moving_variance = map(self._wide, (self.moving_mean, self.moving_variance))
        (axis,) = self._place(self.axis, inputs.ndim)
        others = tuple(i for i in range(inputs.ndim) if i != axis)
        shape = tuple(n if i == axis else 1 for i, n in enumerate(inputs.shape))

        def spread(v: Any) -> Any:
            return v if axis == inputs.ndim - 1 else ops.reshape(v, shape)

        if not (training and self.trainable):
            scale = ops.rsqrt(moving_variance + self.epsilon)
            scale = scale if gamma is None else scale * gamma
            shift = -moving_mean * scale
            shift = shift if beta is None else shift + beta
            return inputs * spread(scale) + spread(shift)
        if mask is None:
            mean, variance = ops.moments(inputs, axes=others)
            distance = inputs - spread(mean)
        else:
            if mask.ndim != inputs.ndim - 1:
                raise ValueError(
                    f"Layer '{self.name}': the mask must have one dimension less than the input; "
                    f"received mask.shape={tuple(mask.shape)}, inputs.shape={tuple(inputs.shape)}."
                )
            real = ops.broadcast_to(ops.expand_dims(ops.cast(mask, inputs.dtype), -1), inputs.shape)
            count = ops.sum(real, axis=others) + small()
            mean = ops.sum(inputs * real, axis=others) / count
            distance = inputs - spread(mean)
            variance = ops.sum(distance * distance * real, axis=others) / count
        keep, new = self.momentum, 1.0 - self.momentum
        self.moving_mean.assign(moving_mean * keep + ops.stop_gradient(mean) * new)
        self.moving_variance.assign(moving_variance * keep + ops.stop_gradient(variance) * new)
        scale = ops.rsqrt(variance + self.epsilon)
        scale = scale if gamma is None else scale * gamma
        out = distance * spread(scale)
        return out if beta is None else out + spread(beta)


class LayerNormalization(_Affine):
    """Normalize each sample over its features.

    Parameters
    ----------
    axis : int or sequence of int
        The axes to normalize over.
    epsilon : float
    center, scale : bool
        Whether there are ``beta`` and ``gamma``.
    beta_initializer, gamma_initializer : str or Initializer
    beta_regularizer, gamma_regularizer : Regularizer, optional
    beta_constraint, gamma_constraint : Constraint, optional
    """

    def __init__(
        self,
        axis: Any = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.axis = list(axis) if isinstance(axis, (list, tuple)) else axis
        self.epsilon = epsilon
        self._set_affine(
            center,
            scale,
            beta_initializer,
            gamma_initializer,
            beta_regularizer,
            gamma_regularizer,
            beta_constraint,
            gamma_constraint,
        )
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        axes = self._place(self.axis, len(input_shape))
        self._add_affine(tuple(input_shape[a] for a in axes))

    def call(self, inputs: Any) -> Any:
        axes = self._place(self.axis, inputs.ndim)
        return ops.layer_normalization(inputs, self.gamma, self.beta, axes, self.epsilon)


class RMSNormalization(Layer):
    """Divide by the root of the mean square over the features, times a learned scale.

    Parameters
    ----------
    axis : int or sequence of int
    epsilon : float
    """

    def __init__(self, axis: Any = -1, epsilon: float = 1e-6, **kwargs: Any):
        super().__init__(**kwargs)
        self.axis = list(axis) if isinstance(axis, (list, tuple)) else axis
        self.epsilon = epsilon
        self.supports_masking = True

    def _axes(self, ndim: int) -> tuple[int, ...]:
        axes = self.axis if isinstance(self.axis, list) else [self.axis]
        return tuple(sorted(a % ndim for a in axes))

    def build(self, input_shape: Any) -> None:
        axes = self._axes(len(input_shape))
        self.scale = self.add_weight(
            tuple(input_shape[a] for a in axes), "ones", name="scale", autocast=False
        )

    def call(self, inputs: Any) -> Any:
        axes = self._axes(inputs.ndim)
        return ops.rms_normalization(inputs, self.scale, axes, self.epsilon)


class UnitNormalization(Layer):
    """Scale to a length of 1 along axes.

    Parameters
    ----------
    axis : int or sequence of int
    """

    def __init__(self, axis: Any = -1, **kwargs: Any):
        super().__init__(**kwargs)
        self.axis = list(axis) if isinstance(axis, (list, tuple)) else axis
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        return ops.normalize(inputs, axis=self.axis, order=2, epsilon=1e-12)


class GroupNormalization(_Affine):
    """Normalize each sample over groups of channels.

    Parameters
    ----------
    groups : int
        How many; -1 means one per channel.
    axis : int
        The axis of the channels.
    epsilon : float
    center, scale : bool
        Whether there are ``beta`` and ``gamma``.
    beta_initializer, gamma_initializer : str or Initializer
    beta_regularizer, gamma_regularizer : Regularizer, optional
    beta_constraint, gamma_constraint : Constraint, optional
    """

    def __init__(
        self,
        groups: int = 32,
        axis: int = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.groups = groups if groups == -1 else positive("GroupNormalization", "groups", groups)
        self.axis, self.epsilon = axis, epsilon
        self._set_affine(
            center,
            scale,
            beta_initializer,
            gamma_initializer,
            beta_regularizer,
            gamma_regularizer,
            beta_constraint,
            gamma_constraint,
        )
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        (axis,) = self._place(self.axis, len(input_shape))
        size = input_shape[axis]
        groups = size if self.groups == -1 else self.groups
        if size % groups:
            raise ValueError(
                f"Layer '{self.name}': the {size} channels (axis {self.axis}) must be a multiple "
                f"of groups={groups}; received the shape {tuple(input_shape)}."
            )
        self._add_affine((size,))
        self.input_spec = InputSpec(ndim=len(input_shape), axes={self.axis: size})

    def call(self, inputs: Any) -> Any:
        (axis,) = self._place(self.axis, inputs.ndim)
        size = inputs.shape[axis]
        groups = size if self.groups == -1 else self.groups
        split = (*inputs.shape[:axis], groups, size // groups, *inputs.shape[axis + 1 :])
        x = ops.reshape(self._wide(inputs), split)
        axes = tuple(i for i in range(1, x.ndim) if i != axis)
        mean, variance = ops.moments(x, axes=axes, keepdims=True)
        out = ops.reshape((x - mean) * ops.rsqrt(variance + self.epsilon), inputs.shape)
        shape = tuple(n if i == axis else 1 for i, n in enumerate(inputs.shape))
        if self.gamma is not None:
            out = out * ops.reshape(self.gamma, shape)
        if self.beta is not None:
            out = out + ops.reshape(self.beta, shape)
        return ops.cast(out, inputs.dtype)


class Rescaling(Layer):
    """``x * scale + offset``.

    Parameters
    ----------
    scale, offset : float or list of float
    """

    def __init__(self, scale: Any, offset: Any = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.scale, self.offset = scale, offset
        self.autocast = False  # data have their own scale until they are through
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        x = ops.cast(inputs, self.variable_dtype)
        x = x * self._number(self.scale) + self._number(self.offset)
        return ops.cast(x, self.compute_dtype)

    def _number(self, value: Any) -> Any:
        return value if isinstance(value, (int, float)) else np.asarray(value, self.variable_dtype)


class Normalization(Layer):
    """``(x - mean) / sqrt(variance)`` with the mean and variance of a data set.

    Give them, or let ``adapt`` find them before training.

    Parameters
    ----------
    axis : int, tuple of int or None
        Axes that have a mean and variance for each position; None: one for all.
    mean, variance : float or array, optional
    invert : bool
        Whether to do the inverse: ``x * sqrt(variance) + mean``.
    """

    def __init__(
        self,
        axis: Any = -1,
        mean: Any = None,
        variance: Any = None,
        invert: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if (mean is None) != (variance is None):
            raise ValueError(
                f"Normalization: `mean` and `variance` go together; received mean={mean}, "
                f"variance={variance}."
            )
        axis = () if axis is None else axis
        self.axis = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
        self.mean, self.variance, self.invert = mean, variance, invert
        self.autocast = False  # data have their own scale until they are through
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        ndim = len(input_shape)
        keep = sorted(a % ndim for a in self.axis)
        if 0 in keep:
            raise ValueError(
                f"Layer '{self.name}': `axis` must not name the batch axis; received {self.axis}."
            )
        for a in keep:
            if input_shape[a] is None:
                raise ValueError(
                    f"Layer '{self.name}': the size of axis {a} must be known; received the shape "
                    f"{tuple(input_shape)}."
                )
        self._kept = tuple(keep)
        self._kept_shape = tuple(input_shape[a] for a in keep)
        self._spread = tuple(n if i in keep else 1 for i, n in enumerate(input_shape))
        self._statistics = None
        if self.mean is None:
            self.adapt_mean = self.add_weight(
                self._kept_shape, "zeros", trainable=False, name="mean"
            )
            self.adapt_variance = self.add_weight(
                self._kept_shape, "ones", trainable=False, name="variance"
            )
            self.count = self.add_weight((), "zeros", dtype="int64", trainable=False, name="count")
        else:
            self._statistics = tuple(
                np.broadcast_to(np.asarray(v, self.dtype), self._kept_shape).reshape(self._spread)
                for v in (self.mean, self.variance)
            )
        self.input_spec = InputSpec(ndim=ndim, axes={a: input_shape[a] for a in keep})

    def adapt(self, data: Any) -> None:
        """Find mean and variance of a data set.

        Parameters
        ----------
        data : array, or an iterable of batches
            For elements that are tuples, the first counts.
        """
        if self.mean is not None:
            raise ValueError(
                f"Layer '{self.name}': can't adapt a Normalization layer that was given `mean` "
                "and `variance`."
            )
        batches = [data] if hasattr(data, "shape") else data
        count, mean, m2 = 0, 0.0, 0.0
        for batch in batches:
            x = np.asarray(batch[0] if isinstance(batch, tuple) else batch)
            if x.ndim == 1:
                x = x[:, None]
            if not self.built:
                self.build((None, *x.shape[1:]))
            others = tuple(i for i in range(x.ndim) if i not in self._kept)
            n = math.prod(x.shape[i] for i in others)
            if n == 0:
                continue
            batch_mean = x.mean(axis=others, dtype=np.float64)
            batch_m2 = x.var(axis=others, dtype=np.float64) * n
            delta = batch_mean - mean  # Chan's rule for the union of two sets
            total = count + n
            mean = mean + delta * (n / total)
            m2 = m2 + batch_m2 + delta * delta * (count * n / total)
            count = total
        if count == 0:
            raise ValueError(f"Layer '{self.name}': adapt() was given no data.")
        self.adapt_mean.array[...] = mean
        self.adapt_variance.array[...] = m2 / count
        self.count.array[...] = count

    def call(self, inputs: Any) -> Any:
        x = ops.cast(inputs, self.variable_dtype)
        if self._statistics is not None:
            mean, variance = self._statistics
        else:
            mean = ops.reshape(self.adapt_mean, self._spread)
            variance = ops.reshape(self.adapt_variance, self._spread)
        deviation = ops.maximum(ops.sqrt(variance), small())
        x = mean + x * deviation if self.invert else (x - mean) / deviation
        return ops.cast(x, self.compute_dtype)
