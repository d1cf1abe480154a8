"""WeightOwner: the weights of a layer and of the layers in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from uniflexflow import constraints, initializers, regularizers
from uniflexflow.ir import scope
from uniflexflow.layers.tracking import StateHolder, owned, unique
from uniflexflow.ops.dtypes import canonical_dtype, is_float
from uniflexflow.ops.variable import Variable
from uniflexflow.random import SeedGenerator


class WeightOwner:
    """The part of a Layer that makes, finds, reads and writes weights.

    Its attributes are looked through for weights and layers; see ``tracking``.
    """

    name: str
    built: bool
    variable_dtype: str
    _in_build: bool
    _trainable: bool
    _trainable_variables: list[Variable]
    _non_trainable_variables: list[Variable]

    def add_weight(
        self,
        shape: Sequence[int] | int | None = None,
        initializer: Any = None,
        dtype: str | None = None,
        trainable: bool = True,
        regularizer: Any = None,
        constraint: Any = None,
        name: str | None = None,
        autocast: bool = True,
    ) -> Variable:
        """Make a weight of this layer.

        Parameters
        ----------
        shape : tuple of int
            A scalar by default.
        initializer : str, Initializer or callable, optional
            Default: ``"glorot_uniform"`` for floats, zeros for others.
        dtype : str, optional
            Default: the layer's.
        trainable : bool
        regularizer : Regularizer, optional
            Its value is added to the layer's losses.
        constraint : Constraint, optional
            Applied after each update by the optimizer.
        name : str, optional
        autocast : bool
            Whether the layer reads it in the dtype in which it computes.

        Returns
        -------
        Variable
        """
        self._refuse_late("weight")
        if self._calling and not self._in_build:
            raise ValueError(
                f"Layer '{self.name}': weight {name!r} is made in `call`, which would make another "
                "one each time it is traced. Make it in __init__() or build()."
            )
        shape = () if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
        if any(n is None for n in shape):
            raise ValueError(
                f"Layer '{self.name}': weight {name!r} would have the shape {shape}; all sizes "
                "must be known. Give the inputs a shape with these sizes."
            )
        dtype = canonical_dtype(dtype or self.variable_dtype)
        if initializer is None:
            initializer = "glorot_uniform" if is_float(dtype) else "zeros"
        initializer = initializers.get(initializer)

        def make() -> Variable:
            return Variable(initializer, shape, dtype, trainable, name, autocast)

        if self._in_build:
            variable = make()
        else:
            with scope(self.name):
                variable = make()
        variable.regularizer = regularizers.get(regularizer)
        variable.constraint = constraints.get(constraint)
        self._track_variable(variable)
        if not self.trainable:
            variable.trainable = False
        return variable

    def _make_seed_generator(self, seed: int | None) -> SeedGenerator:
        """Return a random state of this layer's, named after it."""
        with scope(self.name):
            return SeedGenerator(seed)

    def _track_variable(self, variable: Variable) -> None:
        mine = self._trainable_variables + self._non_trainable_variables
        if not any(v is variable for v in mine):
            if variable.trainable:
                self._trainable_variables.append(variable)
            else:
                self._non_trainable_variables.append(variable)

    def _refuse_late(self, what: str) -> None:
        if self.__dict__.get("_locked") and not self.__dict__.get("_in_build"):
            raise ValueError(
                f"Layer '{self.name}' is already built: a new {what} can't be added to it. "
                "Make all weights and sublayers in __init__() or build()."
            )

    def __setattr__(self, name: str, value: Any) -> None:
        is_new = "_trainable_variables" not in self.__dict__
        if is_new and isinstance(value, (Variable, WeightOwner)):
            raise RuntimeError(
                f"Class {type(self).__name__}: call super().__init__() in its constructor before "
                f"it gets `{name}`, which has weights."
            )
        if isinstance(value, Variable):
            known = [*self._trainable_variables, *self._non_trainable_variables]
            if not any(v is value for v in known):
                self._refuse_late("weight")
                self._track_variable(value)
        elif isinstance(value, WeightOwner) and self.__dict__.get(name) is not value:
            self._refuse_late("layer")
        object.__setattr__(self, name, value)

    def _sublayers(self) -> list[Any]:
        """Layers that this one holds, in the order of assignment."""
        return [x for x in owned(self, WeightOwner) if x is not self]

    def _flatten_layers(self) -> list[Any]:
        """Return this layer and all below it, each once, parents first."""
        found: dict[int, Any] = {}
        stack: list[Any] = [self]
        while stack:
            layer = stack.pop()
            if id(layer) not in found:
                found[id(layer)] = layer
                stack.extend(reversed(layer._sublayers()))
        return list(found.values())

    def _own_weights(self) -> list[Variable]:
        created = [*self._trainable_variables, *self._non_trainable_variables]
        return unique([*created, *owned(self, Variable)])

    @property
    def weights(self) -> list[Variable]:
        """All weights: this layer's trainable, then non-trainable ones, then sublayers'."""
        return unique([v for layer in self._flatten_layers() for v in layer._own_weights()])

    @property
    def trainable_weights(self) -> list[Variable]:
        """Weights that training changes; none if the layer is not trainable."""
        return [v for v in self.weights if v.trainable] if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Variable]:
        """Weights that training does not change by gradients."""
        trainable = {id(v) for v in self.trainable_weights}
        return [v for v in self.weights if id(v) not in trainable]

    trainable_variables = trainable_weights

    @property
    def variables(self) -> list[Variable]:
        """All weights, and the state of random generators and metrics."""
        return unique([*self.weights, *[v for s in self._state_holders() for v in s.variables]])

    @property
    def non_trainable_variables(self) -> list[Variable]:
        """Non-trainable weights, and the state of random generators and metrics."""
        trainable = {id(v) for v in self.trainable_weights}
        return [v for v in self.variables if id(v) not in trainable]

    def _state_holders(self) -> list[Any]:
        """Random generators and other state, then metrics, of this layer and all below."""
        from uniflexflow.metrics.metric import Metric  # metrics stand beside layers

        layers = self._flatten_layers()
        seeds = [s for layer in layers for s in owned(layer, (SeedGenerator, StateHolder))]
        metrics = [m for layer in layers for m in owned(layer, Metric)]
        return unique([*seeds, *metrics])

    @property
    def trainable(self) -> bool:
        """Whether training changes the weights of this layer and of those below it."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = bool(value)
        for variable in self._trainable_variables:
            variable.trainable = bool(value)
        for layer in self._sublayers():
            layer.trainable = value

    def get_weights(self) -> list[np.ndarray]:
        """Return copies of the weights' numbers, in the order of ``weights``."""
        return [v.numpy() for v in self.weights]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Replace the weights' numbers; in the order of ``weights``."""
        mine = self.weights
        if len(weights) != len(mine):
            raise ValueError(
                f"You called `set_weights(weights)` on layer '{self.name}' with a weight list "
                f"of length {len(weights)}, but the layer was expecting {len(mine)} weights."
            )
        arrays = [np.asarray(w) for w in weights]
        for variable, array in zip(mine, arrays):
            if variable.shape != array.shape:
                raise ValueError(
                    f"Layer '{self.name}': weight '{variable.path}' has shape {variable.shape}, "
                    f"which is not compatible with the provided weight shape {array.shape}."
                )
        for variable, array in zip(mine, arrays):
            variable.array[...] = array

    def count_params(self) -> int:
        """Return the number of elements in all weights."""
        if not self.built:
            raise ValueError(
                f"You tried to call `count_params` on layer '{self.name}', but the layer isn't "
                f"built. You can build it manually via: `layer.build(input_shape)`."
            )
        return sum(math.prod(v.shape) for v in self.weights)
