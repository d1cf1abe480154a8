"""Depthwise and grouped convolutions: which kernels have them, and how they are cut.

A *form* says how the lanes of a vector of filters see the channels (``tile/grouped.h``). Results
are computed along strips of rows; what a core keeps in scratchpad, tables of pixels and, where
channels are spread over several filters, rows of copies, bounds a strip's width. Vectors of
filters are taken as many at a time as have their weights in half of the first-level cache.

No cut changes the order of a sum, except for the parts of a weight gradient, which come from
sizes alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from uniflexflow._core import convolution_plan
from uniflexflow.ir import Node
from uniflexflow.machine import host

BROADCAST, LANEWISE = 0, 1
SHUFFLED = (2, 4, 8)  # groups of so many channels share a vector
PIXELS = 8  # results in a block, at most

TABLE_BYTES = 48 << 10  # addresses of the pixels of a strip
PIXEL_BYTES = 32 << 10  # a pixel of zeros
STAGE_BYTES = 96 << 10  # rows of copies
STAGE_COLUMNS = 32  # results of a strip whose rows are copied
DEEP = 16  # channels of a group from which a weight gradient is better gathered
MOST_PARTS = 16
PART_BYTES = 4 << 20  # all parts of a weight gradient


@dataclass(frozen=True, slots=True)
class Roles:
    """A convolution as its kernel sees it: the data gradient has the operands' roles turned."""

    form: int
    depth: int  # channels that a filter sees
    groups: int  # of filters in neighbouring vectors: 1 where groups share a vector
    group_filters: int  # at least a vector
    spread: int  # each channel of the image is copied to so many
    fold: int  # so many neighbouring filters are added up
    filters: int  # all
    members: int  # filters in a group of the convolution

    def per_group(self, lanes: int) -> int:
        return math.ceil(self.group_filters / lanes)

    def vectors(self, lanes: int) -> int:
        return self.groups * self.per_group(lanes)

    def staged(self, lanes: int) -> bool:
        """Whether the rows of the image are copied before windows read them."""
        return self.spread > 1 or self.filters < lanes


def roles(groups: int, channels: int, filters: int, back: bool, lanes: int) -> Roles | None:
    """Return the roles of all channels and filters; None if no form has such groups."""
    if convolution_plan.is_depthwise(groups, channels):
        multiplier = filters // groups
        spread, fold = (1, multiplier) if back else (multiplier, 1)
        wide = max(filters, lanes)
        return Roles(LANEWISE, 1, 1, wide, spread, fold, filters, wide) if filters else None
    if groups == 1 or not channels or not filters:
        return None
    depth, members = channels // groups, filters // groups
    if back:
        depth, members, filters = members, depth, channels
    if members >= lanes:
        return Roles(BROADCAST, depth, groups, members, 1, 1, filters, members)
    if depth == members and members in SHUFFLED and filters >= lanes:
        return Roles(members, depth, 1, filters, 1, 1, filters, members)
    return None


def weight_roles(groups: int, channels: int, filters: int, lanes: int) -> Roles | None:
    """Return the roles in a weight gradient; None also where a gathered product is faster."""
    part = roles(groups, channels, filters, False, lanes)
    return None if part is not None and part.form == BROADCAST and part.depth >= DEEP else part


@dataclass(frozen=True, slots=True)
class Cut:
    """How a convolution is cut: results of a strip, and vectors of filters at a time."""

    strip: int
    chunk: int


