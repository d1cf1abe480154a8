"""Running the communication of a plan over MPI, at once or beside the computation.

A plan calls ``Exchange.run`` for each collective instruction. ``allreduce_wait`` does the
sum itself, or, with overlap on, a communication thread has been doing it since
``allreduce_start``. MPI libraries poll while they wait, so that thread takes a core: it
pays over a slow network, where messages take long. Whether it does is measured:
``UNIFLEXFLOW_OVERLAP=auto`` runs a few steps of each kind and keeps the faster, the same
on all ranks. Ranks that share a node's memory (``runtime.node_memory``) send nothing: for
them auto is off.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from uniflexflow.ir import Node
from uniflexflow.parallel.layout import PARTIAL, Split
from uniflexflow.parallel.reshard import ALLREDUCE_START, ALLREDUCE_WAIT, RESHARD
from uniflexflow.runtime.comm import SerialCommunicator

Arrays = Sequence[np.ndarray]

#: Tensors of fewer bytes are copied into one message; a larger one is a message of its
#: own, as copying it would take longer than another message does.
PACK_BELOW = 1 << 16


def allreduce(
    inputs: Arrays,
    outputs: Arrays,
    comm: SerialCommunicator,
    what: str = "",
    rounded: Sequence[bool] = (),
) -> None:
    """Sum each input over all ranks into its output, which may be the same memory.

    Large float32 tensors that have to be sent are sent as bfloat16 where ``rounded`` says so.
    """
    if comm.allreduce_in_node(inputs, outputs, PACK_BELOW, what):
        return
    small = [(x, y) for x, y in zip(inputs, outputs) if x.nbytes < PACK_BELOW]
    for x, y, round_it in zip(inputs, outputs, rounded or [False] * len(inputs)):
        if x.nbytes >= PACK_BELOW and round_it and x.dtype == np.float32:
            if x.ctypes.data != y.ctypes.data:
                y[...] = x
            comm.allreduce_rounded(y, what)
        elif x.nbytes >= PACK_BELOW:
            comm.allreduce(x, out=y, what=what)
    if len(small) == 1:
        comm.allreduce(small[0][0], out=small[0][1], what=what)
    elif small:
        flat = np.concatenate([x.reshape(-1) for x, _ in small])
        comm.allreduce(flat, out=flat, what=what)
        start = 0
        for x, y in small:
            y[...] = flat[start : start + x.size].reshape(y.shape)
            start += x.size


def reshard(node: Node, x: np.ndarray, out: np.ndarray, comm: SerialCommunicator) -> None:
    """Run one ``reshard`` node."""
    source = node.attrs["source"]
    if source == PARTIAL:
        comm.allreduce(x, out=out, what=node.scope)
    elif isinstance(source, Split):
        out[...] = gather(x, source, out.shape, comm, node.scope)
    else:
        raise TypeError(f"collectives: {node!r} has the source {source}, which needs no message.")


def gather(
    x: np.ndarray,
    layout: Split,
    shape: tuple[int, ...],
    comm: SerialCommunicator,
    what: str = "",
) -> np.ndarray:
    """Join the ranks' pieces of a split tensor of the given global shape."""
    counts = []
    for rank in range(comm.size):
        low, high = layout.bounds(shape, rank, comm.size)
        counts.append(high - low)
    rows = comm.allgather(np.moveaxis(x, layout.axis, 0), what=what, rows=counts)
    return np.moveaxis(rows, 0, layout.axis)


class _Thread:
    """A thread that does one sum after the other, on a communicator of its own."""

    def __init__(self, comm: SerialCommunicator):
        self.comm = comm
        self.jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, name="uniflexflow-exchange", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while (job := self.jobs.get()) is not None:
            arrays, what, rounded, done = job
            error: BaseException | None = None
            try:
                allreduce(arrays, arrays, self.comm, what, rounded)
            except BaseException as caught:
                error = caught
            done.put(error)

    def start(self, arrays: Arrays, what: str, rounded: Sequence[bool]) -> queue.SimpleQueue[Any]:
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.jobs.put((arrays, what, rounded, done))
        return done

    def stop(self) -> None:
        self.jobs.put(None)
        self.thread.join(timeout=5)  # not for ever: other ranks may have failed


