"""The walk back from results to what they were made of: reverse-mode differentiation.

Each operation's rule turns gradients of its outputs into gradients of its inputs; what
meets at one value is added up. Gradients are ordinary nodes of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from uniflexflow.ir import CONSTANT, Node, Value, constant, reachable, scope
from uniflexflow.ops.elementwise import add
from uniflexflow.ops.shaping import BROADCAST_TO, broadcast_to


def pull_back(
    outputs: Sequence[Value],
    grads: Sequence[Value],
    sources: Sequence[Value],
    version: Callable[[Node, Mapping[Value, Value]], Node] | None = None,
) -> list[Value | None]:
    """Return the gradient of ``sum(outputs * grads)`` with respect to each source.

    Parameters
    ----------
    outputs : sequence of Value
    grads : sequence of Value
        One for each output, of its shape and dtype.
    sources : sequence of Value
    version : callable, optional
        ``version(node, found)`` gives the node whose values a node's rule reads, where
        ``found`` are the gradients that are known so far; by default the node itself.

    Returns
    -------
    list of Value or None
        None where no output depends on the source.

    Raises
    ------
    ValueError
        If the way from a source to an output leads through an operation that has no
        gradient; names the operation and its layer.
    """
    nodes = reachable(outputs)
    wanted = {v.node.id for v in sources}
    source_set = set(sources)
    depends = set()
    for node in nodes:
        if node.id in wanted or any(v.node.id in depends for v in node.inputs):
            depends.add(node.id)
    found: dict[Value, Value] = {}
    for value, g in zip(outputs, grads):
        found[value] = g if value not in found else add(found[value], g)
    for node in reversed(nodes):
        outs = [found.get(v) for v in node.outputs]
        if node.id not in depends or not node.inputs or all(g is None for g in outs):
            continue
        if not any(v.node.id in depends for v in node.inputs):
            continue
        if node.op.gradient is None:
            where = f" in layer {node.scope!r}" if node.scope else ""
            raise ValueError(
                f"gradients: operation {node.op.name!r}{where} has no gradient, and the target "
                "depends on a source through it. Put uff.ops.stop_gradient around it if no "
                "gradient should flow there."
            )
        with scope(node.scope):
            filled = [g if g is not None else zero(v) for g, v in zip(outs, node.outputs)]
            read = node if version is None else version(node, found)
            ins = node.op.gradient(read, *filled)
            for value, g in zip(node.inputs, ins):
                if g is None or not (value.node.id in depends or value in source_set):
                    continue
                found[value] = g if value not in found else add(found[value], g)
    return [found.get(v) for v in sources]


def zero(value: Value) -> Value:
    """Return the gradient of an output that nothing depends on."""
    return broadcast_to(constant(0, value.dtype), value.shape)


def is_zero(grad: Value) -> bool:
    """Say whether a gradient is such a zero, or another that is known while tracing."""
    while grad.node.op is BROADCAST_TO:
        grad = grad.node.inputs[0]
    return grad.node.op is CONSTANT and not grad.node.attrs["array"].any()
