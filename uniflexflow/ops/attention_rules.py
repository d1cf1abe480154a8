"""Attention as one operation, and its gradient: scores are never all in memory at once.

Dao, Fu, Ermon, Rudra and Re, "FlashAttention: fast and memory-efficient exact attention with
IO-awareness" (2022). What is said here in whole matrices is the meaning; the kernel works on
tiles. Tensors are (batch, length, heads, dim), statistics of rows (batch, targets, heads).
Gradients of the gradient, and of the bias, are made of other operations, with matrices of all
scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from uniflexflow.ir import Indices, Node, TensorSpec, Value, apply, constant
from uniflexflow.ops.contraction import matmul
from uniflexflow.ops.dtypes import finfo, is_float
from uniflexflow.ops.elementwise import equal, exp, where
from uniflexflow.ops.nn import LOGSUMEXP
from uniflexflow.ops.reduction import sum as sum_over
from uniflexflow.ops.registry import primitive
from uniflexflow.ops.shaping import expand_dims, reshape, transpose
from uniflexflow.ops.tiling import repeat

#: Size of a head up to which its tiles fit in every scratchpad; the kernel's limit.
MAX_DIM = 256


def hidden_score(dtype: str) -> float:
    """Return the score of what may not be looked at.

    It is finite, so that a row that may look at nothing has the mean of all, not NaN; and
    so low that it is also that row's log(sum(exp(score))).
    """
    return float(finfo(dtype).min) / 2


def _extras(inputs: Any) -> tuple[Any, Any]:
    """Return the bias and the mask among the operands behind the others; or None."""
    bias = next((x for x in inputs if x.dtype != "bool"), None)
    return bias, next((x for x in inputs if x.dtype == "bool"), None)


# -- the meaning -------------------------------------------------------------------------


def _check(
    name: str, q: TensorSpec, k: TensorSpec, v: TensorSpec, extras: tuple[TensorSpec, ...]
) -> tuple[TensorSpec, TensorSpec]:
    """Return the specs of the result and of one number per row."""
    if not is_float(q.dtype) or k.dtype != q.dtype or v.dtype != q.dtype:
        raise TypeError(f"{name}: expected one float dtype; received {q}, {k}, {v}.")
    fits = q.ndim == k.ndim == v.ndim == 4 and k.shape[:3] == v.shape[:3]
    fits = fits and q.shape[0] == k.shape[0] and q.shape[3] == k.shape[3]
    if not fits or q.shape[2] % max(k.shape[2], 1):
        raise ValueError(
            f"{name}: shapes {q.shape}, {k.shape}, {v.shape} of query, key and value don't fit; "
            "expected (batch, length, heads, dim), with heads of the query a multiple of others."
        )
    if max(q.shape[3], v.shape[3]) > MAX_DIM:
        raise ValueError(f"{name}: {q} and {v} are larger than {MAX_DIM} in their last axis.")
    full = (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
    kinds = [x.dtype for x in extras]
    if kinds not in ([], [q.dtype], ["bool"], [q.dtype, "bool"]):
        raise TypeError(f"{name}: expected a bias {q.dtype} and a bool mask; received {kinds}.")
    for x in extras:
        if x.ndim != 4 or any(n not in (1, m) for n, m in zip(x.shape, full)):
            raise ValueError(f"{name}: {x} can't be broadcast to the scores {full}.")
    return TensorSpec(q.shape[:3] + v.shape[3:], q.dtype), TensorSpec(q.shape[:3], q.dtype)


def _infer(
    q: TensorSpec, k: TensorSpec, v: TensorSpec, *extras: TensorSpec, factor: float, causal: bool
) -> tuple[TensorSpec, TensorSpec]:
    return _check("attention", q, k, v, extras)


def _heads_first(x: np.ndarray, heads: int) -> np.ndarray:
    return np.repeat(np.moveaxis(x, 2, 1), heads // max(x.shape[2], 1), axis=1)


def _scores(
    q: np.ndarray, k: np.ndarray, extras: tuple[np.ndarray, ...], factor: float, causal: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores (batch, heads, targets, sources), and where a target may look."""
    bias, mask = _extras(extras)
    heads = q.shape[2]
    s = _heads_first(q, heads) @ np.swapaxes(_heads_first(k, heads), 2, 3) * q.dtype.type(factor)
    s = s if bias is None else s + bias
    allowed = np.ones(s.shape, bool) if mask is None else np.broadcast_to(mask, s.shape)
    allowed = allowed & np.tri(*s.shape[2:], dtype=bool) if causal else allowed
    return np.where(allowed, s, q.dtype.type(hidden_score(q.dtype))), allowed


