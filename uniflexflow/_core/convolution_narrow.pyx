"""The data gradient of a convolution of images with few channels.

A window over the gradient would fill few lanes of its panel. So pixels of g are the lanes here,
packed in panels, and all taps and channels the rows of one product with the kernel as it lies.
What it gives for a row of g is added to rows of *planes*: one for each channel and each remainder
of a column by the stride, in which the pixels that a tap meets lie side by side, so that whole
vectors are added. The border is part of a plane. A ring of rows is in scratchpad, as many as a
window covers; a row that no further row of g meets is written to the image.

A band of the image belongs to one core; each element is summed over rows of g, taps and columns
in order, so cuts change nothing.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from uniflexflow._core.convolution_tile cimport (
    UFF_AHEAD, expect, lanes, uff_convolution, uff_convolution_kernels, uff_gathered_product,
)
from uniflexflow._core.core cimport (
    uff_arg, uff_first_piece, uff_instruction, uff_next_piece, uff_slave, uff_spawn, uff_take,
    uff_team,
)
from uniflexflow._core.dispatch cimport kernels
from uniflexflow._core.window cimport parts

from uniflexflow._core import convolution_plan
from uniflexflow.plan.kernel_call import KernelCall

ctypedef fused real:
    float
    double


# The numbers of ``convolution_plan.narrow``, in its order.
cdef struct Narrow:
    int64_t cores, size, lanes, n, height, width, channels, filters, oh, ow
    int64_t kh, kw, sh, sw, dh, dw, top, left
    int64_t band, piece  # rows of the image, and pixels of g, at a time


cdef struct Job:
    const Narrow *shape
    const char *g
    const char *kernel
    char *x


# One core's scratchpad, in elements but for the pointers.
cdef struct Room:
    char *panel      # packed pixels of g
    char *products   # of a piece: taps and channels by pixels
    char *ring
    int64_t *places  # of a column of taps and a channel, in a row of the ring
    int64_t plane, row, rows  # a plane's row, all planes' together, rows of the ring


cdef void spread(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Job job
    job.shape = <const Narrow *>ins.ints
    job.x = <char *>uff_arg(ins, 0)
    job.g = <const char *>uff_arg(ins, 1)
    job.kernel = <const char *>uff_arg(ins, 2)
    uff_spawn(team, min(job.shape.cores, <int64_t>team.num_cores), spread_core, &job)


cdef void spread_core(uff_slave *self, void *arg) noexcept nogil:
    cdef const Job *job = <const Job *>arg
    cdef const Narrow *s = job.shape
    cdef int64_t taps = s.kh * s.kw * s.channels, bands = parts(s.height, s.band)
    cdef int64_t pitch = parts(s.piece, s.lanes) * s.lanes, unit, i, j, c
    cdef int64_t *rows = <int64_t *>uff_take(self, 2 * taps * sizeof(int64_t))
    cdef int32_t *cols = <int32_t *>uff_take(self, max(s.filters, <int64_t>1) * sizeof(int32_t))
    cdef uff_gathered_product p
    cdef Room room
    room.plane = s.ow + (s.kw - 1) * s.dw // s.sw
    room.row = s.channels * s.sw * room.plane
    room.rows = (s.kh - 1) * s.dh + 1
    room.places = <int64_t *>uff_take(self, s.kw * s.channels * sizeof(int64_t))
    room.panel = <char *>uff_take(self, max(s.filters, <int64_t>1) * s.lanes * s.size)
    room.products = <char *>uff_take(self, taps * pitch * s.size)
    room.ring = <char *>uff_take(self, room.rows * room.row * s.size)
    memset(room.ring, 0, room.rows * room.row * s.size)
    for i in range(taps):
        rows[i] = i * s.filters
        rows[taps + i] = i * pitch
    for i in range(s.filters):
        cols[i] = <int32_t>i
    for j in range(s.kw):
        for c in range(s.channels):
            room.places[j * s.channels + c] = (
                (c * s.sw + j * s.dw % s.sw) * room.plane + j * s.dw // s.sw)
    p.n, p.k = s.lanes, s.filters
    p.a, p.rows, p.cols, p.places = job.kernel, rows, cols, rows + taps
    p.b, p.b_step, p.b_panel, p.c_panel = room.panel, s.lanes, 0, s.lanes
    p.bias = NULL
    p.accumulate = p.relu = 0
    p.ahead[1].runs = 0
    unit = uff_first_piece(self, s.n * bands)
    while unit >= 0:
        spread_band(job, &p, &room, unit // bands, unit % bands * s.band)
        unit = uff_next_piece(self)


cdef void spread_band(const Job *job, uff_gathered_product *p, const Room *room, int64_t n,
                      int64_t first) noexcept nogil:
    """Rows of one image from ``first`` on."""
    cdef const Narrow *s = job.shape
    cdef int64_t row, start, end, i, upper, lower
    # rows are counted as g's windows have them, from the border's first
    cdef int64_t at = first + s.top, last = min(first + s.band, s.height) + s.top
    # rows of g that meet the band: row * sh + i * dh in [at, last) for a tap i
    start = at - (s.kh - 1) * s.dh
    start = parts(start, s.sh) if start > 0 else 0
    end = min((last - 1) // s.sh + 1, s.oh) if last > 0 else 0
    for row in range(start, end):
        lower = at - row * s.sh  # taps above are another band's, or of rows that are written
        lower = parts(lower, s.dh) if lower > 0 else 0
        upper = min((last - 1 - row * s.sh) // s.dh + 1, s.kh)
        if lower < upper:
            add_row(job, p, room, n, row, lower, upper)
        for i in range(at, min((row + 1) * s.sh, last)):
            write_row(job, room, n, i, row * s.sh)
        at = max(at, min((row + 1) * s.sh, last))
    for i in range(at, last):
        write_row(job, room, n, i, (end - 1) * s.sh if start < end else last)


cdef void add_row(const Job *job, uff_gathered_product *p, const Room *room, int64_t n,
                  int64_t row, int64_t lower, int64_t upper) noexcept nogil:
    """Add one row of g, by taps of rows ``lower`` to ``upper`` of the window."""
    cdef const Narrow *s = job.shape
    cdef const uff_convolution_kernels *tile = uff_convolution(kernels)
    cdef int64_t across = s.kw * s.channels, pitch = parts(s.piece, s.lanes) * s.lanes
    cdef int64_t nbytes = s.lanes * s.filters * s.size  # of a panel's pixels
    cdef const int64_t *rows = p.rows
    cdef const int64_t *places = p.places
    cdef const char *g
    cdef const char *taps
    cdef char *to
    cdef int64_t cut, column, count, panel, i, j, wide, pieces
    p.m = (upper - lower) * across
    pieces = max(parts(p.m, tile.rows_f32) * parts(s.filters, UFF_AHEAD), <int64_t>1)
    p.rows, p.places = rows + lower * across, places + lower * across
    for cut in range(parts(s.ow, s.piece)):
        column = cut * s.piece
        count = min(s.piece, s.ow - column)
        for panel in range(parts(count, s.lanes)):
            j = panel * s.lanes
            wide = min(s.lanes, count - j)
            g = job.g + s.filters * s.size * ((n * s.oh + row) * s.ow + column + j)
            p.c = room.products + j * s.size
            # the next pixels, wherever they are used: those of a row follow those before
            expect(&p.ahead[0], g + nbytes, 1, nbytes, nbytes, pieces)
            if s.size == 4:
                tile.pack_f32(s.filters, wide, g, 1, s.filters, room.panel)
                tile.product_f32(p)
            else:
                tile.pack_f64(s.filters, wide, g, 1, s.filters, room.panel)
                tile.product_f64(p)
        for i in range(lower, upper):
            taps = room.products + i * across * pitch * s.size
            to = room.ring + ((row * s.sh + i * s.dh) % room.rows * room.row + column) * s.size
            if s.size == 4:
                tile.add_f32(across, count, taps, pitch, to, room.places)
            else:
                tile.add_f64(across, count, taps, pitch, to, room.places)
    p.rows, p.places = rows, places


cdef void write_row(const Job *job, const Room *room, int64_t n, int64_t at,
                    int64_t from_row) noexcept nogil:
    """Write row ``at`` of the image; the ring has those of a window at ``from_row``."""
    cdef const Narrow *s = job.shape
    cdef int64_t nbytes = s.width * s.channels * s.size
    cdef char *out = job.x + (n * s.height + at - s.top) * nbytes
    cdef char *row
    if at < from_row or at >= from_row + room.rows:
        memset(out, 0, nbytes)
        return
    row = room.ring + at % room.rows * room.row * s.size
    if s.size == 4:
        interleave[float](s, room.plane, <const float *>row, <float *>out)
    else:
        interleave[double](s, room.plane, <const double *>row, <double *>out)
    memset(row, 0, room.row * s.size)


cdef void interleave(const Narrow *s, int64_t plane, const real *row, real *out) noexcept nogil:
    """Pixels of one row of the image from their planes; those that no window meets are 0."""
    cdef int64_t c, phase, x, step = s.sw * s.channels, i, start, end
    cdef const real *src
    cdef real *dst
    if s.left < 0 or s.width + s.left > plane * s.sw:
        memset(out, 0, s.width * s.channels * sizeof(real))
    for phase in range(s.sw):
        # pixels at * sw + phase - left of the image
        start = parts(s.left - phase, s.sw) if s.left > phase else 0
        end = min(plane, parts(max(s.width + s.left - phase, <int64_t>0), s.sw))
        for c in range(s.channels):
            src = row + (c * s.sw + phase) * plane
            x = start * s.sw + phase - s.left
            dst = out + x * s.channels + c
            for i in range(end - start):
                dst[i * step] = src[start + i]


def lower(node):
    """Lower ``conv2d_data_gradient`` of few channels; None if others are better at it."""
    x = node.outputs[0].spec
    numbers = convolution_plan.narrow(node, lanes(x.itemsize))
    if numbers is None:
        return None
    ints, flops = numbers
    return KernelCall(f"{node.op.name}_narrow_{x.dtype}", <size_t>&spread, ints, flops=flops)
