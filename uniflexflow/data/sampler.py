"""The order of the samples: a function of a seed and the epoch, and of nothing else.

Not of the number of ranks, of threads, or of what ran before: so that a run can be
continued in the middle of an epoch, and on another number of ranks.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def permutation(seed: int, epoch: int, n: int) -> np.ndarray:
    """Return a permutation of ``range(n)``, drawn from a counter keyed by seed and epoch.

    Examples
    --------
    >>> permutation(1, 0, 5).tolist() == permutation(1, 0, 5).tolist()
    True
    """
    key = np.array([seed % 2**64, epoch], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).permutation(n)


class Sampler:
    """Which rows make up each global batch of an epoch.

    Parameters
    ----------
    num_samples, batch_size : int
        ``batch_size`` is that of the global batch; the last one may be smaller.
    shuffle : bool or "batch"
        ``True`` permutes all rows, ``"batch"`` those within each batch.
    seed : int

    Examples
    --------
    >>> sampler = Sampler(5, 2, shuffle=False, seed=0)
    >>> [sampler.batch(i) for i in range(sampler.num_batches)]
    [(0, 2), (2, 4), (4, 5)]
    """

    def __init__(self, num_samples: int, batch_size: int, shuffle: Any, seed: int):
        whole = isinstance(batch_size, (int, np.integer)) and not isinstance(batch_size, bool)
        if not whole or batch_size < 1:
            raise ValueError(f"`batch_size` must be a positive integer; received {batch_size!r}.")
        if shuffle not in (True, False, "batch"):
            raise ValueError(f"`shuffle` must be True, False or 'batch'; received {shuffle!r}.")
        self.num_samples = num_samples
        self.batch_size = int(batch_size)
        self.shuffle = shuffle if shuffle == "batch" else bool(shuffle)
        self.seed = int(seed)

    @property
    def num_batches(self) -> int:
        """How many batches an epoch has."""
        return -(-self.num_samples // self.batch_size)

    def batch(self, index: int) -> tuple[int, int]:
        """Return where in ``order`` batch ``index`` begins and ends."""
        start = index * self.batch_size
        return start, min(start + self.batch_size, self.num_samples)

    def order(self, epoch: int) -> np.ndarray | None:
        """Return the rows in the order of the epoch; None if it is the natural one."""
        if self.shuffle is False:
            return None
        if self.shuffle is True:
            return permutation(self.seed, epoch, self.num_samples)
        order = np.arange(self.num_samples)
        key = np.array([self.seed % 2**64, epoch], dtype=np.uint64)
        draw = np.random.Generator(np.random.Philox(key=key))
        for index in range(self.num_batches):
            lo, hi = self.batch(index)
            order[lo:hi] = draw.permutation(order[lo:hi])
        return order
