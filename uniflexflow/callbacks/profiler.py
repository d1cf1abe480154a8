"""Profiler: where the time of some training steps goes."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from uniflexflow.callbacks.callback import Callback
from uniflexflow.parallel import world
from uniflexflow.runtime.profile import Profile, Recorder, trace_file
from uniflexflow.saving.atomic import atomic_file, on_root
from uniflexflow.training.display import print_line


class Profiler(Callback):
    """Time each instruction of some training steps.

    When they are done, at the end of the epoch, rank 0 prints a table: time, GFLOP/s, GB/s
    and percent of the roofline by operation, by layer and for the slowest kernels, and the
    time between two steps. Roofline (Williams, Waterman, Patterson 2009): what a kernel
    would need if it computed at the measured peak of the cores in use, or moved its
    operands once at the measured bandwidth of memory, whichever takes longer.

    Parameters
    ----------
    steps : (int, int) or int
        The first and the last step, or the only one, counted from 1 over all epochs.
    filename : str or path, optional
        A file of Chrome's trace format (JSON) with every instruction, and the communication,
        of all ranks; chrome://tracing and Perfetto open it.
    verbose : int
        0: print nothing.

    Attributes
    ----------
    profile : Profile or None
        This rank's, once it is complete.

    Examples
    --------
    >>> import numpy as np, uniflexflow as uff
    >>> model = uff.Sequential([uff.Input((8,)), uff.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> profiler = uff.Profiler(steps=(3, 5), verbose=0)
    >>> _ = model.fit(np.ones((64, 8)), np.ones(64), batch_size=8, verbose=0, callbacks=profiler)
    >>> [step.number for step in profiler.profile.steps]
    [3, 4, 5]
    """

    def __init__(
        self, steps: tuple[int, int] | int = (10, 20), filename: Any = None, verbose: int = 1
    ):
        super().__init__()
        first, last = (steps, steps) if isinstance(steps, int) else tuple(steps)
        if not 1 <= first <= last:
            raise ValueError(
                f"Profiler: `steps` is {steps!r}; expected the first and the last step, counted "
                "from 1."
            )
        self.first, self.last = int(first), int(last)
        self.filename = None if filename is None else os.fspath(filename)
        self.verbose = verbose
        self.profile: Profile | None = None
        self._start()

    def _start(self) -> None:
        self.step = 0
        self._origin = 0.0
        self._recorder = Recorder()

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self.profile = None
        self._start()
        if self.filename is not None:
            folder = os.path.dirname(self.filename) or "."
            if not os.path.isdir(folder):
                raise FileNotFoundError(
                    f"Profiler: can't write {self.filename!r}: there is no directory {folder!r}. "
                    "Make it first, or write to another one."
                )

    def run_step(self, step: Any, feeds: Any) -> Any:
        """Run one training step; the loop calls this in place of the step itself."""
        self.step += 1
        if not self.first <= self.step <= self.last:
            return step.run_views(feeds)
        if not self._recorder.steps:
            world().barrier()  # the same moment on all ranks
            self._origin = time.perf_counter()
        return self._recorder.run(step, feeds, self.step)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self.step >= self.last:
            self._finish()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._finish()

    def _finish(self) -> None:
        if self.profile is not None:
            return
        comm, recorder = world(), self._recorder
        self.profile = Profile(recorder.steps, recorder.threads, comm.rank, comm.size, self._origin)
        if not recorder.steps:
            when = "before" if self.step < self.first else "and had resumed after"
            if self.verbose:
                print_line(
                    f"Profiler: training ended after {self.step} steps, {when} step "
                    f"{self.first if self.step < self.first else self.last}: nothing was timed."
                )
            return
        if self.filename is not None:
            every = comm.gather_objects(self.profile.events())
            on_root(lambda: self._write(trace_file(every)))
        if self.verbose and comm.rank == 0:
            print_line(self.profile.table())

    def _write(self, trace: dict[str, Any]) -> None:
        with atomic_file(os.path.abspath(str(self.filename)), "Profiler") as file:
            file.write(json.dumps(trace).encode())

    def get_state(self) -> dict[str, Any]:
        return {"step": self.step}

    def set_state(self, state: dict[str, Any]) -> None:
        self.step = state["step"]
