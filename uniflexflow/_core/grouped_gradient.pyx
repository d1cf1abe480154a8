"""The weight gradient of depthwise and grouped convolutions.

The rows of results are cut into parts, by sizes alone. A part's sums lie in the order of packed
weights, so that a block adds to neighbouring vectors; parts are added up in order.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from uniflexflow._core.core cimport (
    uff_arg, uff_instruction, uff_share, uff_slave, uff_spawn_together, uff_sync, uff_take,
    uff_team,
)
from uniflexflow._core.dispatch cimport kernels
from uniflexflow._core.grouped_tile cimport (
    MOST_PIXELS, Strip, block_pixels, place_strip, stage_from, strip_row, take_strip,
    uff_grouped, uff_grouped_block, vector_start,
)
from uniflexflow._core.window cimport real, taps_inside

from uniflexflow._core import grouped, grouped_plan
from uniflexflow.plan.kernel_call import KernelCall


# The numbers of ``grouped_plan.contraction``, in its order.
cdef struct Shape:
    int64_t cores, size, lanes, n, height, width, pixel, oh, ow, kh, kw, sh, sw, dh, dw, top, left
    int64_t strip_width, strips, form, depth, group_filters, per_group, vectors, filters, spread
    int64_t staged, chunk, parts, total


cdef struct Sum:
    const Shape *shape
    const char *x
    const char *g
    char *out
    char *sums


# What a core has in its scratchpad.
cdef struct Desk:
    Strip strip
    const void **rows   # of a result: tables
    const void **taps   # of a block: their places for its first result
    char *gradients     # pixels with fewer filters than a vector, filled up with zeros


cdef void contract(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Sum job
    job.shape = <const Shape *>ins.ints
    job.out = <char *>uff_arg(ins, 0)
    job.x = <const char *>uff_arg(ins, 1)
    job.g = <const char *>uff_arg(ins, 2)
    job.sums = <char *>uff_arg(ins, 3)
    uff_spawn_together(
        team, min(job.shape.cores, <int64_t>team.num_cores), contract_core, &job)


cdef void contract_core(uff_slave *self, void *arg) noexcept nogil:
    cdef const Sum *job = <const Sum *>arg
    cdef const Shape *s = job.shape
    cdef int64_t lo, hi, part, v
    uff_share(self, s.parts, &lo, &hi)
    for part in range(lo, hi):
        add_part(self, job, part)
    uff_sync(self)
    uff_share(self, s.vectors, &lo, &hi)
    for v in range(lo, hi):
        if s.size == 4:
            unpack[float](job, v, <float *>job.sums, <float *>job.out)
        else:
            unpack[double](job, v, <double *>job.sums, <double *>job.out)


cdef void add_part(uff_slave *self, const Sum *job, int64_t part) noexcept nogil:
    cdef const Shape *s = job.shape
    cdef size_t start = self.scratch_used
    cdef int64_t rows = s.n * s.strips * s.oh, lo = rows * part // s.parts
    cdef int64_t hi = rows * (part + 1) // s.parts, unit, column, first = 0, last, c0
    cdef char *sums = job.sums + part * s.total * s.size
    cdef Desk desk
    memset(sums, 0, s.total * s.size)
    desk.strip.size = s.size
    desk.strip.height = s.height
    desk.strip.width = s.width
    desk.strip.pixel = s.pixel
    desk.strip.spread = s.spread
    desk.strip.staged = s.staged
    desk.gradients = <char *>uff_take(self, MOST_PIXELS * s.lanes * s.size)
    memset(desk.gradients, 0, MOST_PIXELS * s.lanes * s.size)
    desk.rows = <const void **>uff_take(self, 2 * s.kh * sizeof(void *))
    desk.taps = desk.rows + s.kh
    take_strip(self, &desk.strip, (s.kh - 1) * s.dh + 1,
               (max(s.strip_width, <int64_t>MOST_PIXELS) - 1) * s.sw + (s.kw - 1) * s.dw + 1,
               (min(s.chunk, s.vectors) + 1) * s.lanes)
    while first < s.vectors:
        last = min(first + s.chunk, s.vectors) if s.staged else s.vectors
        if s.staged:
            stage_from(&desk.strip, vector_start(first, s.lanes, s.group_filters, s.per_group))
        column = -1
        for unit in range(lo, hi):
            c0 = unit // s.oh % s.strips * s.strip_width
            if unit // s.oh != column:
                column = unit // s.oh
                place_strip(&desk.strip, job.x + (column // s.strips) * s.height * s.width
                            * s.pixel * s.size, c0 * s.sw - s.left)
            add_row(job, &desk, unit % s.oh, min(s.strip_width, s.ow - c0), first, last,
                    job.g + s.size * s.filters * (
                        (column // s.strips * s.oh + unit % s.oh) * s.ow + c0), sums)
        first = last
    self.scratch_used = start


cdef void add_row(const Sum *job, Desk *desk, int64_t row, int64_t columns, int64_t first,
                  int64_t last, const char *g, char *sums) noexcept nogil:
    cdef const Shape *s = job.shape
    cdef int64_t r0 = row * s.sh - s.top, i, i0, i1, p, at, most = block_pixels(columns)
    cdef int64_t step = s.filters * s.size
    cdef void *places[MOST_PIXELS]
    cdef uff_grouped_block b
    b.form = s.form
    b.group_filters = s.group_filters
    b.per_group = s.per_group
    b.depth = s.depth
    b.kw = s.kw
    b.stride = s.sw
    b.dilation = s.dw
    b.y = places
    b.x = <const void *const *const *>desk.taps
    b.w_step = s.lanes * (1 + s.kh * s.kw * s.depth)
    taps_inside(r0, s.height, s.kh, s.dh, &i0, &i1)
    b.rows = i1 - i0
    b.w_skip = i0 * s.kw * s.depth * s.lanes
    for i in range(i0, i1):
        desk.rows[i - i0] = strip_row(&desk.strip, r0 + i * s.dh)
    b.first = first
    while b.first < last:
        b.last = min(b.first + s.chunk, last)
        b.w = sums + s.size * b.first * b.w_step
        at = 0
        while at < columns:
            # no result counts twice, so the last ones are taken by smaller blocks
            b.pixels = most if columns - at >= most else 4 if columns - at >= 4 else 1
            for i in range(b.rows):
                desk.taps[i] = <const void **>desk.rows[i] + at * s.sw
            for p in range(b.pixels):
                if s.filters < s.lanes:
                    places[p] = desk.gradients + p * s.lanes * s.size
                    memcpy(places[p], g + (at + p) * step, step)
                else:
                    places[p] = <void *>(g + (at + p) * step)
            if s.size == 4:
                uff_grouped(kernels).contract_f32(&b)
            else:
                uff_grouped(kernels).contract_f64(&b)
            at += b.pixels
        b.first = b.last


cdef void unpack(const Sum *job, int64_t v, real *sums, real *out) noexcept nogil:
    """Add the parts of a vector up and put them where the kernel has them."""
    cdef const Shape *s = job.shape
    cdef int64_t f = vector_start(v, s.lanes, s.group_filters, s.per_group), i, j, k, lane, part
    cdef int64_t count = min(s.lanes, s.filters - f), step = (1 + s.kh * s.kw * s.depth) * s.lanes
    sums += v * step
    for part in range(1, s.parts):
        for i in range(s.lanes, step):
            sums[i] += sums[part * s.total + i]
    for i in range(s.kh):
        for k in range(s.depth):
            for j in range(s.kw):
                sums += s.lanes
                for lane in range(count):
                    out[((i * s.kw + j) * s.depth + k) * s.filters + f + lane] = sums[lane]


def lower(node):
    """Lower ``conv2d_weight_gradient``; None if its groups have no kernel here."""
    x = node.inputs[0].spec
    if x.itemsize < 4:
        return None
    found = grouped_plan.contraction(node, grouped.lanes(x.itemsize))
    if found is None:
        return None
    ints, workspace, flops = found
    return KernelCall(grouped.kernel_name(node), <size_t>&contract, ints, workspace=workspace,
                      flops=flops)
