"""Rules that all elementwise operations share: dtypes, broadcasting, loop indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uniflexflow.ir import Indices, Node, OpDef, TensorSpec, Value
from uniflexflow.ops.dtypes import DTYPES, kind_of
from uniflexflow.ops.registry import primitive
from uniflexflow.ops.shape_rules import broadcast_shapes, sum_to


def elementwise_indices(node: Node) -> Indices:
    """Dimension i of the output is index i; broadcast dimensions have none."""
    out = node.outputs[0].shape
    ndim = len(out)

    def labels(shape: tuple[int, ...]) -> tuple[Any, ...]:
        extra = ndim - len(shape)
        return tuple(i + extra if n == out[i + extra] else None for i, n in enumerate(shape))

    return Indices(tuple(labels(v.shape) for v in node.inputs), (labels(out),))


def same_dtype(name: str, specs: tuple[TensorSpec, ...]) -> str:
    dtype = specs[0].dtype
    for spec in specs:
        if spec.dtype != dtype:
            raise TypeError(
                f"{name}: operands must share one dtype; received "
                f"{', '.join(s.dtype for s in specs)}."
            )
    return dtype


#: NumPy's letter for the kind of each dtype
_KINDS = {name: kind_of(name) for name in DTYPES}


def infer_rule(
    name: str, out_dtype: str | None = None, kinds: str = "fiub"
) -> Callable[..., TensorSpec]:
    """``kinds`` are the letters of the dtypes that the operation takes."""

    def infer(*specs: TensorSpec) -> TensorSpec:
        dtype = same_dtype(name, specs)
        if _KINDS[dtype] not in kinds:
            raise TypeError(f"{name}: the operation is not defined on {dtype}.")
        shape = specs[0].shape
        if any([s.shape != shape for s in specs]):
            shape = broadcast_shapes(name, *[s.shape for s in specs])
        return TensorSpec(shape, out_dtype or dtype)

    return infer


def row(
    name: str,
    reference: Callable[..., Any],
    derivative: Callable[..., tuple[Value | None, ...]],
    out_dtype: str | None = None,
    linear: str = "",
    kinds: str = "fiu",
) -> OpDef:
    """Define one operation.

    ``derivative(node, g)`` gives one Value or None per input, not yet summed over
    broadcast axes.
    """

    def gradient(node: Node, g: Value) -> tuple[Value | None, ...]:
        grads = derivative(node, g)
        return tuple(None if d is None else sum_to(d, v.shape) for d, v in zip(grads, node.inputs))

    return primitive(
        name,
        infer=infer_rule(name, out_dtype, kinds),
        reference=reference,
        gradient=gradient,
        indices=elementwise_indices,
        linear=linear,
        elementwise=True,
    )


def unary(
    name: str,
    reference: Callable[..., Any],
    derivative: Callable[[Value, Value, Value], Value] | None,
    **rules: Any,
) -> OpDef:
    """``derivative(x, y, g)`` is the gradient of y = f(x), times g; None if it is 0."""
    if derivative is None:
        return row(name, reference, lambda node, g: (None,), **rules)
    return row(
        name,
        reference,
        lambda node, g: (derivative(node.inputs[0], node.outputs[0], g),),
        **rules,
    )
