"""Two steps of a chain become one where a kernel does both (``tile/pair.h``).

What the first makes and only the second reads then stays in a register: it is neither stored
to a tile in L1 nor loaded again, which costs as much as the operation. Numbers stay the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from uniflexflow._core.tile_roundings import Step
from uniflexflow.ir import TensorSpec

#: Operations that may be the first of two, by how many operands they have.
FIRST = {"add": 2, "subtract": 2, "multiply": 2, "divide": 2, "square": 1, "sqrt": 1}

#: Operations that may be the second: what they are called if they read the first's result as
#: their left operand, and as their right one, if they have it.
SECOND = {
    "add": ("add", "add"),
    "subtract": ("subtract", "subtract_from"),
    "multiply": ("multiply", "multiply"),
    "divide": ("divide", "divide_into"),
    "square": ("square",),
    "relu": ("relu",),
    "relu_gradient": ("relu_gradient", None),
}
DTYPES = ("float32", "float64")


def join_steps(
    specs: Sequence[TensorSpec],
    steps: Sequence[Step],
    targets: Sequence[int],
    once: Collection[int] = (),
) -> list[Step]:
    """Return fewer steps that make the same registers.

    Parameters
    ----------
    specs : sequence of TensorSpec
        Of every register.
    steps : sequence
        Register, operation and sources, in order.
    targets : sequence of int
        Registers that must be made.
    once : collection of int
        Registers that are made once for all tiles: they stay, as a step that is done for each tile
        would make them again.
    """
    uses = Counter([*targets, *[s for _, _, sources in steps for s in sources]])

    def is_alike(step: Step) -> bool:
        r, _, sources = step
        return specs[r].dtype in DTYPES and {specs[s].dtype for s in sources} == {specs[r].dtype}

    first: dict[int, Step] = {}  # by register, those that may yet become part of another
    out: dict[int, Step] = {}
    for step in steps:
        r, name, sources = step
        if name in SECOND and is_alike(step) and r not in once:
            for side, (s, second) in enumerate(zip(sources, SECOND[name])):
                if s in first and second is not None:
                    _, before, of = first.pop(s)
                    del out[s]
                    name = f"{before}+{second}"
                    sources = (of[0], of[-1], *sources[:side], *sources[side + 1 :])
                    break
        step = r, name, sources
        if name in FIRST and is_alike(step) and uses[r] == 1 and r not in targets and r not in once:
            first[r] = step
        out[r] = step
    return list(out.values())
