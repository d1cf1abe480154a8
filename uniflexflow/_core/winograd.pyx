"""3 x 3 convolutions by Winograd's minimal filtering: transforms around 36 matrix products.

``tile/winograd.h`` says what is transformed into what, ``winograd_plan.py`` how it is cut.
Transformed images are ``[position][tile][channel]``, transformed windows
``[position][panel][channel][lane]``, results ``[position][tile][filter]``: for each position the
product is the one under every convolution (``tile/convolution.h``), whose operands are gathered
from where they lie.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from uniflexflow._core.convolution_tile cimport uff_convolution, uff_gathered_product
from uniflexflow._core.core cimport (
    uff_arg, uff_first_piece, uff_instruction, uff_next_piece, uff_share, uff_slave,
    uff_spawn_together, uff_sync, uff_take, uff_team,
)
from uniflexflow._core.dispatch cimport kernels, uff_kernels
from uniflexflow._core.window cimport parts

from uniflexflow._core import winograd_plan
from uniflexflow.plan.kernel_call import KernelCall


cdef extern from "tile/winograd.h" nogil:
    enum:
        UFF_WINOGRAD_OUT
        UFF_WINOGRAD_IN
        UFF_WINOGRAD_LINE

    ctypedef struct uff_winograd_kernels:
        void (*images)(int64_t, const float *const *, float *, int64_t) noexcept nogil
        void (*results)(int64_t, const float *, int64_t, const float *, int,
                        float *const *) noexcept nogil
        void (*window)(int64_t, const float *, int64_t, float *, int64_t) noexcept nogil
        void (*gradients)(int64_t, const float *const *, float *, int64_t, int64_t,
                          int64_t) noexcept nogil
        void (*weights)(int64_t, int64_t, const float *, int64_t, int64_t, float *,
                        int64_t) noexcept nogil

    const uff_winograd_kernels *uff_winograd(const uff_kernels *k) noexcept


cdef enum:
    POSITIONS = 36


# How tiles lie over an image: those of one row, then the rows, then the images.
cdef struct Tiling:
    int64_t height, width, channels  # of the image
    int64_t top, left                # what the first tile begins above and left of it
    int64_t across, down             # tiles


cdef inline void find_tile(const Tiling *t, int64_t tile, int64_t *image, int64_t *row,
                           int64_t *column) noexcept nogil:
    image[0] = tile // (t.across * t.down)
    row[0] = tile // t.across % t.down * UFF_WINOGRAD_OUT - t.top
    column[0] = tile % t.across * UFF_WINOGRAD_OUT - t.left


cdef inline void point(const float *x, const Tiling *t, int64_t tile, int64_t side,
                       const float *outside, const float **at) noexcept nogil:
    """Where the side x side pixels of a tile lie; ``outside`` stands for those off the image."""
    cdef int64_t image, row, column, i, j
    cdef const float *line
    find_tile(t, tile, &image, &row, &column)
    for i in range(side):
        line = x + ((image * t.height + row + i) * t.width + column) * t.channels
        for j in range(side):
            if 0 <= row + i < t.height and 0 <= column + j < t.width:
                at[i * side + j] = line + j * t.channels
            else:
                at[i * side + j] = outside


cdef inline const float *zeros(uff_slave *self, int64_t count) noexcept nogil:
    cdef float *made = <float *>uff_take(self, count * sizeof(float))
    memset(made, 0, count * sizeof(float))
    return made


# -- forward and data gradient -----------------------------------------------------

# The numbers of ``winograd_plan.correlation``, in its order.
cdef struct Head:
    int64_t cores, n, height, width, channels, filters, oh, ow, top, left, down, across, tiles
    int64_t first, row_step, column_step, channel_step, filter_step  # of the kernel
    int64_t lanes, block, pitch
    int64_t image_step, result_step, window_step  # from one position to the next
    int64_t filter_cut, chunk, row_cut
    int64_t shared, has_bias, relu


cdef struct Job:
    const Head *head
    Tiling images, results
    const float *x
    const float *kernel
    const float *bias
    float *y
    float *windows
    float *v  # transformed images and results of a shared block
    float *m


# What a core has of its own: where the rows of a product stand, and numbers 0, 1, 2...
cdef struct Own:
    const float *outside
    int64_t *rows
    int64_t *places
    int32_t *cols


cdef void correlate(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef const Head *h = <const Head *>ins.ints
    cdef Job job
    job.head = h
    job.images = Tiling(h.height, h.width, h.channels, h.top, h.left, h.across, h.down)
    job.results = Tiling(h.oh, h.ow, h.filters, 0, 0, h.across, h.down)
    job.y = <float *>uff_arg(ins, 0)
    job.x = <const float *>uff_arg(ins, 1)
    job.kernel = <const float *>uff_arg(ins, 2)
    job.bias = <const float *>uff_arg(ins, 3) if h.has_bias else NULL
    job.windows = <float *>uff_arg(ins, 3 + h.has_bias)
    job.v = job.windows + POSITIONS * h.window_step
    job.m = job.v + POSITIONS * h.image_step
    uff_spawn_together(team, min(h.cores, <int64_t>team.num_cores), correlate_core, &job)


cdef void correlate_core(uff_slave *self, void *arg) noexcept nogil:
    cdef const Job *job = <const Job *>arg
    cdef const Head *h = job.head
    cdef int64_t rows = min(h.block, h.row_cut), i
    cdef Own own
    transform_windows(self, job)
    own.outside = zeros(self, h.channels)
    own.rows = <int64_t *>uff_take(self, 2 * rows * sizeof(int64_t))
    own.places = own.rows + rows
    own.cols = <int32_t *>uff_take(self, h.chunk * sizeof(int32_t))
    for i in range(rows):
        own.rows[i] = i * h.pitch
        own.places[i] = i * (h.filters if h.shared else h.filter_cut)
    for i in range(h.chunk):
        own.cols[i] = <int32_t>i
    uff_sync(self)
    if h.shared:
        shared_blocks(self, job, &own)
    else:
        private_blocks(self, job, &own)


cdef void transform_windows(uff_slave *self, const Job *job) noexcept nogil:
    """This core's share of the windows: panels of filters by lines of channels."""
    cdef const Head *h = job.head
    cdef size_t start = self.scratch_used
    cdef int64_t tap = UFF_WINOGRAD_LINE * h.lanes, lines = h.channels // UFF_WINOGRAD_LINE
    cdef float *taps = <float *>uff_take(self, 9 * tap * sizeof(float))
    cdef int64_t lo, hi, unit, f0, c0, i
    uff_share(self, parts(h.filters, h.lanes) * lines, &lo, &hi)
    for unit in range(lo, hi):
        f0 = unit // lines * h.lanes
        c0 = unit % lines * UFF_WINOGRAD_LINE
        for i in range(9):
            uff_convolution(kernels).pack_f32(
                UFF_WINOGRAD_LINE, min(h.lanes, h.filters - f0),
                job.kernel + h.first + i // 3 * h.row_step + i % 3 * h.column_step
                + c0 * h.channel_step + f0 * h.filter_step,
                h.channel_step, h.filter_step, taps + i * tap)
        uff_winograd(kernels).window(tap, taps, tap, job.windows + f0 * h.channels + c0 * h.lanes,
                                     h.window_step)
    self.scratch_used = start


