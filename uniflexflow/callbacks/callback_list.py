"""CallbackList: all callbacks of a run as one."""

from __future__ import annotations

from typing import Any

from uniflexflow.callbacks.callback import Callback
from uniflexflow.callbacks.history import History
from uniflexflow.callbacks.profiler import Profiler
from uniflexflow.callbacks.progbar_logger import ProgbarLogger

# Which methods make a callback one that must be called at each batch.
_BATCH_HOOKS = {
    "train": ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end"),
    "test": ("on_test_batch_begin", "on_test_batch_end"),
    "predict": ("on_predict_batch_begin", "on_predict_batch_end"),
}


class CallbackList(Callback):
    """Calls a list of callbacks in their order, those that run last at the end.

    Parameters
    ----------
    callbacks : list of Callback, or Callback, optional
    add_history : bool
        Whether to add a History if there is none.
    add_progbar : bool
        Whether to add a ProgbarLogger if there is none.
    model : Model, optional
    **params
        ``verbose``, ``epochs``, ``steps``.

    Attributes
    ----------
    callbacks : list of Callback
    progress : ProgbarLogger or None
        Not among those that are called at each batch: the loop asks it whether it is
        time to show something.
    profiler : Profiler or None
        The loop lets it run the steps of training.
    """

    def __init__(
        self,
        callbacks: Any = None,
        add_history: bool = False,
        add_progbar: bool = False,
        model: Any = None,
        **params: Any,
    ):
        super().__init__()
        if callbacks is None:
            callbacks = []
        elif not isinstance(callbacks, (list, tuple)):
            callbacks = [callbacks]
        for callback in callbacks:
            if not isinstance(callback, Callback):
                raise TypeError(
                    "All elements of `callbacks` must be instances of uff.callbacks.Callback; "
                    f"received {callback!r} of type {type(callback).__name__}."
                )
        self.callbacks = [*callbacks]
        if add_progbar and not any(isinstance(c, ProgbarLogger) for c in self.callbacks):
            self.callbacks.append(ProgbarLogger())
        if add_history and not any(isinstance(c, History) for c in self.callbacks):
            self.callbacks.append(History())
        self.callbacks.sort(key=lambda c: c.runs_last)
        self.progress = next((c for c in self.callbacks if type(c) is ProgbarLogger), None)
        self.history = next((c for c in self.callbacks if isinstance(c, History)), None)
        profilers = [c for c in self.callbacks if isinstance(c, Profiler)]
        if len(profilers) > 1:
            raise ValueError(
                f"callbacks: there are {len(profilers)} Profilers; expected one at most: it runs "
                "the steps that it times."
            )
        self.profiler = profilers[0] if profilers else None
        self._at_batches = {
            mode: [c for c in self.callbacks if _overrides(c, names)]
            for mode, names in _BATCH_HOOKS.items()
        }
        if model is not None:
            self.set_model(model)
        self.set_params(params)

    def append(self, callback: Callback) -> None:
        """Add a callback."""
        self.__init__([*self.callbacks, callback], model=self.model, **self.params)  # type: ignore[misc]

    def set_params(self, params: dict[str, Any]) -> None:
        super().set_params(params)
        for callback in self.callbacks:
            callback.set_params(params)

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        if self.history is not None:
            model.history = self.history
        for callback in self.callbacks:
            callback.set_model(model)

    def wants_batches(self, mode: str) -> bool:
        """Say whether any callback must be called at each batch of ``mode``."""
        return bool(self._at_batches[mode])

    # -- state -------------------------------------------------------------------------

    def get_state(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """Return each callback's class and state, in their order."""
        return [
            {"class": type(c).__name__, "state": c.get_state()}
            for c in self.callbacks
            if not isinstance(c, ProgbarLogger)
        ]

    def set_state(self, state: list[dict[str, Any]]) -> None:  # type: ignore[override]
        """Give each callback its state back: the k-th of a class that of the k-th."""
        waiting = list(state)
        for callback in self.callbacks:
            for entry in waiting:
                if entry["class"] == type(callback).__name__:
                    callback.set_state(entry["state"])
                    waiting.remove(entry)
                    break

    # -- hooks -------------------------------------------------------------------------

    def on_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.on_train_batch_begin(batch, logs=logs)

    def on_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.on_train_batch_end(batch, logs=logs)

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        for callback in self._at_batches["train"]:
            callback.on_train_batch_begin(batch, logs=logs)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        for callback in self._at_batches["train"]:
            callback.on_train_batch_end(batch, logs=logs)

    def on_test_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        for callback in self._at_batches["test"]:
            callback.on_test_batch_begin(batch, logs=logs)

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        for callback in self._at_batches["test"]:
            callback.on_test_batch_end(batch, logs=logs)

    def on_predict_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        for callback in self._at_batches["predict"]:
            callback.on_predict_batch_begin(batch, logs=logs)

    def on_predict_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        for callback in self._at_batches["predict"]:
            callback.on_predict_batch_end(batch, logs=logs)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = {} if logs is None else logs
        for callback in self.callbacks:
            callback.on_epoch_begin(epoch, logs=logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = {} if logs is None else logs
        for callback in self.callbacks:
            callback.on_epoch_end(epoch, logs=logs)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._all("on_train_begin", logs)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._all("on_train_end", logs)

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._all("on_test_begin", logs)

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        self._all("on_test_end", logs)

    def on_predict_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._all("on_predict_begin", logs)

    def on_predict_end(self, logs: dict[str, Any] | None = None) -> None:
        self._all("on_predict_end", logs)

    def _all(self, hook: str, logs: dict[str, Any] | None) -> None:
        logs = {} if logs is None else logs
        for callback in self.callbacks:
            getattr(callback, hook)(logs=logs)


def _overrides(callback: Callback, names: tuple[str, ...]) -> bool:
    """Say whether a callback has any of these hooks of its own."""
    if type(callback) is ProgbarLogger:
        return False
    wants = getattr(callback, "wants_batch_hooks", None)
    if wants is not None:
        return wants(names)
    for name in names:
        mine = getattr(callback, name)
        if getattr(mine, "__func__", mine) is not getattr(Callback, name):
            return True
    return False
