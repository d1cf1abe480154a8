"""Global graph to the local graph of one rank, along one mesh axis.

Layouts are found node by node. Each operation names its loop indices; where an input is
split, the index that runs along the split dimension is the one that the operation is
split by, and the layouts of its other operands follow: an operand that has the index is
split there, one that lacks it is whole, and an output that lacks it is a partial sum.
Where an operand lies otherwise, a reshard comes in between. No operation is known by
name here, and every decision depends on global shapes only, so that all ranks decide
alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

from uniflexflow.ir import (
    CONSTANT,
    INPUT,
    Graph,
    Indices,
    Node,
    TensorSpec,
    Value,
    apply,
    constant,
    leaf,
)
from uniflexflow.ops.dtypes import is_float
from uniflexflow.ops.registry import OPS
from uniflexflow.parallel.layout import PARTIAL, REPLICATE, Layout, Split, local_shape
from uniflexflow.parallel.mesh import MeshAxis
from uniflexflow.parallel.reshard import reshard

#: What a strategy says about a node: split it by the index that its inputs are split by.
FOLLOW = "follow"
#: How far a split is pushed back into replicated operands before they are sliced.
_MAX_DEPTH = 100
#: Bytes that cost a message no more than one byte does.
_SMALL = 256

Choice = Callable[[Node], Any]
_Plan = tuple[list[Layout], list[Layout]]


def shard(
    graph: Graph,
    axis: MeshAxis,
    split_feeds: Collection[Value] = (),
    choose: Choice = lambda node: FOLLOW,
    keep_outputs_split: bool = True,
    uneven: bool = True,
) -> tuple[Graph, tuple[Layout, ...]]:
    """Make one rank's graph.

    Parameters
    ----------
    graph : Graph
        With global shapes along this axis.
    axis : MeshAxis
        The axis, with the rank's place on it.
    split_feeds : collection of Value
        Feeds that are split along their first dimension; all others are replicated.
    choose : callable
        ``choose(node)`` gives ``FOLLOW``, None (compute it whole on every rank), or the
        label of the loop index to split it by.
    keep_outputs_split : bool
        Whether an output may stay split; else it is gathered.
    uneven : bool
        Whether a chosen index may be dealt out in pieces that differ in length.

    Returns
    -------
    Graph, tuple of Layout
        The local graph, and how each of its outputs is laid out: Split or Replicate.
    """
    return _Sharder(graph, axis, split_feeds, choose, uneven).run(keep_outputs_split)


class _Sharder:
    def __init__(
        self,
        graph: Graph,
        axis: MeshAxis,
        split_feeds: Collection[Value],
        choose: Choice,
        uneven: bool,
    ):
        self.graph = graph
        self.axis = axis
        self.split_feeds = set(split_feeds)
        self.choose = choose
        self.uneven = uneven
        self.layout: dict[Value, Layout] = {}  # global value -> how it is made
        self.local: dict[tuple[Value, Layout], Value] = {}  # its local versions
        self.messages = 0
        self.batch = next(
            (n for v in graph.inputs if v in self.split_feeds for n in v.shape[:1]), 0
        )
        self.users: dict[Value, list[Node | None]] = defaultdict(list)
        for node in graph.nodes:
            for value in dict.fromkeys(node.inputs):
                self.users[value].append(node)
        for value in graph.roots:
            self.users[value].append(None)

    def run(self, keep_outputs_split: bool) -> tuple[Graph, tuple[Layout, ...]]:
        inputs = tuple([self._leaf(v) for v in self.graph.inputs])
        for node in self.graph.nodes:
            if node.op is CONSTANT:
                self._set(node.outputs[0], REPLICATE, node.outputs[0])
            elif node.op is not INPUT:
                self._place(node)
        layouts = []
        for value in self.graph.outputs:
            layout = self.layout[value]
            keep = keep_outputs_split and isinstance(layout, Split) and layout.axis == 0
            layouts.append(layout if keep else REPLICATE)
        outputs = tuple([self._get(v, at) for v, at in zip(self.graph.outputs, layouts)])
        updates = tuple(
            [(variable, self._get(new, REPLICATE)) for variable, new in self.graph.updates]
        )
        return Graph(inputs=inputs, outputs=outputs, updates=updates), tuple(layouts)

    def _leaf(self, value: Value) -> Value:
        if value not in self.split_feeds:
            self._set(value, REPLICATE, value)
            return value
        if not value.ndim or not value.shape[0]:
            raise ValueError(
                f"shard: feed {value.node.attrs['name']!r} of shape {value.shape} has no rows "
                "to split over ranks."
            )
        layout = Split(0, value.shape[0])
        shape = local_shape(value.shape, layout, self.axis.rank, self.axis.size)
        local = leaf(shape, value.dtype, value.node.attrs["name"], value.node.attrs["kind"])
        self._set(value, layout, local)
        return local

    def _set(self, value: Value, layout: Layout, local: Value) -> None:
        self.layout[value] = layout
        self.local[value, layout] = local

    # -- which layouts a node gets -------------------------------------------------

    def _place(self, node: Node) -> None:
        layouts = [self.layout[v] for v in node.inputs]
        choice = self.choose(node)
        if choice == FOLLOW and self._passes_partial(node, layouts):
            plan = layouts, [PARTIAL] * len(node.outputs)
        else:
            plan = self._plan(node, layouts, choice)
        for value, layout in zip(node.outputs, plan[1]):
            self.layout[value] = layout
        self._emit(node, *plan)
        for value in node.outputs:
            if self.layout[value] == PARTIAL and not self._stays_partial(value):
                self.layout[value] = REPLICATE
                self._set(value, REPLICATE, self._convert(value, PARTIAL, REPLICATE))

    def _plan(self, node: Node, layouts: list[Layout], choice: Any) -> _Plan:
        whole: _Plan = [REPLICATE] * len(node.inputs), [REPLICATE] * len(node.outputs)
        if choice is None or node.op.indices is None:
            return whole
        indices = node.op.indices(node)
        if choice != FOLLOW:
            return self._by_label(node, indices, choice)
        candidates: dict[tuple[Any, int], None] = {}
        for layout, labels in zip(layouts, indices.inputs):
            if isinstance(layout, Split) and labels[layout.axis] is not None:
                candidates[labels[layout.axis], layout.units] = None
        if not candidates:
            return self._born_split(node, indices) or whole
        best, best_cost = whole, None
        for label, units in candidates:
            plan = assign(node, indices, label, units)
            if plan is not None:
                cost = sum(
                    v.spec.nbytes
                    for v, has, needs in zip(node.inputs, layouts, plan[0])
                    if isinstance(has, Split) and has != needs
                )
                if best_cost is None or cost < best_cost:
                    best, best_cost = plan, cost
        return best

    def _by_label(self, node: Node, indices: Indices, label: Any) -> _Plan:
        operands = zip((*node.inputs, *node.outputs), (*indices.inputs, *indices.outputs))
        sizes = {v.shape[names.index(label)] for v, names in operands if label in names}
        units = min(sizes, default=0)
        plan = assign(node, indices, label, units) if sizes else None
        if plan is None:
            raise ValueError(
                f"shard: operation {node.op.name!r} of layer {node.scope!r} can't be split by "
                f"index {label!r}; its indices are {indices.inputs} -> {indices.outputs}."
            )
        if units % self.axis.size and not self.uneven:
            raise ValueError(
                f"shard: operation {node.op.name!r} of layer {node.scope!r} can't be split by "
                f"index {label!r}, of size {units}: only the batch may be split unevenly; "
                f"expected a multiple of {self.axis.size}, the length of mesh axis "
                f"{self.axis.name!r}."
            )
        return plan

    def _born_split(self, node: Node, indices: Indices) -> _Plan | None:
        """Split a batch of random numbers, though nothing that is split leads to it.

        They are numbered by their place in the whole, so a share costs nothing; what is
        computed from them (by a generator network, say) then runs split too.
        """
        first = node.outputs[0]
        if "global_shape" not in node.attrs or not self.batch or not first.ndim:
            return None
        label = indices.outputs[0][0]
        if first.shape[0] != self.batch or label is None:
            return None
        if any(label in labels for labels in indices.inputs):
            return None
        return assign(node, indices, label, self.batch)

    def _passes_partial(self, node: Node, layouts: list[Layout]) -> bool:
        partial = [v for v, layout in zip(node.inputs, layouts) if layout == PARTIAL]
        if not partial or not is_linear(node):
            return False
        if node.op.linear == "all":
            return len(partial) == len(layouts)
        return len(partial) == 1 and layouts.count(REPLICATE) == len(layouts) - 1

    def _stays_partial(self, value: Value) -> bool:
        """Say whether the sum can wait: its only user passes it on and makes it no larger.

        With several users the sum would be done more than once.
        """
        users = self.users[value]
        if len(users) != 1 or users[0] is None or self.choose(users[0]) != FOLLOW:
            return False
        node = users[0]
        made = sum(v.spec.nbytes for v in node.outputs)
        if node.op.linear == "all":
            taken = sum(v.spec.nbytes for v in node.inputs)
        else:
            taken = value.spec.nbytes
        return is_linear(node) and made <= max(taken, _SMALL)

    # -- making local nodes --------------------------------------------------------

    def _emit(self, node: Node, needs: list[Layout], makes: list[Layout], depth: int = 0) -> None:
        """Add the local version of a node; remember its outputs under their layouts."""
        if node.op.num_read is not None:  # what is only waited for may lie as it does
            waited = [self.layout[v] for v in node.inputs[node.op.num_read :]]
            needs = [*needs[: node.op.num_read], *waited]
        inputs = tuple([self._get(v, at, depth) for v, at in zip(node.inputs, needs)])
        axis, attrs = self.axis, node.attrs
        specs = [
            TensorSpec(local_shape(v.shape, at, axis.rank, axis.size), v.dtype)
            for v, at in zip(node.outputs, makes)
        ]
        if all(new is old for new, old in zip(inputs, node.inputs)) and not any(
            isinstance(at, Split) for at in makes
        ):
            local = node
        else:
            if node.op.localise is not None:
                starts = [self._start(v, at) for v, at in zip(node.outputs, makes)]
                attrs = dict(node.op.localise(attrs, [v.spec for v in inputs], specs, starts))
            local = Node(node.op, inputs, attrs)
            local.scope = node.scope
        got = [v.spec for v in local.outputs]
        if got != specs:
            raise RuntimeError(
                f"shard: operation {node.op.name!r} of layer {node.scope!r} gives {got} on rank "
                f"{axis.rank} of {axis.size}; expected {specs} by its indices and `localise`."
            )
        for value, at, made in zip(node.outputs, makes, local.outputs):
            self.local[value, at] = made

    def _start(self, value: Value, layout: Layout) -> tuple[int, ...]:
        start = [0] * value.ndim
        if isinstance(layout, Split):
            start[layout.axis] = layout.bounds(value.shape, self.axis.rank, self.axis.size)[0]
        return tuple(start)

    def _get(self, value: Value, layout: Layout, depth: int = 0) -> Value:
        """Return the local version of a value in a layout, made if needed."""
        found = self.local.get((value, layout))
        if found is None:
            found = self._convert(value, self.layout[value], layout, depth)
            self.local[value, layout] = found
        return found

    def _convert(self, value: Value, source: Layout, target: Layout, depth: int = 0) -> Value:
        if target == REPLICATE:
            self.messages += 1
            part = self.local[value, source]
            whole = reshard(part, source, value.shape, self.axis, number=self.messages)
            whole.node.scope = value.node.scope
            return whole
        if not isinstance(target, Split):
            raise RuntimeError(f"shard: {value!r} can't become {target}.")
        if source == REPLICATE and depth < _MAX_DEPTH and self._make_split(value, target, depth):
            return self.local[value, target]
        low, high = target.bounds(value.shape, self.axis.rank, self.axis.size)
        whole = self._get(value, REPLICATE)
        start = tuple([low if i == target.axis else 0 for i in range(value.ndim)])
        size = local_shape(value.shape, target, self.axis.rank, self.axis.size)
        if whole.node.op is CONSTANT:
            cut = tuple([slice(b, b + n) for b, n in zip(start, size)])
            return constant(whole.node.attrs["array"][cut])
        return apply(OPS["slice"], whole, start=start, size=size, step=(1,) * value.ndim)

    def _make_split(self, value: Value, target: Split, depth: int) -> bool:
        """Compute only this rank's share of a value that was going to be whole."""
        node = value.node
        if node.op is INPUT or node.op is CONSTANT or node.op.indices is None:
            return False
        if self.choose(node) != FOLLOW:
            return False
        indices = node.op.indices(node)
        label = indices.outputs[value.index][target.axis]
        if label is None:
            return False
        plan = assign(node, indices, label, target.units)
        if plan is None or plan[1][value.index] != target or PARTIAL in plan[1]:
            return False
        self._emit(node, *plan, depth=depth + 1)
        return True


