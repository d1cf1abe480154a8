"""Matrix products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import Indices, Node, TensorSpec, Value, apply
from uniflexflow.ops.dispatch import cast_to, meet, op
from uniflexflow.ops.dtypes import is_float
from uniflexflow.ops.registry import primitive
from uniflexflow.ops.shape_rules import broadcast_shapes
from uniflexflow.ops.shaping import broadcast_to, reshape

__all__ = ["matmul"]


def _swap(shape: tuple[int, ...], transposed: bool) -> tuple[int, ...]:
    return shape[:-2] + (shape[-1], shape[-2]) if transposed else shape


def _matmul_infer(
    a: TensorSpec, b: TensorSpec, *, transpose_a: bool, transpose_b: bool
) -> TensorSpec:
    sa, sb = _swap(a.shape, transpose_a), _swap(b.shape, transpose_b)
    if a.dtype != b.dtype:
        raise TypeError(f"matmul: operands must share one dtype; received {a.dtype}, {b.dtype}.")
    if not is_float(a.dtype):
        raise TypeError(f"matmul: the operation is not defined on {a.dtype}.")
    if len(sa) < 2 or sa[:-2] != sb[:-2] or sa[-1] != sb[-2]:
        raise ValueError(
            f"matmul: shapes {sa} and {sb} don't fit: the last axis of the first must "
            "equal the one but last axis of the second."
        )
    return TensorSpec(sa[:-1] + sb[-1:], a.dtype)


def _matmul_reference(
    a: np.ndarray, b: np.ndarray, *, transpose_a: bool, transpose_b: bool
) -> np.ndarray:
    return np.matmul(
        a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b
    )


def _matmul_gradient(node: Node, g: Value) -> tuple[Value, Value]:
    # C = A B:  dA = G B^T,  dB = A^T G; with A or B given transposed, transposed
    a, b = node.inputs
    ta, tb = node.attrs["transpose_a"], node.attrs["transpose_b"]

    def mm(x: Value, y: Value, tx: bool, ty: bool) -> Value:
        return apply(MATMUL, x, y, transpose_a=tx, transpose_b=ty)

    da = mm(b, g, tb, True) if ta else mm(g, b, False, not tb)
    db = mm(g, a, True, ta) if tb else mm(a, g, not ta, False)
    return da, db


def _matmul_indices(node: Node) -> Indices:
    batch = tuple(range(node.inputs[0].ndim - 2))
    a = ("k", "m") if node.attrs["transpose_a"] else ("m", "k")
    b = ("n", "k") if node.attrs["transpose_b"] else ("k", "n")
    return Indices((batch + a, batch + b), (batch + ("m", "n"),))


# C[b.., m, n] = sum over k of A[b.., m, k] B[b.., k, n]; a transposed operand lies (k, m) or (n, k)
MATMUL = primitive(
    "matmul",
    infer=_matmul_infer,
    reference=_matmul_reference,
    gradient=_matmul_gradient,
    indices=_matmul_indices,
    linear="one",
)


# -- matmul, bias and activation in one: made by fusion, after differentiation -------


def _dense_infer(
    a: TensorSpec,
    b: TensorSpec,
    bias: TensorSpec,
    *,
    transpose_a: bool,
    transpose_b: bool,
    activation: str | None,
) -> TensorSpec:
    out = _matmul_infer(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    if bias.shape != out.shape[-1:] or bias.dtype != out.dtype:
        raise ValueError(
            f"dense: the bias must be {out.dtype}{list(out.shape[-1:])} to be added to "
            f"{out}; received {bias}."
        )
    if activation not in (None, "relu"):
        raise ValueError(f"dense: unknown activation {activation!r}; expected None or 'relu'.")
    return out


def _dense_reference(
    a: np.ndarray, b: np.ndarray, bias: np.ndarray, *, activation: str | None, **attrs: bool
) -> np.ndarray:
    y = _matmul_reference(a, b, **attrs) + bias
    return np.maximum(y, 0) if activation == "relu" else y


def _dense_indices(node: Node) -> Indices:
    # The bias is added once: a split sum would add it on every rank.
    product = _matmul_indices(node)
    return Indices((*product.inputs, ("n",)), product.outputs, contraction=None)


# C[b.., m, n] = f(sum over k of A[b.., m, k] B[b.., k, n] + bias[n]), f = relu or nothing
DENSE = primitive(
    "dense",
    infer=_dense_infer,
    reference=_dense_reference,
    gradient=None,
    indices=_dense_indices,
)


@op
def matmul(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Multiply matrices, by NumPy's rules for stacks and vectors.

    ``(..., m, k) @ (..., k, n)`` gives ``(..., m, n)``; leading axes are broadcast. Whole
    numbers are multiplied as float64, so they are exact up to 2**53.

    Examples
    --------
    >>> matmul(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    a, b = meet(x1, x2)
    if not is_float(a.dtype):
        dtype = "int32" if a.dtype == "bool" else a.dtype
        return cast_to(matmul(cast_to(a, "float64"), cast_to(b, "float64")), dtype)
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError(f"matmul: operands need an axis; received {a.shape} and {b.shape}.")
    if a.ndim == 1 or b.ndim == 1:
        out = matmul(
            reshape(a, (1,) + a.shape) if a.ndim == 1 else a,
            reshape(b, b.shape + (1,)) if b.ndim == 1 else b,
        )
        shape = out.shape
        if b.ndim == 1:
            shape = shape[:-1]
        if a.ndim == 1:
            shape = shape[:-2] + shape[-1:] if b.ndim > 1 else shape[:-1]
        return reshape(out, shape)
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"matmul: shapes {a.shape} and {b.shape} don't fit: axis -1 of the first is "
            f"{a.shape[-1]}, axis -2 of the second is {b.shape[-2]}; they must be equal."
        )
    if b.ndim == 2 and a.ndim > 2:
        rows = math.prod(a.shape[:-1])
        flat = apply(
            MATMUL, reshape(a, (rows, a.shape[-1])), b, transpose_a=False, transpose_b=False
        )
        return reshape(flat, a.shape[:-1] + b.shape[-1:])
    batch = broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2])
    a = broadcast_to(a, batch + a.shape[-2:])
    b = broadcast_to(b, batch + b.shape[-2:])
    return apply(MATMUL, a, b, transpose_a=False, transpose_b=False)
