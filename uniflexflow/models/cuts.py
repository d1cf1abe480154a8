"""Where a model is cut into units that are computed again for gradients.

Kept through the forward pass is what crosses a cut; computed again, one unit at a time, is
what lies between two (Chen et al. 2016, section 4). So what counts is the sum of all that
crosses cuts and the largest unit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from uniflexflow import tree
from uniflexflow.ops.symbolic import CallNode, KerasTensor


def best_cuts(made: Sequence[int], crossing: Sequence[int]) -> tuple[int, ...]:
    """Choose the cuts that need least memory.

    Parameters
    ----------
    made : sequence of int
        Elements that each call makes.
    crossing : sequence of int
        Elements that cross a cut behind each call.

    Returns
    -------
    tuple of int
        How many calls lie before each cut.
    """
    n = len(made)
    before = [0, *itertools.accumulate(made)]
    best: tuple[float, tuple[int, ...]] = before[-1], ()
    for units in range(2, 2 * math.isqrt(n) + 2):
        bound = max(max(made, default=0), math.ceil(1.2 * before[-1] / units))
        found = _cheapest(before, crossing, bound)
        kept = sum(crossing[c - 1] for c in found)
        ends = [0, *found, n]
        largest = max(before[b] - before[a] for a, b in itertools.pairwise(ends))
        best = min(best, (kept + largest, found))
    return best[1]


def _cheapest(before: Sequence[int], crossing: Sequence[int], bound: int) -> tuple[int, ...]:
    """Return cuts that little crosses, with units of at most ``bound`` elements."""
    n = len(before) - 1
    cost = [0.0, *[math.inf] * n]
    last = [0] * (n + 1)
    for stop in range(1, n + 1):
        start = stop - 1
        while start >= 0 and before[stop] - before[start] <= bound:
            kept = cost[start] + (crossing[stop - 1] if stop < n else 0)
            if kept < cost[stop]:
                cost[stop], last[stop] = kept, start
            start -= 1
    found = []
    at = last[n]
    while at:
        found.append(at)
        at = last[at]
    return tuple(reversed(found))


def network_cuts(calls: Sequence[CallNode], outputs: Sequence[KerasTensor]) -> tuple[int, ...]:
    """Return the cuts of a functional model, by the sizes of one sample's tensors."""
    last_use: dict[Any, int] = {x: len(calls) for x in outputs}
    for i, node in reversed(list(enumerate(calls))):
        for x in node.inputs:
            last_use.setdefault(x, i)
    made, crossing, alive = [], [], 0
    ends: dict[int, int] = {}
    for i, node in enumerate(calls):
        tensors = [x for x in tree.flatten(node.outputs) if isinstance(x, KerasTensor)]
        made.append(sum(map(elements, tensors)))
        for x in tensors:
            if last_use.get(x, i) > i:
                alive += elements(x)
                ends[last_use[x]] = ends.get(last_use[x], 0) + elements(x)
        alive -= ends.pop(i, 0)
        crossing.append(alive)
    return best_cuts(made, crossing)


def elements(x: KerasTensor) -> int:
    """Return the elements of one sample."""
    return math.prod(n for n in x.shape if n is not None)
