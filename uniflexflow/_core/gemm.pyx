"""Matrix products: how they are cut into blocks and spread over slave cores.

The loops are those of BLIS: columns of C by ``nc``, the sum by ``kc``, rows by ``mc``; the
tile kernel multiplies a block of A by panels of B. A block of packed B belongs to all
cores and lies in the workspace; a block of packed A lies in its core's scratchpad. Many
small products are given to the cores whole, with packed B in the scratchpad too. The sum
is cut by sizes alone, so results don't depend on the number of cores.
"""

from libc.stdint cimport int64_t

from uniflexflow._core.core cimport (
    uff_arg, uff_instruction, uff_share, uff_slave, uff_spawn, uff_spawn_together, uff_sync,
    uff_take, uff_team,
)
from uniflexflow._core.dispatch cimport kernels
from uniflexflow._core.gemm_tile cimport (
    UFF_A_COLUMNS, UFF_A_PACKED, UFF_A_ROWS, UFF_ACT_NONE, UFF_ACT_RELU, uff_gemm, uff_gemm_block,
    uff_gemm_cut, uff_gemm_kernels, uff_gemm_row, uff_gemm_type,
)

import math

from uniflexflow._core import dispatch
from uniflexflow.machine import host
from uniflexflow.machine.blocks import gemm_blocks
from uniflexflow.plan.kernel_call import KernelCall


cdef struct Product:  # what all cores of one instruction know
    const uff_gemm_type *type
    int64_t size  # bytes of an element
    int64_t batch, m, n, k
    bint transpose_a, transpose_b
    int64_t kc, mc, nc
    bint pack_a, pack_b
    bint bias_once  # the one bias belongs to all elements of a column
    int act
    const char *a
    const char *b
    const char *bias
    char *c
    char *workspace


cdef struct Corner:  # a core's place among those that share one product
    int id, count
    uff_slave *sync  # NULL: it works alone


cdef inline int64_t ceil_div(int64_t a, int64_t b) noexcept nogil:
    return (a + b - 1) // b


cdef void read_product(Product *g, const uff_instruction *ins, bint has_bias) noexcept nogil:
    cdef const int64_t *i = ins.ints
    cdef const uff_gemm_kernels *family = uff_gemm(kernels)
    g.size, g.batch, g.m, g.n, g.k = i[0], i[1], i[2], i[3], i[4]
    g.transpose_a, g.transpose_b = i[5], i[6]
    g.kc, g.mc, g.nc = i[7], i[8], i[9]
    g.pack_a, g.pack_b, g.act = i[10], i[11], i[12]
    g.type = &family.f32 if g.size == 4 else &family.f64
    g.c = <char *>uff_arg(ins, 0)
    g.a = <const char *>uff_arg(ins, 1)
    g.b = <const char *>uff_arg(ins, 2)
    g.bias = <const char *>uff_arg(ins, 3) if has_bias else NULL
    g.workspace = <char *>uff_arg(ins, 4 if has_bias else 3)


