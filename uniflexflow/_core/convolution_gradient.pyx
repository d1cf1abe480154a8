"""The weight gradient of a convolution: a gathered product that sums over pixels.

A tile is a block of results with the part of the image that their windows meet, copied to
scratchpad as in ``convolution.pyx``. The gradient's pixels are packed in panels of filters;
the rows of the product are taps and channels. A sum is cut into parts by sizes alone, which
are added in order. Operands in bfloat16 are expanded where they are copied and packed; the
sums stay float32, in the workspace, until the last is added, and are rounded then.
"""

from libc.stdint cimport int32_t, int64_t, uint16_t
from libc.string cimport memcpy, memset

from uniflexflow._core.convolution_tile cimport (
    Block, UFF_AHEAD, UFF_LINE, copy_block, expect_pixels, lanes, padded, place_pixels,
    uff_convolution, uff_convolution_kernels, uff_gathered_product,
)
from uniflexflow._core.core cimport (
    uff_arg, uff_first_piece, uff_instruction, uff_next_piece, uff_share, uff_slave,
    uff_spawn_together, uff_sync, uff_take, uff_team,
)
from uniflexflow._core.dispatch cimport kernels
from uniflexflow._core.window cimport add_parts, parts

import math

from uniflexflow._core import convolution_plan, gemm, grouped_gradient
from uniflexflow.plan.kernel_call import KernelCall


cdef enum:
    ROUND_BLOCK = 512  # sums that are rounded at a time


# The numbers of ``convolution_plan.contraction``, in its order.
cdef struct Contraction:
    int64_t cores, size, lanes, n, height, width, groups, channels, filters, oh, ow
    int64_t kh, kw, sh, sw, dh, dw, top, left
    int64_t cut, filter_cut, images, rows, columns, tiles, parts, total
    int64_t keep_sums  # in scratchpad until a part is done
    int64_t narrow  # operands and result are bfloat16; size is that of float32


cdef struct Sum:
    const Contraction *shape
    const char *x
    const char *g
    char *out
    char *partial


