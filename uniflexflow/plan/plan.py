"""The plan: a flat list of instructions over a table of buffers.

A plan knows places, not addresses: it can be made, printed and measured before any
memory exists. ``runtime.executor`` binds it to memory and runs it.
"""

from __future__ import annotations

from dataclasses import dataclass

from uniflexflow.ir import Graph, Node, Value
from uniflexflow.plan.kernel_call import KernelCall


@dataclass(frozen=True, slots=True)
class Place:
    """Where one operand lives.

    Attributes
    ----------
    space : str
        ``"feed"``, ``"variable"``, ``"constant"``, ``"arena"``, or ``"exchange"``: what the
        ranks sum, in memory that a node's ranks can share.
    index : int
        Which feed, variable or constant; 0 for the arena and the exchange.
    offset : int
        Bytes from the start of that memory.
    """

    space: str
    index: int
    offset: int = 0

    def __str__(self) -> str:
        at = f"+{self.offset}" if self.offset else ""
        number = "" if self.space in ("arena", "exchange") else self.index
        return f"{self.space}{number}{at}"


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One kernel call, or a collective (``call`` is None), over places of the table."""

    node: Node
    call: KernelCall | None
    args: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes that it reads and writes at least: each operand once."""
        if self.call is not None and self.call.nbytes is not None:
            return self.call.nbytes
        return sum(v.spec.nbytes for v in {*self.node.outputs, *self.node.inputs})


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What the executor needs to run a graph.

    Attributes
    ----------
    graph : Graph
        The graph after all passes.
    instructions : tuple of Instruction
    table : tuple of Place
        Operands of instructions are positions in it.
    outputs : tuple of Place
        One per output of the graph.
    copies : tuple of (Place, Place, int)
        (variable, source, bytes) to copy when all instructions are done: updates that
        could not be written in place.
    constants : tuple of Value
    arena_bytes, exchange_bytes : int
    """

    graph: Graph
    instructions: tuple[Instruction, ...]
    table: tuple[Place, ...]
    outputs: tuple[Place, ...]
    copies: tuple[tuple[Place, Place, int], ...]
    constants: tuple[Value, ...]
    arena_bytes: int
    exchange_bytes: int

    @property
    def flops(self) -> int:
        """Floating-point operations of the matrix products and convolutions."""
        return sum(i.call.flops for i in self.instructions if i.call is not None)

    def __str__(self) -> str:
        lines = [f"plan: {len(self.instructions)} instructions, arena {self.arena_bytes} bytes"]
        if self.exchange_bytes:
            lines[0] += f", exchange {self.exchange_bytes} bytes"
        for number, ins in enumerate(self.instructions):
            name = ins.call.name if ins.call is not None else ins.node.op.name
            outs = len(ins.node.outputs)
            places = [str(self.table[a]) for a in ins.args]
            shapes = " ".join(str(v.spec) for v in ins.node.outputs)
            scope = f"  # {ins.node.scope}" if ins.node.scope else ""
            lines.append(
                f"{number:5d} {', '.join(places[:outs])} = {name}({', '.join(places[outs:])})"
                f" : {shapes}{scope}"
            )
        lines += [f"      {to} <- {source} ({nbytes} bytes)" for to, source, nbytes in self.copies]
        return "\n".join(lines)
