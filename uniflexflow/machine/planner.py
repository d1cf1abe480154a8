"""Block sizes from the machine's description.

The reasoning is that of Low, Igual, Smith and Quintana-Orti, "Analytical modeling is
enough for high-performance BLIS" (2016): every block stays in the cache that it is meant
for if the ways of that cache are shared out among all that stream through it.

What is computed here holds where nobody has measured; ``blocks`` puts what was measured on
this machine over it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from uniflexflow.machine.model import Machine


@functools.cache
def plan_gemm(
    machine: Machine, itemsize: int, mr: int, nr: int, kc: int | None = None
) -> tuple[int, int, int]:
    """Return KC, MC and NC for elements of ``itemsize`` bytes and ``mr x nr`` micro-tiles.

    KC: a panel of B (KC x nr) stays in the first-level cache while panels of A (mr x KC)
    stream through it and a micro-tile of C passes by: one way for C, the other ways are
    shared in the proportion of nr to mr. MC: the block of A (MC x KC) stays in the second
    level, of which one way each goes to B and C. NC: the block of B (KC x NC) stays in this
    core's share of the third level, or is 4 MB where there is none. If ``kc`` is given, MC
    and NC are made for it.
    """
    if kc is None:
        way = machine.l1d_bytes // machine.l1d_ways
        ways_b = max(1, (machine.l1d_ways - 1) * nr // (nr + mr))
        kc = max(64, ways_b * way // (nr * itemsize) // 16 * 16)
    l2 = machine.l2_bytes * max(1, machine.l2_ways - 2) // machine.l2_ways
    room = min(l2, machine.scratch_bytes) // (kc * itemsize)
    mc = max(mr, (room - mr) // mr * mr)
    b_bytes = min(machine.l3_bytes // 2, 8 << 20) or 4 << 20
    nc = max(nr, b_bytes // (kc * itemsize) // nr * nr)
    return kc, mc, nc


@dataclass(frozen=True, slots=True)
class ConvolutionBlocks:
    """What a convolution's tiles are cut by.

    Attributes
    ----------
    panel_bytes : int
        A panel of packed weights, all taps of a chunk of channels.
    tile_bytes : int
        Images, with their border, that a slave core holds in its scratchpad at a time.
    sum_bytes : int
        Sums of a weight gradient that stay in scratchpad while a part is added up.
    tile_pixels, filter_bytes, tile_rows : int
        One tile of a weight gradient: pixels summed over, bytes of one pixel's filters, and
        taps times channels.
    point_pixels, point_filter_bytes, point_rows : int
        The same for windows of one pixel, which share less of their input.
    """

    panel_bytes: int
    tile_bytes: int
    sum_bytes: int
    tile_pixels: int = 192
    filter_bytes: int = 256
    tile_rows: int = 576
    point_pixels: int = 96
    point_filter_bytes: int = 1024
    point_rows: int = 256


@functools.cache
def plan_convolution(machine: Machine) -> ConvolutionBlocks:
    """Return the blocks of convolutions.

    The panel of weights stays in the first-level cache while rows of the image are gathered
    and results pass by, each of which is used once in a while: one way is left to them. The
    tile, the sums and the packed gradient of a weight gradient are in scratchpad together:
    they get 3/8, 9/32 and a quarter of it, but a tile no more than 128 KB and the others no
    more than of 512 KB: larger ones gained nothing where they were tried. Rows are as many as
    the sums' room allows: the more, the less is packed for a product. Pixels and filters of a
    weight gradient's tile don't follow from caches: they balance what is packed per tile
    against how often a sum is loaded and stored, and are as measured on AVX2.
    """
    way = machine.l1d_bytes // machine.l1d_ways
    scratch = min(machine.scratch_bytes, 512 * 1024)
    sum_bytes = scratch * 9 // 32
    filter_bytes = 256
    point = (96, 1024, 256) if scratch >= 512 * 1024 else (128, 512, 128)
    return ConvolutionBlocks(
        panel_bytes=max(1, machine.l1d_ways - 1) * way,
        tile_bytes=min(scratch * 3 // 8, 128 * 1024),
        sum_bytes=sum_bytes,
        filter_bytes=filter_bytes,
        tile_rows=sum_bytes // filter_bytes,
        point_pixels=point[0],
        point_filter_bytes=point[1],
        point_rows=point[2],
    )


def plan_chain(machine: Machine) -> int:
    """Return the bytes of a tile's operands and registers together.

    Three quarters of the first-level data cache; the rest is for the next tile's lines.
    """
    return machine.l1d_bytes * 3 // 4
