"""Peak memory of training, ours and PyTorch's: ``python benchmarks/memory.py [NAME ...]``.

Each contender trains in a process of its own, on the same few batches. ``peak`` is the most
resident memory that the process has had, ``of it before`` what it had when the framework
was imported and the data was made; the difference is what model, optimizer and steps took.
Beside ours stands what ``model.memory_usage`` says beforehand, from the plan alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

from models import WORKLOADS, build, data, loss, optimizer

BATCHES = 3
MODELS = ("resnet50", "vgg16", "gpt_124m")
MIB = 1 << 20


def peak() -> int:
    """Return the most bytes of memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB


def ours(name: str) -> dict[str, int]:
    """Train here with uniflexflow."""
    import uniflexflow as uff

    w = WORKLOADS[name]
    x, y = data(name, BATCHES * w.batch)
    before = peak()
    model = build(uff, name)
    model.compile(optimizer(uff, name), loss(uff, name))
    model.fit(x, y, batch_size=w.batch, verbose=0)
    after = peak()
    return {"before": before, "peak": after, "planned": model.memory_usage(w.batch).total}


def torch_eager(name: str) -> dict[str, int]:
    """Train here with PyTorch, eager."""
    import torch
    import train_torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    w = WORKLOADS[name]
    data(name, BATCHES * w.batch)
    before = peak()
    step, x, y = train_torch.prepare(name, "eager", BATCHES * w.batch)
    for i in range(0, len(x), w.batch):
        step(x[i : i + w.batch], y[i : i + w.batch]).item()
    return {"before": before, "peak": peak()}


CONTENDERS = {"uniflexflow": ours, "torch": torch_eager}


def measure(python: str, contender: str, name: str, threads: int) -> dict[str, int]:
    """Run one contender in a process of its own; return what it found, in bytes."""
    command = [python, str(Path(__file__).resolve()), name, "--contender", contender]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise SystemExit(f"{contender}, {name}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def row(name: str, mine: dict[str, int], peer: dict[str, int]) -> str:
    """Return a line of the table, in MiB."""
    numbers = [mine["peak"], mine["before"], mine["planned"], peer["peak"], peer["before"]]
    cells = [f"{number / MIB:.0f}" for number in numbers]
    whole = mine["peak"] / peer["peak"]
    own = (mine["peak"] - mine["before"]) / (peer["peak"] - peer["before"])
    return f"| `{name}` | {' | '.join(cells)} | {whole:.2f} | {own:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=MODELS, metavar="NAME")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--peers", default=sys.executable, metavar="PYTHON", help="that has PyTorch"
    )
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if unknown := set(args.names) - set(WORKLOADS):
        parser.error(f"unknown models {sorted(unknown)}; expected some of {list(WORKLOADS)}")
    if args.contender:
        print(json.dumps(CONTENDERS[args.contender](args.names[0])))
        return
    print("| MiB | ours: peak | of it before | planned | PyTorch: peak | of it before "
          "| peak to peak | without before |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|")
    for name in args.names:
        mine = measure(sys.executable, "uniflexflow", name, args.threads)
        peer = measure(args.peers, "torch", name, args.threads)
        print(row(name, mine, peer), flush=True)


if __name__ == "__main__":
    main()
