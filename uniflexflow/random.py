"""Random numbers: the state that gives each draw its own key, and distributions.

Every function takes ``seed``: a ``SeedGenerator``, which gives another draw at each call
and each run of a compiled step; an int, which gives the same numbers every time; or
None, the global generator that ``set_random_seed`` starts. Numbers belong to global
element indices (see ``uniflexflow.ops.random``), so they don't depend on how many ranks
or threads draw them.
"""

from __future__ import annotations

import math
import random as python_random
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import Value, constant
from uniflexflow.ops.dispatch import as_value, cast_to, op
from uniflexflow.ops.dtypes import canonical_dtype, finfo, floatx, is_float
from uniflexflow.ops.elementwise import cos, floor, log, sqrt, where
from uniflexflow.ops.indexing import take
from uniflexflow.ops.random import philox4x32, random_uniform
from uniflexflow.ops.reduction import argmax
from uniflexflow.ops.shape_rules import normalize_axis
from uniflexflow.ops.shaping import reshape
from uniflexflow.ops.slicing import slice_axis
from uniflexflow.ops.sorting import argsort
from uniflexflow.ops.variable import Trace, Variable

__all__ = [
    "SeedGenerator",
    "categorical",
    "dropout",
    "global_seed_generator",
    "make_seed",
    "normal",
    "randint",
    "set_random_seed",
    "shuffle",
    "truncated_normal",
    "uniform",
]

# -- seeds -------------------------------------------------------------------------

#: agree_on_seed(seed) -> seed: set where several processes must draw alike.
agree_on_seed: list[Callable[[int], int]] = []


class _Root:
    """Where seeds come from that nobody chose: a counted stream of a root seed."""

    def __init__(self) -> None:
        self.seed: int | None = None
        self.count = 0

    def restart(self, seed: int) -> None:
        self.seed, self.count = seed, 0

    def next(self) -> int:
        if self.seed is None:
            seed = secrets.randbits(62)
            self.restart(agree_on_seed[0](seed) if agree_on_seed else seed)
        key = (self.seed & 0xFFFFFFFF, (self.seed >> 32) & 0xFFFFFFFF)
        # the last counter word keeps these apart from the words of ordinary draws
        words = philox4x32((self.count, 0, 0, 0xFFFFFFFF), key)
        self.count += 1
        return int(words[0]) << 21 | int(words[1]) >> 11


_root = _Root()
_global: list[SeedGenerator] = []


def make_seed() -> int:
    """Return another seed, in 0..2**53-1: the same sequence after ``set_random_seed``.

    Examples
    --------
    >>> set_random_seed(1)
    >>> first = make_seed()
    >>> set_random_seed(1)
    >>> make_seed() == first
    True
    """
    return _root.next()