class Channels:
    """The communicators of a mesh as one rank sees it; made once, on all ranks together.

    Parameters
    ----------
    comm : SerialCommunicator
        All ranks of the mesh.
    lines : mapping of str to (int, int)
        Mesh axis -> (number of this rank's line along it, place on the line).
    """

    def __init__(self, comm: SerialCommunicator, lines: Mapping[str, tuple[int, int]]):
        self.comm = comm
        whole = len(lines) == 1
        self.axes = {
            name: comm.dup(name) if whole else comm.split(line, place, name)
            for name, (line, place) in lines.items()
        }
        self._beside = {name: axis.dup(f"{name} overlap") for name, axis in self.axes.items()}
        for axis in self.axes.values():
            axis.join_node()
        self._threads: dict[str, _Thread] = {}

    @property
    def in_node(self) -> bool:
        """Whether all sums go through a node's memory, without messages."""
        return all(axis.node_sum is not None for axis in self.axes.values())

    def thread(self, axis: str) -> _Thread:
        """Return the communication thread of a mesh axis, started when first used."""
        if axis not in self._threads:
            self._beside[axis].join_node()
            self._threads[axis] = _Thread(self._beside[axis])
            atexit.register(self._threads[axis].stop)  # before the ranks part
        return self._threads[axis]


class Exchange:
    """The communication of one plan.

    Parameters
    ----------
    channels : Channels
    overlap : {"auto", "on", "off"}, optional
        Default: the environment's ``UNIFLEXFLOW_OVERLAP``, or "auto".
    rounded : bool
        Whether large float32 sums that only updates need are sent as bfloat16.

    Attributes
    ----------
    overlap : bool
        Whether sums run beside the computation in the present step.
    """

    def __init__(self, channels: Channels, overlap: str | None = None, rounded: bool = False):
        self.channels = channels
        self.rounded = rounded
        policy = overlap or os.environ.get("UNIFLEXFLOW_OVERLAP", "auto")
        if policy not in ("auto", "on", "off"):
            raise ValueError(f"UNIFLEXFLOW_OVERLAP: received {policy!r}; expected auto, on or off.")
        if not channels.comm.threads:
            if policy == "on":
                raise RuntimeError(
                    "UNIFLEXFLOW_OVERLAP=on: this MPI does not let several threads communicate "
                    "(MPI_THREAD_MULTIPLE); set it to off or auto, or use another MPI."
                )
            policy = "off"
        if policy == "auto" and channels.in_node:
            policy = "off"  # nothing travels that could be hidden: the cores themselves add
        self.trial = _Trial(channels.comm) if policy == "auto" else None
        self.overlap = policy == "on"
        self._under_way: dict[int, tuple[queue.SimpleQueue[Any], Arrays]] = {}

    def begin_step(self) -> None:
        """Say that a step starts; needed once before the first ``run`` of each step."""
        if self.trial is not None:
            self.overlap = self.trial.next()
            if self.trial.decided:
                self.trial = None

    def run(self, node: Node, inputs: Arrays, outputs: Arrays) -> None:
        """Run one collective node of the plan, from ``inputs`` to ``outputs``."""
        if node.op is RESHARD:
            comm = self.channels.axes[node.attrs["axis"].name]
            reshard(node, inputs[0], outputs[0], comm)
        elif node.op is ALLREDUCE_START:
            if self.overlap:
                thread = self.channels.thread(node.attrs["axis"].name)
                done = thread.start(inputs, node.scope, self._rounded(node))
                self._under_way[node.id] = done, inputs
        elif node.op is ALLREDUCE_WAIT:
            self._wait(node, inputs[1:], outputs)
        else:
            raise TypeError(f"collectives: {node!r} does not communicate.")

    def _rounded(self, node: Node) -> Sequence[bool]:
        return node.attrs.get("updates", ()) if self.rounded else ()

    def _wait(self, node: Node, inputs: Arrays, outputs: Arrays) -> None:
        job = self._under_way.pop(node.inputs[0].node.id, None)
        if job is None:
            comm = self.channels.axes[node.attrs["axis"].name]
            allreduce(inputs, outputs, comm, node.scope, self._rounded(node))
            return
        done, summed = job
        error = done.get()
        if error is not None:
            raise error
        for x, y in zip(summed, outputs):
            if x.ctypes.data != y.ctypes.data:
                y[...] = x


class _Trial:
    """Chooses between overlap on and off by timing steps of both, alternately.

    Steps are timed from start to start, so that what follows the exchange counts too. The
    fastest step of each kind counts: noise only ever adds. The slowest rank's is taken.
    """

    WARM_UP = 2
    ROUNDS = 4

    def __init__(self, comm: SerialCommunicator):
        self.comm = comm
        self.steps = 0
        self.decided = False
        self.mode = False
        self.start: float | None = None
        self.times: dict[bool, list[float]] = {False: [], True: []}

    def next(self) -> bool:
        """Return the mode of the step that starts now."""
        now = time.perf_counter()
        if self.start is not None and self.steps > 2 * self.WARM_UP:
            self.times[self.mode].append(now - self.start)
        self.start = now
        self.steps += 1
        if len(self.times[True]) >= self.ROUNDS:
            best = np.array([min(self.times[False]), min(self.times[True])])
            off, on = self.comm.allreduce(best, "max", what="choice of overlap")
            self.decided = True
            self.mode = bool(on < off)
        else:
            self.mode = self.steps % 2 == 0
        return self.mode
