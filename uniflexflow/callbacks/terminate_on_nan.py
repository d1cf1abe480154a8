"""TerminateOnNaN: no more steps once the loss is no number."""

from __future__ import annotations

import math
from typing import Any

from uniflexflow.callbacks.callback import Callback
from uniflexflow.training.display import print_line


class TerminateOnNaN(Callback):
    """Stop training when the loss is NaN or infinite.

    Parameters
    ----------
    raise_error : bool
        Whether to raise RuntimeError instead of stopping.
    """

    def __init__(self, raise_error: bool = False):
        super().__init__()
        self.raise_error = raise_error

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        loss = (logs or {}).get("loss")
        if loss is None or math.isfinite(loss):
            return
        message = f"Batch {batch}: Invalid loss, terminating training"
        if self.raise_error:
            raise RuntimeError(message)
        print_line(message)
        self.model.stop_training = True