cdef void private_blocks(uff_slave *self, const Job *job, const Own *own) noexcept nogil:
    cdef const Head *h = job.head
    cdef float *v = <float *>uff_take(self, POSITIONS * h.image_step * sizeof(float))
    cdef float *m = <float *>uff_take(self, POSITIONS * h.result_step * sizeof(float))
    cdef int64_t unit, first, count, f0, width, p
    unit = uff_first_piece(self, parts(h.tiles, h.block))
    while unit >= 0:
        first = unit * h.block
        count = min(h.block, h.tiles - first)
        transform_images(job, own, first, count, v)
        f0 = 0
        while f0 < h.filters:
            width = min(h.filter_cut, h.filters - f0)
            for p in range(POSITIONS):
                multiply(job, own, p, count, f0, width, v, m + p * h.result_step, h.filter_cut)
            transform_results(job, first, count, f0, width, m, h.filter_cut)
            f0 += width
        unit = uff_next_piece(self)


cdef void shared_blocks(uff_slave *self, const Job *job, const Own *own) noexcept nogil:
    cdef const Head *h = job.head
    cdef int64_t lo, hi, unit, first = 0, count, f0, cuts = parts(h.filters, h.filter_cut), p
    while first < h.tiles:
        count = min(h.block, h.tiles - first)
        uff_share(self, count, &lo, &hi)
        transform_images(job, own, first + lo, hi - lo, job.v + lo * h.pitch)
        uff_sync(self)
        unit = uff_first_piece(self, POSITIONS * cuts)
        while unit >= 0:
            p = unit // cuts
            f0 = unit % cuts * h.filter_cut
            multiply(job, own, p, count, f0, min(h.filter_cut, h.filters - f0), job.v,
                     job.m + p * h.result_step + f0, h.filters)
            unit = uff_next_piece(self)
        uff_sync(self)
        # the next images may be written meanwhile; the next results wait for all cores
        uff_share(self, count, &lo, &hi)
        transform_results(job, first + lo, hi - lo, 0, h.filters, job.m + lo * h.filters, h.filters)
        first += count


