"""Block sizes from the machine's description.

The reasoning is that of Low, Igual, Smith and Quintana-Orti, "Analytical modeling is
enough for high-performance BLIS" (2016): every block stays in the cache that it is meant
for if the ways of that cache are shared out among all that stream through it.
"""

from __future__ import annotations

import functools

from uniflexflow.machine.model import Machine


@functools.cache
def plan_gemm(machine: Machine, itemsize: int, mr: int, nr: int) -> tuple[int, int, int]:
    """Return KC, MC and NC for elements of ``itemsize`` bytes and ``mr x nr`` micro-tiles.

    KC: a panel of B (KC x nr) stays in the first-level cache while panels of A (mr x KC)
    stream through it and a micro-tile of C passes by: one way for C, the other ways are
    shared in the proportion of nr to mr. MC: the block of A (MC x KC) stays in the second
    level, of which one way each goes to B and C. NC: the block of B (KC x NC) stays in this
    core's share of the third level, or is 4 MB where there is none.
    """
    way = machine.l1d_bytes // machine.l1d_ways
    ways_b = max(1, (machine.l1d_ways - 1) * nr // (nr + mr))
    kc = max(64, ways_b * way // (nr * itemsize) // 16 * 16)
    l2 = machine.l2_bytes * max(1, machine.l2_ways - 2) // machine.l2_ways
    room = min(l2, machine.scratch_bytes) // (kc * itemsize)
    mc = max(mr, (room - mr) // mr * mr)
    b_bytes = min(machine.l3_bytes // 2, 8 << 20) or 4 << 20
    nc = max(nr, b_bytes // (kc * itemsize) // nr * nr)
    return kc, mc, nc
