"""Functional: the model of what lies between input and output placeholders."""

from __future__ import annotations

from typing import Any

from uniflexflow import tree
from uniflexflow.ir import Value
from uniflexflow.layers import remat
from uniflexflow.layers.base import Layer
from uniflexflow.layers.input_layer import InputLayer
from uniflexflow.models.cuts import network_cuts
from uniflexflow.models.graph_config import functional_config, functional_from_config
from uniflexflow.models.model import Model, check_structure, fit_input
from uniflexflow.models.network import Network
from uniflexflow.naming import uniquify
from uniflexflow.ops.symbolic import KerasTensor

__all__ = ["Functional", "functional_from_config"]


class Functional(Model):
    """A model drawn by calling layers on placeholders.

    Parameters
    ----------
    inputs, outputs : nested structures of KerasTensor
    name : str, optional
    trainable, dtype : as of Layer
    """

    _has_cuts = True

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return Layer.__new__(cls, *args, **kwargs)

    def __init__(self, inputs: Any, outputs: Any, name: str | None = None, **kwargs: Any):
        from uniflexflow.training.trainer import Trainer

        Trainer.__init__(self)
        Layer.__init__(self, name=name, **kwargs)
        for kind, structure in (("inputs", inputs), ("outputs", outputs)):
            for x in tree.flatten(structure):
                if not isinstance(x, KerasTensor):
                    raise ValueError(
                        f"All `{kind}` values must be KerasTensors, as uff.Input and calls on it "
                        f"return them; model '{self.name}' received {x!r} of type {type(x)}."
                    )
        self._inputs_structure = inputs
        self._outputs_structure = outputs
        self._replaced = _inputs_for_inner_tensors(inputs)
        self._network = Network(tree.flatten(inputs), tree.flatten(outputs), self._replaced)
        self._check_names()
        self._network_layers = [t for t in self._network.targets if isinstance(t, Layer)]
        self.autocast = False  # inputs get the dtype of their placeholders
        self.built = True
        for layer in self._network_layers:
            layer.built = True
        if not self._trainable:
            self.trainable = False

    def _check_names(self) -> None:
        seen: set[str] = set()
        for target in self._network.targets:
            if target.name in seen:
                if not isinstance(target, Layer):
                    target.name = uniquify(target.name)
                else:
                    raise ValueError(
                        f"The name '{target.name}' is used 2 times in model '{self.name}'. All "
                        "layer names should be unique."
                    )
            seen.add(target.name)

    # -- copies and pickles ------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        # tensors first, each after those it is made of: a deep network is then no deep
        # recursion; the network itself is known by identities, and is drawn anew
        state = super().__getstate__()
        del state["_network"]
        in_order = [*self.inputs, *[node.outputs for node in self._network.calls]]
        return {"_in_order": in_order, **state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({k: v for k, v in state.items() if k != "_in_order"})
        self._network = Network(self.inputs, self.outputs, self._replaced)

    # -- the network -------------------------------------------------------------------

    @property
    def layers(self) -> list[Layer]:
        """The layers, inputs included, in the order of computation."""
        return list(self._network_layers)

    @layers.setter
    def layers(self, _: Any) -> None:
        raise AttributeError("`Model.layers` is a reserved name; use another attribute.")

    @property
    def inputs(self) -> list[KerasTensor]:
        """Input placeholders, flat."""
        return tree.flatten(self._inputs_structure)

    @property
    def outputs(self) -> list[KerasTensor]:
        """Output placeholders, flat."""
        return tree.flatten(self._outputs_structure)

    @property
    def input(self) -> Any:
        """Input placeholders, in the structure that was given."""
        return self._inputs_structure

    @property
    def output(self) -> Any:
        """Output placeholders, in the structure that was given."""
        return self._outputs_structure

    @property
    def input_shape(self) -> Any:
        """Shapes of the inputs."""
        return tree.map_structure(lambda x: x.shape, self._inputs_structure)

    @property
    def output_shape(self) -> Any:
        """Shapes of the outputs."""
        return tree.map_structure(lambda x: x.shape, self._outputs_structure)

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, flat."""
        return [x.name for x in self.inputs]

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs in logs: keys of a dict, else of the layers that give them."""
        structure = self._outputs_structure
        if isinstance(structure, dict):
            flat_keys = [k for k in sorted(structure) for _ in tree.flatten(structure[k])]
            return [str(k) for k in flat_keys]
        return [self._network.maker(x).name for x in self.outputs]

    # -- calling -----------------------------------------------------------------------

    def build(self, input_shape: Any = None) -> None:
        """Do nothing: its layers are built."""
        self.built = True

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        flat = check_structure(self, inputs, self._inputs_structure)
        masks = [None] * len(flat) if mask is None else tree.flatten(mask)
        values: dict[KerasTensor, Value] = {}
        for i, (placeholder, x, m) in enumerate(zip(self.inputs, flat, masks)):
            values[placeholder] = fit_input(self, i, placeholder, x, m)
        cut = remat.is_cut(self)
        self._network.run(values, network_cuts(self._network.calls, self.outputs) if cut else ())
        return tree.map_structure(lambda x: values[x], self._outputs_structure)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return None  # its last layers have set the masks

    # -- configuration -----------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        """Return layers and how they are connected."""
        made_by = type(self).__init__
        if made_by is not Functional.__init__ and made_by is not Model.__init__:
            return Layer.get_config(self)  # the constructor draws the network itself
        return functional_config(self)

    def get_build_config(self) -> None:
        """Return None: it is built from its placeholders."""
        return None


def _inputs_for_inner_tensors(inputs: Any) -> dict[KerasTensor, InputLayer]:
    """Return input layers that stand for placeholders which a layer makes."""
    replaced = {}
    for x in tree.flatten(inputs):
        if x.node is None or not isinstance(x.node.target, InputLayer):
            layer = InputLayer(
                batch_shape=x.shape, dtype=x.dtype, name=uniquify(f"input_for_{x.name}")
            )
            replaced[x] = layer
    return replaced
