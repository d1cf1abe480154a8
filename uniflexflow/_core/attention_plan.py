"""How attention is cut: tiles of scores, copies in scratchpad, runs of keys."""

from __future__ import annotations

import math
from collections.abc import Callable

from uniflexflow.ir import TensorSpec

#: Rows and columns of a tile of scores, at most.
FORWARD = (256, 128)
BACKWARD = (128, 128)

#: Runs of keys per head are made until there are this many pieces of work, of so many keys.
PIECES = 8
KEYS_PER_RUN = 512


def round_up(n: int, unit: int) -> int:
    """Return the least multiple of ``unit`` that is not below ``n``."""
    return math.ceil(n / unit) * unit


def _even(total: int, most: int, unit: int) -> int:
    """Size of the pieces of ``total``, all about the same and none much over ``most``."""
    pieces = max(1, math.ceil(total / most))
    return max(unit, round_up(math.ceil(total / pieces), unit))


def padded(n: int, nr: int, size: int) -> int:
    """Elements from row to row of a copy: whole vectors, and an odd number of cache lines.

    Rows a power of two apart would share a few places of the first-level cache.
    """
    lines = math.ceil(round_up(n, nr) * size / 64)
    return (lines + 1 - lines % 2) * 64 // size


def choose_tiles(
    fits: Callable[[int, int], bool],
    targets: int,
    sources: int,
    backward: bool,
    causal: bool,
    unit: tuple[int, int],
) -> tuple[int, int]:
    """Choose rows and columns of tiles that fit in a core's scratchpad.

    ``unit`` is the micro-tile of the products.
    """
    mr, nr = unit
    rows, columns = BACKWARD if backward else FORWARD
    if causal:  # half of a tile's columns on the diagonal are work for nothing
        columns = min(columns, max(32, targets // 8))
    while True:
        cut = _even(targets, rows, mr), _even(sources, columns, nr)
        if fits(*cut) or (rows <= mr and columns <= nr):
            return cut
        if rows > columns:
            rows = max(mr, rows // 2)
        else:
            columns = max(nr, columns // 2)


def runs_of_keys(heads: int, sources: int) -> int:
    """Return into how many runs the keys of each of ``heads`` heads are cut."""
    return min(math.ceil(PIECES / heads), max(1, sources // KEYS_PER_RUN)) if heads else 1


def strides(spec: TensorSpec | None, number: int) -> tuple[int, ...]:
    """Operand number and strides of a bias or mask that is broadcast where its size is 1."""
    if spec is None:
        return (0,) * 5
    found, step = [], 1
    for n in reversed(spec.shape):
        found.append(step if n != 1 else 0)
        step *= n
    return (number, *reversed(found))