def set_random_seed(seed: int) -> None:
    """Make everything random start anew from one number.

    Seeds Python's ``random``, NumPy's global generator, and whatever in this library
    has no seed of its own: layers, initializers, shuffling.

    Parameters
    ----------
    seed : int
        From 0 to 2**32 - 1, as NumPy needs it.
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"set_random_seed: expected an integer; received {seed!r}.")
    if not 0 <= seed < 2**32:
        raise ValueError(f"set_random_seed: expected 0 <= seed < 2**32; received {seed}.")
    seed = int(seed)
    python_random.seed(seed)
    np.random.seed(seed)
    _root.restart(seed)
    if _global:
        _global[0].reset(make_seed())


def get_global_state() -> dict[str, Any]:
    """Return where the seeds that nobody chose stand, as plain data."""
    generator = _global[0].state.array.tolist() if _global else None
    return {"seed": _root.seed, "count": _root.count, "generator": generator}


def set_global_state(state: dict[str, Any]) -> None:
    """Go back to what ``get_global_state`` returned."""
    _root.seed, _root.count = state["seed"], state["count"]
    if state["generator"] is not None:
        global_seed_generator().state.assign(np.array(state["generator"], np.int64))


class SeedGenerator:
    """A source of keys: state that advances at each draw.

    Parameters
    ----------
    seed : int, optional
        ``make_seed()`` by default.
    name : str, optional

    Attributes
    ----------
    state : Variable
        ``int64[2]``: the seed, and how many keys have been given. It is saved with a
        model, and advances inside of a compiled step.

    Examples
    --------
    >>> generator = SeedGenerator(7)
    >>> generator.next()
    array([7, 0])
    >>> generator.next()
    array([7, 1])
    """

    def __init__(self, seed: int | None = None, name: str | None = None):
        if seed is None:
            seed = make_seed()
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise TypeError(f"SeedGenerator: `seed` must be an integer; received {seed!r}.")
        if not -(2**63) <= seed < 2**63:
            raise ValueError(f"SeedGenerator: `seed` must fit in 64 bits; received {seed}.")
        self.seed = int(seed)
        self.name = name or "seed_generator"
        self.state = Variable(
            np.array([self.seed, 0], np.int64), trainable=False, name="seed_generator_state"
        )

    @property
    def variables(self) -> list[Variable]:
        """The state, for those who save it."""
        return [self.state]

    def next(self) -> Any:
        """Return a key, and advance: symbolic within a trace, else an array."""
        if Trace.current() is None:
            key = self.state.numpy()
            self.state.assign(key + np.array([0, 1]))
            return key
        key = self.state.value
        self.state.assign(key + constant([0, 1], "int64"))
        return key

    def reset(self, seed: int | None = None) -> None:
        """Start anew, from another seed if one is given."""
        self.seed = self.seed if seed is None else int(seed)
        self.state.assign(np.array([self.seed, 0], np.int64))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal generator."""
        return {"seed": self.seed, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> SeedGenerator:
        """Make a generator from ``get_config``'s result."""
        return cls(**config)


def global_seed_generator() -> SeedGenerator:
    """Return the generator of draws without a seed; made at its first use."""
    if not _global:
        _global.append(SeedGenerator(name="global_seed_generator"))
    return _global[0]


def _key(seed: Any) -> Value:
    """Return the key of one draw."""
    if seed is None:
        seed = global_seed_generator()
    if isinstance(seed, SeedGenerator):
        return seed.next()
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        return constant([seed, 0], "int64")
    if isinstance(seed, (Value, np.ndarray)):
        return as_value(seed)
    raise TypeError(
        f"`seed` must be None, an int, a SeedGenerator or an int64[2] key; received {seed!r}."
    )


# -- distributions -----------------------------------------------------------------


def _float_dtype(name: str, dtype: str | None) -> str:
    dtype = canonical_dtype(dtype or floatx())
    if not is_float(dtype):
        raise ValueError(f"random.{name}: expected a float dtype; received {dtype!r}.")
    return dtype


def _drawn_in(dtype: str) -> str:
    """Return the dtype in which numbers are drawn that are then rounded to ``dtype``."""
    return "float32" if dtype == "bfloat16" else dtype


@op
def uniform(
    shape: Sequence[int],
    minval: float = 0.0,
    maxval: float = 1.0,
    dtype: str | None = None,
    seed: Any = None,
) -> Any:
    """Draw from the uniform distribution over [minval, maxval).

    Parameters
    ----------
    shape : sequence of int
    minval, maxval : number
    dtype : str, optional
        A float type; ``floatx()`` by default. For integers see ``randint``.
    seed : None, int or SeedGenerator
        See the module's docstring.

    Examples
    --------
    >>> x = uniform((2, 3), seed=1)
    >>> x.shape
    (2, 3)
    """
    u = random_uniform(_key(seed), shape, _float_dtype("uniform", dtype))
    return u if (minval, maxval) == (0.0, 1.0) else u * (maxval - minval) + minval


def _standard_normal(key: Value, shape: Sequence[int], dtype: str) -> Value:
    # Box and Muller: sqrt(-2 log(1 - u)) cos(2 pi v); 1 - u is in (0, 1]
    shape = tuple(shape)
    pairs = random_uniform(key, (2, *shape), dtype)
    u, v = (reshape(slice_axis(pairs, 0, i, i + 1), shape) for i in (0, 1))
    return sqrt(log(1.0 - u) * -2.0) * cos(v * (2 * math.pi))


@op
def normal(
    shape: Sequence[int],
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: str | None = None,
    seed: Any = None,
) -> Any:
    """Draw from the normal distribution.

    Parameters
    ----------
    shape : sequence of int
    mean, stddev : number
    dtype : str, optional
        A float type; ``floatx()`` by default.
    seed : None, int or SeedGenerator
        See the module's docstring.
    """
    dtype = _float_dtype("normal", dtype)
    z = _standard_normal(_key(seed), shape, _drawn_in(dtype))
    return cast_to(z if (mean, stddev) == (0.0, 1.0) else z * stddev + mean, dtype)


# M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011), table 5, the
# branch w < 5: erfinv(x) = x * p(w - 2.5), w = -log((1 - x) (1 + x)); error below 1e-6.
_ERFINV = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)


@op
def truncated_normal(
    shape: Sequence[int],
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: str | None = None,
    seed: Any = None,
) -> Any:
    """Draw from the normal distribution cut at two standard deviations from the mean.

    Parameters
    ----------
    shape : sequence of int
    mean, stddev : number
        Of the distribution before the cut.
    dtype : str, optional
        A float type; ``floatx()`` by default.
    seed : None, int or SeedGenerator
        See the module's docstring.
    """
    dtype = _float_dtype("truncated_normal", dtype)
    u = random_uniform(_key(seed), shape, _drawn_in(dtype))
    edge = math.erf(math.sqrt(2.0))
    x = u * (2 * edge) - edge
    w = -log((1.0 - x) * (1.0 + x)) - 2.5
    p = w * _ERFINV[0] + _ERFINV[1]
    for coefficient in _ERFINV[2:]:
        p = p * w + coefficient
    z = x * p * math.sqrt(2.0)
    z = where(z > 2.0, 2.0, where(z < -2.0, -2.0, z))  # rounding at the edges
    return cast_to(z * stddev + mean, dtype)


