"""A small sweep round the computed block sizes: ``python -m uniflexflow.machine tune``.

One size after the other: the candidates race against the size in use, turn by turn, on
several shapes, on one core, by the thread's own clock. What counts is each one's best time,
as noise only adds. A candidate is taken if it wins clearly, and wins again in a second race
against the old size alone: among many candidates one is always lucky.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from uniflexflow._core import dispatch, gemm
from uniflexflow._core.runner import Runner
from uniflexflow.machine import blocks, stored
from uniflexflow.machine.detect import host
from uniflexflow.machine.model import Machine
from uniflexflow.machine.planner import plan_convolution, plan_gemm
from uniflexflow.machine.stored import Sizes
from uniflexflow.machine.tune_cases import Case, cases_of

#: A candidate must gain this much on all shapes together (geometric mean), and on two of them.
GAIN = 0.02
#: No shape may lose more than this.
LOSS = 0.02

#: Multiples of the size in use that are tried, in rounds of their own.
KC = (0.5, 0.75, 1.25, 1.5)
MC = (0.25, 0.5, 0.75, 1.25)
NC = (0.125, 0.25, 0.5)
#: What is tried of each size of convolutions, and on which cases it shows.
CONVOLUTION = {
    "panel_bytes": ((0.5, 0.75, 1.25, 1.5), "forward"),
    "tile_pixels": ((0.5, 2 / 3, 4 / 3), "window"),
    "tile_rows": ((0.5, 0.75, 1.5), "window"),
    "filter_bytes": ((0.5, 2), "window"),
    "tile_bytes": ((0.5, 1.5, 2), "window"),
    "sum_bytes": ((0.5, 1.5), "window"),
    "point_pixels": ((0.5, 1.5, 2), "point"),
    "point_rows": ((0.5, 1.5, 2), "point"),
    "point_filter_bytes": ((0.5, 2), "point"),
}

Timer = Callable[[Any], float]
Prepare = Callable[[Case, Sizes], Any]


def run_time(runner: Runner) -> float:
    """Return the seconds of one run on this thread's clock, which stands still while it waits."""
    start = time.thread_time()
    runner.run()
    return time.thread_time() - start


def prepare(case: Case, sizes: Sizes) -> Runner:
    """Return a kernel ready to run with these sizes."""
    with blocks.trial(sizes):
        call = case.lower()
    return Runner(call, case.outputs, case.inputs, 1)


