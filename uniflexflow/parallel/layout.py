"""Layouts: where the parts of a tensor are, along one axis of the mesh.

A layout is all that a tensor knows about distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

from uniflexflow.parallel.rows import batch_rows

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """Each rank has a contiguous piece of one dimension.

    Attributes
    ----------
    axis : int
        The dimension.
    units : int
        What is dealt out to the ranks by ``batch_rows``; the dimension is this number
        or a multiple of it (batch times time, say), so that all tensors of a step are
        cut at the same samples.
    """

    axis: int
    units: int

    def fits(self, shape: Shape) -> bool:
        """Say whether a tensor of this shape can be split so."""
        if self.axis >= len(shape):
            return False
        n = shape[self.axis]
        return n == 0 or (self.units > 0 and n % self.units == 0)

    def bounds(self, shape: Shape, rank: int, size: int) -> tuple[int, int]:
        """Return the range of the dimension that ``rank`` has."""
        low, high = batch_rows(self.units, rank, size)
        step = shape[self.axis] // max(self.units, 1)
        return low * step, high * step

    def __str__(self) -> str:
        return f"Split({self.axis} of {self.units})"


@dataclass(frozen=True, slots=True)
class Replicate:
    """Each rank has the whole tensor."""

    def __str__(self) -> str:
        return "Replicate"


@dataclass(frozen=True, slots=True)
class Partial:
    """Each rank has a summand of the tensor; the sum is still due."""

    def __str__(self) -> str:
        return "Partial"


Layout = Split | Replicate | Partial

REPLICATE = Replicate()
PARTIAL = Partial()


def local_shape(shape: Shape, layout: Layout, rank: int, size: int) -> Shape:
    """Return the shape of one rank's share.

    Examples
    --------
    >>> [local_shape((26, 5), Split(0, 13), rank, 4) for rank in range(4)]
    [(6, 5), (6, 5), (6, 5), (8, 5)]
    """
    if not isinstance(layout, Split):
        return shape
    low, high = layout.bounds(shape, rank, size)
    return (*shape[: layout.axis], high - low, *shape[layout.axis + 1 :])
