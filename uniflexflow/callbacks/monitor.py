"""What callbacks that watch one number share."""

from __future__ import annotations

import warnings
from typing import Any

from uniflexflow.callbacks.callback import Callback


class MonitorCallback(Callback):
    """Base of callbacks that watch whether a number in the logs improves.

    Parameters
    ----------
    monitor : str
        Name in the logs.
    mode : {"auto", "min", "max"}
        Which way is better; ``"auto"`` asks the metric of that name.
    baseline : float, optional
        Value that must be beaten first.
    min_delta : float
        Smaller changes don't count.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        mode: str = "auto",
        baseline: float | None = None,
        min_delta: float = 0.0,
    ):
        super().__init__()
        if mode not in ("auto", "min", "max"):
            raise ValueError(
                f"{type(self).__name__}: unknown mode {mode!r}; expected 'auto', 'min' or 'max'."
            )
        self.monitor = monitor
        self.mode = mode
        self.best = baseline
        self.min_delta = abs(min_delta)
        self._less_is_better: bool | None = {"min": True, "max": False}.get(mode)

    def _set_monitor_op(self) -> None:
        """Find out which way is better, once the metrics exist."""
        if self._less_is_better is not None:
            return
        name = self.monitor.removeprefix("val_")
        if name == "loss" or name.endswith("_loss"):
            self._less_is_better = True
            return
        direction = self.model.metric_direction(name)
        if direction is None:
            raise ValueError(
                f"{type(self).__name__} received monitor={self.monitor!r}, but it is not known "
                "whether that should be maximized or minimized. Pass `mode='max'` in order to "
                "monitor based on the highest value, or pass `mode='min'` in order to use the "
                "lowest value."
            )
        self._less_is_better = direction != "up"

    def _is_improvement(self, value: float, reference: float | None) -> bool:
        if reference is None:
            return True
        if self._less_is_better:
            return value + self.min_delta < reference
        return value - self.min_delta > reference

    def _monitored(self, logs: dict[str, Any] | None, purpose: str) -> float | None:
        """Return the watched value; warn if the logs don't have it."""
        logs = logs or {}
        value = logs.get(self.monitor)
        if value is None:
            warnings.warn(
                f"{purpose} conditioned on metric `{self.monitor}` which is not available. "
                f"Available metrics are: {','.join(logs)}",
                stacklevel=3,
            )
        return value
