"""Train a step on p ranks in one process, by the references alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from uniflexflow.compiler import Traced
from uniflexflow.ir import TensorSpec, verify
from uniflexflow.ops.variable import Variable
from uniflexflow.parallel import DataParallel, Split, Strategy
from uniflexflow.parallel.distribute import join_messages, local_graph
from uniflexflow.runtime import lockstep

Model = tuple[list[Variable], Callable[..., Any]]


def train(
    make: Callable[[], Model],
    batches: Sequence[Sequence[np.ndarray]],
    size: int,
    strategy: Strategy | None = None,
) -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
    """Run one step per batch on ``size`` ranks.

    Ranks must agree bitwise in everything that is not split.

    Returns
    -------
    variables, outputs : list of ndarray, list of list of ndarray
        The model's variables (if it names none, all that a step reads) after the last step;
        each step's outputs, joined over the ranks.
    """
    variables, fn = make()
    strategy = strategy or DataParallel()
    mesh = strategy.mesh_for(size)
    state: dict[Variable, list[np.ndarray]] = {}
    results = []
    for batch in batches:
        specs = [TensorSpec(x.shape, x.dtype.name) for x in batch]
        traced = Traced(fn, tuple(specs), "step")
        for v in traced.variables:
            state.setdefault(v, [v.numpy() for _ in range(size)])
        graphs = []
        for rank in range(size):
            graph, layouts = local_graph(traced.graph, traced.split, strategy, mesh, rank)
            graphs.append(verify(join_messages(verify(graph))))
        arrays = []
        for rank in range(size):
            rows = [x[slice(*strategy.batch_rows(len(x), rank, size))] for x in batch]
            arrays.append([*rows, *[state[v][rank] for v in traced.variables]])
        outputs, updates = lockstep.run(graphs, arrays, mesh)
        for k, variable in enumerate(traced.updated):
            state[variable] = [new[k] for new in updates]
            require_equal_bytes(state[variable], variable.path)
        results.append(
            [
                join([out[k] for out in outputs], layout, strategy, mesh)
                for k, layout in enumerate(layouts)
            ]
        )
    return [state[v][0] for v in variables or state], results


def join(pieces: list[np.ndarray], layout: Any, strategy: Strategy, mesh: Any) -> np.ndarray:
    """Return an output whole."""
    if not isinstance(layout, Split):
        require_equal_bytes(pieces, "an output")
        return pieces[0]
    line = mesh.neighbours(strategy.batch_axis, 0)
    return np.concatenate([pieces[rank] for rank in line])


def require_equal_bytes(arrays: Sequence[np.ndarray], what: str) -> None:
    """Ranks must not drift apart, not even in the last bit."""
    for rank, array in enumerate(arrays):
        assert array.tobytes() == arrays[0].tobytes(), f"rank {rank} differs from rank 0 in {what}"


def error(got: Any, expected: Any) -> float:
    """Return the largest difference, relative to the largest number, over all arrays."""
    worst = 0.0
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape)
        assert np.isfinite(np.asarray(b, "float64")).all()
        scale = max(np.abs(b).max(initial=0.0), 1e-3)
        worst = max(worst, float(np.abs(a.astype("float64") - b).max(initial=0.0) / scale))
    return worst
