"""LambdaCallback: hooks given as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uniflexflow.callbacks.callback import Callback


class LambdaCallback(Callback):
    """A callback made of functions.

    Parameters
    ----------
    on_epoch_begin, on_epoch_end : callable, optional
        ``f(epoch, logs)``
    on_train_begin, on_train_end : callable, optional
        ``f(logs)``
    on_train_batch_begin, on_train_batch_end : callable, optional
        ``f(batch, logs)``
    **kwargs
        Any other hook by its name.

    Examples
    --------
    >>> callback = LambdaCallback(on_epoch_end=lambda epoch, logs: print(epoch))
    >>> callback.on_epoch_end(3, logs={})
    3
    """

    def __init__(
        self,
        on_epoch_begin: Callable[..., Any] | None = None,
        on_epoch_end: Callable[..., Any] | None = None,
        on_train_begin: Callable[..., Any] | None = None,
        on_train_end: Callable[..., Any] | None = None,
        on_train_batch_begin: Callable[..., Any] | None = None,
        on_train_batch_end: Callable[..., Any] | None = None,
        **kwargs: Any,
    ):
        super().__init__()
        hooks = {
            "on_epoch_begin": on_epoch_begin,
            "on_epoch_end": on_epoch_end,
            "on_train_begin": on_train_begin,
            "on_train_end": on_train_end,
            "on_train_batch_begin": on_train_batch_begin,
            "on_train_batch_end": on_train_batch_end,
            **kwargs,
        }
        for name, hook in hooks.items():
            if not (name.startswith("on_") and hasattr(Callback, name)):
                raise TypeError(f"LambdaCallback: there is no hook {name!r}.")
            if hook is not None:
                setattr(self, name, _with_logs(hook))


def _with_logs(hook: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, logs: Any = None) -> Any:
        return hook(*args, logs)

    return call
