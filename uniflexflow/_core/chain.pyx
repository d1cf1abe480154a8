# cython: wraparound=True
"""Elementwise work: chains of tile kernels on tiles that stay in the L1 cache.

Each slave core takes its share of the tiles. A tile of an operand that has all its
elements is the operand's own memory; rows, columns and single elements that are broadcast
are spread to full tiles in scratchpad, once if they are the same for all tiles.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from uniflexflow._core.core cimport (
    uff_arg, uff_instruction, uff_share, uff_slave, uff_spawn, uff_spawn_together, uff_sync,
    uff_take, uff_team)
from uniflexflow._core.chain cimport STEP_INTS, run_steps, uff_tile_fn
from uniflexflow._core.dispatch cimport kernels, uff_kernels

import math

from uniflexflow._core.tile_program import DTYPE_NUMBERS, dense_strides, encode
from uniflexflow.ir import TensorSpec
from uniflexflow.ops.shape_rules import broadcast_shapes
from uniflexflow.plan.kernel_call import KernelCall


cdef extern from "tile/tile_fn.h" nogil:
    enum: UFF_NUM_DTYPES
    ctypedef struct uff_tile_row:
        const char *name
        uff_tile_fn fn[8]

    ctypedef struct uff_tile_rows:
        const uff_tile_row *rows
        int num_rows


cdef extern from "tile/chain.h" nogil:
    ctypedef struct uff_chain_kernels:
        uff_tile_rows rows
        uff_tile_fn fill[4]
        uff_tile_fn copy[4]
    const uff_chain_kernels *uff_chain(const uff_kernels *k) noexcept


cdef extern from "tile/reduce.h" nogil:
    ctypedef struct uff_reducer:
        int acc_size
        void (*start)(void *acc, int64_t n) noexcept nogil
        void (*rows)(void *acc, const void *x, int64_t count, int64_t n,
                     int64_t stride) noexcept nogil
        void (*columns)(void *acc, const void *x, int64_t count, int64_t n,
                        int64_t stride) noexcept nogil
        int part_size
        void (*blank)(void *part, int64_t n) noexcept nogil
        void (*gather)(void *part, const void *x, int64_t count, int64_t n) noexcept nogil
        void (*fold)(void *acc, void *part, int64_t together, int64_t n) noexcept nogil
        void (*merge)(void *acc, const void *other, int64_t n) noexcept nogil
        void (*finish)(void *out, const void *acc, int64_t n) noexcept nogil
    ctypedef struct uff_reduce_kernels:
        uff_reducer reducers[3][8]
    const uff_reduce_kernels *uff_reduce(const uff_kernels *k) noexcept
    enum: UFF_REDUCE_COLUMNS, UFF_COLUMN_BLOCK


cdef extern from "tile/function.h" nogil:
    ctypedef struct uff_function_kernels:
        uff_tile_rows rows
    const uff_function_kernels *uff_function(const uff_kernels *k) noexcept


cdef extern from "tile/cast.h" nogil:
    ctypedef struct uff_cast_kernels:
        uff_tile_rows rows
    const uff_cast_kernels *uff_cast(const uff_kernels *k) noexcept


# -- running -------------------------------------------------------------------------------

# Places of the numbers in the encoding; see tile_program.encode.
cdef enum:
    INPUTS, OUTPUTS, ONCE_INPUTS, ONCE_STEPS, STEPS, REGISTERS, OUTER
    ROWS, COLUMNS, TILE_ROWS, TILE_COLUMNS, SCRATCH, CORES, HEADER

cdef enum:
    DIRECT, FILL, ROW, COLUMN, SUMMED


cdef struct Tile:
    int64_t outer[16]
    int64_t row, column, rows, columns


cdef inline void find_tile(const int64_t *head, int64_t number, Tile *t) noexcept nogil:
    cdef int64_t across = (head[COLUMNS] + head[TILE_COLUMNS] - 1) // head[TILE_COLUMNS]
    cdef int64_t down = (head[ROWS] + head[TILE_ROWS] - 1) // head[TILE_ROWS]
    cdef int64_t i
    t.column = number % across * head[TILE_COLUMNS]
    number //= across
    t.row = number % down * head[TILE_ROWS]
    number //= down
    for i in range(head[OUTER] - 1, -1, -1):
        t.outer[i] = number % head[HEADER + i]
        number //= head[HEADER + i]
    t.rows = min(head[TILE_ROWS], head[ROWS] - t.row)
    t.columns = min(head[TILE_COLUMNS], head[COLUMNS] - t.column)


cdef inline char *at_tile(void *memory, const int64_t *strides, int64_t outer,
                          const Tile *t) noexcept nogil:
    cdef int64_t offset = t.row * strides[outer] + t.column * strides[outer + 1]
    cdef int64_t i
    for i in range(outer):
        offset += t.outer[i] * strides[i]
    return <char *>memory + offset


cdef inline void bring(const int64_t *entry, int64_t row_stride, char *source, void **register,
                       int64_t rows, int64_t columns) noexcept nogil:
    """Bring an input's tile into its register."""
    cdef int64_t mode = entry[1], size = entry[3], i
    cdef uff_tile_fn fill = <uff_tile_fn><size_t>entry[2]
    cdef char *to = <char *>register[0]
    if mode == DIRECT:
        register[0] = source
    elif mode == FILL:
        fill(to, source, NULL, NULL, rows * columns)
    elif mode == ROW:
        for i in range(rows):
            memcpy(to + i * columns * size, source, columns * size)
    else:
        for i in range(rows):
            fill(to + i * columns * size, source + i * row_stride, NULL, NULL, columns)


