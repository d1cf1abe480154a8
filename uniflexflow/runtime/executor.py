"""A plan bound to memory: the executor's face in Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from uniflexflow._core.executor import Program, copy
from uniflexflow.ir import Node
from uniflexflow.ops.variable import aligned_zeros
from uniflexflow.plan import Instruction, Place, Plan
from uniflexflow.runtime.node_memory import SharedMemory

Collective = Callable[[Node, list[np.ndarray], list[np.ndarray]], None]


class Arena:
    """Memory for the temporary values of plans that never run at the same time.

    Attributes
    ----------
    memory, exchange : ndarray of uint8
        Of the plans' spaces "arena" and "exchange".
    """

    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)
        self.exchange = np.empty(0, np.uint8)
        self._region: SharedMemory | None = None  # that the exchange lies in
        self._scratch = np.empty(0, np.uint8)

    def require(self, nbytes: int) -> int:
        """Return the address of at least ``nbytes``; may move everything."""
        if self.memory.nbytes < nbytes:
            self.memory = np.empty(0, np.uint8)  # give back before taking more
            self.memory = aligned_empty(nbytes)
        return self.memory.ctypes.data

    def require_exchange(self, nbytes: int) -> int:
        """Return the address of at least ``nbytes`` that a node's ranks can share."""
        if self.exchange.nbytes < nbytes:
            self._region, self.exchange = None, np.empty(0, np.uint8)
            self._region = SharedMemory(nbytes)
            self.exchange = self._region.array
        return self.exchange.ctypes.data

    @property
    def nbytes(self) -> int:
        """All of it, without the scratchpads."""
        return self.memory.nbytes + self.exchange.nbytes

    def scratch(self, nbytes: int) -> np.ndarray:
        """Return memory for all slave cores' scratchpads; plans of one size share it."""
        if self._scratch.nbytes != nbytes:
            self._scratch = aligned_empty(nbytes, PAGE)
        return self._scratch


#: Scratchpads begin on one: no two cores then write to the same.
PAGE = 4096


def aligned_empty(nbytes: int, alignment: int = 64) -> np.ndarray:
    """Return bytes that start on a cache line; pages are touched when first used."""
    raw = np.empty(nbytes + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + nbytes]