cdef void transform_images(const Job *job, const Own *own, int64_t first, int64_t count,
                           float *v) noexcept nogil:
    cdef const Head *h = job.head
    cdef const float *at[36]
    cdef int64_t t
    for t in range(first, first + count):
        point(job.x, &job.images, t, UFF_WINOGRAD_IN, own.outside, at)
        uff_winograd(kernels).images(h.channels, at, v, h.image_step)
        v += h.pitch


cdef void multiply(const Job *job, const Own *own, int64_t position, int64_t count, int64_t f0,
                   int64_t width, const float *v, float *m, int64_t m_pitch) noexcept nogil:
    """One position's product: ``count`` tiles by ``width`` filters from f0 on."""
    cdef const Head *h = job.head
    cdef uff_gathered_product p
    cdef int64_t row = 0, c0
    p.n = width
    p.rows = own.rows
    p.cols = own.cols
    p.places = own.places
    p.b_step = p.c_panel = h.lanes
    p.b_panel = h.channels * h.lanes
    p.bias = NULL
    p.relu = 0
    p.ahead[0].runs = p.ahead[1].runs = 0
    v += position * h.image_step
    while row < count:
        p.m = min(h.row_cut, count - row)
        p.c = m + row * m_pitch
        c0 = 0
        while c0 < h.channels:
            p.k = min(h.chunk, h.channels - c0)
            p.a = v + row * h.pitch + c0
            p.b = job.windows + position * h.window_step + f0 * h.channels + c0 * h.lanes
            p.accumulate = c0 > 0
            uff_convolution(kernels).product_f32(&p)
            c0 += p.k
        row += p.m


cdef void transform_results(const Job *job, int64_t first, int64_t count, int64_t f0, int64_t width,
                            const float *m, int64_t m_pitch) noexcept nogil:
    cdef const Head *h = job.head
    cdef const float *at[16]
    cdef int64_t t
    for t in range(first, first + count):
        point(job.y + f0, &job.results, t, UFF_WINOGRAD_OUT, NULL, at)
        uff_winograd(kernels).results(width, m, h.result_step,
                                      job.bias + f0 if job.bias != NULL else NULL,
                                      <int>h.relu, <float *const *>at)
        m += m_pitch


# -- the weight gradient -----------------------------------------------------------

# The numbers of ``winograd_plan.contraction``, in its order.
cdef struct Contraction:
    int64_t cores, n, height, width, channels, filters, oh, ow, top, left, down, across, tiles
    int64_t lanes, block, pitch
    int64_t image_step, gradient_step  # from one position to the next
    int64_t parts, shared


cdef struct Sum:
    const Contraction *shape
    Tiling images, gradients
    const float *x
    const float *g
    float *out
    float *sums  # [part][position][channel][filter]
    float *v     # transformed images and gradients of a shared block
    float *w


