"""Graph to plan: lower each node, decide what shares memory, lay out the arena."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

from uniflexflow.ir import CONSTANT, INPUT, Graph, Node, OpDef, Value
from uniflexflow.plan.kernel_call import KernelCall
from uniflexflow.plan.memory import Lifetime, assign_offsets
from uniflexflow.plan.plan import Instruction, Place, Plan

Lowerings = Mapping[str, Callable[[Node], KernelCall]]


def _inplace(node: Node, call: KernelCall | None) -> tuple[tuple[int, int], ...]:
    """Return the pairs (output, input) that may share memory."""
    if call is not None:
        return call.inplace
    if node.op.name == "allreduce_wait":  # its first input is the token
        return tuple([(k, k + 1) for k in range(len(node.outputs))])
    return ()


def _same_bytes(node: Node) -> int | None:
    """Return the byte offset at which the output lies within the input, if it does."""
    if node.op.name in ("after", "reshape"):
        return 0
    if node.op.name != "slice":
        return None
    shape, a = node.inputs[0].shape, node.attrs
    if any(s != 1 for s in a["step"]) or 0 in node.outputs[0].shape:
        return None
    # contiguous: one axis is cut, those before it have size 1 in the result, those
    # behind it are whole
    cut = [i for i, (n, m) in enumerate(zip(a["size"], shape)) if n != m]
    last = cut[-1] if cut else 0
    if any(n != 1 for n in a["size"][:last]):
        return None
    offset = sum(b * math.prod(shape[i + 1 :]) for i, b in enumerate(a["start"]))
    return offset * node.outputs[0].spec.itemsize


class _Builder:
    """State while one plan is built; ``build`` is the only entrance."""

    def __init__(
        self,
        graph: Graph,
        lowerings: Lowerings,
        collectives: Collection[OpDef],
        exchange: bool,
    ):
        self.graph = graph
        self.exchange = exchange
        self.lowerings = lowerings
        self.collectives = collectives
        self.root: dict[Value, tuple[Value, int]] = {}  # value -> (owner of bytes, offset)
        self.schedule: list[tuple[Node, KernelCall | None]] = []
        self.constants: list[Value] = []
        for node in graph.nodes:
            if node.op is INPUT or node.op is CONSTANT:
                self.root[node.outputs[0]] = (node.outputs[0], 0)
                if node.op is CONSTANT:
                    self.constants.append(node.outputs[0])
                continue
            offset = _same_bytes(node)
            if offset is not None:
                owner, at = self.root[node.inputs[0]]
                self.root[node.outputs[0]] = (owner, at + offset)
                continue
            for value in node.outputs:
                self.root[value] = (value, 0)
            self.schedule.append((node, self._lower(node)))

    def _lower(self, node: Node) -> KernelCall | None:
        if node.op in self.collectives:
            return None
        lower = self.lowerings.get(node.op.name)
        if lower is None and node.op.elementwise:
            lower = self.lowerings["chain"]
        if lower is None:
            raise NotImplementedError(
                f"operation {node.op.name!r} has no native kernel"
                + (f" (layer {node.scope!r})" if node.scope else "")
                + "; set UNIFLEXFLOW_EXECUTOR=reference to run it with NumPy, slowly."
            )
        return lower(node)

    def build(self) -> Plan:
        self._find_uses()
        self._find_updates_in_place()
        places, nbytes = self._lay_out()
        return self._assemble(places, nbytes)

    def _find_uses(self) -> None:
        """Note for each owner the first and last instruction that touch it."""
        self.first: dict[Value, int] = {}
        self.last: dict[Value, int] = {}
        self.reads: dict[Value, list[int]] = {}
        end = len(self.schedule)
        for i, (node, _) in enumerate(self.schedule):
            for value in node.outputs:
                self.first[value] = self.last[value] = i
            for value in node.inputs:
                owner, _ = self.root[value]
                self.last[owner] = i
                self.reads.setdefault(owner, []).append(i)
        for value in self.graph.outputs:
            self.last[self.root[value][0]] = end
        self.end = end

    def _find_updates_in_place(self) -> None:
        """Find updates whose producer may write straight into the variable.

        It may when no instruction after it reads the old numbers, and it reads them
        itself only where the operation works in place. (No output and no other update
        is an old number: ``passes.materialize`` has seen to it.)
        """
        self.home: dict[Value, Value] = {}  # owner of bytes -> variable leaf it lives in
        self.copied: list[tuple[Value, Value]] = []
        for leaf, new in self.graph.updates:
            owner, offset = self.root[new]
            made = self.first.get(owner)
            if owner is leaf and offset == 0:
                continue  # assigned to itself
            fits = (
                made is not None
                and offset == 0
                and owner not in self.home
                and owner.spec.nbytes == leaf.spec.nbytes
            )
            if fits:
                node, call = self.schedule[made]
                for i in self.reads.get(leaf, ()):
                    if i > made:
                        fits = False
                    elif i == made:
                        fits = fits and self._may_overwrite(node, call, owner.index, leaf)
            if fits:
                self.home[owner] = leaf
            else:
                self.copied.append((leaf, new))
                if made is not None:
                    self.last[owner] = self.end

    def _may_overwrite(
        self, node: Node, call: KernelCall | None, output: int, owner: Value
    ) -> bool:
        """Say whether an output may lie on ``owner``'s bytes, which the node reads.

        It may if every input that lies there, perhaps under another shape, is one that
        the operation works in place on, from the first byte.
        """
        inplace = _inplace(node, call)
        return all(
            (output, j) in inplace and self.root[v][1] == 0
            for j, v in enumerate(node.inputs)
            if self.root[v][0] is owner
        )

    def _lay_out(self) -> tuple[dict[Value, Place], dict[str, int]]:
        lifetimes: dict[str, list[Lifetime]] = {"arena": [], "exchange": []}
        number: dict[Value, tuple[str, int]] = {}  # owner of bytes -> space, lifetime in it
        workspace: dict[int, int] = {}  # instruction -> lifetime
        exchanged = {
            self.root[value][0]
            for node, _ in self.schedule
            if self.exchange and node.op.name == "allreduce_start"
            for value in node.inputs
        }
        for i, (node, call) in enumerate(self.schedule):
            claimed = set()
            for k, value in enumerate(node.outputs):
                if value in self.home:
                    continue
                space = "exchange" if value in exchanged else "arena"
                life = Lifetime(value.spec.nbytes, i, self.last[value])
                for out, j in _inplace(node, call):
                    owner, _ = self.root[node.inputs[j]]
                    if (
                        out == k
                        and owner in number
                        and (space == "arena" or number[owner][0] == space)
                        and owner not in claimed
                        and self.last[owner] == i
                        and owner.spec.nbytes == value.spec.nbytes
                        and self._may_overwrite(node, call, k, owner)
                    ):
                        space, life.takes_over = number[owner]
                        claimed.add(owner)
                        break
                number[value] = space, len(lifetimes[space])
                lifetimes[space].append(life)
            if call is not None and call.workspace:
                workspace[i] = len(lifetimes["arena"])
                lifetimes["arena"].append(Lifetime(call.workspace, i, i))
        offsets, nbytes = {}, {}
        for space, lives in lifetimes.items():
            offsets[space], nbytes[space] = assign_offsets(lives)
        places = {value: Place(space, 0, offsets[space][n]) for value, (space, n) in number.items()}
        self.workspace_places = {
            i: Place("arena", 0, offsets["arena"][n]) for i, n in workspace.items()
        }
        feed = variable = 0
        for value in self.graph.inputs:
            if value.node.attrs["kind"] == "feed":
                places[value] = Place("feed", feed)
                feed += 1
            else:
                places[value] = Place("variable", variable)
                variable += 1
        for i, value in enumerate(self.constants):
            places[value] = Place("constant", i)
        for owner, leaf in self.home.items():
            places[owner] = places[leaf]
        return places, nbytes

    def _assemble(self, places: dict[Value, Place], nbytes: dict[str, int]) -> Plan:
        table: dict[Place, int] = {}

        def place_of(value: Value) -> Place:
            owner, offset = self.root[value]
            p = places[owner]
            return Place(p.space, p.index, p.offset + offset) if offset else p

        instructions = []
        for i, (node, call) in enumerate(self.schedule):
            wanted = [place_of(v) for v in (*node.outputs, *node.inputs)]
            if i in self.workspace_places:
                wanted.append(self.workspace_places[i])
            args = tuple([table.setdefault(p, len(table)) for p in wanted])
            instructions.append(Instruction(node, call, args))
        return Plan(
            graph=self.graph,
            instructions=tuple(instructions),
            table=tuple(table),
            outputs=tuple(place_of(v) for v in self.graph.outputs),
            copies=tuple(
                (places[leaf], place_of(new), leaf.spec.nbytes) for leaf, new in self.copied
            ),
            constants=tuple(self.constants),
            arena_bytes=nbytes["arena"],
            exchange_bytes=nbytes["exchange"],
        )


def build(
    graph: Graph,
    lowerings: Lowerings,
    collectives: Collection[OpDef] = (),
    exchange: bool = False,
) -> Plan:
    """Make the plan of a graph.

    Parameters
    ----------
    graph : Graph
        After all passes.
    lowerings : mapping of str to callable
        Name of a primitive -> ``lower(node) -> KernelCall``.
    collectives : collection of OpDef
        Operations that only talk between ranks: instructions without a kernel.
    exchange : bool
        Whether what ranks sum gets a space of its own, whose memory they share.

    Raises
    ------
    NotImplementedError
        If an operation has no native kernel; names it and its layer.
    """
    return _Builder(graph, lowerings, collectives, exchange).build()
