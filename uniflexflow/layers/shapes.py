"""Shapes in nested structures, as users and files write them."""

from __future__ import annotations

from typing import Any

from uniflexflow.ops.symbolic import KerasTensor


def as_shape(value: Any) -> Any:
    """Turn lists of sizes, as JSON has them, into tuples."""
    if isinstance(value, dict):
        return {k: as_shape(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        if all(n is None or isinstance(n, int) for n in value):
            return tuple(value)
        return [as_shape(v) for v in value]
    return value


def shape_to_placeholders(shape: Any, dtype: str) -> Any:
    """Return placeholders for a shape, or for a list or dict of shapes."""
    shape = as_shape(shape)
    if isinstance(shape, dict):
        return {k: shape_to_placeholders(v, dtype) for k, v in shape.items()}
    if isinstance(shape, list):
        return [shape_to_placeholders(v, dtype) for v in shape]
    return KerasTensor(shape, dtype)
