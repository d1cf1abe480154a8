"""Where each value lives: offsets in one arena, by lifetime.

The arena is filled in program order by best fit over a list of free gaps. A buffer may
be taken over by an instruction's output when the operation allows it and the input is
not read again; a value that is the same bytes as another (a reshape, a contiguous slice)
shares its buffer.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64  # bytes: a cache line and the widest vector


def align(nbytes: int) -> int:
    """Round up to whole cache lines; an empty value gets one, so that it has an address."""
    return max(-(-nbytes // ALIGNMENT), 1) * ALIGNMENT


@dataclass(slots=True)
class Lifetime:
    """One buffer's need: bytes, and the first and last instruction that touch it.

    ``takes_over`` names a buffer whose place this one may take at ``first``, the moment
    of that buffer's last use.
    """

    nbytes: int
    first: int
    last: int
    takes_over: int | None = None


def assign_offsets(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Return an offset per buffer and the arena's size in bytes.

    ``lifetimes`` must be sorted by ``first``. Buffers that live at the same instruction
    never overlap, except one that takes over another.
    """
    offsets = [0] * len(lifetimes)
    free: list[tuple[int, int]] = []  # (offset, size), sorted, never touching
    top = 0
    ends: dict[int, list[int]] = {}
    taken: set[int] = set()

    def release(offset: int, size: int) -> None:
        nonlocal top
        at = bisect.bisect(free, (offset, size))
        if at < len(free) and free[at][0] == offset + size:
            size += free.pop(at)[1]
        if at and free[at - 1][0] + free[at - 1][1] == offset:
            before = free.pop(at - 1)
            offset, size = before[0], before[1] + size
            at -= 1
        free.insert(at, (offset, size))

    def acquire(size: int) -> int:
        nonlocal top
        best = -1
        for i, (_, gap) in enumerate(free):
            if gap >= size and (best < 0 or gap < free[best][1]):
                best = i
        if best >= 0:
            offset, gap = free.pop(best)
            if gap > size:
                free.insert(best, (offset + size, gap - size))
            return offset
        if free and free[-1][0] + free[-1][1] == top:  # grow the last gap
            offset, _ = free.pop()
        else:
            offset = top
        top = offset + size
        return offset

    order = sorted(range(len(lifetimes)), key=lambda i: lifetimes[i].first)
    clock = 0
    for i in order:
        life = lifetimes[i]
        while clock < life.first:  # free what was last used before this instruction
            for done in ends.pop(clock, ()):
                if done not in taken:
                    release(offsets[done], align(lifetimes[done].nbytes))
            clock += 1
        old = life.takes_over
        if old is not None and align(lifetimes[old].nbytes) == align(life.nbytes):
            taken.add(old)
            offsets[i] = offsets[old]
        else:
            offsets[i] = acquire(align(life.nbytes))
        ends.setdefault(life.last, []).append(i)
    return offsets, top
