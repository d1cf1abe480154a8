"""Files that are whole or absent, whatever happens while they are written.

A file is written beside its place, brought to the disk, and renamed into it. Under MPI
rank 0 writes, and every rank learns how it went.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from uniflexflow.parallel import world

#: What temporary files end in; their names also hold the process's number.
TEMPORARY = ".partial"


def _temporary(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{os.getpid()}{TEMPORARY}")


def remove_leftovers(folder: str, prefix: str) -> None:
    """Remove what processes that were killed while writing left behind.

    ``prefix`` is what the names of the files that they wrote began with.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(folder or "."):
            if name.startswith(f".{prefix}") and name.endswith(TEMPORARY):
                with contextlib.suppress(OSError):
                    os.remove(os.path.join(folder, name))


def sync_folder(folder: str) -> None:
    """Bring a folder's list of names to the disk, where the file system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _explain(where: str, path: str, error: OSError) -> OSError:
    folder = os.path.dirname(path) or "."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = "unknown"
        with contextlib.suppress(OSError):
            free = f"{shutil.disk_usage(folder).free:,} bytes"
        return OSError(
            error.errno,
            f"{where}: can't write {path!r}: no space left on the device or in the quota "
            f"({free} free in {folder!r}); what was there before is untouched. Free some "
            "space, or write to another directory",
        )
    reason = error.strerror or str(error)
    return OSError(
        error.errno,
        f"{where}: can't write {path!r}: {reason}; what was there before is untouched",
    )


@contextlib.contextmanager
def atomic_file(path: str, where: str, keep_as: str | None = None) -> Iterator[BinaryIO]:
    """Open a file for writing that takes its place when the block ends well.

    Parameters
    ----------
    path : str
    where : str
        What errors begin with.
    keep_as : str, optional
        The name under which the file that is replaced stays.

    Raises
    ------
    OSError
        If the file can't be written; the old one is untouched then.
    """
    temporary = _temporary(path)
    try:
        folder, name = os.path.split(path)
        remove_leftovers(folder, f"{name}.")
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if keep_as is not None and os.path.exists(path):
            _keep(path, keep_as)
        os.replace(temporary, path)
        sync_folder(os.path.dirname(path))
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        if isinstance(error, OSError):
            raise _explain(where, path, error) from error
        raise


def _keep(path: str, keep_as: str) -> None:
    """Give a file a second name, so that there is one at every moment."""
    other = _temporary(keep_as)
    with contextlib.suppress(FileNotFoundError):
        os.remove(other)
    try:
        os.link(path, other)
    except OSError:  # a file system without hard links: for a moment only the kept one is there
        os.replace(path, keep_as)
        return
    try:
        os.replace(other, keep_as)
    except BaseException:
        os.remove(other)
        raise


def on_root(action: Callable[[], Any]) -> Any:
    """Run ``action`` on rank 0; return its result, or raise its error, on every rank."""
    comm = world()
    if comm.size == 1:
        return action()
    result, error = None, None
    if comm.rank == 0:
        try:
            result = action()
        except Exception as caught:
            error = caught
    report = None
    if error is not None:
        kind = next(k for k in (OSError, ValueError, TypeError, Exception) if isinstance(error, k))
        report = (kind.__name__, getattr(error, "errno", None), str(error))
    report, result = comm.bcast((report, result))
    if error is not None:
        raise error
    if report is not None:
        raise _rebuilt(*report)
    return result


def _rebuilt(kind: str, number: int | None, message: str) -> Exception:
    if kind == "OSError":
        return OSError(number, f"rank 0: {message}")
    classes: dict[str, type[Exception]] = {"ValueError": ValueError, "TypeError": TypeError}
    return classes.get(kind, RuntimeError)(f"rank 0: {message}")
