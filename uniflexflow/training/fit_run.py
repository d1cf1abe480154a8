"""FitRun: one call of ``fit``: where it stands, how to leave it and how to come back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container
from typing import Any

import numpy as np

from uniflexflow.training import loop
from uniflexflow.training.display import print_line
from uniflexflow.training.preemption import Preemption


class FitRun:
    """The epochs of one ``fit``.

    Attributes
    ----------
    epoch : int
        The next epoch to be done, or the one under way.
    batch : int
        How many of its batches are done.
    interrupted : bool
        Whether it ended because the process was told to (SIGTERM).
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        validation: Any,
        callbacks: Any,
        *,
        initial_epoch: int,
        epochs: int,
        validation_freq: Any = 1,
        steps_per_execution: int = 1,
    ):
        if not isinstance(validation_freq, (int, Container)) or validation_freq == 0:
            raise ValueError(
                "Expected `validation_freq` to be a positive int or a list of ints; received "
                f"{validation_freq!r}."
            )
        self.model = model
        self.data = data
        self.validation = validation
        self.callbacks = callbacks
        self.epoch = initial_epoch
        self.epochs = epochs
        self.batch = 0
        self.interrupted = False
        self._validation_freq = validation_freq
        self._group = steps_per_execution
        self._logs: dict[str, Any] = {}  # of the epoch under way, when it is left and resumed
        self._epoch_logs: dict[str, Any] = {}  # of the last whole epoch
        self._batches: loop.Batches | None = None
        self._step_variables: tuple[Any, ...] | None = None
        self._within = False  # the batches of an epoch
        self._load: Callable[[], dict[str, Any]] | None = None

    # -- the run -----------------------------------------------------------------------

    def run(self) -> None:
        """Train until the last epoch, or until somebody stops it."""
        model, callbacks = self.model, self.callbacks
        model.stop_training = model.interrupted = False
        if self.epoch < self.epochs:
            # traced first: it makes all variables, and tells what is wrong
            self._variables_of_step()
        with Preemption() as preemption:
            self._preemption = preemption
            self._batches = loop.Batches(
                model, "train", self.data, callbacks, self._group, preemption.agreed
            )
            callbacks.on_train_begin()
            if self._load is not None:
                self._restore(self._load())
            while self.epoch < self.epochs and not model.stop_training:
                if not self._run_epoch():
                    break
            optimizer = model.optimizer
            if not self.interrupted and getattr(optimizer, "use_ema", False) and optimizer.built:
                optimizer.finalize_variable_values(model.trainable_variables)
            callbacks.on_train_end(logs=self._epoch_logs)

    def _run_epoch(self) -> bool:
        """Do one epoch, or the rest of it; return whether to go on."""
        model, callbacks, batches, epoch = self.model, self.callbacks, self._batches, self.epoch
        model.reset_metrics()
        callbacks.on_epoch_begin(epoch)
        if self.batch and self._load is not None:
            # what the hooks did at this epoch's begin was done before it was left, too
            self._restore(self._load())
        self._load = None
        self._within = True
        left = batches.run(epoch, self.batch)
        self._within = False
        if batches.done > self.batch:
            self._logs = batches.logs()
        self.batch = batches.done
        if left:
            return self._leave()
        if not batches.done:
            warnings.warn(
                f"Your input ran out of data: epoch {epoch + 1} has no batch; training ends. "
                "Make sure that your dataset or generator can generate at least "
                "`steps_per_epoch * epochs` batches.",
                stacklevel=5,
            )
            return False
        if callbacks.progress is not None:
            callbacks.progress.seen = batches.done
        logs = dict(self._logs)
        if self.validation is not None and self._validates(epoch):
            results = self._validate()
            if results is None:
                return self._leave()
            logs.update({f"val_{name}": value for name, value in results.items()})
        self.epoch, self.batch, self._logs = epoch + 1, 0, {}
        self._epoch_logs = logs
        callbacks.on_epoch_end(epoch, logs=logs)
        more = self.epoch < self.epochs and not model.stop_training
        if more and self._preemption.agreed(None):
            return self._leave()
        return more

    def _validates(self, epoch: int) -> bool:
        freq = self._validation_freq
        return (epoch + 1) % freq == 0 if isinstance(freq, int) else epoch + 1 in freq

    def _validate(self) -> dict[str, Any] | None:
        counters = [
            (v, v.array.copy()) for v in self.model.variables if v.dtype.startswith(("int", "uint"))
        ]
        place = self.validation.get_state()
        results = loop.evaluate(
            self.model,
            self.validation,
            self.callbacks,
            self._group,
            self._preemption.agreed,
            in_fit=True,
        )
        if results is None:  # it will be done again from its beginning
            self.validation.set_state(place)
            for variable, array in counters:
                variable.array[...] = array
        return results

    def _leave(self) -> bool:
        """Do what is due when the process was told to end; return False."""
        self.interrupted = self.model.interrupted = True
        self.model.stop_training = True
        for callback in self.callbacks.callbacks:
            hook = getattr(callback, "on_interrupt", None)
            if hook is not None:
                hook()
        print_line(
            f"fit: SIGTERM received: training ends at epoch {self.epoch + 1}, "
            f"after {self.batch} of its batches."
        )
        return False

    def close(self) -> None:
        """End what reads ahead."""
        self.data.close()
        if self.validation is not None:
            self.validation.close()

    # -- leaving and coming back -------------------------------------------------------

    def resume(self, load: Callable[[], dict[str, Any]]) -> None:
        """Continue from a checkpoint; called by a callback in ``on_train_begin``.

        ``load()`` puts weights and optimizer back and returns what ``get_progress`` gave.
        """
        self._load = load

    def get_progress(self) -> dict[str, Any]:
        """Return all that a run needs to continue here, besides weights and optimizer."""
        batch, logs = self.batch, self._logs
        if self._within and self._batches is not None:
            batch, logs = self._batches.done, self._batches.logs()
        return {
            "epoch": self.epoch,
            "batch": batch,
            "stop_training": bool(self.model.stop_training and not self.interrupted),
            "order_seed": self.model._order_seed,
            "data": self.data.get_state(),
            "validation": None if self.validation is None else self.validation.get_state(),
            "logs": dict(logs),
            "epoch_logs": dict(self._epoch_logs),
            "callbacks": self.callbacks.get_state(),
            "state": [v.array.copy() for v in self._further_variables()],
        }

    def _restore(self, progress: dict[str, Any]) -> None:
        self.epoch, self.batch = int(progress["epoch"]), int(progress["batch"])
        self.model.stop_training = bool(progress["stop_training"])
        self.model._order_seed = int(progress["order_seed"])
        self.data.set_seed(self.model._order_seed)
        self.data.set_state(progress["data"])
        if self.validation is not None and progress["validation"] is not None:
            self.validation.set_state(progress["validation"])
        self._logs = dict(progress["logs"])
        self._epoch_logs = dict(progress["epoch_logs"])
        self.callbacks.set_state(progress["callbacks"])
        variables = self._further_variables()
        arrays = progress["state"]
        if len(arrays) != len(variables) or any(
            np.shape(a) != v.shape for v, a in zip(variables, arrays)
        ):
            raise ValueError(
                "fit: the checkpoint was written for another model or other metrics: it has "
                f"{[np.shape(a) for a in arrays]}, expected the shapes "
                f"{[v.shape for v in variables]} of {[v.path for v in variables]}; compile the "
                "model as it was, or delete the checkpoint."
            )
        for variable, array in zip(variables, arrays):
            variable.array[...] = array

    def _further_variables(self) -> list[Any]:
        """State of a step that neither the model nor its optimizer owns: metrics' sums,
        random generators, second optimizers."""
        own = {id(v) for v in (*self.model.weights, *self.model.optimizer.variables)}
        return [v for v in self._variables_of_step() if id(v) not in own]

    def _variables_of_step(self) -> tuple[Any, ...]:
        """Return what the training step reads and writes.

        Traced once: asking for the first batch again might draw one from a generator.
        """
        if self._step_variables is None:
            source = self.data.source
            step = self.model._steps("train").get(source, source.first_key())
            self._step_variables = step.traced.variables
        return self._step_variables
