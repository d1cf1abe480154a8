"""Fusion: an optimizer's update of an embedding makes the gradient as it goes.

The gradient of a table of which few rows were taken is a table of zeros with a few rows added.
If one chain reads it and nobody else, the chain sums the rows that fall into a tile when it
comes to that tile, so the gradient is never in memory.
"""

from __future__ import annotations

from typing import Any

from uniflexflow.ir import Graph, Node, Value, apply, rewrite, use_counts
from uniflexflow.ops.registry import OPS

#: Bytes from which a table is worth it: sorting the indices is work for one core.
MIN_BYTES = 1 << 20


def fuse_rows(graph: Graph) -> Graph:
    """Let chains sum the rows of a ``take_gradient`` that they alone read."""
    uses = use_counts(graph)

    def fits(value: Value, node: Node) -> bool:
        maker = value.node
        return (
            maker.op.name == "take_gradient"
            and maker.attrs["axis"] == 0
            and uses[value] == 1
            and value.shape == node.outputs[0].shape
            and value.spec.nbytes >= MIN_BYTES
        )

    def rule(node: Node, inputs: tuple[Value, ...]) -> Any:
        if node.op.name != "chain":
            return None
        table = next((k for k, v in enumerate(node.inputs) if fits(v, node)), None)
        if table is None:
            return None
        # the table becomes the last input
        number = list(range(len(inputs) + len(node.attrs["program"])))
        number[table] = len(inputs) - 1
        for k in range(table + 1, len(inputs)):
            number[k] = k - 1
        program = tuple(
            [
                (name, attrs, tuple([number[s] for s in sources]))
                for name, attrs, sources in node.attrs["program"]
            ]
        )
        return apply(
            OPS["chain_rows"],
            *[v for k, v in enumerate(inputs) if k != table],
            *inputs[table].node.inputs,
            program=program,
            results=tuple([number[r] for r in node.attrs["results"]]),
            shape=node.inputs[table].shape,
        )

    return rewrite(graph, rule)
