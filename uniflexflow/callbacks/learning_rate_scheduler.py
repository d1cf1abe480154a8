"""LearningRateScheduler: a learning rate for each epoch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from uniflexflow.callbacks.callback import Callback
from uniflexflow.training.display import print_line


class LearningRateScheduler(Callback):
    """Set the learning rate at the beginning of each epoch.

    Parameters
    ----------
    schedule : callable
        ``schedule(epoch, learning_rate)``, or ``schedule(epoch)``, gives a float.
    verbose : int
        1 prints a message.

    Examples
    --------
    >>> LearningRateScheduler(lambda epoch, rate: rate * 0.9).verbose
    0
    """

    def __init__(self, schedule: Callable[..., float], verbose: int = 0):
        super().__init__()
        if not callable(schedule):
            raise TypeError(
                "LearningRateScheduler: `schedule` must be a function of the epoch and the "
                f"learning rate; received {schedule!r}."
            )
        self.schedule = schedule
        self.verbose = verbose
        try:
            inspect.signature(schedule).bind(0, 0.0)
            self._takes_rate = True
        except TypeError:
            self._takes_rate = False

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        optimizer = self.model.optimizer
        if not hasattr(optimizer, "learning_rate"):
            raise ValueError('Optimizer must have a "learning_rate" attribute.')
        old = float(np.asarray(optimizer.learning_rate))
        rate = self.schedule(epoch, old) if self._takes_rate else self.schedule(epoch)
        if isinstance(rate, np.ndarray) and rate.ndim == 0:
            rate = rate[()]
        if not isinstance(rate, (float, np.floating)):
            raise ValueError(
                f"The output of the `schedule` function should be a float. Got: {rate!r}"
            )
        optimizer.learning_rate = rate
        if self.verbose > 0:
            print_line(
                f"\nEpoch {epoch + 1}: LearningRateScheduler setting learning rate to {rate}."
            )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            logs["learning_rate"] = float(np.asarray(self.model.optimizer.learning_rate))
