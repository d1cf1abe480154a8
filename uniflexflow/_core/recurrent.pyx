# cython: wraparound=True
"""Recurrent layers over whole sequences, forward and backward.

Sequences don't depend on each other, so a slave core takes some of them through all steps and
waits for nobody. The recurrent kernel is packed once, for all cores; states lie in scratchpad.
In a step, the product with the kernel is made for a panel of units at a time, all gates of a
unit together, and their activations follow while the products are in the first-level cache.
Backward, a step's gradients of all gates come first and the product with the kernel, turned
over, after them. (The kernel's own gradient is one product over all steps, outside.)

One sequence alone is a vector: it takes the kernel as it lies.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

from uniflexflow._core.core cimport (
    uff_arg, uff_instruction, uff_share, uff_slave, uff_spawn, uff_take, uff_team)
from uniflexflow._core.dispatch cimport kernels, uff_kernels
from uniflexflow._core.gemm_tile cimport (
    UFF_A_ROWS, UFF_ACT_NONE, uff_gemm, uff_gemm_block, uff_gemm_kernels, uff_gemm_row,
    uff_gemm_type,
)

from uniflexflow._core import dispatch
from uniflexflow._core.gemm import FLOPS_PER_CORE, SIZES, micro_tile
from uniflexflow.machine import host
from uniflexflow.machine.blocks import gemm_blocks
from uniflexflow.plan.kernel_call import KernelCall


cdef extern from "tile/recurrent.h" nogil:
    enum: UFF_LSTM, UFF_GRU, UFF_SIMPLE_RNN

    ctypedef struct uff_cell:
        int64_t rows, width, units
        void *z
        int64_t z_row, z_gate
        const void *x
        void *gates
        int64_t x_row, ahead
        const void *bias
        const uint8_t *mask
        int64_t mask_row
        const void *before
        void *after
        void *c
        void *hs
        void *cs
        void *inner
        int64_t step_row

    ctypedef struct uff_cell_back:
        int64_t rows, units
        const void *gates
        int64_t x_row
        const void *hs
        const void *cs
        const void *inner
        const void *dhs
        int64_t step_row, x_ahead, step_ahead
        const void *before
        int64_t before_row
        const uint8_t *mask
        int64_t mask_row
        void *dh
        void *dc
        void *dz
        void *dx
        void *dy

    ctypedef void (*uff_cell_fn)(const uff_cell *) noexcept nogil
    ctypedef void (*uff_cell_back_fn)(const uff_cell_back *) noexcept nogil
    ctypedef struct uff_recurrent_kernels:
        uff_cell_fn forward[3][2]
        uff_cell_back_fn back[3][2]
    const uff_recurrent_kernels *uff_recurrent(const uff_kernels *k) noexcept


# What the operands of the primitives are; FIRST and LAST are states, of shape (batch, units).
cdef enum:
    X, GATES, HS, CS, INNER, H, C, FIRST_H, FIRST_C, RECURRENT, BIAS, MASK
    DX, DY, DH, DC, DHS, LAST_DH, LAST_DC, WORKSPACE, OPERANDS


# What the lowering writes down, in this order; then the places of the operands, -1 for none.
cdef struct Head:
    int64_t kind, size, gates, batch, steps, units, go_backwards, cores
    int64_t kc      # the product's sum is cut by this
    int64_t rows    # sequences that a core takes at a time
    int64_t packed  # bytes of the packed kernel; 0: it is read as it lies
    int64_t row_bytes, in_scratch  # state of one sequence; whether it lies in scratchpad


cdef struct Job:
    Head h
    char *at[OPERANDS]  # NULL: there is none
    const uff_gemm_type *gemm
    int64_t width, panels  # gates * units; panels of units


cdef inline int64_t ceil_div(int64_t a, int64_t b) noexcept nogil:
    return (a + b - 1) // b


cdef void read_job(Job *j, const uff_instruction *ins) noexcept nogil:
    cdef const int64_t *places = ins.ints + sizeof(Head) // sizeof(int64_t)
    cdef const uff_gemm_kernels *family = uff_gemm(kernels)
    cdef int k
    j.h = (<const Head *>ins.ints)[0]
    for k in range(OPERANDS):
        j.at[k] = NULL if places[k] < 0 else <char *>uff_arg(ins, <int>places[k])
    j.gemm = &family.f32 if j.h.size == 4 else &family.f64
    j.width = j.h.gates * j.h.units
    j.panels = ceil_div(j.h.units, j.gemm.nr)


cdef inline char *step(const Job *j, int operand, int64_t row, int64_t t,
                       int64_t width) noexcept nogil:
    """Where a sequence's step lies in an operand (batch, steps, width), if there is one."""
    if j.at[operand] == NULL:
        return NULL
    return j.at[operand] + (row * j.h.steps + t) * width * j.h.size


