"""ModelCheckpoint: the model or its weights, saved during training."""

from __future__ import annotations

import os
from typing import Any

from uniflexflow.callbacks.monitor import MonitorCallback
from uniflexflow.training.display import print_line


class ModelCheckpoint(MonitorCallback):
    """Save the model, or its weights, every epoch or every few batches.

    To continue an interrupted run exactly, use `BackupAndRestore`.

    Parameters
    ----------
    filepath : str or path
        May have placeholders: ``{epoch:02d}`` (from 1), ``{batch}``, any name in the
        logs. Ends in ``.keras``, or in ``.weights.h5`` with ``save_weights_only``.
    monitor : str
        What ``save_best_only`` watches.
    verbose : int
        1 prints a message.
    save_best_only : bool
    save_weights_only : bool
    mode : {"auto", "min", "max"}
    save_freq : "epoch" or int
        An int is a number of batches.
    initial_value_threshold : float, optional
        Value that must be beaten first.
    """

    def __init__(
        self,
        filepath: Any,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: Any = "epoch",
        initial_value_threshold: float | None = None,
    ):
        super().__init__(monitor, mode, initial_value_threshold)
        self.filepath = os.fspath(filepath)
        self.verbose = verbose
        self.save_best_only = save_best_only
        self.save_weights_only = save_weights_only
        self.save_freq = check_save_freq(save_freq, "ModelCheckpoint")
        self._current_epoch = 0
        self._batches_since_saving = 0
        ending = ".weights.h5" if save_weights_only else ".keras"
        if not self.filepath.endswith(ending):
            raise ValueError(
                f"ModelCheckpoint: with save_weights_only={save_weights_only} the filepath must "
                f"end in `{ending}`. Received: filepath={self.filepath}"
            )

    def wants_batch_hooks(self, names: tuple[str, ...]) -> bool:
        """Say that batches matter only if it counts them."""
        return self.save_freq != "epoch" and "on_train_batch_end" in names

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._current_epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self.save_freq == "epoch":
            return
        self._batches_since_saving += 1
        if self._batches_since_saving >= self.save_freq:
            self._batches_since_saving = 0
            self._save(self._current_epoch, batch, logs or {})

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self.save_freq == "epoch":
            self._save(epoch, None, logs or {})

    def _save(self, epoch: int, batch: int | None, logs: dict[str, Any]) -> None:
        from uniflexflow.saving.atomic import on_root

        path = self._path(epoch, batch, logs)
        if not self._should_save(epoch, logs, path):
            return
        if os.path.isdir(path):
            raise OSError(
                "Please specify a non-directory filepath for ModelCheckpoint. Filepath used is "
                f"an existing directory: {path}"
            )
        if os.path.dirname(path):
            on_root(lambda: _make_folder(os.path.dirname(path)))
        if self.save_weights_only:
            self.model.save_weights(path, overwrite=True)
        else:
            self.model.save(path, overwrite=True)
        if self.verbose > 0:
            print_line(f"\nEpoch {epoch + 1}: finished saving model to {path}")

    def _should_save(self, epoch: int, logs: dict[str, Any], path: str) -> bool:
        if not self.save_best_only:
            if self.verbose > 0:
                print_line(f"\nEpoch {epoch + 1}: saving model to {path}")
            return True
        self._set_monitor_op()
        current = self._monitored(logs, "Saving the best model only is")
        if current is None:
            return True
        best = "None" if self.best is None else f"{self.best:.5f}"
        if self._is_improvement(current, self.best):
            if self.verbose > 0:
                print_line(
                    f"\nEpoch {epoch + 1}: {self.monitor} improved from {best} to "
                    f"{current:.5f}, saving model to {path}"
                )
            self.best = current
            return True
        if self.verbose > 0:
            print_line(f"\nEpoch {epoch + 1}: {self.monitor} did not improve from {best}")
        return False

    def _path(self, epoch: int, batch: int | None, logs: dict[str, Any]) -> str:
        values = {"epoch": epoch + 1, **logs}
        if batch is not None:
            values.setdefault("batch", batch + 1)
        try:
            return self.filepath.format(**values)
        except KeyError as error:
            raise KeyError(
                f'Failed to format this callback filepath: "{self.filepath}". Reason: {error}; '
                f"the logs have {sorted(values)}."
            ) from error

    def get_state(self) -> dict[str, Any]:
        return {"best": self.best, "batches_since_saving": self._batches_since_saving}

    def set_state(self, state: dict[str, Any]) -> None:
        self.best = state["best"]
        self._batches_since_saving = state["batches_since_saving"]


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise OSError(
            error.errno,
            f"ModelCheckpoint: can't make the directory {folder!r}: {error.strerror}. Write to "
            "another one",
        ) from error


def check_save_freq(save_freq: Any, where: str) -> Any:
    """Return ``save_freq`` if it is "epoch" or a positive number of batches."""
    if save_freq == "epoch" or (isinstance(save_freq, int) and save_freq > 0):
        return save_freq
    raise ValueError(
        f"{where}: unrecognized save_freq: {save_freq!r}. Expected 'epoch' or a positive "
        "integer, the number of batches."
    )