def _reference(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *extras: np.ndarray, factor: float, causal: bool
) -> tuple[np.ndarray, np.ndarray]:
    s, _ = _scores(q, k, extras, factor, causal)
    p = np.exp(s - np.max(s, axis=-1, keepdims=True, initial=-np.inf))
    out = p / np.sum(p, axis=-1, keepdims=True) @ _heads_first(v, q.shape[2])
    return np.moveaxis(out, 1, 2), np.moveaxis(LOGSUMEXP.reference(s), 1, 2)


def _gradient_infer(
    q: TensorSpec,
    k: TensorSpec,
    v: TensorSpec,
    lse: TensorSpec,
    delta: TensorSpec,
    g: TensorSpec,
    *extras: TensorSpec,
    factor: float,
    causal: bool,
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    out, row = _check("attention_gradient", q, k, v, extras)
    if g != out or lse != row or delta != row:
        raise ValueError(
            f"attention_gradient: expected lse and delta {row}, and the result's gradient {out}; "
            f"received {lse}, {delta}, {g}."
        )
    return q, k, v


def _gradient_reference(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    lse: np.ndarray,
    delta: np.ndarray,
    g: np.ndarray,
    *extras: np.ndarray,
    factor: float,
    causal: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    s, allowed = _scores(q, k, extras, factor, causal)
    heads, kv_heads = q.shape[2], k.shape[2]
    lse, delta = (np.moveaxis(x, 1, 2)[..., None] for x in (lse, delta))
    blind = lse == hidden_score(q.dtype)
    p = np.where(blind, q.dtype.type(1 / max(k.shape[1], 1)), np.exp(s - lse))
    g = np.moveaxis(g, 1, 2)
    ds = np.where(allowed, p * (g @ np.swapaxes(_heads_first(v, heads), 2, 3) - delta), 0)
    ds = ds * q.dtype.type(factor)

    def by_source(x: np.ndarray) -> np.ndarray:
        """Add up the query's heads that share one of the key."""
        groups = (kv_heads, heads // max(kv_heads, 1))
        return np.moveaxis(x.reshape(x.shape[:1] + groups + x.shape[2:]).sum(2), 1, 2)

    dq = np.moveaxis(ds @ _heads_first(k, heads), 1, 2)
    dk = by_source(np.swapaxes(ds, 2, 3) @ np.moveaxis(q, 1, 2))
    return dq, dk, by_source(np.swapaxes(p, 2, 3) @ g)


def _indices(node: Node) -> Indices:
    """Samples are independent, and heads too if each has keys of its own."""
    q, k = node.inputs[:2]
    head = "h" if q.shape[2] == k.shape[2] else None

    def labels(value: Value, number: int, first: int) -> tuple[Any, ...]:
        if number >= first:  # a bias or mask: (batch, heads, targets, sources)
            batch, heads = [n if size != 1 else None for n, size in zip("bh", value.shape)]
            return batch, heads and head, None, None
        return ("b", None, head, None)[: value.ndim]

    first = 6 if len(node.outputs) == 3 else 3
    return Indices(
        tuple([labels(v, i, first) for i, v in enumerate(node.inputs)]),
        tuple([labels(v, 0, first) for v in node.outputs]),
    )


# -- the gradients, of other operations ------------------------------------------------------


class _Matrices:
    """The matrices of one attention node, (batch, heads, targets, sources), as Values."""

    def __init__(self, node: Node, lse: Value, extras: tuple[Value, ...]):
        q, k, v = node.inputs[:3]
        self.attrs = node.attrs
        self.heads, self.kv_heads = q.shape[2], k.shape[2]
        self.q, self.k, self.v = self.first(q), self.first(k), self.first(v)
        bias, mask = _extras(extras)
        s = self.product(self.q, self.k) * node.attrs["factor"]
        s = s if bias is None else s + bias
        self.allowed = mask
        if node.attrs["causal"]:
            triangle = constant(np.tri(*s.shape[2:], dtype=bool))
            self.allowed = triangle if mask is None else mask & triangle
        low = hidden_score(q.dtype)
        s = self.where_allowed(s, low)
        lse = self.column(lse)
        self.p = exp(s - lse)
        if mask is not None:
            self.blind = equal(lse, low)
            self.p = where(self.blind, 1.0 / max(k.shape[1], 1), self.p)

    def first(self, x: Value) -> Value:
        """Return (batch, heads, length, dim), with as many heads as the query has."""
        groups = self.heads // max(x.shape[2], 1)
        return transpose(x if groups == 1 else repeat(x, groups, axis=2), (0, 2, 1, 3))

    def column(self, x: Value) -> Value:
        """Return numbers of rows, (batch, targets, heads), beside the matrices' rows."""
        return expand_dims(transpose(x, (0, 2, 1)), -1)

    def row(self, matrix: Value) -> Value:
        """Return the sums over sources, (batch, targets, heads)."""
        return transpose(sum_over(matrix, -1), (0, 2, 1))

    def where_allowed(self, matrix: Value, other: float = 0.0) -> Value:
        return matrix if self.allowed is None else where(self.allowed, matrix, other)

    def product(self, a: Value, b: Value) -> Value:
        """Return a b^T."""
        return matmul(a, transpose(b, (0, 1, 3, 2)))

    def to_targets(self, matrix: Value, x: Value) -> Value:
        """Return matrix x, in the query's shape."""
        return transpose(matmul(matrix, x), (0, 2, 1, 3))

    def to_sources(self, matrix: Value, x: Value) -> Value:
        """Return matrix^T x, in the key's shape: the sum over the heads that share a key's."""
        y = matmul(transpose(matrix, (0, 1, 3, 2)), x)
        groups = self.heads // max(self.kv_heads, 1)
        if groups > 1:
            y = sum_over(reshape(y, (y.shape[0], self.kv_heads, groups, *y.shape[2:])), 2)
        return transpose(y, (0, 2, 1, 3))


def _to_shape_of(bias: Value, ds: Value) -> Value:
    """Add up the gradient of the scores where the bias was broadcast."""
    axes = [i for i, (n, m) in enumerate(zip(bias.shape, ds.shape)) if n == 1 and m != 1]
    return sum_over(ds, axes, keepdims=True) if axes else ds


def _gradient(node: Node, g: Value, g_lse: Value) -> tuple[Any, ...]:
    # p = e^(s - lse), out = p v:  ds = p (g v^T - sum(g out) + g_lse)
    q, k, v, *extras = node.inputs
    out, lse = node.outputs
    delta = sum_over(g * out, -1) - g_lse
    dq, dk, dv = apply(ATTENTION_GRADIENT, q, k, v, lse, delta, g, *extras, **node.attrs)
    bias, mask = _extras(extras)
    others = [None] * len(extras)
    if bias is not None:
        m = _Matrices(node, lse, tuple(extras))
        ds = m.where_allowed(m.p * (m.product(m.first(g), m.v) - m.column(delta)))
        others[0] = _to_shape_of(bias, ds)
    return dq, dk, dv, *others


def _second_gradient(node: Node, a: Value, b: Value, c: Value) -> tuple[Any, ...]:
    # With f = factor and ds = p (g v^T - delta), what is differentiated is
    # L = sum(ds w) + sum(p g c^T),  w = f (a k^T + q b^T)
    _, _, _, lse, delta, g, *extras = node.inputs
    m = _Matrices(node, lse, tuple(extras))
    f = node.attrs["factor"]
    a, b, c, g = (m.first(x) for x in (a, b, c, g))
    e = m.product(g, m.v) - m.column(delta)
    ds = m.where_allowed(m.p * e)
    w = m.where_allowed((m.product(a, m.k) + m.product(m.q, b)) * f)
    x = m.p * w
    z = m.where_allowed(m.p * (w * e + m.product(g, c)))  # by the scores; less its sum, by lse
    bias, _ = _extras(extras)
    others = [None] * len(extras)
    if bias is not None:
        others[0] = _to_shape_of(bias, z)
    return (
        m.to_targets(z * f, m.k) + m.to_targets(ds * f, b),
        m.to_sources(z * f, m.q) + m.to_sources(ds * f, a),
        m.to_sources(x, g),
        -m.row(z),
        -m.row(x),
        m.to_targets(x, m.v) + m.to_targets(m.p, c),
        *others,
    )


# out = softmax(factor q k^T + bias) v, per head, and log(sum(exp(score))) of each row; scores
# that a mask hides are `hidden_score`
ATTENTION = primitive(
    "attention",
    infer=_infer,
    reference=_reference,
    gradient=_gradient,
    indices=_indices,
)
# With p = e^(score - lse), 1 / sources in a row that may look at nothing, and
# ds = p (g v^T - delta), 0 where hidden:  dq = factor ds k, dk = factor ds^T q, dv = p^T g
ATTENTION_GRADIENT = primitive(
    "attention_gradient",
    infer=_gradient_infer,
    reference=_gradient_reference,
    gradient=_second_gradient,
    indices=_indices,
)
