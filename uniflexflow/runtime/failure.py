"""A failure on one rank ends the job, within seconds and with one message.

An uncaught exception aborts all ranks after its traceback is printed. A rank that ends
early (``sys.exit`` before the others are done) tells the others how many collectives it
took part in; a watch thread on each rank ends the job if this rank waits for one more.
A rank that is killed is noticed by the launcher.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
import traceback
import warnings
from types import TracebackType
from typing import Any

import numpy as np

_POLL = 0.25  # seconds between two looks of the watch thread
_PATIENCE = 0.5  # a rank that waits longer than this at its end tells the others
_NO_WATCH_TIMEOUT = 60.0  # at the end, without a watch thread (no MPI threads)
_MAX_STREAMS = 64

log = logging.getLogger("uniflexflow")


class _Guard:
    """What one rank does about failures; ``channel`` is an MPI communicator of its own."""

    def __init__(self, comm: Any, channel: Any):
        self.comm = comm
        self.channel = channel
        self.pid = os.getpid()
        self.left: dict[int, np.ndarray] = {}
        self.stop = threading.Event()
        self.stall_after = float(os.environ.get("UNIFLEXFLOW_STALL_SECONDS", "120"))
        self._stalled: tuple[str, float] | None = None
        self.thread: threading.Thread | None = None
        if comm.threads:
            self.thread = threading.Thread(
                target=self._watch, name="uniflexflow-watch", daemon=True
            )
            self.thread.start()

    @property
    def prefix(self) -> str:
        return f"[rank {self.comm.rank}/{self.comm.size}]"

    def say(self, message: str) -> None:
        print(f"{self.prefix} {message}", file=sys.stderr, flush=True)

    # -- exceptions ----------------------------------------------------------------

    def exception(
        self,
        kind: type[BaseException],
        error: BaseException | None,
        trace: TracebackType | None,
        where: str,
    ) -> None:
        """Print a traceback and end all ranks."""
        if os.getpid() != self.pid:
            return
        # the same error on every rank is printed once: the lowest rank ends the others
        time.sleep(min(2.0, 0.5 + 0.1 * self.comm.rank) if self.comm.rank else 0.0)
        text = "".join(traceback.format_exception(kind, error, trace))
        self.say(f"{where} failed; all ranks end.\n{text.rstrip()}")
        self.abort()

    def abort(self) -> None:
        logging.shutdown()
        last_resort = threading.Timer(5.0, os._exit, (1,))  # should MPI itself be stuck
        last_resort.daemon = True
        last_resort.start()
        self.comm.abort(1)

    # -- ranks that leave early ----------------------------------------------------

    def _counts(self) -> np.ndarray:
        counts = np.zeros(_MAX_STREAMS, np.int64)
        for i, stream in enumerate(self.comm.streams[:_MAX_STREAMS]):
            counts[i] = stream.started
        return counts

    def _receive(self) -> None:
        while self.channel.Iprobe():
            counts = np.zeros(_MAX_STREAMS + 1, np.int64)
            self.channel.Recv(counts)
            self.left[int(counts[0])] = counts[1:]

    def _watch(self) -> None:
        while not self.stop.wait(_POLL):
            self._receive()
            for rank, counts in self.left.items():
                for stream, count in zip(self.comm.streams, counts):
                    if rank in stream.members and stream.started > count:
                        waiting = stream.waiting
                        self.say(
                            f"rank {rank} has ended, but this rank waits for it in "
                            f"{waiting[0].strip() if waiting else 'a collective'} "
                            f"({stream.name}); all ranks end. Every rank must run the same "
                            "steps: look for a sys.exit, return or break on one rank alone."
                        )
                        self.abort()
            self._warn_if_stalled()

    def _warn_if_stalled(self) -> None:
        for stream in self.comm.streams:
            waiting = stream.waiting
            if waiting is None or waiting == self._stalled:
                continue
            if time.monotonic() - waiting[1] > self.stall_after:
                self._stalled = waiting
                self.say(
                    f"has waited {self.stall_after:.0f} s for the other ranks in "
                    f"{waiting[0].strip()} ({stream.name}): one of them is slow, stopped, or "
                    "does something else. (UNIFLEXFLOW_STALL_SECONDS sets this limit.)"
                )

    def leave(self) -> None:
        """Wait at the end of the program until every rank is there."""
        if os.getpid() != self.pid:
            return
        if self.thread is not None:
            self.stop.set()
            self.thread.join()
        request = self.channel.Ibarrier()
        start = time.monotonic()
        sends: list[Any] = []
        while not request.Test():
            waited = time.monotonic() - start
            if waited > _PATIENCE and not sends:
                note = np.concatenate([[self.comm.rank], self._counts()])
                others = [r for r in range(self.comm.size) if r != self.comm.rank]
                sends = [self.channel.Isend(note, r) for r in others]
            if self.thread is None and waited > _NO_WATCH_TIMEOUT:
                self.say("has ended and the other ranks have not; all ranks end.")
                self.abort()
            self._receive()
            time.sleep(0.005 if waited < 1 else 0.05)
        self._receive()


def guard(comm: Any, channel: Any) -> None:
    """Put the hooks of this rank in place; called once, when MPI starts."""
    rank = _Guard(comm, channel)
    old_hook, old_thread_hook = sys.excepthook, threading.excepthook

    def excepthook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if os.getpid() != rank.pid:
            old_hook(kind, error, trace)
        rank.exception(kind, error, trace, "the program")

    def thread_excepthook(args: Any) -> None:
        if args.exc_type is SystemExit or os.getpid() != rank.pid:
            old_thread_hook(args)
            return
        name = args.thread.name if args.thread is not None else "?"
        rank.exception(args.exc_type, args.exc_value, args.exc_traceback, f"thread {name!r}")

    sys.excepthook = excepthook
    threading.excepthook = thread_excepthook
    atexit.register(rank.leave)
    _prefix_messages(rank.prefix, comm.rank)


def _prefix_messages(prefix: str, rank: int) -> None:
    """Name the rank in log records and warnings; tell routine news on rank 0 alone."""

    if rank != 0 and log.level == logging.NOTSET:
        log.setLevel(logging.WARNING)
    make_record = logging.getLogRecordFactory()

    def record_factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make_record(*args, **kwargs)
        if record.name.partition(".")[0] == log.name:
            record.msg = f"{prefix} {record.msg}"
        return record

    logging.setLogRecordFactory(record_factory)
    plain = warnings.formatwarning

    def formatwarning(*args: Any, **kwargs: Any) -> str:
        return f"{prefix} {plain(*args, **kwargs)}"

    warnings.formatwarning = formatwarning
