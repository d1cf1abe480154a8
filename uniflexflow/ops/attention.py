"""Attention: a mean of values, weighted by how well their keys match a query."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import Value, apply, constant
from uniflexflow.ops.attention_rules import ATTENTION, MAX_DIM, hidden_score
from uniflexflow.ops.contraction import matmul
from uniflexflow.ops.dispatch import as_value, cast_to, meet, op
from uniflexflow.ops.dtypes import floatx, is_float
from uniflexflow.ops.elementwise import where
from uniflexflow.ops.nn import softmax
from uniflexflow.ops.shaping import reshape, transpose
from uniflexflow.ops.tiling import repeat

__all__ = ["dot_product_attention"]


@op
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    scale: float | None = None,
    is_causal: bool = False,
) -> Any:
    """Return softmax(scale * query key^T + bias) value, per head.

    The matrix of all scores is never in memory, forward or backward: that grows with the
    length, not with its square (Dao et al., "FlashAttention", 2022). Exceptions are the
    gradient of a ``bias``, the gradient of a gradient, and a dim above 256.

    Parameters
    ----------
    query : tensor of shape (batch, targets, heads, dim)
    key, value : tensors of shape (batch, sources, heads, dim)
        With one head, or a number of heads that divides the query's: each is then used
        by several heads of the query.
    bias : tensor, optional
        Added to the scores; broadcast to (batch, heads, targets, sources).
    mask : boolean tensor, optional
        True where a target may look at a source; broadcast like ``bias``. A target that
        may look at none takes the mean of all.
    scale : float, optional
        1 / sqrt(dim) by default.
    is_causal : bool
        Whether a target looks only at sources up to its own place.

    Returns
    -------
    tensor of shape (batch, targets, heads, dim of value)
    """
    query, key, value = meet(query, key, value)
    if not is_float(query.dtype):
        query, key, value = (cast_to(x, floatx()) for x in (query, key, value))
    shapes = f"query {query.shape}, key {key.shape}, value {value.shape}"
    if not query.ndim == key.ndim == value.ndim == 4:
        raise ValueError(
            f"dot_product_attention: expected tensors of shape (batch, length, heads, dim); "
            f"received {shapes}."
        )
    fits = key.shape[:3] == value.shape[:3] and query.shape[0] == key.shape[0]
    if not fits or query.shape[3] != key.shape[3] or query.shape[2] % max(key.shape[2], 1):
        raise ValueError(
            f"dot_product_attention: {shapes} don't fit: key and value must agree in batch, "
            "length and heads, query and key in batch and dim, and the heads of the key must "
            "divide those of the query."
        )
    factor = 1.0 / math.sqrt(query.shape[3]) if scale is None else float(scale)
    full = (query.shape[0], query.shape[2], query.shape[1], key.shape[1])
    bias = _over_scores("bias", bias, query.dtype, full)
    mask = _over_scores("mask", mask, "bool", full)
    if max(query.shape[3], value.shape[3]) > MAX_DIM:
        weights = attention_weights(query, key, bias, mask, factor, is_causal)
        return weighted_values(weights, value)
    extras = [x for x in (bias, mask) if x is not None]
    return apply(ATTENTION, query, key, value, *extras, factor=factor, causal=bool(is_causal))[0]


def _over_scores(name: str, x: Any, dtype: str, full: tuple[int, ...]) -> Value | None:
    """Return a bias or mask with four axes, each of the scores' size or 1."""
    if x is None:
        return None
    x = cast_to(as_value(x), dtype)
    if x.ndim > 4 or any(n not in (1, m) for n, m in zip(x.shape[::-1], full[::-1])):
        raise ValueError(
            f"dot_product_attention: a {name} of shape {x.shape} can't be broadcast to "
            f"(batch, heads, targets, sources) = {full}."
        )
    return reshape(x, (1,) * (4 - x.ndim) + x.shape)


def attention_weights(
    query: Value, key: Value, bias: Value | None, mask: Value | None, scale: float, causal: bool
) -> Value:
    """Return softmax(scale * query key^T + bias), (batch, heads, targets, sources).

    The way of those who need the weights themselves, to drop some or to look at them.
    """
    key = _every_head(key, query.shape[2])
    # (batch, heads, length, dim): one matrix product per head
    scores = matmul(transpose(query * scale, (0, 2, 1, 3)), transpose(key, (0, 2, 3, 1)))
    scores = scores if bias is None else scores + bias
    if causal:
        triangle = constant(np.tri(*scores.shape[-2:], dtype=bool))
        mask = triangle if mask is None else mask & triangle
    return softmax(scores if mask is None else where(mask, scores, hidden_score(scores.dtype)))


def weighted_values(weights: Value, value: Value) -> Value:
    """Return weights (batch, heads, targets, sources) times values, in the query's layout."""
    value = _every_head(value, weights.shape[1])
    return transpose(matmul(weights, transpose(value, (0, 2, 1, 3))), (0, 2, 1, 3))


def _every_head(x: Value, heads: int) -> Value:
    """Repeat the heads of keys or values that several heads of the query share."""
    groups = heads // x.shape[2] if x.shape[2] else 1
    return repeat(x, groups, axis=2) if groups > 1 else x
