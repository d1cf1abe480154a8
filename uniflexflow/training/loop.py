"""The loops over batches, and the one place where a step is run.

A batch costs little more than its step: logs are made into numbers only when a callback
or the display asks for them.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from uniflexflow.ops.dtypes import epsilon, floatx
from uniflexflow.parallel import Split, batch_rows

_MAX_STEPS = 32


class Steps:
    """The steps of one traced function, by the key that a source gives its batches.

    Parameters
    ----------
    model : callable
        Gives the model, which owns the steps. If its layers, which of them are trainable,
        its optimizer or the schedule of the learning rate are no longer those of the last
        trace, everything is traced again.
    make : callable
        Gives the ``Function`` to trace.
    """

    def __init__(self, model: Callable[[], Any], make: Callable[[], Any]):
        self._model = model
        self._make = make
        self._function = make()
        self._layers: Any = None
        self._by_key: OrderedDict[Any, Any] = OrderedDict()
        self._source: Any = None
        self._alone: OrderedDict[Any, Any] = OrderedDict()
        #: held from ``get`` to the last look at the outputs, where threads may share a model
        self.lock = threading.RLock()

    def get(self, source: Any, key: Any) -> Any:
        """Return the step for a source's batches of that key; made if needed."""
        if source is not self._source:  # keys are the source's own
            self._source = source
            self._by_key.clear()
            if self._layers is not None and self._layers != self._look():
                self._function = self._make()
                self._layers = None
                self._alone.clear()
        step = self._by_key.get(key)
        if step is None:
            before = self._function.made
            step, _ = self._function.step(source.specs(key))
            if self._layers is None or self._function.made > before:
                self._layers = self._look()  # a trace may build layers
            self._by_key[key] = step
            if len(self._by_key) > _MAX_STEPS:
                self._by_key.popitem(last=False)
        return step

    # -- a batch that comes alone, as one array -----------------------------------------

    def alone(self, x: np.ndarray) -> Any:
        """Return the step for an array like one that was noted; None if none was.

        To look up a step by a source costs more than a small model's step.
        """
        found = self._alone.get(_key_alone(x))
        return found if found is not None and self._layers == self._look() else None

    def note_alone(self, x: np.ndarray, source: Any) -> None:
        """Note the step for arrays like ``x``, the only one of ``source`` and one batch."""
        with self.lock:
            step = self.get(source, source.first_key())
            if step.distributed is None:
                self._alone[_key_alone(x)] = step
                if len(self._alone) > _MAX_STEPS:
                    self._alone.popitem(last=False)

    def for_specs(self, specs: Any) -> Any:
        """Return the step for global shapes, given without a source."""
        return self._function.step(specs)[0]

    def _look(self) -> list[tuple[Any, Any]]:
        # the objects, not their numbers, which others get when these are gone
        model = self._model()
        optimizer = model.optimizer
        _, *inner = model._flatten_layers()
        return [
            (model.trainable, model._remat),
            *[(layer, (layer.trainable, layer._remat)) for layer in inner],
            (optimizer, getattr(optimizer, "schedule", None)),
        ]


def run_step(step: Any, feeds: list[np.ndarray]) -> Any:
    """Run a step on one batch; its outputs are good until the next step."""
    return step.run_views(feeds)


def _key_alone(x: np.ndarray) -> Any:
    return x.shape, x.dtype, floatx(), epsilon()


def flat_logs(logs: dict[str, Any]) -> dict[str, Any]:
    """Take dicts within logs apart."""
    flat: dict[str, Any] = {}
    for name, value in logs.items():
        if isinstance(value, dict):
            flat.update(flat_logs(value))
        else:
            flat[name] = value
    return flat


def logs_of(step: Any, outputs: Any) -> dict[str, Any]:
    """Return a step's outputs as logs: Python floats, and copies of arrays."""
    return {
        name: float(value) if np.ndim(value) == 0 else np.array(value)
        for name, value in step.traced.structure(outputs).items()
    }


