"""The reference interpreter: a graph run with the NumPy references alone.

Slow and obvious: it defines what every pass, plan and kernel must give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from uniflexflow.ir import CONSTANT, INPUT, Graph, Node, Value
from uniflexflow.parallel.reshard import COLLECTIVES


def run_node(node: Node, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Run one node; check that its reference keeps the word of its ``infer``."""
    with np.errstate(all="ignore"):  # the operations' special values are NumPy's
        out = node.op.reference(*arrays, **node.attrs)
    outs = out if isinstance(out, tuple) else (out,)
    results = []
    for value, array in zip(node.outputs, outs, strict=True):
        array = np.asarray(array)
        if array.shape != value.shape or array.dtype.name != value.dtype:
            raise TypeError(
                f"reference of {node.op.name!r} gave {array.dtype}{list(array.shape)}, "
                f"its infer says {value.spec}"
            )
        results.append(array)
    return tuple(results)


def run(
    graph: Graph,
    arrays: Sequence[np.ndarray],
    collective: Callable[[Node, list[np.ndarray], list[np.ndarray]], None] | None = None,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Run ``graph`` on one array per graph input.

    ``collective(node, inputs, outputs)`` fills the outputs of a node that communicates.

    Returns
    -------
    outputs, updates : lists of ndarray
        One array per graph output; one per entry of ``graph.updates``.
    """
    env: dict[Value, np.ndarray] = dict(zip(graph.inputs, arrays, strict=True))
    for node in graph.nodes:
        if node.op is CONSTANT:
            env[node.outputs[0]] = node.attrs["array"]
        elif node.op is not INPUT:
            given = [env[v] for v in node.inputs]
            if collective is not None and node.op in COLLECTIVES:
                made = [np.empty(v.shape, v.dtype) for v in node.outputs]
                # a reference may give a view, and what is summed in place needs its own
                collective(node, [np.array(x) for x in given], made)
            else:
                made = run_node(node, given)
            env.update(zip(node.outputs, made))
    return [env[v] for v in graph.outputs], [env[new] for _, new in graph.updates]
