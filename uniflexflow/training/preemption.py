"""SIGTERM, a batch system's warning: all ranks leave at the same step."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from uniflexflow.parallel import world

# How long a warning may wait for the ranks to agree on it, in seconds.
_INTERVAL = 0.1


class Preemption:
    """Notes SIGTERM while it is entered.

    The first signal sets a flag, which ``agreed`` makes known to all ranks; a second
    one ends the process at once. A handler that the program has set itself stays.
    """

    def __init__(self) -> None:
        self.raised = False
        self._comm = world()
        self._previous: Any = None
        self._installed = False
        # over MPI, asking costs a message: it is done every so many batches
        self._countdown = 1
        self._every = 1
        self._passed = 0  # batches since the last time
        self._asked = time.perf_counter()

    def __enter__(self) -> Preemption:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            self._previous = signal.signal(signal.SIGTERM, self._note)
            self._installed = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._installed:
            signal.signal(signal.SIGTERM, self._previous)
            self._installed = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.raised:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        self.raised = True

    def agreed(self, done: int | None) -> bool:
        """Say whether to leave: the same on all ranks, which all call this.

        ``done`` is None where the answer must not wait for the next time to ask.
        """
        if self._comm.size == 1:
            return self.raised
        self._countdown -= 1
        self._passed += done is not None
        if self._countdown > 0 and done is not None:
            return False
        wish = self._every
        if self._passed:
            per_batch = max((time.perf_counter() - self._asked) / self._passed, 1e-6)
            # no more than ten times as rarely: a few batches may be faster than the rest
            wish = max(1, min(10 * self._every, int(_INTERVAL / per_batch)))
        # the largest of the flags, and the smallest of the wishes, in one message
        most = self._comm.allreduce(
            np.array([int(self.raised), -wish], np.int64), op="max", what="interruption"
        )
        self._every = self._countdown = int(-most[1])
        self._passed = 0
        self._asked = time.perf_counter()
        return bool(most[0])
