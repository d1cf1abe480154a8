"""Where the time of some steps went: a table for people, a trace for their tools.

A ``Recorder`` runs steps and notes when each instruction began and how long it took. A
``Profile`` is what it has noted: rows by operation, by layer or by instruction against what
the machine can do at most (``machine.measure``), and events of Chrome's trace format.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from uniflexflow.machine.measure import copy_bandwidth, peak_flops
from uniflexflow.plan import Instruction, Plan

OUTSIDE = "(between instructions)"
NO_LAYER = "(no layer)"


@dataclass(frozen=True, slots=True, eq=False)
class StepTimes:
    """One step that was timed; times are those of ``time.perf_counter``.

    Attributes
    ----------
    number : int
    plan : Plan
    called, left : float
        When the recorder was asked to run the step, and when it was done with it.
    start, stop : float
        When the step itself began and ended.
    starts, seconds : ndarray
        Per instruction.
    """

    number: int
    plan: Plan
    called: float
    start: float
    stop: float
    left: float
    starts: np.ndarray
    seconds: np.ndarray


class Recorder:
    """Runs steps and times their instructions.

    Attributes
    ----------
    steps : list of StepTimes
    """

    def __init__(self) -> None:
        self.steps: list[StepTimes] = []
        self.threads = 1

    def run(self, step: Any, feeds: Sequence[np.ndarray], number: int) -> list[np.ndarray]:
        """Run a ``compiler.Step``; return views of its outputs."""
        clock = time.perf_counter
        called = clock()
        count = 0 if step.plan is None else len(step.plan.instructions)
        seconds, starts = np.zeros(count), np.zeros(count)
        start = clock()
        outputs = step.run_timed(feeds, seconds, starts)
        stop = clock()
        self.threads = step.executor.num_threads
        self.steps.append(
            StepTimes(number, step.plan, called, start, stop, clock(), starts, seconds)
        )
        return outputs


@dataclass(slots=True)
class Row:
    """What some instructions did in one step, on average.

    Attributes
    ----------
    name : str
    calls, seconds, flops, nbytes : float
    least : float
        Seconds that the machine needs at least for these operations and bytes; 0 where
        nothing is known of it.
    """

    name: str
    calls: float = 0.0
    seconds: float = 0.0
    flops: float = 0.0
    nbytes: float = 0.0
    least: float = 0.0

    def add(self, other: Row) -> None:
        """Take in another row."""
        self.calls += other.calls
        self.seconds += other.seconds
        self.flops += other.flops
        self.nbytes += other.nbytes
        self.least += other.least

    def cells(self, whole: float) -> list[str]:
        """Return the row as texts; ``whole`` is the time that is 100 %."""
        per = self.seconds or 1.0
        return [
            self.name,
            f"{self.calls:.0f}" if self.calls else "",
            f"{1e3 * self.seconds:.3f}",
            f"{100 * self.seconds / (whole or 1.0):.1f}",
            f"{self.flops / per / 1e9:.1f}" if self.flops and self.seconds else "",
            f"{self.nbytes / per / 1e9:.1f}" if self.nbytes and self.seconds else "",
            f"{100 * self.least / per:.0f}" if self.least and self.seconds else "",
        ]


#: of a table's columns, behind the first
HEADINGS = ("calls", "ms", "%", "GFLOP/s", "GB/s", "% roof")


@dataclass(frozen=True, eq=False)
class Profile:
    """The timed steps of one rank.

    Attributes
    ----------
    steps : list of StepTimes
    threads : int
    rank, ranks : int
    origin : float
        The time that is 0 in the trace: the same moment on all ranks.
    peak : callable
        ``peak(dtype)``: FLOP/s of one core.
    bandwidth : callable
        ``bandwidth(threads)``: bytes a second, read and written.
    """

    steps: Sequence[StepTimes]
    threads: int = 1
    rank: int = 0
    ranks: int = 1
    origin: float = 0.0
    peak: Callable[[str], float] = field(default=peak_flops, repr=False)
    bandwidth: Callable[[int], float] = field(default=copy_bandwidth, repr=False)

    # -- sums --------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Of one step, on average."""
        return sum(s.stop - s.start for s in self.steps) / max(len(self.steps), 1)

    @property
    def gaps(self) -> list[float]:
        """Seconds between one step and the next, the recorder's own work left out."""
        return [
            after.called - before.left
            for before, after in zip(self.steps, self.steps[1:])
            if after.number == before.number + 1
        ]

    def least_seconds(self, instruction: Instruction) -> float:
        """Return what the machine needs at least; 0 for communication."""
        if instruction.call is None:
            return 0.0
        dtype = instruction.node.outputs[0].dtype
        compute = instruction.call.flops / (self.peak(dtype) * self.threads)
        return max(compute, instruction.nbytes / self.bandwidth(self.threads))

    def rows(self, key: Callable[[Instruction], str]) -> list[Row]:
        """Return what the instructions did in a step, by ``key``, the slowest first.

        The last row is the time between the instructions: all rows together are the step.
        """
        found: dict[str, Row] = {}
        steps = max(len(self.steps), 1)
        for plan in dict.fromkeys(s.plan for s in self.steps):
            timed = [s for s in self.steps if s.plan is plan]
            seconds = np.sum([s.seconds for s in timed], axis=0) / steps
            share = len(timed) / steps
            for instruction, taken in zip(plan.instructions, seconds):
                name = key(instruction)
                flops = 0 if instruction.call is None else instruction.call.flops
                found.setdefault(name, Row(name)).add(
                    Row(
                        name,
                        share,
                        float(taken),
                        share * flops,
                        share * instruction.nbytes,
                        share * self.least_seconds(instruction),
                    )
                )
        rows = sorted(found.values(), key=lambda row: -row.seconds)
        inside = sum(row.seconds for row in rows)
        return [*rows, Row(OUTSIDE, seconds=self.seconds - inside)]

    # -- for people --------------------------------------------------------------------

    def table(self, lines: int = 20) -> str:
        """Return the step as text: by operation, by layer, and its slowest instructions.

        Parameters
        ----------
        lines : int
            Of each part; what is beyond is one line more.
        """
        if not self.steps:
            return "profile: no step was timed"
        first, last = self.steps[0].number, self.steps[-1].number
        peak, copy = self.peak("float32"), self.bandwidth(self.threads)
        head = [
            f"Profile of steps {first} to {last}, rank {self.rank} of {self.ranks}, "
            f"{self.threads} threads",
            f"a step takes {1e3 * self.seconds:.3f} ms"
            + (f", between two steps {_gap(self.gaps)}" if self.gaps else ""),
            f"roof: {peak * self.threads / 1e9:.0f} GFLOP/s in float32, {copy / 1e9:.1f} GB/s "
            "from memory (data in caches may exceed it)",
        ]
        parts = [
            ("operation", operation_of, lines),
            ("layer", layer_of, lines),
            ("slowest instructions", _in_full, max(1, lines // 2)),
        ]
        texts = [_text(title, self.rows(key), self.seconds, n) for title, key, n in parts]
        return "\n".join([*head, *["\n" + text for text in texts]])

    # -- for tools ---------------------------------------------------------------------

    def events(self) -> list[dict[str, Any]]:
        """Return the steps as events of Chrome's trace format; a rank is a process."""

        def event(name: str, kind: str, start: float, seconds: float, **args: Any) -> Any:
            return {
                "name": name,
                "cat": kind,
                "ph": "X",
                "ts": round(1e6 * (start - self.origin), 3),
                "dur": round(1e6 * max(seconds, 0.0), 3),
                "pid": self.rank,
                "tid": 0,
                "args": args,
            }

        found: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": self.rank, "tid": 0,
             "args": {"name": f"rank {self.rank}"}},
            {"name": "process_sort_index", "ph": "M", "pid": self.rank, "tid": 0,
             "args": {"sort_index": self.rank}},
            {"name": "thread_name", "ph": "M", "pid": self.rank, "tid": 0,
             "args": {"name": f"{self.threads} threads"}},
        ]  # fmt: skip
        before: StepTimes | None = None
        for step in self.steps:
            if before is not None and step.number == before.number + 1:
                gap = step.called - before.left
                found.append(event("between steps", "gap", before.left, gap))
            before = step
            taken = step.stop - step.start
            found.append(event(f"step {step.number}", "step", step.start, taken))
            for i, instruction in enumerate(step.plan.instructions):
                seconds = float(step.seconds[i])
                found.append(
                    event(
                        instruction_name(instruction),
                        "communication" if instruction.call is None else instruction.node.op.name,
                        float(step.starts[i]),
                        seconds,
                        **self._details(instruction, seconds),
                    )
                )
        return found

    def _details(self, instruction: Instruction, seconds: float) -> dict[str, Any]:
        node, per = instruction.node, max(seconds, 1e-9)
        details: dict[str, Any] = {
            "layer": layer_of(instruction),
            "outputs": " ".join(str(v.spec) for v in node.outputs),
            "inputs": " ".join(str(v.spec) for v in node.inputs),
            "GB/s": round(instruction.nbytes / per / 1e9, 3),
        }
        if instruction.call is not None:
            details["GFLOP/s"] = round(instruction.call.flops / per / 1e9, 3)
            details["% of roofline"] = round(100 * self.least_seconds(instruction) / per, 1)
        return details


