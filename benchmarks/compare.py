"""Train workloads with UniFlexFlow and its peers in one run; print a table of ratios.

Usage: ``python benchmarks/compare.py tiny mlp convnet [--threads 2] [--peers PYTHON]``

Every contender runs in a process of its own, one after another, in turn for several
rounds, on the same data, batch and optimizer; the medians are compared. PyTorch runs
eagerly, compiled and in channels-last form, Keras on JAX and on TensorFlow; the best of
them counts. A contender that is not installed is left out and named.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

#: contender -> (script, extra arguments, extra environment)
CONTENDERS = {
    "uniflexflow": ("train_keras_api.py", ["--framework", "uniflexflow"], {}),
    "torch": ("train_torch.py", ["--mode", "eager"], {}),
    "torch compile": ("train_torch.py", ["--mode", "compile"], {}),
    "torch channels-last": ("train_torch.py", ["--mode", "channels_last"], {}),
    "keras jax": ("train_keras_api.py", ["--framework", "keras"], {"KERAS_BACKEND": "jax"}),
    "keras tensorflow": (
        "train_keras_api.py",
        ["--framework", "keras"],
        {"KERAS_BACKEND": "tensorflow"},
    ),
}
#: enough steps for about a second of training of a slow contender
STEPS = {"tiny": 1000, "mlp": 60, "convnet": 20, "resnet20": 4, "lstm": 30, "gpt": 4}
DEFAULT_STEPS = 3


def run(python: str, contender: str, name: str, threads: int, timeout: float) -> list[float] | str:
    """Run one contender once; return its steps per second, or why it gave none."""
    script, extra, env = CONTENDERS[contender]
    if contender == "torch channels-last" and name in ("tiny", "mlp", "lstm", "gpt", "gpt_124m"):
        return "no images"
    steps = str(STEPS.get(name, DEFAULT_STEPS))
    command = [
        python,
        str(HERE / script),
        name,
        *extra,
        "--threads",
        str(threads),
        "--steps",
        steps,
    ]
    environment = {**os.environ, **env, "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return f"no result in {timeout:.0f} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return lines[-1][:120] if lines else f"exit code {done.returncode}"
    return json.loads(done.stdout.strip().splitlines()[-1])["steps_per_second"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["tiny", "mlp", "convnet"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default=sys.executable, help="Python that has the peers")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    for name in args.names:
        speeds: dict[str, list[float]] = {}
        why: dict[str, str] = {}
        for _ in range(args.rounds):
            for contender in CONTENDERS:
                if contender in why:
                    continue
                python = sys.executable if contender == "uniflexflow" else args.peers
                result = run(python, contender, name, args.threads, args.timeout)
                if isinstance(result, str):
                    why[contender] = result
                else:
                    speeds.setdefault(contender, []).extend(result)
        medians = {c: statistics.median(v) for c, v in speeds.items()}
        figures[name] = medians
        ours = medians.get("uniflexflow")
        print(f"\n{name}: median steps per second, {args.threads} threads")
        for contender in CONTENDERS:
            if contender in medians:
                ratio = f"{ours / medians[contender]:6.2f}x" if ours else ""
                print(f"  {contender:20s} {medians[contender]:10.1f}  {ratio}")
            else:
                print(f"  {contender:20s} {'-':>10s}  ({why[contender]})")
        peers = [v for c, v in medians.items() if c != "uniflexflow"]
        if ours and peers:
            print(f"  ratio to the best peer: {ours / max(peers):.2f}", flush=True)
    if args.json:
        machine = {"processor": platform.processor(), "threads": args.threads}
        args.json.write_text(
            json.dumps({"machine": machine, "steps_per_second": figures}, indent=1)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
