"""Products of gathered operands, and the tiles of images that they read: what the forward
pass, the data gradient and the weight gradient share."""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from uniflexflow._core.dispatch cimport kernels, uff_kernels
from uniflexflow._core.window cimport parts


cdef extern from "tile/convolution.h" nogil:
    enum: UFF_AHEAD

    ctypedef struct uff_ahead:
        const char *at
        int64_t lines, step, runs, line, each

    ctypedef struct uff_gathered_product:
        int64_t m, n, k
        const void *a
        const int64_t *rows
        const int32_t *cols
        const void *b
        int64_t b_step, b_panel
        void *c
        int64_t c_panel
        const int64_t *places
        const void *bias
        int accumulate, relu
        uff_ahead ahead[2]

    ctypedef struct uff_convolution_kernels:
        int lanes_f32, lanes_f64, rows_f32, rows_f64
        void (*product_f32)(const uff_gathered_product *) noexcept nogil
        void (*product_f64)(const uff_gathered_product *) noexcept nogil
        void (*pack_f32)(int64_t, int64_t, const void *, int64_t, int64_t, void *) noexcept nogil
        void (*pack_f64)(int64_t, int64_t, const void *, int64_t, int64_t, void *) noexcept nogil
        void (*add_f32)(
            int64_t, int64_t, const void *, int64_t, void *, const int64_t *) noexcept nogil
        void (*add_f64)(
            int64_t, int64_t, const void *, int64_t, void *, const int64_t *) noexcept nogil
        void (*gather_f32)(int64_t, int64_t, const void *, const int64_t *, void *) noexcept nogil
        void (*gather_f64)(int64_t, int64_t, const void *, const int64_t *, void *) noexcept nogil
        void (*pack_bf16)(int64_t, int64_t, const void *, int64_t, int64_t, void *) noexcept nogil
        void (*gather_bf16)(int64_t, int64_t, const void *, const int64_t *, void *) noexcept nogil
        void (*expand)(int64_t, const void *, void *) noexcept nogil
        void (*narrow)(int64_t, const void *, void *) noexcept nogil

    const uff_convolution_kernels *uff_convolution(const uff_kernels *k) noexcept


cdef enum:
    UFF_LINE = 64  # bytes in a cache line


cdef inline void place_pixels(int64_t *rows, int64_t *places, int64_t images, int64_t num_rows,
                              int64_t columns, int64_t image_step, int64_t row_step,
                              int64_t column_step, int64_t y_image, int64_t y_row,
                              int64_t y_column) noexcept nogil:
    """Where each result's window begins in the tile, and where the result is written."""
    cdef int64_t n, r, _, i = 0, at, to
    for n in range(images):
        for r in range(num_rows):
            at = n * image_step + r * row_step
            to = n * y_image + r * y_row
            for _ in range(columns):
                rows[i] = at
                places[i] = to
                at += column_step
                to += y_column
                i += 1


cdef inline int64_t padded(int64_t length, int64_t size, int64_t least) noexcept nogil:
    """The distance of pixels in a tile, in elements.

    Pixels an even number of cache lines apart would meet in few of the cache's sets; from
    ``least`` bytes on they get one line more.
    """
    cdef int64_t nbytes = length * size
    if nbytes >= least and nbytes % (2 * UFF_LINE) == 0:
        return length + UFF_LINE // size
    return length


# A block of images in scratchpad: every row_step-th row and column_step-th column.
cdef struct Block:
    int64_t n0, images, row0, high, row_step, column0, wide, column_step


cdef inline void expect(uff_ahead *ahead, const char *at, int64_t runs, int64_t nbytes,
                        int64_t step, int64_t pieces) noexcept nogil:
    """Ask for ``runs`` runs of ``nbytes`` bytes, ``step`` apart, at ``pieces`` times."""
    if nbytes == step:
        nbytes *= runs
        runs = 1
    ahead.at, ahead.step, ahead.runs, ahead.line = at, step, runs, 0
    ahead.lines = parts(nbytes, UFF_LINE)
    ahead.each = parts(runs * ahead.lines, pieces)


cdef inline void expect_pixels(uff_ahead *ahead, const char *x, int64_t size, int64_t height,
                               int64_t width, int64_t channels, const Block *b, int64_t length,
                               int64_t pieces) noexcept nogil:
    """Ask for what ``copy_block`` of the same block will read, if its runs are of one kind."""
    cdef int64_t row = max(b.row0, <int64_t>0), end = min(b.row0 + b.high * b.row_step, height)
    cdef int64_t column = max(b.column0, <int64_t>0)
    # pixels that are left out are not asked for, where the others are evenly apart
    cdef int64_t each = b.column_step if width % b.column_step == 0 else 1
    cdef int64_t wide = min(b.column0 + b.wide * b.column_step, width) - column
    ahead.runs = 0
    if end <= row or wide <= 0 or b.images == 0:
        return
    x += ((b.n0 * height + row) * width + column) * channels * size
    if b.images > 1:  # all of them whole but for what no window meets
        expect(ahead, x, ((b.images - 1) * height + end - row) * width // each, length * size,
               each * channels * size, pieces)
    elif wide == width:
        expect(ahead, x, (end - row) * width // each, length * size, each * channels * size,
               pieces)
    elif length == channels:
        expect(ahead, x, end - row, wide * channels * size, width * channels * size, pieces)


cdef inline void copy_pixels(char *tile, const char *src, int64_t count, int64_t size,
                             bint narrow) noexcept nogil:
    if narrow:
        uff_convolution(kernels).expand(count, src, tile)
    else:
        memcpy(tile, src, count * size)


cdef inline void copy_block(const char *x, int64_t size, bint narrow, int64_t height,
                            int64_t width, int64_t channels, const Block *b, int64_t length,
                            int64_t pitch, char *tile) noexcept nogil:
    """Copy a block, ``length`` elements of each pixel, ``pitch`` apart; outside is 0.

    ``size`` is that of an element of the tile; ``narrow``: x is bfloat16, and expanded.
    """
    cdef int64_t n, r, _, row, step = b.column_step, x_size = 2 if narrow else size
    cdef int64_t before = min(parts(-b.column0, step), b.wide) if b.column0 < 0 else 0
    cdef int64_t end = min(parts(width - b.column0, step), b.wide) if b.column0 < width else 0
    cdef bint joined = length == channels and step == 1 and pitch == length
    cdef const char *src
    for n in range(b.n0, b.n0 + b.images):
        for r in range(b.high):
            row = b.row0 + r * b.row_step
            if row < 0 or row >= height or before >= end:
                memset(tile, 0, b.wide * pitch * size)
                tile += b.wide * pitch * size
                continue
            memset(tile, 0, before * pitch * size)
            tile += before * pitch * size
            src = x + ((n * height + row) * width + b.column0 + before * step) * channels * x_size
            if joined:
                copy_pixels(tile, src, (end - before) * length, size, narrow)
                tile += (end - before) * length * size
            else:
                for _ in range(before, end):
                    copy_pixels(tile, src, length, size, narrow)
                    tile += pitch * size
                    src += step * channels * x_size
            memset(tile, 0, (b.wide - end) * pitch * size)
            tile += (b.wide - end) * pitch * size


cdef inline int64_t lanes(int64_t itemsize):
    """Filters in one panel; those of bfloat16 are float32 there."""
    cdef const uff_convolution_kernels *tile = uff_convolution(kernels)
    return tile.lanes_f64 if itemsize == 8 else tile.lanes_f32
