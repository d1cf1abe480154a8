"""What the launcher (mpiexec, srun) says about this process, from the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

# Each launcher's number of processes. SLURM_NTASKS alone is not one: a batch script
# that starts plain python has it too.
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
# These say that there is a launcher, not how many processes it started.
_RANKS = ("PMIX_RANK", "PMI_RANK", "PALS_RANKID", "ALPS_APP_PE")
_IDENTITY = ("PMIX_NAMESPACE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "PMI_FD", "SLURM_STEP_ID")
_MARK = "UNIFLEXFLOW_RANK_PROCESS"


def launched_size(env: Mapping[str, str] = os.environ) -> tuple[int, str]:
    """Return how many processes the launcher started, and the variable that says so.

    0 means that a launcher is there but gives no number, 1 that there is none.

    Examples
    --------
    >>> launched_size({"PMI_SIZE": "4"})
    (4, 'PMI_SIZE')
    >>> launched_size({})
    (1, '')
    """
    if "SLURM_STEP_ID" in env and "SLURM_STEP_NUM_TASKS" not in env and "SLURM_NTASKS" in env:
        return int(env["SLURM_NTASKS"]), "SLURM_NTASKS"
    for name in _SIZES:
        if env.get(name, "").isdigit():
            return int(env[name]), name
    for name in _RANKS:
        if name in env:
            return 0, name
    return 1, ""


def wants_mpi(env: Mapping[str, str] = os.environ) -> bool:
    """Say whether to start MPI: there is a launcher, or the user asks for it.

    ``UNIFLEXFLOW_MPI=1`` or ``0`` decides; so does a program that has imported mpi4py.

    Raises
    ------
    ValueError
        If ``UNIFLEXFLOW_MPI`` is anything else.
    """
    asked = env.get("UNIFLEXFLOW_MPI", "auto")
    if asked not in ("0", "1", "auto"):
        raise ValueError(f"UNIFLEXFLOW_MPI: received {asked!r}; expected 0, 1 or auto.")
    if asked != "auto":
        return asked == "1"
    if is_child_of_rank(env):
        return False
    return "mpi4py.MPI" in sys.modules or launched_size(env)[0] != 1


def _identity(env: Mapping[str, str]) -> str:
    return "/".join(env.get(name, "") for name in _IDENTITY)


def mark_rank_process() -> None:
    """Note in the environment that this process is the rank.

    A process that it starts (a data loader's worker, a subprocess) inherits the
    launcher's variables but is no rank, and must not join MPI.
    """
    os.environ[_MARK] = f"{os.getpid()}/{_identity(os.environ)}"


def is_child_of_rank(env: Mapping[str, str] = os.environ) -> bool:
    """Say whether the launcher's variables were inherited from the rank's process."""
    pid, _, identity = env.get(_MARK, "").partition("/")
    return bool(pid) and int(pid) != os.getpid() and identity == _identity(env)


def is_terminal(stream: Any) -> bool:
    """Say whether what is written to ``stream`` is seen on a terminal.

    Open MPI's launcher gives its processes a pseudo-terminal even if its own output goes to
    a file, so under a launcher its output is looked at too.
    """
    isatty = getattr(stream, "isatty", None)
    if isatty is None or not isatty():
        return False
    if not any(name in os.environ for name in (*_SIZES, *_RANKS)):
        return True
    try:
        target = os.readlink(f"/proc/{os.getppid()}/fd/1")
    except OSError:
        return False
    return target.startswith(("/dev/pts/", "/dev/tty"))
