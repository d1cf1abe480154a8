"""Block sizes that were measured on a machine: one small JSON file per kind of machine.

A file is named by what the sizes depend on: processor, caches, instruction set, version of
the package. It holds only what differs from what ``planner`` computes. A file that can't be
read, or doesn't fit, is warned about once and ignored: sizes change the speed of a training
and the last bits of its sums, nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uniflexflow.machine.model import Machine
from uniflexflow.machine.planner import ConvolutionBlocks

FORMAT = "uniflexflow block sizes"
#: KC, MC, NC; with the bytes of an element.
GEMM = {"gemm_float32": 4, "gemm_float64": 8}
CONVOLUTION = tuple(field.name for field in dataclasses.fields(ConvolutionBlocks))
#: Rows of the largest micro-tile, and taps of the largest window.
MOST_MR, MOST_TAPS = 16, 1024

Sizes = dict[str, Any]  # name in GEMM -> (KC, MC, NC), name in CONVOLUTION -> int


def folder() -> Path | None:
    """Return where the files are: ``UNIFLEXFLOW_TUNED``, or in the user's home.

    None if that is ``off``, or if there is no home: batch jobs and containers may run under
    a number that is no user's.
    """
    text = os.environ.get("UNIFLEXFLOW_TUNED", "")
    if text == "off":
        return None
    try:
        return Path(text or "~/.uniflexflow/tuned").expanduser()
    except RuntimeError:
        return None


def key_of(machine: Machine, kernels: str) -> dict[str, Any]:
    """Return what sizes depend on; the number of cores is not among it."""
    import uniflexflow

    fields = dataclasses.asdict(machine)
    del fields["cores"]
    return {"uniflexflow": uniflexflow.__version__, "kernels": kernels, **fields}


def path_of(machine: Machine, kernels: str) -> Path | None:
    """Return the file of this kind of machine, whether it is there or not."""
    place = folder()
    if place is None:
        return None
    text = json.dumps(key_of(machine, kernels), sort_keys=True)
    name = re.sub(r"[^a-z0-9]+", "-", f"{machine.name} {kernels}".lower()).strip("-")
    digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    return place / f"{name[:60]}-{digest}.json"


def problem(machine: Machine, sizes: Any) -> str | None:
    """Say why sizes can't be used on a machine; None if they can."""
    if not isinstance(sizes, dict):
        return "the sizes are no table"
    for name, value in sizes.items():
        numbers = value if name in GEMM else [value]
        if name not in GEMM and name not in CONVOLUTION:
            return f"{name!r} is no block size"
        if not isinstance(numbers, (list, tuple)) or len(numbers) != (3 if name in GEMM else 1):
            return f"{name} is {value!r}; expected KC, MC and NC"
        if not all(type(n) is int and 0 < n < 1 << 30 for n in numbers):
            return f"{name} is {value!r}; expected positive integers"
        if name in GEMM:
            kc, mc, _ = numbers
            need = kc * (mc + MOST_MR) * GEMM[name] + 2 * machine.line_bytes
            if need > machine.scratch_bytes:
                return f"{name} {tuple(numbers)} needs {need} bytes of scratchpad"
    if all(name in sizes for name in CONVOLUTION):
        need = scratch_need(ConvolutionBlocks(**{name: sizes[name] for name in CONVOLUTION}))
        if need > machine.scratch_bytes:
            return f"a convolution's weight gradient needs {need} bytes of scratchpad"
        if sizes["panel_bytes"] > machine.l2_bytes // 2:
            return f"panel_bytes {sizes['panel_bytes']} is more than half of the L2"
    return None


def scratch_need(blocks: ConvolutionBlocks) -> int:
    """Return the bytes of scratchpad that a weight gradient takes at most.

    The tile, its sums, the packed gradient, and lists of places. A tile takes a whole row
    of up to 4/3 of its pixels.
    """
    pixels = blocks.tile_pixels * 4 // 3
    packed = max(pixels * blocks.filter_bytes, blocks.point_pixels * blocks.point_filter_bytes)
    lists = 16 * max(MOST_TAPS, blocks.tile_rows, blocks.point_rows)
    lists += 20 * max(pixels, blocks.point_pixels)
    return blocks.tile_bytes + blocks.sum_bytes + packed + lists


def load(machine: Machine, kernels: str, base: ConvolutionBlocks) -> Sizes:
    """Return the sizes stored for a machine, or none.

    Parameters
    ----------
    machine : Machine
    kernels : str
        The instruction set.
    base : ConvolutionBlocks
        What holds where the file says nothing.
    """
    path = path_of(machine, kernels)
    if path is None:
        return {}
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        return _ignore(path, str(error))
    try:
        found = json.loads(text)
    except ValueError as error:
        return _ignore(path, f"it is no JSON ({error})")
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        return _ignore(path, f"its format is not {FORMAT!r}")
    if found.get("machine") != key_of(machine, kernels):
        return _ignore(path, "it is of another machine, instruction set or version")
    sizes = found.get("sizes")
    reason = problem(machine, sizes)
    if reason is None:
        reason = problem(machine, {**dataclasses.asdict(base), **sizes})
    if reason is not None:
        return _ignore(path, reason)
    return {name: tuple(v) if name in GEMM else v for name, v in sizes.items()}


def _ignore(path: Path, reason: str) -> Sizes:
    warnings.warn(
        f"block sizes: {str(path)!r} is ignored: {reason}. Computed sizes are used; measure "
        "again with `python -m uniflexflow.machine tune`, or remove the file.",
        stacklevel=2,
    )
    return {}


def save(machine: Machine, kernels: str, sizes: Mapping[str, Any]) -> Path:
    """Write the file of a machine, whole or not at all; return its path.

    Raises
    ------
    ValueError
        If ``UNIFLEXFLOW_TUNED`` is ``off``.
    OSError
        If it can't be written; what was there before stays.
    """
    path = path_of(machine, kernels)
    if path is None:
        raise ValueError(
            "tune: nothing is stored: UNIFLEXFLOW_TUNED is 'off'; expected a folder; unset it "
            "for ~/.uniflexflow/tuned."
        )
    content = {"format": FORMAT, "machine": key_of(machine, kernels), "sizes": dict(sizes)}
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(content, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise
    return path
