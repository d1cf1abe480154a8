"""Convolution and its data gradient: a gathered product per tile of the image.

A tile is a block of results: some images, rows and columns. Its input, with the border
and a chunk of the channels, is copied to scratchpad, unless no window leaves the image:
then it is read in place. All taps are then constant distances from a pixel, and the tile
is one product of gathered operands (``tile/convolution.h``) for each panel of filters.

Images in bfloat16 are always copied, and expanded to float32 on the way, as weights are when
they are packed. A tile of results is summed in scratchpad then, and rounded when it is whole:
``take_sums`` and ``round_sums``.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from uniflexflow._core.convolution_tile cimport (
    Block, copy_block, lanes, padded, place_pixels, uff_convolution, uff_convolution_kernels,
    uff_gathered_product,
)
from uniflexflow._core.core cimport (
    uff_arg, uff_first_piece, uff_instruction, uff_next_piece, uff_share, uff_slave,
    uff_spawn_together, uff_sync, uff_take, uff_team,
)
from uniflexflow._core.dispatch cimport kernels
from uniflexflow._core.window cimport Window, even, parts

from uniflexflow._core import (
    convolution_gradient, convolution_narrow, convolution_plan, gemm, grouped, winograd,
)
from uniflexflow.plan.kernel_call import KernelCall


cdef enum:
    WIDE_PIXEL = 512         # bytes of a pixel from which a tile keeps pixels apart
    MAX_PIXELS = 512         # results in one tile
    CLEARED_BYTES = 256 * 1024  # a tile's part of the image if it is cleared before
    MAX_TILE = 160 * 1024    # bytes of a tile's input; less if the scratchpad is smaller
    NARROW_PIXELS = 256      # results in one tile if they are rounded
    SUM_BYTES = 64 * 1024    # their sums before


# The numbers of ``convolution_plan.correlation``, in its order.
cdef struct Head:
    int64_t num_windows, cores, size, lanes, n, height, width, groups, channels, filters
    int64_t image_size
    int64_t row_step, column_step, channel_step, filter_step, group_step  # of the kernel
    int64_t has_bias, relu
    int64_t narrow  # operands and results are bfloat16; size is that of float32
    int64_t block_rows, block_columns, y_height, y_width  # see clear_blocks; or 0


cdef struct Job:
    const Head *head
    const Window *windows
    const char *x
    const char *kernel
    const char *bias
    char *y
    char *packed
    int num_cores
    size_t scratch_bytes


# One tile: some results of one window and group, of panels from the first on.
cdef struct Tile:
    int64_t group, first_panel, n0, r0, c0, images, rows, columns


# Where the sums of a tile are made, if they are rounded when it is whole.
cdef struct Sums:
    char *at           # NULL: they are made in place
    int64_t *places    # of a pixel's sums
    const char *bias   # of all groups, in the dtype of the sums, or NULL


# How one window's results are cut into tiles.
cdef struct Cut:
    bint in_place
    int64_t sh, sw, pitch  # steps of windows, and the distance of pixels, in a copied tile
    int64_t images, rows, columns, panels
    int64_t across_images, across_rows, across_columns, across_panels, total


cdef void correlate(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Job job
    job.head = <const Head *>ins.ints
    job.windows = <const Window *>(ins.ints + sizeof(Head) // sizeof(int64_t))
    job.y = <char *>uff_arg(ins, 0)
    job.x = <const char *>uff_arg(ins, 1)
    job.kernel = <const char *>uff_arg(ins, 2)
    job.bias = <const char *>uff_arg(ins, 3) if job.head.has_bias else NULL
    job.packed = <char *>uff_arg(ins, 3 + job.head.has_bias)
    job.num_cores = <int>min(job.head.cores, <int64_t>team.num_cores)
    job.scratch_bytes = team.scratch_bytes
    uff_spawn_together(team, job.num_cores, correlate_core, &job)


cdef void correlate_core(uff_slave *self, void *arg) noexcept nogil:
    cdef const Job *job = <const Job *>arg
    cdef int64_t w
    for w in range(job.head.num_windows):
        pack_kernel(self, job, &job.windows[w])
    uff_sync(self)
    for w in range(job.head.num_windows):
        run_window(self, job, &job.windows[w])


cdef void pack_kernel(uff_slave *self, const Job *job, const Window *w) noexcept nogil:
    """Pack this core's share of a window's weights: group, chunk, panel, tap, channel, lane."""
    cdef const Head *h = job.head
    cdef const uff_convolution_kernels *tile = uff_convolution(kernels)
    cdef int64_t panels = parts(h.filters, h.lanes), chunks = parts(h.channels, w.chunk)
    cdef int64_t taps = w.kh * w.kw, lo, hi, unit, group, c0, length, f0, width, i, j
    cdef const char *src
    cdef char *dst
    uff_share(self, h.groups * chunks * panels if taps else 0, &lo, &hi)
    for unit in range(lo, hi):
        group = unit // (chunks * panels)
        c0 = unit // panels % chunks * w.chunk
        f0 = unit % panels * h.lanes
        length = min(w.chunk, h.channels - c0)
        width = min(h.lanes, h.filters - f0)
        dst = job.packed + h.size * (
            w.packed + (group * h.channels + c0) * taps * panels * h.lanes + f0 * taps * length)
        for i in range(w.kh):
            for j in range(w.kw):
                src = job.kernel + (2 if h.narrow else h.size) * (
                    (w.tap_row + i * w.tap_row_step) * h.row_step
                    + (w.tap_column + j * w.tap_column_step) * h.column_step
                    + group * h.group_step + c0 * h.channel_step + f0 * h.filter_step)
                if h.narrow:
                    tile.pack_bf16(length, width, src, h.channel_step, h.filter_step, dst)
                elif h.size == 4:
                    tile.pack_f32(length, width, src, h.channel_step, h.filter_step, dst)
                else:
                    tile.pack_f64(length, width, src, h.channel_step, h.filter_step, dst)
                dst += h.size * length * h.lanes


cdef Cut cut_window(const Job *job, const Window *w) noexcept nogil:
    """Choose tiles: as large as the scratchpad allows, enough of them for all cores.

    This cut changes no result: each element is summed by one core, in the order of the
    chunks and taps.
    """
    cdef const Head *h = job.head
    cdef Cut cut
    cdef int64_t span_h = (w.kh - 1) * w.dh + 1 if w.kh else 1
    cdef int64_t span_w = (w.kw - 1) * w.dw + 1 if w.kw else 1
    cdef int64_t used = 2 * MAX_PIXELS * sizeof(int64_t) + 4 * w.kh * w.kw * w.chunk + 1024
    cdef int64_t room, across, most = MAX_PIXELS
    if h.narrow:
        most = NARROW_PIXELS
        used += SUM_BYTES + (MAX_PIXELS + h.groups * h.filters) * 8
    if h.block_rows:
        most = min(most, max(CLEARED_BYTES // max(
            h.block_rows * h.block_columns * h.filters * h.size, <int64_t>1), <int64_t>64))
    cut.pitch = padded(w.chunk, h.size, WIDE_PIXEL)
    # a window of one pixel needs no pixels between those that it meets
    cut.sh = w.sh if w.kh > 1 else 1
    cut.sw = w.sw if w.kw > 1 else 1
    room = (min(<int64_t>job.scratch_bytes - used, <int64_t>MAX_TILE)
            // (cut.pitch * h.size))  # pixels
    # no border, and a tile's pixels are neighbours in memory too
    cut.in_place = (not h.narrow and w.top <= 0 and w.left <= 0 and w.chunk == h.groups * h.channels
                    and cut.sh == w.sh and cut.sw == w.sw
                    and (w.oh - 1) * w.sh - w.top + span_h <= h.height
                    and (w.ow - 1) * w.sw - w.left + span_w <= h.width)
    cut.columns = even(w.ow, min(most, (room // span_h - span_w) // cut.sw + 1))
    across = (cut.columns - 1) * cut.sw + span_w
    cut.rows = even(w.oh, min(most // cut.columns,
                              (room // across - span_h) // cut.sh + 1))
    cut.images = 1
    if cut.rows == w.oh and cut.columns == w.ow:
        across *= (cut.rows - 1) * cut.sh + span_h
        cut.images = even(h.n, min(most // (w.oh * w.ow), room // across))
    cut.panels = parts(h.filters, h.lanes)
    if h.narrow:
        across = cut.images * cut.rows * cut.columns * h.lanes * sizeof(float)
        cut.panels = even(cut.panels, SUM_BYTES // max(across, <int64_t>1))
    count_tiles(&cut, h, w)
    while cut.total < 4 * job.num_cores and job.num_cores > 1:
        if cut.images > 1:
            cut.images = parts(cut.images, 2)
        elif cut.rows * cut.columns > 64 and cut.rows > 1:
            cut.rows = parts(cut.rows, 2)
        elif cut.panels > 1:
            cut.panels = parts(cut.panels, 2)
        else:
            break
        count_tiles(&cut, h, w)
    return cut


cdef inline void count_tiles(Cut *cut, const Head *h, const Window *w) noexcept nogil:
    cut.across_images = parts(h.n, cut.images)
    cut.across_rows = parts(w.oh, cut.rows)
    cut.across_columns = parts(w.ow, cut.columns)
    cut.across_panels = parts(parts(h.filters, h.lanes), max(cut.panels, <int64_t>1))
    cut.total = (h.groups * cut.across_images * cut.across_rows * cut.across_columns
                 * cut.across_panels)


cdef Tile take_tile(const Head *h, const Window *w, const Cut *cut, int64_t t) noexcept nogil:
    cdef Tile of_y
    of_y.first_panel = t % cut.across_panels * cut.panels
    t //= cut.across_panels
    of_y.c0 = t % cut.across_columns * cut.columns
    t //= cut.across_columns
    of_y.r0 = t % cut.across_rows * cut.rows
    t //= cut.across_rows
    of_y.n0 = t % cut.across_images * cut.images
    of_y.group = t // cut.across_images
    of_y.images = min(cut.images, h.n - of_y.n0)
    of_y.rows = min(cut.rows, w.oh - of_y.r0)
    of_y.columns = min(cut.columns, w.ow - of_y.c0)
    return of_y


cdef Sums take_sums(uff_slave *self, const Job *job, int64_t pitch) noexcept nogil:
    """Room for the sums of a tile in bfloat16, and the bias expanded; float32 needs neither."""
    cdef const Head *h = job.head
    cdef int64_t i, filters = h.groups * h.filters
    cdef Sums sums
    cdef char *bias
    sums.at, sums.places, sums.bias = NULL, NULL, job.bias
    if not h.narrow:
        return sums
    sums.at = <char *>uff_take(self, SUM_BYTES)
    sums.places = <int64_t *>uff_take(self, NARROW_PIXELS * sizeof(int64_t))
    for i in range(NARROW_PIXELS):
        sums.places[i] = i * pitch
    if job.bias != NULL:
        bias = <char *>uff_take(self, filters * sizeof(float))
        uff_convolution(kernels).expand(filters, job.bias, bias)
        sums.bias = bias
    return sums


cdef void round_sums(const Sums *sums, const uff_gathered_product *p, const int64_t *places,
                     char *y) noexcept nogil:
    """Round a tile that is whole to where its results belong."""
    cdef int64_t i
    for i in range(p.m):
        uff_convolution(kernels).narrow(
            p.n, sums.at + sums.places[i] * <int64_t>sizeof(float), y + places[i] * 2)


cdef void run_window(uff_slave *self, const Job *job, const Window *w) noexcept nogil:
    cdef const Head *h = job.head
    cdef const uff_convolution_kernels *tile = uff_convolution(kernels)
    cdef Cut cut = cut_window(job, w)
    cdef size_t start = self.scratch_used
    cdef int64_t *places = <int64_t *>uff_take(self, 2 * MAX_PIXELS * sizeof(int64_t))
    cdef int64_t *rows = places + MAX_PIXELS
    cdef int64_t taps = w.kh * w.kw, panels = parts(h.filters, h.lanes)
    cdef int32_t *cols = <int32_t *>uff_take(self, max(taps * w.chunk, <int64_t>1) * 4)
    cdef int64_t span_h = (w.kh - 1) * w.dh + 1 if w.kh else 1
    cdef int64_t span_w = (w.kw - 1) * w.dw + 1 if w.kw else 1
    cdef int64_t pitch = h.groups * h.channels  # elements of one pixel
    cdef int64_t t, chunk0, length, high, wide, step, f0
    cdef int64_t was_images = -1, was_rows = -1, was_columns = -1, was_length = -1, was_wide = -1
    cdef char *buffer = NULL
    cdef int64_t x_size = 2 if h.narrow else h.size
    cdef char *y
    cdef Sums sums = take_sums(self, job, cut.panels * h.lanes)
    cdef Tile of_y
    cdef Block block
    cdef uff_gathered_product p
    block.row_step = w.sh // cut.sh
    block.column_step = w.sw // cut.sw
    if not cut.in_place and taps:
        buffer = <char *>uff_take(
            self, cut.pitch * h.size * cut.images * ((cut.rows - 1) * cut.sh + span_h)
            * ((cut.columns - 1) * cut.sw + span_w))
    p.rows = rows
    p.cols = cols
    p.places = sums.places if sums.at else places
    p.b_step = p.c_panel = h.lanes
    p.ahead[0].runs = p.ahead[1].runs = 0
    t = uff_first_piece(self, cut.total)
    while t >= 0:
        of_y = take_tile(h, w, &cut, t)
        f0 = of_y.group * h.filters + of_y.first_panel * h.lanes
        p.m = of_y.images * of_y.rows * of_y.columns
        p.n = min(cut.panels * h.lanes, h.filters - of_y.first_panel * h.lanes)
        y = job.y + x_size * (of_y.n0 * h.image_size + w.place + of_y.r0 * w.y_row
                              + of_y.c0 * w.y_column + f0)
        p.c = sums.at if sums.at else y
        if h.block_rows:
            clear_blocks(h, w, &of_y, y - w.place * x_size, p.n * x_size)
        chunk0 = 0
        while True:
            length = min(w.chunk, h.channels - chunk0) if taps else 0
            if cut.in_place or not taps:
                p.a = job.x + h.size * (
                    ((of_y.n0 * h.height + of_y.r0 * w.sh - w.top) * h.width
                     + of_y.c0 * w.sw - w.left) * pitch + of_y.group * h.channels + chunk0)
                high, wide, step = h.height, h.width, pitch
            else:
                block.n0, block.images = of_y.n0, of_y.images
                block.row0, block.column0 = of_y.r0 * w.sh - w.top, of_y.c0 * w.sw - w.left
                block.high = high = (of_y.rows - 1) * cut.sh + span_h
                block.wide = wide = (of_y.columns - 1) * cut.sw + span_w
                step = padded(length, h.size, WIDE_PIXEL)
                copy_block(job.x + x_size * (of_y.group * h.channels + chunk0), h.size, h.narrow,
                           h.height, h.width, pitch, &block, length, step, buffer)
                p.a = buffer
            if (of_y.images != was_images or of_y.rows != was_rows or of_y.columns != was_columns
                    or length != was_length or wide != was_wide):
                was_images, was_rows, was_columns = of_y.images, of_y.rows, of_y.columns
                place_pixels(rows, places, was_images, was_rows, was_columns, high * wide * step,
                             cut.sh * wide * step, cut.sw * step, h.image_size, w.y_row,
                             w.y_column)
                place_taps(cols, w.kh, w.kw, length, w.dh * wide * step, w.dw * step)
                was_length, was_wide = length, wide
            p.k = taps * length
            p.b_panel = p.k * h.lanes
            p.b = job.packed + h.size * (
                w.packed + (of_y.group * h.channels + chunk0) * taps * panels * h.lanes
                + of_y.first_panel * p.b_panel)
            p.accumulate = chunk0 > 0
            p.bias = sums.bias + h.size * f0 if sums.bias != NULL and chunk0 == 0 else NULL
            chunk0 += w.chunk
            p.relu = h.relu and (chunk0 >= h.channels or not taps)
            if h.size == 4:
                tile.product_f32(&p)
            else:
                tile.product_f64(&p)
            if chunk0 >= h.channels or not taps:
                break
        if sums.at:
            round_sums(&sums, &p, places, y)
        t = uff_next_piece(self)
    self.scratch_used = start


cdef void clear_blocks(const Head *h, const Window *w, const Tile *t, char *y,
                       int64_t nbytes) noexcept nogil:
    """Write zeros over the blocks of the image in each of which one pixel is a result.

    ``y`` is where the tile's first block begins, ``nbytes`` of a pixel are the tile's; the last
    blocks reach to the end of the image.
    """
    cdef int64_t size = 2 if h.narrow else h.size
    cdef int64_t pixel = h.groups * h.filters * size
    cdef int64_t high, wide, _, r, c
    high = h.y_height if t.r0 + t.rows == w.oh else (t.r0 + t.rows) * h.block_rows
    wide = h.y_width if t.c0 + t.columns == w.ow else (t.c0 + t.columns) * h.block_columns
    high -= t.r0 * h.block_rows
    wide -= t.c0 * h.block_columns
    for _ in range(t.images):
        for r in range(high):
            if nbytes == pixel:
                memset(y + r * h.y_width * pixel, 0, wide * pixel)
                continue
            for c in range(wide):
                memset(y + (r * h.y_width + c) * pixel, 0, nbytes)
        y += h.image_size * size


cdef void place_taps(int32_t *cols, int64_t kh, int64_t kw, int64_t length, int64_t row_step,
                     int64_t column_step) noexcept nogil:
    """Where each tap's channels are, from the window's beginning."""
    cdef int64_t i, j, c, k = 0
    for i in range(kh):
        for j in range(kw):
            for c in range(length):
                cols[k] = <int32_t>(i * row_step + j * column_step + c)
                k += 1


# -- lowerings ---------------------------------------------------------------------


def _forward(node, bias, relu):
    x, k, y = node.inputs[0].spec, node.inputs[1].spec, node.outputs[0].spec
    a = node.attrs
    call = grouped.lower_forward(node, bias, relu)
    if call is not None:
        return call
    (kh, kw, channels, filters), groups = k.shape, a["groups"]
    _, oh, ow, _ = y.shape
    if convolution_plan.by_product(a, k.shape, x.shape[0] * oh * ow):
        return gemm.lower_product(node, x.shape[0] * oh * ow, filters, channels, False, False, bias,
                                  "relu" if relu else None)
    window = convolution_plan.Window(
        size=(kh, kw), strides=a["strides"], dilations=a["dilations"],
        before=(a["padding"][0][0], a["padding"][1][0]), out=(oh, ow), place=0,
        steps=(ow * filters, filters), tap=(0, 0), tap_steps=(1, 1))
    steps = (kw * channels * filters, channels * filters, filters, 1, filters // groups)
    ints, workspace, flops = convolution_plan.correlation(
        x.shape, groups, channels, filters // groups, [window], steps, oh * ow * filters,
        x.itemsize, lanes(x.itemsize), bias, relu)
    return KernelCall(f"{node.op.name}_{x.dtype}", <size_t>&correlate, ints, workspace=workspace,
                      flops=flops)


def lower_conv2d(node):
    return _forward(node, False, False)


def lower_conv2d_bias(node):
    return _forward(node, True, node.attrs["activation"] == "relu")


def lower_data_gradient(node):
    g, k, x = node.inputs[0].spec, node.inputs[1].spec, node.outputs[0].spec
    groups = node.attrs["groups"]
    call = grouped.lower_data_gradient(node)
    if call is not None:
        return call
    _, kw, channels, filters = k.shape
    pixels = g.shape[0] * g.shape[1] * g.shape[2]
    if convolution_plan.by_product(node.attrs, k.shape, pixels):
        return gemm.lower_product(node, pixels, channels, filters, False, True)
    windows = list(convolution_plan.phases(node.attrs, x.shape, k.shape))
    windows, cleared = convolution_plan.alone(windows, node.attrs["strides"], x.shape[1:3])
    # channels and filters change places
    steps = (kw * channels * filters, channels * filters, 1, filters, filters // groups)
    ints, workspace, flops = convolution_plan.correlation(
        g.shape, groups, filters // groups, channels, windows, steps,
        x.shape[1] * x.shape[2] * x.shape[3], x.itemsize, lanes(x.itemsize), cleared=cleared)
    return KernelCall(f"{node.op.name}_{x.dtype}", <size_t>&correlate, ints, workspace=workspace,
                      flops=flops)


def _first(*lowerings):
    """The first of several algorithms that applies to a node."""
    def lower(node):
        for each in lowerings:
            call = each(node)
            if call is not None:
                return call
    return lower


LOWERINGS = {
    "conv2d": _first(winograd.lower_forward, lower_conv2d),
    "conv2d_bias": _first(winograd.lower_forward, lower_conv2d_bias),
    "conv2d_data_gradient": _first(
        winograd.lower_data_gradient, convolution_narrow.lower, lower_data_gradient),
    "conv2d_weight_gradient": _first(winograd.lower_weight_gradient, convolution_gradient.lower),
}


NATIVE_BFLOAT16 = set(LOWERINGS)
WIDENED = dict.fromkeys(LOWERINGS, grouped.has)
