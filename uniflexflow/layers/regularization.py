"""Layers that add noise while training."""

from __future__ import annotations

import math
from typing import Any

from uniflexflow import random
from uniflexflow.layers.base import Layer
from uniflexflow.layers.input_spec import InputSpec
from uniflexflow.layers.reshaping import check_channels_last


def _rate(where: str, rate: Any) -> float:
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate <= 1:
        raise ValueError(f"{where}: `rate` must be a number in [0, 1]; received {rate!r}.")
    return rate


class _Noise(Layer):
    """Has a random state of its own, which is part of the model's."""

    def __init__(self, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.seed = seed
        self.seed_generator = self._make_seed_generator(seed)
        self.supports_masking = True


class Dropout(_Noise):
    """Set a share of the elements to 0 while training; scale the others by 1 / (1 - rate).

    Parameters
    ----------
    rate : float
        In [0, 1].
    noise_shape : tuple of int or None, optional
        The shape of the pattern, broadcast to that of the input; None is the input's size.
    seed : int, optional
    """

    def __init__(
        self, rate: float, noise_shape: Any = None, seed: int | None = None, **kwargs: Any
    ):
        super().__init__(seed, **kwargs)
        self.rate = _rate("Dropout", rate)
        self.noise_shape = None if noise_shape is None else tuple(noise_shape)

    def call(self, inputs: Any, training: Any = False) -> Any:
        if not training or self.rate == 0:
            return inputs
        return random.dropout(inputs, self.rate, self.noise_shape, self.seed_generator)


class SpatialDropout1D(_Noise):
    """Drop whole channels of sequences.

    Parameters
    ----------
    rate : float
    seed : int, optional
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any):
        super().__init__(seed, **kwargs)
        self.rate = _rate(type(self).__name__, rate)
        self.input_spec = InputSpec(ndim=3)

    def call(self, inputs: Any, training: Any = False) -> Any:
        if not training or self.rate == 0:
            return inputs
        shape = (None, *(1,) * (inputs.ndim - 2), None)
        return random.dropout(inputs, self.rate, shape, self.seed_generator)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if self.trainable:
            del config["trainable"]  # Keras's class does not take it
        return config


class SpatialDropout2D(SpatialDropout1D):
    """Drop whole channels of images.

    Parameters
    ----------
    rate : float
    data_format : {"channels_last"}, optional
    seed : int, optional
    """

    def __init__(
        self, rate: float, data_format: str | None = None, seed: int | None = None, **kwargs: Any
    ):
        super().__init__(rate, seed, **kwargs)
        self.data_format = check_channels_last("SpatialDropout2D", data_format)
        self.input_spec = InputSpec(ndim=4)


class GaussianNoise(_Noise):
    """Add normal noise while training.

    Parameters
    ----------
    stddev : float
    seed : int, optional
    """

    def __init__(self, stddev: float, seed: int | None = None, **kwargs: Any):
        super().__init__(seed, **kwargs)
        if not stddev >= 0:
            raise ValueError(f"GaussianNoise: `stddev` must not be negative; received {stddev!r}.")
        self.stddev = stddev

    def call(self, inputs: Any, training: Any = False) -> Any:
        if not training or self.stddev == 0:
            return inputs
        return inputs + random.normal(
            inputs.shape, 0.0, self.stddev, dtype=inputs.dtype, seed=self.seed_generator
        )


class GaussianDropout(_Noise):
    """Multiply by normal noise of mean 1 and variance rate / (1 - rate) while training.

    Parameters
    ----------
    rate : float
    seed : int, optional
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any):
        super().__init__(seed, **kwargs)
        self.rate = _rate("GaussianDropout", rate)

    def call(self, inputs: Any, training: Any = False) -> Any:
        if not training or self.rate == 0:
            return inputs
        if self.rate == 1:
            raise ValueError(f"Layer '{self.name}': a rate of 1 has an infinite variance.")
        stddev = math.sqrt(self.rate / (1.0 - self.rate))
        return inputs * random.normal(
            inputs.shape, 1.0, stddev, dtype=inputs.dtype, seed=self.seed_generator
        )


class ActivityRegularization(Layer):
    """Add a penalty on the input to the loss; return the input.

    Parameters
    ----------
    l1, l2 : float
    """

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **kwargs: Any):
        from uniflexflow.regularizers import L1L2

        super().__init__(activity_regularizer=L1L2(l1, l2), **kwargs)
        self.l1, self.l2 = l1, l2
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        return inputs

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.pop("activity_regularizer", None)  # made of l1 and l2
        return config
