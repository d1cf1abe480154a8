"""The graph and its parts; knows no operation by name.

``value`` has the vocabulary (specs, operations, nodes, values), ``graph`` the
frozen whole, ``verify`` its law, ``rewrite`` the one way to change it, ``text`` its
printed form.
"""

from uniflexflow.ir.graph import Graph, reachable, use_counts
from uniflexflow.ir.rewrite import rewrite
from uniflexflow.ir.text import to_text
from uniflexflow.ir.value import (
    CONSTANT,
    INPUT,
    Indices,
    Node,
    OpDef,
    Region,
    Shape,
    TensorSpec,
    Value,
    apply,
    constant,
    current_scope,
    leaf,
    region,
    scope,
)
from uniflexflow.ir.verify import verify

__all__ = [
    "CONSTANT",
    "INPUT",
    "Graph",
    "Indices",
    "Node",
    "OpDef",
    "Region",
    "Shape",
    "TensorSpec",
    "Value",
    "apply",
    "constant",
    "current_scope",
    "leaf",
    "reachable",
    "region",
    "rewrite",
    "scope",
    "to_text",
    "use_counts",
    "verify",
]
