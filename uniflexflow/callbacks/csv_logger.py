"""CSVLogger: the results of each epoch as lines of a file."""

from __future__ import annotations

import csv
import os
from typing import Any, TextIO

import numpy as np

from uniflexflow.callbacks.callback import Callback
from uniflexflow.parallel import world


class CSVLogger(Callback):
    """Write the logs of each epoch to a CSV file, on rank 0.

    A run that is resumed from a checkpoint continues the file after the epochs that
    the checkpoint knows.

    Parameters
    ----------
    filename : str or path
    separator : str
    append : bool
        Whether to keep what the file has.
    """

    def __init__(self, filename: Any, separator: str = ",", append: bool = False):
        super().__init__()
        self.filename = os.fspath(filename)
        self.sep = separator
        self.append = append
        self._start()

    def _start(self) -> None:
        self.keys: list[str] | None = None
        self._file: TextIO | None = None
        self._length: int | None = None  # of the file, in a resumed run

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._close()
        self._start()

    def _open(self) -> tuple[TextIO, bool]:
        """Return the open file, and whether it needs a header."""
        folder = os.path.dirname(self.filename) or "."
        if not os.path.isdir(folder):
            raise FileNotFoundError(
                f"CSVLogger: can't write {self.filename!r}: there is no directory {folder!r}. "
                "Make it first, or write to another one."
            )
        if self._length is not None and os.path.exists(self.filename):
            file = open(self.filename, "r+", newline="")
            file.truncate(self._length)
            file.seek(0, os.SEEK_END)
            return file, self._length == 0
        if self.append:
            file = open(self.filename, "a", newline="")
            return file, file.tell() == 0
        return open(self.filename, "w", newline=""), True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = logs or {}
        if self.keys is None:
            self.keys = list(logs)
            if not any(key.startswith("val_") for key in self.keys):
                # validation may come in a later epoch only
                self.keys += [f"val_{key}" for key in logs]
        if world().rank != 0:
            return
        if self._file is None:
            self._file, needs_header = self._open()
            if needs_header:
                self._write(["epoch", *self.keys])
        self._write([epoch, *[_cell(logs.get(key, "NA")) for key in self.keys]])
        self._file.flush()

    def _write(self, row: list[Any]) -> None:
        csv.writer(self._file, delimiter=self.sep).writerow(row)  # type: ignore[arg-type]

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._close()

    def _close(self) -> None:
        if getattr(self, "_file", None) is not None:
            self._file.close()  # type: ignore[union-attr]
            self._file = None

    def get_state(self) -> dict[str, Any]:
        length = self._file.tell() if self._file is not None else self._length
        return {"keys": self.keys, "length": length}

    def set_state(self, state: dict[str, Any]) -> None:
        self._close()
        self.keys = state["keys"]
        self._length = state["length"]


def _cell(value: Any) -> Any:
    if isinstance(value, str) or np.ndim(value) == 0:
        return value
    return f'"[{", ".join(map(str, value))}]"'
