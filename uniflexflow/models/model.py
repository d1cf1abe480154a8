"""Model: a layer that can be trained, saved and summarised.

``Model(inputs, outputs)`` gives a Functional model; a subclass writes its own ``call``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from uniflexflow import tree
from uniflexflow.ir import Value
from uniflexflow.layers import auto_config
from uniflexflow.layers.base import Layer
from uniflexflow.layers.shapes import as_shape, shape_to_placeholders
from uniflexflow.ops.dispatch import as_value, cast_to
from uniflexflow.ops.mask import get_mask, set_mask
from uniflexflow.ops.symbolic import KerasTensor
from uniflexflow.training.trainer import Trainer


def _is_functional_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return (
        len(args) == 2
        or (len(args) == 1 and "outputs" in kwargs)
        or ("inputs" in kwargs and "outputs" in kwargs)
    )


def _with_functional_base(cls: type) -> None:
    """Put Functional in the place of Model among the bases of a user's class."""
    from uniflexflow.models.functional import Functional

    if cls is Model or not issubclass(cls, Model) or issubclass(cls, Functional):
        return
    for base in cls.__bases__:
        _with_functional_base(base)
    if not issubclass(cls, Functional):
        cls.__bases__ = tuple(Functional if b is Model else b for b in cls.__bases__)