def assign(node: Node, indices: Indices, label: Any, units: int) -> _Plan | None:
    """Return the layouts of a node's inputs and outputs when it is split by one index.

    None if it can't be: a dimension does not divide, an operand has the index twice, or
    the operation does not sum over it.
    """
    inputs: list[Layout] = []
    outputs: list[Layout] = []
    contracted = any(label in labels for labels in indices.inputs)
    for operands, all_labels, layouts in (
        (node.inputs, indices.inputs, inputs),
        (node.outputs, indices.outputs, outputs),
    ):
        for value, labels in zip(operands, all_labels):
            if label not in labels:
                missing = layouts is outputs and contracted
                if missing and (indices.contraction != "sum" or value.dtype == "bool"):
                    return None
                layouts.append(PARTIAL if missing else REPLICATE)
                continue
            layout = Split(labels.index(label), units)
            if labels.count(label) > 1 or not layout.fits(value.shape):
                return None
            layouts.append(layout)
    return inputs, outputs


def is_linear(node: Node) -> bool:
    """Say whether partial sums may pass: a cast to another kind of number rounds."""
    if not node.op.linear:
        return False
    kinds = {(is_float(v.dtype), v.dtype == "bool") for v in (*node.inputs, *node.outputs)}
    return len(kinds) == 1 and (False, True) not in kinds