cdef void contract(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef const Contraction *s = <const Contraction *>ins.ints
    cdef Sum job
    job.shape = s
    job.images = Tiling(s.height, s.width, s.channels, s.top, s.left, s.across, s.down)
    job.gradients = Tiling(s.oh, s.ow, s.filters, 0, 0, s.across, s.down)
    job.out = <float *>uff_arg(ins, 0)
    job.x = <const float *>uff_arg(ins, 1)
    job.g = <const float *>uff_arg(ins, 2)
    job.sums = <float *>uff_arg(ins, 3)
    job.v = job.sums + s.parts * POSITIONS * s.channels * s.filters
    job.w = job.v + POSITIONS * s.image_step
    if s.tiles == 0:
        memset(job.out, 0, 9 * s.channels * s.filters * sizeof(float))
        return
    uff_spawn_together(team, min(s.cores, <int64_t>team.num_cores), contract_core, &job)


cdef void contract_core(uff_slave *self, void *arg) noexcept nogil:
    cdef const Sum *job = <const Sum *>arg
    cdef const Contraction *s = job.shape
    cdef int64_t position = s.channels * s.filters, lo, hi, c, i
    cdef const float *outside = zeros(self, max(s.channels, s.filters))
    cdef int64_t *rows = <int64_t *>uff_take(self, 2 * s.channels * sizeof(int64_t))
    cdef int32_t *cols = <int32_t *>uff_take(self, s.block * sizeof(int32_t))
    for i in range(s.channels):
        rows[i] = i
        rows[s.channels + i] = i * s.filters
    for i in range(s.block):
        cols[i] = <int32_t>(i * s.pitch)
    if s.shared:
        shared_sums(self, job, outside, rows, cols)
    else:
        private_sums(self, job, outside, rows, cols)
    uff_sync(self)
    uff_share(self, s.channels, &lo, &hi)
    for c in range(lo, hi):
        uff_winograd(kernels).weights(s.filters, s.parts, job.sums + c * s.filters,
                                      POSITIONS * position, position, job.out + c * s.filters,
                                      position)


cdef void private_sums(uff_slave *self, const Sum *job, const float *outside, const int64_t *rows,
                       const int32_t *cols) noexcept nogil:
    """Whole parts, one core each."""
    cdef const Contraction *s = job.shape
    cdef float *v = <float *>uff_take(self, POSITIONS * s.image_step * sizeof(float))
    cdef float *w = <float *>uff_take(self, POSITIONS * s.gradient_step * sizeof(float))
    cdef int64_t part, first, last, begin, count, p
    part = uff_first_piece(self, s.parts)
    while part >= 0:
        begin = first = s.tiles * part // s.parts
        last = s.tiles * (part + 1) // s.parts
        while first < last:
            count = min(s.block, last - first)
            transform_pairs(job, outside, first, count, v, w)
            for p in range(POSITIONS):
                add_products(job, rows, cols, part, p, 0, s.channels, count, v, w, first > begin)
            first += count
        part = uff_next_piece(self)


cdef void shared_sums(uff_slave *self, const Sum *job, const float *outside, const int64_t *rows,
                      const int32_t *cols) noexcept nogil:
    """Every block by all cores: each adds to some positions and channels."""
    cdef const Contraction *s = job.shape
    cdef int64_t lines = s.channels // UFF_WINOGRAD_LINE
    # neighbours of one position together, but pieces enough for the cores to take
    cdef int64_t cuts = min(lines, parts(4 * self.count, POSITIONS))
    cdef int64_t lo, hi, unit, line, first = 0, count
    while first < s.tiles:
        count = min(s.block, s.tiles - first)
        if first:
            uff_sync(self)  # all have read the block before
        uff_share(self, count, &lo, &hi)
        transform_pairs(job, outside, first + lo, hi - lo, job.v + lo * s.pitch,
                        job.w + lo * s.lanes)
        uff_sync(self)
        unit = uff_first_piece(self, POSITIONS * cuts)
        while unit >= 0:
            line = lines * (unit % cuts) // cuts
            add_products(job, rows, cols, 0, unit // cuts, line * UFF_WINOGRAD_LINE,
                         (lines * (unit % cuts + 1) // cuts - line) * UFF_WINOGRAD_LINE, count,
                         job.v, job.w, first > 0)
            unit = uff_next_piece(self)
        first += count


cdef void transform_pairs(const Sum *job, const float *outside, int64_t first, int64_t count,
                          float *v, float *w) noexcept nogil:
    """Images and gradients of some tiles; gradients as panels of ``lanes`` filters."""
    cdef const Contraction *s = job.shape
    cdef const float *at[36]
    cdef int64_t t
    for t in range(first, first + count):
        point(job.x, &job.images, t, UFF_WINOGRAD_IN, outside, at)
        uff_winograd(kernels).images(s.channels, at, v, s.image_step)
        point(job.g, &job.gradients, t, UFF_WINOGRAD_OUT, outside, at)
        uff_winograd(kernels).gradients(s.filters, at, w, s.gradient_step, s.block * s.lanes,
                                        s.lanes)
        v += s.pitch
        w += s.lanes


cdef void add_products(const Sum *job, const int64_t *rows, const int32_t *cols, int64_t part,
                       int64_t position, int64_t c0, int64_t length, int64_t count, const float *v,
                       const float *w, bint accumulate) noexcept nogil:
    """Add the products of ``count`` tiles to one position's sums of some channels."""
    cdef const Contraction *s = job.shape
    cdef uff_gathered_product p
    p.m = length
    p.n = s.filters
    p.k = count
    p.a = v + position * s.image_step + c0
    p.rows = rows
    p.cols = cols
    p.b = w + position * s.gradient_step
    p.b_step = p.c_panel = s.lanes
    p.b_panel = s.block * s.lanes
    p.c = job.sums + ((part * POSITIONS + position) * s.channels + c0) * s.filters
    p.places = rows + s.channels
    p.bias = NULL
    p.accumulate = accumulate
    p.relu = 0
    p.ahead[0].runs = p.ahead[1].runs = 0
    uff_convolution(kernels).product_f32(&p)


# -- lowerings ---------------------------------------------------------------------


def _call(node, address, numbers):
    ints, workspace, flops = numbers
    dtype = node.outputs[0].spec.dtype
    return KernelCall(f"{node.op.name}_winograd_{dtype}", address, ints, workspace=workspace,
                      flops=flops)


def _block():
    return (uff_convolution(kernels).lanes_f32, uff_convolution(kernels).rows_f32)


def lower_forward(node):
    """The lowering of conv2d and conv2d_bias, or None where the algorithm doesn't apply."""
    x, k, y = node.inputs[0].spec, node.inputs[1].spec, node.outputs[0].spec
    a = node.attrs
    if not winograd_plan.applies(a, x.dtype, k.shape, y.shape[1:3]):
        return None
    _, kw, channels, filters = k.shape
    steps = (0, kw * channels * filters, channels * filters, filters, 1)
    before = (a["padding"][0][0], a["padding"][1][0])
    return _call(node, <size_t>&correlate, winograd_plan.correlation(
        x.shape, y.shape[1:3], filters, before, steps, *_block(), bias=len(node.inputs) > 2,
        relu=a.get("activation") == "relu"))


def lower_data_gradient(node):
    """The lowering of conv2d_data_gradient, or None: a convolution with the window turned round."""
    g, k, x = node.inputs[0].spec, node.inputs[1].spec, node.outputs[0].spec
    a = node.attrs
    if not winograd_plan.applies(a, x.dtype, k.shape, x.shape[1:3]):
        return None
    kh, kw, channels, filters = k.shape
    row, column = kw * channels * filters, channels * filters
    steps = ((kh - 1) * row + (kw - 1) * column, -row, -column, 1, filters)
    before = (kh - 1 - a["padding"][0][0], kw - 1 - a["padding"][1][0])
    return _call(node, <size_t>&correlate, winograd_plan.correlation(
        g.shape, x.shape[1:3], channels, before, steps, *_block()))


def lower_weight_gradient(node):
    """The lowering of conv2d_weight_gradient, or None where the algorithm doesn't apply."""
    x, g, k = node.inputs[0].spec, node.inputs[1].spec, node.outputs[0].spec
    if not winograd_plan.applies(node.attrs, x.dtype, k.shape, g.shape[1:3]):
        return None
    lanes, _ = _block()
    return _call(node, <size_t>&contract, winograd_plan.contraction(node, lanes))
