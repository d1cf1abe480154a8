"""The nine workloads in mixed precision beside float32: losses, and steps a second.

    python benchmarks/mixed.py [workload ...] [--steps 20] [--small] [--json FILE]

Both policies start from the same weights and see the same batches; the data are random, so
the loss falls as they are learned by heart. What counts is that both fall alike: the largest
distance between the two losses is shown beside the fall of float32's. What noise is says a third
run, *rounded*: float32 from weights that were rounded to bfloat16 once, before the first step.
Speed is the median of the steps after the first, of which each is timed by itself; the policies
take turns.

``--small`` shrinks images, sequences and batches of the large workloads (``SMALL``), so that
losses can be compared in seconds; its speeds say nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import time
from pathlib import Path

import models

import uniflexflow as uff

POLICIES = ("float32", "mixed_bfloat16")

#: batch and shape of an input
SMALL = {
    "convnet": (32, (28, 28, 1)),
    "resnet20": (32, (32, 32, 3)),
    "resnet50": (8, (64, 64, 3)),
    "vgg16": (4, (32, 32, 3)),
    "gpt": (4, (32,)),
    "gpt_124m": (1, (32,)),
}
#: learning rates at which a small workload's loss falls without jumps
RATES = {"resnet20": 1e-3, "gpt_124m": 1e-4}


class Run:
    """One workload under one policy: its losses, and how long each step took."""

    def __init__(self, name: str, policy: str, rate: float | None, rounded: bool = False):
        uff.config.set_dtype_policy(policy)
        try:
            uff.utils.set_random_seed(1)
            self.model = models.build(uff, name)
            optimizer = models.optimizer(uff, name)
            if rate is not None:
                optimizer.learning_rate = rate
            self.model.compile(optimizer, models.loss(uff, name))
            if rounded:
                weights = self.model.get_weights()
                self.model.set_weights([w.astype("bfloat16").astype(w.dtype) for w in weights])
        finally:
            uff.config.set_dtype_policy("float32")
        self.losses: list[float] = []
        self.seconds: list[float] = []

    def step(self, x, y) -> None:
        start = time.perf_counter()
        self.losses.append(float(self.model.train_on_batch(x, y)))
        self.seconds.append(time.perf_counter() - start)

    def speed(self) -> float:
        """Return steps a second, without the first step, which is compiled."""
        return 1 / statistics.median(self.seconds[1:])


def compare(name: str, steps: int, small: bool) -> dict:
    """Train one workload under both policies."""
    w = models.WORKLOADS[name]
    if small and name in SMALL:
        batch, shape = SMALL[name]
        models.WORKLOADS[name] = dataclasses.replace(w, batch=batch, input_shape=shape)
    try:
        rate = RATES.get(name) if small else None
        x, y = models.data(name, models.WORKLOADS[name].batch)
        runs = [Run(name, policy, rate) for policy in POLICIES]
        runs.append(Run(name, "float32", rate, rounded=True))
        for _ in range(steps):
            for run in runs:
                run.step(x, y)
    finally:
        models.WORKLOADS[name] = w
    single, mixed, control = runs
    fall = max(single.losses[0] - min(single.losses), 1e-9)

    def apart(run: Run) -> float:
        return max(abs(a - b) for a, b in zip(single.losses, run.losses))

    return {
        "workload": name,
        "first": single.losses[0],
        "float32": single.losses[-1],
        "mixed": mixed.losses[-1],
        "rounded": control.losses[-1],
        "apart": apart(mixed),
        "of the fall": apart(mixed) / fall,
        "rounded, of the fall": apart(control) / fall,
        "float32 steps/s": single.speed(),
        "mixed steps/s": mixed.speed(),
        "ratio": mixed.speed() / single.speed(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("workloads", nargs="*", metavar="workload")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    unknown = set(args.workloads) - set(models.WORKLOADS)
    if unknown or args.steps < 2:
        parser.error(f"unknown: {sorted(unknown)}; known: {list(models.WORKLOADS)}; --steps >= 2")
    print(
        "| workload | first loss | float32 | mixed | rounded | mixed apart | of the fall "
        "| rounded, of the fall | steps/s | mixed | ratio |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    rows = []
    for name in args.workloads or models.WORKLOADS:
        row = compare(name, args.steps, args.small)
        rows.append(row)
        print(
            f"| {name} | {row['first']:.4f} | {row['float32']:.4f} | {row['mixed']:.4f} "
            f"| {row['rounded']:.4f} | {row['apart']:.1e} | {row['of the fall']:.2%} "
            f"| {row['rounded, of the fall']:.2%} | {row['float32 steps/s']:.2f} "
            f"| {row['mixed steps/s']:.2f} | {row['ratio']:.2f} |",
            flush=True,
        )
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
