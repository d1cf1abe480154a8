"""Memory that the ranks of one node share, and sums through it.

A plan keeps the tensors that its ranks sum in one region (``plan.Place`` space
"exchange"). On Linux the region is a memory file, which the other ranks of the node map
as well, so that they add up each other's tensors where these lie, without messages:
``NodeSum``. Ranks that can't reach each other's memory (other nodes, containers that
hide processes) send messages over MPI instead; all ranks of a group decide alike.
"""

from __future__ import annotations

import mmap
import os
import secrets
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from uniflexflow._core.node_sum import DTYPES, MAX_TENSORS, RECORD_BYTES, SLOT_BYTES, Records

#: (process, number of the region in it, file descriptor in it, bytes)
Address = tuple[int, int, int, int]

_regions: weakref.WeakSet[SharedMemory] = weakref.WeakSet()
_count = 0


class SharedMemory:
    """Zeroed bytes that other processes of this user on this node can map.

    Attributes
    ----------
    array : ndarray of uint8
    name : str
        Unique on the node.
    address : tuple of int
        How others find it: (process, number, file descriptor, bytes).
    peers : dict
        For a group of ranks: what its other members have shown here.

    Raises
    ------
    OSError
        If the system has no memory files, or no memory.
    """

    def __init__(self, nbytes: int):
        global _count
        _count += 1
        self.name = f"uniflexflow-{secrets.token_hex(8)}"
        fd = os.memfd_create(self.name)
        weakref.finalize(self, os.close, fd)
        os.ftruncate(fd, nbytes)
        self.array = _mapped(fd, nbytes)
        self.start = self.array.ctypes.data
        self.address: Address = (os.getpid(), _count, fd, nbytes)
        self.peers: dict[Any, _Peers] = {}
        _regions.add(self)


def _mapped(fd: int, nbytes: int) -> np.ndarray:
    return np.frombuffer(mmap.mmap(fd, nbytes), np.uint8)


def _map_of(address: Address, name: str | None = None) -> np.ndarray:
    """Map another process's region; ``name`` makes sure that it is the one meant."""
    pid, _, fd, nbytes = address
    path = f"/proc/{pid}/fd/{fd}"
    if name is not None and name not in os.readlink(path):
        raise FileNotFoundError(f"node memory: {path} is not {name!r} of another rank")
    own = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return _mapped(own, nbytes)
    finally:
        os.close(own)


def _region_with(array: np.ndarray) -> SharedMemory | None:
    """Return the region in which an array lies."""
    at = array.ctypes.data
    for region in list(_regions):  # another thread may add one
        if 0 <= at - region.start < region.array.nbytes:
            return region
    return None


class _Peers:
    """The regions of a group's ranks, mapped, in the order of the ranks."""

    def __init__(self, size: int):
        self.addresses: list[Address | None] = [None] * size
        self.arrays: list[np.ndarray | None] = [None] * size
        self.bases = [0] * size

    def show(self, rank: int, address: Address, array: np.ndarray | None = None) -> None:
        self.arrays[rank] = None  # unmap before mapping
        self.arrays[rank] = _map_of(address) if array is None else array
        self.bases[rank] = self.arrays[rank].ctypes.data
        self.addresses[rank] = address


class NodeSum:
    """Sums over the ranks of a group that share a node's memory.

    Parameters
    ----------
    memory : ndarray of uint8
        The group's records, mapped by all its ranks.
    rank, size : int
    """

    def __init__(self, memory: np.ndarray, rank: int, size: int):
        self.records = Records(memory, rank, size)

    def try_allreduce(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], pack_below: int
    ) -> bool:
        """Sum each input over the ranks into its output; False if messages have to do it.

        Tensors of ``pack_below`` bytes or more must lie in a region, where they are summed
        in place. The answer depends on what is the same on all ranks.
        """
        if inputs[0].dtype not in DTYPES:
            return False
        large = [i for i, x in enumerate(inputs) if x.nbytes >= pack_below]
        if large:
            region = _region_with(inputs[large[0]])  # of all: they are of one plan
            if region is None:
                return False
            for start in range(0, len(large), MAX_TENSORS):
                some = large[start : start + MAX_TENSORS]
                self._sum_in_place(region, [inputs[i] for i in some], [outputs[i] for i in some])
        if len(large) < len(inputs):
            self._sum_copies(inputs, outputs, pack_below)
        return True

    def _sum_in_place(
        self, region: SharedMemory, inputs: list[np.ndarray], outputs: list[np.ndarray]
    ) -> None:
        records = self.records
        records.publish(region.address, region.start, inputs)
        records.meet()
        peers = region.peers.get(self)
        if peers is None:
            peers = region.peers[self] = _Peers(records.size)
        for rank, known in enumerate(peers.addresses):
            address = records.region(rank)
            if address != known:
                peers.show(rank, address, region.array if rank == records.rank else None)
        records.sum_in_place(inputs, peers.bases)
        records.meet()
        for x, y in zip(inputs, outputs):
            if x.ctypes.data != y.ctypes.data:
                y[...] = x

    def _sum_copies(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], pack_below: int
    ) -> None:
        some: list[int] = []
        room = SLOT_BYTES
        for i, x in enumerate(inputs):
            if x.nbytes >= pack_below:
                continue
            if x.nbytes > room:
                self.records.sum_copies([inputs[k] for k in some], [outputs[k] for k in some])
                some, room = [], SLOT_BYTES
            some.append(i)
            room -= x.nbytes
        self.records.sum_copies([inputs[k] for k in some], [outputs[k] for k in some])


def join(rank: int, size: int, gather: Callable[[Any], list[Any]]) -> NodeSum | None:
    """Make the NodeSum of a group, if all its ranks can map each other's memory.

    Every rank of the group must call it. ``gather`` returns every rank's Python object.
    ``UNIFLEXFLOW_NODE_MEMORY=off`` on any rank keeps the group with messages.
    """
    wanted = os.environ.get("UNIFLEXFLOW_NODE_MEMORY", "on")
    if wanted not in ("on", "off"):
        raise ValueError(f"UNIFLEXFLOW_NODE_MEMORY: received {wanted!r}; expected 'on' or 'off'.")
    own: SharedMemory | None = None
    if wanted == "on":
        try:
            own = SharedMemory(RECORD_BYTES * size if rank == 0 else 1)
        except (OSError, AttributeError):  # no memory files here: messages do the work
            own = None
    shown = gather(None if own is None else (own.address, own.name))
    arrays: list[np.ndarray] = []
    try:
        for other, entry in enumerate(shown):
            arrays.append(own.array if other == rank else _map_of(*entry))
    except (OSError, TypeError, AttributeError):  # not reachable, or a rank has nothing to show
        arrays = []
    if not all(gather(bool(arrays))):
        return None
    return NodeSum(arrays[0], rank, size)
