"""Cross-entropies between target distributions and predictions; one value per row."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from uniflexflow.ir import Value, apply
from uniflexflow.ops.dispatch import as_value, cast_to, meet, op
from uniflexflow.ops.dtypes import epsilon, floatx, is_float
from uniflexflow.ops.elementwise import log, softplus, where
from uniflexflow.ops.indexing import TAKE_ALONG_LAST, index_value
from uniflexflow.ops.nn import log_softmax, logsumexp
from uniflexflow.ops.numeric import clip
from uniflexflow.ops.reduction import sum as sum_over
from uniflexflow.ops.shape_rules import broadcast_shapes, normalize_axis
from uniflexflow.ops.shaping import reshape, swap_with_last

__all__ = [
    "binary_crossentropy",
    "categorical_crossentropy",
    "sparse_categorical_crossentropy",
]


def _prediction(output: Any) -> Value:
    value = as_value(output)
    return value if is_float(value.dtype) else cast_to(value, floatx())


def _clipped(p: Value) -> Value:
    return clip(p, epsilon(), 1.0 - epsilon())


@op
def categorical_crossentropy(
    target: ArrayLike, output: ArrayLike, from_logits: bool = False, axis: int = -1
) -> Any:
    """Return -sum(target * log(p)) along the axis of the classes.

    Parameters
    ----------
    target : tensor
        Probabilities; of the shape of ``output``.
    output : tensor
        Logits, or probabilities: these are scaled to the sum 1 and kept ``epsilon()``
        away from 0 and 1.
    from_logits : bool
    axis : int
    """
    output = _prediction(output)
    target = cast_to(as_value(target), output.dtype)
    if target.shape != output.shape or output.ndim == 0:
        raise ValueError(
            f"categorical_crossentropy: `target` and `output` must have one shape, with an axis "
            f"of classes; received {target.shape} and {output.shape}."
        )
    axis = normalize_axis("categorical_crossentropy", axis, output.ndim)
    if from_logits:
        log_p = log_softmax(output, axis)
    else:
        log_p = log(_clipped(output / sum_over(output, axis, keepdims=True)))
    return -sum_over(target * log_p, axis)


@op
def sparse_categorical_crossentropy(
    target: ArrayLike, output: ArrayLike, from_logits: bool = False, axis: int = -1
) -> Any:
    """Return -log(p) of the target class along the axis of the classes.

    Parameters
    ----------
    target : tensor
        Class numbers, whole also if their dtype is float; of the shape of ``output``
        without ``axis``, or with size 1 there. A number that is no class gives NaN.
    output : tensor
        Logits, or probabilities: these are scaled to the sum 1 and kept ``epsilon()``
        away from 0 and 1.
    from_logits : bool
    axis : int
    """
    output, target = _prediction(output), as_value(target)
    if is_float(target.dtype):  # labels read from a file of floats
        target = cast_to(target, "int32")
    target = index_value("sparse_categorical_crossentropy", target)
    if output.ndim == 0:
        raise ValueError("sparse_categorical_crossentropy: `output` needs an axis of classes.")
    axis = normalize_axis("sparse_categorical_crossentropy", axis, output.ndim)
    rows = output.shape[:axis] + output.shape[axis + 1 :]
    if target.ndim == output.ndim and target.shape[axis] == 1:
        target = reshape(target, target.shape[:axis] + target.shape[axis + 1 :])
    if target.shape != rows:
        raise ValueError(
            f"sparse_categorical_crossentropy: for `output` of shape {output.shape} with classes "
            f"along axis {axis}, expected `target` of shape {rows}; received {target.shape}."
        )
    # the rows' order after the swap: the target follows
    output = swap_with_last(output, axis)
    # a negative number is no class, though as an index it would count from the end
    target = where(target < 0, output.shape[axis], target)
    place = reshape(target, rows[:axis] + (1,) + rows[axis:])
    place = swap_with_last(place, axis)
    if from_logits:
        loss = logsumexp(output, -1, keepdims=True) - apply(TAKE_ALONG_LAST, output, place)
    else:
        p = apply(TAKE_ALONG_LAST, output, place) / sum_over(output, -1, keepdims=True)
        loss = -log(_clipped(p))
    return reshape(swap_with_last(loss, axis), rows)


@op
def binary_crossentropy(target: ArrayLike, output: ArrayLike, from_logits: bool = False) -> Any:
    """Return -(t log(p) + (1 - t) log(1 - p)), element by element.

    Parameters
    ----------
    target : tensor
        Probabilities of being true.
    output : tensor
        Logits, or probabilities: these are kept ``epsilon()`` away from 0 and 1.
    from_logits : bool
    """
    output = _prediction(output)
    target, output = meet(cast_to(as_value(target), output.dtype), output)
    broadcast_shapes("binary_crossentropy", target.shape, output.shape)
    if from_logits:
        # -(t log s(x) + (1 - t) log(1 - s(x))) = log(1 + e^x) - t x; gradient s(x) - t
        return softplus(output) - target * output
    p = _clipped(output)
    return -(target * log(p) + (1.0 - target) * log(1.0 - p))
