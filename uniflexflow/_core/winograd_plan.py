"""Which convolutions take Winograd's algorithm, and how they are cut: numbers for ``winograd.pyx``.

A tile is 4 x 4 results, a block the tiles that are transformed together. A block is either
*private*, transformed, multiplied and transformed back by one core in its scratchpad, or, where
channels are too many for that, *shared*: it lies in the workspace, all cores transform it, each
multiplies some of the 36 positions, and all transform back. Shared blocks read the transformed
windows once for many tiles, which private ones could not hold.

The sums' order is that of the channels (of the tiles in the weight gradient, in parts that
follow from sizes alone), so results don't depend on the number of cores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from uniflexflow._core import dispatch
from uniflexflow._core.convolution_plan import CORE_FLOPS, even
from uniflexflow.ir import Node
from uniflexflow.machine import host
from uniflexflow.machine.blocks import convolution_blocks

ALGORITHMS = ("direct", "winograd")

LINE = 16  # floats; channels and filters must be multiples
# With fewer channels or filters, moving transformed numbers takes what products save.
LEAST_CHANNELS = 32
OUT, POSITIONS = 4, 36
# A private block has at least so many times the rows of a register block as tiles: with fewer,
# the transformed windows, which each block reads whole, cost more than the products.
LEAST_ROWS = 5
# The same for a weight gradient, which adds a block's tiles to sums that it reads and writes.
LEAST_SUMMED = 20
# The same for shared blocks, in tiles, of images and of a weight gradient. From there on they
# get a part of the last cache: more was slower where it was tried.
LEAST_IMAGES, LEAST_GRADIENTS = 128, 96
CACHE_SHARE = 8
# Bytes of scratchpad for each channel or filter: offsets of a weight gradient's sums, a pixel of
# zeros, and as much again for the rest.
MOST_BYTES = 48
# Bytes of the sums of a weight gradient that every part has.
PART_BYTES = 160 * 1024
# Filters that a private block multiplies at a time.
FILTERS = 64

_settings = {"algorithm": "direct"}


def algorithm() -> str:
    """Return the algorithm of convolutions that are lowered from now on."""
    return _settings["algorithm"]


def set_algorithm(name: str) -> None:
    """Choose the algorithm: see ``uniflexflow.config.set_convolution_algorithm``."""
    if name not in ALGORITHMS:
        raise ValueError(
            f"set_convolution_algorithm: unknown algorithm {name!r}; expected one of {ALGORITHMS}."
        )
    _settings["algorithm"] = name


def applies(attrs: dict[str, Any], dtype: str, kernel: tuple[int, ...], out: Sequence[int]) -> bool:
    """Say whether a convolution with this kernel and results of this height and width is for us.

    Windows are 3 x 3 without stride, dilation and groups, channels and filters whole lines and
    not few, in float32: who asks for float64 asks for its digits. Of the tiles' results at least
    half must exist. A core's lists of channels must fit its scratchpad with room to spare.
    """
    return (
        _settings["algorithm"] == "winograd"
        and dtype == "float32"
        and kernel[:2] == (3, 3)
        and attrs["strides"] == attrs["dilations"] == (1, 1)
        and attrs["groups"] == 1
        and min(kernel[2:]) >= LEAST_CHANNELS
        and not any(size % LINE for size in kernel[2:])
        and max(kernel[2:]) <= host().scratch_bytes // MOST_BYTES
        and 2 * math.prod(out) >= math.prod(tiles_over(out)) * OUT**2
    )


def tiles_over(out: Sequence[int]) -> tuple[int, int]:
    """Return how many tiles cover results of this height and width, down and across."""
    return -(-out[0] // OUT), -(-out[1] // OUT)


def spread(floats: int) -> int:
    """Return the distance of 36 arrays that are written side by side.

    An odd number of cache lines: an even one lets them meet in few of the cache's sets.
    """
    return floats + LINE if floats // LINE % 2 == 0 else floats


def row_pitch(channels: int) -> int:
    """Return the distance of two tiles' channels, of which a product reads several together."""
    return spread(channels) if channels >= 8 * LINE else channels


def _private_tiles(floats_a_tile: int, least: int, unit: int = 1) -> int:
    """Return how many tiles a core's scratchpad holds, whole units, or 0 if less than ``least``."""
    room = host().scratch_bytes * 7 // 8 - POSITIONS * 2 * 4 * LINE
    tiles = room // (POSITIONS * 4 * floats_a_tile)
    return tiles // unit * unit if tiles >= least else 0


