"""InputSpec: what a layer demands of its inputs, and the check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from uniflexflow import tree


class InputSpec:
    """What a layer demands of one input.

    Parameters
    ----------
    dtype : str, optional
    shape : tuple of int or None, optional
        Sizes that must match; None fits any size.
    ndim, max_ndim, min_ndim : int, optional
    axes : dict of int to int, optional
        Sizes of single axes.
    allow_last_axis_squeeze : bool
        Whether a last axis of size 1 may be missing or too much.
    name : str, optional
        Key of this input where inputs come as a dict.
    optional : bool
        Whether None may stand in its place.
    """

    def __init__(
        self,
        dtype: str | None = None,
        shape: tuple[int | None, ...] | None = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: Mapping[int, int | None] | None = None,
        allow_last_axis_squeeze: bool = False,
        name: str | None = None,
        optional: bool = False,
    ):
        self.dtype = dtype
        self.shape = None if shape is None else tuple(shape)
        self.ndim = len(self.shape) if self.shape is not None else ndim
        self.max_ndim = max_ndim
        self.min_ndim = min_ndim
        self.axes = {int(k): v for k, v in (axes or {}).items()}
        self.allow_last_axis_squeeze = allow_last_axis_squeeze
        self.name = name
        self.optional = optional
        widest = self.ndim if self.ndim is not None else max_ndim
        if self.axes and widest is not None and max(self.axes) >= widest:
            raise ValueError(
                f"InputSpec: axis {max(self.axes)} does not exist in {widest} dimensions."
            )

    def __repr__(self) -> str:
        parts = {
            "dtype": self.dtype,
            "shape": self.shape,
            "ndim": self.ndim,
            "max_ndim": self.max_ndim,
            "min_ndim": self.min_ndim,
            "axes": self.axes,
        }
        return f"InputSpec({', '.join(f'{k}={v}' for k, v in parts.items() if v)})"


def assert_input_compatibility(input_spec: Any, inputs: Any, layer_name: str) -> None:
    """Raise ValueError, naming the layer and the shape, if an input does not fit."""
    if not input_spec:
        return
    specs = tree.flatten(input_spec)
    if isinstance(inputs, dict) and all(s is not None and s.name for s in specs):
        missing = [s.name for s in specs if s.name not in inputs]
        if missing:
            raise ValueError(
                f"Missing data for input '{missing[0]}' of layer '{layer_name}': received a "
                f"dict with the keys {list(inputs)}; expected {[s.name for s in specs]}."
            )
        inputs = [inputs[s.name] for s in specs]
    inputs = tree.flatten(inputs)
    if len(inputs) != len(specs):
        shapes = [getattr(x, "shape", x) for x in inputs]
        raise ValueError(
            f"Layer '{layer_name}' expects {len(specs)} input(s), but it received "
            f"{len(inputs)} input tensors. Shapes received: {shapes}"
        )
    for i, (x, spec) in enumerate(zip(inputs, specs)):
        if spec is None or (x is None and spec.optional):
            continue
        _check(i, x, spec, layer_name)


def _check(i: int, x: Any, spec: InputSpec, layer_name: str) -> None:
    if not hasattr(x, "shape"):
        raise ValueError(
            f"Inputs to a layer should be tensors. Got '{x}' (of type {type(x)}) as input "
            f"for layer '{layer_name}'."
        )
    shape = tuple(x.shape)
    ndim = len(shape)

    named = f" with name '{spec.name}'" if spec.name else ""

    def fail(expected: str, found: str) -> None:
        raise ValueError(
            f"Input {i}{named} of layer '{layer_name}' is incompatible with the layer: "
            f"expected {expected}, {found}"
        )

    full = f"Full shape received: {shape}"
    if spec.ndim is not None and not spec.allow_last_axis_squeeze and ndim != spec.ndim:
        fail(f"ndim={spec.ndim}", f"found ndim={ndim}. {full}")
    if spec.max_ndim is not None and ndim > spec.max_ndim:
        fail(f"max_ndim={spec.max_ndim}", f"found ndim={ndim}. {full}")
    if spec.min_ndim is not None and ndim < spec.min_ndim:
        fail(f"min_ndim={spec.min_ndim}", f"found ndim={ndim}. {full}")
    if spec.dtype is not None and x.dtype != spec.dtype:
        fail(f"dtype={spec.dtype}", f"found dtype={x.dtype}")
    for axis, size in spec.axes.items():
        if size is not None and shape[axis] not in (size, None):
            fail(
                f"axis {axis} of input shape to have value {size}",
                f"but received input with shape {shape}",
            )
    if spec.shape is not None:
        want, have = spec.shape, shape
        if spec.allow_last_axis_squeeze:
            want = want[:-1] if want and want[-1] == 1 else want
            have = have[:-1] if have and have[-1] == 1 else have
        fits = len(want) == len(have) and all(
            a is None or b is None or a == b for a, b in zip(want, have)
        )
        if not fits:
            fail(f"shape={spec.shape}", f"found shape={shape}")
