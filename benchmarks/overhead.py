"""What is not computation: ``python benchmarks/overhead.py``; ends with 1 if a goal is missed.

- ``tiny`` through ``fit`` with a History and the progress display, steps a second;
- the time between two of its steps, as the Profiler sees it;
- ``predict`` and ``predict_on_batch`` of one sample of ``tiny``;
- ResNet-50 at batch 8: from the call of ``fit`` to its first instruction (tracing, passes,
  planning), to the end of its first step (which touches all memory for the first time), and
  a later step.

Each is the best of several runs: what is asked is what the program costs, not what else
the machine does meanwhile. ``--only`` chooses.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from models import WORKLOADS, build, data, loss, optimizer

import uniflexflow as uff


def model_of(name: str, samples: int) -> tuple[uff.Model, np.ndarray, np.ndarray]:
    model = build(uff, name)
    model.compile(optimizer(uff, name), loss(uff, name))
    return model, *data(name, samples)


def steps_per_second() -> float:
    """``tiny`` through fit, with its History and a display of one line an epoch."""
    steps, batch = 5000, WORKLOADS["tiny"].batch
    model, x, y = model_of("tiny", steps * batch)
    best = 0.0
    for _ in range(8):
        with contextlib.redirect_stdout(io.StringIO()):
            start = time.perf_counter()
            model.fit(x, y, batch_size=batch, verbose=2)
            best = max(best, steps / (time.perf_counter() - start))
    return best


def gap() -> float:
    """Microseconds between two steps of ``tiny``: the shortest median of several runs."""
    batch = WORKLOADS["tiny"].batch
    model, x, y = model_of("tiny", 400 * batch)
    medians = []
    for _ in range(8):
        profiler = uff.Profiler(steps=(20, 400), verbose=0)
        model.fit(x, y, batch_size=batch, verbose=0, callbacks=[profiler])
        medians.append(float(np.median(profiler.profile.gaps)))
    return 1e6 * min(medians)


def microseconds(call: Callable[[], object], rounds: int = 200, calls: int = 20) -> float:
    call()
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, time.perf_counter() - start)
    return 1e6 * best / calls


def predict() -> float:
    """Microseconds of ``model.predict`` of one sample."""
    model, x, _ = model_of("tiny", 1)
    return microseconds(lambda: model.predict(x, verbose=0))


def predict_on_batch() -> float:
    """Microseconds of ``model.predict_on_batch`` of one sample."""
    model, x, _ = model_of("tiny", 1)
    return microseconds(lambda: model.predict_on_batch(x))


def preparation() -> float:
    """Seconds from the call of ``fit`` to ResNet-50's first instruction."""
    return min(prepared for prepared, _, _ in _first_steps())


def first_step() -> float:
    """Seconds from the call of ``fit`` to the end of ResNet-50's first step."""
    return min(first for _, first, _ in _first_steps())


def later_step() -> float:
    """Seconds of a later step."""
    return min(later for _, _, later in _first_steps())


@functools.cache
def _first_steps() -> list[tuple[float, float, float]]:
    program = (
        "import time, overhead, uniflexflow as uff\n"
        "model, x, y = overhead.model_of('resnet50', 8)\n"
        "profiler = uff.Profiler(steps=1, verbose=0)\n"
        "start = time.perf_counter()\n"
        "model.fit(x, y, batch_size=8, verbose=0, callbacks=[profiler])\n"
        "(step,) = profiler.profile.steps\n"
        "first = step.stop - start, step.starts[0] - start\n"
        "model.fit(x, y, batch_size=8, verbose=0, callbacks=[profiler])\n"
        "(step,) = profiler.profile.steps\n"
        "print(first[1], first[0], step.stop - step.start)\n"
    )
    found = []
    for _ in range(3):  # each in a process that has made no step before
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=sys.path[0], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"the first step failed:\n{done.stderr}")
        prepared, first, later = map(float, done.stdout.split())
        found.append((prepared, first, later))
    return found


#: name -> (how it is measured, unit, goal, whether more is better)
MEASURES: dict[str, tuple[Callable[[], float], str, float | None, bool]] = {
    "tiny": (steps_per_second, "steps/s", 25_000, True),
    "gap": (gap, "us", None, False),
    "predict": (predict, "us", 50, False),
    "predict_on_batch": (predict_on_batch, "us", 50, False),
    "preparation": (preparation, "s", 1, False),
    "first_step": (first_step, "s", None, False),
    "later_step": (later_step, "s", None, False),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=list(MEASURES), choices=list(MEASURES))
    missed = 0
    for name in parser.parse_args().only:
        measure, unit, goal, more = MEASURES[name]
        value = measure()
        verdict = ""
        if goal is not None:
            held = value >= goal if more else value <= goal
            missed += not held
            verdict = f"goal {goal:g}: {'held' if held else 'MISSED'}"
        print(f"{name:18s}{value:12.4g} {unit:8s}{verdict}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
