"""Sequential: layers one after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from uniflexflow import tree
from uniflexflow.ir import region, scope
from uniflexflow.layers import remat
from uniflexflow.layers.base import Layer
from uniflexflow.layers.input_layer import InputLayer
from uniflexflow.layers.shapes import as_shape
from uniflexflow.models.cuts import best_cuts, elements
from uniflexflow.models.model import Model, check_structure, fit_input
from uniflexflow.ops.dtypes import floatx, is_float
from uniflexflow.ops.mask import set_mask
from uniflexflow.ops.symbolic import KerasTensor


class Sequential(Model):
    """A stack of layers.

    Parameters
    ----------
    layers : iterable of Layer, optional
        The first may be an ``Input``; without it, the weights are made at the first call.
    trainable, name : as of Layer

    Examples
    --------
    >>> import uniflexflow as uff
    >>> model = uff.Sequential([uff.Input((3,)), uff.layers.Dense(2)])
    >>> model.output_shape
    (None, 2)
    """

    _has_cuts = True

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return Layer.__new__(cls, *args, **kwargs)

    def __init__(
        self,
        layers: Iterable[Any] | None = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ):
        from uniflexflow.training.trainer import Trainer

        Trainer.__init__(self)
        Layer.__init__(self, trainable=trainable, name=name, **kwargs)
        self.autocast = False  # each layer casts for itself
        self._stack: list[Layer] = []
        self._tensors: list[KerasTensor] = []  # the input's, then each layer's output
        if isinstance(layers, Layer) or isinstance(layers, KerasTensor):
            layers = [layers]
        for layer in layers or ():
            self._append(layer)
        self._draw()

    # -- the stack ---------------------------------------------------------------------

    def add(self, layer: Any, rebuild: bool = True) -> None:
        """Put a layer at the end.

        Parameters
        ----------
        layer : Layer or the result of ``Input``
        rebuild : bool
            Whether its weights are made now, if the input's shape is known.
        """
        self._append(layer)
        if rebuild:
            self._draw()

    def _append(self, layer: Any) -> None:
        if isinstance(layer, KerasTensor) and layer.node is not None:
            layer = layer.node.target
        if not isinstance(layer, Layer):
            raise ValueError(
                "Only instances of Layer can be added to a Sequential model. "
                f"Model '{self.name}' received: {layer!r} (of type {type(layer)})"
            )
        if any(layer.name == other.name for other in self._stack):
            raise ValueError(
                f"All layers added to a Sequential model should have unique names. Name "
                f"'{layer.name}' is already the name of a layer in model '{self.name}'. Update "
                "the `name` argument to pass a unique name."
            )
        if isinstance(layer, InputLayer) and self._stack:
            raise ValueError(
                f"Sequential model '{self.name}' has already been given an input; the layer "
                f"'{layer.name}' must be the first."
            )
        if not self._stack and not isinstance(layer, InputLayer):
            shape = layer._first_input_shape
            if shape is not None:
                self._stack.append(InputLayer(shape=tuple(shape), dtype=_input_dtype(layer)))
            elif getattr(layer, "inputs", None) and len(layer.inputs) == 1:
                first = layer.inputs[0]
                self._stack.append(InputLayer(batch_shape=first.shape, dtype=first.dtype))
        self._stack.append(layer)
        self._functions.clear()

    def pop(self, rebuild: bool = True) -> Layer:
        """Remove the last layer and return it."""
        if not self.layers:
            raise ValueError(f"Model '{self.name}' has no layer to remove.")
        layer = self._stack.pop()
        self._functions.clear()
        del self._tensors[len(self._stack) :]
        if not self.layers:
            self._tensors, self.built = [], False
        elif rebuild:
            self._draw()
        return layer

    @property
    def layers(self) -> list[Layer]:
        """The layers, without the input."""
        return [x for x in self._stack if not isinstance(x, InputLayer)]

    @layers.setter
    def layers(self, _: Any) -> None:
        raise AttributeError("`Sequential.layers` is a reserved name; use `add` and `pop`.")

    def _draw(self) -> None:
        """Call the layers that are new on placeholders, if the input is known."""
        if not self._stack or not isinstance(self._stack[0], InputLayer):
            return
        if not self._tensors:
            self._tensors = [self._stack[0].output]
        with scope(self.name):
            for layer in self._stack[len(self._tensors) :]:
                x = layer(self._tensors[-1])
                if not isinstance(x, KerasTensor):
                    raise ValueError(
                        "All layers in a Sequential model should have a single output tensor. "
                        f"Layer '{layer.name}' of model '{self.name}' gives {x!r}."
                    )
                self._tensors.append(x)
        self.built = len(self._stack) > 1
        if not self._trainable:
            self.trainable = False

    # -- building and calling ----------------------------------------------------------

    def build(self, input_shape: Any = None) -> None:
        """Make the weights for inputs of this shape, the batch axis included."""
        if self._stack and isinstance(self._stack[0], InputLayer):
            self._draw()
            return
        if input_shape is None or not self._stack:
            raise ValueError(
                f"Sequential model '{self.name}' has no input shape: pass one to build(), or "
                "make an Input its first layer."
            )
        shape = as_shape(input_shape)
        if not isinstance(shape, tuple):
            raise ValueError(
                f"Sequential model '{self.name}' takes one input; build() received the shapes "
                f"{input_shape!r}."
            )
        first = InputLayer(batch_shape=shape, dtype=_input_dtype(self._stack[0]))
        self._stack.insert(0, first)
        try:
            self._draw()
        except BaseException:
            self._stack.pop(0)
            self._tensors = []
            raise

    build.has_own_scope = True

    def _build_for(self, arguments: dict[str, Any]) -> None:
        inputs = tree.flatten(next(iter(arguments.values())))
        shape = tuple(getattr(inputs[0], "shape", ())) if inputs else ()
        if self._needs_batch_size():
            self.build(shape)
        else:
            self.build((None, *shape[1:]))

    def _needs_batch_size(self) -> bool:
        return any(getattr(layer, "stateful", False) for layer in self._flatten_layers())

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        if self._tensors:
            placeholder = self._tensors[0]
            (x,) = check_structure(self, inputs, placeholder)
            # a stack goes over other sizes than it was built for, if its layers do
            inputs = fit_input(self, 0, placeholder, x, mask, any_size=True)
        elif mask is not None:
            set_mask(inputs, mask)
        start, layers = 0, self.layers
        for stop in self._cuts():
            with region():
                for layer in layers[start:stop]:
                    inputs = layer(inputs)
            start = stop
        for layer in layers[start:]:  # not computed again: its gradient comes next
            inputs = layer(inputs)
        return inputs

    def _cuts(self) -> tuple[int, ...]:
        if not (remat.is_cut(self) and self._tensors):
            return ()
        sizes = [elements(x) for x in self._tensors[1:]]
        return best_cuts(sizes, sizes)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return None  # its last layer has set the mask

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.layers:
            raise ValueError(
                f"Sequential model '{self.name}' has no layers; add one before calling it."
            )
        return super().__call__(*args, **kwargs)

    # -- placeholders ------------------------------------------------------------------

    def _drawn(self, what: str) -> list[KerasTensor]:
        if len(self._tensors) < 2:
            raise AttributeError(
                f"Sequential model '{self.name}' has no defined {what} yet: it has no input shape. "
                "Call build(), or make an Input its first layer."
            )
        return self._tensors

    @property
    def inputs(self) -> list[KerasTensor]:
        """The input placeholder, in a list."""
        return [self._drawn("inputs")[0]]

    @property
    def outputs(self) -> list[KerasTensor]:
        """The output placeholder, in a list."""
        return [self._drawn("outputs")[-1]]

    @property
    def input(self) -> KerasTensor:
        """The input placeholder."""
        return self._drawn("input")[0]

    @property
    def output(self) -> KerasTensor:
        """The output placeholder."""
        return self._drawn("output")[-1]

    @property
    def input_shape(self) -> Any:
        """Shape of the input."""
        return self.input.shape

    @property
    def output_shape(self) -> Any:
        """Shape of the output."""
        return self.output.shape

    @property
    def input_names(self) -> list[str]:
        """Name of the input, in a list."""
        return [self.input.name]

    @property
    def output_names(self) -> list[str]:
        """Name of the output in logs, in a list."""
        return [self.layers[-1].name]

    # -- configuration -----------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        """Return the layers and the input's shape."""
        from uniflexflow.saving.serialization import serialize_keras_object

        if type(self).__init__ is not Sequential.__init__:
            return Layer.get_config(self)
        config = {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": self._dtype_config(),
            "layers": [serialize_keras_object(layer) for layer in self._stack],
        }
        if self._tensors:
            config["build_input_shape"] = list(self._tensors[0].shape)
        return config

    def get_build_config(self) -> dict[str, Any] | None:
        """Return the input's shape."""
        return {"input_shape": self._tensors[0].shape} if self._tensors else None

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Make a model from what ``get_config`` returned, with new weights."""
        from uniflexflow.saving.registry import CustomObjectScope
        from uniflexflow.saving.serialization import deserialize_keras_object

        if "layers" not in config or cls.__init__ is not Sequential.__init__:
            return super().from_config(config, custom_objects)
        with CustomObjectScope(custom_objects):
            layers = [
                deserialize_keras_object({k: v for k, v in c.items() if k != "build_config"})
                for c in config["layers"]
            ]
        extra = {k: config[k] for k in ("name", "trainable", "dtype") if k in config}
        model = cls(layers, **extra)
        shape = config.get("build_input_shape")
        if shape is not None and not model.built and layers:
            model.build(as_shape(shape))
        return model


def _input_dtype(layer: Layer) -> str:
    """Return the dtype of an input placeholder in front of a layer.

    In bfloat16 whole numbers beyond 256 would be lost before a layer could read them.
    """
    dtype = layer.compute_dtype
    return dtype if is_float(dtype) and dtype != "bfloat16" else floatx()
