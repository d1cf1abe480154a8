"""Initializers: from a shape to the first numbers of a weight, as a NumPy array.

They are seeded: with an int, the same numbers at each call; by default, numbers of
their own at each call, which follow from ``uff.random.set_random_seed``.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from uniflexflow import random
from uniflexflow.naming import to_snake_case
from uniflexflow.ops.dtypes import canonical_dtype, floatx, is_float


class Initializer:
    """Base class: subclasses override ``__call__`` and, with arguments, ``get_config``.

    Examples
    --------
    >>> import uniflexflow as uff
    >>> class Threes(uff.initializers.Initializer):
    ...     def __call__(self, shape, dtype=None):
    ...         return np.full(shape, 3.0, dtype)
    >>> Threes()((2,), "float32")
    array([3., 3.], dtype=float32)
    """

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> np.ndarray:
        """Return an array of this shape and dtype."""
        raise NotImplementedError(f"{type(self).__name__} has no `__call__`.")

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        """Make an initializer from what ``get_config`` returned.

        Options of Keras that it does not have may be there if they are None.
        """
        known = inspect.signature(cls).parameters
        return cls(**{k: v for k, v in config.items() if v is not None or k in known})

    def __repr__(self) -> str:
        args = ", ".join(f"{k}={v!r}" for k, v in self.get_config().items())
        return f"{type(self).__name__}({args})"


def _float_dtype(name: str, dtype: str | None) -> str:
    dtype = canonical_dtype(dtype or floatx())
    if not is_float(dtype):
        raise ValueError(f"{name}: expected a float dtype; received {dtype!r}.")
    return dtype


def _drawn_in(dtype: str) -> str:
    """Return the dtype in which numbers are drawn that are then rounded to ``dtype``."""
    return "float32" if dtype == "bfloat16" else dtype


class Zeros(Initializer):
    """All zeros."""

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> np.ndarray:
        return np.zeros(shape, canonical_dtype(dtype or floatx()))


class Ones(Initializer):
    """All ones."""

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> np.ndarray:
        return np.ones(shape, canonical_dtype(dtype or floatx()))


class Constant(Initializer):
    """One value everywhere, or an array of the weight's shape."""

    def __init__(self, value: Any = 0.0):
        self.value = value

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> np.ndarray:
        value = np.asarray(self.value, canonical_dtype(dtype or floatx()))
        return np.broadcast_to(value, shape).copy()

    def get_config(self) -> dict[str, Any]:
        return {"value": self.value}


class _Random(Initializer):
    """Draws with a NumPy generator of its own."""

    def __init__(self, seed: int | None = None):
        if seed is not None and not isinstance(seed, (int, np.integer)):
            raise TypeError(
                f"{type(self).__name__}: `seed` must be an int or None; received {seed!r}."
            )
        self.seed = None if seed is None else int(seed)

    def _generator(self) -> np.random.Generator:
        seed = random.make_seed() if self.seed is None else self.seed
        return np.random.default_rng(abs(int(seed)))

    def _uniform(self, low: float, high: float, shape: Any, dtype: str) -> np.ndarray:
        x = self._generator().random(shape, dtype=_drawn_in(dtype))
        return np.asarray(low + x * np.asarray(high - low, x.dtype), dtype)

    def _normal(self, mean: float, stddev: float, shape: Any, dtype: str) -> np.ndarray:
        x = np.asarray(self._generator().standard_normal(shape, dtype=_drawn_in(dtype)))
        return np.asarray(mean + x * np.asarray(stddev, x.dtype), dtype)

    def _truncated(self, mean: float, stddev: float, shape: Any, dtype: str) -> np.ndarray:
        # a standard normal, drawn again where it is more than 2 from 0
        generator = self._generator()
        x = np.asarray(generator.standard_normal(shape, dtype=_drawn_in(dtype)))
        outside = np.abs(x) > 2
        while outside.any():
            x[outside] = generator.standard_normal(int(outside.sum()), dtype=x.dtype)
            outside = np.abs(x) > 2
        return np.asarray(mean + x * np.asarray(stddev, x.dtype), dtype)


