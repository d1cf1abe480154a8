"""``get_file``: a file from the network, checked and kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

_TIMEOUT = 30


def get_file(
    fname: str | None = None,
    origin: str | None = None,
    untar: bool = False,
    md5_hash: str | None = None,
    file_hash: str | None = None,
    cache_subdir: str = "datasets",
    hash_algorithm: str = "auto",
    extract: bool = False,
    archive_format: str = "auto",
    cache_dir: str | None = None,
    force_download: bool = False,
) -> str:
    """Download a file unless it is in the cache; return where it is.

    Parameters
    ----------
    fname : str, optional
        File name in the cache, or an absolute path; default: the last part of ``origin``.
    origin : str
        Address.
    untar, extract : bool
        Whether to unpack the archive into a folder ``<fname>_extracted``, which is
        returned then.
    md5_hash, file_hash : str, optional
        Digest that the file must have.
    cache_subdir : str
    hash_algorithm : {"auto", "md5", "sha256"}
        ``"auto"`` goes by the digest's length.
    archive_format : {"auto", "tar", "zip"}
    cache_dir : str, optional
        Default: ``~/.uniflexflow``.
    force_download : bool

    Returns
    -------
    str

    Raises
    ------
    FileNotFoundError
        If it can't be downloaded.
    ValueError
        If the digest differs; nothing is kept.
    """
    if origin is None:
        raise ValueError("get_file: `origin` must be given.")
    if fname is None:
        fname = os.path.basename(origin.split("?")[0])
    if not fname:
        raise ValueError(f"get_file: no file name in {origin!r}; give `fname`.")
    folder = Path(cache_dir or Path.home() / ".uniflexflow").expanduser() / cache_subdir
    target = Path(fname) if os.path.isabs(fname) else folder / fname
    digest = file_hash or md5_hash
    if md5_hash is not None and file_hash is None:
        hash_algorithm = "md5"
    if force_download or not target.exists() or not _matches(target, digest, hash_algorithm):
        _download(origin, target, digest, hash_algorithm)
    if untar or extract:
        return str(_unpack(target, "tar" if untar else archive_format, force_download))
    return str(target)


def _matches(path: Path, digest: str | None, algorithm: str) -> bool:
    return digest is None or _digest(path, digest, algorithm) == digest.lower()


def _digest(path: Path, digest: str, algorithm: str) -> str:
    if algorithm == "auto":
        algorithm = "sha256" if len(digest) == 64 else "md5"
    if algorithm not in ("md5", "sha256"):
        raise ValueError(f"get_file: unknown `hash_algorithm` {algorithm!r}.")
    hasher = hashlib.new(algorithm)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            hasher.update(block)
    return hasher.hexdigest()


def _download(origin: str, target: Path, digest: str | None, algorithm: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        part = Path(file.name)
        try:
            with urllib.request.urlopen(origin, timeout=_TIMEOUT) as answer:
                shutil.copyfileobj(answer, file)
        except (urllib.error.URLError, OSError) as error:
            part.unlink(missing_ok=True)
            raise FileNotFoundError(
                f"get_file: {origin} can't be downloaded ({error}). Without a network, fetch it "
                f"on another machine and put it at {target}."
            ) from error
    if not _matches(part, digest, algorithm):
        got = _digest(part, digest or "", algorithm)
        part.unlink()
        raise ValueError(
            f"get_file: the download of {origin} has the digest {got}; expected {digest}. It was "
            "not kept; the file at the source is another one, or the transfer was damaged."
        )
    os.replace(part, target)  # ranks of one job may do this at the same time


def _unpack(archive: Path, archive_format: str, again: bool) -> Path:
    folder = archive.with_name(archive.name + "_extracted")
    if folder.exists() and not again:
        return folder
    if archive_format not in ("auto", "tar", "zip"):
        raise ValueError(f"get_file: unknown `archive_format` {archive_format!r}.")
    part = Path(tempfile.mkdtemp(dir=archive.parent))
    try:
        if archive_format != "tar" and zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as file:
                file.extractall(part)  # keeps members within the folder
        elif archive_format != "zip" and tarfile.is_tarfile(archive):
            if not hasattr(tarfile, "data_filter"):
                raise RuntimeError(
                    "get_file: this Python can't unpack tar files safely; update to its latest "
                    f"patch release, or unpack {archive} by hand."
                )
            with tarfile.open(archive) as file:
                file.extractall(part, filter="data")  # refuses members outside of the folder
        else:
            raise ValueError(f"get_file: {archive} is no archive of format {archive_format!r}.")
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(part, folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        if folder.exists() and not again:
            return folder  # another rank was faster
        raise
    return folder
