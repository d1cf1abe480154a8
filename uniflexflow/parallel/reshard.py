"""The operations that communicate; everything else computes on what its rank has.

``reshard`` changes the layout of one tensor along one mesh axis: the identity on its
logical value. Partial to Replicate is an all-reduce, Split to Replicate an all-gather;
Replicate to Split needs no communication and is a slice. ``allreduce_start`` and
``allreduce_wait`` are several all-reduces as one, in two halves with room for work
between them.

They appear in a rank's local graph only, after differentiation, so they have no
gradient, and they are not in the table of operations. They need all ranks, so their
meaning is in ``runtime.lockstep`` (all ranks in one process) and ``runtime.collectives``
(over MPI).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from uniflexflow.ir import Indices, Node, OpDef, TensorSpec, Value, apply
from uniflexflow.parallel.layout import PARTIAL, REPLICATE, Layout, Split, local_shape
from uniflexflow.parallel.mesh import MeshAxis


def _needs_all_ranks(*_: Any, **attrs: Any) -> Any:
    raise RuntimeError(
        "A graph that communicates can't be run by one interpreter: "
        "use runtime.lockstep for all ranks in one process."
    )


def _reshard_infer(
    x: TensorSpec,
    *,
    source: Layout,
    target: Layout,
    shape: tuple[int, ...],
    axis: MeshAxis,
    number: int = 0,
) -> TensorSpec:
    if target != REPLICATE or not (source == PARTIAL or isinstance(source, Split)):
        raise ValueError(
            f"reshard: {source} to {target} is not a communication that is known; expected "
            "Partial or Split to Replicate."
        )
    share = local_shape(shape, source, axis.rank, axis.size)
    if x.shape != share:
        raise ValueError(
            f"reshard: rank {axis.rank} of {axis.size} on axis {axis.name!r} has a tensor of "
            f"shape {x.shape}; expected {share}, its share of {shape} as {source}."
        )
    return TensorSpec(shape, x.dtype)


def _reshard_indices(node: Node) -> Indices:
    source = node.attrs["source"]
    at = source.axis if isinstance(source, Split) else -1
    labels = tuple(None if i == at else i for i in range(node.inputs[0].ndim))
    return Indices((labels,), (labels,))


def _reshard_localise(
    attrs: Mapping[str, Any],
    local_inputs: Sequence[TensorSpec],
    local_outputs: Sequence[TensorSpec],
    starts: Sequence[tuple[int, ...]],
) -> dict[str, Any]:
    return {**attrs, "shape": local_outputs[0].shape}


# y = the logical value of x: sum of the ranks' x (Partial), or their pieces joined (Split)
RESHARD = OpDef(
    "reshard",
    infer=_reshard_infer,
    reference=_needs_all_ranks,
    gradient=None,
    indices=_reshard_indices,
    localise=_reshard_localise,
    linear="all",
)


def reshard(
    value: Value, source: Layout, shape: tuple[int, ...], axis: MeshAxis, number: int = 0
) -> Value:
    """Make a tensor whole on every rank; ``shape`` is that of the whole.

    ``number`` tells the messages of a mesh axis apart; it is the same on all ranks.
    """
    attrs = {"source": source, "target": REPLICATE, "shape": shape, "axis": axis}
    return apply(RESHARD, value, **attrs, number=number)


def _token(
    *xs: TensorSpec,
    axis: MeshAxis,
    numbers: tuple[int, ...] = (),
    updates: tuple[bool, ...] = (),
) -> TensorSpec:
    if len({x.dtype for x in xs}) != 1:
        raise TypeError(f"allreduce_start: expected one dtype; received {[x.dtype for x in xs]}.")
    return TensorSpec((0,), "uint8")


# From start to wait the tensors belong to the exchange, which may sum them in place; the
# empty token orders the two. y[i] = sum of the ranks' x[i]. `updates` says of each tensor
# whether updates of variables alone need it, as gradients are: it may be sent rounded.
ALLREDUCE_START = OpDef("allreduce_start", infer=_token, reference=_needs_all_ranks, gradient=None)
ALLREDUCE_WAIT = OpDef(
    "allreduce_wait",
    infer=lambda token, *xs, axis, numbers=(), updates=(): xs if len(xs) > 1 else xs[0],
    reference=_needs_all_ranks,
    gradient=None,
)

COLLECTIVES = (RESHARD, ALLREDUCE_START, ALLREDUCE_WAIT)