class RandomUniform(_Random):
    """Uniform between ``minval`` and ``maxval``.

    Parameters
    ----------
    minval, maxval : float
    seed : int, optional
        One from ``random.make_seed`` by default.
    """

    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: int | None = None):
        super().__init__(seed)
        self.minval, self.maxval = minval, maxval

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> np.ndarray:
        dtype = _float_dtype("RandomUniform", dtype)
        return self._uniform(self.minval, self.maxval, shape, dtype)

    def get_config(self) -> dict[str, Any]:
        return {"minval": self.minval, "maxval": self.maxval, "seed": self.seed}


class RandomNormal(_Random):
    """Normal with a mean and a standard deviation.

    Parameters
    ----------
    mean, stddev : float
    seed : int, optional
        One from ``random.make_seed`` by default.
    """

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None):
        super().__init__(seed)
        self.mean, self.stddev = mean, stddev

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> np.ndarray:
        return self._normal(self.mean, self.stddev, shape, _float_dtype("RandomNormal", dtype))

    def get_config(self) -> dict[str, Any]:
        return {"mean": self.mean, "stddev": self.stddev, "seed": self.seed}


class TruncatedNormal(RandomNormal):
    """Normal without what lies more than two standard deviations from the mean.

    Parameters
    ----------
    mean, stddev : float
    seed : int, optional
        One from ``random.make_seed`` by default.
    """

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> np.ndarray:
        dtype = _float_dtype("TruncatedNormal", dtype)
        return self._truncated(self.mean, self.stddev, shape, dtype)


def compute_fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return how many inputs and outputs a unit of a weight has.

    Examples
    --------
    >>> compute_fans((3, 3, 8, 16))
    (72, 144)
    """
    if len(shape) < 1:
        return 1, 1
    if len(shape) == 1:
        return shape[0], shape[0]
    field = math.prod(shape[:-2])
    return shape[-2] * field, shape[-1] * field


class VarianceScaling(_Random):
    """Random with a variance of ``scale / n``, n by ``mode`` from the weight's shape.

    Parameters
    ----------
    scale : float
    mode : {"fan_in", "fan_out", "fan_avg"}
    distribution : {"truncated_normal", "untruncated_normal", "uniform"}
    seed : int, optional
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
    ):
        super().__init__(seed)
        if not scale > 0:
            raise ValueError(f"VarianceScaling: `scale` must be positive; received {scale!r}.")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(
                f"VarianceScaling: `mode` is {mode!r}; expected 'fan_in', 'fan_out' or 'fan_avg'."
            )
        distribution = distribution.lower()
        if distribution == "normal":
            distribution = "truncated_normal"
        if distribution not in ("truncated_normal", "untruncated_normal", "uniform"):
            raise ValueError(
                f"VarianceScaling: `distribution` is {distribution!r}; expected "
                "'truncated_normal', 'untruncated_normal' or 'uniform'."
            )
        self.scale, self.mode, self.distribution = scale, mode, distribution

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> np.ndarray:
        dtype = _float_dtype(type(self).__name__, dtype)
        fan_in, fan_out = compute_fans(tuple(shape))
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        variance = self.scale / max(1.0, n)
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            return self._uniform(-limit, limit, shape, dtype)
        if self.distribution == "untruncated_normal":
            return self._normal(0.0, math.sqrt(variance), shape, dtype)
        # standard deviation of a standard normal that is cut at -2 and 2
        return self._truncated(0.0, math.sqrt(variance) / 0.87962566103423978, shape, dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            "scale": self.scale,
            "mode": self.mode,
            "distribution": self.distribution,
            "seed": self.seed,
        }


def _scaled(name: str, scale: float, mode: str, distribution: str, doc: str) -> type:
    def __init__(self: VarianceScaling, seed: int | None = None) -> None:
        VarianceScaling.__init__(self, scale, mode, distribution, seed)

    def get_config(self: VarianceScaling) -> dict[str, Any]:
        return {"seed": self.seed}

    namespace = {
        "__init__": __init__,
        "get_config": get_config,
        "__doc__": doc,
        "__module__": __name__,
    }
    return type(name, (VarianceScaling,), namespace)


