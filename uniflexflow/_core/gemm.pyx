"""Matrix products: how they are cut into blocks and spread over slave cores.

The loops are those of BLIS: columns of C by ``nc``, the sum by ``kc``, rows by ``mc``; the
tile kernel multiplies a block of A by panels of B. A block of packed B belongs to all
cores and lies in the workspace; a block of packed A lies in its core's scratchpad. Many
small products are given to the cores whole, with packed B in the scratchpad too. Cores that
share a product have some blocks of it each, and take blocks of others when they are ready
first. The sum is cut by sizes alone, so results don't depend on the number of cores.

Operands in bfloat16 are expanded, or put together in pairs, while they are packed. Where the sum
is in several blocks and C in bfloat16, what the blocks have added up so far is float32 in the
workspace (in scratchpad if products are given to the cores whole), m * nc elements, and is
rounded with the last block.
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t
from libc.string cimport memcpy

from uniflexflow._core.core cimport (
    uff_arg, uff_first_piece, uff_instruction, uff_next_piece, uff_share, uff_slave, uff_spawn,
    uff_spawn_together, uff_sync, uff_take, uff_team,
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
    int64_t size, packed_size, c_size  # bytes of an element of A and B, as it is packed, of C
    bint rounded  # C is bfloat16
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
    char *sums  # float32, of blocks of a sum that is rounded at its end; NULL: there are none


cdef struct Room:  # a core's own: packed A and B, bias in float32, sums (see Product)
    char *a
    char *b
    float *bias
    char *sums


cdef struct Slab:  # some columns of a product, and a part of its sums
    int64_t jc, nw, panels  # columns: the first, how many, in panels of B
    int64_t pc, kw, deep    # of the sum: where it begins, how long it is, unpacked and packed
    int64_t along, cuts     # cores along the rows; blocks of rows of each
    const char *a
    const char *b
    char *c


cdef struct Corner:  # a core's place among those that share one product
    int id, count
    uff_slave *sync  # NULL: it works alone


cdef inline int64_t ceil_div(int64_t a, int64_t b) noexcept nogil:
    return (a + b - 1) // b


cdef enum:
    BLOCKS_TO_SHARE = 4  # blocks of each core, of which others take some
    LEAST_PANELS = 4     # of rows in one of them: it reads all of B


cdef enum:  # operands; PAIRS are bfloat16 too, as AVX512_BF16 has them, for the tests
    F32, F64, BF16, PAIRS


cdef const uff_gemm_type *gemm_type(int kind) noexcept nogil:
    cdef const uff_gemm_kernels *family = uff_gemm(kernels)
    if kind == F32:
        return &family.f32
    if kind == F64:
        return &family.f64
    return &family.bf16 if kind == BF16 else &family.bf16_pairs


cdef inline int64_t element_size(int kind) noexcept nogil:
    return 4 if kind == F32 else 8 if kind == F64 else 2


cdef inline void expand_bias(const uint16_t *bias, int64_t n, float *out) noexcept nogil:
    cdef int64_t j
    cdef uint32_t bits
    for j in range(n):
        bits = <uint32_t>bias[j] << 16
        memcpy(&out[j], &bits, sizeof(float))


cdef void read_product(Product *g, const uff_instruction *ins, bint has_bias) noexcept nogil:
    cdef const int64_t *i = ins.ints
    g.type = gemm_type(<int>i[0])
    g.batch, g.m, g.n, g.k = i[1], i[2], i[3], i[4]
    g.transpose_a, g.transpose_b = i[5], i[6]
    g.kc, g.mc, g.nc = i[7], i[8], i[9]
    g.pack_a, g.pack_b, g.act = i[10], i[11], i[12]
    g.size, g.packed_size = element_size(<int>i[0]), 8 if i[0] == F64 else 4
    g.rounded = i[15]
    g.c_size = 2 if g.rounded else g.packed_size
    g.c = <char *>uff_arg(ins, 0)
    g.a = <const char *>uff_arg(ins, 1)
    g.b = <const char *>uff_arg(ins, 2)
    g.bias = <const char *>uff_arg(ins, 3) if has_bias else NULL
    g.workspace = <char *>uff_arg(ins, 4 if has_bias else 3)
    g.sums = NULL


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


cdef inline int64_t first_block(const Corner *me, int64_t blocks) noexcept nogil:
    """The first of ``blocks`` blocks for this core, or -1; alone, it has all."""
    if me.sync != NULL:
        return uff_first_piece(me.sync, blocks)
    return 0 if blocks else -1


cdef inline int64_t next_block(const Corner *me, int64_t block, int64_t blocks) noexcept nogil:
    if me.sync != NULL:
        return uff_next_piece(me.sync)
    return block + 1 if block + 1 < blocks else -1


cdef void multiply(const Product *g, int64_t index, Corner me, const Room *room) noexcept nogil:
    """This core's part of product number ``index`` of the batch."""
    cdef const uff_gemm_type *t = g.type
    cdef const char *a = g.a + index * g.m * g.k * g.size
    cdef const char *b = g.b + index * g.k * g.n * g.size
    cdef int64_t ldb = g.k if g.transpose_b else g.n
    cdef int64_t row_panels = ceil_div(g.m, t.mr), first, last, block, blocks, cuts
    cdef Slab s
    s.c = g.c + index * g.m * g.n * g.c_size
    s.jc = 0
    while s.jc < g.n:
        s.nw = min(g.nc, g.n - s.jc)
        s.panels = ceil_div(s.nw, t.nr)
        s.along = row_cores(me.count, row_panels, s.panels)
        cuts = ceil_div(ceil_div(row_panels, s.along) * t.mr, g.mc)
        if me.count > 1:  # enough for the others to take some
            cuts = max(cuts, min(<int64_t>BLOCKS_TO_SHARE, row_panels // (s.along * LEAST_PANELS)))
        s.cuts, blocks = cuts, cuts * me.count
        s.pc = 0
        while True:  # once at least: an empty sum writes zeros
            s.kw = min(g.kc, g.k - s.pc)
            s.deep = ceil_div(s.kw, t.depth)
            s.a = a + s.pc * (g.m if g.transpose_a else 1) * g.size
            s.b = b + (s.jc * ldb + s.pc if g.transpose_b else s.pc * ldb + s.jc) * g.size
            if me.sync != NULL and (s.pc or (g.pack_b and (s.jc or index))):
                uff_sync(me.sync)  # all have read the block before, and added to the sums
            if g.pack_b:
                first = s.panels * me.id // me.count * t.nr
                last = min(s.nw, s.panels * (me.id + 1) // me.count * t.nr)
                if first < last:
                    t.pack_b(last - first, s.kw,
                             s.b + first * (ldb if g.transpose_b else 1) * g.size, ldb,
                             g.transpose_b, room.b + first * s.deep * g.packed_size)
                if me.sync != NULL:
                    uff_sync(me.sync)
            block = first_block(&me, blocks)
            while block >= 0:
                multiply_block(g, &s, block, me.count, row_panels, room)
                block = next_block(&me, block, blocks)
            s.pc += s.kw
            if s.pc >= g.k:
                break
        s.jc += s.nw


cdef void multiply_block(const Product *g, const Slab *s, int64_t block, int64_t count,
                         int64_t row_panels, const Room *room) noexcept nogil:
    """Block number ``block`` of the slab, of which each of ``count`` cores has ``s.cuts``."""
    cdef const uff_gemm_type *t = g.type
    cdef int64_t core = block // s.cuts, cut = block % s.cuts
    cdef int64_t row = core % s.along, column = core // s.along, across = count // s.along
    cdef int64_t j0 = min(s.nw, s.panels * column // across * t.nr)
    cdef int64_t j1 = min(s.nw, s.panels * (column + 1) // across * t.nr)
    cdef int64_t s0 = row_panels * row // s.along, s1 = row_panels * (row + 1) // s.along
    cdef int64_t i0 = uff_gemm_cut(g.m, row_panels, s0 + (s1 - s0) * cut // s.cuts)
    cdef int64_t i1 = uff_gemm_cut(g.m, row_panels, s0 + (s1 - s0) * (cut + 1) // s.cuts)
    cdef int64_t whole
    cdef bint ends = s.pc + s.kw >= g.k
    cdef uff_gemm_block tile
    if i0 == i1 or j0 == j1:
        return
    tile.k = s.deep
    tile.accumulate = s.pc > 0
    tile.act = g.act if ends else UFF_ACT_NONE
    tile.m = i1 - i0
    tile.lda = g.m if g.transpose_a else g.k
    tile.a_form = UFF_A_COLUMNS if g.transpose_a else UFF_A_ROWS
    tile.a = s.a + i0 * (1 if g.transpose_a else g.k) * g.size
    if g.pack_a:
        t.pack_a(tile.m, s.kw, tile.a, tile.lda, tile.a_form, room.a)
        tile.a_form, tile.a = UFF_A_PACKED, room.a
    tile.b_packed = g.pack_b
    tile.ldb = g.k if g.transpose_b else g.n
    tile.n = j1 - j0
    tile.b = s.b + j0 * g.size
    if g.pack_b:
        tile.b = room.b + j0 * s.deep * g.packed_size
    tile.bias = tile.out = NULL
    tile.ldo = g.n
    if g.rounded:
        tile.c, tile.ldc = room.sums + (i0 * s.nw + j0) * sizeof(float), s.nw
        if ends:
            tile.out = s.c + (i0 * g.n + s.jc + j0) * g.c_size
    else:
        tile.c, tile.ldc = s.c + (i0 * g.n + s.jc + j0) * g.c_size, g.n
    if g.bias != NULL and ends:
        tile.bias = g.bias + (s.jc + j0) * g.size
        if g.rounded:
            expand_bias(<const uint16_t *>g.bias + s.jc + j0, j1 - j0, room.bias)
            tile.bias = room.bias
    if not g.pack_b and tile.n % t.nr:  # B in place, but for its last panel
        whole = tile.n - tile.n % t.nr
        tile.n = whole
        if whole:
            t.block(&tile)
        tile.n = j1 - j0 - whole
        t.pack_b(tile.n, s.kw, s.b + (j0 + whole) * g.size, tile.ldb, 0, room.b)
        tile.b, tile.b_packed = room.b, 1
        tile.c = <char *>tile.c + whole * g.size
        if tile.bias != NULL:
            tile.bias = <const char *>tile.bias + whole * g.size
    t.block(&tile)


cdef void take_room(const Product *g, uff_slave *self, Room *room) noexcept nogil:
    cdef int64_t deep = ceil_div(g.kc, g.type.depth)
    room.a, room.sums, room.bias = NULL, g.sums, NULL
    if g.pack_a:
        room.a = <char *>uff_take(self, g.packed_size * (g.mc + g.type.mr) * deep)
    if g.rounded and g.bias != NULL:
        room.bias = <float *>uff_take(self, sizeof(float) * (g.nc + g.type.nr))


cdef void together(uff_slave *self, void *arg) noexcept nogil:
    """All cores on one product after the other."""
    cdef const Product *g = <const Product *>arg
    cdef Corner me
    cdef Room room
    me.id, me.count = self.id, self.count
    me.sync = self if self.count > 1 else NULL
    take_room(g, self, &room)
    room.b = g.workspace
    cdef int64_t index
    if not g.pack_b:
        room.b = <char *>uff_take(self, g.size * g.kc * g.type.nr)
    for index in range(g.batch):
        multiply(g, index, me, &room)


cdef void apart(uff_slave *self, void *arg) noexcept nogil:
    """Each core on whole products of its own."""
    cdef const Product *g = <const Product *>arg
    cdef Corner me
    cdef Room room
    cdef int64_t index
    me.id, me.count, me.sync = 0, 1, NULL
    take_room(g, self, &room)
    room.b = <char *>uff_take(self, g.packed_size * ceil_div(g.kc, g.type.depth) * (
        ceil_div(g.nc, g.type.nr) * g.type.nr if g.pack_b else g.type.nr))
    if g.rounded and g.k > g.kc:
        room.sums = <char *>uff_take(self, sizeof(float) * g.m * min(g.n, g.nc))
    index = uff_first_piece(self, g.batch)
    while index >= 0:
        multiply(g, index, me, &room)
        index = uff_next_piece(self)


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
    row.rounded = g.rounded
    step = (g.k if row.transposed else 1) * g.size
    uff_share(self, g.batch * chunks, &lo, &hi)
    while lo < hi:
        index = lo // chunks
        first = lo % chunks * ROW_CHUNK
        last = min(n, first + (hi - lo) * ROW_CHUNK)
        row.n = last - first
        row.x = (g.b if turned else g.a) + index * g.k * g.size
        row.matrix = (g.a if turned else g.b) + index * g.k * n * g.size + first * step
        row.y = g.c + (index * n + first) * g.c_size
        row.bias = g.bias
        if g.bias != NULL and not turned:
            row.bias = g.bias + first * g.size
        g.type.row(&row)
        lo += ceil_div(last - first, ROW_CHUNK)


cdef void run_together(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Product g
    read_product(&g, ins, ins.ints[14])
    g.sums = g.workspace + ins.ints[16]
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

SIZES = {"float32": 4, "float64": 8}  # those of the operands in which sums are made
KINDS = {"float32": F32, "float64": F64, "bfloat16": BF16, "bfloat16 pairs": PAIRS}
ACTIVATIONS = {None: UFF_ACT_NONE, "relu": UFF_ACT_RELU}
FLOPS_PER_CORE = 200_000  # less work than this isn't worth waking another core
BYTES_PER_CORE = 65_536


def micro_tile(dtype):
    """Rows and columns of the micro-tile of the kernels in use."""
    cdef const uff_gemm_type *t = gemm_type(KINDS[dtype])
    return t.mr, t.nr


def elements_together(dtype):
    """How many elements along the sum the kernels in use multiply at once."""
    return gemm_type(KINDS[dtype]).depth


def _even(total, most, unit):
    """Size of the pieces of ``total``, all about the same and none over ``most``."""
    pieces = max(1, math.ceil(total / most))
    return max(unit, math.ceil(total / pieces / unit) * unit)


def lower(node):
    """Choose how a ``matmul`` or ``dense`` node is computed."""
    a = node.inputs[0]
    dtype = a.dtype
    if dtype not in KINDS:
        raise TypeError(f"{node.op.name}: no kernel for dtype {dtype}; "
                        "expected float32, float64 or bfloat16; cast the operands.")
    ta, tb = node.attrs["transpose_a"], node.attrs["transpose_b"]
    m, n = node.outputs[0].shape[-2:]
    k = a.shape[-2] if ta else a.shape[-1]
    act = ACTIVATIONS[node.attrs.get("activation")]
    call = lower_sizes(dtype, math.prod(a.shape[:-2]), m, n, k, ta, tb, len(node.inputs) > 2, act,
                       out=node.outputs[0].dtype)
    return KernelCall(f"{node.op.name}_{dtype}", **call)


def lower_product(node, m, n, k, ta, tb, has_bias=False, activation=None):
    """Lower a node of another name whose operands are those of one product."""
    dtype = node.outputs[0].dtype
    call = lower_sizes(dtype, 1, m, n, k, ta, tb, has_bias, ACTIVATIONS[activation])
    return KernelCall(f"{node.op.name}_product_{dtype}", **call)


def lower_sizes(dtype, batch, m, n, k, ta, tb, has_bias=False, act=UFF_ACT_NONE, *,
                out=None, pack_a=None, pack_b=None, blocks=None):
    """The fields of a KernelCall for sizes; the last arguments force a choice.

    ``dtype`` may be ``"bfloat16 pairs"`` for the form of AVX512_BF16 in any instruction set;
    ``out``, the dtype of the result, may be float32 if the operands are bfloat16.
    """
    cdef void (*function)(const uff_instruction *, const uff_team *) noexcept nogil
    cdef const uff_gemm_type *t = gemm_type(KINDS[dtype])
    mr, nr, depth = t.mr, t.nr, t.depth
    size = element_size(KINDS[dtype])
    narrow = size == 2  # packed, its elements or pairs of them have four bytes
    rounded = narrow and out != "float32"
    packed = max(size, 4)
    machine = host()
    kc, mc, nc = blocks or gemm_blocks(machine, dispatch.selected(), packed, mr, nr)
    kc *= depth
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
            pack_b = tb or narrow or not (few or nbytes <= machine.l1d_bytes * 3 // 4)
        if pack_a is None:
            # In place: an A that few panels of B use, or that stays close by as it is
            pack_a = narrow or (n > 4 * nr and m * k * size > machine.l2_bytes * 3 // 8)
        kc, mc, nc = _even(k, kc, 8), _even(m, mc, mr), _even(n, nc, nr)
        function = run_together
        # B of its own fits in a core's scratchpad: many products are best made apart
        deep, sums = -(-kc // depth), 4 * m * min(n, nc) if rounded and kc < k else 0
        own = deep * packed * (nc if pack_b else nr) + sums
        own += (mc + mr) * deep * packed if pack_a else 0
        own += 4 * (nc + nr) if narrow and has_bias else 0
        if batch > 1 and own + 128 <= machine.scratch_bytes:
            function = run_apart
    workspace, place = 64, 0
    if pack_b and function is run_together:
        place = workspace = -(-deep * packed * nc // 64) * 64
        workspace += sums
    return {
        "function": <size_t>function,
        "ints": (KINDS[dtype], batch, m, n, k, ta, tb, kc, mc, nc, bool(pack_a), bool(pack_b), act,
                 cores, has_bias, rounded, place),
        "workspace": workspace,
        "flops": flops,
    }


LOWERINGS = {"matmul": lower, "dense": lower}
NATIVE_BFLOAT16 = {"matmul", "dense"}
