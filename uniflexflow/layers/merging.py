"""Layers that join several inputs, and the functions of the same name."""

from __future__ import annotations

import math
from typing import Any

from uniflexflow import ops
from uniflexflow.layers.base import Layer


class _Merge(Layer):
    """Check the inputs; give them equal numbers of axes."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        if not isinstance(input_shape, (list, tuple)) or not all(
            isinstance(s, (list, tuple)) for s in input_shape
        ):
            raise ValueError(
                f"Layer '{self.name}': a merge layer should be called on a list of inputs; "
                f"received one of shape {input_shape}."
            )
        self._check(input_shape)

    def _check(self, shapes: Any) -> None:
        if len(shapes) < 1:
            raise ValueError(f"Layer '{self.name}': expected at least 1 input; received none.")
        ndim = max(len(s) for s in shapes)
        aligned = [(*s[:1], *(1,) * (ndim - len(s)), *s[1:]) for s in shapes]
        for sizes in zip(*aligned):
            if len({n for n in sizes if n not in (None, 1)}) > 1:
                raise ValueError(
                    f"Layer '{self.name}': inputs have incompatible shapes "
                    f"{[tuple(s) for s in shapes]}; sizes must be equal or 1."
                )

    def call(self, inputs: Any) -> Any:
        ndim = max(x.ndim for x in inputs)
        aligned = [
            ops.reshape(x, (*x.shape[:1], *(1,) * (ndim - x.ndim), *x.shape[1:])) for x in inputs
        ]
        return self._merge(aligned)

    def _merge(self, inputs: list[Any]) -> Any:
        raise NotImplementedError

    def _mask_list(self, inputs: Any, mask: Any) -> list[Any]:
        masks = list(mask) if isinstance(mask, (list, tuple)) else [mask]
        if len(masks) != len(inputs):
            raise ValueError(
                f"Layer '{self.name}': received {len(inputs)} inputs and {len(masks)} masks."
            )
        return masks

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        if previous_mask is None:
            return None
        masks = self._mask_list(inputs, previous_mask)
        if any(m is None for m in masks):
            return None
        out = masks[0]
        for m in masks[1:]:
            out = ops.logical_or(out, m)
        return out


class Add(_Merge):
    """Add the inputs."""

    def _merge(self, inputs: list[Any]) -> Any:
        out = inputs[0]
        for x in inputs[1:]:
            out = out + x
        return out


class Subtract(_Merge):
    """Subtract the second input from the first."""

    def _check(self, shapes: Any) -> None:
        super()._check(shapes)
        if len(shapes) != 2:
            raise ValueError(
                f"Layer '{self.name}': Subtract takes exactly 2 inputs; received {len(shapes)}."
            )

    def _merge(self, inputs: list[Any]) -> Any:
        return inputs[0] - inputs[1]


class Multiply(_Merge):
    """Multiply the inputs, element by element."""

    def _merge(self, inputs: list[Any]) -> Any:
        out = inputs[0]
        for x in inputs[1:]:
            out = out * x
        return out


class Average(_Merge):
    """Take the mean of the inputs, element by element."""

    def _merge(self, inputs: list[Any]) -> Any:
        out = inputs[0]
        for x in inputs[1:]:
            out = out + x
        return out * (1.0 / len(inputs))


class Maximum(_Merge):
    """Take the largest of the inputs, element by element."""

    def _merge(self, inputs: list[Any]) -> Any:
        out = inputs[0]
        for x in inputs[1:]:
            out = ops.maximum(out, x)
        return out


class Minimum(_Merge):
    """Take the smallest of the inputs, element by element."""

    def _merge(self, inputs: list[Any]) -> Any:
        out = inputs[0]
        for x in inputs[1:]:
            out = ops.minimum(out, x)
        return out


class Concatenate(_Merge):
    """Join the inputs along an axis.

    Parameters
    ----------
    axis : int
    """

    def __init__(self, axis: int = -1, **kwargs: Any):
        super().__init__(**kwargs)
        self.axis = axis

    def _check(self, shapes: Any) -> None:
        if len(shapes) < 1:
            raise ValueError(f"Layer '{self.name}': expected at least 1 input; received none.")
        ndim = len(shapes[0])
        rest = []
        for s in shapes:
            s = list(s)
            if len(s) == ndim and -ndim <= self.axis < ndim:
                del s[self.axis]
            rest.append(s)
        fits = all(len(s) == len(rest[0]) for s in rest) and all(
            len({n for n in sizes if n is not None}) <= 1 for sizes in zip(*rest)
        )
        if not fits or not -ndim <= self.axis < ndim:
            raise ValueError(
                f"Layer '{self.name}': inputs must have matching shapes except along axis "
                f"{self.axis}; received {[tuple(s) for s in shapes]}."
            )

    def _merge(self, inputs: list[Any]) -> Any:
        return ops.concatenate(inputs, axis=self.axis)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        if previous_mask is None:
            return None
        masks = self._mask_list(inputs, previous_mask)
        if all(m is None for m in masks):
            return None
        full = []
        for x, m in zip(inputs, masks):
            if m is None:
                full.append(ops.broadcast_to(ops.cast(True, "bool"), x.shape))
            elif m.ndim < x.ndim:
                full.append(ops.broadcast_to(ops.expand_dims(m, -1), x.shape))
            else:
                full.append(m)
        return ops.any(ops.concatenate(full, axis=self.axis), axis=-1)


class Dot(_Merge):
    """Contract an axis of two inputs, sample by sample.

    Parameters
    ----------
    axes : int or (int, int)
        The axis of each input.
    normalize : bool
        Whether the inputs are first scaled to a length of 1 along their axis: the result
        is the cosine of the angle between them.
    """

    def __init__(self, axes: Any, normalize: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(axes, int):
            axes = tuple(axes)
            if len(axes) != 2 or not all(isinstance(a, int) for a in axes):
                raise ValueError(
                    f"Dot: `axes` must be an integer or two of them; received {axes!r}."
                )
        self.axes = axes
        self.normalize = normalize

    def _axes(self, shapes: Any) -> tuple[int, int]:
        pair = (self.axes, self.axes) if isinstance(self.axes, int) else self.axes
        a, b = (axis % len(s) if -len(s) <= axis < len(s) else -1 for axis, s in zip(pair, shapes))
        if a < 1 or b < 1:
            raise ValueError(
                f"Layer '{self.name}': axes={self.axes} must name axes after the batch of inputs "
                f"of shapes {[tuple(s) for s in shapes]}."
            )
        return a, b

    def _check(self, shapes: Any) -> None:
        if len(shapes) != 2:
            raise ValueError(
                f"Layer '{self.name}': Dot takes exactly 2 inputs; received {len(shapes)}."
            )
        a, b = self._axes(shapes)
        if None not in (shapes[0][a], shapes[1][b]) and shapes[0][a] != shapes[1][b]:
            raise ValueError(
                f"Layer '{self.name}': the sizes of the axes {(a, b)} of the inputs of shapes "
                f"{[tuple(s) for s in shapes]} are {shapes[0][a]} and {shapes[1][b]}; they must "
                "be equal."
            )

    def call(self, inputs: Any) -> Any:
        x, y = inputs
        a, b = self._axes([x.shape, y.shape])
        if self.normalize:
            x = x * ops.rsqrt(ops.maximum(ops.sum(x * x, axis=a, keepdims=True), 1e-12))
            y = y * ops.rsqrt(ops.maximum(ops.sum(y * y, axis=b, keepdims=True), 1e-12))
        others_x = [i for i in range(1, x.ndim) if i != a]
        others_y = [i for i in range(1, y.ndim) if i != b]
        left = tuple(x.shape[i] for i in others_x)
        right = tuple(y.shape[i] for i in others_y)
        batch, size = x.shape[0], x.shape[a]
        x = ops.reshape(ops.transpose(x, (0, *others_x, a)), (batch, math.prod(left), size))
        y = ops.reshape(ops.transpose(y, (0, b, *others_y)), (batch, size, math.prod(right)))
        shape = (batch, *left, *right) if left or right else (batch, 1)
        return ops.reshape(ops.matmul(x, y), shape)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return None


def add(inputs: Any, **kwargs: Any) -> Any:
    """Add tensors; see ``Add``."""
    return Add(**kwargs)(inputs)


def subtract(inputs: Any, **kwargs: Any) -> Any:
    """Subtract the second tensor from the first; see ``Subtract``."""
    return Subtract(**kwargs)(inputs)


def multiply(inputs: Any, **kwargs: Any) -> Any:
    """Multiply tensors; see ``Multiply``."""
    return Multiply(**kwargs)(inputs)


def average(inputs: Any, **kwargs: Any) -> Any:
    """Take the mean of tensors; see ``Average``."""
    return Average(**kwargs)(inputs)


def maximum(inputs: Any, **kwargs: Any) -> Any:
    """Take the largest of tensors; see ``Maximum``."""
    return Maximum(**kwargs)(inputs)


def minimum(inputs: Any, **kwargs: Any) -> Any:
    """Take the smallest of tensors; see ``Minimum``."""
    return Minimum(**kwargs)(inputs)


def concatenate(inputs: Any, axis: int = -1, **kwargs: Any) -> Any:
    """Join tensors; see ``Concatenate``."""
    return Concatenate(axis=axis, **kwargs)(inputs)


def dot(inputs: Any, axes: Any = -1, **kwargs: Any) -> Any:
    """Contract an axis of two tensors; see ``Dot``."""
    return Dot(axes=axes, **kwargs)(inputs)
