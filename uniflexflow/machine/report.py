"""What this installation is and what it chose, for users and bug reports."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import TextIO

from uniflexflow.machine.blocks import source
from uniflexflow.machine.detect import host
from uniflexflow.machine.threads import num_threads, ranks_on_node

_PACKAGES = ("numpy", "h5py", "ml_dtypes", "mpi4py")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _kilo(number: int) -> str:
    return f"{number // 1024} KB" if number else "none"


def _mpi() -> str:
    """Say what MPI is in use; never load it: that would start it."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized():
        return "not started"
    library = mpi.Get_library_version().split("\n")[0].strip().rstrip("\x00")
    world = mpi.COMM_WORLD
    return f"{library}, rank {world.Get_rank()} of {world.Get_size()}"


def config() -> dict[str, str]:
    """Return what ``show_config`` prints, as a dictionary of strings."""
    import uniflexflow
    from uniflexflow._core import dispatch, winograd_plan

    kernels = dispatch.selected()
    machine = host()
    return {
        "uniflexflow": uniflexflow.__version__,
        "python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
        **{package: _version(package) for package in _PACKAGES},
        "processor": machine.name,
        "kernels": f"{kernels} ({dispatch.vector_bytes() * 8}-bit vectors)",
        "kernels available": ", ".join(dispatch.available()),
        "kernels built": ", ".join(dispatch.built()),
        "threads": f"{num_threads()} ({machine.cores} cores usable, {ranks_on_node()} ranks here)",
        "caches per core": f"L1 {_kilo(machine.l1d_bytes)}, L2 {_kilo(machine.l2_bytes)}, "
        f"L3 {_kilo(machine.l3_bytes)}",
        "scratchpad": _kilo(machine.scratch_bytes),
        "block sizes": source(kernels),
        "3 x 3 convolutions": winograd_plan.algorithm(),
        "MPI": _mpi(),
    }


def show_config(file: TextIO | None = None) -> None:
    """Print versions, the instruction set in use, threads, caches and MPI.

    Parameters
    ----------
    file : text stream, optional
        Where to print; standard output if not given.

    Examples
    --------
    >>> import uniflexflow as uff
    >>> uff.show_config()  # doctest: +ELLIPSIS
    uniflexflow ...
    """
    rows = config()
    width = max(map(len, rows))
    for key, value in rows.items():
        print(f"{key:<{width}}  {value}", file=file)
