"""From the global graph to this rank's graph and its communication: the only entrance.

``distribute`` is what the compiler calls for a step whose feeds are split over ranks. It
makes sure that all ranks have traced the same thing before any of them can wait for a
message that never comes, and that they cut sums alike.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from uniflexflow import random
from uniflexflow._core import winograd_plan
from uniflexflow._core.dispatch import selected
from uniflexflow.ir import CONSTANT, Graph, Node, to_text
from uniflexflow.machine import blocks, host
from uniflexflow.machine.stored import key_of
from uniflexflow.parallel.layout import REPLICATE, Layout, Split
from uniflexflow.parallel.mesh import Mesh
from uniflexflow.parallel.reshard import COLLECTIVES
from uniflexflow.parallel.strategy import DataParallel, Strategy
from uniflexflow.passes.bucket import bucket
from uniflexflow.passes.shard import shard
from uniflexflow.runtime.collectives import Channels, Exchange, gather
from uniflexflow.runtime.comm import SerialCommunicator, world


@dataclass(frozen=True, eq=False)
class Distributed:
    """One rank's part of a step.

    Attributes
    ----------
    graph : Graph
        With this rank's shapes. ``schedule`` has yet to be applied.
    output_layouts : tuple of Layout
        Split along axis 0 (this rank's rows) or Replicate, per output of the graph.
    output_shapes : tuple of tuple of int
        The outputs' global shapes.
    exchange : Exchange
        Runs the graph's communication.
    batch_axis : str
    """

    graph: Graph
    output_layouts: tuple[Layout, ...]
    output_shapes: tuple[tuple[int, ...], ...]
    exchange: Exchange
    batch_axis: str

    def gather(self, index: int, array: np.ndarray) -> np.ndarray:
        """Return output ``index`` whole, on every rank; ``array`` is this rank's part."""
        layout = self.output_layouts[index]
        if not isinstance(layout, Split):
            return array
        comm = self.exchange.channels.axes[self.batch_axis]
        return gather(array, layout, self.output_shapes[index], comm, "output")


def distribute(
    graph: Graph,
    split: Sequence[bool],
    strategy: Strategy | None = None,
    comm: SerialCommunicator | None = None,
) -> Distributed:
    """Make this rank's graph; all ranks must call it, in the same order.

    Parameters
    ----------
    graph : Graph
        As traced, with global shapes.
    split : sequence of bool
        Per feed of the graph: whether each rank gives only its rows
        (``strategy.batch_rows``); else every rank gives the same whole array.
    strategy : Strategy, optional
        Default: data parallel.
    comm : SerialCommunicator, optional
        Default: all processes.

    Raises
    ------
    ValueError
        On every rank, if the ranks' graphs differ: names the layer and both shapes.
    """
    comm = comm or world()
    strategy = strategy or DataParallel()
    mesh = strategy.mesh_for(comm.size)
    require_same(graph, strategy, comm)
    agree_on_blocks(comm)
    local, layouts = local_graph(graph, split, strategy, mesh, comm.rank)
    return Distributed(
        graph=local,
        output_layouts=layouts,
        output_shapes=tuple([v.shape for v in graph.outputs]),
        exchange=Exchange(_channels(mesh, comm), rounded=strategy.gradient_dtype == "bfloat16"),
        batch_axis=strategy.batch_axis,
    )


def join_messages(graph: Graph) -> Graph:
    """Put all-reduces into buckets; the last pass over a local graph, behind fusion."""
    return bucket(graph)


def schedule(fused: Graph, plain: Graph, comm: SerialCommunicator | None = None) -> Graph:
    """Join a local graph's messages; all ranks send the same ones in the same order.

    Fusion goes by local shapes, and ranks may have different numbers of rows, even none.
    Where that leads to another order of messages on some rank, every rank takes ``plain``,
    the graph before fusion, whose order is that of the global graph.
    """
    comm = comm or world()
    graph = join_messages(fused)
    lines = "\n".join([_message(node) for node in graph.nodes if node.op in COLLECTIVES])
    digest = hashlib.blake2b(lines.encode(), digest_size=8).digest()
    mine = np.frombuffer(digest, np.int64)
    every = comm.allgather(mine, what="check that the messages are the same")
    return graph if (every == every[0]).all() else join_messages(plain)


def _message(node: Node) -> str:
    """Return what must be equal on all ranks of a communication."""
    numbers = node.attrs.get("numbers", node.attrs.get("number"))
    return f"{node.op.name} {numbers} on {node.attrs['axis'].name}"


def local_graph(
    graph: Graph, split: Sequence[bool], strategy: Strategy, mesh: Mesh, rank: int
) -> tuple[Graph, tuple[Layout, ...]]:
    """Return the graph of one rank of a mesh, and its outputs' layouts on the batch axis."""
    feeds = [v for v in graph.inputs if v.node.attrs["kind"] == "feed"]
    if len(feeds) != len(split):
        raise ValueError(
            f"distribute: `split` has {len(split)} entries; the graph has {len(feeds)} feeds."
        )
    layouts: tuple[Layout, ...] = (REPLICATE,) * len(graph.outputs)
    # The batch comes last: it may be dealt out unevenly, and what is decided along the
    # other axes must not depend on how many rows a rank has.
    names = [*[n for n, _ in mesh.axes if n != strategy.batch_axis], strategy.batch_axis]
    for name in names:
        axis = mesh.axis(name, rank)
        is_batch = name == strategy.batch_axis
        if axis.size == 1:
            continue
        graph, found = shard(
            graph,
            axis,
            [v for v, s in zip(feeds, split) if s] if is_batch else (),
            lambda node, name=name: strategy.choose(name, node),
            keep_outputs_split=is_batch,
            uneven=is_batch,
        )
        layouts = found if is_batch else layouts
    return graph, layouts


_made: dict[tuple[int, Mesh], Channels] = {}


def _channels(mesh: Mesh, comm: SerialCommunicator) -> Channels:
    key = id(comm), mesh
    if key not in _made:
        lines = {}
        for name, _ in mesh.axes:
            line = mesh.neighbours(name, comm.rank)
            lines[name] = line[0], line.index(comm.rank)
        _made[key] = Channels(comm, lines)
    return _made[key]


# -- all ranks alike ---------------------------------------------------------------


def require_same(graph: Graph, strategy: Strategy, comm: SerialCommunicator) -> None:
    """Check that all ranks have the same graph, strategy and algorithms.

    Raises
    ------
    ValueError
        On every rank, naming the first difference.
    """
    if comm.size == 1:
        return
    lines = [
        *_variables(graph),
        *to_text(graph).split("\n"),
        *_constants(graph),  # whose numbers the text leaves out if they are many
        *strategy.to_json().split("\n"),
        f"convolution algorithm {winograd_plan.algorithm()!r}",
    ]
    digest = hashlib.blake2b("\n".join(lines).encode(), digest_size=8).digest()
    mine = np.frombuffer(digest, np.int64)
    if (comm.allgather(mine, what="check that the models are the same") == mine).all():
        same = 1
    else:
        same = 0
    if comm.allreduce(np.array(same), "min").item():
        return
    every = comm.gather_objects(lines)
    for rank, others in enumerate(every):
        if others != every[0]:
            raise ValueError(_difference(every[0], others, rank))


def require_equal(what: str, mine: str, comm: SerialCommunicator | None = None) -> None:
    """Check that all ranks have the same text; where they don't, some would wait for ever.

    Raises
    ------
    ValueError
        On every rank, with the first two texts that differ.
    """
    comm = comm or world()
    if comm.size == 1:
        return
    digest = hashlib.blake2b(mine.encode(), digest_size=8).digest()
    every = comm.allgather(np.frombuffer(digest, np.int64), what=f"check of {what}")
    if (every == every[0]).all():
        return
    texts = comm.gather_objects(mine)
    rank = next(r for r, text in enumerate(texts) if text != texts[0])
    raise ValueError(
        f"{what} differs between ranks: rank 0 has {texts[0]}; rank {rank} has {texts[rank]}. "
        "Every rank must be given the same: all the data, of which it takes its rows itself."
    )


_agreed_on: list[SerialCommunicator] = []  # communicators whose ranks have the same sizes


def agree_on_blocks(comm: SerialCommunicator) -> None:
    """Take rank 0's measured block sizes if its machine is of the same kind.

    They decide in which order sums are added up. Asked once per communicator. Ranks on
    another kind of machine keep their own sizes, as their caches and vectors are others
    too; rank 0 says so.
    """
    if comm.size == 1 or any(comm is known for known in _agreed_on):
        return
    kernels = selected()
    mine = key_of(host(), kernels)
    kind, sizes = comm.bcast((mine, blocks.measured(host(), kernels)))
    if kind == mine:
        blocks.adopt(kernels, sizes)
    others = comm.allreduce(np.array(int(kind != mine)), what="comparison of machines").item()
    if others and comm.rank == 0:
        warnings.warn(
            f"distribute: {others} of {comm.size} ranks run on another kind of machine than "
            "rank 0, with block sizes of their own: their sums are added in another order.",
            stacklevel=2,
        )
    _agreed_on.append(comm)


def _variables(graph: Graph) -> list[str]:
    return [
        f"variable {v.node.attrs['name']!r}: {v.dtype}, shape {v.shape}"
        for v in graph.inputs
        if v.node.attrs["kind"] == "variable"
    ]


def _constants(graph: Graph) -> list[str]:
    constants = [node for node in graph.nodes if node.op is CONSTANT]
    return [
        f"constant {i} in layer {node.scope!r}: {node.outputs[0].spec} with the checksum "
        f"{hashlib.blake2b(node.attrs['array'].tobytes(), digest_size=8).hexdigest()}"
        for i, node in enumerate(constants)
    ]


def _difference(first: list[str], other: list[str], rank: int) -> str:
    ends = "(nothing)"
    pairs = [
        (first[i] if i < len(first) else ends, other[i] if i < len(other) else ends)
        for i in range(max(len(first), len(other)))
    ]
    a, b = next((x, y) for x, y in pairs if x != y)
    layer = ""
    if a.startswith("variable ") and "/" in a:
        layer = f" in layer {a.split(chr(39))[1].rpartition('/')[0]!r}"
    return (
        f"distribute: the model differs between ranks{layer}: rank 0 has {a}; rank {rank} has "
        f"{b}. Every rank must build the same model and feed the same global shapes; let nothing "
        "that shapes the model depend on the rank."
    )


def synchronize(variables: Iterable[Any], comm: SerialCommunicator | None = None) -> None:
    """Give every rank the numbers that rank 0 has in these variables.

    Cheap where the ranks agree already: then only checksums travel.

    Parameters
    ----------
    variables : iterable of Variable
        The same on every rank, in the same order.
    """
    comm = comm or world()
    if comm.size == 1:
        return
    arrays = [v.array for v in variables]
    digests = np.zeros((1, len(arrays)), np.int64)
    for i, array in enumerate(arrays):
        # numbers are compared as bytes: equal NaNs are equal
        digests[0, i] = np.frombuffer(
            hashlib.blake2b(array.reshape(-1).view(np.uint8), digest_size=8).digest(), np.int64
        )[0]
    every = comm.allgather(digests, what="check that the weights are the same")
    for i, array in enumerate(arrays):
        if (every[:, i] != every[0, i]).any():
            comm.bcast(array)


def _agree_on_seed(seed: int) -> int:
    return world().bcast(seed)


random.agree_on_seed.append(_agree_on_seed)  # ranks that nobody seeded draw alike
