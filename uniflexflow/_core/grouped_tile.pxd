"""Blocks of depthwise and grouped convolutions, and the strips of images that they read."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from uniflexflow._core.core cimport uff_slave, uff_take
from uniflexflow._core.dispatch cimport kernels, uff_kernels


cdef extern from "tile/grouped.h" nogil:
    ctypedef struct uff_grouped_block:
        int64_t form, pixels, first, last, group_filters, per_group, depth, rows
        int64_t kw, stride, dilation
        const void *const *const *x
        void *const *y
        void *w
        int64_t w_step, w_skip
        int relu

    ctypedef struct uff_grouped_kernels:
        int lanes_f32, lanes_f64
        void (*correlate_f32)(const uff_grouped_block *) noexcept nogil
        void (*correlate_f64)(const uff_grouped_block *) noexcept nogil
        void (*contract_f32)(const uff_grouped_block *) noexcept nogil
        void (*contract_f64)(const uff_grouped_block *) noexcept nogil
        void (*spread_f32)(int64_t, int64_t, const void *, void *) noexcept nogil
        void (*spread_f64)(int64_t, int64_t, const void *, void *) noexcept nogil
        void (*fold_f32)(int64_t, int64_t, const void *, void *) noexcept nogil
        void (*fold_f64)(int64_t, int64_t, const void *, void *) noexcept nogil

    const uff_grouped_kernels *uff_grouped(const uff_kernels *k) noexcept


cdef enum:
    MOST_PIXELS = 8  # results in a block


# A strip of columns of an image, and the tables of those of its rows that a window meets. Row r
# has slot r % slots; a table holds the address of each pixel, from column `left` on. Staged rows
# are copies: filters [first, first + pitch) of each pixel, whose channels are spread.
cdef struct Strip:
    int64_t size, height, width, pixel, spread, staged
    int64_t slots, columns, left
    int64_t first, pitch
    const char *image
    const char *zeros
    char *copies
    const void **tables
    int64_t *rows


cdef inline void take_strip(uff_slave *self, Strip *s, int64_t slots, int64_t columns,
                            int64_t pitch) noexcept nogil:
    """Take scratchpad for tables, copies and a pixel of zeros."""
    cdef int64_t nbytes = s.size * max(s.pixel, pitch)
    cdef char *zeros = <char *>uff_take(self, nbytes)
    memset(zeros, 0, nbytes)
    s.zeros = zeros
    s.slots = slots
    s.columns = columns
    s.pitch = pitch
    s.first = s.left = 0
    s.image = NULL
    s.rows = <int64_t *>uff_take(self, slots * sizeof(int64_t))
    s.tables = <const void **>uff_take(self, slots * columns * sizeof(void *))
    s.copies = NULL
    if s.staged:
        nbytes = slots * columns * pitch * s.size
        s.copies = <char *>uff_take(self, nbytes)
        memset(s.copies, 0, nbytes)


cdef inline void stage_from(Strip *s, int64_t filter) noexcept nogil:
    """Copy filters from this one on, or from the first that has its channel."""
    s.first = filter - filter % s.spread


cdef inline void place_strip(Strip *s, const char *image, int64_t left) noexcept nogil:
    """Go to another image or other columns."""
    cdef int64_t i
    s.image = image
    s.left = left
    for i in range(s.slots):
        s.rows[i] = -1


cdef inline const void **strip_row(Strip *s, int64_t row) noexcept nogil:
    """The table of a row that lies inside of the image."""
    cdef int64_t slot = row % s.slots, q, step = s.pixel * s.size, first, last, channel
    cdef const void **table = s.tables + slot * s.columns
    cdef const char *at
    cdef const char *zeros = s.zeros
    cdef char *copy
    if s.rows[slot] == row:
        return table
    s.rows[slot] = row
    first = min(max(-s.left, <int64_t>0), s.columns)
    last = max(min(s.width - s.left, s.columns), first)
    if s.staged:
        zeros -= s.first * s.size
    for q in range(first):
        table[q] = zeros
    for q in range(last, s.columns):
        table[q] = zeros
    at = s.image + (row * s.width + s.left + first) * step
    if not s.staged:
        for q in range(first, last):
            table[q] = at
            at += step
        return table
    channel = s.first // s.spread
    at += channel * s.size
    copy = s.copies + (slot * s.columns + first) * s.pitch * s.size
    channel = min(s.pitch // s.spread, s.pixel - channel)
    for q in range(first, last):
        if s.size == 4:
            uff_grouped(kernels).spread_f32(channel, s.spread, at, copy)
        else:
            uff_grouped(kernels).spread_f64(channel, s.spread, at, copy)
        table[q] = copy - s.first * s.size
        at += step
        copy += s.pitch * s.size
    return table


cdef inline int64_t vector_start(int64_t v, int64_t lanes, int64_t group_filters,
                                 int64_t per_group) noexcept nogil:
    """The first filter of a vector."""
    return v // per_group * group_filters + min(v % per_group * lanes, group_filters - lanes)


cdef inline int64_t block_pixels(int64_t columns) noexcept nogil:
    """How many results a block has: least work for the row, one pixel's worth for each block."""
    cdef int64_t eights = (columns + 7) // 8 * 9, sevens = (columns + 6) // 7 * 8
    cdef int64_t fours = (columns + 3) // 4 * 5
    if fours < sevens and fours < eights:
        return 4
    return 7 if sevens < eights else 8
