"""Depthwise convolution: each channel has filters of its own, so there is no product.

Forward and data gradient are weighted sums over the taps of a window; along a row, all
windows that lie inside of the image are one run of the tile kernel. The weight gradient
sums rows of pixels into parts, cut by sizes alone, which are added in order.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from uniflexflow._core.core cimport (
    uff_arg, uff_instruction, uff_share, uff_slave, uff_spawn, uff_spawn_together, uff_sync,
    uff_take, uff_team,
)
from uniflexflow._core.dispatch cimport kernels
from uniflexflow._core.window cimport (
    Window, add_parts, parts, run_length, taps_inside, uff_window, uff_window_run,
)

from uniflexflow._core import convolution_plan
from uniflexflow.plan.kernel_call import KernelCall


# Elements are counted in ``size`` bytes. Pixels of x have x_channels, those of y
# y_channels; the kernel has `filters`, `multiplier` on each channel.
cdef struct Head:
    int64_t num_windows, cores, size, n, height, width, x_channels, y_channels, image_size
    int64_t kernel_width, filters, multiplier, back, has_bias, relu


cdef struct Job:
    const Head *head
    const Window *windows
    const char *x
    const char *kernel
    const char *bias
    char *y


cdef void weigh(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Job job
    job.head = <const Head *>ins.ints
    job.windows = <const Window *>(ins.ints + sizeof(Head) // sizeof(int64_t))
    job.y = <char *>uff_arg(ins, 0)
    job.x = <const char *>uff_arg(ins, 1)
    job.kernel = <const char *>uff_arg(ins, 2)
    job.bias = <const char *>uff_arg(ins, 3) if job.head.has_bias else NULL
    uff_spawn(team, min(job.head.cores, <int64_t>team.num_cores), weigh_core, &job)


cdef void weigh_core(uff_slave *self, void *arg) noexcept nogil:
    cdef const Job *job = <const Job *>arg
    cdef const Window *w
    cdef int64_t i, lo, hi, unit
    cdef size_t start = self.scratch_used
    cdef const void **taps
    for i in range(job.head.num_windows):
        w = &job.windows[i]
        taps = <const void **>uff_take(self, 2 * max(w.kh * w.kw, <int64_t>1) * sizeof(void *))
        uff_share(self, job.head.n * w.oh, &lo, &hi)
        for unit in range(lo, hi):
            weigh_row(job, w, unit // w.oh, unit % w.oh, taps)
        self.scratch_used = start


cdef void weigh_row(const Job *job, const Window *w, int64_t n, int64_t row,
                    const void **taps) noexcept nogil:
    cdef const Head *h = job.head
    cdef const void **weights = taps + w.kh * w.kw
    cdef int64_t i, j, k, i0, i1, j0, j1, r0 = row * w.sh - w.top, c0, at = 0
    cdef int64_t pixel = h.x_channels * h.size
    cdef const char *image = job.x + n * h.height * h.width * pixel
    cdef char *y = job.y + h.size * (n * h.image_size + w.place + row * w.y_row)
    cdef uff_window_run run
    run.channels = h.y_channels
    run.x = taps
    run.v = weights
    run.x_step = w.sw * h.x_channels
    run.y_step = w.y_column
    run.multiplier = h.multiplier
    run.bias = job.bias
    run.relu = h.relu
    taps_inside(r0, h.height, w.kh, w.dh, &i0, &i1)
    while at < w.ow:
        c0 = at * w.sw - w.left
        run.count = run_length(at, w.ow, h.width, w.kw, w.sw, w.dw, w.left) if w.kw else w.ow
        taps_inside(c0, h.width, w.kw, w.dw, &j0, &j1)
        k = 0
        for i in range(i0, i1):
            for j in range(j0, j1):
                taps[k] = image + ((r0 + i * w.dh) * h.width + c0 + j * w.dw) * pixel
                weights[k] = job.kernel + h.size * h.filters * (
                    (w.tap_row + i * w.tap_row_step) * h.kernel_width
                    + w.tap_column + j * w.tap_column_step)
                k += 1
        run.taps = k
        run.y = y + at * w.y_column * h.size
        if h.back:
            if h.size == 4:
                uff_window(kernels).weigh_back_f32(&run)
            else:
                uff_window(kernels).weigh_back_f64(&run)
        elif h.size == 4:
            uff_window(kernels).weigh_f32(&run)
        else:
            uff_window(kernels).weigh_f64(&run)
        at += run.count


# -- the weight gradient -----------------------------------------------------------


cdef struct Contraction:
    int64_t cores, size, n, height, width, channels, oh, ow, filters, multiplier
    int64_t kh, kw, sh, sw, dh, dw, top, left, parts


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
    job.partial = <char *>uff_arg(ins, 3) if job.shape.parts > 1 else job.out
    uff_spawn_together(
        team, min(job.shape.cores, <int64_t>team.num_cores), contract_core, &job)


cdef void contract_core(uff_slave *self, void *arg) noexcept nogil:
    cdef const Sum *job = <const Sum *>arg
    cdef const Contraction *s = job.shape
    cdef int64_t total = s.kh * s.kw * s.filters, rows = s.n * s.oh
    cdef int64_t lo, hi, part, row
    cdef char *out
    uff_share(self, s.parts, &lo, &hi)
    for part in range(lo, hi):
        out = job.partial + part * total * s.size
        memset(out, 0, total * s.size)
        for row in range(rows * part // s.parts, rows * (part + 1) // s.parts):
            contract_row(job, row // s.oh, row % s.oh, out)
    if s.parts > 1:
        uff_sync(self)
        uff_share(self, total, &lo, &hi)
        if s.size == 4:
            add_parts[float](<float *>job.out, <const float *>job.partial, s.parts, total, lo, hi)
        else:
            add_parts[double](<double *>job.out, <const double *>job.partial, s.parts, total, lo,
                              hi)


cdef void contract_row(const Sum *job, int64_t n, int64_t row, char *out) noexcept nogil:
    """Add one row of results, tap by tap: the columns whose tap meets the image."""
    cdef const Contraction *s = job.shape
    cdef int64_t i, j, i0, i1, r0 = row * s.sh - s.top, shift, first, last
    cdef const void *x
    cdef uff_window_run run
    run.channels = s.filters
    run.multiplier = s.multiplier
    run.x = &x
    run.x_step = s.sw * s.channels
    run.y_step = s.filters
    taps_inside(r0, s.height, s.kh, s.dh, &i0, &i1)
    for i in range(i0, i1):
        for j in range(s.kw):
            shift = j * s.dw - s.left
            first = parts(-shift, s.sw) if shift < 0 else 0
            last = min((s.width - 1 - shift) // s.sw + 1, s.ow) if shift < s.width else 0
            if first >= last:
                continue
            run.count = last - first
            x = job.x + s.size * s.channels * (
                (n * s.height + r0 + i * s.dh) * s.width + first * s.sw + shift)
            run.g = job.g + s.size * s.filters * ((n * s.oh + row) * s.ow + first)
            run.y = out + s.size * s.filters * (i * s.kw + j)
            if s.size == 4:
                uff_window(kernels).contract_f32(&run)
            else:
                uff_window(kernels).contract_f64(&run)


# -- lowerings ---------------------------------------------------------------------


def _call(node, function, head, fields, macs, workspace=0):
    dtype = node.outputs[0].dtype
    cores = max(1, 2 * macs // convolution_plan.CORE_FLOPS)
    ints = (*head[:1], cores, *head[1:]) if fields else (cores, *head)
    return KernelCall(f"{node.op.name}_depthwise_{dtype}", function, (*ints, *fields),
                      workspace=workspace, flops=2 * macs)


def _weighing(node, x, k, y, windows, back, bias, relu):
    fields, macs = [], 0
    for w in windows:
        macs += w.taps * x.shape[0] * w.out[0] * w.out[1] * k.shape[3]
        fields += [*w.size, *w.strides, *w.dilations, *w.before, *w.out, w.place, *w.steps, *w.tap,
                   *w.tap_steps, 0, 0]
    n, height, width, channels = x.shape
    head = (len(windows), x.itemsize, n, height, width, channels, y.shape[3],
            y.shape[1] * y.shape[2] * y.shape[3], k.shape[1], k.shape[3],
            k.shape[3] // node.attrs["groups"], int(back), int(bias), int(relu))
    return _call(node, <size_t>&weigh, head, fields, macs)


def lower_forward(node, bias, relu):
    """Lower ``conv2d`` or ``conv2d_bias`` whose groups are its channels."""
    x, k, y, a = node.inputs[0].spec, node.inputs[1].spec, node.outputs[0].spec, node.attrs
    _, oh, ow, filters = y.shape
    window = convolution_plan.Window(
        size=k.shape[:2], strides=a["strides"], dilations=a["dilations"],
        before=(a["padding"][0][0], a["padding"][1][0]), out=(oh, ow), place=0,
        steps=(ow * filters, filters), tap=(0, 0), tap_steps=(1, 1))
    return _weighing(node, x, k, y, [window], False, bias, relu)


def lower_data_gradient(node):
    """Lower ``conv2d_data_gradient`` whose groups are its channels."""
    g, k, x = node.inputs[0].spec, node.inputs[1].spec, node.outputs[0].spec
    windows = list(convolution_plan.phases(node.attrs, x.shape, k.shape))
    return _weighing(node, g, k, x, windows, True, False, False)


def lower_weight_gradient(node):
    """Lower ``conv2d_weight_gradient`` whose groups are its channels."""
    x, g, a = node.inputs[0].spec, node.inputs[1].spec, node.attrs
    kh, kw, _, filters = a["shape"]
    (n, height, width, channels), (_, oh, ow, _) = x.shape, g.shape
    total = kh * kw * filters
    count = max(1, min(16, n * oh // 8, (4 << 20) // max(total * x.itemsize, 1)))
    head = (x.itemsize, n, height, width, channels, oh, ow, filters, filters // channels, kh, kw,
            *a["strides"], *a["dilations"], a["padding"][0][0], a["padding"][1][0], count)
    return _call(node, <size_t>&contract, head, (), total * n * oh * ow,
                 count * total * x.itemsize if count > 1 else 0)
