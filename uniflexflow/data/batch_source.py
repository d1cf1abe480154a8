"""Batches that someone else makes: generators, iterables, PyDatasets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from uniflexflow import tree
from uniflexflow.data.batch import (
    as_arrays,
    check_cardinality,
    class_weights_of,
    feed_dtype,
    pack_x_y_sample_weight,
    unpack_x_y_sample_weight,
)
from uniflexflow.data.py_dataset import PyDataset
from uniflexflow.data.sampler import permutation
from uniflexflow.ir import TensorSpec
from uniflexflow.parallel import batch_rows

_MISSING = object()


class BatchSource:
    """Global batches made by the user's object; this rank keeps its own rows of each.

    A generator is drawn from exactly as often as batches are used: none is drawn
    twice or left out, also between calls of ``fit``.

    Parameters
    ----------
    batches : PyDataset, iterator or iterable
        On every rank it must give the same batches.
    class_weight : dict, optional
    shuffle : bool
        Whether the batches of a PyDataset come in an order of their own in each epoch.
    seed : int
    float_dtype : str
    rank, size : int
    where : str

    Attributes
    ----------
    num_batches : int or None
        In one pass; None if unknown or without end.
    one_shot : bool
        Whether only one pass over the data can be made.
    """

    num_samples = None

    def __init__(
        self,
        batches: Any,
        *,
        class_weight: dict[int, float] | None = None,
        shuffle: Any = False,
        seed: int = 0,
        float_dtype: str = "float32",
        rank: int = 0,
        size: int = 1,
        where: str = "fit",
    ):
        self._batches = batches
        self._class_weight = class_weight
        self._seed = seed
        self._float_dtype = float_dtype
        self._rank, self._size = rank, size
        self._where = where
        self._specs: dict[Any, Any] = {}
        self._peeked: Any = _MISSING
        self._iterator: Iterator[Any] | None = None
        self._indexed = isinstance(batches, PyDataset)
        self.one_shot = not self._indexed and hasattr(batches, "__next__")
        self._shuffle = bool(shuffle) and self._indexed
        if self._indexed:
            self.num_batches = batches.num_batches
        elif hasattr(batches, "__len__"):
            self.num_batches = len(batches)
        else:
            self.num_batches = None

    def first_key(self) -> Any:
        """Return the key of the first batch; it is drawn, and kept for the first step."""
        if self._indexed:
            if self.num_batches == 0:
                raise ValueError(f"{self._where}: the PyDataset has no batches.")
            index = next(iter(self._indices(0, 0)))
            return self._feed(self._batches[index])[1]
        if self._peeked is _MISSING:
            self._open()
            self._peeked = next(self._iterator, _MISSING)  # type: ignore[arg-type]
            if self._peeked is _MISSING:
                raise ValueError(
                    f"{self._where}: the {type(self._batches).__name__} gave no batch: "
                    "there is nothing to compute on."
                )
        return self._feed(self._peeked)[1]

    def describe(self) -> str:
        """Return what must be the same on all ranks."""
        kind = type(self._batches).__name__
        return f"a {kind} of {self.num_batches or 'unknown'} batches, shuffle={self._shuffle}"

    def specs(self, key: Any) -> Any:
        """Return a batch's structure with the global TensorSpecs for its arrays."""
        return self._specs[key]

    def run(self, pass_index: int, start: int = 0) -> Iterator[tuple[int, Any, list[np.ndarray]]]:
        """Give (global size, key, this rank's rows of each array) for each batch."""
        made = self._indexed_batches if self._indexed else self._drawn_batches
        for batch in made(pass_index, start):
            yield self._feed(batch)

    # -- where the batches come from -----------------------------------------------

    def _open(self) -> None:
        if self._iterator is None:
            self._iterator = iter(self._batches)

    def _drawn_batches(self, pass_index: int, start: int) -> Iterator[Any]:
        if self.one_shot and pass_index > 0:
            return
        self._open()
        place = 0
        try:
            while True:
                batch, self._peeked = self._peeked, _MISSING
                if batch is _MISSING:
                    batch = next(self._iterator, _MISSING)  # type: ignore[arg-type]
                if batch is _MISSING:
                    break
                if place >= start:
                    yield batch
                place += 1
        finally:  # a pass that is left early, too, is followed by one from the beginning
            if not self.one_shot:
                self._iterator, self._peeked = None, _MISSING

    def _indices(self, pass_index: int, start: int) -> Iterator[int]:
        n = self.num_batches
        if n is None:
            while True:
                yield start
                start += 1
        order = permutation(self._seed, pass_index, n) if self._shuffle else np.arange(n)
        yield from order[start:].tolist()

    def _indexed_batches(self, pass_index: int, start: int) -> Iterator[Any]:
        dataset, indices = self._batches, self._indices(pass_index, start)
        if dataset.workers <= 1:
            for index in indices:
                yield dataset[index]
            return
        with ThreadPoolExecutor(dataset.workers, "pydataset") as pool:
            waiting: deque[Future[Any]] = deque()
            try:
                for index in indices:
                    waiting.append(pool.submit(dataset.__getitem__, index))
                    if len(waiting) >= max(dataset.max_queue_size, dataset.workers):
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    # -- into arrays ---------------------------------------------------------------

    def _feed(self, batch: Any) -> tuple[int, Any, list[np.ndarray]]:
        x, y, weight = (
            None if part is None else as_arrays(part, self._where)
            for part in unpack_x_y_sample_weight(batch)
        )
        n = check_cardinality(x, y, weight)
        if not n:
            raise ValueError(
                f"{self._where}: the {type(self._batches).__name__} gave a batch without samples."
            )
        if self._class_weight is not None:
            if weight is not None:
                raise ValueError("You cannot `class_weight` and `sample_weight` at the same time.")
            weight = class_weights_of(y, self._class_weight, self._float_dtype)
        data = pack_x_y_sample_weight(x, y, weight)
        lo, hi = batch_rows(n, self._rank, self._size)
        specs, feeds = [], []
        for array in tree.flatten(data):
            if array is None:
                specs.append(None)
                continue
            dtype = feed_dtype(array.dtype, self._float_dtype, self._where)
            specs.append(TensorSpec(tuple(array.shape), dtype))
            feeds.append(np.ascontiguousarray(array[lo:hi], dtype=dtype))
        key = (tuple(specs), _form(data))
        if key not in self._specs:
            if len(self._specs) > 256:
                self._specs.clear()
            self._specs[key] = tree.pack_sequence_as(data, specs)
        return n, key, feeds

    def set_seed(self, seed: int) -> None:
        """Take another order of the batches."""
        self._seed = int(seed)

    def on_epoch_begin(self) -> None:
        """Tell the data set."""
        if self._indexed:
            self._batches.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Tell the data set."""
        if self._indexed:
            self._batches.on_epoch_end()


def _form(structure: Any) -> Any:
    """Return a hashable picture of a nested structure."""
    if isinstance(structure, dict):
        return ("dict", tuple((k, _form(structure[k])) for k in sorted(structure)))
    if isinstance(structure, (list, tuple)):
        return (type(structure).__name__, tuple(map(_form, structure)))
    return structure is None
