"""Communicators: the only file that imports mpi4py, and only when it is needed.

``world()`` gives the communicator of all processes: one over MPI under a launcher, else
a serial one with the same face. Arrays travel as buffers; Python objects (``bcast``)
only at set-up. Concurrent streams of messages (gradients, metrics, control) each have a
communicator of their own, made by ``dup`` on the main thread: two threads must not run
collectives on one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from uniflexflow._core.bfloat16 import expand, round_to
from uniflexflow.runtime import launch
from uniflexflow.runtime.node_memory import NodeSum, join

#: Elements in one message; MPI counts are 32-bit integers in many libraries.
MAX_COUNT = 1 << 30

_INSTALL = (
    "install MPI with `pip install 'uniflexflow[mpich]'` (complete, from pip) or "
    "`pip install 'uniflexflow[mpi]'` (uses the site's MPI), and start the program with "
    "the mpiexec of that same MPI"
)


class SerialCommunicator:
    """The communicator of one process: every collective returns what it is given."""

    rank = 0
    size = 1
    local_rank = 0
    local_size = 1
    threads = True
    node_sum: NodeSum | None = None

    def __init__(self, name: str = "world"):
        self.name = name

    def dup(self, name: str) -> SerialCommunicator:
        """Return a communicator of the same ranks for another stream of messages."""
        return SerialCommunicator(name)

    def split(self, color: int, key: int, name: str) -> SerialCommunicator:
        """Return a communicator of the ranks that give the same ``color``."""
        return SerialCommunicator(name)

    def allreduce(
        self, array: Any, op: str = "sum", out: np.ndarray | None = None, what: str = ""
    ) -> np.ndarray:
        """Combine arrays of one shape over all ranks; see ``Communicator.allreduce``."""
        _check_op(op)
        array = np.asarray(array)
        if out is None:
            return array.copy()
        if out is not array:
            out[...] = array
        return out

    def allreduce_rounded(self, array: np.ndarray, what: str = "") -> np.ndarray:
        """Sum a float32 array over all ranks, in place, with messages of bfloat16.

        See ``Communicator.allreduce_rounded``.
        """
        return array

    def join_node(self) -> None:
        """Let the ranks sum through their node's memory from now on, if all can reach it."""

    def allreduce_in_node(
        self,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        pack_below: int,
        what: str = "",
    ) -> bool:
        """Sum tensors without messages if that is possible; see ``NodeSum.try_allreduce``."""
        return False

    def allgather(
        self, array: Any, what: str = "", rows: Sequence[int] | None = None
    ) -> np.ndarray:
        """Join the rows of all ranks along axis 0; see ``Communicator.allgather``."""
        return np.array(array)

    def bcast(self, value: Any, root: int = 0) -> Any:
        """Return the value of rank ``root``; arrays are filled in place."""
        return value

    def gather_objects(self, value: Any) -> list[Any]:
        """Return every rank's Python object, on every rank; for set-up only."""
        return [value]

    def barrier(self) -> None:
        """Wait until every rank has come here."""

    def abort(self, code: int = 1) -> None:
        """End all ranks at once."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} rank {self.rank} of {self.size}>"


class Communicator(SerialCommunicator):
    """Ranks that talk over MPI.

    Attributes
    ----------
    rank, size : int
    members : tuple of int
        The ranks' numbers in the world.
    local_rank, local_size : int
        Among the ranks on the same node (that share its memory).
    threads : bool
        Whether several threads may communicate at once, each on its own communicator.
    started : int
        Collectives begun so far.
    waiting : (str, float) or None
        What the collective under way is, and since when.
    node_sum : NodeSum or None
        How tensors are summed without messages, after ``join_node``.
    """

    def __init__(
        self,
        mpi: Any,
        name: str,
        members: tuple[int, ...],
        local: tuple[int, int],
        streams: list[Communicator],
    ):
        from mpi4py import MPI

        self.name = name
        self.mpi = mpi
        self.rank = mpi.Get_rank()
        self.size = mpi.Get_size()
        self.members = members
        self.local_rank, self.local_size = local
        self.threads = MPI.Query_thread() == MPI.THREAD_MULTIPLE
        self.started = 0
        self.waiting: tuple[str, float] | None = None
        self.streams = streams
        self._MPI = MPI
        self._ops = {"sum": MPI.SUM, "max": MPI.MAX, "min": MPI.MIN}
        streams.append(self)

    def _part(self, mpi: Any, name: str, members: tuple[int, ...]) -> Communicator:
        return Communicator(mpi, name, members, (self.local_rank, self.local_size), self.streams)

    def dup(self, name: str) -> Communicator:
        return self._part(self.mpi.Dup(), name, self.members)

    def split(self, color: int, key: int, name: str) -> Communicator:
        mpi = self.mpi.Split(color, key)
        return self._part(mpi, name, tuple(mpi.allgather(self.members[self.rank])))

    def _begin(self, what: str) -> None:
        self.started += 1
        self.waiting = (what, time.monotonic())

    def allreduce(
        self, array: Any, op: str = "sum", out: np.ndarray | None = None, what: str = ""
    ) -> np.ndarray:
        """Combine arrays of one shape over all ranks; every rank gets the result.

        Parameters
        ----------
        array : array_like
        op : {"sum", "max", "min"}
        out : ndarray, optional
            Where to put the result, C-contiguous; may be ``array`` itself. A new array
            by default.
        what : str
            Named in messages when the ranks wait too long or never meet.

        Returns
        -------
        ndarray
        """
        _check_op(op)
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        if out is None:
            out = np.empty(array.shape, array.dtype)
        if out.dtype != array.dtype or out.size != array.size or not out.flags.c_contiguous:
            raise ValueError(
                f"allreduce: `out` is {out.dtype}{list(out.shape)}; expected a C-contiguous "
                f"{array.dtype}{list(array.shape)}."
            )
        send, recv = array.reshape(-1), out.reshape(-1)
        if array.dtype == np.bool_:
            send, recv = send.view(np.uint8), recv.view(np.uint8)
            op = {"sum": "max"}.get(op, op)  # a sum of truths is "any of them"
        self._begin(f"allreduce {what}")
        for start in range(0, send.size, MAX_COUNT):
            part, into = send[start : start + MAX_COUNT], recv[start : start + MAX_COUNT]
            same = part.ctypes.data == into.ctypes.data
            self.mpi.Allreduce(self._MPI.IN_PLACE if same else part, into, self._ops[op])
        self.waiting = None
        return out

    def allreduce_rounded(self, array: np.ndarray, what: str = "") -> np.ndarray:
        """Sum a float32 array over all ranks, in place, with messages of bfloat16.

        Half the bytes of ``allreduce``. Each rank adds up one share of the elements in
        float32, its own numbers exactly and the others' rounded to 8 bits, in the order of
        the ranks; the sum is rounded once more. All ranks get the same.

        Parameters
        ----------
        array : ndarray of float32, C-contiguous
        what : str

        Returns
        -------
        ndarray
            ``array``.
        """
        flat = array.reshape(-1)
        if array.dtype != np.float32 or not array.flags.c_contiguous:
            raise ValueError(
                f"allreduce_rounded: received {array.dtype}{list(array.shape)}; expected a "
                "C-contiguous array of float32."
            )
        self._begin(f"allreduce {what}")
        for start in range(0, flat.size, MAX_COUNT):
            self._sum_rounded(flat[start : start + MAX_COUNT])
        self.waiting = None
        return array

    def _sum_rounded(self, flat: np.ndarray) -> None:
        kind = self._MPI.UINT16_T
        cuts = [flat.size * r // self.size for r in range(self.size + 1)]
        counts = [high - low for low, high in zip(cuts, cuts[1:])]
        rounded = np.empty(flat.size, np.uint16)
        round_to(flat, rounded)
        low, high = cuts[self.rank], cuts[self.rank + 1]
        share = np.empty((self.size, high - low), np.uint16)
        self.mpi.Alltoallv(
            [rounded, (counts, cuts[:-1]), kind],
            [share, ([high - low] * self.size, [r * (high - low) for r in range(self.size)]), kind],
        )
        mine = flat[low:high]
        total = np.zeros(high - low, np.float32)
        for rank in range(self.size):
            if rank == self.rank:
                total += mine
            else:
                expand(share[rank], total, add=True)
        own = np.empty(high - low, np.uint16)
        round_to(total, own)
        self.mpi.Allgatherv([own, kind], [rounded, (counts, cuts[:-1]), kind])
        expand(rounded, flat)

    def join_node(self) -> None:
        self.node_sum = join(self.rank, self.size, self.gather_objects)

    def allreduce_in_node(
        self,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        pack_below: int,
        what: str = "",
    ) -> bool:
        if self.node_sum is None:
            return False
        self._begin(f"allreduce {what}")
        done = self.node_sum.try_allreduce(inputs, outputs, pack_below)
        self.waiting = None
        return done

    def allgather(
        self, array: Any, what: str = "", rows: Sequence[int] | None = None
    ) -> np.ndarray:
        """Join the rows of all ranks along axis 0, in the order of the ranks.

        The numbers of rows may differ and may be 0; the other axes must agree. ``rows``
        has every rank's number, where it is known; else the ranks tell each other.
        """
        array = np.ascontiguousarray(array)
        self._begin(f"allgather {what}")
        lengths = np.empty(self.size, np.int64)
        if rows is None:
            self.mpi.Allgather(np.array([array.shape[0]], np.int64), lengths)
        else:
            lengths[:] = rows
        out = np.empty((int(lengths.sum()), *array.shape[1:]), array.dtype)
        counts = lengths * int(np.prod(array.shape[1:], dtype=np.int64)) * array.itemsize
        starts = np.concatenate([[0], np.cumsum(counts)])
        flat = out.reshape(-1).view(np.uint8)
        mine = array.reshape(-1).view(np.uint8)
        if starts[-1] <= MAX_COUNT:
            spec = [flat, (counts.tolist(), starts[:-1].tolist()), self._MPI.BYTE]
            self.mpi.Allgatherv([mine, self._MPI.BYTE], spec)
        else:
            for root in range(self.size):
                part = flat[starts[root] : starts[root + 1]]
                if root == self.rank:
                    part[...] = mine
                self._bcast_bytes(part, root)
        self.waiting = None
        return out

    def bcast(self, value: Any, root: int = 0) -> Any:
        """Return the value of rank ``root`` on every rank.

        A C-contiguous array is filled in place; any other object is pickled, which is
        for set-up only.
        """
        self._begin("bcast")
        if isinstance(value, np.ndarray):
            if not value.flags.c_contiguous:
                raise ValueError("bcast: the array must be C-contiguous.")
            self._bcast_bytes(value.reshape(-1).view(np.uint8), root)
        else:
            value = self.mpi.bcast(value, root=root)
        self.waiting = None
        return value

    def _bcast_bytes(self, flat: np.ndarray, root: int) -> None:
        for start in range(0, flat.size, MAX_COUNT):
            self.mpi.Bcast([flat[start : start + MAX_COUNT], self._MPI.BYTE], root=root)

    def gather_objects(self, value: Any) -> list[Any]:
        self._begin("gather_objects")
        values = self.mpi.allgather(value)
        self.waiting = None
        return values

    def barrier(self) -> None:
        self._begin("barrier")
        self.mpi.Barrier()
        self.waiting = None

    def abort(self, code: int = 1) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self.mpi.Abort(code)


def _check_op(op: str) -> None:
    if op not in ("sum", "max", "min"):
        raise ValueError(f"allreduce: op is {op!r}; expected 'sum', 'max' or 'min'.")


_world: SerialCommunicator | None = None


def world() -> SerialCommunicator:
    """Return the communicator of all processes of this job, started at the first call.

    Raises
    ------
    RuntimeError
        If a launcher started several processes but they can't talk to each other.
    """
    global _world
    if _world is None:
        _world = _start() if launch.wants_mpi() else SerialCommunicator()
    return _world


def _start() -> SerialCommunicator:
    size, variable = launch.launched_size()
    started = f"{variable}={os.environ.get(variable)}"
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(
            f"MPI: the launcher started several processes ({started}), but mpi4py can't be "
            f"used here ({error}), so each process would train alone; {_INSTALL}."
        ) from error
    if MPI.COMM_WORLD.Get_size() == 1:
        if size > 1:
            library = MPI.Get_library_version().split("\n")[0].strip()
            raise RuntimeError(
                f"MPI: the launcher started {size} processes ({started}), but the MPI library "
                f"that mpi4py uses ({library}) sees only this one: the launcher belongs to "
                f"another MPI. With srun, choose its PMI plug-in (`srun --mpi=list`); else "
                f"{_INSTALL}; or set UNIFLEXFLOW_MPI=0 for {size} separate programs."
            )
        return SerialCommunicator()
    from uniflexflow.runtime import failure

    near = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    local = near.Get_rank(), near.Get_size()
    near.Free()
    mpi = MPI.COMM_WORLD.Dup()
    comm = Communicator(mpi, "world", tuple(range(mpi.Get_size())), local, [])
    launch.mark_rank_process()
    os.register_at_fork(after_in_child=_forget)
    failure.guard(comm, MPI.COMM_WORLD.Dup())
    return comm


def _forget() -> None:
    """Make a forked child a process of its own: it must not touch its parent's MPI."""
    global _world
    _world = SerialCommunicator()
