"""Reverse-mode differentiation: gradients are ordinary nodes of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from uniflexflow.ir import Value, constant, reachable, scope
from uniflexflow.ops.dispatch import as_value
from uniflexflow.ops.dtypes import is_float
from uniflexflow.ops.elementwise import add
from uniflexflow.ops.shaping import broadcast_to
from uniflexflow.passes.recompute import Recomputation


def gradients(target: Any, sources: Sequence[Any], grad_target: Any = None) -> list[Value | None]:
    """Return the gradient of ``target`` with respect to each source.

    Parameters
    ----------
    target : symbolic tensor
        Usually a scalar loss; for any other shape, the gradient is that of
        ``sum(target * grad_target)``.
    sources : sequence of symbolic tensors and Variables
    grad_target : symbolic tensor, optional
        Ones by default.

    Returns
    -------
    list of symbolic tensor or None
        None where ``target`` does not depend on the source.

    Raises
    ------
    ValueError
        If the way from a source to the target leads through an operation that has no
        gradient; names the operation and its layer.
    """
    if not isinstance(sources, (list, tuple)):
        raise TypeError(
            f"gradients: `sources` must be a list; received {type(sources).__name__}. For one "
            "tensor write `(grad,) = gradients(target, [tensor])`."
        )
    target = as_value(target)
    values = [as_value(s) for s in sources]
    if not is_float(target.dtype):
        raise ValueError(f"gradients: the target must be a float tensor; received {target.dtype}.")
    nodes = reachable([target])
    wanted = {v.node.id for v in values}
    source_set = set(values)
    depends = set()
    for node in nodes:
        if node.id in wanted or any(v.node.id in depends for v in node.inputs):
            depends.add(node.id)
    one = constant(1, target.dtype)
    grads: dict[Value, Value] = {
        target: broadcast_to(one, target.shape) if grad_target is None else as_value(grad_target)
    }
    recomputation = Recomputation(nodes)
    for node in reversed(nodes):
        outs = [grads.get(v) for v in node.outputs]
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
            filled = [
                g if g is not None else broadcast_to(constant(0, v.dtype), v.shape)
                for g, v in zip(outs, node.outputs)
            ]
            ins = node.op.gradient(recomputation.version(node, grads), *filled)
            for value, g in zip(node.inputs, ins):
                if g is None or not (value.node.id in depends or value in source_set):
                    continue
                grads[value] = g if value not in grads else add(grads[value], g)
    return [grads.get(v) for v in values]