cdef inline char *state(const Job *j, int operand, int64_t row) noexcept nogil:
    if j.at[operand] == NULL:
        return NULL
    return j.at[operand] + row * j.h.units * j.h.size


cdef inline char *room(const Job *j, uff_slave *self) noexcept nogil:
    """Memory for the states of a core's sequences; NULL: each has its own in the workspace."""
    return <char *>uff_take(self, j.h.rows * j.h.row_bytes) if j.h.in_scratch else NULL


# -- forward -------------------------------------------------------------------------------

cdef void pack(uff_slave *self, void *arg) noexcept nogil:
    """Panels of the kernel: for each part of the sum and each panel of units, all gates."""
    cdef const Job *j = <const Job *>arg
    cdef int64_t nr = j.gemm.nr, k = j.h.units, p = 0, kw, panel, gate, lo, hi
    cdef char *out
    uff_share(self, j.panels, &lo, &hi)
    while p < k:
        kw = min(j.h.kc, k - p)
        for panel in range(lo, hi):
            for gate in range(j.h.gates):
                out = j.at[WORKSPACE] + j.h.size * nr * (
                    p * j.h.gates * j.panels + (panel * j.h.gates + gate) * kw)
                j.gemm.pack_b(min(nr, k - panel * nr), kw, j.at[RECURRENT] + j.h.size * (
                    p * j.width + gate * k + panel * nr), j.width, 0, out)
        p += kw


cdef void forward(uff_slave *self, void *arg) noexcept nogil:
    cdef const Job *j = <const Job *>arg
    cdef int64_t lo, hi, pieces, piece, first, last, tile = j.gemm.nr * j.h.gates
    cdef char *states = room(j, self)
    cdef char *z = <char *>uff_take(self, j.h.size * j.h.rows * tile) if j.h.packed else NULL
    uff_share(self, j.h.batch, &lo, &hi)
    pieces = ceil_div(hi - lo, j.h.rows)
    for piece in range(pieces):
        first = lo + (hi - lo) * piece // pieces
        last = lo + (hi - lo) * (piece + 1) // pieces
        forward_rows(j, first, last - first, z, states if states != NULL else
                     j.at[WORKSPACE] + j.h.packed + first * j.h.row_bytes)


cdef void forward_rows(const Job *j, int64_t first, int64_t rows, char *z,
                       char *states) noexcept nogil:
    """All steps of some sequences. In ``states``: h before a step, h after it, c in tiles as
    wide as the products', and the products, if the sequence is alone."""
    cdef int64_t n = rows * j.h.units * j.h.size, done, t, panel, turn
    cdef int64_t nr = j.gemm.nr, size = j.h.size
    cdef uff_cell_fn fn = uff_recurrent(kernels).forward[j.h.kind][size == 8]
    cdef char *before = states
    cdef char *after = states + n
    cdef char *c = states + 2 * n if j.at[FIRST_C] != NULL else NULL
    cdef uff_cell cell
    cdef int64_t wide = nr if j.h.packed else j.h.units, most = j.panels if j.h.packed else 1
    if not j.h.packed:
        z = states + 3 * n
    memcpy(before, state(j, FIRST_H, first), n)
    if c != NULL:
        move_tiles(j, rows, wide, state(j, FIRST_C, first), c, True)
    cell.rows, cell.units = rows, j.h.units
    cell.z, cell.z_row, cell.z_gate = z, wide, rows * wide
    cell.x_row, cell.step_row = j.h.steps * j.width, j.h.steps * j.h.units
    cell.mask_row = j.h.steps
    turn = -1 if j.h.go_backwards else 1
    for done in range(j.h.steps):
        t = j.h.steps - 1 - done if j.h.go_backwards else done
        cell.ahead = turn * j.width if done + 1 < j.h.steps else 0
        cell.mask = NULL
        if j.at[MASK] != NULL:
            cell.mask = <const uint8_t *>j.at[MASK] + first * j.h.steps + t
        for panel in range(most):
            cell.width = min(wide, j.h.units - panel * wide)
            if j.h.packed:
                multiply(j, rows, panel, before, z)
            else:
                multiply_row(j, before, z)
            cell.x = step(j, X, first, t, j.width) + panel * nr * size
            cell.gates = shifted(step(j, GATES, first, t, j.width), panel * nr * size)
            cell.bias = shifted(j.at[BIAS], panel * nr * size)
            cell.before, cell.after = before + panel * nr * size, after + panel * nr * size
            cell.c = shifted(c, panel * rows * nr * size)
            cell.hs = step(j, HS, first, t, j.h.units) + panel * nr * size
            cell.cs = shifted(step(j, CS, first, t, j.h.units), panel * nr * size)
            cell.inner = shifted(step(j, INNER, first, t, j.h.units), panel * nr * size)
            fn(&cell)
        before, after = after, before
    memcpy(state(j, H, first), before, n)
    if c != NULL:
        move_tiles(j, rows, wide, state(j, C, first), c, False)