@op
def randint(
    shape: Sequence[int], minval: int, maxval: int, dtype: str = "int32", seed: Any = None
) -> Any:
    """Draw whole numbers from minval to maxval - 1, each as likely.

    Parameters
    ----------
    shape : sequence of int
    minval, maxval : int
        At most 2**53 apart.
    dtype : str
        An integer type.
    seed : None, int or SeedGenerator
        See the module's docstring.

    Raises
    ------
    ValueError
        If there is no number to draw, or too many.
    """
    dtype = canonical_dtype(dtype)
    if is_float(dtype) or dtype == "bool":
        raise ValueError(f"random.randint: expected an integer dtype; received {dtype!r}.")
    if not 0 < maxval - minval <= 2**53:
        raise ValueError(
            f"random.randint: expected minval < maxval, at most 2**53 apart; received {minval} "
            f"and {maxval}."
        )
    limits = np.iinfo(dtype)
    if minval < limits.min or maxval - 1 > limits.max:
        raise ValueError(f"random.randint: {minval}..{maxval - 1} does not fit in {dtype}.")
    # below n even after rounding: u <= 1 - 2**-53, and n u rounds down to n - ulp at most
    u = random_uniform(_key(seed), shape, "float64")
    return cast_to(cast_to(floor(u * float(maxval - minval)), "int64") + minval, dtype)


@op
def categorical(logits: ArrayLike, num_samples: int, dtype: str = "int32", seed: Any = None) -> Any:
    """Draw class numbers with the probabilities softmax(logits).

    Parameters
    ----------
    logits : tensor of shape (batch, classes)
    num_samples : int
    dtype : str
        An integer type.
    seed : None, int or SeedGenerator
        See the module's docstring.

    Returns
    -------
    tensor of shape (batch, num_samples)
    """
    logits = as_value(logits)
    if logits.ndim != 2:
        raise ValueError(
            f"random.categorical: `logits` must have shape (batch, classes); received "
            f"{logits.shape}."
        )
    logits = logits if is_float(logits.dtype) else cast_to(logits, floatx())
    batch, classes = logits.shape
    # the largest of logits + Gumbel noise falls on class k with probability softmax_k
    drawn = _drawn_in(logits.dtype)
    u = random_uniform(_key(seed), (batch, num_samples, classes), drawn)
    gumbel = -log(-log(u + (1.0 - u) * float(finfo(drawn).tiny)))
    scores = reshape(logits, (batch, 1, classes)) + gumbel
    return cast_to(argmax(scores, axis=-1), canonical_dtype(dtype))


@op
def shuffle(x: ArrayLike, axis: int = 0, seed: Any = None) -> Any:
    """Put the slices along an axis in random order.

    Parameters
    ----------
    x : tensor
    axis : int
    seed : int, SeedGenerator or key tensor, optional
        The package's own generator by default.
    """
    x = as_value(x)
    axis = normalize_axis("random.shuffle", axis, x.ndim)
    order = argsort(random_uniform(_key(seed), (x.shape[axis],), "float64"))
    return take(x, order, axis=axis)


@op
def dropout(
    x: ArrayLike,
    rate: float,
    noise_shape: Sequence[int | None] | None = None,
    seed: Any = None,
) -> Any:
    """Set a share of the elements to 0 at random; scale the others by 1 / (1 - rate).

    Parameters
    ----------
    x : float tensor
    rate : float
        In [0, 1]: the probability of an element to be dropped.
    noise_shape : sequence of int or None, optional
        The shape of the pattern, broadcast to that of ``x``; None is the size of ``x``.
    seed : None, int or SeedGenerator
        See the module's docstring.
    """
    x = as_value(x)
    if not 0 <= rate <= 1:
        raise ValueError(f"random.dropout: `rate` must be in [0, 1]; received {rate}.")
    if not is_float(x.dtype):
        raise TypeError(f"random.dropout: expected a float tensor; received {x.dtype}.")
    shape = x.shape
    if noise_shape is not None:
        if len(noise_shape) != x.ndim:
            raise ValueError(
                f"random.dropout: `noise_shape` {tuple(noise_shape)} must have {x.ndim} sizes "
                f"for a tensor of shape {x.shape}."
            )
        shape = tuple(n if m is None else int(m) for n, m in zip(x.shape, noise_shape))
        if any(m not in (1, n) for n, m in zip(x.shape, shape)):
            raise ValueError(
                f"random.dropout: `noise_shape` {tuple(noise_shape)} does not fit a tensor of "
                f"shape {x.shape}; sizes must be equal or 1."
            )
    if rate == 0:
        return x
    # float32 numbers decide for every dtype, so that the pattern does not depend on it
    u = random_uniform(_key(seed), shape, "float32")
    return where(u >= rate, x * (1.0 / (1.0 - rate) if rate < 1 else 0.0), 0.0)
