"""The data gradient of a convolution of images with few channels.

A window over the gradient would fill few lanes of its panel. So all taps are columns of one
product, (pixels of g, filters) times (filters, taps and channels), and what it gives for a row
of g is added to the rows of the image that its windows meet. A band of the image belongs to
one core; each element is summed over rows of g, taps and columns in order, so cuts change
nothing.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from uniflexflow._core.convolution_tile cimport (
    lanes, uff_convolution, uff_convolution_kernels, uff_gathered_product,
)
from uniflexflow._core.core cimport (
    uff_arg, uff_instruction, uff_share, uff_slave, uff_spawn_together, uff_sync, uff_take,
    uff_team,
)
from uniflexflow._core.dispatch cimport kernels
from uniflexflow._core.window cimport parts

from uniflexflow._core import convolution_plan
from uniflexflow.plan.kernel_call import KernelCall


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
    char *packed


cdef void spread(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Job job
    job.shape = <const Narrow *>ins.ints
    job.x = <char *>uff_arg(ins, 0)
    job.g = <const char *>uff_arg(ins, 1)
    job.kernel = <const char *>uff_arg(ins, 2)
    job.packed = <char *>uff_arg(ins, 3)
    uff_spawn_together(
        team, min(job.shape.cores, <int64_t>team.num_cores), spread_core, &job)


cdef void spread_core(uff_slave *self, void *arg) noexcept nogil:
    cdef const Job *job = <const Job *>arg
    cdef const Narrow *s = job.shape
    cdef const uff_convolution_kernels *tile = uff_convolution(kernels)
    cdef int64_t columns = s.kh * s.kw * s.channels, panels = parts(columns, s.lanes)
    cdef int64_t bands = parts(s.height, s.band), pitch = panels * s.lanes
    cdef int64_t lo, hi, unit, i
    cdef const char *src
    cdef char *dst
    cdef int64_t *rows = <int64_t *>uff_take(self, 2 * s.piece * sizeof(int64_t))
    cdef int32_t *cols = <int32_t *>uff_take(self, max(s.filters, <int64_t>1) * sizeof(int32_t))
    cdef char *products = <char *>uff_take(self, s.piece * pitch * s.size)
    cdef uff_gathered_product p
    uff_share(self, panels, &lo, &hi)
    for unit in range(lo, hi):
        src = job.kernel + unit * s.lanes * s.filters * s.size
        dst = job.packed + unit * s.lanes * s.filters * s.size
        i = min(s.lanes, columns - unit * s.lanes)
        if s.size == 4:
            tile.pack_f32(s.filters, i, src, 1, s.filters, dst)
        else:
            tile.pack_f64(s.filters, i, src, 1, s.filters, dst)
    uff_sync(self)
    for i in range(s.piece):
        rows[i] = i * s.filters
        rows[s.piece + i] = i * pitch
    for i in range(s.filters):
        cols[i] = <int32_t>i
    p.n, p.k = pitch, s.filters
    p.rows, p.cols, p.places = rows, cols, rows + s.piece
    p.b, p.b_step, p.b_panel = job.packed, s.lanes, s.filters * s.lanes
    p.c, p.c_panel = products, s.lanes
    p.bias = NULL
    p.accumulate = p.relu = 0
    p.ahead[0].runs = p.ahead[1].runs = 0
    uff_share(self, s.n * bands, &lo, &hi)
    for unit in range(lo, hi):
        spread_band(job, &p, unit // bands, unit % bands * s.band)


cdef void spread_band(const Job *job, uff_gathered_product *p, int64_t n,
                      int64_t first) noexcept nogil:
    """Rows of one image from ``first`` on."""
    cdef const Narrow *s = job.shape
    cdef const uff_convolution_kernels *tile = uff_convolution(kernels)
    cdef int64_t last = min(first + s.band, s.height), pixel = s.channels * s.size
    cdef int64_t pitch = p.n * s.size  # bytes from one pixel's products to the next
    cdef int64_t row, start, end, cut, column, count, i, j, to, shift, j0, j1
    cdef char *image = job.x + n * s.height * s.width * pixel
    cdef const char *products = <const char *>p.c
    cdef const char *taps
    memset(image + first * s.width * pixel, 0, (last - first) * s.width * pixel)
    # rows of g that meet the band: row * sh - top + i * dh in [first, last) for a tap i
    start = first + s.top - (s.kh - 1) * s.dh
    start = parts(start, s.sh) if start > 0 else 0
    end = min((last - 1 + s.top) // s.sh + 1, s.oh)
    for row in range(start, end):
        for cut in range(parts(s.ow, s.piece)):
            column = cut * s.piece
            p.m = min(s.piece, s.ow - column)
            p.a = job.g + s.filters * s.size * ((n * s.oh + row) * s.ow + column)
            if s.size == 4:
                tile.product_f32(p)
            else:
                tile.product_f64(p)
            for i in range(s.kh):
                to = row * s.sh - s.top + i * s.dh
                if to < first or to >= last:
                    continue
                for j in range(s.kw):
                    # columns of g whose tap j lies inside of the image
                    shift = column * s.sw - s.left + j * s.dw
                    j0 = parts(-shift, s.sw) if shift < 0 else 0
                    j1 = min((s.width - 1 - shift) // s.sw + 1, p.m) if shift < s.width else 0
                    count = j1 - j0
                    if count <= 0:
                        continue
                    taps = products + j0 * pitch + (i * s.kw + j) * pixel
                    if s.size == 4:
                        tile.add_f32(count, s.channels, taps, p.n,
                                     image + (to * s.width + shift + j0 * s.sw) * pixel,
                                     s.sw * s.channels)
                    else:
                        tile.add_f64(count, s.channels, taps, p.n,
                                     image + (to * s.width + shift + j0 * s.sw) * pixel,
                                     s.sw * s.channels)


def lower(node):
    """Lower ``conv2d_data_gradient`` of few channels; None if others are better at it."""
    x = node.outputs[0].spec
    numbers = convolution_plan.narrow(node, lanes(x.itemsize))
    if numbers is None:
        return None
    ints, workspace, flops = numbers
    return KernelCall(f"{node.op.name}_narrow_{x.dtype}", <size_t>&spread, ints,
                      workspace=workspace, flops=flops)
