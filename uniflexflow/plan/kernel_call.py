"""What a node becomes when it is lowered: a tiled operation and its numbers.

Each module of ``_core`` that holds tiled operations has a table ``LOWERINGS``: name of
the primitive -> function ``lower(node) -> KernelCall``. A lowering knows shapes, dtypes
and attributes, never memory.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One instruction, before its operands have addresses.

    Attributes
    ----------
    name : str
        ``<operation>_<dtype>``, as shown in the plan's text.
    function : int
        Address of the C function ``void (const uff_instruction *, const uff_team *)``.
    ints, floats : tuple
        Sizes, strides and attributes, in the order in which that function reads them.
    workspace : int
        Bytes of temporary memory, given as one more operand after the inputs.
    inplace : tuple of (int, int)
        Pairs (output, input) that may share memory when the input is not needed later.
    flops : int
        Floating-point operations, for profiles.
    nbytes : int, optional
        Bytes that are read and written at least, for profiles; default: all operands'.
    """

    name: str
    function: int
    ints: tuple[int, ...] = ()
    floats: tuple[float, ...] = ()
    workspace: int = 0
    inplace: tuple[tuple[int, int], ...] = ()
    flops: int = 0
    nbytes: int | None = None
