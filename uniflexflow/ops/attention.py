"""Attention: a mean of values, weighted by how well their keys match a query."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uniflexflow.ir import constant
from uniflexflow.ops.contraction import matmul
from uniflexflow.ops.dispatch import as_value, cast_to, meet, op
from uniflexflow.ops.dtypes import floatx, is_float
from uniflexflow.ops.elementwise import where
from uniflexflow.ops.nn import softmax
from uniflexflow.ops.shape_rules import broadcast_shapes
from uniflexflow.ops.shaping import transpose
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
    groups = query.shape[2] // key.shape[2] if key.shape[2] else 1
    if groups > 1:
        key, value = repeat(key, groups, axis=2), repeat(value, groups, axis=2)
    factor = 1.0 / math.sqrt(query.shape[3]) if scale is None else scale
    # (batch, heads, length, dim): one matrix product per head
    q = transpose(query * factor, (0, 2, 1, 3))
    scores = matmul(q, transpose(key, (0, 2, 3, 1)))
    if bias is not None:
        scores = scores + cast_to(as_value(bias), scores.dtype)
    allowed = None if mask is None else cast_to(as_value(mask), "bool")
    if is_causal:
        triangle = constant(np.tri(*scores.shape[-2:], dtype=bool))
        allowed = triangle if allowed is None else allowed & triangle
    if allowed is not None:
        if broadcast_shapes("dot_product_attention", allowed.shape, scores.shape) != scores.shape:
            raise ValueError(
                f"dot_product_attention: a mask of shape {allowed.shape} can't be broadcast to "
                f"(batch, heads, targets, sources) = {scores.shape}."
            )
        # finite, so that a row without any source has no NaN
        scores = where(allowed, scores, float(np.finfo(scores.dtype).min) / 2)
    weighted = matmul(softmax(scores), transpose(value, (0, 2, 1, 3)))
    return transpose(weighted, (0, 2, 1, 3))
