"""One array of a data set, seen as rows that are brought into a batch's buffer."""

from __future__ import annotations

from typing import Any

import numpy as np

from uniflexflow.data.batch import feed_dtype, is_stored
from uniflexflow.ops.variable import aligned_zeros

# An array in memory is cast as a whole up to this size: once, instead of in each epoch.
CAST_AT_ONCE = 512 * 2**20


class ArrayColumn:
    """Rows of an array in memory.

    Attributes
    ----------
    dtype : str
        In which the rows are fed.
    row_shape : tuple of int
    row_nbytes : int
        Size of a row as it is fed.
    """

    def __init__(self, array: np.ndarray, float_dtype: str):
        self.dtype = feed_dtype(array.dtype, float_dtype)
        self.row_shape = array.shape[1:]
        self.row_nbytes = _row_nbytes(self.row_shape, self.dtype)
        if array.dtype != self.dtype and len(array) * self.row_nbytes <= CAST_AT_ONCE:
            array = array.astype(self.dtype)
        # take() on rows with gaps would copy the whole array at every call
        self.array = np.ascontiguousarray(array)
        self._cast = self.array.dtype != self.dtype

    def buffer(self, n: int) -> np.ndarray:
        """Return memory for ``n`` rows."""
        return aligned_zeros((n, *self.row_shape), self.dtype)

    def gather(self, rows: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Bring rows in any order into ``out``."""
        if self._cast:
            out[...] = self.array.take(rows, 0)
            return out
        # mode "clip" writes straight into `out`; the rows are known to exist
        return self.array.take(rows, 0, out, "clip")

    def slice(self, lo: int, hi: int) -> np.ndarray:
        """Return consecutive rows, without a copy where that can be."""
        rows = self.array[lo:hi]
        return rows.astype(self.dtype) if self._cast else rows


class StoredColumn:
    """Rows of an ``h5py.Dataset``, read when needed and no others.

    Rows in any order are read sorted, a run of neighbours at a time.
    """

    def __init__(self, stored: Any, float_dtype: str):
        self.stored = stored
        self.dtype = feed_dtype(stored.dtype, float_dtype)
        self.row_shape = tuple(stored.shape[1:])
        self.row_nbytes = _row_nbytes(self.row_shape, self.dtype)

    def buffer(self, n: int) -> np.ndarray:
        """Return memory for ``n`` rows."""
        return aligned_zeros((n, *self.row_shape), self.dtype)

    def gather(self, rows: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Bring rows in any order into ``out``."""
        by_place = np.argsort(rows, kind="stable")
        places = rows[by_place]
        breaks = np.flatnonzero(np.diff(places) != 1) + 1
        for run in np.split(np.arange(len(rows)), breaks):
            if len(run):
                lo = int(places[run[0]])
                out[by_place[run]] = self.stored[lo : lo + len(run)]
        return out

    def slice(self, lo: int, hi: int) -> np.ndarray:
        """Return consecutive rows."""
        return np.ascontiguousarray(self.stored[lo:hi], dtype=self.dtype)


def column(array: Any, float_dtype: str) -> ArrayColumn | StoredColumn:
    """Return the column for an array or for stored rows."""
    kind = StoredColumn if is_stored(array) else ArrayColumn
    return kind(array, float_dtype)


def _row_nbytes(row_shape: tuple[int, ...], dtype: str) -> int:
    return int(np.prod(row_shape, dtype=np.int64)) * np.dtype(dtype).itemsize
