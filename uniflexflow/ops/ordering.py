"""An operation that says when, not what: the order of a graph where its data leaves it open."""

from __future__ import annotations

from uniflexflow.ir import Indices, Node, Value, apply
from uniflexflow.ops.registry import primitive


def _indices(node: Node) -> Indices:
    labels = tuple(range(node.inputs[0].ndim))
    unread = [(None,) * v.ndim for v in node.inputs[1:]]
    return Indices((labels, *unread), (labels,))


# y = x, in x's own memory, once the others are known. No pass looks through it, so what is
# computed from y is never taken for what was computed from x.
AFTER = primitive(
    "after",
    infer=lambda x, *others: x,
    reference=lambda x, *others: x,
    gradient=lambda node, g: (g, *[None] * (len(node.inputs) - 1)),
    indices=_indices,
    num_read=1,
)


def after(x: Value, *others: Value) -> Value:
    """Return x, which may not be read before the others are known."""
    return apply(AFTER, x, *others)
