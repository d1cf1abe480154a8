"""Pooling and its gradients: one pass over the image, a row of windows at a time.

Along a row, all windows that lie inside of the image are one run of the tile kernel.
Gradients of windows that don't overlap are set; others are added up, one image (and
block of channels) by one core, in the order of the windows.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from uniflexflow._core.core cimport (
    uff_arg, uff_instruction, uff_share, uff_slave, uff_spawn, uff_take, uff_team,
)
from uniflexflow._core.dispatch cimport kernels
from uniflexflow._core.window cimport (
    parts, run_length, taps_inside, uff_window, uff_window_kernels, uff_window_run,
)

from uniflexflow.plan.kernel_call import KernelCall

# Below this many bytes a core is not worth waking.
CORE_BYTES = 128 * 1024

cdef enum:
    MAX, MEAN, MAX_GRADIENT, MAX_GATHER, MEAN_GRADIENT


cdef struct Shape:
    int64_t what, cores, size, n, height, width, channels, oh, ow, kh, kw, sh, sw, top, left


# Operands: x and v move with the taps, y and g with the results.
cdef struct Job:
    const Shape *shape
    const char *x
    const char *v
    char *y
    const char *g
    char *dx
    bint overlap, covered
    int64_t blocks  # of channels


ctypedef void (*tile_fn)(const uff_window_run *) noexcept nogil


cdef tile_fn choose(int64_t what, int64_t size) noexcept nogil:
    cdef const uff_window_kernels *t = uff_window(kernels)
    if what == MAX:
        return t.largest_f32 if size == 4 else t.largest_f64
    if what == MEAN:
        return t.mean_f32 if size == 4 else t.mean_f64
    if what == MAX_GRADIENT:
        return t.largest_gradient_f32 if size == 4 else t.largest_gradient_f64
    if what == MAX_GATHER:
        return t.largest_gather_f32 if size == 4 else t.largest_gather_f64
    return t.mean_gradient_f32 if size == 4 else t.mean_gradient_f64


cdef void pool(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Job job
    cdef const Shape *s = <const Shape *>ins.ints
    job.shape = s
    job.x = job.v = job.g = NULL
    job.y = job.dx = NULL
    if s.what == MAX or s.what == MEAN:
        job.y = <char *>uff_arg(ins, 0)
        job.x = <const char *>uff_arg(ins, 1)
    elif s.what == MEAN_GRADIENT:
        job.dx = <char *>uff_arg(ins, 0)
        job.g = <const char *>uff_arg(ins, 1)
    else:
        job.dx = <char *>uff_arg(ins, 0)
        job.x = <const char *>uff_arg(ins, 1)
        job.y = <char *>uff_arg(ins, 2)
        job.g = <const char *>uff_arg(ins, 3)
        job.v = job.g
    job.overlap = s.kh > s.sh or s.kw > s.sw
    job.covered = (s.kh == s.sh and s.kw == s.sw and s.top == 0 and s.left == 0
                   and s.oh * s.sh == s.height and s.ow * s.sw == s.width)
    job.blocks = 1
    if s.n < 2 * team.num_cores:
        job.blocks = parts(s.channels, 64)
    if (s.what == MAX_GRADIENT or s.what == MEAN_GRADIENT) and job.overlap:
        uff_spawn(team, min(s.cores, <int64_t>team.num_cores), add_core, &job)
    else:
        uff_spawn(team, min(s.cores, <int64_t>team.num_cores), set_core, &job)


cdef void set_core(uff_slave *self, void *arg) noexcept nogil:
    """Rows of windows of which each writes elements of its own."""
    cdef const Job *job = <const Job *>arg
    cdef const Shape *s = job.shape
    cdef int64_t lo, hi, unit, row, first, last
    cdef const void **taps = <const void **>uff_take(self, 3 * s.kh * s.kw * sizeof(void *))
    cdef int64_t line = s.width * s.channels * s.size
    uff_share(self, s.n * s.oh, &lo, &hi)
    for unit in range(lo, hi):
        row = unit % s.oh
        if (s.what == MAX_GRADIENT or s.what == MEAN_GRADIENT) and not job.covered:
            # this row's windows, and what no window covers up to the next row's
            first = max(row * s.sh - s.top, <int64_t>0) if row else 0
            last = (row + 1) * s.sh - s.top if row < s.oh - 1 else s.height
            memset(job.dx + (unit // s.oh * s.height + first) * line, 0, (last - first) * line)
        pool_row(job, unit // s.oh, row, 0, s.channels, False, taps)


cdef void add_core(uff_slave *self, void *arg) noexcept nogil:
    """Images, or blocks of their channels, to which overlapping windows are added.

    Lines are cleared when the first window comes to them, while they are in cache anyway.
    """
    cdef const Job *job = <const Job *>arg
    cdef const Shape *s = job.shape
    cdef int64_t lo, hi, unit, row, n, c0, c1, cleared, last
    cdef const void **taps = <const void **>uff_take(self, 3 * s.kh * s.kw * sizeof(void *))
    uff_share(self, s.n * job.blocks, &lo, &hi)
    for unit in range(lo, hi):
        n = unit // job.blocks
        c0 = s.channels * (unit % job.blocks) // job.blocks
        c1 = s.channels * (unit % job.blocks + 1) // job.blocks
        cleared = 0
        for row in range(s.oh):
            last = s.height if row == s.oh - 1 else min(row * s.sh - s.top + s.kh, s.height)
            clear_lines(job, n, cleared, last, c0, c1)
            cleared = max(cleared, last)
            pool_row(job, n, row, c0, c1, True, taps)


cdef void clear_lines(const Job *job, int64_t n, int64_t first, int64_t last, int64_t c0,
                      int64_t c1) noexcept nogil:
    """Set channels [c0, c1) of lines [first, last) of image n to 0."""
    cdef const Shape *s = job.shape
    cdef int64_t pixel, lo = (n * s.height + first) * s.width
    cdef int64_t hi = (n * s.height + last) * s.width
    if last <= first:
        return
    if c1 - c0 == s.channels:
        memset(job.dx + lo * s.channels * s.size, 0, (hi - lo) * s.channels * s.size)
        return
    for pixel in range(lo, hi):
        memset(job.dx + (pixel * s.channels + c0) * s.size, 0, (c1 - c0) * s.size)


cdef void pool_row(const Job *job, int64_t n, int64_t row, int64_t c0, int64_t c1, bint add,
                   const void **taps) noexcept nogil:
    cdef const Shape *s = job.shape
    cdef const void **others = taps + s.kh * s.kw
    cdef const void **targets = others + s.kh * s.kw
    cdef tile_fn run_tile = choose(s.what, s.size)
    cdef int64_t i, j, k, i0, i1, j0, j1, first, r0 = row * s.sh - s.top, at = 0
    cdef int64_t from_, to, whole = s.size * s.channels, shift = c0 * s.size
    cdef const void *out
    cdef uff_window_run run
    run.channels = c1 - c0
    run.x = taps
    run.v = others
    run.dx = <void *const *>targets
    run.x_step = s.sw * s.channels
    run.y_step = s.channels
    run.add = add
    taps_inside(r0, s.height, s.kh, 1, &i0, &i1)
    while at < s.ow:
        first = at * s.sw - s.left
        run.count = run_length(at, s.ow, s.width, s.kw, s.sw, 1, s.left)
        taps_inside(first, s.width, s.kw, 1, &j0, &j1)
        k = 0
        for i in range(i0, i1):
            for j in range(j0, j1):
                from_ = ((n * s.height + r0 + i) * s.width + first + j) * whole + shift
                taps[k] = job.x + from_
                others[k] = job.v + from_
                targets[k] = job.dx + from_
                k += 1
        run.taps = k
        run.elements = k
        to = ((n * s.oh + row) * s.ow + at) * whole + shift
        run.y = job.y + to
        run.g = job.g + to
        if s.what == MAX_GATHER:
            out = job.dx + to
            run.dx = <void *const *>&out
        run_tile(&run)
        at += run.count


# -- lowerings ---------------------------------------------------------------------


def _lower(what, image, pooled):
    def lower(node):
        a = node.attrs
        (n, height, width, channels) = image(node).shape
        (_, oh, ow, _) = pooled(node).shape
        nbytes = sum(v.spec.nbytes for v in (*node.inputs, *node.outputs))
        ints = (what, max(1, nbytes // CORE_BYTES), node.outputs[0].spec.itemsize, n, height, width,
                channels, oh, ow, *a["window"], *a["strides"], a["padding"][0][0],
                a["padding"][1][0])
        return KernelCall(f"{node.op.name}_{node.outputs[0].dtype}", <size_t>&pool, ints)

    return lower


LOWERINGS = {
    "max_pool2d": _lower(MAX, lambda n: n.inputs[0], lambda n: n.outputs[0]),
    "avg_pool2d": _lower(MEAN, lambda n: n.inputs[0], lambda n: n.outputs[0]),
    "max_pool2d_gradient": _lower(MAX_GRADIENT, lambda n: n.outputs[0], lambda n: n.inputs[1]),
    "max_pool2d_gather": _lower(MAX_GATHER, lambda n: n.inputs[0], lambda n: n.outputs[0]),
    "avg_pool2d_gradient": _lower(MEAN_GRADIENT, lambda n: n.outputs[0], lambda n: n.inputs[0]),
}