GlorotUniform = _scaled(
    "GlorotUniform", 1.0, "fan_avg", "uniform", "Uniform, variance 2 / (fan_in + fan_out)."
)
GlorotNormal = _scaled(
    "GlorotNormal",
    1.0,
    "fan_avg",
    "truncated_normal",
    "Truncated normal, variance 2 / (fan_in + fan_out).",
)
HeUniform = _scaled("HeUniform", 2.0, "fan_in", "uniform", "Uniform, variance 2 / fan_in.")
HeNormal = _scaled(
    "HeNormal", 2.0, "fan_in", "truncated_normal", "Truncated normal, variance 2 / fan_in."
)
LecunUniform = _scaled("LecunUniform", 1.0, "fan_in", "uniform", "Uniform, variance 1 / fan_in.")
LecunNormal = _scaled(
    "LecunNormal", 1.0, "fan_in", "truncated_normal", "Truncated normal, variance 1 / fan_in."
)


class Orthogonal(_Random):
    """A random matrix with orthogonal rows or columns, times ``gain``."""

    def __init__(self, gain: float = 1.0, seed: int | None = None):
        super().__init__(seed)
        self.gain = gain

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> np.ndarray:
        dtype = _float_dtype("Orthogonal", dtype)
        if len(shape) < 2:
            raise ValueError(f"Orthogonal: expected at least 2 axes; received the shape {shape}.")
        rows, columns = math.prod(shape[:-1]), shape[-1]
        x = self._generator().standard_normal((max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(x)
        q *= np.sign(np.diag(r))  # makes the distribution uniform
        if rows < columns:
            q = q.T
        return np.asarray(self.gain * q.reshape(shape), dtype)

    def get_config(self) -> dict[str, Any]:
        return {"gain": self.gain, "seed": self.seed}


class Identity(Initializer):
    """The identity matrix, times ``gain``."""

    def __init__(self, gain: float = 1.0):
        self.gain = gain

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> np.ndarray:
        if len(shape) != 2:
            raise ValueError(f"Identity: expected a matrix; received the shape {shape}.")
        return np.asarray(self.gain * np.eye(*shape), canonical_dtype(dtype or floatx()))

    def get_config(self) -> dict[str, Any]:
        return {"gain": self.gain}


_CLASSES = (
    Zeros,
    Ones,
    Constant,
    RandomUniform,
    RandomNormal,
    TruncatedNormal,
    VarianceScaling,
    GlorotUniform,
    GlorotNormal,
    HeUniform,
    HeNormal,
    LecunUniform,
    LecunNormal,
    Orthogonal,
    Identity,
)
ALL: dict[str, type] = {c.__name__: c for c in _CLASSES}
_NAMES: dict[str, type] = {
    **ALL,
    **{to_snake_case(n): c for n, c in ALL.items()},
    "uniform": RandomUniform,
    "normal": RandomNormal,
    "zero": Zeros,
    "one": Ones,
    "IdentityInitializer": Identity,
    "OrthogonalInitializer": Orthogonal,
}

# Keras's lower-case aliases of the classes
zeros, ones, constant = Zeros, Ones, Constant
random_uniform, random_normal, truncated_normal = RandomUniform, RandomNormal, TruncatedNormal
variance_scaling, orthogonal, identity = VarianceScaling, Orthogonal, Identity
glorot_uniform, glorot_normal = GlorotUniform, GlorotNormal
he_uniform, he_normal = HeUniform, HeNormal
lecun_uniform, lecun_normal = LecunUniform, LecunNormal


def get(identifier: Any) -> Any:
    """Return an initializer from its name, its configuration, itself, or an array.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    if identifier is None:
        return None
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        if identifier in _NAMES:
            return _NAMES[identifier]()
        custom = _custom(identifier)
        if custom is not None:
            return custom() if isinstance(custom, type) else custom
        raise ValueError(
            f"initializers.get: there is no initializer {identifier!r}; "
            f"expected one of {sorted(ALL)}, their snake_case names, or a registered one."
        )
    if isinstance(identifier, (np.ndarray, np.generic)):
        return Constant(identifier)
    if isinstance(identifier, type) and issubclass(identifier, Initializer):
        return identifier()
    if callable(identifier):
        return identifier
    raise ValueError(f"initializers.get: can't interpret {identifier!r} as an initializer.")


def _custom(name: str) -> Any:
    from uniflexflow.saving.registry import get_registered_object

    return get_registered_object(name)


def serialize(initializer: Any) -> Any:
    """Return the configuration of an initializer, as JSON can hold it."""
    from uniflexflow.saving.serialization import serialize_keras_object

    return serialize_keras_object(initializer)


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """Make an initializer from what ``serialize`` returned."""
    from uniflexflow.saving.serialization import deserialize_keras_object

    return deserialize_keras_object(config, custom_objects)
