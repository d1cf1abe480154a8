"""CIFAR-10: 60,000 colour images of 32 x 32 pixels, of 10 classes."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np

from uniflexflow.datasets.digits import Split
from uniflexflow.datasets.files import fetch

NAME = "cifar-10-binary.tar.gz"
ORIGIN = "https://www.cs.toronto.edu/~kriz/"
SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
_ROW = 1 + 3 * 32 * 32  # a label, then red, green and blue planes
_PARTS = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]


def _read_parts(source: Path) -> dict[str, bytes]:
    """Read the parts from a folder or from the archive, by their names alone.

    Nothing is unpacked to disk, so no path in the archive matters.
    """
    if source.is_dir():
        return {name: (source / name).read_bytes() for name in _PARTS}
    parts = {}
    with tarfile.open(source) as archive:
        for member in archive:
            name = Path(member.name).name
            if name in _PARTS and member.isfile() and member.size <= 20_000 * _ROW:
                parts[name] = archive.extractfile(member).read()
    return parts


def load_data(path: str | None = None) -> Split:
    """Load CIFAR-10 (Krizhevsky, 2009), from its binary version, which holds no pickles.

    Parameters
    ----------
    path : str, optional
        The archive ``cifar-10-binary.tar.gz``, or the folder with its ``.bin`` files.

    Returns
    -------
    (x_train, y_train), (x_test, y_test) : arrays
        Images uint8 of shape ``(50000, 32, 32, 3)`` and ``(10000, 32, 32, 3)``; labels
        uint8 of shape ``(n, 1)``.

    Raises
    ------
    FileNotFoundError
        If the file is not there and can't be downloaded.
    ValueError
        If a part is missing or cut short; names it.
    """
    if path is not None and (Path(path) / _PARTS[0]).exists():
        source = Path(path)
    else:
        source = fetch("cifar10", NAME, SHA256, path, ORIGIN)
    parts = _read_parts(source)
    images, labels = [], []
    for name in _PARTS:
        content = parts.get(name, b"")
        if not content or len(content) % _ROW:
            raise ValueError(
                f"cifar10: {name} in {source} has {len(content)} bytes; expected rows of {_ROW}."
            )
        rows = np.frombuffer(content, np.uint8).reshape(-1, _ROW)
        labels.append(rows[:, :1])
        images.append(rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    train = np.concatenate(images[:-1]), np.concatenate(labels[:-1])
    return train, (np.ascontiguousarray(images[-1]), labels[-1].copy())
