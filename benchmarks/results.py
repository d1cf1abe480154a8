"""The table that benchmarks leave: what is in it, how it is shown, and what has fallen.

Nothing here measures. A table is plain data, kept as JSON: the machine, the versions of
all that took part, peaks, kernels as shares of the peak, workloads as ratios to the best
peer. Tables are compared on machines of one kind only, kernels by their shares and workloads
by their ratios, each made within one run.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Table = dict[str, Any]

FORMAT = 1
FOLDER = Path(__file__).resolve().parent / "results"
#: A ratio may be this much lower than the committed one.
TOLERANCE = 0.1
#: How often what has fallen is measured before it counts.
ATTEMPTS = 3


def kind_of(processor: str, cores: int, kernels: str) -> str:
    """Return a machine's kind, as files are named after it.

    Examples
    --------
    >>> kind_of("AMD EPYC 7003 (Zen 3)", 2, "v3")
    'amd-epyc-7003-zen-3-2-cores-v3'
    """
    words = re.sub(r"[^a-z0-9]+", "-", processor.lower()).strip("-")
    return f"{words or 'unknown'}-{cores}-cores-{kernels}"


def workload(speeds: Any, peak: float, date: str) -> dict[str, Any]:
    """Return a workload's entry.

    Parameters
    ----------
    speeds : contenders.Speeds
    peak : float
        FLOP/s of all cores in use.
    date : str
    """
    best = speeds.best_peer()
    ours = speeds.rounds.get("uniflexflow")
    entry: dict[str, Any] = {
        "date": date,
        "steps_per_second": {c: round(speeds.median(c), 4) for c in speeds.rounds},
        "rounds": {c: len(v) for c, v in speeds.rounds.items()},
        "without": dict(speeds.why_not),
        "best_peer": best,
    }
    if ours is not None:
        entry["peak_share"] = round(speeds.median("uniflexflow") * speeds.flops / peak, 4)
        if best is not None:
            entry["ratio"] = round(statistics.median(speeds.ratios(best)), 4)
    if best is not None and (ratios := speeds.ratios(best, "uniflexflow winograd")):
        entry["winograd_ratio"] = round(statistics.median(ratios), 4)
    return entry


def merge(old: Table | None, new: Table) -> Table:
    """Put new entries in the place of old ones of the same name; keep the others."""
    if old is None or old.get("format") != FORMAT or old["machine"] != new["machine"]:
        return new
    merged = {**new, "versions": {**old["versions"], **new["versions"]}}
    for part in ("kernels", "workloads"):
        merged[part] = {**old[part], **new[part]}
    return merged


def read(path: Path) -> Table | None:
    """Return a table from its file; None if there is none."""
    if not path.exists():
        return None
    table = json.loads(path.read_text(encoding="utf-8"))
    if table.get("format") != FORMAT:
        raise ValueError(
            f"{path}: the table's format is {table.get('format')!r}; expected {FORMAT}. "
            "Measure it anew with `make bench`."
        )
    return table


def write(table: Table, folder: Path = FOLDER) -> list[Path]:
    """Write a table as JSON and as Markdown, named after the kind of machine."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{table['machine']['kind']}.json"
    path.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    page = path.with_suffix(".md")
    page.write_text(markdown(table), encoding="utf-8")
    return [path, page]


# -- for people ----------------------------------------------------------------------------


def _rows(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (heading, ["---"] * len(heading), *rows)]
    return "\n".join(lines)


