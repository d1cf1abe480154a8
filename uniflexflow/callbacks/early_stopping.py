"""EarlyStopping: no more epochs when they don't help."""

from __future__ import annotations

from typing import Any

import numpy as np

from uniflexflow.callbacks.monitor import MonitorCallback
from uniflexflow.training.display import print_line


class EarlyStopping(MonitorCallback):
    """Stop training when a number in the logs has stopped improving.

    Parameters
    ----------
    monitor : str
    min_delta : float
        Smaller changes are no improvement.
    patience : int
        Epochs without improvement before training stops.
    verbose : int
        1 prints a message.
    mode : {"auto", "min", "max"}
    baseline : float, optional
        Value that must be beaten, or patience runs out.
    restore_best_weights : bool
        Whether the model gets the weights of its best epoch when training ends.
    start_from_epoch : int
        Epochs that are not looked at.

    Examples
    --------
    >>> EarlyStopping(monitor="loss", patience=3).patience
    3
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 0,
        verbose: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ):
        super().__init__(monitor, mode, min_delta=min_delta)
        self.patience = patience
        self.verbose = verbose
        self.baseline = baseline
        self.restore_best_weights = restore_best_weights
        self.start_from_epoch = start_from_epoch
        self._reset()

    def _reset(self) -> None:
        self.wait = 0
        self.stopped_epoch = 0
        self.best = None
        self.best_epoch = 0
        self.best_weights: list[np.ndarray] | None = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._reset()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._set_monitor_op()
        current = self._monitored(logs, "Early stopping")
        if current is None or epoch < self.start_from_epoch:
            return
        if self.restore_best_weights and self.best_weights is None:
            self.best_weights = self.model.get_weights()
            self.best_epoch = epoch
        self.wait += 1
        if self._is_improvement(current, self.best):
            self.best = current
            self.best_epoch = epoch
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            if self.baseline is None or self._is_improvement(current, self.baseline):
                self.wait = 0
            return
        if self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self.stopped_epoch > 0 and self.verbose > 0:
            print_line(f"Epoch {self.stopped_epoch + 1}: early stopping")
        if self.restore_best_weights and self.best_weights is not None:
            if self.verbose > 0:
                print_line(
                    "Restoring model weights from the end of the best epoch: "
                    f"{self.best_epoch + 1}."
                )
            self.model.set_weights(self.best_weights)

    def get_state(self) -> dict[str, Any]:
        state = {
            "wait": self.wait,
            "stopped_epoch": self.stopped_epoch,
            "best": self.best,
            "best_epoch": self.best_epoch,
        }
        if self.best_weights is not None:
            state["best_weights"] = [np.array(w) for w in self.best_weights]
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        self.wait = state["wait"]
        self.stopped_epoch = state["stopped_epoch"]
        self.best = state["best"]
        self.best_epoch = state["best_epoch"]
        self.best_weights = state.get("best_weights")
