"""Block sizes and layouts of a convolution: what its tiled operations read as numbers.

``correlation`` describes the forward pass and the data gradient: images slid over by
windows whose weights are packed. With strides, the data gradient falls apart into
*phases*: results whose row and column have the same remainder by the strides meet the
same taps, and those form a window without stride. ``contraction`` describes the weight
gradient: a sum over pixels, cut into parts by sizes alone.

All cuts that change the order of a sum are made here, from sizes alone, never from the
number of cores. What depends on the machine comes from ``machine.blocks``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from uniflexflow._core import dispatch
from uniflexflow.ir import Node
from uniflexflow.machine import host
from uniflexflow.machine.blocks import convolution_blocks
from uniflexflow.machine.planner import ConvolutionBlocks
from uniflexflow.machine.stored import MOST_TAPS

LINE = 64  # bytes in a cache line

# Taps of a window.
MAX_TAPS = MOST_TAPS
# Below this many operations a core is not worth waking.
CORE_FLOPS = 400_000
# Where windows of one pixel are left to gemm: as measured on AVX2, see docs/design/performance.md.
POINT_PIXELS = 1024
POINT_WEIGHTS = 1 << 18
POINT_SIDE = 256
# Data gradients of images with few channels: at most so many, taps times channels that a
# scratchpad holds for a piece of a row, pixels of a piece, and rows of a band.
NARROW_CHANNELS = 4
NARROW_ROWS = 192
NARROW_PIECE = 96
NARROW_BAND = 32


def blocks_in_use() -> ConvolutionBlocks:
    """Return the blocks for this host and the kernels in use."""
    return convolution_blocks(host(), dispatch.selected())


def is_depthwise(groups: int, channels: int) -> bool:
    """Whether each channel is a group of its own: ``grouped.pyx`` has these."""
    return groups > 1 and channels == groups


def is_product(attrs: dict[str, Any], kernel: tuple[int, ...]) -> bool:
    """Whether a convolution is a product of all pixels with one matrix."""
    return (
        kernel[:2] == (1, 1)
        and attrs["strides"] == (1, 1)
        and attrs["padding"] == ((0, 0), (0, 0))
        and attrs["groups"] == 1
    )


def by_product(attrs: dict[str, Any], kernel: tuple[int, ...], pixels: int) -> bool:
    """Whether forward pass and data gradient are faster as a matrix product.

    Its packing of weights is the better one, which counts if few pixels use them.
    """
    channels, filters = kernel[2:]
    return (
        is_product(attrs, kernel) and pixels <= POINT_PIXELS and channels * filters >= POINT_WEIGHTS
    )


def gradient_by_product(attrs: dict[str, Any], kernel: tuple[int, ...]) -> bool:
    """Whether a weight gradient is faster as a matrix product.

    That packs both operands for more of the result at a time, but sums in memory.
    """
    return is_product(attrs, kernel) and min(kernel[2:]) >= POINT_SIDE


class Window(NamedTuple):
    """One window sliding over an image; one phase of a data gradient."""

    size: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    before: tuple[int, int]  # padding above and left; negative: that much is left out
    out: tuple[int, int]  # results along both axes
    place: int  # where the first result is written, and the steps to the others
    steps: tuple[int, int]
    tap: tuple[int, int]  # the kernel's tap under the window's first
    tap_steps: tuple[int, int]

    @property
    def taps(self) -> int:
        return self.size[0] * self.size[1]

    @property
    def span(self) -> int:
        """Elements of one channel under the window."""
        return math.prod((k - 1) * d + 1 if k else 0 for k, d in zip(self.size, self.dilations))


def chunk(window: Window, channels: int, itemsize: int, lanes: int) -> int:
    """Return how many channels are contracted at a time."""
    if not window.taps or not channels:
        return max(channels, 1)
    blocks = blocks_in_use()
    rows = blocks.panel_bytes // (lanes * itemsize)
    most = min(rows // window.taps, blocks.tile_bytes // (window.span * itemsize))
    if most < 1 and window.span * itemsize > blocks.tile_bytes:
        raise ValueError(
            f"convolution: a window of {window.size} with dilation {window.dilations} covers "
            f"{window.span} pixels; kernels hold at most {blocks.tile_bytes // itemsize}. Use a "
            "smaller kernel or dilation."
        )
    return even(channels, max(most, 1))


def even(total: int, most: int) -> int:
    """Return the largest part if ``total`` is cut into the fewest parts of at most ``most``."""
    return math.ceil(total / math.ceil(total / max(most, 1))) if total else 1


def phases(attrs: dict[str, Any], x: tuple[int, ...], k: tuple[int, ...]) -> Iterator[Window]:
    """Give the windows over the gradient that together make the data gradient."""
    _, height, width, channels = x
    axes = [
        list(_axis_phases(*each))
        for each in zip(
            (height, width), k[:2], attrs["strides"], attrs["padding"], attrs["dilations"]
        )
    ]
    rows, columns = axes
    steps = (attrs["strides"][0] * width * channels, attrs["strides"][1] * channels)
    for row in rows:
        for column in columns:
            yield Window(
                size=(row[1], column[1]),
                strides=(1, 1),
                dilations=(row[2], column[2]),
                before=(row[3], column[3]),
                out=(row[4], column[4]),
                place=(row[0] * width + column[0]) * channels,
                steps=steps,
                tap=(row[5], column[5]),
                tap_steps=(row[6], column[6]),
            )


def alone(
    windows: list[Window], strides: tuple[int, int], image: tuple[int, int]
) -> tuple[list[Window], tuple[int, int, int, int]]:
    """Leave out windows without taps if one alone has some: the image is zero around its results.

    Returns the windows and what ``correlation`` calls ``cleared``.
    """
    full = [w for w in windows if w.taps]
    if len(full) == 1 < len(windows) and all(full[0].out):
        return full, (*strides, *image)
    return windows, (0, 0, 0, 0)


def _axis_phases(
    size: int, window: int, stride: int, padding: tuple[int, int], dilation: int
) -> Iterator[tuple[int, ...]]:
    """Give (remainder, taps, distance, padding before, results, first tap, step) of each phase.

    Result i gets ``sum over j of g[(i + before - j * dilation) / stride] * k[j]`` over the
    taps j for which the division has no rest.
    """
    for remainder in range(min(stride, size)):
        taps = [j for j in range(window) if (remainder + padding[0] - j * dilation) % stride == 0]
        results = len(range(remainder, size, stride))
        if not taps:
            yield remainder, 0, 1, 0, results, 0, 0
            continue
        # g's place falls with j, so the window's first tap is the kernel's last
        first = (remainder + padding[0] - taps[-1] * dilation) // stride
        common = math.gcd(stride, dilation)
        yield (
            remainder,
            len(taps),
            dilation // common,
            -first,
            results,
            taps[-1],
            -(stride // common),
        )


def correlation(
    images: tuple[int, ...],
    groups: int,
    channels: int,
    filters: int,
    windows: list[Window],
    kernel_steps: tuple[int, int, int, int, int],
    image_size: int,
    itemsize: int,
    lanes: int,
    bias: bool = False,
    relu: bool = False,
    cleared: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> tuple[tuple[int, ...], int, int]:
    """Return the numbers of a correlation, its workspace in bytes, and its operations.

    ``channels`` and ``filters`` are those of one group; ``kernel_steps`` are the elements
    between the kernel's rows, columns, channels, filters and groups. ``cleared`` says that results
    stand alone in blocks of zeros: rows and columns of a block, then those of the image.
    """
    n, height, width, _ = images
    narrow, itemsize = itemsize == 2, max(itemsize, 4)  # bfloat16 is float32 in tiles and panels
    panels = math.ceil(filters / lanes)
    fields: list[int] = []
    packed = macs = 0
    for w in windows:
        macs += w.taps * channels * filters * groups * n * math.prod(w.out)
        fields += [
            *w.size,
            *w.strides,
            *w.dilations,
            *w.before,
            *w.out,
            w.place,
            *w.steps,
            *w.tap,
            *w.tap_steps,
            chunk(w, channels, itemsize, lanes),
            packed,
        ]
        packed += groups * w.taps * channels * panels * lanes
    cores = max(1, 2 * macs // CORE_FLOPS)
    head = [
        len(windows),
        cores,
        itemsize,
        lanes,
        n,
        height,
        width,
        groups,
        channels,
        filters,
        image_size,
        *kernel_steps,
        int(bias),
        int(relu),
        int(narrow),
        *cleared,
    ]
    return tuple(head + fields), packed * itemsize, 2 * macs


def contraction(node: Node, lanes: int) -> tuple[tuple[int, ...], int, int]:
    """Return the numbers of a weight gradient, its workspace in bytes, and its operations."""
    a, x, g = node.attrs, node.inputs[0].spec, node.inputs[1].spec
    (kh, kw, channels, all_filters), groups = a["shape"], a["groups"]
    (n, height, width, _), (_, oh, ow, _) = x.shape, g.shape
    filters = all_filters // groups
    size = max(x.itemsize, 4)  # bfloat16 is float32 in tiles, panels and sums
    (sh, sw), (dh, dw) = a["strides"], a["dilations"]
    strides = (sh, sw)
    span_h, span_w = (kh - 1) * dh + 1, (kw - 1) * dw + 1
    point = kh * kw == 1
    blocks = blocks_in_use()
    most_pixels, filter_bytes, most_rows = (
        (blocks.point_pixels, blocks.point_filter_bytes, blocks.point_rows)
        if point
        else (blocks.tile_pixels, blocks.filter_bytes, blocks.tile_rows)
    )
    fcut = min(filters, filter_bytes // size) or 1
    sh, sw = sh if kh > 1 else 1, sw if kw > 1 else 1  # in a tile: see copy_block
    # columns, then rows, then images in one tile, and last the channels that fit with them
    pixels = blocks.tile_bytes // size
    fitting = max(0, (pixels // span_h - span_w) // sw + 1) if pixels // span_h >= span_w else 0
    if not fitting or kh * kw > MAX_TAPS:
        raise ValueError(
            f"convolution: a window of {(kh, kw)} with dilation {(dh, dw)} is too large for the "
            f"weight gradient's kernel, which holds {pixels} pixels and {MAX_TAPS} taps. Use a "
            "smaller kernel or dilation."
        )
    whole_row = ow <= (most_pixels if point else most_pixels * 4 // 3)
    columns = even(ow, min(fitting, ow if whole_row else most_pixels))
    tile_width = (columns - 1) * sw + span_w
    fitting = (pixels // tile_width - span_h) // sh + 1
    rows = even(oh, min(fitting, most_pixels // columns))
    image = ((rows - 1) * sh + span_h) * tile_width
    count = 1
    if rows == oh and columns == ow and n:
        count = even(n, min(most_pixels // (oh * ow), pixels // image))
    fitting, line = pixels // (count * image), LINE // size
    if fitting >= 2 * line:  # from two lines on, pixels may be kept a line apart
        fitting = max(fitting - line, 2 * line - 1)
    if point:  # sums of a tile with few taps are loaded and stored often: they are kept
        fitting = max(1, min(fitting, blocks.sum_bytes // (math.ceil(fcut / lanes) * lanes * size)))
    cut = even(channels, min(most_rows // (kh * kw), fitting))
    tiles = math.ceil(n / count) * math.ceil(oh / rows) * math.ceil(ow / columns)
    cuts = groups * math.ceil(channels / cut) * math.ceil(filters / fcut)
    total = math.prod(a["shape"])
    parts = max(1, min(16, 32 // max(cuts, 1), tiles // 4, (4 << 20) // max(total * size, 1)))
    macs = total * n * oh * ow
    cores = max(1, 2 * macs // CORE_FLOPS)
    ints = (
        cores,
        size,
        lanes,
        n,
        height,
        width,
        groups,
        channels,
        filters,
        oh,
        ow,
        kh,
        kw,
        *strides,
        dh,
        dw,
        a["padding"][0][0],
        a["padding"][1][0],
        cut,
        fcut,
        count,
        rows,
        columns,
        tiles,
        parts,
        total,
        int(kh * kw * cut * math.ceil(fcut / lanes) * lanes * size <= blocks.sum_bytes),
        int(x.itemsize == 2),
    )
    workspace = parts * total * size if parts > 1 or x.itemsize == 2 else 0
    return ints, workspace, 2 * macs


def narrow(node: Node, lanes: int) -> tuple[tuple[int, ...], int] | None:
    """Return the numbers of a data gradient of few channels, and its operations.

    None if its channels are not few, or scratchpad could not hold what it needs.
    """
    a, g, x = node.attrs, node.inputs[0].spec, node.outputs[0].spec
    kh, kw, channels, filters = node.inputs[1].shape
    if a["groups"] > 1 or not 1 <= channels <= NARROW_CHANNELS:
        return None
    if x.dtype == "bfloat16":  # the sums in the image would have to be float32
        return None
    (n, oh, ow, _), (_, height, width, _) = g.shape, x.shape
    (sh, sw), (dh, dw) = a["strides"], a["dilations"]
    size, rows, span = x.itemsize, kh * kw * channels, (kh - 1) * dh + 1
    piece = math.ceil(even(ow, NARROW_PIECE) / lanes) * lanes
    room = blocks_in_use().tile_bytes  # three eighths of the scratchpad: see machine.planner
    ring = span * channels * sw * (ow + (kw - 1) * dw // sw) * size
    if rows > NARROW_ROWS or max(rows * piece, 2 * filters * lanes) * size > room or ring > room:
        return None
    macs = n * oh * ow * rows * filters
    ints = (
        max(1, 2 * macs // CORE_FLOPS),
        size,
        lanes,
        n,
        height,
        width,
        channels,
        filters,
        oh,
        ow,
        kh,
        kw,
        sh,
        sw,
        dh,
        dw,
        a["padding"][0][0],
        a["padding"][1][0],
        # a band packs again the rows of g that it shares with the next
        max(NARROW_BAND, 8 * span),
        piece,
    )
    return ints, 2 * macs