class Batches:
    """Runs the steps of one pass, and calls whom it concerns.

    Parameters
    ----------
    model : Model
    kind : {"train", "test"}
    data : Epochs
    callbacks : CallbackList
    steps_per_execution : int
    interrupted : callable, optional
        ``interrupted(done)`` says after each batch whether to leave.
    show : bool
        Whether the progress display shows these batches.
    """

    def __init__(
        self,
        model: Any,
        kind: str,
        data: Any,
        callbacks: Any,
        steps_per_execution: int = 1,
        interrupted: Any = None,
        show: bool = True,
    ):
        self.model = model
        self.kind = kind
        self.data = data
        self.callbacks = callbacks
        self.group = steps_per_execution
        self.interrupted = interrupted
        self.progress = callbacks.progress if show else None
        self.steps = model._steps(kind)
        profiler = callbacks.profiler if kind == "train" else None
        self.run_step = run_step if profiler is None else profiler.run_step
        #: batches done, and the logs after the last one that somebody asked for
        self.done = 0
        self._last: Any = None

    def logs(self) -> dict[str, Any]:
        """Return the logs after the last batch."""
        return {} if self._last is None else logs_of(*self._last)

    def run(self, epoch: int, done: int = 0) -> bool:
        """Run the batches of an epoch from number ``done`` on.

        Returns
        -------
        bool
            Whether it was left because of an interruption.
        """
        self.done, self._last = done, None
        hooked = self.callbacks.wants_batches(self.kind)
        items = self.data.epoch(epoch, done)
        try:
            return self._run_hooked(items) if hooked else self._run_plain(items)
        finally:
            items.close()

    def _run_plain(self, items: Any) -> bool:
        source, steps, clock = self.data.source, self.steps, time.perf_counter
        run_step = self.run_step
        progress, interrupted = self.progress, self.interrupted
        due = float("inf") if progress is None else progress.due
        last_key = step = outputs = None
        done = self.done
        for _, key, feeds in items:
            if key != last_key:
                step, last_key = steps.get(source, key), key
            outputs = run_step(step, feeds)
            done += 1
            if clock() >= due:
                self.done, self._last = done, (step, outputs)
                self._show(self.logs())
                due = progress.due
            if interrupted is not None and interrupted(done):
                self.done, self._last = done, (step, outputs)
                return True
        self.done = done
        if step is not None:
            self._last = (step, outputs)
        return False

    def _run_hooked(self, items: Any) -> bool:
        source, steps, run_step = self.data.source, self.steps, self.run_step
        begin = getattr(self.callbacks, f"on_{self.kind}_batch_begin")
        end = getattr(self.callbacks, f"on_{self.kind}_batch_end")
        begun = False
        for _, key, feeds in items:
            if not begun:
                begin(self.done, logs={})
                begun = True
            step = steps.get(source, key)
            outputs = run_step(step, feeds)
            self._last = (step, outputs)
            self.done += 1
            if self.done % self.group == 0:
                begun = False
                logs = self.logs()
                end(self.done - 1, logs=logs)
                if self.progress is not None and time.perf_counter() >= self.progress.due:
                    self._show(logs)
                if self.kind == "train" and self.model.stop_training:
                    return False
            if self.interrupted is not None and self.interrupted(self.done):
                return True
        if begun:
            end(self.done - 1, logs=self.logs())
        return False

    def _show(self, logs: dict[str, Any]) -> None:
        getattr(self.progress, f"on_{self.kind}_batch_end")(self.done - 1, logs=logs)


