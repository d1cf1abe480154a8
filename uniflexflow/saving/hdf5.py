"""HDF5 files read with suspicion: only plain datasets, of the shapes that are expected.

A file may come from anywhere. Links that lead elsewhere, datasets whose data lie in
other files, and sizes beyond what the model has are refused before anything is read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np


@contextlib.contextmanager
def opened(source: Any, name: str, where: str) -> Iterator[h5py.File]:
    """Open a path or a file object for reading.

    Raises
    ------
    OSError
        If it isn't a whole HDF5 file; names it.
    """
    try:
        file = h5py.File(source, "r")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise OSError(
            f"{where}: {name!r} is not a whole HDF5 file: {error}; it may have been cut off while "
            "it was written or copied"
        ) from error
    with file:
        yield file


def member(group: h5py.Group, path: str, name: str, where: str) -> Any:
    """Return the group or dataset at a path, or None; only along hard links.

    Raises
    ------
    ValueError
        If a link leads elsewhere.
    """
    found: Any = group
    for part in path.split("/"):
        if not isinstance(found, h5py.Group):
            return None
        link = found.get(part, getlink=True)
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            raise ValueError(
                f"{where}: {name!r} is refused: {path!r} goes through a "
                f"{type(link).__name__}, which may lead to another file."
            )
        found = found[part]
    return found


def write(group: h5py.Group, path: str, array: np.ndarray) -> h5py.Dataset:
    """Write an array; HDF5 has no bfloat16, so that is two opaque bytes, as Keras writes it."""
    if array.dtype.name != "bfloat16":
        return group.create_dataset(path, data=array)
    dataset = group.create_dataset(path, data=array.view("V2"))
    dataset.attrs["dtype"] = "bfloat16"
    return dataset


def read(
    dataset: Any,
    shape: tuple[int, ...],
    dtype: str,
    name: str,
    where: str,
    what: str,
) -> np.ndarray:
    """Return a dataset's array, if it has the shape that is expected.

    Parameters
    ----------
    dataset : h5py.Dataset
    shape, dtype
        Of the result; numbers are converted, shapes are not.
    name, where, what : str
        The file, what errors begin with, and whose array this is.

    Raises
    ------
    ValueError
        If it has another shape or kind, or its data lie elsewhere.
    """
    if not isinstance(dataset, h5py.Dataset):
        raise ValueError(f"{where}: {name!r} has a group where {what} was expected.")
    if dataset.is_virtual or dataset.external:
        raise ValueError(
            f"{where}: {name!r} is refused: the data of {what} ({dataset.name!r}) lie in another "
            "file."
        )
    if dataset.shape != tuple(shape):
        raise ValueError(
            f"{where}: {name!r} has shape {dataset.shape} for {what}; expected {tuple(shape)}."
        )
    kind = dataset.dtype
    if kind.kind == "V" and kind.itemsize == 2 and dataset.attrs.get("dtype") == "bfloat16":
        return np.asarray(dataset[()]).view("bfloat16").astype(dtype)
    if kind.kind not in "fiub":
        raise ValueError(f"{where}: {name!r} has elements of type {kind} for {what}.")
    try:
        return np.asarray(dataset[()]).astype(dtype)
    except OSError as error:
        raise OSError(
            f"{where}: {what} ({dataset.name!r}) can't be read from {name!r}: {error}"
        ) from error


def list_datasets(group: h5py.Group, name: str, where: str, path: str = "") -> list[str]:
    """Return the paths of all datasets below a group, along hard links only."""
    found = []
    for part in group:
        here = f"{path}/{part}" if path else part
        item = member(group, part, name, where)
        if isinstance(item, h5py.Group):
            found += list_datasets(item, name, where, here)
        else:
            found.append(here)
    return found
