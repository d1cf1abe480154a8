"""How a row is run: by the executor, by the references, by differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from op_case import Case

import uniflexflow as uff
from uniflexflow import ops, tree
from uniflexflow.compiler import Function, Traced
from uniflexflow.runtime import reference

# units of rounding that a result may be off, relative to the largest expected element
UNITS = 32
# central differences in float64: truncation h**2 and rounding eps / h are both about 1e-10
STEP = 1e-5
DIFFERENCE_TOLERANCE = 1e-6


def tolerance(result: np.ndarray, case: Case) -> float:
    """Return the relative tolerance for a result, by its dtype."""
    if result.dtype.kind != "f":
        return 0.0
    return UNITS * np.finfo(result.dtype).eps * np.sqrt(case.terms) * case.slack


def assert_close(got: Any, expected: Any, rtol: float, what: str) -> None:
    """Compare within rtol of each element or of the largest one; NaN and inf must agree."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected, err_msg=what)
        return
    finite = np.abs(expected[np.isfinite(expected)].astype("float64"))
    scale = finite.max() if finite.size else 0.0
    np.testing.assert_allclose(
        got.astype("float64"), expected, rtol=rtol, atol=rtol * scale, err_msg=what
    )


def by_executor(case: Case, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Run a row as a compiled function."""
    return tree.flatten(Function(case.fn, case.id)(*arrays))


def by_reference(fn: Callable[..., Any], arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Run a row by the reference interpreter."""
    return reference.run(Traced(fn, tuple(arrays), "reference").graph, arrays)[0]


def scalar(case: Case, arrays: list[np.ndarray]) -> Callable[..., Any]:
    """Return the row as a scalar function: its float outputs, weighted and summed."""
    rng = np.random.default_rng(1)
    outputs = by_reference(case.fn, arrays)
    weights = [rng.uniform(0.5, 1.5, y.shape) if y.dtype.kind == "f" else None for y in outputs]

    def loss(*xs: Any) -> Any:
        ys = tree.flatten(case.fn(*xs))
        terms = [ops.sum(y * ops.cast(w, y.dtype)) for y, w in zip(ys, weights) if w is not None]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    return loss


def float_places(arrays: list[np.ndarray]) -> list[int]:
    """Return which inputs can have a gradient."""
    return [i for i, x in enumerate(arrays) if x.dtype.kind == "f"]


def gradient_of(loss: Callable[..., Any], places: list[int]) -> Callable[..., Any]:
    """Return a function that gives the gradients for some inputs, zeros where None."""

    def gradient(*xs: Any) -> Any:
        sources = [xs[i] for i in places]
        grads = uff.gradients(loss(*xs), sources)
        return [ops.zeros_like(x) if g is None else g for g, x in zip(grads, sources)]

    return gradient


def directions(arrays: list[np.ndarray], places: list[int]) -> list[list[np.ndarray]]:
    """Return random directions, and each single element if there are few."""
    rng = np.random.default_rng(2)
    found = [[rng.normal(size=arrays[i].shape) for i in places] for _ in range(2)]
    if sum(arrays[i].size for i in places) <= 24:
        for k, i in enumerate(places):
            for j in range(arrays[i].size):
                one = [np.zeros(arrays[p].shape) for p in places]
                one[k].reshape(-1)[j] = 1.0
                found.append(one)
    return found


def check_derivative(
    fn: Callable[..., Any],
    gradient: Callable[..., Any],
    arrays: list[np.ndarray],
    places: list[int],
    what: str,
) -> None:
    """Compare the gradient of a scalar function with central differences."""
    value = Function(fn, what)
    grads = [g.astype("float64") for g in Function(gradient, f"gradient of {what}")(*arrays)]

    def moved(direction: list[np.ndarray], step: float) -> float:
        xs = list(arrays)
        for i, v in zip(places, direction):
            xs[i] = xs[i] + step * v
        return float(value(*xs))

    size = np.sqrt(sum((g**2).sum() for g in grads)) + 1.0
    for direction in directions(arrays, places):
        numeric = (moved(direction, STEP) - moved(direction, -STEP)) / (2 * STEP)
        exact = sum((g * v).sum() for g, v in zip(grads, direction))
        length = np.sqrt(sum((v**2).sum() for v in direction))
        assert abs(numeric - exact) <= DIFFERENCE_TOLERANCE * size * max(length, 1.0), (
            f"{what}: the gradient gives {exact}, differences give {numeric} "
            f"along {[v.tolist() for v in direction]}"
        )
