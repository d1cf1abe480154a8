"""Callback: the base class of what is called back during training."""

from __future__ import annotations

from typing import Any


class Callback:
    """Called at the beginning and end of training, epochs and batches.

    Every callback runs on every rank with the same logs. Write files and print on rank
    0 alone (``uff.distribution.rank() == 0``).

    A method that a subclass doesn't override costs nothing; batch logs are computed
    for those that do.

    Attributes
    ----------
    model : Model
    params : dict
        ``verbose``, ``epochs`` and ``steps``.

    Examples
    --------
    >>> class Stop(Callback):
    ...     def on_epoch_end(self, epoch, logs=None):
    ...         if logs["loss"] < 0.1:
    ...             self.model.stop_training = True
    """

    #: Called after all other callbacks, so that it sees the state they leave behind.
    runs_last = False

    def __init__(self) -> None:
        self.params: dict[str, Any] = {}
        self._model: Any = None

    @property
    def model(self) -> Any:
        """The model that is being trained."""
        return self.__dict__.get("_model")

    def set_params(self, params: dict[str, Any]) -> None:
        """Take over the parameters of this run."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Take over the model."""
        self._model = model

    # -- state, for exact resume -------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return what the callback has learnt in this run: plain data and arrays.

        It is kept in training checkpoints. A callback with state of its own overrides
        this and ``set_state``; otherwise a resumed run begins with a fresh one.
        """
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over the state that ``get_state`` gave in the interrupted run."""

    # -- hooks -------------------------------------------------------------------------

    def on_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Alias of ``on_train_batch_begin``."""

    def on_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Alias of ``on_train_batch_end``."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Called at the beginning of each epoch of training."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Called at the end of each epoch; ``logs`` has the validation results too."""

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Called before each batch of training."""
        self.on_batch_begin(batch, logs=logs)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Called after each batch of training; ``logs`` are averages over the epoch."""
        self.on_batch_end(batch, logs=logs)

    def on_test_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Called before each batch of evaluation, also of validation in ``fit``."""

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Called after each batch of evaluation, also of validation in ``fit``."""

    def on_predict_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Called before each batch of prediction."""

    def on_predict_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Called after each batch of prediction; ``logs`` has ``outputs``."""

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Called once at the beginning of training."""

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Called once at the end of training, with the logs of the last epoch."""

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Called at the beginning of evaluation or validation."""

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Called at the end of evaluation or validation."""

    def on_predict_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Called at the beginning of prediction."""

    def on_predict_end(self, logs: dict[str, Any] | None = None) -> None:
        """Called at the end of prediction."""
