"""Who trains a workload, and how fast: each contender in a process of its own.

A contender is a framework at one of its settings; the best of them counts. Rounds are
interleaved, ours and the peers' in turn, and what is compared is compared within a round:
whatever slows the machine down for a while slows both.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
OURS = "uniflexflow"
WINOGRAD = "uniflexflow winograd"
OWN = (OURS, WINOGRAD)
IMAGES = ("convnet", "resnet20", "resnet50", "vgg16")
SMALL = ("tiny", "mlp")


@dataclass(frozen=True)
class Contender:
    """A framework at one of its settings.

    Attributes
    ----------
    framework : str
        Its settings are compared with each other, the best of them with ours.
    script : str
    arguments : tuple of str
    environment : dict
    only : tuple of str
        Workloads that the setting is about; empty: all.
    """

    framework: str
    script: str
    arguments: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()


def _torch(mode: str, only: tuple[str, ...] = ()) -> Contender:
    return Contender("PyTorch", "train_torch.py", ("--mode", mode), only=only)


def _keras(backend: str, framework: str, *more: str, only: tuple[str, ...] = ()) -> Contender:
    arguments = ("--framework", "keras", *more)
    return Contender(
        framework, "train_keras_api.py", arguments, {"KERAS_BACKEND": backend}, only=only
    )


CONTENDERS = {
    OURS: Contender("UniFlexFlow", "train_keras_api.py", ("--framework", "uniflexflow")),
    WINOGRAD: Contender(
        "UniFlexFlow, Winograd",
        "train_keras_api.py",
        ("--framework", "uniflexflow", "--convolution", "winograd"),
        only=IMAGES,
    ),
    "torch": _torch("eager"),
    "torch compile": _torch("compile"),
    "torch channels-last": _torch("channels_last", IMAGES),
    "torch compile channels-last": _torch("compile_channels_last", IMAGES),
    "keras jax": _keras("jax", "Keras on JAX"),
    "keras jax, 32 steps a call": _keras("jax", "Keras on JAX", "--group", "32", only=SMALL),
    "keras tensorflow": _keras("tensorflow", "Keras on TensorFlow"),
    "keras tensorflow, 32 steps a call": _keras(
        "tensorflow", "Keras on TensorFlow", "--group", "32", only=SMALL
    ),
}
#: enough steps for about a second of training of a slow contender
STEPS = {"tiny": 1024, "mlp": 64, "convnet": 20, "resnet20": 4, "lstm": 30, "gpt": 4}
DEFAULT_STEPS = 3
#: A peer whose best round is this much slower than the best peer's can't win.
OUT_OF_REACH = 0.5


@dataclass
class Speeds:
    """What one workload's contenders reached.

    Attributes
    ----------
    rounds : dict of str to list of float
        Contender -> steps per second, the median of each round.
    why_not : dict of str to str
        Contenders that gave no figures, and their last words.
    versions : dict of str to str
    flops : int
        Floating-point operations of one of our steps.
    """

    rounds: dict[str, list[float]] = field(default_factory=dict)
    why_not: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    flops: int = 0

    def median(self, contender: str) -> float:
        """Return a contender's steps per second."""
        return statistics.median(self.rounds[contender])

    def best_peer(self) -> str | None:
        """Return the fastest contender but ourselves."""
        return max((c for c in self.rounds if c not in OWN), key=self.median, default=None)

    def ratios(self, peer: str, ours: str = OURS) -> list[float]:
        """Return how many times as fast as a peer we were, round by round."""
        return [a / b for a, b in zip(self.rounds.get(ours, ()), self.rounds.get(peer, ()))]


def run(python: str, contender: str, name: str, threads: int, timeout: float) -> dict | str:
    """Run one contender once; return what it prints, or why it printed nothing."""
    who = CONTENDERS[contender]
    steps = str(STEPS.get(name, DEFAULT_STEPS))
    command = [python, str(HERE / who.script), name, *who.arguments]
    command += ["--threads", str(threads), "--steps", steps]
    environment = {**os.environ, **who.environment, "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return f"no result in {timeout:.0f} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return lines[-1][:120] if lines else f"exit code {done.returncode}"
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(
    name: str,
    peers_python: str,
    threads: int,
    rounds: int,
    timeout: float,
    contenders: Sequence[str] = tuple(CONTENDERS),
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> Speeds:
    """Train one workload with all contenders, in turn, for several rounds."""
    speeds = Speeds()
    left = [c for c in contenders if not CONTENDERS[c].only or name in CONTENDERS[c].only]
    for number in range(rounds):
        for contender in list(left):
            python = sys.executable if contender in OWN else peers_python
            result = run(python, contender, name, threads, timeout)
            if isinstance(result, str):
                speeds.why_not[contender] = result
                left.remove(contender)
                say(f"{name}, round {number + 1}: {contender}: {result}")
                continue
            median = statistics.median(result["steps_per_second"])
            speeds.rounds.setdefault(contender, []).append(median)
            speeds.versions.update(result["versions"])
            if contender == OURS:
                speeds.flops = result.get("flops", speeds.flops)
            say(f"{name}, round {number + 1}: {contender}: {median:.2f} steps a second")
        best = {c: max(speeds.rounds[c]) for c in left}
        least = OUT_OF_REACH * max((v for c, v in best.items() if c not in OWN), default=0.0)
        left = [c for c in left if c in OWN or best[c] >= least]
    return speeds
