"""Random numbers as a pure function of a key and an element's place.

A key is an ``int64[2]`` tensor (seed, counter). A draw is numbered by the *global*
index of each element, so a share of a tensor gets the very numbers that the whole would
have there: results don't depend on how many ranks or threads draw. There is one
primitive; other distributions are made of it in ``uniflexflow.random``, which also keeps
the state that gives each draw its own key.

Generator: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
as 1, 2, 3", SC 2011). All words are unsigned 32-bit.

- key words:     k0 = seed mod 2**32, k1 = (seed >> 32) mod 2**32
- counter words: c0 = block mod 2**32, c1 = (block >> 32) mod 2**32,
                 c2 = counter mod 2**32, c3 = (counter >> 32) mod 2**32
- one round:     (c0, c1, c2, c3) -> (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2),
                                      hi(M0 c0) ^ c3 ^ k1, lo(M0 c0)),
                 with M0 = 0xD2511F53, M1 = 0xCD9E8D57; between rounds
                 k0 += 0x9E3779B9, k1 += 0xBB67AE85; ten rounds.

``seed`` and ``counter`` are read as two's complement. With e the row-major number of an
element within ``global_shape`` and w the four output words of its block:

- float32: block = e // 4, u = (w[e % 4] >> 8) * 2**-24
- float64: block = e // 2, j = 2 * (e % 2),
           u = ((w[j] >> 5) * 2**26 + (w[j + 1] >> 6)) * 2**-53

Both are exact, in [0, 1), and never 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from uniflexflow.ir import Indices, TensorSpec, Value, apply
from uniflexflow.ops.dtypes import FLOATX_TYPES
from uniflexflow.ops.registry import OPS, primitive

__all__ = ["philox4x32", "random_uniform"]

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_MASK = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox4x32(counter: Sequence[Any], key: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Return the four output words of Philox4x32-10, as uint64 arrays below 2**32.

    Parameters
    ----------
    counter : four arrays or ints below 2**32
        They are broadcast together.
    key : two ints below 2**32
    """
    c0, c1, c2, c3 = np.broadcast_arrays(*[np.asarray(c, np.uint64) for c in counter])
    k0, k1 = (int(k) for k in key)
    for _ in range(10):
        first, second = _M0 * c0, _M1 * c2  # below 2**64: no overflow
        c0, c1, c2, c3 = (
            (second >> _HALF) ^ c1 ^ np.uint64(k0),
            second & _MASK,
            (first >> _HALF) ^ c3 ^ np.uint64(k1),
            first & _MASK,
        )
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return c0, c1, c2, c3


def _infer(
    key: TensorSpec,
    *,
    shape: tuple[int, ...],
    dtype: str,
    start: tuple[int, ...],
    global_shape: tuple[int, ...],
) -> TensorSpec:
    if key != TensorSpec((2,), "int64"):
        raise ValueError(f"random_uniform: the key must be int64[2]; received {key}.")
    if dtype not in FLOATX_TYPES:
        raise TypeError(f"random_uniform: expected one of {FLOATX_TYPES}; received {dtype!r}.")
    fits = len(shape) == len(start) == len(global_shape) and all(
        0 <= b and b + n <= full for n, b, full in zip(shape, start, global_shape)
    )
    if not fits:
        raise ValueError(
            f"random_uniform: a share of shape {shape} from {start} is not inside a tensor "
            f"of shape {global_shape}."
        )
    return TensorSpec(shape, dtype)


def _reference(
    key: np.ndarray,
    *,
    shape: tuple[int, ...],
    dtype: str,
    start: tuple[int, ...],
    global_shape: tuple[int, ...],
) -> np.ndarray:
    element = np.zeros(shape, np.int64)  # its row-major number in the whole tensor
    for axis, (n, begin) in enumerate(zip(shape, start)):
        place = np.arange(begin, begin + n, dtype=np.int64) * math.prod(global_shape[axis + 1 :])
        element += place.reshape((n,) + (1,) * (len(shape) - axis - 1))
    if element.size == 0:
        return np.zeros(shape, dtype)
    per_block = 4 if dtype == "float32" else 2
    first, last = int(element.min()) // per_block, int(element.max()) // per_block
    block = np.arange(first, last + 1, dtype=np.uint64)
    seed, counter = (int(k) & 0xFFFFFFFFFFFFFFFF for k in key)
    words = philox4x32(
        (block & _MASK, block >> _HALF, counter & 0xFFFFFFFF, counter >> 32),
        (seed & 0xFFFFFFFF, seed >> 32),
    )
    w = np.stack(words, axis=1)  # (blocks, 4)
    if dtype == "float32":
        u = ((w >> np.uint64(8)) * 2.0**-24).astype("float32")
    else:
        high, low = w[:, 0::2] >> np.uint64(5), w[:, 1::2] >> np.uint64(6)
        u = (high * 2.0**26 + low) * 2.0**-53
    return u.reshape(-1)[element - first * per_block]


def _localise(
    attrs: Mapping[str, Any],
    local_inputs: Sequence[TensorSpec],
    local_outputs: Sequence[TensorSpec],
    starts: Sequence[tuple[int, ...]],
) -> dict[str, Any]:
    start = tuple(a + b for a, b in zip(attrs["start"], starts[0]))
    return {**attrs, "shape": local_outputs[0].shape, "start": start}


# u[i] = the uniform number of element (start + i) of a tensor of global_shape
RANDOM_UNIFORM = primitive(
    "random_uniform",
    infer=_infer,
    reference=_reference,
    gradient=lambda node, g: (None,),
    indices=lambda node: Indices(((None,),), (tuple(range(node.outputs[0].ndim)),)),
    localise=_localise,
)


def random_uniform(key: Value, shape: Sequence[int], dtype: str = "float32") -> Value:
    """Draw numbers in [0, 1); see the module's docstring for which.

    Those of bfloat16 are the float32 ones, cut to multiples of 2**-8, which stay below 1.
    """
    shape = tuple(int(n) for n in shape)
    if dtype == "bfloat16":
        u = apply(OPS["floor"], random_uniform(key, shape) * 2.0**8) * 2.0**-8
        return apply(OPS["cast"], u, dtype=dtype)
    return apply(
        RANDOM_UNIFORM,
        key,
        shape=shape,
        dtype=dtype,
        start=(0,) * len(shape),
        global_shape=shape,
    )
