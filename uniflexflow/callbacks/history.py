"""History: the results of each epoch."""

from __future__ import annotations

import weakref
from typing import Any

from uniflexflow.callbacks.callback import Callback


class History(Callback):
    """Records the logs of each epoch; ``fit`` returns one.

    It knows its model as long as somebody else does: the model keeps its last History,
    and if each kept the other, a model that is dropped would not be gone.

    Attributes
    ----------
    history : dict of str to list
        One value per epoch for each name.
    epoch : list of int
    """

    def __init__(self) -> None:
        super().__init__()
        self.history: dict[str, list[Any]] = {}
        self.epoch: list[int] = []

    @property
    def model(self) -> Any:
        """The model that was trained; None if it is gone."""
        link = self.__dict__.get("_model")
        return None if link is None else link()

    def set_model(self, model: Any) -> None:
        self._model = None if model is None else weakref.ref(model)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None}

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self.history = {}
        self.epoch = []

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)
        self.model.history = self

    def get_state(self) -> dict[str, Any]:
        return {
            "epoch": list(self.epoch),
            "history": {name: list(values) for name, values in self.history.items()},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.epoch = list(state["epoch"])
        self.history = {name: list(values) for name, values in state["history"].items()}
