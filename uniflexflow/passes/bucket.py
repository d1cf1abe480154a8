"""All-reduces of one moment become one: buckets, with room for work while they travel.

The pass schedules the graph anew. Every node that can run does run before anything that
waits for a communication; meanwhile all-reduces that are ready collect in buckets, one
per dtype and mesh axis. When nothing else can run, the bucket that most of the remaining
work waits for is completed. So the gradients of a backward pass, which only the optimizer
needs, travel in few large messages while the backward pass goes on, in the order in which
they are made (the reverse of the layers'), and all the metrics' sums travel together at
the end. As each bucket starts after all that it needs and before all that needs it, no
two buckets wait for each other.

Decisions depend on global shapes only: every rank forms the same buckets in one order.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from uniflexflow.ir import CONSTANT, INPUT, Graph, Node, Value, apply, scope
from uniflexflow.ops.registry import OPS
from uniflexflow.parallel.layout import PARTIAL
from uniflexflow.parallel.mesh import MeshAxis
from uniflexflow.parallel.reshard import ALLREDUCE_START, ALLREDUCE_WAIT, RESHARD
from uniflexflow.passes.materialize import VIEWS

#: Bytes in one bucket; a larger tensor is a bucket of its own.
CAPACITY = 16 << 20
_FIRST = 16
#: Reshards that are this close in what still waits for them are completed together.
_SAME_URGENCY = 16


@dataclass
class _Bucket:
    """All-reduces that will be one message."""

    axis: MeshAxis
    shown: frozenset[int] = frozenset()  # nodes that outputs of the graph need
    members: list[Node] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    token: Value | None = None

    @property
    def nbytes(self) -> int:
        return sum(node.inputs[0].spec.nbytes for node in self.members)

    @property
    def attrs(self) -> dict[str, Any]:
        numbers = tuple([node.attrs.get("number", 0) for node in self.members])
        updates = tuple([node.id not in self.shown for node in self.members])
        return {"axis": self.axis, "numbers": numbers, "updates": updates}


def bucket(graph: Graph, capacity: int = CAPACITY) -> Graph:
    """Join the all-reduces of a local graph.

    Parameters
    ----------
    graph : Graph
        As ``passes.shard`` makes it.
    capacity : int
        Bytes in one bucket.

    Returns
    -------
    Graph
        With ``allreduce_start`` and ``allreduce_wait`` in place of each ``reshard`` from
        Partial; the graph itself if it has none.
    """
    if not any(_is_allreduce(node) for node in graph.nodes):
        return graph
    return _Scheduler(graph, capacity).run()


def _is_allreduce(node: Node) -> bool:
    return node.op is RESHARD and node.attrs["source"] == PARTIAL


def _heights(graph: Graph) -> dict[int, int]:
    """Return for each node how many nodes follow it on the longest way to an end."""
    height: dict[int, int] = defaultdict(int)
    for node in reversed(graph.nodes):
        for value in node.inputs:
            height[value.node.id] = max(height[value.node.id], height[node.id] + 1)
    return height


def _shown(graph: Graph) -> frozenset[int]:
    """Return the nodes that the graph's outputs need; others serve updates alone."""
    found = {value.node.id for value in graph.outputs}
    for node in reversed(graph.nodes):
        if node.id in found:
            found.update(value.node.id for value in node.inputs)
    return frozenset(found)