cdef void move_tiles(const Job *j, int64_t rows, int64_t wide, char *states, char *tiles,
                     bint get) noexcept nogil:
    """Copy states (rows, units) to tiles of ``wide`` units, with zeros beyond, or back."""
    cdef int64_t row, width, unit = 0
    cdef char *state
    cdef char *tile
    while unit < j.h.units:
        width = min(wide, j.h.units - unit) * j.h.size
        for row in range(rows):
            state = states + (row * j.h.units + unit) * j.h.size
            tile = tiles + (rows * unit + row * wide) * j.h.size
            if get:
                memcpy(tile, state, width)
                memset(tile + width, 0, wide * j.h.size - width)
            else:
                memcpy(state, tile, width)
        unit += wide


cdef inline char *shifted(char *p, int64_t nbytes) noexcept nogil:
    return NULL if p == NULL else p + nbytes


cdef inline void multiply(const Job *j, int64_t rows, int64_t panel, const char *h,
                          char *z) noexcept nogil:
    """z, a tile (rows, nr) of each gate, = h times the kernel's columns of a panel of units."""
    cdef uff_gemm_block tile
    cdef int64_t p = 0, k = j.h.units, nr = j.gemm.nr, gate
    tile.m, tile.n = rows, nr
    tile.lda, tile.a_form = k, UFF_A_ROWS
    tile.b_packed, tile.ldb, tile.ldc = 1, nr, nr
    tile.bias = tile.out = NULL
    tile.act = UFF_ACT_NONE
    while p < k:
        tile.k = min(j.h.kc, k - p)
        tile.a = h + p * j.h.size
        tile.accumulate = p > 0
        for gate in range(j.h.gates):
            tile.b = j.at[WORKSPACE] + j.h.size * nr * (
                p * j.h.gates * j.panels + (panel * j.h.gates + gate) * tile.k)
            tile.c = z + gate * rows * nr * j.h.size
            j.gemm.block(&tile)
        p += tile.k


cdef inline void multiply_row(const Job *j, const char *h, char *z) noexcept nogil:
    cdef uff_gemm_row row
    row.rounded = 0
    row.n, row.k = j.width, j.h.units
    row.x, row.matrix, row.ld, row.transposed = h, j.at[RECURRENT], j.width, 0
    row.y, row.bias, row.bias_step, row.act = z, NULL, 0, UFF_ACT_NONE
    j.gemm.row(&row)


