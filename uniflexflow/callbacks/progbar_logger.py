"""ProgbarLogger: the progress display of fit, evaluate and predict."""

from __future__ import annotations

from typing import Any

from uniflexflow.callbacks.callback import Callback
from uniflexflow.training import display
from uniflexflow.training.progress import Progbar


class ProgbarLogger(Callback):
    """Shows a progress bar and the logs.

    Attributes
    ----------
    due : float
        Time (of ``time.perf_counter``) from which a batch is worth showing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.verbose = 1
        self.epochs = 1
        self.target: int | None = None
        self.seen = 0
        self.progbar: Progbar | None = None
        self._in_fit = False

    @property
    def due(self) -> float:
        """Time before which ``on_*_batch_end`` shows nothing."""
        if self.progbar is None or self.verbose != 1:
            return float("inf")
        return self.progbar.due

    def set_params(self, params: dict[str, Any]) -> None:
        super().set_params(params)
        verbose = params.get("verbose", 1)
        if verbose == "auto":
            verbose = 1 if display.is_live() else 2
        if verbose not in (0, 1, 2, True, False):
            raise ValueError(f"`verbose` must be 0, 1, 2 or 'auto'; received {verbose!r}.")
        self.verbose = int(verbose)
        self.epochs = params.get("epochs") or 1
        self.target = params.get("steps")

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._in_fit = True

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._in_fit = False

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        title = f"Epoch {epoch + 1}/{self.epochs}" if self.epochs > 1 else ""
        self._begin(title)
        if title and self.verbose and display.is_live():
            display.print_line(title)

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        if not self._in_fit:
            self._begin()

    def on_predict_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._begin()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._update(batch, logs)

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if not self._in_fit:
            self._update(batch, logs)

    def on_predict_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._update(batch, None)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._end(logs)

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        if not self._in_fit:
            self._end(logs)

    def on_predict_end(self, logs: dict[str, Any] | None = None) -> None:
        self._end(logs)

    def _begin(self, title: str = "") -> None:
        self.seen = 0
        self.progbar = Progbar(self.target, verbose=self.verbose, stateless_metrics=(), title=title)

    def _update(self, batch: int, logs: dict[str, Any] | None) -> None:
        self.seen = batch + 1
        if self.progbar is not None:
            self.progbar.update(self.seen, logs, finalize=False)

    def _end(self, logs: dict[str, Any] | None) -> None:
        if self.progbar is None:
            return
        if self.target is None:
            self.target = self.progbar.target = self.seen
        self.progbar.update(self.target, logs, finalize=True)
