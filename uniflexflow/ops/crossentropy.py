"""Cross-entropies between target distributions and predictions; one value per row."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from uniflexflow.ir import Value, apply
from uniflexflow.ops.crossentropy_rules import SOFTMAX_CROSSENTROPY, SPARSE_SOFTMAX_CROSSENTROPY
from uniflexflow.ops.dispatch import as_value, cast_to, meet, op
from uniflexflow.ops.dtypes import epsilon, floatx, is_float
from uniflexflow.ops.elementwise import log, softplus, where
from uniflexflow.ops.indexing import TAKE_ALONG_LAST, index_value
from uniflexflow.ops.numeric import clip
from uniflexflow.ops.reduction import sum as sum_over
from uniflexflow.ops.shape_rules import broadcast_shapes, normalize_axis
from uniflexflow.ops.shaping import expand_dims, reshape, swap_with_last

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


def _check_classes(name: str, output: Value, axis: int) -> tuple[int, ...]:
    """Return the shape without the axis of the classes, of which there must be one."""
    if output.shape[axis] == 0:
        raise ValueError(
            f"{name}: `output` of shape {output.shape} has no class along axis {axis}."
        )
    return output.shape[:axis] + output.shape[axis + 1 :]


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
    if not from_logits:
        p = output / sum_over(output, axis, keepdims=True)
        return -sum_over(target * log(_clipped(p)), axis)
    rows = _check_classes("categorical_crossentropy", output, axis)
    output, target = swap_with_last(output, axis), swap_with_last(target, axis)
    loss = apply(SOFTMAX_CROSSENTROPY, output, target)[0]
    return reshape(swap_with_last(expand_dims(loss, -1), axis), rows)


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
    rows = _check_classes("sparse_categorical_crossentropy", output, axis)
    if target.ndim == output.ndim and target.shape[axis] == 1:
        target = reshape(target, target.shape[:axis] + target.shape[axis + 1 :])
    if target.shape != rows:
        raise ValueError(
            f"sparse_categorical_crossentropy: for `output` of shape {output.shape} with classes "
            f"along axis {axis}, expected `target` of shape {rows}; received {target.shape}."
        )
    # the rows' order after the swap: the target follows
    place = swap_with_last(reshape(target, rows[:axis] + (1,) + rows[axis:]), axis)
    classes = output.shape[axis]
    output = swap_with_last(output, axis)
    if from_logits:
        labels = reshape(place, output.shape[:-1])
        loss = expand_dims(apply(SPARSE_SOFTMAX_CROSSENTROPY, output, labels)[0], -1)
    else:
        # a negative number is no class, though as an index it would count from the end
        place = where(place < 0, classes, place)
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
