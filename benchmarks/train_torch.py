"""Train one workload with PyTorch; print the steps per second as JSON.

Usage: ``python train_torch.py NAME --mode MODE --threads 2``
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import torch
from models import WORKLOADS, data
from models_torch import build
from torch.nn import functional as F

MODES = ("eager", "compile", "channels_last", "compile_channels_last")


def prepare(
    name: str, mode: str, samples: int
) -> tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], torch.Tensor, torch.Tensor]:
    """Return a function that runs a training step on a batch, and so many samples."""
    w = WORKLOADS[name]
    model = build(name)
    x, y = data(name, samples)
    images = len(w.input_shape) == 3
    x = torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if images else x)
    y = torch.from_numpy(y)
    if w.classes:
        y = y.long()
    if mode.endswith("channels_last") and images:
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    if w.optimizer == "adam":
        optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    else:
        optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, fused=True)
    if mode.startswith("compile"):
        model = torch.compile(model)
    model.train()

    def step(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        out = model(a)
        if w.classes:
            value = F.cross_entropy(out.reshape(-1, w.classes), b.reshape(-1))
        else:
            value = F.mse_loss(out, b)
        value.backward()
        optimizer.step()
        return value

    return step, x, y


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=WORKLOADS)
    parser.add_argument("--mode", default="eager", choices=MODES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    w = WORKLOADS[args.name]
    step, x, y = prepare(args.name, args.mode, w.batch * args.steps)
    step(x[: w.batch], y[: w.batch])
    step(x[: w.batch], y[: w.batch])
    speeds = []
    for _ in range(args.repeats):
        order = torch.randperm(len(x))
        start = time.perf_counter()
        total = 0.0
        for i in range(args.steps):
            rows = order[i * w.batch : (i + 1) * w.batch]
            total += step(x[rows], y[rows]).item()  # the running loss, as fit shows it
        speeds.append(args.steps / (time.perf_counter() - start))
    print(
        json.dumps({"steps_per_second": sorted(speeds), "versions": {"torch": torch.__version__}})
    )


if __name__ == "__main__":
    main()
