"""All ranks in one process, step by step on the NumPy references: the oracle.

The ranks' local graphs have the same nodes in the same order, so they run side by side;
at a communication the ranks' arrays are combined.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uniflexflow.ir import CONSTANT, INPUT, Graph, Node, Value
from uniflexflow.parallel.layout import Split
from uniflexflow.parallel.mesh import Mesh
from uniflexflow.parallel.reshard import ALLREDUCE_START, COLLECTIVES, RESHARD
from uniflexflow.runtime import reference

Arrays = list[np.ndarray]


def run(
    graphs: Sequence[Graph], arrays: Sequence[Sequence[np.ndarray]], mesh: Mesh
) -> tuple[list[Arrays], list[Arrays]]:
    """Run one graph per rank.

    Parameters
    ----------
    graphs : sequence of Graph
        The ranks' local graphs, in the order of the ranks.
    arrays : sequence of sequence of ndarray
        Per rank, one array per input of its graph.
    mesh : Mesh

    Returns
    -------
    outputs, updates : lists of lists of ndarray
        Per rank, as ``runtime.reference.run``.

    Raises
    ------
    ValueError
        If the ranks' graphs differ in their operations.
    """
    envs: list[dict[Value, np.ndarray]] = [
        dict(zip(graph.inputs, given, strict=True)) for graph, given in zip(graphs, arrays)
    ]
    lengths = {len(graph.compute_nodes) for graph in graphs}
    if len(lengths) > 1:
        raise ValueError(
            f"lockstep: the ranks have {sorted(lengths)} nodes; expected as many each."
        )
    for graph, env in zip(graphs, envs):
        for node in graph.nodes:
            if node.op is CONSTANT:
                env[node.outputs[0]] = node.attrs["array"]
    for nodes in zip(*[graph.compute_nodes for graph in graphs]):
        _run_nodes(nodes, envs, mesh)
    outputs = [[env[v] for v in graph.outputs] for graph, env in zip(graphs, envs)]
    updates = [[env[new] for _, new in graph.updates] for graph, env in zip(graphs, envs)]
    return outputs, updates


def _run_nodes(nodes: Sequence[Node], envs: Sequence[dict[Value, np.ndarray]], mesh: Mesh) -> None:
    names = {node.op.name for node in nodes}
    if len(names) > 1 or any(node.op is INPUT for node in nodes):
        raise ValueError(f"lockstep: at one place the ranks have {sorted(names)}.")
    given = [[env[v] for v in node.inputs] for node, env in zip(nodes, envs)]
    for rank, (node, env) in enumerate(zip(nodes, envs)):
        if node.op in COLLECTIVES:
            line = mesh.neighbours(node.attrs["axis"].name, rank)
            made = _communicate(node, [given[r] for r in line])
        else:
            made = reference.run_node(node, given[rank])
        env.update(zip(node.outputs, made))


def _communicate(node: Node, given: Sequence[Arrays]) -> Arrays:
    """Return what a collective gives each rank; ``given`` has every rank's arrays."""
    if node.op is RESHARD:
        pieces = [arrays[0] for arrays in given]
        source = node.attrs["source"]
        if isinstance(source, Split):
            return [np.concatenate(pieces, axis=source.axis)]
        return [_sum(pieces)]
    if node.op is ALLREDUCE_START:
        return [np.empty(0, np.uint8)]  # the token
    return [_sum(pieces) for pieces in zip(*[arrays[1:] for arrays in given])]


def _sum(pieces: Sequence[np.ndarray]) -> np.ndarray:
    total = pieces[0].copy()
    for piece in pieces[1:]:
        total += piece
    return total
