"""Widening: operations on bfloat16 that have no kernel of their own run in float32.

bfloat16 is a form in which numbers are kept. An operation that can't read and write it
becomes the same operation in float32 between casts. Fusion then takes the casts into the
chains, so an elementwise run reads bfloat16 at one end, computes in float32 registers and
rounds what it stores.

The casts to float32 that this pass adds are *unrounded*: where the number that was rounded
is still at hand, they may give that one. Results are then nearer to the ones of float32 than
those of the graph before, by the roundings that were left out. A cast that stood in the graph
before gives the rounded number, and so do those of operations that compare (``COMPARING``): a
maximum equals one of the numbers that it was taken from only if all have been rounded.
"""

from __future__ import annotations

from collections.abc import Callable

from uniflexflow.ir import CONSTANT, INPUT, Graph, Node, Value, apply, constant, rewrite
from uniflexflow.ops.registry import OPS
from uniflexflow.passes.pieces import KINDS

# An unrounded number takes twice the memory, so an operation reads it only if it is small, or
# was made so few nodes before that it is in memory anyway.
SMALL_BYTES = 16 * 1024
NEAR = 24

#: Operations whose results jump: a rounding may change them by more than a rounding.
COMPARING = frozenset({
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan", "isfinite",
    "sign", "floor", "ceil", "round", "floor_divide", "mod", "argmax", "argmin", "argsort",
    "max_pool2d_gradient", "max_pool2d_gather",
})  # fmt: skip


def unrounded(value: Value) -> Value | None:
    """Return the float32 tensor that a bfloat16 one was rounded from, if there is one."""
    node = value.node
    if node.op.name == "cast" and value.dtype == "bfloat16":
        source = node.inputs[0]
        return source if source.dtype == "float32" else None
    return None


def widen(graph: Graph, native: Callable[[Node], bool]) -> Graph:
    """Return a graph in which only some nodes work on bfloat16.

    Parameters
    ----------
    graph : Graph
    native : callable
        Says of a node whether it has a kernel for bfloat16.
    """
    if not any([v.dtype == "bfloat16" for node in graph.nodes for v in node.outputs]):
        return graph
    position = {node.id: i for i, node in enumerate(graph.nodes)}
    casts: dict[tuple[Value, bool], Value] = {}

    def is_native(node: Node) -> bool:
        if node.op is INPUT or node.op is CONSTANT or native(node):
            return True
        return not any([v.dtype == "bfloat16" for v in (*node.inputs, *node.outputs)])

    def read(node: Node, old: Value, new: Value) -> Value:
        """Return an operand in float32."""
        if new.dtype != "bfloat16":
            return new
        if new.node.op is CONSTANT:
            return constant(new.node.attrs["array"], "float32")
        rounded = node.op.name in COMPARING
        source = None if rounded else unrounded(new)
        if source is not None:
            in_chain = node.op.elementwise or node.op.name in KINDS
            near = position[node.id] - position[old.node.id] <= NEAR
            if source.node.op is INPUT or source.spec.nbytes <= SMALL_BYTES:
                return source
            if near and not in_chain:  # a chain that makes and reads it has both at hand
                return source
        if (new, rounded) not in casts:
            attrs = {} if rounded else {"unrounded": True}
            casts[new, rounded] = apply(OPS["cast"], new, dtype="float32", **attrs)
        return casts[new, rounded]

    def rule(node: Node, inputs: tuple[Value, ...]) -> list[Value] | None:
        if is_native(node):
            return None
        attrs = dict(node.attrs)
        if attrs.get("dtype") == "bfloat16":
            attrs["dtype"] = "float32"
        wide = [read(node, old, new) for old, new in zip(node.inputs, inputs)]
        made = apply(node.op, *wide, **attrs)
        outs = made if isinstance(made, tuple) else (made,)
        return [
            apply(OPS["cast"], new, dtype="bfloat16") if old.dtype == "bfloat16" else new
            for old, new in zip(node.outputs, outs)
        ]

    return rewrite(graph, rule)