def _shared_tiles(floats_a_tile: int, least: int) -> int:
    """Return how many tiles of a shared block its part of the last cache holds."""
    room = host().l3_bytes * host().cores // CACHE_SHARE
    return max(room // (POSITIONS * 4 * floats_a_tile), least)


def correlation(
    images: tuple[int, ...],
    out: tuple[int, int],
    filters: int,
    before: tuple[int, int],
    kernel_steps: tuple[int, int, int, int, int],
    lanes: int,
    rows: int,
    bias: bool = False,
    relu: bool = False,
) -> tuple[tuple[int, ...], int, int]:
    """Return the numbers of a forward pass or data gradient, its workspace, its operations.

    ``kernel_steps``: where the first tap stands in the kernel, then the elements between its
    rows, columns, channels, filters. ``rows`` and ``lanes``: the product's register block.
    """
    n, height, width, channels = images
    high, wide = tiles_over(out)
    tiles = n * high * wide
    pitch = row_pitch(channels)
    panels = -(-filters // lanes)
    # whole panels, as what is multiplied begins with one
    cut = even(panels, max(FILTERS // lanes, 1)) * lanes
    block = min(_private_tiles(pitch + cut, LEAST_ROWS * rows, rows), max(tiles, 1))
    shared = not block
    if shared:
        block = even(tiles, _shared_tiles(pitch + filters, LEAST_IMAGES))
        # more than 36 units, so that cores that don't divide 36 have something to do
        cut = even(panels, 8) * lanes
    image_step, result_step = spread(block * pitch), spread(block * (filters if shared else cut))
    window_step = spread(panels * lanes * channels)
    flops = 2 * POSITIONS * channels * filters * tiles
    blocks = convolution_blocks(host(), dispatch.selected())
    ints = (
        max(1, flops // CORE_FLOPS),
        n,
        height,
        width,
        channels,
        filters,
        *out,
        *before,
        high,
        wide,
        tiles,
        *kernel_steps,
        lanes,
        block,
        pitch,
        image_step,
        result_step,
        window_step,
        cut,
        even(channels // LINE, max(blocks.panel_bytes // (lanes * 4 * LINE), 1)) * LINE,
        _row_cut(pitch, rows),
        int(shared),
        int(bias),
        int(relu),
    )
    floats = POSITIONS * (window_step + (image_step + result_step if shared else 0))
    return ints, floats * 4, flops


def _row_cut(pitch: int, rows: int) -> int:
    """Return how many tiles a product takes at a time: what stays in half the scratchpad."""
    return max(host().scratch_bytes // 2 // (4 * pitch) // rows, 1) * rows


def contraction(node: Node, lanes: int) -> tuple[tuple[int, ...], int, int]:
    """Return the numbers of a weight gradient, its workspace in bytes, and its operations."""
    x, g = node.inputs[0].spec.shape, node.inputs[1].spec.shape
    (n, height, width, channels), (_, *out, filters) = x, g
    padding = node.attrs["padding"]
    high, wide = tiles_over(out)
    tiles = n * high * wide
    pitch = row_pitch(channels)
    panel_floats = -(-filters // lanes) * lanes
    sums = POSITIONS * channels * filters
    block = min(_private_tiles(pitch + panel_floats, LEAST_SUMMED), max(tiles, 1))
    shared = not block or sums * 4 > PART_BYTES
    if shared:
        block, parts = even(tiles, _shared_tiles(pitch + panel_floats, LEAST_GRADIENTS)), 1
    else:
        parts = max(1, min(16, tiles // (4 * block)))
    image_step, gradient_step = spread(block * pitch), spread(block * panel_floats)
    flops = 2 * tiles * sums
    ints = (
        max(1, flops // CORE_FLOPS),
        n,
        height,
        width,
        channels,
        filters,
        *out,
        padding[0][0],
        padding[1][0],
        high,
        wide,
        tiles,
        lanes,
        block,
        pitch,
        image_step,
        gradient_step,
        parts,
        int(shared),
    )
    floats = parts * sums + (POSITIONS * (image_step + gradient_step) if shared else 0)
    return ints, floats * 4, flops
