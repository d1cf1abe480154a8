"""Finding a data set's file: a given path, a local cache, or a checked download."""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

ORIGIN = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
TIMEOUT = 20  # seconds without an answer before a download is given up


def cache_folder() -> Path:
    """Return the folder for downloaded data: ``UNIFLEXFLOW_DATASETS`` or a cache at home."""
    set_by_user = os.environ.get("UNIFLEXFLOW_DATASETS")
    return Path(set_by_user) if set_by_user else Path.home() / ".uniflexflow" / "datasets"


def search_folders() -> list[Path]:
    """Return where files are looked for; Keras's own cache is one of the places."""
    return [cache_folder(), Path.home() / ".keras" / "datasets"]


def find(
    dataset: str, name: str, path: str | None = None, folders: Sequence[Path] = ()
) -> Path | None:
    """Look for a data set's file; None if it is nowhere.

    Parameters
    ----------
    dataset : str
        For messages.
    name : str
        File name.
    path : str, optional
        A file, or a folder that holds it, given by the user. A bare file name is
        looked up in the caches.
    folders : sequence of Path
        More places to look, before the caches.

    Raises
    ------
    FileNotFoundError
        If ``path`` names a place where the file is not.
    """
    if path is not None:
        given = Path(path).expanduser()
        if given.is_dir():
            given = given / name
        if given.exists():
            return given
        if given.name != str(path):  # more than a bare file name
            raise FileNotFoundError(f"{dataset}: there is no file {given}.")
        name = given.name
    for folder in [*folders, *search_folders()]:
        if (folder / name).exists():
            return folder / name
    return None


def fetch(
    dataset: str,
    name: str,
    sha256: str,
    path: str | None = None,
    origin: str = ORIGIN,
    folders: Sequence[Path] = (),
) -> Path:
    """Find a data set's file, or download it and check it.

    Parameters
    ----------
    dataset, name, path, folders
        As in ``find``.
    sha256 : str
        Digest that a downloaded file must have.
    origin : str
        Address of the folder that holds the file.

    Raises
    ------
    FileNotFoundError
        If the file is nowhere and can't be downloaded: says which file to put where.
    ValueError
        If the download has another digest; nothing is kept.
    """
    found = find(dataset, name, path, folders)
    if found is not None:
        return found
    target = cache_folder() / name
    try:
        with urllib.request.urlopen(origin + name, timeout=TIMEOUT) as answer:
            content = answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise FileNotFoundError(
            f"{dataset}: {name} is in none of "
            f"{', '.join(str(f) for f in [*folders, *search_folders()])}, and can't be "
            f"downloaded from {origin} ({error}). Without a network, fetch {origin}{name} "
            f"on another machine and put it at {target}, or give its place: "
            f"{dataset}.load_data(path=...)."
        ) from error
    got = hashlib.sha256(content).hexdigest()
    if got != sha256:
        raise ValueError(
            f"{dataset}: the download of {origin}{name} has the SHA-256 {got}; expected "
            f"{sha256}. It was not kept; try again, or fetch the file by other means."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        file.write(content)
    os.replace(file.name, target)  # ranks of one job may do this at the same time
    return target
