"""clone_model: the same network with new weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uniflexflow import tree
from uniflexflow.layers.base import Layer
from uniflexflow.layers.input_layer import InputLayer
from uniflexflow.models.functional import Functional
from uniflexflow.models.model import Model
from uniflexflow.models.sequential import Sequential
from uniflexflow.ops.symbolic import KerasTensor, OpCall
from uniflexflow.saving.serialization import live_functions


def _copy(layer: Layer) -> Layer:
    with live_functions():
        return type(layer).from_config(layer.get_config())


def clone_model(
    model: Model,
    input_tensors: Any = None,
    clone_function: Callable[[Layer], Layer] | None = None,
) -> Model:
    """Return a model with the same layers, newly made: with new weights.

    Parameters
    ----------
    model : Model
    input_tensors : structure of KerasTensor, optional
        Placeholders to draw a functional clone on.
    clone_function : callable, optional
        Called with each layer that is not an input; returns its copy. Default: made from
        its configuration.
    """
    copy = clone_function or _copy
    if isinstance(model, Sequential):
        stack = [_copy(x) if isinstance(x, InputLayer) else copy(x) for x in model._stack]
        if input_tensors is not None:
            stack = [tree.flatten(input_tensors)[0], *copy_layers(model, copy)]
        return Sequential(stack, name=model.name, trainable=model.trainable)
    if not isinstance(model, Functional):
        if clone_function is not None or input_tensors is not None:
            raise ValueError(
                "clone_model: `clone_function` and `input_tensors` are only for functional and "
                f"Sequential models; received model '{model.name}' of class "
                f"{type(model).__name__}."
            )
        return _copy(model)
    return _clone_functional(model, input_tensors, copy)


def copy_layers(model: Sequential, copy: Callable[[Layer], Layer]) -> list[Layer]:
    """Return copies of a stack's layers, without the input."""
    return [copy(layer) for layer in model.layers]


def _clone_functional(
    model: Functional, input_tensors: Any, copy: Callable[[Layer], Layer]
) -> Model:
    network = model._network
    new: dict[KerasTensor, KerasTensor] = {}
    if input_tensors is None:
        for x in model.inputs:
            new[x] = _copy(network.maker(x)).output
    else:
        new.update(zip(model.inputs, tree.flatten(input_tensors)))
    inputs = tree.map_structure(lambda x: new[x], model._inputs_structure)
    copies: dict[int, Any] = {}
    for node in network.calls:
        target = node.target
        if id(target) not in copies:
            copies[id(target)] = target.fn if isinstance(target, OpCall) else copy(target)
        args, kwargs = tree.map_structure(
            lambda x: new[x] if isinstance(x, KerasTensor) else x, (node.args, node.kwargs)
        )
        outputs = copies[id(target)](*args, **kwargs)
        new.update(zip(tree.flatten(node.outputs), tree.flatten(outputs)))
    outputs = tree.map_structure(lambda x: new[x], model._outputs_structure)
    cls = type(model)
    if cls.__init__ is not Functional.__init__ and cls.__init__ is not Model.__init__:
        cls = Functional
    clone = cls(inputs, outputs, name=model.name)
    clone._trainable = model._trainable
    return clone
