"""Measure peaks, kernels, workloads and peers side by side, and keep the table.

Usage: ``python benchmarks/bench.py --peers PYTHON [--workloads tiny mlp ...]``

The table goes to ``benchmarks/results/<kind of machine>.json`` and ``.md``; what is not
measured this time stays as it was. ``--check`` writes nothing: it measures again and fails
if a ratio has fallen by more than 10 % against the table that is there: ours to the best peer
of the table, with our own speed, or a kernel's share of the peak, within one run. What seems to
have fallen is measured again before it counts.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
import results
from contenders import CONTENDERS, OURS, Speeds, measure
from kernels import GEMM, gemm_seconds
from kernels_convolution import CONVOLUTIONS, convolutions
from models import WORKLOADS

import uniflexflow as uff
from uniflexflow._core import dispatch
from uniflexflow.machine import host, num_threads
from uniflexflow.machine.measure import copy_bandwidth, peak_flops

#: What ``--check`` measures unless it is told otherwise: a few minutes.
QUICK_WORKLOADS = ("tiny", "mlp", "convnet", "lstm")
QUICK_KERNELS = (
    "gemm 512x512x512",
    "gemm 1000x1000x1000",
    "gemm 128x512x784",
    "gemm 64 of 128x128x64",
    "conv resnet20 16",
    "conv resnet50 1x1 64-256",
    "conv resnet50 3x3 256",
)

# -- kernels -------------------------------------------------------------------------------


def gemm_shares(sizes: tuple[int, int, int, int], dtype: str, threads: int) -> dict[str, float]:
    """Return the share of the peak of a matrix product in the forms that training needs."""
    shares = {}
    for form, (ta, tb) in {"nn": (0, 0), "nt": (0, 1), "tn": (1, 0)}.items():
        seconds = gemm_seconds(dtype, sizes, bool(ta), bool(tb), threads)
        peak = dispatch.measure_peak(dtype) * threads
        shares[form] = 2 * int(np.prod(sizes)) / seconds / peak
    return shares


def convolution_shares(name: str, threads: int) -> dict[str, float]:
    """Return the shares of the peak of a convolution and its gradients."""
    ((_, found),) = convolutions("float32", threads, [name])
    return {form: share for form, (share, _) in zip(("forward", "data", "weight"), found)}


def kernels() -> dict[str, Callable[[int], dict[str, float]]]:
    """Return kernels by name: each takes a number of threads and gives shares by form."""
    groups: dict[str, Callable[[int], dict[str, float]]] = {}
    for sizes in GEMM:
        batch, m, n, k = sizes
        name = f"gemm {f'{batch} of ' if batch > 1 else ''}{m}x{n}x{k}"
        groups[name] = partial(gemm_shares, sizes, "float32")
    groups["float64 gemm 1000x1000x1000"] = partial(gemm_shares, (1, 1000, 1000, 1000), "float64")
    for row in CONVOLUTIONS:
        groups[f"conv {row[0]}"] = partial(convolution_shares, row[0])
    return groups


def measure_kernels(names: Iterable[str], threads: Sequence[int]) -> dict[str, dict]:
    """Return table entries for kernels."""
    entries: dict[str, dict] = {}
    groups, date = kernels(), str(datetime.date.today())
    for name in names:
        for n in threads:
            for form, share in groups[name](n).items():
                entry = entries.setdefault(f"{name} {form}", {"date": date, "shares": {}})
                entry["shares"][str(n)] = round(share, 4)
                say(f"{name} {form}, {n} threads: {share:.1%} of the peak")
    return entries


def version(package: str) -> str:
    """Return the version of a package that is installed here."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


# -- the table -----------------------------------------------------------------------------


def describe(threads: int) -> results.Table:
    """Return a table without figures: the machine, its peaks, the versions here."""
    machine = host()
    kind = results.kind_of(machine.name, machine.cores, dispatch.selected())
    return {
        "format": results.FORMAT,
        "date": str(datetime.date.today()),
        "machine": {
            "kind": kind,
            "processor": machine.name,
            "cores": machine.cores,
            "kernels": dispatch.selected(),
            "threads": threads,
            "l1d_bytes": machine.l1d_bytes,
            "l2_bytes": machine.l2_bytes,
            "l3_bytes": machine.l3_bytes,
            "system": f"{platform.system()} {platform.machine()}",
        },
        "versions": {
            "uniflexflow": uff.__version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "h5py", "ml_dtypes", "Cython")},
        },
        "frameworks": {name: who.framework for name, who in CONTENDERS.items()},
        "peaks": {
            "float32": peak_flops("float32"),
            "float64": peak_flops("float64"),
            "copy": copy_bandwidth(threads),
        },
        "kernels": {},
        "workloads": {},
    }


