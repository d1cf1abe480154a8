"""``uff.distribution``: the ranks of this job, and how a model is spread over them."""

from uniflexflow.parallel import world
from uniflexflow.parallel.mesh import Mesh
from uniflexflow.parallel.strategy import DataParallel, Strategy

__all__ = ["DataParallel", "Mesh", "Strategy", "rank", "size"]


def rank() -> int:
    """Return this process's number among those of the job, from 0.

    Examples
    --------
    >>> rank()  # without mpiexec
    0
    """
    return world().rank


def size() -> int:
    """Return the number of processes of the job.

    Examples
    --------
    >>> size()  # without mpiexec
    1
    """
    return world().size
