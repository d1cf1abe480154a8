# cython: wraparound=True
"""Elementwise work: chains of tile kernels on tiles that stay in the L1 cache.

Each slave core takes its share of the tiles; what it does with them is in chain.pxd.
"""

from uniflexflow._core.core cimport uff_instruction, uff_slave, uff_spawn, uff_team
from uniflexflow._core.chain cimport CORES, MAX_OUTER, count_tiles, share_tiles, uff_tile_fn
from uniflexflow._core.dispatch cimport kernels, uff_kernels

from uniflexflow._core.tile_program import DTYPE_NUMBERS, encode
from uniflexflow._core.tile_roundings import MIXED, ROUNDED
from uniflexflow.plan.kernel_call import KernelCall


cdef extern from "tile/tile_fn.h" nogil:
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


cdef extern from "tile/function.h" nogil:
    ctypedef struct uff_function_kernels:
        uff_tile_rows rows
    const uff_function_kernels *uff_function(const uff_kernels *k) noexcept


cdef extern from "tile/cast.h" nogil:
    ctypedef struct uff_cast_kernels:
        uff_tile_rows rows
    const uff_cast_kernels *uff_cast(const uff_kernels *k) noexcept


cdef extern from "tile/pair.h" nogil:
    ctypedef struct uff_pair_kernels:
        uff_tile_rows rows
    const uff_pair_kernels *uff_pair(const uff_kernels *k) noexcept


cdef extern from "tile/mixed.h" nogil:
    ctypedef struct uff_mixed_row:
        const char *name
        uff_tile_fn fn[8]
    ctypedef struct uff_mixed_kernels:
        const uff_mixed_row *rows
        int num_rows
        uff_tile_fn rounded
    const uff_mixed_kernels *uff_mixed(const uff_kernels *k) noexcept


cdef void chain_share(uff_slave *self, void *arg) noexcept nogil:
    cdef const uff_instruction *ins = <const uff_instruction *>arg
    share_tiles(self, ins, ins.ints, NULL, NULL)


cdef void run_chain(const uff_instruction *ins, const uff_team *team) noexcept nogil:
    uff_spawn(team, min(ins.ints[CORES], count_tiles(ins.ints)), chain_share, <void *>ins)


# -- lowering ------------------------------------------------------------------------------

cdef dict numbers = DTYPE_NUMBERS
cdef dict log2_sizes = {"float32": 2, "float64": 3, "int32": 2, "int64": 3, "bfloat16": 1}


cdef size_t in_rows(const uff_tile_rows *table, bytes name, int dtype):
    cdef int i
    for i in range(table.num_rows):
        if table.rows[i].name == name:
            return <size_t>table.rows[i].fn[dtype]
    return 0


cdef size_t in_mixed(bytes name, inputs, str output):
    cdef const uff_mixed_kernels *table = uff_mixed(kernels)
    cdef int i, mask = 4 if output == "bfloat16" else 0
    if {*inputs, output} != {"float32", "bfloat16"} and {*inputs, output} != {"bfloat16"}:
        return 0
    for i, dtype in enumerate(inputs):
        mask |= (dtype == "bfloat16") << i
    for i in range(table.num_rows):
        if table.rows[i].name == name:
            return <size_t>table.rows[i].fn[mask]
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
    if name == ROUNDED:
        return <size_t>uff_mixed(kernels).rounded
    if name in MIXED and "bfloat16" in (*inputs, output):
        address = in_mixed(name.encode(), inputs, output)
    elif name == "cast":
        address = <size_t>uff_cast(kernels).rows.rows[<int>numbers[inputs[0]]].fn[
            <int>numbers[output]]
    else:
        kind = numbers[inputs[len(inputs) - 1]]
        address = in_rows(&uff_chain(kernels).rows, name.encode(), kind)
        if not address:
            address = in_rows(&uff_pair(kernels).rows, name.encode(), kind)
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
# What is moved; arithmetic is done between casts, all in one chain.
NATIVE_BFLOAT16 = {"cast", "stop_gradient"}
