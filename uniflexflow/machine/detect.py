"""Finds out what the host is, from what Linux tells about it."""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

from uniflexflow.machine.model import Machine

_CACHES = Path("/sys/devices/system/cpu")
_CGROUP = Path("/sys/fs/cgroup")

# Where the system tells nothing (containers, exotic kernels): what nearly all have at least.
_DEFAULT = {1: (32 * 1024, 8, 1), 2: (512 * 1024, 8, 1), 3: (0, 1, 1)}


def _bytes(text: str) -> int:
    text = text.strip()
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * scale


def _count_list(text: str) -> int:
    """How many numbers a list like ``0-3,8`` holds."""
    total = 0
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total


def read_caches(cpu: Path) -> dict[int, tuple[int, int, int]]:
    """Data caches of one core: level -> (bytes, ways, cores that share it)."""
    caches = dict(_DEFAULT)
    for index in sorted(cpu.glob("cache/index*")):
        try:
            if (index / "type").read_text().strip() == "Instruction":
                continue
            level = int((index / "level").read_text())
            size = _bytes((index / "size").read_text())
            ways = int((index / "ways_of_associativity").read_text()) or 8
            shared = _count_list((index / "shared_cpu_list").read_text())
        except (OSError, ValueError):
            continue
        if level in caches and size > 0:
            caches[level] = (size, ways, shared)
    return caches


def usable_cores() -> int:
    """Cores that this process may run on: its affinity, cut to the cgroup's quota."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    try:
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    return max(1, cores)


def _model_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@functools.cache
def host() -> Machine:
    """Return the machine that this process runs on; found out once."""
    try:
        cpu = min(os.sched_getaffinity(0))
    except AttributeError:
        cpu = 0
    caches = read_caches(_CACHES / f"cpu{cpu}")
    try:
        line = int((_CACHES / f"cpu{cpu}/cache/index0/coherency_line_size").read_text())
    except (OSError, ValueError):
        line = 64
    l1, l2, l3 = caches[1], caches[2], caches[3]
    l2_share = l2[0] // l2[2]
    return Machine(
        name=_model_name(),
        cores=usable_cores(),
        line_bytes=line,
        l1d_bytes=l1[0] // l1[2],
        l1d_ways=l1[1],
        l2_bytes=l2_share,
        l2_ways=l2[1],
        l3_bytes=l3[0] // l3[2],
        scratch_bytes=max(256 * 1024, l2_share),
    )
