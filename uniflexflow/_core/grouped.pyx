"""Depthwise and grouped convolution and their data gradients, without a product.

A core computes rows of results, block by block (``tile/grouped.h``), with the weights packed by
vectors of filters. All that a block knows of the image is a table of addresses for each of its
rows, so strides, dilations, borders and copies of rows are matters of tables.
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
from uniflexflow._core.window cimport Window, taps_inside

from uniflexflow._core import grouped_plan
from uniflexflow.plan.kernel_call import KernelCall


cdef enum:
    BAND = 8  # rows of results of one phase before the next: their image rows stay in a cache


# The numbers of ``grouped_plan.correlation``, in its order. A window's ``chunk`` is the width of
# its strips.
cdef struct Head:
    int64_t num_windows, cores, size, lanes, n, height, width, pixel, image_size, rows, strips
    int64_t form, depth, group_filters, per_group, vectors, filters, members, spread, fold
    int64_t staged, chunk
    int64_t row_step, column_step, channel_step, filter_step, group_step  # of the kernel
    int64_t has_bias, relu


cdef struct Job:
    const Head *head
    const Window *windows
    const char *x
    const char *kernel
    const char *bias
    char *y
    char *packed


# What a core has in its scratchpad for one window.
cdef struct Desk:
    Strip strip
    const void **rows      # of a result: tables
    const void **taps      # of a block: their places for its first result
    char *results          # pixels that nobody reads, or that are folded or cut
    int64_t result_pitch


cdef void correlate(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Job job
    job.head = <const Head *>ins.ints
    job.windows = <const Window *>(ins.ints + sizeof(Head) // sizeof(int64_t))
    job.y = <char *>uff_arg(ins, 0)
    job.x = <const char *>uff_arg(ins, 1)
    job.kernel = <const char *>uff_arg(ins, 2)
    job.bias = <const char *>uff_arg(ins, 3) if job.head.has_bias else NULL
    job.packed = <char *>uff_arg(ins, 3 + job.head.has_bias)
    uff_spawn_together(team, min(job.head.cores, <int64_t>team.num_cores), correlate_core, &job)


cdef void correlate_core(uff_slave *self, void *arg) noexcept nogil:
    cdef const Job *job = <const Job *>arg
    cdef const Head *h = job.head
    cdef int64_t w, v, lo, hi, unit, end, band, first, last
    uff_share(self, h.vectors, &lo, &hi)
    for w in range(h.num_windows):
        for v in range(lo, hi):
            pack(job, &job.windows[w], v)
    uff_sync(self)
    uff_share(self, h.n * h.strips * h.rows, &lo, &hi)
    first = 0
    while first < h.vectors:
        # copies are made for one chunk at a time, tables serve all
        last = min(first + h.chunk, h.vectors) if h.staged else h.vectors
        unit = lo
        while unit < hi:
            band = BAND if h.num_windows > 1 else h.rows
            end = min(hi, min(unit + band, (unit // h.rows + 1) * h.rows))
            for w in range(h.num_windows):
                weigh_rows(self, job, &job.windows[w], unit // h.rows, unit % h.rows,
                           unit % h.rows + end - unit, first, last)
            unit = end
        first = last


cdef void pack(const Job *job, const Window *w, int64_t v) noexcept nogil:
    """Pack the bias and the weights of a vector: row, channel, column, lane."""
    cdef const Head *h = job.head
    cdef int64_t i, j, k, lane, f = vector_start(v, h.lanes, h.group_filters, h.per_group)
    cdef int64_t count = min(h.lanes, h.filters - f)
    cdef const char *tap
    cdef const char *channel
    cdef char *to = job.packed + h.size * (
        w.packed + v * h.lanes * (1 + w.kh * w.kw * h.depth))
    memset(to, 0, h.lanes * h.size)
    if h.has_bias:
        memcpy(to, job.bias + f * h.size, count * h.size)
    for i in range(w.kh):
        for k in range(h.depth):
            for j in range(w.kw):
                to += h.lanes * h.size
                tap = job.kernel + h.size * (
                    (w.tap_row + i * w.tap_row_step) * h.row_step
                    + (w.tap_column + j * w.tap_column_step) * h.column_step
                    + k * h.channel_step)
                if h.filter_step == 1 and (h.members >= h.lanes or h.group_step == h.members):
                    # filters lie side by side, also over groups
                    memcpy(to, tap + f * h.size, count * h.size)
                    if count < h.lanes:
                        memset(to + count * h.size, 0, (h.lanes - count) * h.size)
                    continue
                for lane in range(count):
                    channel = tap + h.size * (
                        (f + lane) // h.members * h.group_step
                        + (f + lane) % h.members * h.filter_step)
                    memcpy(to + lane * h.size, channel, h.size)


cdef void weigh_rows(uff_slave *self, const Job *job, const Window *w, int64_t column, int64_t r0,
                     int64_t r1, int64_t first, int64_t last) noexcept nogil:
    """Rows [r0, r1) of a strip, filters of the vectors [first, last)."""
    cdef const Head *h = job.head
    cdef size_t start = self.scratch_used
    cdef Desk desk
    cdef int64_t n = column // h.strips, c0 = column % h.strips * w.chunk, row
    cdef int64_t columns = min(w.ow - c0, w.chunk), span_h, span_w
    if columns <= 0:
        return
    span_h = (w.kh - 1) * w.dh + 1 if w.kh and w.kw else 1
    span_w = (w.kw - 1) * w.dw + 1 if w.kh and w.kw else 1
    desk.strip.size = h.size
    desk.strip.height = h.height
    desk.strip.width = h.width
    desk.strip.pixel = h.pixel
    desk.strip.spread = h.spread
    desk.strip.staged = h.staged
    desk.result_pitch = (min(h.chunk, h.vectors) + 1) * h.lanes
    desk.results = <char *>uff_take(self, MOST_PIXELS * desk.result_pitch * h.size)
    desk.rows = <const void **>uff_take(self, 2 * max(w.kh, <int64_t>1) * sizeof(void *))
    desk.taps = desk.rows + max(w.kh, <int64_t>1)
    take_strip(self, &desk.strip, span_h, (max(columns, <int64_t>MOST_PIXELS) - 1) * w.sw + span_w,
               desk.result_pitch)
    if h.staged:
        stage_from(&desk.strip, vector_start(first, h.lanes, h.group_filters, h.per_group))
    place_strip(&desk.strip, job.x + n * h.height * h.width * h.pixel * h.size,
                c0 * w.sw - w.left)
    for row in range(r0, min(r1, w.oh)):
        weigh_row(job, w, &desk, row, columns, first, last,
                  job.y + h.size * (n * h.image_size + w.place + row * w.y_row + c0 * w.y_column))
    self.scratch_used = start


cdef void weigh_row(const Job *job, const Window *w, Desk *desk, int64_t row, int64_t columns,
                    int64_t first, int64_t last, char *y) noexcept nogil:
    cdef const Head *h = job.head
    cdef int64_t r0 = row * w.sh - w.top, i, i0, i1, p, at, real, done = 0, f
    cdef void *places[MOST_PIXELS]
    cdef char *to
    cdef bint aside = h.fold > 1 or h.filters < h.lanes
    cdef uff_grouped_block b
    b.form = h.form
    b.pixels = block_pixels(columns)
    b.group_filters = h.group_filters
    b.per_group = h.per_group
    b.depth = h.depth
    b.kw = w.kw
    b.stride = w.sw
    b.dilation = w.dw
    b.y = places
    b.x = <const void *const *const *>desk.taps
    b.w_step = h.lanes * (1 + w.kh * w.kw * h.depth)
    b.relu = h.relu
    i0 = i1 = 0
    if w.kw:
        taps_inside(r0, h.height, w.kh, w.dh, &i0, &i1)
    b.rows = i1 - i0
    b.w_skip = i0 * w.kw * h.depth * h.lanes
    for i in range(i0, i1):
        desk.rows[i - i0] = strip_row(&desk.strip, r0 + i * w.dh)
    b.first = first
    while b.first < last:
        b.last = min(b.first + h.chunk, last)
        b.w = job.packed + h.size * (w.packed + b.first * b.w_step)
        f = vector_start(b.first, h.lanes, h.group_filters, h.per_group)
        at = done = 0
        while done < columns:
            # the last block overlaps its neighbour; if there is none, some results are no one's
            at = min(done, max(columns - b.pixels, <int64_t>0))
            real = min(b.pixels, columns - at)
            for i in range(b.rows):
                desk.taps[i] = <const void **>desk.rows[i] + at * w.sw
            to = y + at * w.y_column * h.size
            for p in range(b.pixels):
                if aside or p >= real:
                    places[p] = desk.results + (p * desk.result_pitch - f) * h.size
                else:
                    places[p] = to
                    to += w.y_column * h.size
            if h.size == 4:
                uff_grouped(kernels).correlate_f32(&b)
            else:
                uff_grouped(kernels).correlate_f64(&b)
            if aside:
                fold(h, desk, &b, real, f, to, w.y_column * h.size)
            done = at + real
        b.first = b.last


cdef void fold(const Head *h, const Desk *desk, const uff_grouped_block *b, int64_t pixels,
               int64_t start, char *y, int64_t step) noexcept nogil:
    """Add up neighbouring filters of results; ``start`` is the first filter beside them."""
    cdef int64_t _, f = b.first * h.lanes, channels = min(b.last * h.lanes, h.filters) - f
    cdef const char *sums = desk.results + (f - start) * h.size
    channels //= h.fold
    y += f // h.fold * h.size
    for _ in range(pixels):
        if h.size == 4:
            uff_grouped(kernels).fold_f32(channels, h.fold, sums, y)
        else:
            uff_grouped(kernels).fold_f64(channels, h.fold, sums, y)
        sums += desk.result_pitch * h.size
        y += step


# -- lowerings ---------------------------------------------------------------------


def lanes(int itemsize):
    """Elements of a vector."""
    return (uff_grouped(kernels).lanes_f32 if itemsize == 4 else uff_grouped(kernels).lanes_f64)


def has(node):
    """Whether a convolution's groups have a kernel here, for float32 and float64."""
    groups = node.attrs["groups"]
    if node.op.name == "conv2d_weight_gradient":
        images, filters = node.inputs[0].shape[3], node.inputs[1].shape[3]
        return grouped_plan.weight_roles(groups, images, filters, lanes(4)) is not None
    back = node.op.name == "conv2d_data_gradient"
    images, filters = node.inputs[0].shape[3], node.outputs[0].shape[3]
    if back:
        images, filters = filters, images
    return grouped_plan.roles(groups, images, filters, back, lanes(4)) is not None


def kernel_name(node):
    """The name of a depthwise or a grouped convolution's kernel."""
    images = node.outputs[0] if node.op.name == "conv2d_data_gradient" else node.inputs[0]
    kind = "depthwise" if node.attrs["groups"] == images.shape[3] else "grouped"
    return f"{node.op.name}_{kind}_{node.outputs[0].dtype}"


def _call(node, x, y, back, bias, relu):
    if x.itemsize < 4:
        return None
    found = grouped_plan.correlation(node, x, y, back, lanes(x.itemsize), bias, relu)
    if found is None:
        return None
    ints, workspace, flops = found
    return KernelCall(kernel_name(node), <size_t>&correlate, ints, workspace=workspace, flops=flops)


def lower_forward(node, bias, relu):
    """Lower ``conv2d`` or ``conv2d_bias``; None if their groups have no kernel here."""
    return _call(node, node.inputs[0].spec, node.outputs[0].spec, False, bias, relu)


def lower_data_gradient(node):
    """Lower ``conv2d_data_gradient``; None if its groups have no kernel here."""
    return _call(node, node.inputs[0].spec, node.outputs[0].spec, True, False, False)
