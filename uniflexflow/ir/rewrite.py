"""The one way to change a graph: rebuild it node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from uniflexflow.ir.graph import Graph
from uniflexflow.ir.value import Node, Value, scope

Rule = Callable[[Node, tuple[Value, ...]], "Sequence[Value] | Value | None"]


def clone(node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return the node's outputs over new inputs; the node itself if nothing changed."""
    if inputs == node.inputs:  # Values are equal if they are the same
        return node.outputs
    return node.over(inputs).outputs


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """Rebuild ``graph`` in order, asking ``rule`` for each node.

    ``rule(node, new_inputs)`` returns what replaces the node's outputs (a Value or a
    sequence of them), or None to keep the node over its new inputs. Replacements keep
    the spec of what they replace.
    """
    env: dict[Value, Value] = {}
    for node in graph.nodes:
        inputs = tuple([env[v] for v in node.inputs])
        with scope(node.scope) if node.scope else _no_scope:
            new = rule(node, inputs)
        if new is None:
            new = clone(node, inputs)
        elif isinstance(new, Value):
            new = (new,)
        env.update(zip(node.outputs, new))
    return Graph(
        inputs=graph.inputs,
        outputs=tuple([env[v] for v in graph.outputs]),
        updates=tuple([(var, env[new]) for var, new in graph.updates]),
    )


class _NoScope:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


_no_scope = _NoScope()
