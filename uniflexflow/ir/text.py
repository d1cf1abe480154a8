"""Text form of a graph: one line a node, readable in a bug report."""

from __future__ import annotations

from typing import Any

import numpy as np

from uniflexflow.ir.graph import Graph
from uniflexflow.ir.value import CONSTANT, INPUT, Value


def _attr(value: Any) -> str:
    if isinstance(value, np.ndarray):
        if value.size <= 4:
            return str(value.tolist())
        return f"<{value.dtype}{list(value.shape)}>"
    return str(value)


def to_text(graph: Graph) -> str:
    """Print a graph in topological order.

    Each line is ``%number: dtype[shape] = op(%inputs) {attributes}  # scope``.
    """
    names: dict[Value, str] = {}

    def name(value: Value) -> str:
        return names.get(value) or repr(value)  # a broken graph is printed too

    lines = []
    for node in graph.nodes:
        for value in node.outputs:
            names[value] = f"%{len(names)}"
        left = ", ".join(f"{names[v]}: {v.spec}" for v in node.outputs)
        if node.op is INPUT:
            right = f"{node.attrs['kind']} {node.attrs['name']!r}"
        elif node.op is CONSTANT:
            right = f"constant {_attr(node.attrs['array'])}"
        else:
            args = ", ".join(name(v) for v in node.inputs)
            attrs = ", ".join(f"{k}={_attr(v)}" for k, v in node.attrs.items())
            right = f"{node.op.name}({args})" + (f" {{{attrs}}}" if attrs else "")
        lines.append(f"{left} = {right}" + (f"  # {node.scope}" if node.scope else ""))
    lines.append(f"return {', '.join(name(v) for v in graph.outputs)}")
    for variable, new in graph.updates:
        target = names.get(variable) or variable.node.attrs.get("name") or repr(variable)
        lines.append(f"update {target} <- {name(new)}")
    return "\n".join(lines)
