"""What the two text data sets share: lists of word numbers, filtered by frequency."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class WordOptions:
    """How word numbers are prepared; the arguments of ``load_data`` by the same names."""

    num_words: int | None
    skip_top: int
    maxlen: int | None
    start_char: int | None
    oov_char: int | None
    index_from: int


def prepare(
    rows: Iterable[Iterable[int]], labels: np.ndarray, options: WordOptions
) -> tuple[list[list[int]], np.ndarray]:
    """Shift the words, mark the start and drop rows that are too long."""
    begin = [] if options.start_char is None else [options.start_char]
    shift = options.index_from or 0
    shifted = [begin + [w + shift for w in row] for row in rows]
    if options.maxlen is not None:
        keep = [len(row) < options.maxlen for row in shifted]
        shifted = [row for row, k in zip(shifted, keep) if k]
        labels = labels[np.array(keep, dtype=bool)]
        if not shifted:
            raise ValueError(
                f"load_data: no sequence is shorter than maxlen={options.maxlen}; increase it."
            )
    return shifted, labels


def limit_words(rows: list[list[int]], options: WordOptions) -> list[list[int]]:
    """Replace words outside of [skip_top, num_words), or drop them if oov_char is None."""
    top = options.num_words or max(max(row) for row in rows if row) + 1
    low, oov = options.skip_top, options.oov_char
    if oov is None:
        return [[w for w in row if low <= w < top] for row in rows]
    return [[w if low <= w < top else oov for w in row] for row in rows]


def as_object_array(rows: list[list[int]]) -> np.ndarray:
    """Return ragged rows as an array of lists."""
    out = np.empty(len(rows), dtype=object)
    for i, row in enumerate(rows):  # of one length, NumPy would take them for a matrix
        out[i] = row
    return out
