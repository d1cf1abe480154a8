"""Casts between float32 and bfloat16 in a chain become part of the steps beside them.

A step that has a kernel for it (``tile/mixed.h``) reads bfloat16 and writes it, so a chain over
bfloat16 has no more steps than one over float32. Numbers stay the same, bit by bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from uniflexflow.ir import TensorSpec

#: Operations on float32 of which any operand and the result may be bfloat16.
MIXED = frozenset(
    ("negative", "relu", "square", "add", "subtract", "multiply", "divide", "maximum", "minimum")
) | {"relu_gradient"}

#: The step that is a cast to bfloat16 and back.
ROUNDED = "rounded"

#: Register, operation, sources.
Step = tuple[int, str, tuple[int, ...]]


def fold_casts(
    specs: Sequence[TensorSpec], steps: Sequence[Step], targets: Sequence[int]
) -> list[Step]:
    """Return steps that make the same registers with fewer casts.

    Parameters
    ----------
    specs : sequence of TensorSpec
        Of every register.
    steps : sequence
        Register, operation and sources, in order.
    targets : sequence of int
        Registers that must be made.
    """
    dtypes = [spec.dtype for spec in specs]
    if "bfloat16" not in dtypes:
        return list(steps)
    return _round_at_once(dtypes, _write(dtypes, _read(dtypes, steps, targets), targets), targets)


def _uses(steps: Sequence[Step], targets: Sequence[int]) -> Counter[int]:
    """Count the steps that read each register, and one more for a target."""
    return Counter([*targets, *[s for _, _, sources in steps for s in set(sources)]])


def _is_mixed(dtypes: Sequence[str], step: Step) -> bool:
    """Say whether a step may read and write bfloat16 in the place of float32."""
    r, name, sources = step
    return name in MIXED and {dtypes[s] for s in (r, *sources)} <= {"float32", "bfloat16"}


def _is_cast(dtypes: Sequence[str], step: Step, source: str, to: str) -> bool:
    r, name, sources = step
    return name == "cast" and dtypes[sources[0]] == source and dtypes[r] == to


def _read(dtypes: Sequence[str], steps: Sequence[Step], targets: Sequence[int]) -> list[Step]:
    """Leave out casts to float32 whose readers can all read bfloat16."""
    needed = set(targets)
    for step in steps:
        if not _is_mixed(dtypes, step):
            needed.update(step[2])
    narrow = {
        step[0]: step[2][0]
        for step in steps
        if step[0] not in needed and _is_cast(dtypes, step, "bfloat16", "float32")
    }
    return [
        (r, name, tuple([narrow.get(s, s) for s in sources]))
        for r, name, sources in steps
        if r not in narrow
    ]


def _write(dtypes: Sequence[str], steps: Sequence[Step], targets: Sequence[int]) -> list[Step]:
    """Leave out casts to bfloat16 of what nothing else reads and can be written rounded."""
    uses = _uses(steps, targets)
    made = {step[0]: step for step in steps}
    rounded = {}  # a register of float32 -> the one of bfloat16 that takes its place
    for step in steps:
        source = step[2][0]
        if (
            _is_cast(dtypes, step, "float32", "bfloat16")
            and uses[source] == 1
            and source in made
            and _is_mixed(dtypes, made[source])
        ):
            rounded[source] = step[0]
    casts = set(rounded.values())
    return [(rounded.get(r, r), name, sources) for r, name, sources in steps if r not in casts]


def _round_at_once(
    dtypes: Sequence[str], steps: Sequence[Step], targets: Sequence[int]
) -> list[Step]:
    """Make one step of a cast to bfloat16 and the cast back that alone reads it."""
    uses = _uses(steps, targets)
    narrow = {
        step[0]: step[2][0]
        for step in steps
        if uses[step[0]] == 1 and _is_cast(dtypes, step, "float32", "bfloat16")
    }
    out = []
    alone = set()
    for step in steps:
        source = step[2][0]
        if source in narrow and _is_cast(dtypes, step, "bfloat16", "float32"):
            alone.add(source)
            step = (step[0], ROUNDED, (narrow[source],))
        out.append(step)
    return [step for step in out if step[0] not in alone]