cdef void contract(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Sum job
    job.shape = <const Contraction *>ins.ints
    job.out = <char *>uff_arg(ins, 0)
    job.x = <const char *>uff_arg(ins, 1)
    job.g = <const char *>uff_arg(ins, 2)
    job.partial = job.out
    if job.shape.parts > 1 or job.shape.narrow:
        job.partial = <char *>uff_arg(ins, 3)
    if job.shape.tiles == 0:
        memset(job.out, 0, job.shape.total * (2 if job.shape.narrow else job.shape.size))
        return
    uff_spawn_together(
        team, min(job.shape.cores, <int64_t>team.num_cores), contract_core, &job)


cdef void contract_core(uff_slave *self, void *arg) noexcept nogil:
    cdef const Sum *job = <const Sum *>arg
    cdef const Contraction *s = job.shape
    cdef int64_t cuts = parts(s.channels, s.cut), filter_cuts = parts(s.filters, s.filter_cut)
    cdef int64_t lo, hi, unit, rest, part, group, c0, f0
    cdef size_t start = self.scratch_used
    unit = uff_first_piece(self, s.parts * s.groups * cuts * filter_cuts)
    while unit >= 0:
        f0 = unit % filter_cuts * s.filter_cut
        rest = unit // filter_cuts
        c0 = rest % cuts * s.cut
        rest //= cuts
        group = rest % s.groups
        part = rest // s.groups
        contract_block(self, job, part, group, c0, f0)
        self.scratch_used = start
        unit = uff_next_piece(self)
    if s.parts > 1 or s.narrow:
        uff_sync(self)
        uff_share(self, s.total, &lo, &hi)
        if s.narrow:
            round_parts(<uint16_t *>job.out, <const float *>job.partial, s.parts, s.total, lo, hi)
        elif s.size == 4:
            add_parts[float](<float *>job.out, <const float *>job.partial, s.parts, s.total, lo, hi)
        else:
            add_parts[double](<double *>job.out, <const double *>job.partial, s.parts, s.total, lo,
                              hi)


cdef void take_tile(const Contraction *s, int64_t t, Block *of_x, Block *of_g) noexcept nogil:
    """Tile number ``t``: its results, and the block of the image under their windows."""
    cdef int64_t across_columns = parts(s.ow, s.columns), across_rows = parts(s.oh, s.rows)
    # a window of one pixel needs no pixels between those that it meets
    cdef int64_t sh = s.sh if s.kh > 1 else 1, sw = s.sw if s.kw > 1 else 1
    of_g.column0 = t % across_columns * s.columns
    of_g.row0 = t // across_columns % across_rows * s.rows
    of_g.n0 = t // (across_columns * across_rows) * s.images
    of_g.images = min(s.images, s.n - of_g.n0)
    of_g.high = min(s.rows, s.oh - of_g.row0)
    of_g.wide = min(s.columns, s.ow - of_g.column0)
    of_g.row_step = of_g.column_step = 1
    of_x.n0, of_x.images = of_g.n0, of_g.images
    of_x.row0, of_x.column0 = of_g.row0 * s.sh - s.top, of_g.column0 * s.sw - s.left
    of_x.high = (of_g.high - 1) * sh + (s.kh - 1) * s.dh + 1
    of_x.wide = (of_g.wide - 1) * sw + (s.kw - 1) * s.dw + 1
    of_x.row_step, of_x.column_step = s.sh // sh, s.sw // sw


cdef void round_parts(uint16_t *out, const float *partial, int64_t count, int64_t total,
                      int64_t lo, int64_t hi) noexcept nogil:
    """``add_parts`` with a result in bfloat16."""
    cdef float[ROUND_BLOCK] sums
    cdef int64_t at, n, part, i
    at = lo
    while at < hi:
        n = min(<int64_t>ROUND_BLOCK, hi - at)
        memcpy(sums, partial + at, n * sizeof(float))
        for part in range(1, count):
            for i in range(n):
                sums[i] += partial[part * total + at + i]
        uff_convolution(kernels).narrow(n, sums, out + at)
        at += n


cdef void contract_block(uff_slave *self, const Sum *job, int64_t part, int64_t group, int64_t c0,
                         int64_t f0) noexcept nogil:
    """Sum one part's pixels into the block of some channels and filters, tile after tile."""
    cdef const Contraction *s = job.shape
    cdef const uff_convolution_kernels *tile = uff_convolution(kernels)
    cdef int64_t length = min(s.cut, s.channels - c0), filters = min(s.filter_cut, s.filters - f0)
    cdef int64_t all_filters = s.groups * s.filters, taps = s.kh * s.kw
    cdef int64_t x_size = 2 if s.narrow else s.size
    cdef int64_t pitch = s.groups * s.channels
    cdef int64_t span_h = (s.kh - 1) * s.dh + 1, span_w = (s.kw - 1) * s.dw + 1
    cdef int64_t most = s.images * s.rows * s.columns, panels = parts(filters, s.lanes)
    cdef int64_t sh = s.sh if s.kh > 1 else 1, sw = s.sw if s.kw > 1 else 1
    cdef int64_t *rows = <int64_t *>uff_take(self, 2 * taps * length * sizeof(int64_t))
    cdef int64_t *places = rows + taps * length
    cdef int64_t *pixels = <int64_t *>uff_take(self, 2 * most * sizeof(int64_t))
    cdef int64_t *sources = pixels + most
    cdef int32_t *cols = <int32_t *>uff_take(self, most * sizeof(int32_t))
    # narrow pixels without a border stay where they are
    cdef bint in_place = (not s.narrow and s.top <= 0 and s.left <= 0 and length == pitch
                          and length * s.size < UFF_LINE
                          and (s.oh - 1) * s.sh + span_h - s.top <= s.height
                          and (s.ow - 1) * s.sw + span_w - s.left <= s.width)
    # rows of g that are whole panels can be read where they are; worth it for few products, or
    # if g is one panel, packed as it is
    cdef bint g_in_place = not s.narrow and s.columns == s.ow and filters % s.lanes == 0 and (
        taps * length <= 64 or all_filters == s.lanes)
    cdef char *buffer = NULL
    cdef char *packed = NULL
    cdef char *sums = NULL
    cdef char *out = job.partial + s.size * (
        part * s.total + c0 * all_filters + group * s.filters + f0)
    cdef int64_t t, high, wide, step, i, j, c, k, pieces
    cdef int64_t was_images = -1, was_rows = -1, was_columns = -1
    cdef int64_t first = s.tiles * part // s.parts, last = s.tiles * (part + 1) // s.parts
    cdef int64_t blocks = parts(taps * length, tile.rows_f32) * panels
    cdef const char *x = job.x + x_size * (group * s.channels + c0)
    cdef const char *g = job.g + x_size * (group * s.filters + f0)
    cdef const char *place
    cdef Block of_x, of_g  # the tile's part of both
    cdef uff_gathered_product p
    step = padded(length, s.size, 2 * UFF_LINE)
    if not in_place:
        buffer = <char *>uff_take(self, step * s.size * s.images * ((s.rows - 1) * sh + span_h)
                                  * ((s.columns - 1) * sw + span_w))
    if not g_in_place:
        packed = <char *>uff_take(self, most * panels * s.lanes * s.size)
    if s.keep_sums:
        sums = <char *>uff_take(self, taps * length * panels * s.lanes * s.size)
    p.m = taps * length
    p.n = filters
    p.rows = rows
    p.cols = cols
    p.places = places
    p.bias = NULL
    p.relu = 0
    # kept sums lie in panels: a block's rows are then one run of memory
    p.c = sums if s.keep_sums else out
    p.c_panel = taps * length * s.lanes if s.keep_sums else s.lanes
    k = 0
    for i in range(taps):
        for c in range(length):
            places[k] = k * s.lanes if s.keep_sums else (i * s.channels + c) * all_filters
            k += 1
    p.ahead[0].runs = p.ahead[1].runs = 0
    take_tile(s, first, &of_x, &of_g)
    for t in range(first, last):
        p.k = of_g.images * of_g.high * of_g.wide
        if in_place:
            high, wide, step = s.height, s.width, pitch
            sh, sw = s.sh, s.sw
            p.a = x + s.size * pitch * (
                (of_x.n0 * s.height + of_x.row0) * s.width + of_x.column0)
        else:
            high, wide = of_x.high, of_x.wide
            copy_block(x, s.size, s.narrow, s.height, s.width, pitch, &of_x, length, step,
                       buffer)
            p.a = buffer
        if of_g.images != was_images or of_g.high != was_rows or of_g.wide != was_columns:
            was_images, was_rows, was_columns = of_g.images, of_g.high, of_g.wide
            place_pixels(pixels, sources, was_images, was_rows, was_columns, high * wide * step,
                         sh * wide * step, sw * step, s.oh * s.ow * all_filters,
                         s.ow * all_filters, all_filters)
            for k in range(p.k):
                cols[k] = <int32_t>pixels[k]
            k = 0
            for i in range(s.kh):
                for j in range(s.kw):
                    for c in range(length):
                        rows[k] = (i * s.dh * wide + j * s.dw) * step + c
                        k += 1
        place = g + x_size * all_filters * ((of_g.n0 * s.oh + of_g.row0) * s.ow + of_g.column0)
        if g_in_place:
            p.b = place
            p.b_step = all_filters
            p.b_panel = s.lanes
        else:
            if s.narrow:
                tile.gather_bf16(p.k, filters, place, sources, packed)
            elif s.size == 4:
                tile.gather_f32(p.k, filters, place, sources, packed)
            else:
                tile.gather_f64(p.k, filters, place, sources, packed)
            p.b = packed
            p.b_step = s.lanes
            p.b_panel = p.k * s.lanes
        p.accumulate = t > first
        if t + 1 < last:
            pieces = blocks * parts(p.k, UFF_AHEAD)
            take_tile(s, t + 1, &of_x, &of_g)
            expect_pixels(&p.ahead[0], x, x_size, s.height, s.width, pitch, &of_x, length,
                          pieces)
            expect_pixels(&p.ahead[1], g, x_size, s.oh, s.ow, all_filters, &of_g, filters,
                          pieces)
        else:
            p.ahead[0].runs = p.ahead[1].runs = 0
        if s.size == 4:
            tile.product_f32(&p)
        else:
            tile.product_f64(&p)
    if s.keep_sums:
        for i in range(taps):
            for c in range(length):
                for j in range(panels):
                    memcpy(out + ((i * s.channels + c) * all_filters + j * s.lanes) * s.size,
                           sums + (j * taps * length + i * length + c) * s.lanes * s.size,
                           min(s.lanes, filters - j * s.lanes) * s.size)


# -- lowering ------------------------------------------------------------------------


def lower(node):
    """Lower ``conv2d_weight_gradient``."""
    x = node.inputs[0].spec
    call = grouped_gradient.lower(node)
    if call is not None:
        return call
    shape, pixels = node.attrs["shape"], node.inputs[1].shape[:3]
    if convolution_plan.gradient_by_product(node.attrs, shape):
        return gemm.lower_product(node, shape[2], shape[3], math.prod(pixels), True, False)
    ints, workspace, flops = convolution_plan.contraction(node, lanes(x.itemsize))
    return KernelCall(f"{node.op.name}_{x.dtype}", <size_t>&contract, ints, workspace=workspace,
                      flops=flops)
