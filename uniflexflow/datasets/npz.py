"""Reading ``.npz`` files of ragged lists without letting them run code.

NumPy stores arrays of Python lists as pickles, and a pickle may call anything. Here only
the calls that rebuild an array are let through.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

_MODULES = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
_NAMES = ("_reconstruct", "ndarray", "dtype", "scalar")


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in _MODULES and name in _NAMES:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(
            f"the file wants to call {module}.{name}, which rebuilding an array does not need"
        )


def load(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of an ``.npz`` file.

    Raises
    ------
    ValueError
        If the file is damaged, or asks for anything but arrays and lists; names it.
    """
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                content = io.BytesIO(archive.read(member))
                version = npy.read_magic(content)
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, fortran, dtype = read(content)
                if dtype.hasobject:
                    array = _ArrayUnpickler(content, encoding="latin1").load()
                else:
                    content.seek(0)
                    array = npy.read_array(content, allow_pickle=False)
                arrays[member.removesuffix(".npy")] = array
    except (zipfile.BadZipFile, pickle.UnpicklingError, EOFError, ValueError) as error:
        raise ValueError(f"{path} can't be read as a data set: {error}") from error
    return arrays
