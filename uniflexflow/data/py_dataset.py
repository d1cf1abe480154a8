"""``PyDataset``: a data set that computes its batches by index."""

from __future__ import annotations

from typing import Any


class PyDataset:
    """Base class of data sets that give batch ``i`` when asked for it.

    A subclass has ``__getitem__(index)``, which returns a whole (global) batch ``x``,
    ``(x, y)`` or ``(x, y, sample_weight)``, and ``__len__`` or the property
    ``num_batches`` (None: without end).

    Parameters
    ----------
    workers : int
        Threads that make batches ahead of the training; with 1 or 0 each batch is made
        when it is needed.
    use_multiprocessing : bool
        Must be False: processes can't be forked safely beside MPI and threads.
    max_queue_size : int
        How many batches may be made ahead.

    Examples
    --------
    >>> import numpy as np
    >>> class Squares(PyDataset):
    ...     def __len__(self):
    ...         return 3
    ...     def __getitem__(self, index):
    ...         x = np.arange(4.0)[:, None] + index
    ...         return x, x**2
    >>> Squares().num_batches
    3
    """

    def __init__(
        self, workers: int = 1, use_multiprocessing: bool = False, max_queue_size: int = 10
    ):
        if use_multiprocessing:
            raise ValueError(
                "PyDataset: `use_multiprocessing=True` is not supported: a process can't be "
                "forked safely beside MPI and threads. Use `workers` threads."
            )
        if not isinstance(workers, int) or workers < 0:
            raise ValueError(f"PyDataset: `workers` must be an int >= 0; received {workers!r}.")
        if not isinstance(max_queue_size, int) or max_queue_size < 1:
            raise ValueError(
                f"PyDataset: `max_queue_size` must be an int >= 1; received {max_queue_size!r}."
            )
        self._workers = workers
        self._max_queue_size = max_queue_size

    @property
    def workers(self) -> int:
        """Threads that make batches ahead."""
        return getattr(self, "_workers", 1)  # a subclass may not call our __init__

    @property
    def use_multiprocessing(self) -> bool:
        """Always False."""
        return False

    @property
    def max_queue_size(self) -> int:
        """How many batches may be made ahead."""
        return getattr(self, "_max_queue_size", 10)

    @property
    def num_batches(self) -> int | None:
        """How many batches a pass over the data has; None: without end."""
        if hasattr(self, "__len__"):
            return len(self)
        raise NotImplementedError(
            f"{type(self).__name__}: a PyDataset needs `__len__` or `num_batches`."
        )

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: a PyDataset needs `__getitem__`.")

    def on_epoch_begin(self) -> None:
        """Do something at the beginning of each epoch; nothing by default."""

    def on_epoch_end(self) -> None:
        """Do something at the end of each epoch; nothing by default."""