def _speed(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def best_settings(entry: Mapping[str, Any], frameworks: Mapping[str, str]) -> dict[str, float]:
    """Return each framework's best steps per second; ``frameworks`` tells a contender's."""
    best: dict[str, float] = {}
    for contender, speed in entry["steps_per_second"].items():
        framework = frameworks.get(contender, contender)
        best[framework] = max(best.get(framework, 0.0), speed)
    return best


def markdown(table: Table) -> str:
    """Return a table as a page."""
    machine, peaks = table["machine"], table["peaks"]
    frameworks = table["frameworks"]
    columns = list(dict.fromkeys(frameworks.values()))
    text = [
        f"# Benchmarks on {machine['processor']}",
        f"{machine['cores']} cores, kernels {machine['kernels']}, {machine['threads']} threads, "
        f"{table['date']}. A core reaches {peaks['float32'] / 1e9:.0f} GFLOP/s in float32 and "
        f"{peaks['float64'] / 1e9:.0f} in float64; {machine['threads']} threads copy "
        f"{peaks['copy'] / 1e9:.1f} GB/s (read and written).",
        "## Training steps per second",
        "Medians of interleaved rounds; each framework at its best setting. The ratio is ours to "
        "the best of the others, in the same round. Winograd's convolutions are used only where "
        "`uff.config.set_convolution_algorithm` asks for them.",
    ]
    rows = []
    for name, entry in table["workloads"].items():
        best = best_settings(entry, frameworks)
        ratio, winograd = entry.get("ratio"), entry.get("winograd_ratio")
        rows.append(
            [
                f"`{name}`",
                *[_speed(best.get(column)) for column in columns],
                entry["best_peer"] or "",
                "" if ratio is None else f"{ratio:.2f}",
                "" if winograd is None else f"{winograd:.2f}",
                _percent(entry.get("peak_share")),
            ]
        )
    text.append(
        _rows(["workload", *columns, "best peer", "ratio", "with Winograd", "of the peak"], rows)
    )
    text.append("## Kernels, share of the peak of the cores in use")
    threads = sorted({t for entry in table["kernels"].values() for t in entry["shares"]}, key=int)
    text.append(
        _rows(
            ["kernel", *[f"{t} thread{'s' * (t != '1')}" for t in threads]],
            [
                [name, *[_percent(entry["shares"].get(t)) for t in threads]]
                for name, entry in table["kernels"].items()
            ],
        )
    )
    text.append("## Versions")
    text.append(_rows(["", "version"], [[k, v] for k, v in sorted(table["versions"].items())]))
    return "\n\n".join(text) + "\n"


# -- what has fallen -----------------------------------------------------------------------


def figures_of(table: Table) -> dict[str, tuple[float, ...]]:
    """Return all figures of a table that can be compared with another run's.

    Keys are ``workload NAME``, with the ratio to the best peer and our steps per second, and
    ``kernel NAME, N threads``, with the share of the peak.
    """
    found: dict[str, tuple[float, ...]] = {
        f"workload {name}": (entry["ratio"], entry["steps_per_second"]["uniflexflow"])
        for name, entry in table["workloads"].items()
        if entry.get("ratio") is not None
    }
    for name, entry in table["kernels"].items():
        for threads, share in entry["shares"].items():
            found[f"kernel {name}, {threads} threads"] = (share,)
    return found


def fallen(
    committed: Mapping[str, tuple[float, ...]],
    measure: Callable[[list[str]], Mapping[str, Sequence[tuple[float, ...]]]],
    names: Iterable[str],
    tolerance: float = TOLERANCE,
    attempts: int = ATTEMPTS,
    say: Callable[[str], None] = print,
) -> tuple[list[str], list[str]]:
    """Measure again and say what has fallen.

    A figure has fallen if it is below the committed one by more than ``tolerance`` each
    time that it is measured: noise lowers some runs, a slower program all of them. Of
    several figures of one name all must be: a ratio alone also falls when the peer has
    become faster, a speed alone when the machine is busy.

    Parameters
    ----------
    committed : mapping of str to tuple of float
    measure : callable
        ``measure(names)`` gives for each name its figures, one tuple a round; the medians
        count. A name that it can't measure is missing or has none.
    names : iterable of str
        What to compare.
    tolerance : float
    attempts : int
        How often at most.
    say : callable
        Gets a line for each name.

    Returns
    -------
    fallen, unknown : list of str
        What has fallen, and what could not be measured.
    """
    suspects = list(names)
    unknown: list[str] = []
    for attempt in range(1, attempts + 1):
        found = measure(suspects)
        again = []
        for name in suspects:
            rounds = found.get(name) or ()
            if not rounds:
                unknown.append(name)
                say(f"{name}: not measured")
                continue
            pairs = [
                (statistics.median(figures), then)
                for figures, then in zip(zip(*rounds), committed[name])
            ]
            low = all(now < (1 - tolerance) * then for now, then in pairs)
            if low:
                again.append(name)
            verdict = ("measured again" if attempt < attempts else "FALLEN") if low else "holds"
            told = ", ".join(
                f"{now:.4g} of {then:.4g} ({now / then - 1:+.0%})" for now, then in pairs
            )
            say(f"{name}: {told}: {verdict}")
        suspects = again
        if not suspects:
            break
    return suspects, unknown
