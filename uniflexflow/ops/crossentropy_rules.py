"""Softmax and cross-entropy in one: rows of logits against a class, or a distribution.

The forward rows keep log(sum(exp(x))), from which the gradient makes the softmax anew: the
logits are read once forward and once backward, and the gradient is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from uniflexflow.ir import Indices, Node, TensorSpec, Value, apply
from uniflexflow.ops.dtypes import is_float
from uniflexflow.ops.elementwise import exp, where
from uniflexflow.ops.indexing import TAKE_ALONG_LAST
from uniflexflow.ops.nn import LOGSUMEXP
from uniflexflow.ops.reduction import sum as sum_over
from uniflexflow.ops.registry import primitive
from uniflexflow.ops.shaping import expand_dims, reshape


def _check(name: str, x: TensorSpec, target: TensorSpec, sparse: bool) -> TensorSpec:
    """Return the spec of one number per row."""
    if not is_float(x.dtype):
        raise TypeError(f"{name}: the operation is not defined on {x.dtype}.")
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(f"{name}: expected rows of at least one class; received {x}.")
    if sparse and (target.shape != x.shape[:-1] or target.dtype not in ("int32", "int64")):
        raise ValueError(
            f"{name}: for logits {x}, expected int32 or int64 classes of shape {x.shape[:-1]}; "
            f"received {target}."
        )
    if not sparse and target != x:
        raise ValueError(f"{name}: expected targets {x}, as the logits; received {target}.")
    return TensorSpec(x.shape[:-1], x.dtype)


def _check_gradient(name: str, x: TensorSpec, target: TensorSpec, *rows: TensorSpec) -> TensorSpec:
    row = _check(name, x, target, name.startswith("sparse"))
    if any(r != row for r in rows):
        raise ValueError(f"{name}: expected {row} for each row; received {[str(r) for r in rows]}.")
    return x


def _hits(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.arange(x.shape[-1]) == labels[..., None]


def _log_softmax(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log(softmax(x)), precise for large x too, and log(sum(exp(x)))."""
    lse = LOGSUMEXP.reference(x)
    high = np.max(x, axis=-1, keepdims=True)
    shifted = x - np.where(np.isfinite(high), high, 0).astype(x.dtype)
    return shifted - LOGSUMEXP.reference(shifted)[..., None], lse


def _sparse_reference(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    log_p, lse = _log_softmax(x)
    hits = _hits(x, labels)
    loss = -np.sum(np.where(hits, log_p, 0), axis=-1, dtype=x.dtype)
    return np.where(hits.any(-1), loss, np.asarray(np.nan, x.dtype)), lse


def _dense_reference(x: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, ...]:
    log_p, lse = _log_softmax(x)
    return -np.sum(target * log_p, axis=-1), lse, np.sum(target, axis=-1)


def _by_row(
    x: np.ndarray, target: np.ndarray, lse: np.ndarray, a: np.ndarray, b: np.ndarray
) -> np.ndarray:
    dx = a[..., None] * np.exp(x - lse[..., None]) - b[..., None] * target
    return np.where(((a == 0) & (b == 0))[..., None], np.asarray(0, x.dtype), dx)


def _sparse_gradient_reference(
    x: np.ndarray, labels: np.ndarray, lse: np.ndarray, a: np.ndarray, b: np.ndarray
) -> np.ndarray:
    hits = _hits(x, labels)
    target = np.where(hits.any(-1, keepdims=True), hits, np.nan).astype(x.dtype)
    return _by_row(x, target, lse, a, b)


def _indices(node: Node) -> Indices:
    """Rows are independent; the classes stay together."""
    rows = tuple(range(node.inputs[0].ndim - 1))

    def labels(values: Sequence[Value]) -> tuple[tuple[Any, ...], ...]:
        return tuple([rows + (None,) * (v.ndim - len(rows)) for v in values])

    return Indices(labels(node.inputs), labels(node.outputs))


def _sparse_gradient(node: Node, g: Value, g_lse: Value) -> tuple[Value, None]:
    # l = lse - x[class]:  dx = (g + g_lse) e^(x - lse) - g [class]
    (x, labels), lse = node.inputs, node.outputs[1]
    return apply(SPARSE_SOFTMAX_CROSSENTROPY_GRADIENT, x, labels, lse, g + g_lse, g), None


def _dense_gradient(node: Node, g: Value, g_lse: Value, g_total: Value) -> tuple[Value, Value]:
    # l = total lse - sum(t x):  dx = (g total + g_lse) e^(x - lse) - g t,  dt = g (lse - x)
    (x, target), (_, lse, total) = node.inputs, node.outputs
    dx = apply(SOFTMAX_CROSSENTROPY_GRADIENT, x, target, lse, g * total + g_lse, g)
    dt = expand_dims(g, -1) * (expand_dims(lse, -1) - x) + expand_dims(g_total, -1)
    return dx, dt


def _of_softmax(node: Node, gg: Value) -> tuple[Value, ...]:
    """Return the gradients of a e^(x - lse) by x, lse and a."""
    x, _, lse, a, _ = node.inputs
    weighted = exp(x - expand_dims(lse, -1)) * gg
    total = sum_over(weighted, -1)
    return expand_dims(a, -1) * weighted, -(a * total), total


def _sparse_second_gradient(node: Node, gg: Value) -> tuple[Any, ...]:
    dx, d_lse, da = _of_softmax(node, gg)
    labels = node.inputs[1]
    # a negative number is no class, though as an index it would count from the end
    place = expand_dims(where(labels < 0, gg.shape[-1], labels), -1)
    picked = reshape(apply(TAKE_ALONG_LAST, gg, place), labels.shape)
    return dx, None, d_lse, da, -picked


def _dense_second_gradient(node: Node, gg: Value) -> tuple[Value, ...]:
    dx, d_lse, da = _of_softmax(node, gg)
    _, target, _, _, b = node.inputs
    return dx, -(expand_dims(b, -1) * gg), d_lse, da, -sum_over(target * gg, -1)


# l = log(sum(e^x)) - x[class], per row; and that logarithm. A number that is no class gives NaN
SPARSE_SOFTMAX_CROSSENTROPY = primitive(
    "sparse_softmax_crossentropy",
    infer=lambda x, labels: (_check("sparse_softmax_crossentropy", x, labels, True),) * 2,
    reference=_sparse_reference,
    gradient=_sparse_gradient,
    indices=_indices,
)
# dx = a e^(x - lse) - b [class], per row, with lse as above; 0 where a and b are 0
SPARSE_SOFTMAX_CROSSENTROPY_GRADIENT = primitive(
    "sparse_softmax_crossentropy_gradient",
    infer=lambda *specs: _check_gradient("sparse_softmax_crossentropy_gradient", *specs),
    reference=_sparse_gradient_reference,
    gradient=_sparse_second_gradient,
    indices=_indices,
)
# l = sum(t (log(sum(e^x)) - x)), per row; that logarithm; and sum(t)
SOFTMAX_CROSSENTROPY = primitive(
    "softmax_crossentropy",
    infer=lambda x, target: (_check("softmax_crossentropy", x, target, False),) * 3,
    reference=_dense_reference,
    gradient=_dense_gradient,
    indices=_indices,
)
# dx = a e^(x - lse) - b t, per row, with lse as above; 0 where a and b are 0
SOFTMAX_CROSSENTROPY_GRADIENT = primitive(
    "softmax_crossentropy_gradient",
    infer=lambda *specs: _check_gradient("softmax_crossentropy_gradient", *specs),
    reference=_by_row,
    gradient=_dense_second_gradient,
    indices=_indices,
)