def operation_of(instruction: Instruction) -> str:
    """Return the name of an instruction's operation."""
    return instruction.node.op.name


def layer_of(instruction: Instruction) -> str:
    """Return the path of the layer that an instruction comes from."""
    return instruction.node.scope or NO_LAYER


def instruction_name(instruction: Instruction) -> str:
    """Return the name of an instruction's kernel, or of its communication."""
    return instruction.node.op.name if instruction.call is None else instruction.call.name


def _in_full(instruction: Instruction) -> str:
    made = " ".join(str(v.spec).partition("[")[2].rstrip("]") for v in instruction.node.outputs)
    return f"{instruction_name(instruction)} -> ({made}) {layer_of(instruction)}"


def trace_file(events: Iterable[Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """Return what a trace file holds, of all ranks' events; chrome://tracing opens it."""
    return {
        "traceEvents": [event for rank in events for event in rank],
        "displayTimeUnit": "ms",
    }


def _gap(gaps: Sequence[float]) -> str:
    return f"{1e6 * float(np.median(gaps)):.1f} us (median), {1e6 * max(gaps):.1f} us (longest)"


def _text(title: str, rows: list[Row], whole: float, lines: int) -> str:
    *rows, outside = rows
    if len(rows) > lines:
        others = Row(f"({len(rows) - lines} others)")
        for row in rows[lines:]:
            others.add(row)
        rows = [*rows[:lines], others]
    total = Row("a step", seconds=whole)
    table = [[title, *HEADINGS], *[r.cells(whole) for r in (*rows, outside, total)]]
    widths = [max(map(len, column)) for column in zip(*table)]
    return "\n".join(
        "  ".join(
            [cells[0].ljust(widths[0]), *[c.rjust(w) for c, w in zip(cells[1:], widths[1:])]]
        ).rstrip()
        for cells in table
    )
