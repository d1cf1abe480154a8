"""How many slave cores a process takes: all that are its own, none that another rank has."""

from __future__ import annotations

import os

from uniflexflow.machine.detect import usable_cores

# Set by a launcher for each process: how many ranks share its node.
_LOCAL_SIZE = (
    "MPI_LOCALNRANKS",  # MPICH, Intel MPI
    "OMPI_COMM_WORLD_LOCAL_SIZE",  # Open MPI
    "MV2_COMM_WORLD_LOCAL_SIZE",  # MVAPICH
    "PALS_LOCAL_SIZE",  # Cray
)


def _positive(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError(
            f"{name}: {text!r} is not a number of threads; expected an integer of at least 1."
        )
    return number


def ranks_on_node() -> int:
    """Ranks that share this process's node, as the launcher says; 1 without one."""
    for name in _LOCAL_SIZE:
        if os.environ.get(name, "").isdigit():
            return max(1, int(os.environ[name]))
    # Slurm: "4(x2),3": tasks per node; a node's own count isn't told, the first is the usual.
    # Outside srun (SLURM_PROCID unset) the process is the only one of its kind.
    tasks = os.environ.get("SLURM_STEP_TASKS_PER_NODE", "")
    if tasks and "SLURM_PROCID" in os.environ:
        first = tasks.split("(")[0].split(",")[0]
        if first.isdigit():
            return max(1, int(first))
    return 1


def num_threads() -> int:
    """Return the threads that a step uses.

    ``OMP_NUM_THREADS`` if it is set; else, under Slurm, ``SLURM_CPUS_PER_TASK``; else the
    cores that this process may use, divided by the ranks on its node. (A launcher may have
    bound each rank to cores of its own. Nothing tells a rank so; set ``OMP_NUM_THREADS``
    there. Too few threads are slow, too many are slower.)
    """
    text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if text:
        return _positive("OMP_NUM_THREADS", text)
    text = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if text and "SLURM_PROCID" in os.environ:
        return min(usable_cores(), _positive("SLURM_CPUS_PER_TASK", text))
    return max(1, usable_cores() // ranks_on_node())