@dataclass
class Sweep:
    """A race of block sizes, and what has won so far.

    Attributes
    ----------
    machine : Machine
    kernels : str
        The instruction set.
    cases : sequence of Case
        Shapes to run.
    rounds : int
        Of each race.
    deadline : float
        On ``clock``; no race begins after it.
    say : callable
        Takes a line for each race.
    prepare, timer, clock : callable
        How a case is made ready with sizes, how one run of that is timed, and the time.
    sizes : dict
        What differs from computed sizes.
    """

    machine: Machine
    kernels: str
    cases: Sequence[Case]
    rounds: int
    deadline: float = math.inf
    say: Callable[[str], None] = print
    prepare: Prepare = prepare
    timer: Timer = run_time
    clock: Callable[[], float] = time.perf_counter
    sizes: Sizes = dataclasses.field(default_factory=dict)

    def race(self, group: str, all_sizes: Sequence[Sizes], rounds: int) -> list[list[float]]:
        """Return the best time of each of these sizes on each case of a group."""
        times: list[list[float]] = [[] for _ in all_sizes]
        for case in [c for c in self.cases if c.group == group]:
            ready = [self.prepare(case, sizes) for sizes in all_sizes]
            best = [math.inf] * len(ready)
            for round_ in range(rounds + 1):
                for i, runner in enumerate(ready):
                    taken = self.timer(runner)
                    if round_:  # the first only warms up
                        best[i] = min(best[i], taken)
            for found, taken in zip(times, best):
                found.append(taken)
        return times

    def improve(self, name: str, group: str, values: Iterable[Any]) -> None:
        """Take the best of some values of a size if it is clearly better than the one in use."""
        usable = [v for v in values if self._fits({**self.sizes, name: v})]
        usable = [v for i, v in enumerate(usable) if v not in usable[:i]]
        if not usable or self.clock() > self.deadline:
            self.say(f"{name:20s} not tried: {'no time left' if usable else 'nothing fits'}")
            return
        times = self.race(group, [self.sizes, *({**self.sizes, name: v} for v in usable)],
                          self.rounds)  # fmt: skip
        gains = [gain(times[0], other) for other in times[1:]]
        winner = max(range(len(usable)), key=gains.__getitem__)
        shown = f"{name:20s} best of {len(usable)}: {usable[winner]}, {gains[winner]:+.1%}"
        if not wins(times[0], times[1 + winner]):
            self.say(f"{shown}: kept as it was")
            return
        changed = {**self.sizes, name: usable[winner]}
        old, new = self.race(group, [self.sizes, changed], 2 * self.rounds)
        if not wins(old, new):
            self.say(f"{shown}, then {gain(old, new):+.1%}: kept as it was")
            return
        self.say(f"{shown}, then {gain(old, new):+.1%}: taken")
        self.sizes = changed

    def _fits(self, sizes: Sizes) -> bool:
        full = {**dataclasses.asdict(plan_convolution(self.machine)), **sizes}
        return stored.problem(self.machine, full) is None

    def gemm(self, dtype: str, mr: int, nr: int) -> None:
        """Try KC, with MC and NC computed for it, then MC, then NC."""
        name, itemsize = f"gemm_{dtype}", stored.GEMM[f"gemm_{dtype}"]

        def now() -> tuple[int, int, int]:
            return self.sizes.get(name) or plan_gemm(self.machine, itemsize, mr, nr)

        kc = [_multiple(now()[0], f, 16) for f in KC]
        self.improve(name, name, [plan_gemm(self.machine, itemsize, mr, nr, k) for k in kc])
        kc, mc, nc = now()
        self.improve(name, name, [(kc, _multiple(mc, f, mr), nc) for f in MC])
        kc, mc, nc = now()
        self.improve(name, name, [(kc, mc, _multiple(nc, f, nr)) for f in NC])

    def convolution(self) -> None:
        """Try each size of convolutions."""
        computed = dataclasses.asdict(plan_convolution(self.machine))
        for name, (factors, group) in CONVOLUTION.items():
            now = self.sizes.get(name, computed[name])
            self.improve(name, group, [_multiple(now, f, 16) for f in factors])


def _multiple(size: int, factor: float, unit: int) -> int:
    return max(unit, round(size * factor / unit) * unit)


def gain(old: Sequence[float], new: Sequence[float]) -> float:
    """Return how much faster ``new`` is, as the geometric mean over the cases."""
    return math.exp(sum(math.log(a / b) for a, b in zip(old, new)) / len(old)) - 1


def wins(old: Sequence[float], new: Sequence[float]) -> bool:
    """Say whether ``new`` is clearly faster, on several cases, and slower on none."""
    faster = sum(a > (1 + GAIN) * b for a, b in zip(old, new))
    return (
        gain(old, new) > GAIN
        and faster >= min(2, len(old))
        and all(b <= (1 + LOSS) * a for a, b in zip(old, new))
    )


def tune(
    quick: bool = False, seconds: float = 110.0, say: Callable[[str], None] = print
) -> Mapping[str, Any]:
    """Sweep all sizes on this machine with the kernels in use; return those that differ.

    Parameters
    ----------
    quick : bool
        Fewer shapes and rounds: a quarter of the time.
    seconds : float
        Races that would begin later are left out.
    say : callable
        Takes a line for each race.
    """
    sweep = Sweep(
        machine=host(),
        kernels=dispatch.selected(),
        cases=cases_of(quick),
        rounds=4 if quick else 8,
        deadline=time.perf_counter() + seconds,
        say=say,
    )
    for dtype in ("float32", "float64"):
        sweep.gemm(dtype, *gemm.micro_tile(dtype))
    sweep.convolution()
    return sweep.sizes
