"""Cutting a data set in two."""

from __future__ import annotations

from typing import Any

import numpy as np

from uniflexflow import tree
from uniflexflow.data.sampler import permutation
from uniflexflow.random import make_seed


def split_dataset(
    dataset: Any,
    left_size: float | int | None = None,
    right_size: float | int | None = None,
    shuffle: bool = False,
    seed: int | None = None,
) -> tuple[Any, Any]:
    """Split arrays into a left and a right part.

    Parameters
    ----------
    dataset : array, or list, tuple or dict of arrays of one length
    left_size, right_size : float or int, optional
        A fraction or a number of samples; one may be left out.
    shuffle : bool
    seed : int, optional

    Returns
    -------
    tuple
        Two structures like ``dataset``.

    Examples
    --------
    >>> left, right = split_dataset(np.arange(5), left_size=0.6)
    >>> left.tolist(), right.tolist()
    ([0, 1, 2], [3, 4])
    """
    sizes = {len(a) for a in tree.flatten(dataset)}
    if len(sizes) != 1:
        raise ValueError(
            f"split_dataset: all arrays must have the same length; received {sorted(sizes)}."
        )
    n = sizes.pop()
    if left_size is None and right_size is None:
        raise ValueError(
            "split_dataset: at least one of the `left_size` or `right_size` must be specified."
        )
    left, right = _count("left_size", left_size, n), _count("right_size", right_size, n)
    left = n - right if left is None else left  # type: ignore[operator]
    right = n - left if right is None else right
    if left + right > n:
        raise ValueError(
            f"split_dataset: left_size {left_size} and right_size {right_size} together are "
            f"more than the {n} samples."
        )
    order = np.arange(n)
    if shuffle:
        order = permutation(make_seed() if seed is None else seed, 0, n)
    parts = order[:left], order[left : left + right]
    first, second = (
        tree.map_structure(lambda a, rows=rows: np.asarray(a)[rows], dataset) for rows in parts
    )
    return first, second


def _count(name: str, size: float | int | None, n: int) -> int | None:
    if size is None:
        return None
    if isinstance(size, float):
        if not 0 < size < 1:
            raise ValueError(f"split_dataset: a float `{name}` must lie in (0, 1); got {size}.")
        return round(size * n)
    if not 0 <= size <= n:
        raise ValueError(f"split_dataset: `{name}` must lie in 0..{n}; got {size}.")
    return int(size)
