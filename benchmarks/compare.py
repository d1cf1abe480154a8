"""Train workloads with UniFlexFlow and its peers in one run; print a table of ratios.

Usage: ``python benchmarks/compare.py tiny mlp convnet [--threads 2] [--peers PYTHON]``

Quick to read and leaves nothing behind; ``bench.py`` measures the same and keeps it. See
``contenders.py`` for who takes part. A contender that is not installed is left out and
named.
"""

from __future__ import annotations

import argparse
import sys

from contenders import CONTENDERS, OURS, measure
from models import WORKLOADS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["tiny", "mlp", "convnet"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default=sys.executable, help="Python that has the peers")
    parser.add_argument("--timeout", type=float, default=300)
    args = parser.parse_args()
    if unknown := set(args.names) - set(WORKLOADS):
        parser.error(f"unknown workloads {sorted(unknown)}; expected some of {list(WORKLOADS)}")
    for name in args.names:
        speeds = measure(name, args.peers, args.threads, args.rounds, args.timeout)
        print(f"\n{name}: median steps per second, {args.threads} threads")
        for contender in CONTENDERS:
            if contender in speeds.rounds:
                speed = speeds.median(contender)
                ratio = f"{speeds.median(OURS) / speed:6.2f}x" if OURS in speeds.rounds else ""
                print(f"  {contender:34s} {speed:10.1f}  {ratio}")
            elif contender in speeds.why_not:
                print(f"  {contender:34s} {'-':>10s}  ({speeds.why_not[contender]})")
        best = speeds.best_peer()
        if best is not None and OURS in speeds.rounds:
            ratio = speeds.median(OURS) / speeds.median(best)
            print(f"  ratio to the best peer: {ratio:.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
