"""Which rows of a batch a rank has."""

from __future__ import annotations


def batch_rows(n: int, rank: int, size: int) -> tuple[int, int]:
    """Return the half-open range of rows that ``rank`` of ``size`` has of ``n`` rows.

    The ranges are contiguous, in the order of the ranks, and differ in length by at
    most one; with fewer rows than ranks some are empty.

    Raises
    ------
    ValueError
        If there is no such rank, or ``n`` is negative.

    Examples
    --------
    >>> [batch_rows(13, rank, 4) for rank in range(4)]
    [(0, 3), (3, 6), (6, 9), (9, 13)]
    >>> [batch_rows(2, rank, 4) for rank in range(4)]
    [(0, 0), (0, 1), (1, 1), (1, 2)]
    """
    if not 0 <= rank < size:
        raise ValueError(f"batch_rows: rank {rank} does not exist; expected 0 to {size - 1}.")
    if n < 0:
        raise ValueError(f"batch_rows: the number of rows is {n}; expected 0 or more.")
    return rank * n // size, (rank + 1) * n // size
