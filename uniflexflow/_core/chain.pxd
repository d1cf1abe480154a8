"""The interpreter of tile programs, and the walk over the tiles of an encoded chain.

A tile of an operand that has all its elements is the operand's own memory; rows, columns and
single elements that are broadcast are spread to full tiles in scratchpad, once if they are the
same for all tiles.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from uniflexflow._core.core cimport (
    uff_arg, uff_first_piece, uff_instruction, uff_next_piece, uff_slave, uff_take)


cdef extern from "tile/tile_fn.h" nogil:
    ctypedef void (*uff_tile_fn)(void *out, const void *a, const void *b, const void *c,
                                 int64_t n) noexcept nogil


# Integers per step: kernel, destination register, three source registers.
cdef enum:
    STEP_INTS = 5


cdef enum:
    MOST_TILES = 16  # neighbours that stay on one core


cdef inline void run_steps(const int64_t *steps, int64_t count, void **registers,
                           int64_t n) noexcept nogil:
    """Run ``count`` steps on tiles of ``n`` elements."""
    cdef int64_t _
    cdef const int64_t *s = steps
    for _ in range(count):
        (<uff_tile_fn><size_t>s[0])(registers[s[1]], registers[s[2]], registers[s[3]],
                                    registers[s[4]], n)
        s += STEP_INTS


# -- tiles ---------------------------------------------------------------------------------

cdef enum:
    MAX_OUTER = 16  # loops around the rows and columns of a tile

# Places of the numbers in the encoding; see tile_program.encode.
cdef enum:
    INPUTS, OUTPUTS, ONCE_INPUTS, ONCE_STEPS, STEPS, REGISTERS, OUTER
    ROWS, COLUMNS, TILE_ROWS, TILE_COLUMNS, SCRATCH, CORES, HEADER

cdef enum:
    DIRECT, FILL, ROW, COLUMN, SUMMED


cdef struct Tile:
    int64_t outer[MAX_OUTER]
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


ctypedef void (*make_tile_fn)(void *frame, const int64_t *entry, const Tile *t) noexcept nogil


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
    make_tile_fn make  # makes the tile of an operand that has no memory
    const int64_t *table  # what it needs to know


cdef inline int64_t count_tiles(const int64_t *head) noexcept nogil:
    cdef int64_t tiles, i
    if head[ROWS] == 0 or head[COLUMNS] == 0:
        return 0
    tiles = ((head[COLUMNS] + head[TILE_COLUMNS] - 1) // head[TILE_COLUMNS]
             * ((head[ROWS] + head[TILE_ROWS] - 1) // head[TILE_ROWS]))
    for i in range(head[OUTER]):
        tiles *= head[HEADER + i]
    return tiles


cdef inline void open_frame(Frame *f, uff_slave *self, const uff_instruction *ins,
                            const int64_t *head) noexcept nogil:
    """Take registers, and do what is done once."""
    cdef const int64_t *places = head + HEADER + head[OUTER]
    cdef const int64_t *steps
    cdef const int64_t *e
    cdef char *scratch
    cdef int64_t k
    f.ins = ins
    f.head = head
    f.make = NULL
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
            f.make(f, e, t)
            continue
        bring(e, e[4 + outer],
              at_tile(uff_arg(f.ins, <int>(f.head[OUTPUTS] + e[0])), e + 4, outer, t),
              &f.registers[e[0]], t.rows, t.columns)


cdef inline void share_tiles(uff_slave *self, const uff_instruction *ins, const int64_t *head,
                             make_tile_fn make, const int64_t *table) noexcept nogil:
    """Run a chain on this slave core's share of its tiles, by runs of neighbours."""
    cdef const int64_t *e
    cdef int64_t tiles = count_tiles(head), number, k
    cdef int64_t run = min(<int64_t>MOST_TILES, max(<int64_t>1, tiles // (8 * self.count)))
    cdef int64_t piece = uff_first_piece(self, (tiles + run - 1) // run)
    cdef Frame f
    cdef Tile t
    if piece < 0:
        return
    open_frame(&f, self, ins, head)
    f.make = make
    f.table = table
    while piece >= 0:
        for number in range(piece * run, min(tiles, (piece + 1) * run)):
            find_tile(head, number, &t)
            bring_inputs(&f, &t)
            for k in range(head[OUTPUTS]):
                e = f.out_entries + k * f.out_ints
                f.registers[e[0]] = at_tile(uff_arg(ins, <int>k), e + 1, head[OUTER], &t)
            run_steps(f.main_steps, f.main_count, f.registers, t.rows * t.columns)
        piece = uff_next_piece(self)
