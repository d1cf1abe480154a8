"""Batches of arrays in memory and of rows in files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from uniflexflow import tree
from uniflexflow.data.batch import (
    as_arrays,
    check_cardinality,
    class_weights_of,
    is_stored,
    pack_x_y_sample_weight,
)
from uniflexflow.data.columns import StoredColumn, column
from uniflexflow.data.prefetch import Prefetch
from uniflexflow.data.sampler import Sampler
from uniflexflow.ir import TensorSpec
from uniflexflow.parallel import batch_rows

# Small batches are gathered together, up to this size: it stays in cache.
BLOCK_BYTES = 256 * 2**10

# Batches read ahead from files; each is held in memory.
READ_AHEAD = 2


class ArraySource:
    """Global batches of arrays, of which this rank brings its own rows.

    Parameters
    ----------
    x, y, sample_weight : nested structures of arrays or stored rows, or None
    batch_size : int, optional
        Of the global batch; by default as ``steps`` needs it, else 32.
    steps : int, optional
        Steps of an epoch that was asked for.
    shuffle : bool or "batch"
    seed : int
    class_weight : dict, optional
    float_dtype : str
    rank, size : int
    where : str
        For errors: which method was given the data.

    Attributes
    ----------
    num_batches, num_samples : int
    one_shot : bool
        Whether only one pass over the data can be made.
    """

    one_shot = False

    def __init__(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        batch_size: int | None = None,
        steps: int | None = None,
        shuffle: Any = False,
        seed: int = 0,
        class_weight: dict[int, float] | None = None,
        float_dtype: str = "float32",
        rank: int = 0,
        size: int = 1,
        where: str = "fit",
    ):
        x, y, sample_weight = (
            None if part is None else as_arrays(part, where) for part in (x, y, sample_weight)
        )
        self.num_samples = check_cardinality(x, y, sample_weight)
        if not self.num_samples:
            shapes = [tuple(a.shape) for a in tree.flatten((x, y)) if a is not None]
            raise ValueError(
                f"{where}: the data has no samples; received arrays of the shapes {shapes}, "
                "expected a first axis of 1 or more."
            )
        if class_weight is not None:
            if sample_weight is not None:
                raise ValueError("You cannot `class_weight` and `sample_weight` at the same time.")
            targets = y[: self.num_samples] if is_stored(y) else y
            sample_weight = class_weights_of(targets, class_weight, float_dtype)
        if sample_weight is not None and y is not None and tree.is_nested(y):
            if not tree.is_nested(sample_weight):
                sample_weight = tree.map_structure(lambda _: sample_weight, y)
        data = pack_x_y_sample_weight(x, y, sample_weight)
        if batch_size is None:
            batch_size = max(1, -(-self.num_samples // steps)) if steps else 32
        self.sampler = Sampler(self.num_samples, batch_size, shuffle, seed)
        self.num_batches = self.sampler.num_batches
        self._columns = tree.map_structure(
            lambda a: None if a is None else column(a, float_dtype), data
        )
        self._flat = [c for c in tree.flatten(self._columns) if c is not None]
        self._stored = any(isinstance(c, StoredColumn) for c in self._flat)
        self._rank, self._size = rank, size

    def first_key(self) -> int:
        """Return the key of the first batch: its global size."""
        lo, hi = self.sampler.batch(0)
        return hi - lo

    def describe(self) -> str:
        """Return what must be the same on all ranks."""
        shapes = [(self.num_samples, *c.row_shape) for c in self._flat]
        dtypes = [str(c.dtype) for c in self._flat]
        order = f"batch_size={self.sampler.batch_size}, shuffle={self.sampler.shuffle}"
        return f"arrays of the shapes {shapes} and dtypes {dtypes}, {order}"

    def specs(self, key: int) -> Any:
        """Return a batch's structure with the global TensorSpecs for its arrays."""
        return tree.map_structure(
            lambda c: None if c is None else TensorSpec((key, *c.row_shape), c.dtype),
            self._columns,
        )

    def run(self, pass_index: int, start: int = 0) -> Iterator[tuple[int, int, list[np.ndarray]]]:
        """Give (global size, key, this rank's rows of each array) for each batch.

        The arrays are only good until the next batch is asked for.
        """
        if self._stored:
            ahead = Prefetch(lambda: self._make(pass_index, start, READ_AHEAD + 2), READ_AHEAD)
            try:
                yield from ahead
            finally:
                ahead.close()
        else:
            yield from self._make(pass_index, start, 1)

    def _make(self, pass_index: int, start: int, num_buffers: int) -> Iterator[Any]:
        order = self.sampler.order(pass_index)
        if order is None:
            return self._slices(start)
        if self._size == 1 and not self._stored:
            return self._blocks(order, start)
        return self._gathered(order, start, num_buffers)

    def _slices(self, start: int) -> Iterator[Any]:
        """Give batches in the natural order."""
        for index in range(start, self.sampler.num_batches):
            first, last = self.sampler.batch(index)
            n = last - first
            lo, hi = batch_rows(n, self._rank, self._size)
            yield n, n, [c.slice(first + lo, first + hi) for c in self._flat]

    def _blocks(self, order: np.ndarray, start: int) -> Iterator[Any]:
        """Give shuffled batches of a single rank; small ones are gathered many at a time."""
        flat, size, total = self._flat, self.sampler.batch_size, self.num_samples
        size = min(size, total)
        nbytes = sum(c.row_nbytes for c in flat) * size
        num_batches = self.sampler.num_batches
        per_block = max(1, min(64, BLOCK_BYTES // max(nbytes, 1), num_batches))
        buffers = [c.buffer(per_block * size) for c in flat]
        views = [[b[i * size : (i + 1) * size] for b in buffers] for i in range(per_block)]
        for first in range(start, num_batches, per_block):
            rows = order[first * size : (first + per_block) * size]
            for c, buffer in zip(flat, buffers):
                c.gather(rows, buffer[: len(rows)])
            full, rest = divmod(len(rows), size)
            for feeds in views[:full]:
                yield size, size, feeds
            if rest:
                yield rest, rest, [view[:rest] for view in views[full]]

    def _gathered(self, order: np.ndarray, start: int, num_buffers: int) -> Iterator[Any]:
        """Give shuffled batches, each gathered by itself, in buffers used in turn."""
        flat, rank, size, sampler = self._flat, self._rank, self._size, self.sampler
        lo, hi = batch_rows(min(sampler.batch_size, self.num_samples), rank, size)
        # a smaller batch never gives a rank more rows than the full one, but one
        buffers = [[c.buffer(hi - lo + 1) for c in flat] for _ in range(num_buffers)]
        for index in range(start, sampler.num_batches):
            first, last = sampler.batch(index)
            n = last - first
            lo, hi = batch_rows(n, rank, size)
            rows, outs = order[first + lo : first + hi], buffers[index % num_buffers]
            yield n, n, [c.gather(rows, b[: hi - lo]) for c, b in zip(flat, outs)]

    def set_seed(self, seed: int) -> None:
        """Take another order of the samples."""
        self.sampler.seed = int(seed)

    def on_epoch_begin(self) -> None:
        """Do nothing: arrays don't care."""

    def on_epoch_end(self) -> None:
        """Do nothing: arrays don't care."""