class Executor:
    """Run one plan again and again.

    Parameters
    ----------
    plan : Plan
    variables : sequence of ndarray
        The memory of the graph's variables, in the order of its inputs.
    arena : Arena
    num_threads, scratch_bytes : int
        Slave cores, and the scratchpad of each.
    collective : callable, optional
        ``collective(node, inputs, outputs)`` runs an instruction without kernel.
    """

    def __init__(
        self,
        plan: Plan,
        variables: Sequence[np.ndarray],
        arena: Arena,
        num_threads: int,
        scratch_bytes: int,
        collective: Collective | None = None,
    ):
        self.plan = plan
        self.arena = arena
        self.num_threads = num_threads
        self._variables = list(variables)
        self._constants = [_aligned_copy(v.node.attrs["array"]) for v in plan.constants]
        specs = [v.spec for v in plan.graph.inputs if v.node.attrs["kind"] == "feed"]
        self._feed_rules = [
            (
                spec.shape,
                np.dtype(spec.dtype),
                tuple(
                    (at, p.offset)
                    for at, p in enumerate(plan.table)
                    if p.space == "feed" and p.index == i
                ),
            )
            for i, spec in enumerate(specs)
        ]
        self._segments = list(_segments(plan))
        if collective is None and len(self._segments) > 1:
            raise ValueError("The plan talks between ranks; it needs a `collective` to do so.")
        self._collective = collective
        self._feed_outputs = any(p.space == "feed" for p in plan.outputs)
        calls = [
            (i.call.function, i.args, i.call.ints, i.call.floats)
            if i.call is not None
            else (0, (), (), ())
            for i in plan.instructions
        ]
        scratch_bytes = -(-scratch_bytes // PAGE) * PAGE
        self._scratch = arena.scratch(scratch_bytes * num_threads)
        address = self._scratch.ctypes.data
        self.program = Program(calls, len(plan.table), num_threads, address, scratch_bytes)
        # what the program's addresses point into
        self._memory: np.ndarray | None = None
        self._exchange: np.ndarray | None = None
        self._feeds: list[np.ndarray] = []

    def _bind(self) -> None:
        """Give every place of the table its address, and make views of the outputs."""
        self._base = self.arena.require(self.plan.arena_bytes)
        self._memory = self.arena.memory
        self._exchange_base = self.arena.require_exchange(self.plan.exchange_bytes)
        self._exchange = self.arena.exchange
        for at, place in enumerate(self.plan.table):
            if place.space != "feed":
                self.program.set_address(at, self._address(place))
        self._operands = {
            collective: self._operands_of(collective)
            for _, _, collective in self._segments
            if collective is not None
            and all(self.plan.table[at].space != "feed" for at in collective.args)
        }
        self._outputs = [
            None if p.space == "feed" else self._view(p, v.spec)
            for p, v in zip(self.plan.outputs, self.plan.graph.outputs)
        ]

    def _address(self, place: Place) -> int:
        if place.space == "arena":
            base = self._base
        elif place.space == "exchange":
            base = self._exchange_base
        elif place.space == "variable":
            base = self._variables[place.index].ctypes.data
        elif place.space == "constant":
            base = self._constants[place.index].ctypes.data
        else:
            base = self._feeds[place.index].ctypes.data
        return base + place.offset

    def _view(self, place: Place, spec: Any) -> np.ndarray:
        if place.space == "arena":
            memory = self.arena.memory
        elif place.space == "exchange":
            memory = self.arena.exchange
        elif place.space == "variable":
            memory = self._variables[place.index]
        elif place.space == "constant":
            memory = self._constants[place.index]
        else:
            memory = self._feeds[place.index]
        raw = memory.reshape(-1).view(np.uint8)
        return raw[place.offset : place.offset + spec.nbytes].view(spec.dtype).reshape(spec.shape)

    def run(
        self,
        feeds: Sequence[np.ndarray],
        times: np.ndarray | None = None,
        starts: np.ndarray | None = None,
    ) -> list[np.ndarray]:
        """Run the plan on feeds; update the variables; return views of the outputs.

        The views are overwritten by the next run of any plan on this arena.

        Parameters
        ----------
        feeds : sequence of ndarray
        times : ndarray of float64, optional
            Each instruction's seconds are added to its place.
        starts : ndarray of float64, optional
            With ``times``: gets the ``time.perf_counter`` at which each instruction began.

        Raises
        ------
        ValueError
            If a feed has another shape or dtype than the plan was made for.
        """
        if self._memory is not self.arena.memory or self._exchange is not self.arena.exchange:
            self._bind()
        self._feeds = self.program.set_feeds(self._feed_rules, feeds)
        if times is not None and starts is None:
            starts = np.empty_like(times)
        for start, stop, collective in self._segments:
            if times is None:
                self.program.run(start, stop)
            else:
                self.program.profile(start, stop, times, starts)
            if collective is not None:
                began = time.perf_counter()
                inputs, outputs = self._operands.get(collective) or self._operands_of(collective)
                self._collective(collective.node, inputs, outputs)
                if times is not None:
                    times[stop] += time.perf_counter() - began
                    starts[stop] = began
        for to, source, nbytes in self.plan.copies:
            copy(self._address(to), self._address(source), nbytes)
        if self._feed_outputs:
            return [
                self._view(p, v.spec) if out is None else out
                for out, p, v in zip(self._outputs, self.plan.outputs, self.plan.graph.outputs)
            ]
        return self._outputs

    def _operands_of(self, instruction: Instruction) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return views of a collective's inputs and outputs."""
        node = instruction.node
        arrays = [
            self._view(self.plan.table[at], v.spec)
            for at, v in zip(instruction.args, (*node.outputs, *node.inputs))
        ]
        return arrays[len(node.outputs) :], arrays[: len(node.outputs)]


def _segments(plan: Plan) -> Any:
    """Yield (start, stop, the collective instruction that follows or None)."""
    start = 0
    for i, instruction in enumerate(plan.instructions):
        if instruction.call is None:
            yield start, i, instruction
            start = i + 1
    yield start, len(plan.instructions), None


def _aligned_copy(array: np.ndarray) -> np.ndarray:
    out = aligned_zeros(array.shape, array.dtype.name)
    out[...] = array
    return out
