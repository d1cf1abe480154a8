"""Samples per second on one rank and on several: ``python benchmarks/scaling.py [--ranks 2]``.

An MLP with layers 1024 wide trains through ``fit`` with 128 samples a rank, one thread a
rank. The two jobs run in turn for several rounds; the medians are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

PER_RANK = 128


def train(steps: int) -> None:
    """Train on this rank; rank 0 prints the global samples per second."""
    import time

    import numpy as np

    import uniflexflow as uff

    layers, size = uff.layers, uff.distribution.size()
    uff.utils.set_random_seed(0)
    model = uff.Sequential(
        [
            uff.Input((784,)),
            layers.Dense(1024, activation="relu"),
            layers.Dense(1024, activation="relu"),
            layers.Dense(10),
        ]
    )
    model.compile("adam", uff.losses.SparseCategoricalCrossentropy(from_logits=True))
    batch = PER_RANK * size
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch * steps, 784), dtype="float32")
    y = rng.integers(0, 10, batch * steps)
    model.fit(x, y, batch_size=batch, verbose=0)
    speeds = []
    for _ in range(3):
        start = time.perf_counter()
        model.fit(x, y, batch_size=batch, verbose=0)
        speeds.append(batch * steps / (time.perf_counter() - start))
    if uff.distribution.rank() == 0:
        print(json.dumps(speeds))


def measure(ranks: int, steps: int) -> list[float]:
    """Run one job; return its samples per second."""
    launcher = Path(sys.executable).with_name("mpiexec")
    command = [str(launcher), "-n", str(ranks)] if ranks > 1 else []
    command += [sys.executable, __file__, "--train", "--steps", str(steps)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.train:
        train(args.steps)
        return
    one: list[float] = []
    many: list[float] = []
    for _ in range(args.rounds):
        one += measure(1, args.steps)
        many += measure(args.ranks, args.steps)
    a, b = statistics.median(one), statistics.median(many)
    print(f"1 rank: {a:.0f} samples/s; {args.ranks} ranks: {b:.0f} samples/s; ratio {b / a:.2f}")


if __name__ == "__main__":
    main()