cdef void run_forward(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Job j
    read_job(&j, ins)
    if j.h.packed:
        uff_spawn(team, min(j.h.cores, j.panels), pack, &j)
    uff_spawn(team, min(j.h.cores, j.h.batch), forward, &j)


# -- backward ------------------------------------------------------------------------------

cdef void pack_back(uff_slave *self, void *arg) noexcept nogil:
    """Panels of the kernel turned over: for each part of the sum over gates, all units."""
    cdef const Job *j = <const Job *>arg
    cdef int64_t nr = j.gemm.nr, p = 0, kw, lo, hi
    uff_share(self, j.panels, &lo, &hi)
    while p < j.width and lo < hi:
        kw = min(j.h.kc, j.width - p)
        j.gemm.pack_b(
            min(hi * nr, j.h.units) - lo * nr, kw,
            j.at[RECURRENT] + j.h.size * (lo * nr * j.width + p), j.width, 1,
            j.at[WORKSPACE] + j.h.size * nr * (p * j.panels + lo * kw))
        p += kw


cdef void backward(uff_slave *self, void *arg) noexcept nogil:
    cdef const Job *j = <const Job *>arg
    cdef int64_t lo, hi, pieces, piece, first, last
    cdef char *states = room(j, self)
    uff_share(self, j.h.batch, &lo, &hi)
    pieces = ceil_div(hi - lo, j.h.rows)
    for piece in range(pieces):
        first = lo + (hi - lo) * piece // pieces
        last = lo + (hi - lo) * (piece + 1) // pieces
        backward_rows(j, first, last - first, states if states != NULL else
                      j.at[WORKSPACE] + j.h.packed + first * j.h.row_bytes)


cdef void backward_rows(const Job *j, int64_t first, int64_t rows, char *states) noexcept nogil:
    """All steps of some sequences, last to first. In ``states``: dz, dh, dh again, dc."""
    cdef int64_t n = rows * j.h.units * j.h.size, left, t, turn
    cdef uff_cell_back_fn fn = uff_recurrent(kernels).back[j.h.kind][j.h.size == 8]
    cdef char *dz = states
    cdef char *dh = states + j.h.gates * n
    cdef char *other = dh + n
    cdef char *dc = dh + 2 * n if j.at[LAST_DC] != NULL else NULL
    cdef int earlier = CS if j.h.kind == UFF_LSTM else HS
    cdef int first_one = FIRST_C if j.h.kind == UFF_LSTM else FIRST_H
    cdef uff_cell_back cell
    memcpy(dh, state(j, LAST_DH, first), n)
    if dc != NULL:
        memcpy(dc, state(j, LAST_DC, first), n)
    cell.rows, cell.units = rows, j.h.units
    cell.x_row, cell.step_row = j.h.steps * j.width, j.h.steps * j.h.units
    cell.mask_row = j.h.steps
    cell.dz, cell.dc = dz, dc
    turn = 1 if j.h.go_backwards else -1
    for left in range(j.h.steps - 1, -1, -1):
        t = j.h.steps - 1 - left if j.h.go_backwards else left
        cell.x_ahead = turn * j.width if left else 0
        cell.step_ahead = turn * j.h.units if left else 0
        cell.gates = step(j, GATES, first, t, j.width)
        cell.hs = step(j, HS, first, t, j.h.units)
        cell.cs = step(j, CS, first, t, j.h.units)
        cell.inner = step(j, INNER, first, t, j.h.units)
        cell.dhs = step(j, DHS, first, t, j.h.units)
        cell.dx = step(j, DX, first, t, j.width)
        cell.dy = step(j, DY, first, t, j.width)
        cell.before, cell.before_row = state(j, first_one, first), j.h.units
        if left:
            cell.before = step(j, earlier, first, t + turn, j.h.units)
            cell.before_row = cell.step_row
        cell.mask = NULL
        if j.at[MASK] != NULL:
            cell.mask = <const uint8_t *>j.at[MASK] + first * j.h.steps + t
        cell.dh = dh
        fn(&cell)
        if j.h.packed:
            multiply_back(j, rows, dz, dh)
        else:
            multiply_back_row(j, dz, dh, other)
            dh, other = other, dh
    memcpy(state(j, DH, first), dh, n)
    if dc != NULL:
        memcpy(state(j, DC, first), dc, n)


cdef inline void multiply_back(const Job *j, int64_t rows, const char *dz,
                               char *dh) noexcept nogil:
    """dh += dz times the kernel turned over."""
    cdef uff_gemm_block tile
    cdef int64_t p = 0, nr = j.gemm.nr
    tile.m, tile.n = rows, j.h.units
    tile.lda, tile.a_form = j.width, UFF_A_ROWS
    tile.b_packed, tile.ldb = 1, nr
    tile.c, tile.ldc = dh, j.h.units
    tile.bias = tile.out = NULL
    tile.accumulate, tile.act = 1, UFF_ACT_NONE
    while p < j.width:
        tile.k = min(j.h.kc, j.width - p)
        tile.a = dz + p * j.h.size
        tile.b = j.at[WORKSPACE] + j.h.size * nr * p * j.panels
        j.gemm.block(&tile)
        p += tile.k


cdef inline void multiply_back_row(const Job *j, const char *dz, const char *dh,
                                   char *out) noexcept nogil:
    """The same for one sequence: dh is added as a bias."""
    cdef uff_gemm_row row
    row.rounded = 0
    row.n, row.k = j.h.units, j.width
    row.x, row.matrix, row.ld, row.transposed = dz, j.at[RECURRENT], j.width, 1
    row.y, row.bias, row.bias_step, row.act = out, dh, 1, UFF_ACT_NONE
    j.gemm.row(&row)


cdef void run_backward(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    cdef Job j
    read_job(&j, ins)
    if j.h.packed:
        uff_spawn(team, min(j.h.cores, j.panels), pack_back, &j)
    uff_spawn(team, min(j.h.cores, j.h.batch), backward, &j)


# -- lowering ------------------------------------------------------------------------------

MOST_ROWS = 48  # sequences that a core takes at a time: their states stay in the cache
KINDS = {"lstm": UFF_LSTM, "gru": UFF_GRU, "simple_rnn": UFF_SIMPLE_RNN}

# Outputs and inputs of each primitive. A mask and the gradient of all states may follow.
OPERAND_NAMES = {
    "lstm": ((H, C, HS, CS, GATES), (X, RECURRENT, FIRST_H, FIRST_C)),
    "lstm_gradient": ((DX, DH, DC), (GATES, CS, RECURRENT, FIRST_C, LAST_DH, LAST_DC)),
    "gru": ((H, HS, GATES, INNER), (X, RECURRENT, BIAS, FIRST_H)),
    "gru_gradient": ((DX, DY, DH), (GATES, INNER, HS, RECURRENT, FIRST_H, LAST_DH)),
    "simple_rnn": ((H, HS), (X, RECURRENT, FIRST_H)),
    "simple_rnn_gradient": ((DX, DH), (HS, RECURRENT, LAST_DH)),
}


def _even(total, most, unit):
    """Size of the pieces of ``total``, all about the same and none over ``most``."""
    pieces = -(-total // most)
    return max(unit, -(-total // (pieces * unit)) * unit)


def lower(node):
    """Choose how a recurrent node is computed."""
    name, dtype = node.op.name, node.inputs[0].dtype
    if dtype not in SIZES:
        raise TypeError(f"{name}: no kernel for dtype {dtype}; expected float32 or float64; "
                        "cast the operands.")
    size = SIZES[dtype]
    back = name.endswith("_gradient")
    outputs, inputs = OPERAND_NAMES[name]
    rest = [DHS] if node.attrs.get("sequences") else []
    rest += [MASK] if len(node.inputs) > len(inputs) + len(rest) else []
    names = [*outputs, *inputs, *rest, WORKSPACE]
    recurrent = node.inputs[inputs.index(RECURRENT)]
    units, width = recurrent.shape
    gates = width // units
    batch, steps = node.inputs[0].shape[:2]
    mr, nr = micro_tile(dtype)
    machine = host()
    depth = width if back else units
    kc = _even(depth, gemm_blocks(machine, dispatch.selected(), size, mr, nr)[0], 8)
    padded = -(-units // nr) * nr
    states = (gates + 3) * units if back else 2 * units + padded
    row_bytes = (states + (width if batch == 1 else 0)) * size
    # what is left for states beside the tile of products
    free = machine.scratch_bytes - (0 if back else MOST_ROWS * gates * nr * size) - 256
    rows = min(MOST_ROWS, free // row_bytes)
    packed = padded * width * size if batch > 1 else 0
    in_scratch = rows >= mr and packed > 0
    rows = 1 if not packed else rows if in_scratch else MOST_ROWS
    flops = 2 * batch * steps * units * width
    ints = (KINDS[name.removesuffix("_gradient")], size, gates, batch, steps, units,
            node.attrs["go_backwards"], max(1, flops // FLOPS_PER_CORE), kc, rows, packed,
            row_bytes, in_scratch)
    places = [names.index(k) if k in names else -1 for k in range(OPERANDS)]
    source, target = (GATES, DX) if back else (X, GATES)
    if name.startswith("simple_rnn"):
        source, target = (HS, DX) if back else (X, HS)
    inplace = ((outputs.index(target), inputs.index(source)),)
    return KernelCall(
        f"{name}_{dtype}", <size_t>(&run_backward if back else &run_forward),
        (*ints, *places), workspace=packed + (0 if in_scratch else batch * row_bytes) + 64,
        inplace=inplace, flops=flops)


LOWERINGS = dict.fromkeys(OPERAND_NAMES, lower)
