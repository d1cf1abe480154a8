"""The configuration of a functional model: its layers and their connections.

The form is Keras's: each layer with the arguments of its calls, where a tensor is
named by ``[layer, number of the layer's call in this model, place among its outputs]``.
"""

from __future__ import annotations

from typing import Any

from uniflexflow import ops, tree
from uniflexflow.layers.base import Layer
from uniflexflow.layers.input_layer import InputLayer
from uniflexflow.naming import to_snake_case
from uniflexflow.ops.symbolic import KerasTensor, OpCall
from uniflexflow.saving.serialization import (
    deserialize_arguments,
    deserialize_keras_object,
    serialize_argument,
    serialize_keras_object,
)


def functional_config(model: Any) -> dict[str, Any]:
    """Return the configuration of a functional model."""
    network = model._network
    number = {id(n): i for nodes in network.calls_of.values() for i, n in enumerate(nodes)}

    def place(x: KerasTensor) -> list[Any]:
        if x in network._is_input:
            return [network.maker(x).name, 0, 0]
        return [x.node.target.name, number[id(x.node)], x.index]

    def argument(x: Any) -> Any:
        if isinstance(x, KerasTensor):
            return {
                "class_name": "__keras_tensor__",
                "config": {
                    "shape": list(x.shape),
                    "dtype": x.dtype,
                    "keras_history": place(x),
                },
            }
        if isinstance(x, (list, tuple)):
            return [argument(v) for v in x]
        if isinstance(x, dict):
            return {k: argument(v) for k, v in x.items()}
        return serialize_argument(x)

    layers = []
    for target in network.targets:
        if isinstance(target, Layer):
            data = serialize_keras_object(target)
        else:
            data = _operation_config(target)
        data["name"] = target.name
        nodes = [] if isinstance(target, InputLayer) else network.calls_of.get(id(target), [])
        data["inbound_nodes"] = [
            {"args": argument(n.args), "kwargs": argument(n.kwargs)} for n in nodes
        ]
        layers.append(data)
    return {
        "name": model.name,
        "trainable": model.trainable,
        "layers": layers,
        "input_layers": tree.map_structure(place, model._inputs_structure),
        "output_layers": tree.map_structure(place, model._outputs_structure),
    }


def _operation_config(call: OpCall) -> dict[str, Any]:
    return {
        "module": "uniflexflow.ops",
        "class_name": call.fn.__name__,
        "config": {"name": call.name},
        "registered_name": None,
    }


# Keras's operation classes whose names are not ours in CamelCase
_OPERATIONS = {"TrueDivide": "divide", "GetItem": "get_item", "LogicalNot": "logical_not"}


def _find_operation(data: dict[str, Any]) -> OpCall | None:
    """Return the operation of a configuration; None if it is that of a layer."""
    module, name = data.get("module") or "", data["class_name"]
    if module != "uniflexflow.ops" and not module.startswith("keras.src.ops"):
        return None
    ours = _OPERATIONS.get(name, name if name.islower() else to_snake_case(name))
    fn = getattr(ops, ours, None)
    if fn is None or not hasattr(fn, "__wrapped_op__"):
        raise ValueError(f"The model's configuration uses the operation {name!r}: not supported.")
    config = dict(data["config"])
    call = OpCall(fn)
    call.name = config.pop("name", None) or data.get("name") or ours
    config.pop("dtype", None)
    call.arguments = deserialize_arguments(config)
    return call


def functional_from_config(cls: type, config: dict[str, Any]) -> Any:
    """Make a functional model of class ``cls`` from its configuration."""
    targets: dict[str, Any] = {}
    calls: list[tuple[str, int, dict[str, Any]]] = []
    tensors: dict[tuple[str, int, int], KerasTensor] = {}
    for data in config["layers"]:
        target = _find_operation(data) or deserialize_keras_object(
            {k: v for k, v in data.items() if k not in ("name", "inbound_nodes", "build_config")}
        )
        name = data.get("name") or target.name
        targets[name] = target
        if isinstance(target, InputLayer):
            tensors[name, 0, 0] = target.output
        else:
            for i, node in enumerate(data["inbound_nodes"]):
                calls.append((name, i, _read_node(node)))

    # calls are made when what they need is there, each layer's in their order
    done: dict[str, int] = {}
    while calls:
        later = []
        for name, i, node in calls:
            needs = [x.key for x in tree.flatten(node) if isinstance(x, _Place)]
            if done.get(name, 0) == i and all(k in tensors for k in needs):
                _call(targets[name], name, i, node, tensors)
                done[name] = i + 1
            else:
                later.append((name, i, node))
        if len(later) == len(calls):
            raise ValueError(
                f"The configuration of model '{config.get('name')}' is not complete: layers "
                f"{sorted({c[0] for c in later})} need tensors that no layer gives."
            )
        calls = later

    def find(structure: Any) -> Any:
        if _is_place(structure):
            name, node, index = structure
            if (name, node, index) not in tensors and (name, node - 1, index) in tensors:
                node -= 1  # Keras counts the calls of a nested model from 1 there
            return tensors[name, node, index]
        if isinstance(structure, dict):
            return {k: find(v) for k, v in structure.items()}
        return [find(v) for v in structure]

    extra = {k: config[k] for k in ("name", "trainable") if k in config}
    return cls(find(config["input_layers"]), find(config["output_layers"]), **extra)


class _Place:
    """A tensor that a call takes."""

    def __init__(self, history: list[Any]):
        self.key = (history[0], int(history[1]), int(history[2]))


def _is_place(x: Any) -> bool:
    return (
        isinstance(x, (list, tuple))
        and len(x) == 3
        and isinstance(x[0], str)
        and all(isinstance(n, int) for n in x[1:])
    )


def _read_node(node: dict[str, Any]) -> Any:
    def read(x: Any) -> Any:
        if isinstance(x, dict):
            if x.get("class_name") == "__keras_tensor__":
                return _Place(x["config"]["keras_history"])
            if "class_name" in x and "config" in x:
                return deserialize_keras_object(x)
            return {k: read(v) for k, v in x.items()}
        if isinstance(x, (list, tuple)):
            return [read(v) for v in x]
        return x

    return read(node["args"]), read(node["kwargs"])


def _call(
    target: Any, name: str, i: int, node: Any, tensors: dict[tuple[str, int, int], KerasTensor]
) -> None:
    args, kwargs = tree.map_structure(
        lambda x: tensors[x.key] if isinstance(x, _Place) else x, node
    )
    if isinstance(target, OpCall):
        kwargs = {**getattr(target, "arguments", {}), **kwargs}
        if target.fn is ops.get_item and isinstance(args[1], list):
            args[1] = tuple(args[1])
        outputs = target.fn(*args, **kwargs)
        made = tree.flatten(outputs)[0].node
        made.target.name = target.name
    else:
        outputs = target(*args, **kwargs)
    for index, x in enumerate(tree.flatten(outputs)):
        tensors[name, i, index] = x
