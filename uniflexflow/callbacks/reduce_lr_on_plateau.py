"""ReduceLROnPlateau: smaller steps when larger ones don't help any more."""

from __future__ import annotations

from typing import Any

import numpy as np

from uniflexflow.callbacks.monitor import MonitorCallback
from uniflexflow.training.display import print_line


class ReduceLROnPlateau(MonitorCallback):
    """Reduce the learning rate when a number in the logs has stopped improving.

    Parameters
    ----------
    monitor : str
    factor : float
        New learning rate over old; less than 1.
    patience : int
        Epochs without improvement before it is reduced.
    verbose : int
        1 prints a message.
    mode : {"auto", "min", "max"}
    min_delta : float
        Smaller changes are no improvement.
    cooldown : int
        Epochs to wait after a reduction.
    min_lr : float

    Examples
    --------
    >>> ReduceLROnPlateau(factor=0.5).factor
    0.5
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 0,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
    ):
        super().__init__(monitor, mode, min_delta=min_delta)
        if factor >= 1.0:
            raise ValueError(
                f"ReduceLROnPlateau does not support a factor >= 1.0. Received factor={factor}"
            )
        self.factor = factor
        self.min_lr = min_lr
        self.patience = patience
        self.verbose = verbose
        self.cooldown = cooldown
        self._reset()

    def _reset(self) -> None:
        self.best = None
        self.cooldown_counter = 0
        self.wait = 0

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._reset()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._set_monitor_op()
        logs = {} if logs is None else logs
        logs["learning_rate"] = float(np.asarray(self.model.optimizer.learning_rate))
        current = self._monitored(logs, "Learning rate reduction is")
        if current is None:
            return
        if self.in_cooldown():
            self.cooldown_counter -= 1
            self.wait = 0
        if self._is_improvement(current, self.best):
            self.best = current
            self.wait = 0
        elif not self.in_cooldown():
            self.wait += 1
            if self.wait >= self.patience:
                self._reduce(epoch)

    def _reduce(self, epoch: int) -> None:
        optimizer = self.model.optimizer
        old = float(np.asarray(optimizer.learning_rate))
        if old <= np.float32(self.min_lr):
            return
        new = max(old * self.factor, self.min_lr)
        optimizer.learning_rate = new
        if self.verbose > 0:
            print_line(f"\nEpoch {epoch + 1}: ReduceLROnPlateau reducing learning rate to {new}.")
        self.cooldown_counter = self.cooldown
        self.wait = 0

    def in_cooldown(self) -> bool:
        """Say whether a reduction was made lately."""
        return self.cooldown_counter > 0

    def get_state(self) -> dict[str, Any]:
        return {"best": self.best, "cooldown_counter": self.cooldown_counter, "wait": self.wait}

    def set_state(self, state: dict[str, Any]) -> None:
        self.best = state["best"]
        self.cooldown_counter = state["cooldown_counter"]
        self.wait = state["wait"]
