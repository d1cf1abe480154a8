"""BackupAndRestore: an interrupted ``fit`` continues as if nothing had happened."""

from __future__ import annotations

import os
import shutil
from typing import Any

from uniflexflow.callbacks.callback import Callback
from uniflexflow.callbacks.model_checkpoint import check_save_freq
from uniflexflow.parallel import world
from uniflexflow.training.display import print_line


class BackupAndRestore(Callback):
    """Write training checkpoints, and continue from the last one.

    A checkpoint holds all that the rest of the run depends on: weights, optimizer,
    random generators, metrics, the position in the data, History and the state of all
    callbacks. Run the same script again after an interruption, on any number of ranks,
    and ``fit`` goes on with the next batch.

    On SIGTERM (a batch system's warning) a checkpoint is written at the next step, and
    ``fit`` returns with ``model.interrupted`` set: the script should end then.

    Parameters
    ----------
    backup_dir : str or path
        A directory for this alone.
    save_freq : "epoch" or int
        An int is a number of batches.
    double_checkpoint : bool
        Accepted as in Keras; the checkpoint before the last one is always kept until
        the last one is whole.
    delete_checkpoint : bool
        Whether to remove the directory when training has reached its end.
    """

    runs_last = True

    def __init__(
        self,
        backup_dir: Any,
        save_freq: Any = "epoch",
        double_checkpoint: bool = False,
        delete_checkpoint: bool = True,
    ):
        super().__init__()
        self.backup_dir = os.fspath(backup_dir)
        if not self.backup_dir:
            raise ValueError("BackupAndRestore: empty `backup_dir` argument passed.")
        self.save_freq = check_save_freq(save_freq, "BackupAndRestore")
        self.double_checkpoint = double_checkpoint
        self.delete_checkpoint = delete_checkpoint
        self._batches_since_saving = 0

    @property
    def path(self) -> str:
        """Where the checkpoint is written."""
        return os.path.join(self.backup_dir, "latest.checkpoint.h5")

    def wants_batch_hooks(self, names: tuple[str, ...]) -> bool:
        """Say that batches matter only if it counts them."""
        return self.save_freq != "epoch" and "on_train_batch_end" in names

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        from uniflexflow.saving import checkpoint_exists

        run = self.model._fit_run
        if run is None:
            raise ValueError("BackupAndRestore only works within `fit`.")
        if checkpoint_exists(self.path):
            run.resume(self._load)

    def _load(self) -> dict[str, Any]:
        from uniflexflow.saving import load_checkpoint

        return load_checkpoint(self.path, self.model)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._batches_since_saving += 1
        if self.save_freq != "epoch" and self._batches_since_saving >= self.save_freq:
            self._save()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self.save_freq == "epoch":
            self._save()

    def on_interrupt(self) -> None:
        """Write a checkpoint before the process has to end."""
        self._save()
        print_line(f"BackupAndRestore: checkpoint written to {self.path}")

    def _save(self) -> None:
        from uniflexflow.saving import save_checkpoint

        self._batches_since_saving = 0
        if world().rank == 0:
            os.makedirs(self.backup_dir, exist_ok=True)
        save_checkpoint(self.path, self.model, self.model._fit_run.get_progress())

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self.delete_checkpoint and not self.model._fit_run.interrupted:
            world().barrier()
            if world().rank == 0:
                shutil.rmtree(self.backup_dir, ignore_errors=True)

    def get_state(self) -> dict[str, Any]:
        return {"batches_since_saving": self._batches_since_saving}

    def set_state(self, state: dict[str, Any]) -> None:
        self._batches_since_saving = state["batches_since_saving"]