class _Scheduler:
    def __init__(self, graph: Graph, capacity: int):
        self.graph = graph
        self.capacity = capacity
        # the first large bucket is small, so that something travels early
        self.limit = max(capacity // _FIRST, 1)
        self.height = _heights(graph)
        self.shown = _shown(graph)
        self.env: dict[Value, Value] = {}
        self.uses: Counter[Value] = Counter(
            [*graph.roots, *[v for node in graph.nodes for v in node.inputs]]
        )
        self.position = {node.id: i for i, node in enumerate(graph.nodes)}
        self.users: dict[int, list[Node]] = defaultdict(list)
        self.missing: dict[int, int] = {}
        self.ready: list[tuple[int, Node]] = []
        self.filling: dict[tuple[MeshAxis, str], _Bucket] = {}
        self.travelling: list[_Bucket] = []

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if node.op is INPUT or node.op is CONSTANT:
                self.env.update(zip(node.outputs, node.outputs))
                continue
            makers = {v.node.id for v in node.inputs if not v.is_leaf}
            self.missing[node.id] = len(makers)
            for maker in makers:
                self.users[maker].append(node)
            if not makers:
                self._push(node)
        while self.ready or self.filling or self.travelling:
            if self.ready:
                self._step(heapq.heappop(self.ready)[1])
            else:
                self._complete_most_urgent()
        return Graph(
            inputs=self.graph.inputs,
            outputs=tuple([self.env[v] for v in self.graph.outputs]),
            updates=tuple([(leaf, self.env[new]) for leaf, new in self.graph.updates]),
        )

    def _push(self, node: Node) -> None:
        heapq.heappush(self.ready, (self.position[node.id], node))

    def _done(self, node: Node) -> None:
        for user in self.users[node.id]:
            self.missing[user.id] -= 1
            if not self.missing[user.id]:
                self._push(user)

    def _step(self, node: Node) -> None:
        if _is_allreduce(node):
            self._collect(node)
            return
        # made anew even if its inputs are the same: the order of creation is the schedule
        new = Node(node.op, tuple([self.env[v] for v in node.inputs]), node.attrs)
        new.scope = node.scope
        self.env.update(zip(node.outputs, new.outputs))
        self._done(node)

    def _collect(self, node: Node) -> None:
        key = node.attrs["axis"], node.inputs[0].dtype
        bucket = self.filling.get(key)
        if bucket and bucket.nbytes + node.inputs[0].spec.nbytes > self.capacity:
            self._start(bucket)
            bucket = None
        if bucket is None:
            bucket = self.filling[key] = _Bucket(node.attrs["axis"], self.shown)
        bucket.members.append(node)
        if bucket.nbytes >= self.limit:
            self._start(bucket)

    def _start(self, bucket: _Bucket) -> None:
        self.filling = {k: b for k, b in self.filling.items() if b is not bucket}
        if bucket.nbytes >= self.limit:
            self.limit = self.capacity
        with scope(bucket.members[-1].scope):
            bucket.inputs = [self._own(node.inputs[0]) for node in bucket.members]
            bucket.token = apply(ALLREDUCE_START, *bucket.inputs, **bucket.attrs)
        self.travelling.append(bucket)

    def _own(self, value: Value) -> Value:
        """Return a tensor that may be summed in place: a copy if its bytes have other users."""
        part = value
        while self.uses[part] == 1 and part.node.op.name in VIEWS:
            part = part.node.inputs[0]
        new = self.env[value]
        if self.uses[part] > 1 or part.is_leaf:
            new = apply(OPS["stop_gradient"], new)
        return new

    def _wait(self, bucket: _Bucket) -> None:
        self.travelling.remove(bucket)
        with scope(bucket.members[-1].scope):
            made = apply(ALLREDUCE_WAIT, bucket.token, *bucket.inputs, **bucket.attrs)
        for node, value in zip(bucket.members, made if isinstance(made, tuple) else (made,)):
            self.env[node.outputs[0]] = value
            self._done(node)

    def _complete_most_urgent(self) -> None:
        """Nothing can run: wait for what the longest remaining work waits for.

        What can wait longer stays in its bucket and goes with a later one.
        """
        most = max(self._urgency(b) for b in (*self.travelling, *self.filling.values()))
        for key, bucket in list(self.filling.items()):
            urgent = [n for n in bucket.members if self.height[n.id] >= most - _SAME_URGENCY]
            if urgent:
                later = [n for n in bucket.members if self.height[n.id] < most - _SAME_URGENCY]
                bucket.members = urgent
                self._start(bucket)
                if later:
                    self.filling[key] = _Bucket(bucket.axis, self.shown, later)
        self._wait(max(self.travelling, key=self._urgency))  # the earliest of the most urgent

    def _urgency(self, bucket: _Bucket) -> int:
        return max(self.height[node.id] for node in bucket.members)
