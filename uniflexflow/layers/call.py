"""What happens around a layer's ``call``: arguments, casts, masks, training."""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from uniflexflow import tree
from uniflexflow.ir import Value
from uniflexflow.ops.dispatch import as_value, cast_to
from uniflexflow.ops.dtypes import is_float
from uniflexflow.ops.mask import get_mask, set_mask
from uniflexflow.ops.symbolic import KerasTensor
from uniflexflow.ops.variable import Variable

TENSORS = (Value, KerasTensor, Variable, np.ndarray, np.generic)


class _Calls(threading.local):
    """``training`` of the calls under way in this thread, outermost first."""

    def __init__(self) -> None:
        self.training: list[bool | None] = []


calls = _Calls()


class Signature:
    """The parameters of a layer's ``call``."""

    def __init__(self, call: Callable[..., Any]):
        self.signature = inspect.signature(call)
        self.names = list(self.signature.parameters)
        kinds = [p.kind for p in self.signature.parameters.values()]
        self.takes_any = inspect.Parameter.VAR_KEYWORD in kinds

    def takes(self, name: str) -> bool:
        return name in self.names

    def bind(self, where: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return arguments by name, in the order of the parameters."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(
                f"{where}: call() does not fit its arguments: {error}; "
                f"its parameters are {self.names}."
            ) from error
        return dict(bound.arguments)


def is_tensor(x: Any) -> bool:
    """Say whether ``x`` is a tensor of any kind."""
    return isinstance(x, TENSORS)


def holds_tensor(structure: Any) -> bool:
    """Say whether a structure has a tensor in it."""
    return any(isinstance(x, TENSORS) for x in tree.flatten(structure))


def numbers_to_array(x: Any) -> Any:
    """Turn a plain number or nested lists of them into an array; leave the rest."""
    if isinstance(x, (list, tuple)) and x:
        leaves = tree.flatten(x)
        if leaves and all(isinstance(n, (int, float, bool)) for n in leaves):
            return np.asarray(x)
    return x


def shapes_of(structure: Any) -> Any:
    """Replace tensors by their shapes."""
    return tree.map_structure(lambda x: tuple(x.shape) if is_tensor(x) else None, structure)


def to_values(structure: Any, dtype: str | None) -> Any:
    """Turn tensors into Values; cast floating ones to ``dtype`` if it is given."""

    def convert(x: Any) -> Any:
        if not isinstance(x, (Value, Variable, np.ndarray, np.generic)):
            return x
        value = as_value(x)
        if dtype is None or not is_float(value.dtype) or value.dtype == dtype:
            return value
        cast = cast_to(value, dtype)
        set_mask(cast, get_mask(value))
        return cast

    return tree.map_structure(convert, structure)


def masks_of(structure: Any) -> Any:
    """Replace tensors by their masks; None if there is no mask at all."""
    masks = tree.map_structure(get_mask, structure)
    return None if all(m is None for m in tree.flatten(masks)) else masks


def fill_masks(signature: Signature, arguments: dict[str, Any]) -> None:
    """Give ``mask`` and ``<argument>_mask`` the masks beside the tensors."""
    first = True
    for name in list(arguments):
        value = arguments[name]
        if not holds_tensor(value) or name.endswith("mask"):
            continue
        wanted = [f"{name}_mask"] + (["mask"] if first else [])
        first = False
        for mask_name in wanted:
            if signature.takes(mask_name) and arguments.get(mask_name) is None:
                mask = masks_of(value)
                if mask is not None:
                    arguments[mask_name] = mask


def pass_masks(layer: Any, arguments: dict[str, Any], outputs: Any) -> None:
    """Set the masks of a layer's outputs."""
    inputs = next(iter(arguments.values()), None)
    previous = arguments.get("mask")
    if previous is None:
        previous = masks_of(inputs)
    if not layer.supports_masking:
        flat_inputs = tree.flatten(inputs)
        lost = previous is not None and not any(
            get_mask(x) is not None for x in tree.flatten(outputs) if x not in flat_inputs
        )
        if lost and not _makes_masks(layer):
            warnings.warn(
                f"Layer '{layer.name}' (of type {type(layer).__name__}) was passed an input "
                "with a mask attached to it. However, this layer does not support masking and "
                "will therefore destroy the mask information. Downstream layers will not see "
                "the mask.",
                stacklevel=4,
            )
        return
    flat = tree.flatten(outputs)
    if all(get_mask(x) is not None for x in flat):
        return
    masks = layer.compute_mask(inputs, previous)
    if masks is None:
        return
    for x, mask in zip(flat, tree.flatten(masks)):
        if mask is not None and get_mask(x) is None:
            set_mask(x, mask)


def _makes_masks(layer: Any) -> bool:
    # a model's own layers have set the masks of its outputs
    return hasattr(layer, "get_layer")
