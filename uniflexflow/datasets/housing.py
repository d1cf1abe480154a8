"""What the two housing data sets share: one file of x and y, shuffled and cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from uniflexflow.datasets import npz
from uniflexflow.datasets.digits import Split


def load_split(file: Path, test_split: float, seed: int, limit: int | None = None) -> Split:
    """Shuffle the rows by ``seed`` and hold out the last ``test_split`` of them.

    The generator is NumPy's old one, so that the rows are those that Keras holds out.
    """
    if not 0 <= test_split < 1:
        raise ValueError(f"load_data: test_split must be in [0, 1); received {test_split}.")
    arrays = npz.load(file)
    x, y = arrays["x"][:limit], arrays["y"][:limit]
    order = np.arange(len(x))
    np.random.RandomState(seed).shuffle(order)
    x, y = x[order], y[order]
    cut = int(len(x) * (1 - test_split))
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])
