"""How training steps gain from a second thread: ``python benchmarks/threads.py [NAME ...]``.

For each workload, the best times of a step on one thread and on several, taken in turn in
one process, and the same for the sum of its instructions' best times, which also a machine
that is never quiet for a whole step tells. ``--instructions 10`` shows the instructions that
lose most against threads that would share the work evenly. ``--ranks`` compares several ranks
of one thread each with as many threads at the same global batch: jobs of their own, in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from models import WORKLOADS, build, data, loss, optimizer

RANKS = ("resnet20", "gpt")
#: Steps in one measured run of a job.
STEPS = {"tiny": 2000, "mlp": 200, "convnet": 30, "lstm": 60}


def step_of(name: str, threads: int):
    """Return a training step that uses so many threads, its feeds, and what must stay alive."""
    import uniflexflow as uff

    os.environ["OMP_NUM_THREADS"] = str(threads)
    uff.utils.set_random_seed(0)
    model = build(uff, name)
    model.compile(optimizer(uff, name), loss(uff, name))
    x, y = data(name, WORKLOADS[name].batch)
    return model.make_train_function().for_specs((x, y)), [x, y], model


def best_times(name: str, threads: int, rounds: int, budget: float) -> tuple[list[float], list]:
    """Return the best time of a step on 1 and on ``threads`` threads, and per instruction.

    Returns
    -------
    steps : list of float
    instructions : list of (str, float, float)
        What it is, and its best seconds on one thread and on several.
    """
    steps = [step_of(name, n) for n in (1, threads)]
    names = [
        f"{ins.call.name} {' '.join(str(v.spec) for v in ins.node.outputs[:1])}"
        for ins in steps[0][0].plan.instructions
    ]
    best = [np.inf, np.inf]
    parts = [np.full(len(names), np.inf) for _ in steps]
    for step, feeds, _ in steps:
        step.run_views(feeds)
    begin = time.perf_counter()
    count = 0
    while count < rounds or (count < 200 and time.perf_counter() - begin < budget):
        for i, (step, feeds, _) in enumerate(steps):
            # what the threads of the other step have left in the caches is not counted
            step.run_views(feeds)
            start = time.perf_counter()
            step.run_views(feeds)
            best[i] = min(best[i], time.perf_counter() - start)
        for i, (step, feeds, _) in enumerate(steps):
            taken, starts = np.zeros(len(names)), np.zeros(len(names))
            step.run_timed(feeds, taken, starts)
            parts[i] = np.minimum(parts[i], taken)
        count += 1
    return best, list(zip(names, *parts))


def show(name: str, threads: int, rounds: int, budget: float, instructions: int) -> None:
    """Print a workload's line, and the instructions that lose most."""
    (one, many), parts = best_times(name, threads, rounds, budget)
    alone, shared = (sum(p[i] for p in parts) for i in (1, 2))
    print(f"{name:10s} {1e3 * one:9.2f} ms on 1 thread, {1e3 * many:9.2f} ms on {threads}: "
          f"{one / many:.2f}x; best times of the instructions {1e3 * alone:9.2f} and "
          f"{1e3 * shared:9.2f} ms: {alone / shared:.2f}x", flush=True)  # fmt: skip
    losing = sorted(parts, key=lambda p: p[1] / threads - p[2])[:instructions]
    for what, alone, shared in losing:
        print(f"    {1e6 * alone:9.1f} -> {1e6 * shared:9.1f} us, {alone / shared:4.2f}x, "
              f"loses {(shared - alone / threads) / many:5.1%} of the step: {what[:70]}",
              flush=True)  # fmt: skip


def train(name: str) -> None:
    """Train on this rank; rank 0 prints the steps per second."""
    import uniflexflow as uff

    model = build(uff, name)
    model.compile(optimizer(uff, name), loss(uff, name))
    w = WORKLOADS[name]
    x, y = data(name, w.batch * STEPS.get(name, 4))
    model.fit(x, y, batch_size=w.batch, verbose=0)
    speeds = []
    for _ in range(3):
        start = time.perf_counter()
        model.fit(x, y, batch_size=w.batch, verbose=0)
        speeds.append(len(x) / w.batch / (time.perf_counter() - start))
    if uff.distribution.rank() == 0:
        print(json.dumps(speeds))


def job(name: str, ranks: int, threads: int) -> list[float]:
    """Run one job; return its steps per second."""
    launcher = Path(sys.executable).with_name("mpiexec")
    command = [str(launcher), "-n", str(ranks)] if ranks > 1 else []
    command += [sys.executable, str(Path(__file__).resolve()), name, "--train"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare_ranks(name: str, count: int, rounds: int) -> None:
    """Print how ``count`` ranks of one thread do against as many threads."""
    threads, ranks = [], []
    for _ in range(rounds):
        threads.append(max(job(name, 1, count)))
        ranks.append(max(job(name, count, 1)))
    ratio = statistics.median(b / a for a, b in zip(threads, ranks))
    print(f"{name:10s} {max(threads):8.2f} steps/s with {count} threads, {max(ranks):8.2f} with "
          f"{count} ranks: {ratio:.2f} (median of {rounds} rounds)", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", type=int, default=2, help="threads, or ranks with --ranks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=2.0, help="seconds per workload, at least")
    parser.add_argument("--instructions", type=int, default=0, metavar="N")
    parser.add_argument("--ranks", action="store_true")
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if unknown := set(args.names) - set(WORKLOADS):
        parser.error(f"unknown models {sorted(unknown)}; expected some of {list(WORKLOADS)}")
    for name in args.names or (RANKS if args.ranks else WORKLOADS):
        if args.train:
            train(name)
        elif args.ranks:
            compare_ranks(name, args.threads, args.rounds)
        else:
            show(name, args.threads, args.rounds, args.budget, args.instructions)


if __name__ == "__main__":
    main()