cdef int row_cores(int count, int64_t row_panels, int64_t panels) noexcept nogil:
    """Of ``count`` cores, how many to set along the rows, the others along the columns.

    The least work for the busiest core; if equal, the fewest panels of A and B that a core
    has to read, of which those of B are the wider: they come from other cores.
    """
    cdef int rows, best = 1
    cdef int64_t down, across, work, reads, least = -1, fewest = 0
    for rows in range(1, count + 1):
        if count % rows == 0:
            down, across = ceil_div(row_panels, rows), ceil_div(panels, count // rows)
            work = down * across
            reads = down + 4 * across
            if least < 0 or work < least or (work == least and reads < fewest):
                best, least, fewest = rows, work, reads
    return best


cdef void multiply(const Product *g, int64_t index, Corner me, char *a_pack,
                   char *b_pack) noexcept nogil:
    """This core's part of product number ``index`` of the batch."""
    cdef const uff_gemm_type *t = g.type
    cdef const char *a = g.a + index * g.m * g.k * g.size
    cdef const char *b = g.b + index * g.k * g.n * g.size
    cdef char *c = g.c + index * g.m * g.n * g.size
    cdef int64_t lda = g.m if g.transpose_a else g.k, ldb = g.k if g.transpose_b else g.n
    cdef int64_t row_panels = ceil_div(g.m, t.mr), panels, first, last
    cdef int64_t jc, nw, j0, j1, pc, kw, whole, s0, s1, blocks, block, i0, i1
    cdef int along, row, column
    cdef const char *a_block
    cdef const char *b_block
    cdef uff_gemm_block tile
    tile.ldc = g.n
    jc = 0
    while jc < g.n:
        nw = min(g.nc, g.n - jc)
        panels = ceil_div(nw, t.nr)
        along = row_cores(me.count, row_panels, panels)
        row, column = me.id % along, me.id // along
        j0 = min(nw, panels * column // (me.count // along) * t.nr)
        j1 = min(nw, panels * (column + 1) // (me.count // along) * t.nr)
        s0, s1 = row_panels * row // along, row_panels * (row + 1) // along
        blocks = ceil_div((s1 - s0) * t.mr, g.mc)
        pc = 0
        while True:  # once at least: an empty sum writes zeros
            kw = min(g.kc, g.k - pc)
            b_block = b + (jc * ldb + pc if g.transpose_b else pc * ldb + jc) * g.size
            if g.pack_b:
                if me.sync != NULL and (jc or pc or index):
                    uff_sync(me.sync)  # all have read the block before
                first = panels * me.id // me.count * t.nr
                last = min(nw, panels * (me.id + 1) // me.count * t.nr)
                if first < last:
                    t.pack_b(last - first, kw,
                             b_block + first * (ldb if g.transpose_b else 1) * g.size, ldb,
                             g.transpose_b, b_pack + first * kw * g.size)
                if me.sync != NULL:
                    uff_sync(me.sync)
            tile.k = kw
            tile.accumulate = pc > 0
            tile.act = UFF_ACT_NONE
            if pc + kw >= g.k:
                tile.act = g.act
            for block in range(blocks if j1 > j0 else 0):
                i0 = uff_gemm_cut(g.m, row_panels, s0 + (s1 - s0) * block // blocks)
                i1 = uff_gemm_cut(g.m, row_panels, s0 + (s1 - s0) * (block + 1) // blocks)
                if i0 == i1:
                    continue
                tile.m = i1 - i0
                tile.lda = lda
                tile.a_form = UFF_A_COLUMNS if g.transpose_a else UFF_A_ROWS
                a_block = a + (pc * lda + i0 if g.transpose_a else i0 * lda + pc) * g.size
                tile.a = a_block
                if g.pack_a:
                    t.pack_a(tile.m, kw, a_block, lda, tile.a_form, a_pack)
                    tile.a_form, tile.a = UFF_A_PACKED, a_pack
                tile.b_packed = g.pack_b
                tile.ldb = ldb
                tile.n = j1 - j0
                tile.b = b_block + j0 * g.size
                if g.pack_b:
                    tile.b = b_pack + j0 * kw * g.size
                tile.c = c + (i0 * g.n + jc + j0) * g.size
                tile.bias = NULL
                if g.bias != NULL and pc + kw >= g.k:
                    tile.bias = g.bias + (jc + j0) * g.size
                if not g.pack_b and tile.n % t.nr:  # B in place, but for its last panel
                    whole = tile.n - tile.n % t.nr
                    tile.n = whole
                    if whole:
                        t.block(&tile)
                    tile.n = j1 - j0 - whole
                    t.pack_b(tile.n, kw, b_block + (j0 + whole) * g.size, ldb, 0, b_pack)
                    tile.b, tile.b_packed = b_pack, 1
                    tile.c = <char *>tile.c + whole * g.size
                    if tile.bias != NULL:
                        tile.bias = <const char *>tile.bias + whole * g.size
                t.block(&tile)
            pc += kw
            if pc >= g.k:
                break
        jc += nw


cdef void together(uff_slave *self, void *arg) noexcept nogil:
    """All cores on one product after the other."""
    cdef const Product *g = <const Product *>arg
    cdef Corner me
    me.id, me.count = self.id, self.count
    me.sync = self if self.count > 1 else NULL
    cdef char *a_pack = NULL
    cdef char *b_pack = g.workspace
    cdef int64_t index
    if g.pack_a:
        a_pack = <char *>uff_take(self, g.size * (g.mc + g.type.mr) * g.kc)
    if not g.pack_b:
        b_pack = <char *>uff_take(self, g.size * g.kc * g.type.nr)
    for index in range(g.batch):
        multiply(g, index, me, a_pack, b_pack)


cdef void apart(uff_slave *self, void *arg) noexcept nogil:
    """Each core on whole products of its own."""
    cdef const Product *g = <const Product *>arg
    cdef Corner me
    me.id, me.count, me.sync = 0, 1, NULL
    cdef char *a_pack = NULL
    cdef char *b_pack = NULL
    cdef int64_t index, lo, hi
    if g.pack_a:
        a_pack = <char *>uff_take(self, g.size * (g.mc + g.type.mr) * g.kc)
    b_pack = <char *>uff_take(self, g.size * g.kc * (
        ceil_div(g.nc, g.type.nr) * g.type.nr if g.pack_b else g.type.nr))
    uff_share(self, g.batch, &lo, &hi)
    for index in range(lo, hi):
        multiply(g, index, me, a_pack, b_pack)


cdef enum:
    ROW_CHUNK = 64  # outputs of a vector-matrix product that stay on one core


cdef void by_rows(uff_slave *self, void *arg) noexcept nogil:
    """Products with a vector: of A if m is 1, else of B (turned over: C^T = B^T A^T)."""
    cdef const Product *g = <const Product *>arg
    cdef bint turned = g.m != 1
    cdef int64_t n = g.m if turned else g.n
    cdef int64_t chunks = ceil_div(n, ROW_CHUNK), lo, hi, first, last, index, step
    cdef uff_gemm_row row
    row.k = g.k
    row.transposed = (not g.transpose_a) if turned else g.transpose_b
    row.ld = g.k if row.transposed else n
    row.bias_step = 0 if turned else 1
    row.act = g.act
    step = (g.k if row.transposed else 1) * g.size
    uff_share(self, g.batch * chunks, &lo, &hi)
    while lo < hi:
        index = lo // chunks
        first = lo % chunks * ROW_CHUNK
        last = min(n, first + (hi - lo) * ROW_CHUNK)
        row.n = last - first
        row.x = (g.b if turned else g.a) + index * g.k * g.size
        row.matrix = (g.a if turned else g.b) + index * g.k * n * g.size + first * step
        row.y = g.c + (index * n + first) * g.size
        row.bias = g.bias
        if g.bias != NULL and not turned:
            row.bias = g.bias + first * g.size
        g.type.row(&row)
        lo += ceil_div(last - first, ROW_CHUNK)


cdef void run_together(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Product g
    read_product(&g, ins, ins.ints[14])
    uff_spawn_together(team, ins.ints[13], together, &g)


cdef void run_apart(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Product g
    read_product(&g, ins, ins.ints[14])
    uff_spawn(team, min(ins.ints[13], g.batch), apart, &g)


cdef void run_rows(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Product g
    read_product(&g, ins, ins.ints[14])
    uff_spawn(team, ins.ints[13], by_rows, &g)


# -- lowering ------------------------------------------------------------------------

SIZES = {"float32": 4, "float64": 8}
ACTIVATIONS = {None: UFF_ACT_NONE, "relu": UFF_ACT_RELU}
FLOPS_PER_CORE = 200_000  # less work than this isn't worth waking another core
BYTES_PER_CORE = 65_536


def micro_tile(dtype):
    """Rows and columns of the micro-tile of the kernels in use."""
    cdef const uff_gemm_kernels *family = uff_gemm(kernels)
    cdef const uff_gemm_type *t = &family.f32 if SIZES[dtype] == 4 else &family.f64
    return t.mr, t.nr


def _even(total, most, unit):
    """Size of the pieces of ``total``, all about the same and none over ``most``."""
    pieces = max(1, math.ceil(total / most))
    return max(unit, math.ceil(total / pieces / unit) * unit)


def lower(node):
    """Choose how a ``matmul`` or ``dense`` node is computed."""
    a = node.inputs[0]
    dtype = a.dtype
    if dtype not in SIZES:
        raise TypeError(f"{node.op.name}: no kernel for dtype {dtype}; "
                        "expected float32 or float64; cast the operands.")
    ta, tb = node.attrs["transpose_a"], node.attrs["transpose_b"]
    m, n = node.outputs[0].shape[-2:]
    k = a.shape[-2] if ta else a.shape[-1]
    act = ACTIVATIONS[node.attrs.get("activation")]
    call = lower_sizes(dtype, math.prod(a.shape[:-2]), m, n, k, ta, tb, len(node.inputs) > 2, act)
    return KernelCall(f"{node.op.name}_{dtype}", **call)


def lower_product(node, m, n, k, ta, tb, has_bias=False, activation=None):
    """Lower a node of another name whose operands are those of one product."""
    dtype = node.outputs[0].dtype
    call = lower_sizes(dtype, 1, m, n, k, ta, tb, has_bias, ACTIVATIONS[activation])
    return KernelCall(f"{node.op.name}_product_{dtype}", **call)


def lower_sizes(dtype, batch, m, n, k, ta, tb, has_bias=False, act=UFF_ACT_NONE, *,
                pack_a=None, pack_b=None, blocks=None):
    """The fields of a KernelCall for sizes; the last arguments force a choice."""
    cdef void (*function)(const uff_instruction *, const uff_team *) noexcept nogil
    size = SIZES[dtype]
    mr, nr = micro_tile(dtype)
    machine = host()
    kc, mc, nc = blocks or gemm_blocks(machine, dispatch.selected(), size, mr, nr)
    flops = 2 * batch * m * n * k
    cores = max(1, flops // FLOPS_PER_CORE)
    if min(batch, m, n) == 0:
        function, cores, batch = run_rows, 1, 0
        pack_a = pack_b = False
    elif m == 1 or n == 1:
        function = run_rows
        cores = max(1, batch * max(m, n) * k * size // BYTES_PER_CORE)
        pack_a = pack_b = False
    else:
        if pack_b is None:
            # In place: a B that stays in the first-level cache as it is, or that few rows use,
            # unless it comes from memory: its panels go down by rows, which share cache sets
            nbytes = k * n * size
            few = m <= 2 * mr and nbytes <= max(machine.l2_bytes, machine.l3_bytes)
            pack_b = tb or not (few or nbytes <= machine.l1d_bytes * 3 // 4)
        if pack_a is None:
            # In place: an A that few panels of B use, or that stays close by as it is
            pack_a = n > 4 * nr and m * k * size > machine.l2_bytes * 3 // 8
        kc, mc, nc = _even(k, kc, 8), _even(m, mc, mr), _even(n, nc, nr)
        function = run_together
        # B of its own fits in a core's scratchpad: many products are best made apart
        own = kc * nc * size if pack_b else kc * nr * size
        own += (mc + mr) * kc * size if pack_a else 0
        if batch > 1 and own + 128 <= machine.scratch_bytes:
            function = run_apart
    workspace = 64
    if pack_b and function is run_together:
        workspace = kc * nc * size
    return {
        "function": <size_t>function,
        "ints": (size, batch, m, n, k, ta, tb, kc, mc, nc, bool(pack_a), bool(pack_b), act, cores,
                 has_bias),
        "workspace": workspace,
        "flops": flops,
    }


LOWERINGS = {"matmul": lower, "dense": lower}
