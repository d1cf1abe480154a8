"""Fashion-MNIST: 70,000 images of clothes, 28 x 28 pixels."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from uniflexflow.datasets.digits import Split
from uniflexflow.datasets.files import ORIGIN, cache_folder, fetch

# Where Debian's package `dataset-fashion-mnist` and Keras put the files.
FOLDERS = (
    Path("/usr/share/datasets/fashion-mnist"),
    Path.home() / ".keras/datasets/fashion-mnist",
)
SHA256 = {
    "train-images-idx3": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "train-labels-idx1": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "t10k-images-idx3": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "t10k-labels-idx1": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
}


def read_idx(path: Path) -> np.ndarray:
    """Read a gzipped IDX file of bytes, the format of the MNIST family.

    Raises
    ------
    ValueError
        If the file is not one, or is cut short; names it.
    """
    try:
        with gzip.open(path) as file:
            content = file.read()
    except (OSError, EOFError) as error:
        raise ValueError(f"{path} can't be read as a gzipped IDX file: {error}") from error
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of bytes: it begins with {content[:4]!r}.")
    ndim = content[3]
    shape = tuple(np.frombuffer(content, ">u4", ndim, offset=4).tolist())
    data = np.frombuffer(content, np.uint8, offset=4 + 4 * ndim)
    if data.size != np.prod(shape):
        raise ValueError(f"{path}: {data.size} bytes of data; its header says {shape}.")
    return data.reshape(shape)


def load_data(path: str | None = None) -> Split:
    """Load Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017, arXiv:1708.07747; MIT licence).

    Parameters
    ----------
    path : str, optional
        A folder that holds the four IDX files. By default they are looked for where
        Debian's package ``dataset-fashion-mnist`` puts them, then in the caches.

    Returns
    -------
    (x_train, y_train), (x_test, y_test) : arrays
        Images uint8 of shape ``(60000, 28, 28)`` and ``(10000, 28, 28)``; labels uint8.

    Raises
    ------
    FileNotFoundError
        If a file is not there and can't be downloaded.
    """
    folders = (*FOLDERS, cache_folder() / "fashion-mnist")
    arrays = [
        read_idx(fetch("fashion_mnist", f"{name}-ubyte.gz", digest, path, ORIGIN, folders))
        for name, digest in SHA256.items()
    ]
    return (arrays[0], arrays[1]), (arrays[2], arrays[3])