def evaluate(
    model: Any,
    data: Any,
    callbacks: Any,
    steps_per_execution: int = 1,
    interrupted: Any = None,
    in_fit: bool = False,
) -> dict[str, Any] | None:
    """Evaluate a model on data; None if it was interrupted."""
    batches = Batches(
        model, "test", data, callbacks, steps_per_execution, interrupted, show=not in_fit
    )
    data.rewind()
    batches.steps.get(data.source, data.source.first_key())
    callbacks.on_test_begin()
    model.reset_metrics()
    if batches.run(0):
        return None
    if not batches.done:
        warnings.warn("evaluate: the data gave no batch: there are no results.", stacklevel=3)
    logs = batches.logs()
    if callbacks.progress is not None and not in_fit:
        callbacks.progress.seen = batches.done
    callbacks.on_test_end(logs=logs)
    return logs


def predict(model: Any, data: Any, callbacks: Any) -> Any:
    """Return a model's outputs for data, in the order of the samples, on every rank."""
    source = data.source
    steps, progress = model._steps("predict"), callbacks.progress
    with steps.lock:
        step = steps.get(source, source.first_key())
    hooked = callbacks.wants_batches("predict")
    parts: list[list[np.ndarray]] = []
    sizes: list[int] = []
    callbacks.on_predict_begin()
    for index, (n, key, feeds) in enumerate(data.epoch(0)):
        if hooked:
            callbacks.on_predict_batch_begin(index, logs={})
        with steps.lock:
            step = steps.get(source, key)
            outputs = [np.array(x) for x in run_step(step, feeds)]
        parts.append(_own_rows(step, outputs, n))
        sizes.append(n)
        if progress is not None:
            progress.seen = index + 1
            if time.perf_counter() >= progress.due:
                progress.on_predict_batch_end(index, logs={})
        if hooked:
            if step.distributed is not None:
                outputs = [step.distributed.gather(i, x) for i, x in enumerate(outputs)]
            logs = {"outputs": step.traced.structure(outputs)}
            callbacks.on_predict_batch_end(index, logs=logs)
    callbacks.on_predict_end()
    if not parts:
        raise ValueError("predict: the data gave no batch: there are no outputs.")
    whole = [a[0] if len(a) == 1 else np.concatenate(a) for a in zip(*parts)]
    if step.distributed is not None:
        whole = [_gather_rows(step.distributed, rows, sizes) for rows in whole]
    return step.traced.structure(whole)


def predict_alone(steps: Steps, x: np.ndarray) -> tuple[bool, Any]:
    """Return whether the outputs for an array were got at once, and the outputs."""
    with steps.lock:
        step = steps.alone(x)
        if step is None:
            return False, None
        dtype = step.graph.inputs[0].dtype
        outputs = step.run_views([x if x.dtype == dtype else x.astype(dtype)])
        return True, step.traced.structure([np.array(y) for y in outputs])


def _own_rows(step: Any, outputs: list[np.ndarray], n: int) -> list[np.ndarray]:
    """Return this rank's rows of a batch's outputs, of which some may be there whole."""
    for place, array in enumerate(outputs):
        if array.ndim == 0:
            raise ValueError(
                f"predict: output {place} is a scalar; expected tensors with a first axis of "
                "samples."
            )
    if step.distributed is None:
        return outputs
    comm = _ranks(step.distributed)
    lo, hi = batch_rows(n, comm.rank, comm.size)
    return [
        array if isinstance(layout, Split) else array[lo:hi]
        for array, layout in zip(outputs, step.distributed.output_layouts)
    ]


def _ranks(distributed: Any) -> Any:
    """Return the communicator of the ranks that share a batch."""
    return distributed.exchange.channels.axes[distributed.batch_axis]


def _gather_rows(distributed: Any, rows: np.ndarray, sizes: list[int]) -> np.ndarray:
    """Put together what each rank has of every batch, in the order of the samples."""
    comm = _ranks(distributed)
    gathered = comm.allgather(rows, what="predictions")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    places = []  # global row of each gathered one: rank by rank, batch by batch
    for rank in range(comm.size):
        for start, n in zip(starts, sizes):
            lo, hi = batch_rows(n, rank, comm.size)
            places.append(np.arange(start + lo, start + hi))
    out = np.empty_like(gathered)
    out[np.concatenate(places)] = gathered
    return out
