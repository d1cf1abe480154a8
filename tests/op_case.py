"""One row of the tables of operations, and the inputs a row may draw.

A row is data: what is called, on what, and the same in NumPy. The tests in
``tests/ops`` run over all rows of ``op_cases`` and ``op_cases_convolution``; a new row
needs no test of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Draw = Callable[[np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Case:
    """One call of an operation.

    Attributes
    ----------
    id : str
        Unique; the operation's name, then what is special.
    fn : callable
        Over tensors: ``fn(*inputs)``; returns a tensor or a list or tuple of them.
    inputs : sequence of Draw
        Float draws are tested in float32 and float64, other dtypes stay.
    expect : callable or None
        The same in NumPy, on float64 inputs. None: the case is compared with the
        reference interpreter only, so give None only where that is the definition.
    gradient : bool
        Whether the gradient (and the second) are compared with differences.
    terms : int
        How many numbers are added up for one output element; widens the tolerance by
        its square root.
    slack : float
        Widens the tolerance for badly conditioned functions; say why beside it.
    """

    id: str
    fn: Callable[..., Any]
    inputs: Sequence[Draw]
    expect: Callable[..., Any] | None = None
    gradient: bool = True
    terms: int = 1
    slack: float = 1.0

    def arrays(self, dtype: str = "float64") -> list[np.ndarray]:
        """Draw the inputs; the numbers are the same for every float dtype."""
        seed = int.from_bytes(hashlib.sha256(self.id.encode()).digest()[:8], "little")
        rng = np.random.default_rng(seed)
        drawn = [draw(rng) for draw in self.inputs]
        return [x.astype("float32").astype(dtype) if x.dtype.kind == "f" else x for x in drawn]


# -- what inputs may be ------------------------------------------------------------


def real(*shape: int, low: float = -2.0, high: float = 2.0) -> Draw:
    """Numbers between two bounds."""
    return lambda rng: rng.uniform(low, high, shape)


def away(*shape: int, kinks: Sequence[float] = (0.0,), gap: float = 0.1) -> Draw:
    """Numbers in [-2, 2] at least ``gap`` from points where a function is not smooth."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        x = rng.uniform(-2, 2, shape)
        for kink in kinks:
            near = np.abs(x - kink) < gap
            x = np.where(near, kink + np.where(x >= kink, gap, -gap) * 1.5, x)
        return x

    return draw


def distinct(*shape: int) -> Draw:
    """Numbers no two of which are closer than 0.1, in random order."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        n = int(np.prod(shape))
        return (rng.permutation(n) * 0.1 + 0.01 * rng.uniform(size=n) - n * 0.05).reshape(shape)

    return draw


def whole(*shape: int, low: int = 0, high: int = 5, dtype: str = "int32") -> Draw:
    """Whole numbers from ``low`` to ``high - 1``."""
    return lambda rng: rng.integers(low, high, shape).astype(dtype)


def truth(*shape: int) -> Draw:
    """Booleans, both kinds."""
    return lambda rng: rng.random(shape) < 0.5


def given(array: Any, dtype: str | None = None) -> Draw:
    """This array."""
    return lambda rng: np.array(array, dtype=dtype)
