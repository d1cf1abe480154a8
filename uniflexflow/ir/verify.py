"""The law of a graph, checked between passes when UNIFLEXFLOW_VERIFY=1 and in tests."""

from __future__ import annotations

from uniflexflow.ir.graph import Graph
from uniflexflow.ir.text import to_text
from uniflexflow.ir.value import CONSTANT, INPUT, TensorSpec


class GraphError(ValueError):
    """A graph breaks the law; the message shows the node."""


def _require(condition: bool, message: str, graph: Graph) -> None:
    if not condition:
        raise GraphError(f"{message}\n\n{to_text(graph)}")


def verify(graph: Graph) -> Graph:
    """Check a graph and return it.

    Every node's inputs come before it; every output's spec is what the operation
    infers; each needed leaf is an input of the graph; an update keeps its variable's
    shape and dtype, and no variable is updated twice.

    Raises
    ------
    GraphError
        Names the node or the variable, with the graph's text.
    """
    inputs = set(graph.inputs)
    made = set()
    for node in graph.nodes:
        for value in node.inputs:
            _require(value in made, f"{node!r} uses {value!r} before it is made.", graph)
        if node.op is INPUT:
            _require(
                node.outputs[0] in inputs,
                f"Leaf {node.attrs['name']!r} is used but is not an input of the graph.",
                graph,
            )
        specs = node.op.infer(*[v.spec for v in node.inputs], **node.attrs)
        specs = (specs,) if isinstance(specs, TensorSpec) else tuple(specs)
        got = tuple([v.spec for v in node.outputs])
        _require(specs == got, f"{node!r}: outputs are {got}, the operation infers {specs}.", graph)
        made.update(node.outputs)
    seen = set()
    for variable, new in graph.updates:
        name = variable.node.attrs.get("name")
        _require(
            variable.node.op is INPUT and variable.node.attrs["kind"] == "variable",
            f"{variable!r} is updated but is not a variable.",
            graph,
        )
        _require(variable not in seen, f"Variable {name!r} is updated twice.", graph)
        _require(
            variable.spec == new.spec,
            f"Variable {name!r} is {variable.spec}, its update is {new.spec}.",
            graph,
        )
        seen.add(variable)
    for value in graph.inputs:
        _require(value.node.op is INPUT, f"Graph input {value!r} is not a leaf.", graph)
    for value in graph.outputs:
        known = value.node.op in (INPUT, CONSTANT) or value in made
        _require(known, f"{value!r} is not made.", graph)
    return graph