# An encoded chain, opened: where its tables are, and a slave core's registers.
cdef struct Frame:
    const uff_instruction *ins
    const int64_t *head
    const int64_t *entries
    const int64_t *out_entries
    const int64_t *main_steps
    int64_t main_count
    int64_t entry_ints, out_ints
    void **registers
    const int64_t *table  # of a chain with a table of summed rows; else NULL


cdef int64_t count_tiles(const int64_t *head) noexcept nogil:
    cdef int64_t tiles, i
    if head[ROWS] == 0 or head[COLUMNS] == 0:
        return 0
    tiles = ((head[COLUMNS] + head[TILE_COLUMNS] - 1) // head[TILE_COLUMNS]
             * ((head[ROWS] + head[TILE_ROWS] - 1) // head[TILE_ROWS]))
    for i in range(head[OUTER]):
        tiles *= head[HEADER + i]
    return tiles


cdef void open_frame(Frame *f, uff_slave *self, const uff_instruction *ins,
                     const int64_t *head) noexcept nogil:
    """Take registers, and do what is done once."""
    cdef const int64_t *places = head + HEADER + head[OUTER]
    cdef const int64_t *steps
    cdef const int64_t *e
    cdef char *scratch
    cdef int64_t k
    f.ins = ins
    f.head = head
    f.table = NULL
    f.entry_ints = 6 + head[OUTER]
    f.out_ints = 3 + head[OUTER]
    f.entries = places + head[REGISTERS]
    f.out_entries = f.entries + head[INPUTS] * f.entry_ints
    steps = f.out_entries + head[OUTPUTS] * f.out_ints
    f.main_steps = steps + head[ONCE_STEPS] * STEP_INTS
    f.main_count = head[STEPS] - head[ONCE_STEPS]
    f.registers = <void **>uff_take(self, head[REGISTERS] * sizeof(void *))
    scratch = <char *>uff_take(self, head[SCRATCH])
    for k in range(head[REGISTERS]):
        f.registers[k] = scratch + places[k]
    for k in range(head[ONCE_INPUTS]):
        e = f.entries + k * f.entry_ints
        bring(e, 0, <char *>uff_arg(ins, <int>(head[OUTPUTS] + e[0])), &f.registers[e[0]],
              head[TILE_ROWS], head[TILE_COLUMNS])
    run_steps(steps, head[ONCE_STEPS], f.registers, head[TILE_ROWS] * head[TILE_COLUMNS])


cdef inline void bring_inputs(Frame *f, const Tile *t) noexcept nogil:
    cdef const int64_t *e
    cdef int64_t outer = f.head[OUTER], k
    for k in range(f.head[ONCE_INPUTS], f.head[INPUTS]):
        e = f.entries + k * f.entry_ints
        if e[1] == SUMMED:
            sum_rows(f, e, t)
            continue
        bring(e, e[4 + outer],
              at_tile(uff_arg(f.ins, <int>(f.head[OUTPUTS] + e[0])), e + 4, outer, t),
              &f.registers[e[0]], t.rows, t.columns)


cdef void chain_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    share_tiles(self, ins, ins.ints, NULL)


cdef void share_tiles(uff_slave *self, const uff_instruction *ins, const int64_t *head,
                      const int64_t *table) noexcept nogil:
    cdef const int64_t *e
    cdef int64_t lo, hi, number, k
    cdef Frame f
    cdef Tile t
    uff_share(self, count_tiles(head), &lo, &hi)
    if lo >= hi:
        return
    open_frame(&f, self, ins, head)
    f.table = table
    for number in range(lo, hi):
        find_tile(head, number, &t)
        bring_inputs(&f, &t)
        for k in range(head[OUTPUTS]):
            e = f.out_entries + k * f.out_ints
            f.registers[e[0]] = at_tile(uff_arg(ins, <int>k), e + 1, head[OUTER], &t)
        run_steps(f.main_steps, f.main_count, f.registers, t.rows * t.columns)


cdef void run_chain(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    uff_spawn(team, min(ins.ints[CORES], count_tiles(ins.ints)), chain_share, <void *>ins)


# -- a chain over a table of summed rows ---------------------------------------------------

# Before the chain: whether the index is int64, rows of the table, indices, elements of a row,
# itemsize, kernel that adds, cores. The operands after the chain's others are the rows, their
# indices and the workspace, where the indices are sorted by the row that they name.
cdef enum:
    WIDE, TABLE_ROWS, NUM_INDICES, ROW_SIZE, ROW_ITEMSIZE, ADD, TABLE_CORES, ROWS_OPERAND
    TABLE_HEADER


cdef inline int64_t row_of(const int64_t *r, const void *indices, int64_t k) noexcept nogil:
    """Row of the table that the k-th index names, or -1."""
    cdef int64_t i = (<const int64_t *>indices)[k] if r[WIDE] else (<const int32_t *>indices)[k]
    if i < 0:
        i += r[TABLE_ROWS]
    return i if 0 <= i < r[TABLE_ROWS] else -1


cdef void sort_indices(const int64_t *r, const void *indices, int32_t *ends) noexcept nogil:
    """Give for each row where its indices end in the order that follows, which keeps theirs."""
    cdef int32_t *order = ends + r[TABLE_ROWS]
    cdef int32_t total = 0, count
    cdef int64_t k, i
    memset(ends, 0, r[TABLE_ROWS] * sizeof(int32_t))
    for k in range(r[NUM_INDICES]):
        i = row_of(r, indices, k)
        if i >= 0:
            ends[i] += 1
    for i in range(r[TABLE_ROWS]):
        count = ends[i]
        ends[i] = total  # where the row's indices start; then where the next one goes
        total += count
    for k in range(r[NUM_INDICES]):
        i = row_of(r, indices, k)
        if i >= 0:
            order[ends[i]] = <int32_t>k
            ends[i] += 1


cdef void sum_rows(Frame *f, const int64_t *entry, const Tile *t) noexcept nogil:
    """Make a tile of the table: zeros, and the rows that belong there, in their order."""
    cdef const int64_t *r = f.table
    cdef uff_tile_fn add = <uff_tile_fn><size_t>r[ADD]
    cdef const char *rows = <const char *>uff_arg(f.ins, <int>r[ROWS_OPERAND])
    cdef const int32_t *ends = <const int32_t *>uff_arg(f.ins, <int>(r[ROWS_OPERAND] + 2))
    cdef const int32_t *order = ends + r[TABLE_ROWS]
    cdef char *to = <char *>f.registers[entry[0]]
    cdef int64_t size = r[ROW_ITEMSIZE], width = r[ROW_SIZE], count = t.rows * t.columns
    cdef int64_t start = (<size_t>at_tile(NULL, entry + 4, f.head[OUTER], t)) // size
    cdef int64_t row = start // width, lo, hi, p
    cdef char *place
    memset(to, 0, count * size)
    while row * width < start + count:
        lo, hi = max(start, row * width), min(start + count, (row + 1) * width)
        place = to + (lo - start) * size
        for p in range(ends[row - 1] if row else 0, ends[row]):
            add(place, place, rows + (order[p] * width + lo - row * width) * size, NULL, hi - lo)
        row += 1


cdef void chain_rows_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    share_tiles(self, ins, ins.ints + TABLE_HEADER, ins.ints)


cdef void run_chain_rows(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef const int64_t *r = ins.ints
    sort_indices(r, uff_arg(ins, <int>(r[ROWS_OPERAND] + 1)),
                 <int32_t *>uff_arg(ins, <int>(r[ROWS_OPERAND] + 2)))
    uff_spawn(team, min(r[TABLE_CORES], count_tiles(r + TABLE_HEADER)), chain_rows_share,
              <void *>ins)


# -- a chain that is reduced ---------------------------------------------------------------

# Several registers may be reduced in one pass over memory: results of one size and dtype.
# Before the chain: the reducer, a result's itemsize and size, chunks of tiles, tiles of a
# chunk, whether rows and columns are kept, the workspace's place, cores, outer loops, results;
# then a result's strides (in elements, 0 for what is summed) along all loops. Every chunk has
# its own accumulators for all of the results, one result after the other; chunks are cut by
# sizes alone and combined in order. They share one set if every element of a result is made by
# one chunk: the loops kept are the outer ones.
#
# Sums along columns: a tile has few rows, so tiles gather in partial results of their own dtype,
# which go to the accumulators when UFF_COLUMN_BLOCK rows have come, or other results begin. Of
# short rows, TOGETHER make one row of them; 0: rows are too long, each tile goes by itself.
cdef enum:
    REDUCER, OUT_ITEMSIZE, OUT_SIZE, CHUNKS, CHUNK_TILES, ROW_KEPT, COLUMN_KEPT, WORKSPACE
    REDUCE_CORES, OUTER_LOOPS, SHARED, RESULTS, TOGETHER, REDUCE_HEADER


cdef void fold_tile(const int64_t *r, const Tile *t, int64_t outer, const char *x,
                    char *acc) noexcept nogil:
    """Take one tile in, which lies dense at x."""
    cdef const uff_reducer *reducer = <const uff_reducer *><size_t>r[REDUCER]
    cdef const int64_t *strides = r + REDUCE_HEADER
    cdef int64_t size = r[OUT_ITEMSIZE], at = t.row * strides[outer], i, j, width
    at += t.column * strides[outer + 1]
    for i in range(outer):
        at += t.outer[i] * strides[i]
    acc += at * reducer.acc_size
    if not r[COLUMN_KEPT]:
        if r[ROW_KEPT]:
            reducer.rows(acc, x, t.rows, t.columns, t.columns)
        else:
            reducer.rows(acc, x, 1, t.rows * t.columns, 0)
        return
    j = 0
    while j < t.columns:
        width = min(<int64_t>UFF_REDUCE_COLUMNS, t.columns - j)
        if r[ROW_KEPT]:
            for i in range(t.rows):
                reducer.columns(acc + (i * strides[outer] + j) * reducer.acc_size,
                                x + (i * t.columns + j) * size, 1, width, t.columns)
        else:
            reducer.columns(acc + j * reducer.acc_size, x + j * size, t.rows, width, t.columns)
        j += width


# Partial results, one result's after the other's.
cdef struct Partial:
    char *memory
    int64_t width, base, taken  # of one result: elements, first accumulator, elements that came


cdef inline void fold_partial(const int64_t *r, Partial *p, char *acc) noexcept nogil:
    """Take the partial results in; they are blank afterwards."""
    cdef const uff_reducer *reducer = <const uff_reducer *><size_t>r[REDUCER]
    cdef int64_t q
    for q in range(r[RESULTS]):
        reducer.fold(acc + (q * r[OUT_SIZE] + p.base) * reducer.acc_size,
                     p.memory + q * p.width * reducer.part_size, r[TOGETHER],
                     p.width // r[TOGETHER])
    p.taken = 0


cdef inline void gather_tile(const int64_t *r, const Frame *f, const Tile *t, Partial *p,
                             char *acc) noexcept nogil:
    """Take one tile of each result into the partial ones."""
    cdef const uff_reducer *reducer = <const uff_reducer *><size_t>r[REDUCER]
    cdef const int64_t *strides = r + REDUCE_HEADER
    cdef int64_t outer = f.head[OUTER], base = 0, count = t.rows * t.columns, i, q
    cdef int64_t whole = count // p.width, rest = count - whole * p.width
    cdef const char *x
    cdef char *part
    for i in range(outer):
        base += t.outer[i] * strides[i]
    if p.taken and (base != p.base or p.taken + count > UFF_COLUMN_BLOCK * p.width):
        fold_partial(r, p, acc)
    p.base = base
    p.taken += count
    for q in range(r[RESULTS]):
        x = <const char *>f.registers[f.out_entries[q * f.out_ints]]
        part = p.memory + q * p.width * reducer.part_size
        if t.columns < f.head[COLUMNS]:  # a part of one row
            reducer.gather(part + t.column * reducer.part_size, x, 1, t.columns)
            continue
        reducer.gather(part, x, whole, p.width)
        reducer.gather(part, x + (count - rest) * r[OUT_ITEMSIZE], rest > 0, rest)


cdef void chain_reduce_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    cdef const int64_t *r = ins.ints
    cdef const uff_reducer *reducer = <const uff_reducer *><size_t>r[REDUCER]
    cdef const int64_t *head
    cdef int64_t outer, tiles, lo, hi, number, chunk, k, q, start, end
    cdef int64_t size = r[OUT_SIZE], all_sizes = r[RESULTS] * size, tile_bytes
    cdef char *partial = <char *>uff_arg(ins, <int>r[WORKSPACE])
    cdef char *x
    cdef char *acc
    cdef Frame f
    cdef Tile t
    cdef Partial p = Partial(NULL, 0, 0, 0)
    outer = r[OUTER_LOOPS]
    head = r + REDUCE_HEADER + outer + 2
    tiles = count_tiles(head)
    open_frame(&f, self, ins, head)
    tile_bytes = head[TILE_ROWS] * head[TILE_COLUMNS] * r[OUT_ITEMSIZE]
    for q in range(r[RESULTS]):
        f.registers[f.out_entries[q * f.out_ints]] = uff_take(self, tile_bytes)
    if r[TOGETHER]:
        p.width = r[TOGETHER] * head[COLUMNS]
        p.taken = 0
        p.memory = <char *>uff_take(self, r[RESULTS] * p.width * reducer.part_size)
        reducer.blank(p.memory, r[RESULTS] * p.width)
    if r[SHARED]:
        uff_share(self, all_sizes, &lo, &hi)
        reducer.start(partial + lo * reducer.acc_size, hi - lo)
        uff_sync(self)
    uff_share(self, r[CHUNKS], &lo, &hi)
    for chunk in range(lo, hi):
        acc = partial
        if not r[SHARED]:
            acc += chunk * all_sizes * reducer.acc_size
            reducer.start(acc, all_sizes)
        for number in range(chunk * r[CHUNK_TILES], min(tiles, (chunk + 1) * r[CHUNK_TILES])):
            find_tile(head, number, &t)
            bring_inputs(&f, &t)
            run_steps(f.main_steps, f.main_count, f.registers, t.rows * t.columns)
            if r[TOGETHER]:
                gather_tile(r, &f, &t, &p, acc)
                continue
            for q in range(r[RESULTS]):
                x = <char *>f.registers[f.out_entries[q * f.out_ints]]
                fold_tile(r, &t, outer, x, acc + q * size * reducer.acc_size)
        if r[TOGETHER] and p.taken:
            fold_partial(r, &p, acc)
    uff_sync(self)
    uff_share(self, all_sizes, &lo, &hi)
    for k in range(1, 1 if r[SHARED] else r[CHUNKS]):
        reducer.merge(partial + lo * reducer.acc_size,
                      partial + (k * all_sizes + lo) * reducer.acc_size, hi - lo)
    for q in range(r[RESULTS]):
        start, end = max(lo, q * size), min(hi, (q + 1) * size)
        if start < end:
            reducer.finish(<char *>uff_arg(ins, <int>q) + (start - q * size) * r[OUT_ITEMSIZE],
                           partial + start * reducer.acc_size, end - start)


cdef void run_chain_reduce(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    uff_spawn_together(team, min(ins.ints[REDUCE_CORES], ins.ints[CHUNKS]), chain_reduce_share,
                       <void *>ins)


# -- lowering ------------------------------------------------------------------------------

cdef int MAX_OUTER = 16
cdef dict numbers = DTYPE_NUMBERS
cdef dict log2_sizes = {"float32": 2, "float64": 3, "int32": 2, "int64": 3, "bfloat16": 1}


cdef size_t in_rows(const uff_tile_rows *table, bytes name, int dtype):
    cdef int i
    for i in range(table.num_rows):
        if table.rows[i].name == name:
            return <size_t>table.rows[i].fn[dtype]
    return 0


def find_kernel(str name, inputs, str output):
    """Return the address of the tile kernel for an operation on operands of these dtypes.

    Raises
    ------
    NotImplementedError
        If there is none.
    """
    cdef size_t address
    if name == "fill":
        return <size_t>uff_chain(kernels).fill[<int>log2_sizes.get(output, 0)]
    if name == "copy":
        return <size_t>uff_chain(kernels).copy[<int>log2_sizes.get(output, 0)]
    if name == "cast":
        address = <size_t>uff_cast(kernels).rows.rows[<int>numbers[inputs[0]]].fn[
            <int>numbers[output]]
    else:
        kind = numbers[inputs[len(inputs) - 1]]
        address = in_rows(&uff_chain(kernels).rows, name.encode(), kind)
        if not address:
            address = in_rows(&uff_function(kernels).rows, name.encode(), kind)
    if not address:
        raise NotImplementedError(
            f"operation {name!r} on operands of {', '.join(inputs)} has no native kernel")
    return address


def owner(value):
    """Return the value whose memory this one shares."""
    while value.node.op.name == "reshape":
        value = value.node.inputs[0]
    return value


def lower(node):
    """Lower any elementwise node, as a program of one step, or a ``chain``."""
    if node.op.name == "chain":
        program, results = node.attrs["program"], node.attrs["results"]
        name = "chain_" + "_".join([step[0] for step in program])
    else:
        program = ((node.op.name, tuple(node.attrs.items()), tuple(range(len(node.inputs)))),)
        results, name = (len(node.inputs),), f"{node.op.name}_{node.inputs[-1].dtype}"
    encoded = encode([v.spec for v in node.inputs], program, results,
                     [owner(v) for v in node.inputs], find_kernel)
    if encoded.ints[6] > MAX_OUTER:
        raise NotImplementedError(
            f"{name}: operands broadcast in {encoded.ints[6] + 2} separate groups of dimensions; "
            f"expected at most {MAX_OUTER + 2}; reshape them first.")
    flops = sum([v.size for v in node.outputs[:1]]) * len(program)
    return KernelCall(name, <size_t>&run_chain, encoded.ints, inplace=encoded.inplace, flops=flops)


# Chunks of a reduced chain: at most so many, and each at least so many times the result.
cdef int MAX_CHUNKS = 16
cdef int CHUNK_RESULTS = 8
# Partial results: short rows are joined to so many elements, and all take at most so much.
cdef int TOGETHER_ELEMENTS = 256, PARTIAL_BYTES = 64 * 1024


def lower_reduce(node):
    """Lower ``chain_reduce``."""
    attrs, out, inputs = node.attrs, node.outputs[0].spec, [v.spec for v in node.inputs]
    shape = broadcast_shapes("chain_reduce", *[s.shape for s in inputs])
    groups = [int(i in attrs["axes"]) for i in range(len(shape))]
    count = len(node.outputs)
    encoded = encode(inputs, attrs["program"], attrs["results"],
                     [owner(v) for v in node.inputs], find_kernel, groups)
    loops, ints = encoded.loops, encoded.ints
    cdef const uff_reducer *reducer = &uff_reduce(kernels).reducers[
        <int>("sum", "max").index(attrs["kind"])][<int>numbers[out.dtype]]
    outer, rows, columns, tile_rows, tile_columns = ints[6:11]
    if outer > MAX_OUTER:
        raise NotImplementedError(
            f"chain_reduce: operands broadcast and axes {attrs['axes']} make {outer + 2} separate "
            f"groups of dimensions; expected at most {MAX_OUTER + 2}; reshape them first.")
    kept = [not group for group in loops.groups]
    strides = dense_strides([n if k else 1 for n, k in zip(loops.sizes, kept)], 1)
    total = math.prod(loops.sizes)
    pieces = [*loops.sizes[:-2], -(-rows // tile_rows), -(-columns // max(1, tile_columns))]
    tiles = math.prod(pieces) if total else 0
    each = math.prod([n for n, k in zip(pieces, kept) if not k])  # tiles of one result
    shared = kept == sorted(kept, reverse=True) and tiles >= each * MAX_CHUNKS
    if shared:
        chunk_tiles = each * max(1, -(-tiles // (max(1, each) * MAX_CHUNKS)))
    else:
        chunks = max(1, min(MAX_CHUNKS, tiles, total // max(1, CHUNK_RESULTS * out.size)))
        chunk_tiles = -(-tiles // chunks)
    chunks = max(1, -(-tiles // max(1, chunk_tiles)))
    together = max(1, TOGETHER_ELEMENTS // max(1, columns))
    together = min(together, max(1, tile_rows)) if tile_columns == columns else 1
    if kept[-2] or not kept[-1] or count * together * columns * reducer.part_size > PARTIAL_BYTES:
        together = 0
    head = [<size_t>reducer, out.itemsize, out.size, chunks, chunk_tiles, kept[-2], kept[-1],
            count + len(inputs), ints[12], outer, shared, count, together,
            *[s if k else 0 for s, k in zip(strides, kept)]]
    name = "_".join(["chain", *[step[0] for step in attrs["program"]], *[attrs["kind"]] * count])
    return KernelCall(name, <size_t>&run_chain_reduce, (*head, *ints),
                      workspace=max(1, (1 if shared else chunks) * count * out.size
                                    * reducer.acc_size),
                      flops=total * (count + len(attrs["program"])))


def lower_rows(node):
    """Lower ``chain_rows``."""
    attrs, out = node.attrs, node.outputs[0].spec
    *others, rows, indices = node.inputs
    table, place = out, len(others)
    if rows.dtype != out.dtype:
        table = TensorSpec(out.shape, rows.dtype)
    encoded = encode([*[v.spec for v in others], table], attrs["program"], attrs["results"],
                     [*[owner(v) for v in others], object()], find_kernel, summed=place)
    ints = encoded.ints
    if ints[6] > MAX_OUTER:
        raise NotImplementedError(
            f"chain_rows: operands broadcast in {ints[6] + 2} separate groups of dimensions; "
            f"expected at most {MAX_OUTER + 2}; reshape them first.")
    head = (indices.dtype == "int64", table.shape[0], indices.size, math.prod(table.shape[1:]),
            table.itemsize, find_kernel("add", (table.dtype, table.dtype), table.dtype), ints[12],
            len(node.outputs) + place)
    name = "chain_rows_" + "_".join([step[0] for step in attrs["program"]])
    inplace = tuple([pair for pair in encoded.inplace if pair[1] != place])
    return KernelCall(name, <size_t>&run_chain_rows, (*head, *ints), inplace=inplace,
                      workspace=max(1, 4 * (table.shape[0] + indices.size)),
                      flops=out.size * len(attrs["program"]) + rows.size)


LOWERINGS = {"chain": lower, "chain_reduce": lower_reduce, "chain_rows": lower_rows}
# What is moved; arithmetic is done between casts, all in one chain.
NATIVE_BFLOAT16 = {"cast", "stop_gradient"}
