"""Rematerialisation: layers whose inner values are computed again for their gradients.

What a layer computes on the way to its output is kept until its gradient has read it. With
``remat`` it is let go and computed again then, from the layer's inputs: less memory, for
the time of one more forward pass. Results are the same numbers, dropout's included.
``passes.recompute`` does it; here is what says where.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from uniflexflow import tree
from uniflexflow.ir import Value, region
from uniflexflow.layers import call
from uniflexflow.ops.symbolic import KerasTensor

__all__ = ["RematScope", "remat"]

_MODES = ("full", "activations", "larger_than", "list_of_layers", None)


@dataclass(frozen=True)
class RematMode:
    """What of a layer is computed again; see `RematScope`."""

    mode: str | None = "full"
    output_size_threshold: int = 1024
    layer_names: tuple[str, ...] = ()


class _Active(threading.local):
    """The scopes that this thread is in, the innermost last."""

    def __init__(self) -> None:
        self.modes: list[RematMode] = []


_active = _Active()


class RematScope:
    """Layers made inside compute inner values again for their gradients.

    It takes the layers of models made inside, not the models themselves: give a model to
    `remat` to make it one unit.

    Parameters
    ----------
    mode : {"full", "activations", "larger_than", "list_of_layers", None}
        All that a layer computes; its ``activation`` alone; all, in layers whose output
        is large; all, in the layers named; nothing.
    output_size_threshold : int
        With ``"larger_than"``: the number of elements, the batch's, that an output must
        have more of.
    layer_names : sequence of str, optional
        With ``"list_of_layers"``.

    Examples
    --------
    >>> import uniflexflow as uff
    >>> with uff.RematScope(mode="activations"):
    ...     layer = uff.layers.Dense(512, activation="gelu")
    """

    def __init__(
        self,
        mode: str | None = "full",
        output_size_threshold: int = 1024,
        layer_names: Sequence[str] | None = None,
    ):
        if mode not in _MODES:
            raise ValueError(f"RematScope: unknown mode: {mode!r}; expected one of {_MODES}.")
        if layer_names and mode != "list_of_layers":
            raise ValueError(
                f"RematScope: layer_names={list(layer_names)!r} with mode={mode!r}; they are "
                "read with mode='list_of_layers' only."
            )
        self.mode = mode
        self.output_size_threshold = int(output_size_threshold)
        self.layer_names = list(layer_names or ())

    def __enter__(self) -> RematScope:
        names = tuple(self.layer_names)
        _active.modes.append(RematMode(self.mode, self.output_size_threshold, names))
        return self

    def __exit__(self, *_: object) -> None:
        _active.modes.pop()


def current_mode(layer_name: str) -> RematMode | None:
    """Return what the scope around says about a layer that is being made."""
    mode = _active.modes[-1] if _active.modes else None
    if mode is None or mode.mode is None:
        return None
    if mode.mode == "list_of_layers":
        return RematMode() if layer_name in mode.layer_names else None
    return mode


def remat(f: Callable[..., Any]) -> Any:
    """Compute inner values again for gradients, instead of keeping them.

    The memory of a training step falls by what ``f`` computes between its inputs and its
    outputs, and the step takes the time of one more run of ``f``.

    Parameters
    ----------
    f : Layer, Model or callable
        A layer is one unit, and so is a model within another. A functional or sequential
        model that is trained itself is cut into units where little is kept between them:
        about the square root of the number of its layers, as by Chen et al., "Training
        deep nets with sublinear memory cost" (2016). A function over tensors is one unit
        wherever it is called.

    Returns
    -------
    Layer, Model or callable
        The layer itself, marked; of a function, one that does the same. The mark is no
        part of the configuration or of files.

    Raises
    ------
    TypeError
        If a function is called on a functional model's placeholders, where the weights of
        layers that it calls would not be found.

    Examples
    --------
    >>> import uniflexflow as uff
    >>> def block():
    ...     return uff.Sequential([uff.layers.Dense(64, activation="gelu") for _ in range(4)])
    >>> def memory(blocks):
    ...     model = uff.Sequential([uff.Input((64,)), *blocks])
    ...     model.compile("sgd", "mse")
    ...     return model.memory_usage(1024).activations
    >>> plain = memory([block() for _ in range(4)])
    >>> memory([uff.remat(block()) for _ in range(4)]) < 0.6 * plain
    True
    """
    if hasattr(f, "_remat"):
        f._remat = RematMode()
        return f
    if not callable(f):
        raise TypeError(f"remat: expected a layer, a model or a function; received {f!r}.")

    @functools.wraps(f)
    def again(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, KerasTensor) for x in tree.flatten((args, kwargs))):
            raise TypeError(
                f"remat: the function {getattr(f, '__name__', f)!r} was called on placeholders of "
                "a functional model; expected a call on tensors. Call it in a layer's `call`, or "
                "give `remat` a layer."
            )
        with region():
            return f(*args, **kwargs)

    return again


def invoke(layer: Any, arguments: dict[str, Any]) -> Any:
    """Compute a layer that has a mode, as that says."""
    mode = layer._remat
    if mode.mode == "activations":
        with _recomputed_activation(layer):
            return layer._invoke(arguments)
    if is_cut(layer):
        return layer._invoke(arguments)  # makes regions itself
    with region() as part:
        outputs = layer._invoke(arguments)
    if mode.mode == "larger_than":
        sizes = [math.prod(x.shape) for x in tree.flatten(outputs) if isinstance(x, Value)]
        part.active = sum(sizes) > mode.output_size_threshold
    return outputs


def is_cut(layer: Any) -> bool:
    """Say whether a model, while it is being called, makes regions of its own layers."""
    return layer._remat is not None and layer._has_cuts and len(call.calls.training) == 1


@contextmanager
def _recomputed_activation(layer: Any) -> Iterator[None]:
    activation = layer.__dict__.get("activation")
    if not callable(activation) or hasattr(activation, "_remat"):
        yield
        return
    layer.__dict__["activation"] = remat(activation)
    try:
        yield
    finally:
        layer.__dict__["activation"] = activation
