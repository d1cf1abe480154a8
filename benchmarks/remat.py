"""What ``uff.remat`` saves and costs: ``python benchmarks/remat.py [NAME ...]``.

For each model, the memory of a training step's activations and gradients and the time of a
step, without and with ``uff.remat(model)``. ``deep`` is an MLP of 64 layers; all other names
are those of ``models.py``.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from models import WORKLOADS, build, data, loss, optimizer

import uniflexflow as uff


def deep() -> tuple[uff.Model, np.ndarray, np.ndarray]:
    """Return an MLP of 64 layers of 256 units, and a batch of 2048."""
    layers = [uff.layers.Dense(256, activation="gelu") for _ in range(64)]
    model = uff.Sequential([uff.Input((256,)), *layers, uff.layers.Dense(1)])
    model.compile("adam", "mse")
    x = np.random.default_rng(0).standard_normal((2048, 256), dtype="float32")
    return model, x, x[:, :1]


def workload(name: str) -> tuple[uff.Model, np.ndarray, np.ndarray]:
    model = build(uff, name)
    model.compile(optimizer(uff, name), loss(uff, name))
    return model, *data(name, WORKLOADS[name].batch)


def seconds(step, feeds: list[np.ndarray]) -> float:
    start = time.perf_counter()
    step.run_views(feeds)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = ["deep", *WORKLOADS]
    parser.add_argument("names", nargs="*", default=["deep", "gpt", "resnet20"])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if unknown := set(args.names) - set(known):
        parser.error(f"unknown models {sorted(unknown)}; expected some of {known}")
    for name in args.names:
        steps, sizes = [], []
        for mark in (lambda model: model, uff.remat):
            model, x, y = deep() if name == "deep" else workload(name)
            mark(model)
            sizes.append(model.memory_usage(len(x)).activations)
            steps.append((model.make_train_function().for_specs((x, y)), [x, y], model))
        times: list[list[float]] = [[], []]
        for _ in range(args.rounds + 1):
            for found, (step, feeds, _) in zip(times, steps):
                found.append(seconds(step, feeds))
        plain, again = (min(found[1:]) for found in times)
        print(
            f"{name:10s} memory {sizes[0] / 2**20:7.1f} -> {sizes[1] / 2**20:7.1f} MiB "
            f"({sizes[1] / sizes[0]:4.0%}), step {1e3 * plain:8.1f} -> {1e3 * again:8.1f} ms "
            f"({again / plain:4.2f}x)",
            flush=True,
        )


if __name__ == "__main__":
    main()
