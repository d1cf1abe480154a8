# cython: wraparound=True
"""Attention without the matrix of all scores: tiles of queries by keys, forward and backward.

Forward, a core takes a tile of queries of one head past all keys and keeps the running maximum,
sum and weighted values of its rows. Backward, it takes a run of keys past all queries: gradients
of these keys and values grow in its scratchpad, those of the queries in memory. Where a head
alone is work for several cores, its keys are cut into runs, by sizes alone; each has then its
own gradient of the queries, and these are added in order. So no result depends on the number of
cores. Tiles that a causal mask hides are left out, and in those on the diagonal the rows above.

Dao, Fu, Ermon, Rudra and Re, "FlashAttention: fast and memory-efficient exact attention with
IO-awareness" (2022); Rabe and Staats, "Self-attention does not need O(n^2) memory" (2021).
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from uniflexflow._core.core cimport (
    uff_arg, uff_first_piece, uff_instruction, uff_next_piece, uff_share, uff_slave, uff_spawn,
    uff_take, uff_team)
from uniflexflow._core.dispatch cimport kernels, uff_kernels
from uniflexflow._core.gemm_tile cimport (
    UFF_A_COLUMNS, UFF_A_ROWS, UFF_ACT_NONE, uff_gemm, uff_gemm_block, uff_gemm_kernels,
    uff_gemm_type)

import math

from uniflexflow._core.attention_plan import (
    choose_tiles, padded, round_up, runs_of_keys, strides)
from uniflexflow.machine import host
from uniflexflow.plan.kernel_call import KernelCall


cdef extern from "tile/attention.h" nogil:
    ctypedef struct uff_attention_tile:
        int64_t rows, n, ld
        int64_t seen
        void *s
        const void *bias
        int64_t bias_row, bias_column
        const void *mask
        int64_t mask_row, mask_column
        void *high
        void *sum
        void *out
        int64_t width, ld_out
        void *d
        const void *lse
        const void *delta

    ctypedef struct uff_attention_type:
        void (*mask)(const uff_attention_tile *) noexcept nogil
        void (*weigh)(const uff_attention_tile *) noexcept nogil
        void (*weigh_back)(const uff_attention_tile *) noexcept nogil
        void (*copy)(int64_t rows, int64_t n, double factor, const void *x, int64_t ld, void *out,
                     int64_t ld_out) noexcept nogil
        void (*finish)(int64_t rows, int64_t n, const void *x, int64_t ld, const void *high,
                       const void *sum, void *out, int64_t ld_out, void *lse,
                       int64_t step) noexcept nogil
        void (*add)(int64_t rows, int64_t n, double factor, const void *x, int64_t ld,
                    void *out) noexcept nogil
        int (*blind)(const void *lse) noexcept nogil

    ctypedef struct uff_attention_kernels:
        uff_attention_type f32, f64

    const uff_attention_kernels *uff_attention(const uff_kernels *k) noexcept


# What the lowerings write down, in this order.
cdef struct Sizes:
    int64_t size  # bytes of an element
    int64_t batch, targets, sources, heads, groups, dim, width
    int64_t causal, rows, columns  # of a tile
    int64_t runs, cores
    int64_t dim_pad, width_pad, score_pad  # elements from row to row of copies in scratchpad
    int64_t bias, bias_batch, bias_head, bias_row, bias_column  # operand (0: none) and strides
    int64_t mask, mask_batch, mask_head, mask_row, mask_column
    # What several tiles read is prepared once, in the workspace (its operand), by pieces of so
    # many bytes; 0: each core prepares it in its scratchpad.
    int64_t staged, stage


cdef struct Job:
    const Sizes *z
    const uff_gemm_type *gemm
    const uff_attention_type *tile
    double scale
    const uff_instruction *ins
    char *stage
    char *partial  # gradients of the queries, one for each run of keys; NULL: there is one run


cdef void read(Job *j, const uff_instruction *ins) noexcept nogil:
    cdef const uff_gemm_kernels *gemm = uff_gemm(kernels)
    cdef const uff_attention_kernels *tile = uff_attention(kernels)
    j.z = <const Sizes *>ins.ints
    j.gemm = &gemm.f32 if j.z.size == 4 else &gemm.f64
    j.tile = &tile.f32 if j.z.size == 4 else &tile.f64
    j.scale = ins.floats[0]
    j.ins = ins
    j.stage = j.partial = NULL
    if j.z.staged:
        j.stage = <char *>uff_arg(ins, <int>j.z.staged)


cdef inline int64_t ceil_div(int64_t a, int64_t b) noexcept nogil:
    return (a + b - 1) // b


cdef inline int64_t folded(int64_t index, int64_t count) noexcept nogil:
    """Take pieces from both ends in turn: under a causal mask, one end has more work."""
    return count - 1 - index // 2 if index % 2 else index // 2


cdef inline void multiply(const Job *j, int64_t m, int64_t n, int64_t k, const void *a,
                          int64_t lda, int a_form, const void *b, int64_t ldb, void *c,
                          int64_t ldc, bint accumulate) noexcept nogil:
    """C = or += A B; ``ldb`` 0: B is packed."""
    cdef uff_gemm_block g
    g.m, g.n, g.k = m, n, k
    g.a, g.lda, g.a_form = a, lda, a_form
    g.b, g.ldb, g.b_packed = b, ldb, ldb == 0
    g.c, g.ldc, g.accumulate = c, ldc, accumulate
    g.bias = g.out = NULL
    g.act = UFF_ACT_NONE
    j.gemm.block(&g)


cdef inline void hide(const Job *j, uff_attention_tile *t, int64_t b, int64_t h, int64_t row,
                      int64_t column) noexcept nogil:
    """Add the bias and apply the mask to scores that begin at a row and a column."""
    cdef const Sizes *z = j.z
    t.bias = t.mask = NULL
    if z.bias:
        t.bias = <char *>uff_arg(j.ins, <int>z.bias) + z.size * (
            b * z.bias_batch + h * z.bias_head + row * z.bias_row + column * z.bias_column)
        t.bias_row, t.bias_column = z.bias_row, z.bias_column
    if z.mask:
        t.mask = <char *>uff_arg(j.ins, <int>z.mask) + (
            b * z.mask_batch + h * z.mask_head + row * z.mask_row + column * z.mask_column)
        t.mask_row, t.mask_column = z.mask_row, z.mask_column
    if z.bias or z.mask:
        j.tile.mask(t)


cdef inline void fill(const Job *j, char *x, int64_t n, double value) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if j.z.size == 4:
            (<float *>x)[i] = <float>value
        else:
            (<double *>x)[i] = value


# -- forward: outputs out and lse, inputs q, k, v ----------------------------------------

cdef inline void pack(const Job *j, int64_t head, int64_t k0, char *keys,
                      char *values) noexcept nogil:
    """Pack a tile of keys, turned, and of values; ``head`` counts those of all samples."""
    cdef const Sizes *z = j.z
    cdef int64_t heads = z.heads // z.groups, n = min(z.columns, z.sources - k0)
    cdef int64_t row = (head // heads * z.sources + k0) * heads + head % heads
    j.gemm.pack_b(n, z.dim, <char *>uff_arg(j.ins, 3) + row * z.dim * z.size, heads * z.dim, 1,
                  keys)
    j.gemm.pack_b(z.width, n, <char *>uff_arg(j.ins, 4) + row * z.width * z.size,
                  heads * z.width, 0, values)


cdef inline int64_t keys_bytes(const Job *j) noexcept nogil:
    return ceil_div(j.z.columns, j.gemm.nr) * j.gemm.nr * j.z.dim * j.z.size


cdef void pack_share(uff_slave *self, void *arg) noexcept nogil:
    """Keys and values of all heads, before several tiles of queries go past them."""
    cdef const Job *j = <const Job *>arg
    cdef const Sizes *z = j.z
    cdef int64_t tiles = ceil_div(z.sources, z.columns), lo, hi
    cdef char *to
    uff_share(self, z.batch * z.heads // z.groups * tiles, &lo, &hi)
    while lo < hi:
        to = j.stage + lo * z.stage
        pack(j, lo // tiles, lo % tiles * z.columns, to, to + keys_bytes(j))
        lo += 1


cdef void attend(const Job *j, int64_t b, int64_t h, int64_t q0, char *scratch) noexcept nogil:
    """One tile of queries of one head."""
    cdef const Sizes *z = j.z
    cdef int64_t size = z.size, kv_heads = z.heads // z.groups, kv = h // z.groups
    cdef int64_t rows = min(z.rows, z.targets - q0), last = z.sources, k0, n, above, i
    cdef int64_t q_row = (b * z.targets + q0) * z.heads + h  # of (batch, length, heads)
    cdef const char *v = <char *>uff_arg(j.ins, 4)
    cdef char *out = <char *>uff_arg(j.ins, 0) + q_row * z.width * size
    cdef char *lse = <char *>uff_arg(j.ins, 1) + q_row * size
    cdef char *q = scratch
    cdef char *sums = q + z.rows * z.dim_pad * size
    cdef char *scores = sums + z.rows * z.width_pad * size
    cdef char *high = scores + z.rows * z.score_pad * size
    cdef char *total = high + z.rows * size
    cdef char *keys = total + z.rows * size
    cdef char *values = keys + keys_bytes(j)
    cdef uff_attention_tile t
    if not z.sources:
        for i in range(rows):
            memset(out + i * z.heads * z.width * size, 0, z.width * size)
            fill(j, lse + i * z.heads * size, 1, -INFINITY)
        return
    j.tile.copy(rows, z.dim, j.scale, <char *>uff_arg(j.ins, 2) + q_row * z.dim * size,
                z.heads * z.dim, q, z.dim_pad)
    fill(j, high, rows, -INFINITY)
    fill(j, total, rows, 0)
    t.ld, t.width, t.ld_out = z.score_pad, z.width, z.width_pad
    if z.causal:
        last = min(last, q0 + rows)
    k0 = 0
    while k0 < last:
        n = min(z.columns, z.sources - k0)
        if j.stage != NULL:
            keys = j.stage + ((b * kv_heads + kv) * ceil_div(z.sources, z.columns)
                              + k0 // z.columns) * z.stage
            values = keys + keys_bytes(j)
        else:
            pack(j, b * kv_heads + kv, k0, keys, values)
        above = max(0, k0 - q0) if z.causal else 0  # rows that see none of these keys
        t.rows, t.n = rows - above, n
        t.seen = q0 + above + 1 - k0 if z.causal else n
        t.s = scores + above * z.score_pad * size
        t.high, t.sum = high + above * size, total + above * size
        t.out = sums + above * z.width_pad * size
        multiply(j, t.rows, n, z.dim, q + above * z.dim_pad * size, z.dim_pad, UFF_A_ROWS, keys, 0,
                 t.s, z.score_pad, False)
        hide(j, &t, b, h, q0 + above, k0)
        j.tile.weigh(&t)
        multiply(j, t.rows, z.width, n, t.s, z.score_pad, UFF_A_ROWS, values, 0, t.out,
                 z.width_pad, k0 > 0)
        k0 += z.columns
    j.tile.finish(rows, z.width, sums, z.width_pad, high, total, out, z.heads * z.width, lse,
                  z.heads)
    if z.mask and z.causal:  # what may look at nothing has the mean of all, the later ones too
        for i in range(rows):
            if j.tile.blind(lse + i * z.heads * size):
                memset(sums, 0, z.width * size)
                j.tile.add(z.sources, z.width, 1.0 / <double>z.sources,
                           v + (b * z.sources * kv_heads + kv) * z.width * size,
                           kv_heads * z.width, sums)
                memcpy(out + i * z.heads * z.width * size, sums, z.width * size)


cdef void attend_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const Job *j = <const Job *>arg
    cdef const Sizes *z = j.z
    cdef int64_t tiles = ceil_div(z.targets, z.rows), piece, head
    cdef char *scratch = <char *>uff_take(self, forward_bytes(
        z.size, j.gemm.nr, z.rows, z.columns, z.dim, z.width, z.dim_pad, z.width_pad, z.score_pad))
    piece = uff_first_piece(self, z.batch * z.heads * tiles)
    while piece >= 0:
        head = piece // tiles
        attend(j, head // z.heads, head % z.heads, folded(piece % tiles, tiles) * z.rows, scratch)
        piece = uff_next_piece(self)


cdef void run_forward(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Job j
    read(&j, ins)
    if j.stage != NULL:
        uff_spawn(team, j.z.cores, pack_share, &j)
    uff_spawn(team, j.z.cores, attend_share, &j)


cdef int64_t forward_bytes(int64_t size, int64_t nr, int64_t rows, int64_t columns, int64_t dim,
                           int64_t width, int64_t dim_pad, int64_t width_pad,
                           int64_t score_pad) noexcept nogil:
    return size * (rows * (dim_pad + width_pad + score_pad + 2) + ceil_div(columns, nr) * nr * dim
                   + ceil_div(width, nr) * nr * columns)


# -- backward: outputs dq, dk, dv, inputs q, k, v, lse, delta, g ---------------------------

cdef struct Queries:  # a tile of queries of one head, each row's numbers together
    char *q
    char *g
    char *lse
    char *delta


cdef inline void place_queries(const Job *j, int64_t rows, char *place, Queries *t) noexcept nogil:
    cdef const Sizes *z = j.z
    t.q = place
    t.g = t.q + rows * z.dim_pad * z.size
    t.lse = t.g + rows * z.width_pad * z.size
    t.delta = t.lse + rows * z.size


cdef inline void copy_queries(const Job *j, int64_t b, int64_t h, int64_t q0, int64_t rows,
                              const Queries *to) noexcept nogil:
    cdef const Sizes *z = j.z
    cdef int64_t row = (b * z.targets + q0) * z.heads + h
    j.tile.copy(rows, z.dim, j.scale, <char *>uff_arg(j.ins, 3) + row * z.dim * z.size,
                z.heads * z.dim, to.q, z.dim_pad)
    j.tile.copy(rows, z.width, 1, <char *>uff_arg(j.ins, 8) + row * z.width * z.size,
                z.heads * z.width, to.g, z.width_pad)
    j.tile.copy(rows, 1, 1, <char *>uff_arg(j.ins, 6) + row * z.size, z.heads, to.lse, 1)
    j.tile.copy(rows, 1, 1, <char *>uff_arg(j.ins, 7) + row * z.size, z.heads, to.delta, 1)


cdef void copy_share(uff_slave *self, void *arg) noexcept nogil:
    """Queries of all heads, before several tiles of keys go past them."""
    cdef const Job *j = <const Job *>arg
    cdef const Sizes *z = j.z
    cdef int64_t tiles = ceil_div(z.targets, z.rows), lo, hi, head, q0
    cdef Queries to
    uff_share(self, z.batch * z.heads * tiles, &lo, &hi)
    while lo < hi:
        head, q0 = lo // tiles, lo % tiles * z.rows
        place_queries(j, z.rows, j.stage + lo * z.stage, &to)
        copy_queries(j, head // z.heads, head % z.heads, q0, min(z.rows, z.targets - q0), &to)
        lo += 1


cdef void attend_back(const Job *j, int64_t b, int64_t kv, int64_t run, int64_t first,
                      int64_t last, char *scratch) noexcept nogil:
    """Keys [first, last) of one head of keys, against all queries that use it."""
    cdef const Sizes *z = j.z
    cdef int64_t size = z.size, kv_heads = z.heads // z.groups, nr = j.gemm.nr
    cdef int64_t k0 = first, q0, n, rows, above, h, i, q_row, kv_row, tile
    cdef int64_t held = -1, skip, wide
    cdef Queries at
    cdef const char *g = <char *>uff_arg(j.ins, 8)
    cdef const char *lse = <char *>uff_arg(j.ins, 6)
    cdef char *dq = <char *>uff_arg(j.ins, 0)
    cdef char *s = scratch + z.rows * (z.dim_pad + z.width_pad + 2) * size  # behind the queries
    cdef char *d = s + z.rows * z.score_pad * size
    cdef char *keys = d + z.rows * z.score_pad * size        # K^T, packed
    cdef char *values = keys + ceil_div(z.columns, nr) * nr * z.dim * size  # V^T, packed
    cdef char *k_tile = values + ceil_div(z.columns, nr) * nr * z.width * size  # K, by rows
    cdef char *dk = k_tile + z.columns * z.dim_pad * size
    cdef char *dv = dk + z.columns * z.dim_pad * size
    cdef char *mean = dv + z.columns * z.width_pad * size
    cdef uff_attention_tile t
    if j.partial != NULL:
        dq = j.partial + run * z.batch * z.targets * z.heads * z.dim * size
    t.ld = z.score_pad
    place_queries(j, z.rows, scratch, &at)
    if z.mask:  # what may look at nothing has the mean of all values, the hidden ones too
        memset(mean, 0, z.width * size)
        for i in range(z.groups * z.targets):
            q_row = (b * z.targets + i % z.targets) * z.heads + kv * z.groups + i // z.targets
            if j.tile.blind(lse + q_row * size):
                j.tile.add(1, z.width, 1.0 / <double>z.sources, g + q_row * z.width * size,
                           z.width, mean)
    if z.causal and first:  # queries before the first of these keys
        for i in range(min(first, z.targets)):
            q_row = (b * z.targets + i) * z.heads + kv * z.groups
            memset(dq + q_row * z.dim * size, 0, z.groups * z.dim * size)
    while k0 < last:
        n = min(z.columns, last - k0)
        kv_row = (b * z.sources + k0) * kv_heads + kv
        j.gemm.pack_b(n, z.dim, <char *>uff_arg(j.ins, 4) + kv_row * z.dim * size,
                      kv_heads * z.dim, 1, keys)
        j.gemm.pack_b(n, z.width, <char *>uff_arg(j.ins, 5) + kv_row * z.width * size,
                      kv_heads * z.width, 1, values)
        j.tile.copy(n, z.dim, j.scale, <char *>uff_arg(j.ins, 4) + kv_row * z.dim * size,
                    kv_heads * z.dim, k_tile, z.dim_pad)
        memset(dk, 0, n * z.dim_pad * size)
        memset(dv, 0, n * z.width_pad * size)
        for h in range(kv * z.groups, (kv + 1) * z.groups):
            q0 = k0 // z.rows * z.rows if z.causal else 0
            while q0 < z.targets:
                above = max(0, k0 - q0) if z.causal else 0
                rows = min(z.rows, z.targets - q0) - above
                if rows <= 0:
                    break
                tile = (b * z.heads + h) * ceil_div(z.targets, z.rows) + q0 // z.rows
                if j.stage != NULL:
                    place_queries(j, z.rows, j.stage + tile * z.stage, &at)
                elif held != tile:
                    held = tile
                    copy_queries(j, b, h, q0, rows + above, &at)
                q_row = (b * z.targets + q0 + above) * z.heads + h
                skip, wide = above * z.dim_pad * size, above * z.width_pad * size
                multiply(j, rows, n, z.dim, at.q + skip, z.dim_pad, UFF_A_ROWS, keys, 0, s,
                         z.score_pad, False)
                multiply(j, rows, n, z.width, at.g + wide, z.width_pad, UFF_A_ROWS, values, 0,
                         d, z.score_pad, False)
                t.rows, t.n, t.s, t.d = rows, n, s, d
                t.lse, t.delta = at.lse + above * size, at.delta + above * size
                t.seen = q0 + above + 1 - k0 if z.causal else n
                hide(j, &t, b, h, q0 + above, k0)
                j.tile.weigh_back(&t)
                multiply(j, n, z.width, rows, s, z.score_pad, UFF_A_COLUMNS, at.g + wide,
                         z.width_pad, dv, z.width_pad, True)
                multiply(j, n, z.dim, rows, d, z.score_pad, UFF_A_COLUMNS, at.q + skip,
                         z.dim_pad, dk, z.dim_pad, True)
                multiply(j, rows, z.dim, n, d, z.score_pad, UFF_A_ROWS, k_tile, z.dim_pad,
                         dq + q_row * z.dim * size, z.heads * z.dim, k0 > first)
                q0 += z.rows
        if z.mask:
            for i in range(n):
                j.tile.add(1, z.width, 1, mean, z.width, dv + i * z.width_pad * size)
        copy_out(j, n, z.dim, dk, z.dim_pad, <char *>uff_arg(j.ins, 1) + kv_row * z.dim * size,
                 kv_heads * z.dim)
        copy_out(j, n, z.width, dv, z.width_pad,
                 <char *>uff_arg(j.ins, 2) + kv_row * z.width * size, kv_heads * z.width)
        k0 += z.columns


cdef inline void copy_out(const Job *j, int64_t rows, int64_t n, const char *x, int64_t ld,
                          char *out, int64_t ld_out) noexcept nogil:
    cdef int64_t i
    for i in range(rows):
        memcpy(out + i * ld_out * j.z.size, x + i * ld * j.z.size, n * j.z.size)


cdef void attend_back_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const Job *j = <const Job *>arg
    cdef const Sizes *z = j.z
    cdef int64_t tiles = ceil_div(z.sources, z.columns), kv_heads = z.heads // z.groups
    cdef int64_t piece, head, run
    cdef char *scratch = <char *>uff_take(self, backward_bytes(
        z.size, j.gemm.nr, z.rows, z.columns, z.dim, z.width, z.dim_pad, z.width_pad, z.score_pad))
    piece = uff_first_piece(self, z.batch * kv_heads * z.runs)
    while piece >= 0:
        head = piece // z.runs
        run = folded(piece % z.runs, z.runs)
        attend_back(j, head // kv_heads, head % kv_heads, run,
                    tiles * run // z.runs * z.columns,
                    min(z.sources, tiles * (run + 1) // z.runs * z.columns), scratch)
        piece = uff_next_piece(self)


cdef void add_runs(uff_slave *self, void *arg) noexcept nogil:
    """The gradient of the queries: the sum of those by runs of keys, in order."""
    cdef const Job *j = <const Job *>arg
    cdef const Sizes *z = j.z
    cdef int64_t total = z.batch * z.targets * z.heads * z.dim, lo, hi, run
    cdef char *dq = <char *>uff_arg(j.ins, 0)
    uff_share(self, total, &lo, &hi)
    memcpy(dq + lo * z.size, j.partial + lo * z.size, (hi - lo) * z.size)
    for run in range(1, z.runs):
        j.tile.add(1, hi - lo, 1, j.partial + (run * total + lo) * z.size, 0, dq + lo * z.size)


cdef void run_backward(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Job j
    read(&j, ins)
    if not j.z.sources:
        memset(uff_arg(ins, 0), 0, j.z.batch * j.z.targets * j.z.heads * j.z.dim * j.z.size)
        return
    if j.z.runs > 1:
        j.partial = <char *>uff_arg(ins, 9 + <int>(j.z.bias > 0) + <int>(j.z.mask > 0))
        if j.stage != NULL:
            j.partial += j.z.stage * j.z.batch * j.z.heads * ceil_div(j.z.targets, j.z.rows)
    if j.stage != NULL:
        uff_spawn(team, j.z.cores, copy_share, &j)
    uff_spawn(team, j.z.cores, attend_back_share, &j)
    if j.z.runs > 1:
        uff_spawn(team, j.z.cores, add_runs, &j)


cdef int64_t backward_bytes(int64_t size, int64_t nr, int64_t rows, int64_t columns, int64_t dim,
                            int64_t width, int64_t dim_pad, int64_t width_pad,
                            int64_t score_pad) noexcept nogil:
    return size * (rows * (dim_pad + width_pad + 2 * score_pad + 2)
                   + ceil_div(columns, nr) * nr * (dim + width)
                   + columns * (2 * dim_pad + width_pad) + width)


# -- lowering ------------------------------------------------------------------------------

SIZES = {"float32": 4, "float64": 8}
FLOPS_PER_CORE = 200_000  # less work than this isn't worth waking another core


def lower(node):
    """Choose tiles for an ``attention`` or ``attention_gradient`` node."""
    q, k, v = [value.spec for value in node.inputs[:3]]
    backward = node.op.name == "attention_gradient"
    outputs = len(node.outputs)
    first = 6 if backward else 3
    extras = {value.dtype == "bool": (value.spec, outputs + i)
              for i, value in enumerate(node.inputs) if i >= first}
    size = SIZES[q.dtype]
    cdef const uff_gemm_kernels *family = uff_gemm(kernels)
    cdef const uff_gemm_type *gemm = &family.f32 if size == 4 else &family.f64
    nr = gemm.nr
    batch, targets, heads, dim = q.shape
    sources, kv_heads, width = k.shape[1], k.shape[2], v.shape[3]
    dim_pad, width_pad = padded(dim, nr, size), padded(width, nr, size)
    count = backward_bytes if backward else forward_bytes
    room, causal = host().scratch_bytes, node.attrs["causal"]

    def fits(rows, columns):
        return count(size, nr, rows, columns, dim, width, dim_pad, width_pad,
                     padded(columns, nr, size)) <= room

    rows, columns = choose_tiles(fits, targets, sources, backward, causal, (gemm.mr, nr))
    runs = 1
    if backward:
        pieces = batch * heads * math.ceil(targets / rows)
        stage = rows * (dim_pad + width_pad + 2) if sources > columns and targets > rows else 0
        runs = runs_of_keys(batch * kv_heads, sources)
    else:
        pieces = batch * kv_heads * math.ceil(sources / columns)
        stage = round_up(columns, nr) * dim + round_up(width, nr) * columns
        stage = stage if targets > rows else 0
    stage = round_up(stage * size, 64) if pieces else 0
    flops = 2 * batch * heads * targets * sources * (
        3 * dim + 2 * width if backward else dim + width)
    if causal:
        flops //= 2
    ints = (size, batch, targets, sources, heads, heads // kv_heads if kv_heads else 1, dim, width,
            causal, rows, columns, runs, max(1, flops // FLOPS_PER_CORE), dim_pad,
            width_pad, padded(columns, nr, size), *strides(*extras.get(False, (None, 0))),
            *strides(*extras.get(True, (None, 0))),
            outputs + len(node.inputs) if stage else 0, stage)
    return KernelCall(
        f"{node.op.name}_{q.dtype}",
        <size_t>&run_backward if backward else <size_t>&run_forward,
        ints,
        floats=(node.attrs["factor"],),
        workspace=stage * pieces + (runs * q.nbytes if runs > 1 else 0),
        flops=flops,
    )


LOWERINGS = {"attention": lower, "attention_gradient": lower}
