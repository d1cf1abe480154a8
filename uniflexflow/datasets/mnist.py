"""MNIST: 70,000 hand-written digits of 28 x 28 pixels."""

from __future__ import annotations

from uniflexflow.datasets import npz
from uniflexflow.datasets.digits import Split
from uniflexflow.datasets.files import fetch

SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"


def load_data(path: str = "mnist.npz") -> Split:
    """Load MNIST (LeCun, Cortes and Burges; CC BY-SA 3.0).

    Parameters
    ----------
    path : str
        A file or folder, or a file name in the cache.

    Returns
    -------
    (x_train, y_train), (x_test, y_test) : arrays
        Images uint8 of shape ``(60000, 28, 28)`` and ``(10000, 28, 28)``; labels uint8.

    Raises
    ------
    FileNotFoundError
        If the file is not there and can't be downloaded.
    """
    arrays = npz.load(fetch("mnist", "mnist.npz", SHA256, path))
    return (arrays["x_train"], arrays["y_train"]), (arrays["x_test"], arrays["y_test"])