def cut(
    part: Roles, windows: list[convolution_plan.Window], pixel: int, itemsize: int, lanes: int
) -> Cut | None:
    """Return the cut of an image whose pixels have so many elements; None if it has no room."""
    vector = lanes * itemsize
    taps = max(w.taps for w in windows)
    chunk = max(1, host().l1d_bytes * 3 // 8 // ((1 + taps * part.depth) * vector))
    high = max([(w.size[0] - 1) * w.dilations[0] + 1 for w in windows if w.taps], default=1)
    wide = max([(w.size[1] - 1) * w.dilations[1] + 1 for w in windows if w.taps], default=1)
    step = max(w.strides[1] for w in windows)
    columns = max(w.out[1] for w in windows)
    strip = (TABLE_BYTES // (8 * high) - wide) // step + 1
    if strip < PIXELS or pixel * itemsize > PIXEL_BYTES:
        return None
    strip = convolution_plan.even(columns, strip)
    if part.staged(lanes):
        widths = min(strip, STAGE_COLUMNS), min(strip, PIXELS)
        for strip in widths:
            pixels = high * ((max(strip, PIXELS) - 1) * step + wide)
            room = STAGE_BYTES // (pixels * vector) - 1
            if room >= part.spread:
                break
        chunk = min(chunk, room)
    if part.fold > 1:
        chunk = min(chunk, PIXEL_BYTES // (PIXELS * vector))
    together = part.spread * part.fold  # their filters begin and end with a channel's
    if together > 1:
        chunk = chunk // together * together
    return Cut(strip, chunk) if chunk > 0 else None


def parts(rows: int, total: int, itemsize: int) -> int:
    """Return into how many parts the sum of a weight gradient is cut."""
    return max(1, min(MOST_PARTS, rows // 8, PART_BYTES // max(total * itemsize, 1)))


def cores(macs: int) -> int:
    return max(1, 2 * macs // convolution_plan.CORE_FLOPS)


def forward_window(node: Node) -> convolution_plan.Window:
    """Return the window of a forward pass or a weight gradient."""
    a, filters = node.attrs, node.attrs.get("shape", node.inputs[1].shape)[3]
    size = a.get("shape", node.inputs[1].shape)[:2]
    y = node.inputs[1] if "shape" in a else node.outputs[0]
    _, oh, ow, _ = y.shape
    return convolution_plan.Window(
        size=size,
        strides=a["strides"],
        dilations=a["dilations"],
        before=(a["padding"][0][0], a["padding"][1][0]),
        out=(oh, ow),
        place=0,
        steps=(ow * filters, filters),
        tap=(0, 0),
        tap_steps=(1, 1),
    )


def correlation(
    node: Node, x: Any, y: Any, back: bool, lanes: int, bias: bool = False, relu: bool = False
) -> tuple[tuple[int, ...], int, int] | None:
    """Return the numbers of a forward pass or a data gradient, its workspace, its operations.

    ``x`` is read and ``y`` written: the gradient and the images' gradient on the way back.
    """
    k, groups = node.inputs[1].shape, node.attrs["groups"]
    kh, kw, channels, filters = k
    images = y if back else x
    part = roles(groups, images.shape[3], filters, back, lanes)
    if part is None or not kh * kw:
        return None
    windows = (
        list(convolution_plan.phases(node.attrs, y.shape, k)) if back else [forward_window(node)]
    )
    n, height, width, pixel = x.shape
    how = cut(part, windows, pixel, x.itemsize, lanes) if windows else None
    if how is None:
        return None
    vectors = part.vectors(lanes)
    if part.form == LANEWISE:
        steps = (kw * filters, filters, 0, 1, 0)
    elif back:
        steps = (kw * channels * filters, channels * filters, 1, filters, filters // groups)
    else:
        steps = (kw * channels * filters, channels * filters, filters, 1, filters // groups)
    fields: list[int] = []
    packed = macs = 0
    for w in windows:
        macs += w.taps * channels * filters * n * math.prod(w.out)
        fields += [*w.size, *w.strides, *w.dilations, *w.before, *w.out, w.place, *w.steps]
        fields += [*w.tap, *w.tap_steps, how.strip, packed]
        packed += vectors * (1 + w.taps * part.depth) * lanes
    rows, columns = (max(w.out[axis] for w in windows) for axis in range(2))
    head = (
        len(windows),
        cores(macs),
        x.itemsize,
        lanes,
        n,
        height,
        width,
        pixel,
        math.prod(y.shape[1:]),
        rows,
        math.ceil(columns / how.strip),
        part.form,
        part.depth,
        part.group_filters,
        part.per_group(lanes),
        vectors,
        part.filters,
        part.members,
        part.spread,
        part.fold,
        int(part.staged(lanes)),
        how.chunk,
        *steps,
        int(bias),
        int(relu),
    )
    return head + tuple(fields), packed * x.itemsize, 2 * macs


def contraction(node: Node, lanes: int) -> tuple[tuple[int, ...], int, int] | None:
    """Return the numbers of a weight gradient, its workspace and its operations."""
    a, x, g = node.attrs, node.inputs[0].spec, node.inputs[1].spec
    kh, kw, channels, filters = a["shape"]
    part = weight_roles(a["groups"], x.shape[3], filters, lanes)
    if part is None or not kh * kw:
        return None
    window = forward_window(node)
    how = cut(part, [window], max(x.shape[3], filters), x.itemsize, lanes)
    if how is None:
        return None
    (n, height, width, pixel), (_, oh, ow, _) = x.shape, g.shape
    vectors, strips = part.vectors(lanes), math.ceil(ow / how.strip)
    total = vectors * (1 + kh * kw * part.depth) * lanes
    count = parts(n * strips * oh, total, x.itemsize)
    macs = math.prod(a["shape"]) * n * oh * ow
    ints = (
        cores(macs),
        x.itemsize,
        lanes,
        n,
        height,
        width,
        pixel,
        oh,
        ow,
        kh,
        kw,
        *window.strides,
        *window.dilations,
        *window.before,
        how.strip,
        strips,
        part.form,
        part.depth,
        part.group_filters,
        part.per_group(lanes),
        vectors,
        filters,
        part.spread,
        int(part.staged(lanes)),
        how.chunk,
        count,
        total,
    )
    return ints, count * total * x.itemsize, 2 * macs