def run(args: argparse.Namespace) -> int:
    """Measure what was asked for and keep it."""
    table = describe(args.threads)
    table["kernels"] = measure_kernels(args.kernels, sorted({1, args.threads}))
    path = args.output / f"{table['machine']['kind']}.json"
    for name in args.workloads:
        speeds = measure(name, args.peers, args.threads, args.rounds, args.timeout)
        peak = peak_flops("float32") * args.threads
        table["workloads"][name] = results.workload(speeds, peak, table["date"])
        table["versions"].update(speeds.versions)
        # kept as it grows: a long run that is stopped leaves what it has
        results.write(results.merge(results.read(path), table), args.output)
    written = results.write(results.merge(results.read(path), table), args.output)
    print(written[1].read_text())
    print(f"written: {', '.join(map(str, written))}")
    if OURS not in {c for w in table["workloads"].values() for c in w["steps_per_second"]}:
        return 1 if table["workloads"] else 0
    return 0


def check(args: argparse.Namespace) -> int:
    """Compare with the table of this kind of machine; return the exit code."""
    machine = host()
    kind = results.kind_of(machine.name, machine.cores, dispatch.selected())
    committed = results.read(args.output / f"{kind}.json")
    if committed is None:
        known = sorted(p.stem for p in args.output.glob("*.json"))
        print(
            f"bench-check: there is no table for this kind of machine, {kind!r}; there are tables "
            f"for {known}. Nothing to compare. `make bench` makes one."
        )
        return 0
    if committed["machine"]["threads"] != args.threads:
        print(
            f"bench-check: the table was made with {committed['machine']['threads']} threads, "
            f"this run has {args.threads}; set OMP_NUM_THREADS or --threads. Nothing to compare."
        )
        return 0
    figures = results.figures_of(committed)
    names = chosen(figures, args.workloads, args.kernels)
    low, unknown = results.fallen(figures, partial(measure_again, committed, args), names)
    print(
        f"bench-check: {len(names)} figures compared with the table of {committed['date']}: "
        f"{len(low)} have fallen by more than {results.TOLERANCE:.0%}, {len(unknown)} could not "
        "be measured."
    )
    for name in low:
        print(f"  fallen: {name}")
    for name in unknown:
        print(f"  not measured: {name}")
    return 1 if low or (unknown and len(unknown) == len(names)) else 0


def chosen(
    figures: Iterable[str], workloads: Iterable[str], kernel_names: Iterable[str]
) -> list[str]:
    """Return the figures of a table that belong to these workloads and kernels."""
    wanted = {f"workload {name}" for name in workloads}
    starts = tuple(f"kernel {name} {form}," for name in kernel_names for form in FORMS)
    return [f for f in figures if f in wanted or f.startswith(starts)]


FORMS = ("nn", "nt", "tn", "forward", "data", "weight")


def measure_again(
    committed: results.Table, args: argparse.Namespace, names: Sequence[str]
) -> dict[str, list[tuple[float, ...]]]:
    """Return new figures, round by round, against the peers that were best in the table."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for name in names:
        if not name.startswith("workload "):
            continue
        workload = name.removeprefix("workload ")
        peer = committed["workloads"][workload]["best_peer"]
        speeds: Speeds = measure(
            workload, args.peers, args.threads, args.rounds, args.timeout, (OURS, peer)
        )
        found[name] = list(zip(speeds.ratios(peer), speeds.rounds.get(OURS, ())))
    for group in kernels():
        for n in sorted({1, args.threads}):
            mine = [name for name in chosen(names, (), [group]) if name.endswith(f", {n} threads")]
            for _ in range(args.rounds if mine else 0):
                for form, entry in measure_kernels([group], [n]).items():
                    key = f"kernel {form}, {n} threads"
                    if key in mine:
                        found.setdefault(key, []).append((entry["shares"][str(n)],))
    return found


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the arguments, with what they leave open filled in."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare; write nothing")
    parser.add_argument("--all", action="store_true", help="check everything, not a quick choice")
    parser.add_argument("--workloads", nargs="*", choices=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--kernels", nargs="*", choices=list(kernels()), metavar="NAME")
    parser.add_argument("--threads", type=int, default=num_threads())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=900, help="seconds of one run")
    parser.add_argument("--peers", default=sys.executable, help="Python that has the peers")
    parser.add_argument("--output", type=Path, default=results.FOLDER, help="folder of tables")
    args = parser.parse_args(argv)
    quick = args.check and not args.all
    # what is named is all that is meant
    named = args.workloads is not None or args.kernels is not None
    if args.workloads is None:
        args.workloads = [] if named else list(QUICK_WORKLOADS if quick else WORKLOADS)
    if args.kernels is None:
        args.kernels = [] if named else list(QUICK_KERNELS if quick else kernels())
    return args


def main() -> int:
    args = parse()
    return check(args) if args.check else run(args)


if __name__ == "__main__":
    sys.exit(main())
