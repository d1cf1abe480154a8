"""Windows that slide over images: what convolutions and pooling share."""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from uniflexflow._core.dispatch cimport uff_kernels


cdef extern from "tile/window.h" nogil:
    ctypedef struct uff_window_run:
        int64_t count, taps, channels
        const void *const *x
        int64_t x_step
        const void *const *v
        void *y
        int64_t y_step
        void *const *dx
        const void *g
        int add
        int64_t elements

    ctypedef struct uff_window_kernels:
        void (*largest_f32)(const uff_window_run *) noexcept nogil
        void (*largest_f64)(const uff_window_run *) noexcept nogil
        void (*mean_f32)(const uff_window_run *) noexcept nogil
        void (*mean_f64)(const uff_window_run *) noexcept nogil
        void (*largest_gradient_f32)(const uff_window_run *) noexcept nogil
        void (*largest_gradient_f64)(const uff_window_run *) noexcept nogil
        void (*largest_gather_f32)(const uff_window_run *) noexcept nogil
        void (*largest_gather_f64)(const uff_window_run *) noexcept nogil
        void (*mean_gradient_f32)(const uff_window_run *) noexcept nogil
        void (*mean_gradient_f64)(const uff_window_run *) noexcept nogil

    const uff_window_kernels *uff_window(const uff_kernels *k) noexcept


# ``convolution_plan.Window`` and what follows it there: one sliding window.
cdef struct Window:
    int64_t kh, kw, sh, sw, dh, dw, top, left, oh, ow
    int64_t place, y_row, y_column
    int64_t tap_row, tap_column, tap_row_step, tap_column_step
    int64_t chunk, packed


cdef inline int64_t parts(int64_t total, int64_t size) noexcept nogil:
    return (total + size - 1) // size


cdef inline int64_t even(int64_t total, int64_t most) noexcept nogil:
    """The largest part if ``total`` is cut into the fewest parts of at most ``most``."""
    return parts(total, parts(total, most if most > 1 else 1)) if total else 1


cdef inline void taps_inside(int64_t start, int64_t size, int64_t window, int64_t dilation,
                             int64_t *first, int64_t *last) noexcept nogil:
    """The taps [first, last) that meet the image, of a window that begins at ``start``."""
    first[0] = min(parts(-start, dilation), window) if start < 0 else 0
    last[0] = min(parts(size - start, dilation), window) if start < size else 0
    if last[0] < first[0]:
        last[0] = first[0]


cdef inline int64_t run_length(int64_t at, int64_t out, int64_t size, int64_t window,
                               int64_t stride, int64_t dilation, int64_t before) noexcept nogil:
    """How many results from ``at`` on have the same taps.

    All that lie inside of the image with their whole window; others stand alone.
    """
    cdef int64_t start = at * stride - before, span = (window - 1) * dilation + 1
    if start < 0 or start + span > size:
        return 1
    return min((size - span - start) // stride + 1, out - at)


ctypedef fused real:
    float
    double


cdef inline void add_parts(real *out, const real *partial, int64_t count, int64_t total,
                           int64_t lo, int64_t hi) noexcept nogil:
    """Elements [lo, hi) of the sum of ``count`` arrays of ``total`` elements, in order."""
    cdef int64_t i, _
    memcpy(out + lo, partial + lo, (hi - lo) * sizeof(real))
    for _ in range(1, count):
        partial += total
        for i in range(lo, hi):
            out[i] += partial[i]
