# cython: wraparound=True
"""Elementwise work: chains of tile kernels on tiles that stay in the L1 cache.

Each slave core takes its share of the tiles. A tile of an operand that has all its
elements is the operand's own memory; rows, columns and single elements that are broadcast
are spread to full tiles in scratchpad, once if they are the same for all tiles.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from uniflexflow._core.core cimport (
    uff_arg, uff_instruction, uff_share, uff_slave, uff_spawn, uff_take, uff_team)
from uniflexflow._core.chain cimport STEP_INTS, run_steps, uff_tile_fn
from uniflexflow._core.dispatch cimport kernels, uff_kernels

from uniflexflow._core.tile_program import DTYPE_NUMBERS, encode
from uniflexflow.plan.kernel_call import KernelCall


cdef extern from "tile/tile_fn.h" nogil:
    enum: UFF_NUM_DTYPES
    ctypedef struct uff_tile_row:
        const char *name
        uff_tile_fn fn[7]

    ctypedef struct uff_tile_rows:
        const uff_tile_row *rows
        int num_rows


cdef extern from "tile/chain.h" nogil:
    ctypedef struct uff_chain_kernels:
        uff_tile_rows rows
        uff_tile_fn fill[4]
        uff_tile_fn copy[4]
    const uff_chain_kernels *uff_chain(const uff_kernels *k) noexcept


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
    DIRECT, FILL, ROW, COLUMN


cdef struct Work:
    const uff_instruction *ins
    int64_t tiles


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


cdef void chain_share(uff_slave *self, void *arg) noexcept nogil:
    cdef Work *work = <Work *>arg
    cdef const uff_instruction *ins = work.ins
    cdef const int64_t *head = ins.ints
    cdef int64_t outer = head[OUTER], ins_count = head[INPUTS], outs = head[OUTPUTS]
    cdef const int64_t *places = head + HEADER + outer
    cdef const int64_t *entries = places + head[REGISTERS]
    cdef int64_t entry_ints = 6 + outer, out_ints = 3 + outer
    cdef const int64_t *out_entries = entries + ins_count * entry_ints
    cdef const int64_t *steps = out_entries + outs * out_ints
    cdef const int64_t *main_steps = steps + head[ONCE_STEPS] * STEP_INTS
    cdef int64_t main_count = head[STEPS] - head[ONCE_STEPS]
    cdef void **registers = <void **>uff_take(self, head[REGISTERS] * sizeof(void *))
    cdef char *scratch = <char *>uff_take(self, head[SCRATCH])
    cdef const int64_t *e
    cdef int64_t lo, hi, number, k
    cdef Tile t
    for k in range(head[REGISTERS]):
        registers[k] = scratch + places[k]
    uff_share(self, work.tiles, &lo, &hi)
    if lo >= hi:
        return
    for k in range(head[ONCE_INPUTS]):
        e = entries + k * entry_ints
        bring(e, 0, <char *>uff_arg(ins, <int>(outs + e[0])), &registers[e[0]], head[TILE_ROWS],
              head[TILE_COLUMNS])
    run_steps(steps, head[ONCE_STEPS], registers, head[TILE_ROWS] * head[TILE_COLUMNS])
    for number in range(lo, hi):
        find_tile(head, number, &t)
        for k in range(head[ONCE_INPUTS], ins_count):
            e = entries + k * entry_ints
            bring(e, e[4 + outer], at_tile(uff_arg(ins, <int>(outs + e[0])), e + 4, outer, &t),
                  &registers[e[0]], t.rows, t.columns)
        for k in range(outs):
            e = out_entries + k * out_ints
            registers[e[0]] = at_tile(uff_arg(ins, <int>k), e + 1, outer, &t)
        run_steps(main_steps, main_count, registers, t.rows * t.columns)


cdef void run_chain(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef const int64_t *head = ins.ints
    cdef Work work
    cdef int64_t i
    work.ins = ins
    if head[ROWS] == 0 or head[COLUMNS] == 0:
        return
    work.tiles = ((head[COLUMNS] + head[TILE_COLUMNS] - 1) // head[TILE_COLUMNS]
                  * ((head[ROWS] + head[TILE_ROWS] - 1) // head[TILE_ROWS]))
    for i in range(head[OUTER]):
        work.tiles *= head[HEADER + i]
    uff_spawn(team, min(head[CORES], work.tiles), chain_share, &work)


# -- lowering ------------------------------------------------------------------------------

cdef int MAX_OUTER = 16
cdef dict numbers = DTYPE_NUMBERS
cdef dict log2_sizes = {"float32": 2, "float64": 3, "int32": 2, "int64": 3}


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


LOWERINGS = {"chain": lower}
