"""Targets and predictions made ready: checked, smoothed, kept from 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from uniflexflow import ops
from uniflexflow.ops.dispatch import as_value
from uniflexflow.ops.dtypes import epsilon, floatx, is_float
from uniflexflow.ops.shape_rules import normalize_axis


def clip(x: Any, low: float, high: float) -> Any:
    """Bring each element between two numbers."""
    return ops.minimum(ops.maximum(x, low), high)


def clip_probability(p: Any) -> Any:
    """Keep probabilities from 0 and 1, whose logarithms are infinite."""
    return clip(p, epsilon(), 1.0 - epsilon())


def check_same_shape(name: str, y_true: Any, y_pred: Any) -> None:
    """Raise ValueError if targets and predictions differ in shape."""
    if y_true.shape != y_pred.shape:
        raise ValueError(
            f"{name}: the arguments `y_true` and `y_pred` must have the same shape: "
            f"received y_true.shape={y_true.shape}, y_pred.shape={y_pred.shape}."
        )


def check_axis(name: str, axis: Any, ndim: int) -> int:
    """Return the axis counted from the first; raise ValueError if it is none."""
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise ValueError(
            f"{name}: `axis` must be of type int; received axis={axis!r} "
            f"of type {type(axis).__name__}."
        )
    return normalize_axis(name, int(axis), ndim)


def as_float(x: Any) -> Any:
    """Return a float tensor; integers become ``floatx()``."""
    x = as_value(x)
    return x if is_float(x.dtype) else ops.cast(x, floatx())


def smooth_categorical(y_true: Any, label_smoothing: float, axis: int) -> Any:
    """Move a share of the targets to all classes alike."""
    if not label_smoothing:
        return y_true
    return y_true * (1.0 - label_smoothing) + label_smoothing / y_true.shape[axis]


def smooth_binary(y_true: Any, label_smoothing: float) -> Any:
    """Move targets towards one half."""
    if not label_smoothing:
        return y_true
    return y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