class Model(Trainer, Layer):
    """A network that can be trained.

    ``Model(inputs, outputs)`` is a functional model of what lies between placeholders;
    both may be lists or dicts. A subclass makes layers in ``__init__`` and computes in
    ``call``.

    Parameters
    ----------
    inputs, outputs : nested structures of KerasTensor, optional
    trainable, dtype, name : as of Layer

    Examples
    --------
    >>> import uniflexflow as uff
    >>> x = uff.Input((3,))
    >>> model = uff.Model(x, uff.layers.Dense(2)(x))
    >>> model.count_params()
    8
    """

    _takes_remat_scope = False  # its layers do

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Model and _is_functional_call(args, kwargs):
            from uniflexflow.models.functional import Functional

            return Functional.__new__(Functional, *args, **kwargs)
        return Layer.__new__(cls, *args, **kwargs)

    def __init__(self, *args: Any, **kwargs: Any):
        from uniflexflow.models.functional import Functional

        Trainer.__init__(self)
        if _is_functional_call(args, kwargs) and not isinstance(self, Functional):
            _with_functional_base(type(self))
            Functional.__init__(self, *args, **kwargs)
            return
        if args:
            raise TypeError(
                f"{type(self).__name__}: expected no positional arguments for Model.__init__(), or "
                f"`inputs` and `outputs`; received {len(args)}."
            )
        Layer.__init__(self, **kwargs)

    # -- layers ------------------------------------------------------------------------

    @property
    def layers(self) -> list[Layer]:
        """The layers directly in this model."""
        return self._sublayers()

    @layers.setter
    def layers(self, _: Any) -> None:
        raise AttributeError("`Model.layers` is a reserved name; use another attribute.")

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """Return a layer by name or place.

        Raises
        ------
        ValueError
            If there is none.
        """
        if (name is None) == (index is None):
            raise ValueError("get_layer: provide either a layer `name` or an `index`.")
        layers = self.layers
        if index is not None:
            if not -len(layers) <= index < len(layers):
                raise ValueError(
                    f"Was asked to retrieve layer at index {index} but model '{self.name}' only "
                    f"has {len(layers)} layers."
                )
            return layers[index]
        for layer in layers:
            if layer.name == name:
                return layer
        raise ValueError(
            f"No such layer: {name}. Existing layers are: {[layer.name for layer in layers]}."
        )

    #: names of the outputs in logs; None until they are known
    output_names: list[str] | None = None

    def build(self, input_shape: Any = None) -> None:
        """Make all weights for inputs of this shape (or list or dict of shapes)."""
        self._build_arguments = ((input_shape,), {})
        if input_shape is None or type(self).call is Layer.call:
            self.built = True
            return
        from uniflexflow.ops.symbolic import compute_output_spec

        inputs = shape_to_placeholders(as_shape(input_shape), self.compute_dtype)
        self.built = True  # the call below must not come here again
        try:
            compute_output_spec(lambda x: self._call_on_values((x,), {}), (inputs,), {})
        except BaseException:
            self.built = False
            raise

    build.has_own_scope = True  # that of its call

    def _build_for(self, arguments: dict[str, Any]) -> None:
        if type(self).build is Model.build:
            from uniflexflow.layers import call

            shape = call.shapes_of(next(iter(arguments.values()), None))
            self._build_arguments = ((shape,), {})
            self.built = True  # by its call, which comes next
        else:
            super()._build_for(arguments)

    # -- files -------------------------------------------------------------------------

    def save(self, filepath: Any, overwrite: bool = True) -> None:
        """Write the model to a ``.keras`` file; see `uniflexflow.saving.save_model`."""
        from uniflexflow.saving import save_model

        save_model(self, filepath, overwrite)

    def save_weights(self, filepath: Any, overwrite: bool = True) -> None:
        """Write the weights to a ``.weights.h5`` file; see `uniflexflow.saving.save_weights`."""
        from uniflexflow.saving import save_weights

        save_weights(self, filepath, overwrite)

    def load_weights(self, filepath: Any, skip_mismatch: bool = False) -> None:
        """Read the weights from a file; see `uniflexflow.saving.load_weights`."""
        from uniflexflow.saving import load_weights

        load_weights(self, filepath, skip_mismatch)

    # -- description -------------------------------------------------------------------

    def summary(
        self,
        line_length: int | None = None,
        positions: Sequence[float] | None = None,
        print_fn: Callable[[str], Any] | None = None,
        expand_nested: bool = False,
        show_trainable: bool = False,
        layer_range: Sequence[str] | None = None,
    ) -> None:
        """Print a table of the layers, their output shapes and numbers of parameters.

        Parameters
        ----------
        line_length : int, optional
            Width of the table.
        positions : sequence of float, optional
            Where each column ends, as shares of the width.
        print_fn : callable, optional
            Gets the whole text as one string; default: standard output.
        expand_nested : bool
            Whether the layers of nested models are shown too.
        show_trainable : bool
            Whether there is a column that says which layers are trained.
        layer_range : (str, str), optional
            Names (or regular expressions) of the first and the last layer to show.
        """
        from uniflexflow.models.summary import print_summary

        print_summary(
            self,
            line_length=line_length,
            positions=positions,
            print_fn=print_fn,
            expand_nested=expand_nested,
            show_trainable=show_trainable,
            layer_range=layer_range,
        )

    def to_json(self, **kwargs: Any) -> str:
        """Return the configuration as JSON; keyword arguments are those of json.dumps."""
        from uniflexflow.saving.serialization import serialize_keras_object

        return json.dumps(serialize_keras_object(self), **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Return what ``from_config`` needs; by default the constructor's arguments."""
        return Layer.get_config(self)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Make a model from what ``get_config`` returned, with new weights."""
        from uniflexflow.models.functional import Functional, functional_from_config
        from uniflexflow.saving.registry import CustomObjectScope
        from uniflexflow.saving.serialization import deserialize_arguments

        is_functional = all(
            key in config for key in ("name", "layers", "input_layers", "output_layers")
        )
        takes_functional = not auto_config.is_builtin(
            next(c for c in cls.__mro__ if "__init__" in c.__dict__)
        )
        with CustomObjectScope(custom_objects):
            if is_functional and not takes_functional:
                if cls is Model:
                    cls = Functional
                return functional_from_config(cls, config)
            return auto_config.construct(cls, deserialize_arguments(config))


def model_from_json(json_string: str, custom_objects: dict[str, Any] | None = None) -> Any:
    """Make a model from what ``to_json`` returned, with new weights."""
    from uniflexflow.saving.serialization import deserialize_keras_object

    return deserialize_keras_object(json.loads(json_string), custom_objects)


def fit_input(
    model: Model, i: int, placeholder: KerasTensor, x: Any, mask: Any, any_size: bool = False
) -> Value:
    """Return an input as its placeholder promises it, with its mask.

    It gets the placeholder's dtype, and a last axis of size 1 more or less.

    Raises
    ------
    ValueError
        If the shape is another one; with ``any_size``, if the number of axes is.
    """
    value = as_value(x)
    want, got = placeholder.shape, value.shape
    if len(got) == len(want) + 1 and got[-1] == 1:
        value = value[..., 0]
    elif len(got) == len(want) - 1 and want and want[-1] == 1:
        value = value[..., None]
    fits = len(value.shape) == len(want) and (
        any_size or all(w is None or w == n for w, n in zip(want, value.shape))
    )
    if not fits:
        raise ValueError(
            f"Input {i} with name '{placeholder.name}' of model '{model.name}' is incompatible "
            f"with the model: expected shape={want}, found shape={tuple(got)}"
        )
    value = cast_to(value, placeholder.dtype)
    mask = get_mask(x) if mask is None else mask
    if mask is not None:
        set_mask(value, mask)
    return value


def check_structure(model: Model, inputs: Any, expected: Any) -> list[Any]:
    """Return the leaves of a model's inputs in the order of its own.

    A list may be given for a dict, and a dict with the inputs' names for a list.

    Raises
    ------
    ValueError
        If inputs are missing.
    """
    names = [t.name for t in tree.flatten(expected)]
    if isinstance(inputs, dict):
        keys = sorted(expected) if isinstance(expected, dict) else names
        missing = [k for k in keys if k not in inputs]
        if missing:
            raise ValueError(
                f"Missing data for input '{missing[0]}' of model '{model.name}': received a dict "
                f"with the keys {list(inputs)}; expected {keys}."
            )
        return [x for k in keys for x in tree.flatten(inputs[k])]
    if isinstance(expected, dict) and tree.is_nested(inputs):
        # a list stands for the dict's values in the order in which they were written
        flat = dict(zip(expected, inputs))
        if len(inputs) == len(expected):
            return [x for k in sorted(expected) for x in tree.flatten(flat[k])]
    flat = tree.flatten(inputs)
    if len(flat) != len(names):
        raise ValueError(
            f"Model '{model.name}' expects {len(names)} input(s) {names}, but it received "
            f"{len(flat)} input tensors of shapes {[tuple(getattr(x, 'shape', ())) for x in flat]}."
        )
    return flat
