"""An HDF5 file with a seal: checksums of its parts and of the whole, behind its end.

HDF5 readers see a plain file of contiguous datasets; they don't look behind its end. The
seal lists where each dataset lies, so that damage is found, and named, without trusting
any of HDF5's own structures.

Layout: HDF5 file, JSON list, then 16 + 8 + 32 bytes: magic, the length of the JSON, and the
SHA-256 of all before it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO

import h5py
import numpy as np

from uniflexflow.saving import hdf5

MAGIC = b"UniFlexFlow-seal"
_FOOT = len(MAGIC) + 8 + 32
_CHUNK = 1 << 22


class DamagedFileError(OSError):
    """A file is cut off, or its bytes are not those that were written."""


def write_sealed(
    file: BinaryIO, arrays: Mapping[str, np.ndarray], attributes: Mapping[str, Any]
) -> None:
    """Write arrays, by path, and attributes of the root."""
    image = io.BytesIO()
    with h5py.File(image, "w") as h5:
        h5.attrs.update(attributes)
        places = []
        for path, array in arrays.items():
            dataset = hdf5.write(h5, path, array)
            offset = dataset.id.get_offset() if array.nbytes else 0
            crc = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
            places.append([path, offset, array.nbytes, crc])
    listed = json.dumps({"size": image.getbuffer().nbytes, "datasets": places}).encode()
    tail = listed + MAGIC + struct.pack("<Q", len(listed))
    digest = hashlib.sha256(image.getbuffer())
    digest.update(tail)
    file.write(image.getbuffer())
    file.write(tail + digest.digest())


def verify(path: str) -> None:
    """Check a file against its seal.

    Raises
    ------
    DamagedFileError
        Says what is damaged.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        if size < _FOOT:
            raise DamagedFileError(f"{path!r} is cut off: it has {size:,} bytes")
        file.seek(size - _FOOT)
        foot = file.read(_FOOT)
        if foot[: len(MAGIC)] != MAGIC:
            raise DamagedFileError(
                f"{path!r} has no seal at its end: it is cut off, damaged, or was written by "
                "another program"
            )
        (length,) = struct.unpack("<Q", foot[len(MAGIC) : -32])
        file.seek(0)
        digest, left = hashlib.sha256(), size - 32
        while left > 0:
            chunk = file.read(min(_CHUNK, left))
            digest.update(chunk)
            left -= len(chunk)
        if digest.digest() != foot[-32:]:
            raise DamagedFileError(f"{path!r} is damaged: {_what(file, size, length)}")


def _what(file: BinaryIO, size: int, length: int) -> str:
    """Say which part of a damaged file it is."""
    if length > size - _FOOT:
        return "its seal is"
    file.seek(size - _FOOT - length)
    try:
        places = json.loads(file.read(length))["datasets"]
        damaged = []
        for path, offset, nbytes, crc in places:
            file.seek(offset)
            if zlib.crc32(file.read(nbytes)) != crc:
                damaged.append(str(path))
    except (ValueError, TypeError, KeyError, OverflowError, MemoryError):
        return "its seal is"
    if not damaged:
        return "its structure is; the datasets are whole"
    return f"dataset {', '.join(damaged[:5])}{' ...' if len(damaged) > 5 else ''}"
