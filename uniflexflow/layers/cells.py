"""Recurrent cells: one step of SimpleRNN, GRU and LSTM, and stacks of cells.

A cell's step is in two parts: what depends on the inputs alone (``project``), which an
RNN layer does for all steps at once in one product, and the rest (``step``). With the usual
activations that rest is one operation over all steps (``run``), see ``ops/recurrent.py``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from uniflexflow import activations, constraints, initializers, ops, random, regularizers
from uniflexflow.layers.base import Layer
from uniflexflow.layers.core import positive
from uniflexflow.ops import recurrent


class _Cell(Layer):
    """Weights and dropout of all cells; ``_gates`` is how many blocks a kernel has."""

    _gates = 1

    def _set_cell(
        self,
        units: int,
        activation: Any,
        use_bias: bool,
        kernel_initializer: Any,
        recurrent_initializer: Any,
        bias_initializer: Any,
        kernel_regularizer: Any,
        recurrent_regularizer: Any,
        bias_regularizer: Any,
        kernel_constraint: Any,
        recurrent_constraint: Any,
        bias_constraint: Any,
        dropout: float,
        recurrent_dropout: float,
        seed: int | None,
    ) -> None:
        where = type(self).__name__
        self.units = positive(where, "units", units)
        self.activation = activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.recurrent_initializer = initializers.get(recurrent_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.recurrent_regularizer = regularizers.get(recurrent_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.recurrent_constraint = constraints.get(recurrent_constraint)
        self.bias_constraint = constraints.get(bias_constraint)
        for name, rate in (("dropout", dropout), ("recurrent_dropout", recurrent_dropout)):
            if not 0 <= rate <= 1:
                raise ValueError(f"{where}: `{name}` must be in [0, 1]; received {rate!r}.")
        self.dropout, self.recurrent_dropout = dropout, recurrent_dropout
        self.seed = seed
        self.seed_generator = self._make_seed_generator(seed)

    @property
    def state_size(self) -> Any:
        """Size of the state, or a list of sizes."""
        return self.units

    @property
    def output_size(self) -> int:
        """Size of the output."""
        return self.units

    def _bias_shape(self) -> tuple[int, ...]:
        return (self._gates * self.units,)

    def _bias_init(self) -> Any:
        return self.bias_initializer

    def build(self, input_shape: Any) -> None:
        width = self._gates * self.units
        self.kernel = self.add_weight(
            (input_shape[-1], width),
            self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            name="kernel",
        )
        self.recurrent_kernel = self.add_weight(
            (self.units, width),
            self.recurrent_initializer,
            regularizer=self.recurrent_regularizer,
            constraint=self.recurrent_constraint,
            name="recurrent_kernel",
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                self._bias_shape(),
                self._bias_init(),
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
                name="bias",
            )

    def get_initial_state(self, batch_size: int) -> list[Any]:
        """Return states of zeros."""
        sizes = self.state_size if isinstance(self.state_size, list) else [self.state_size]
        return [ops.zeros((batch_size, n), dtype=self.compute_dtype) for n in sizes]

    # -- one step, in parts --------------------------------------------------------------

    def project(self, inputs: Any, training: Any) -> Any:
        """Return what depends on the inputs (batch, ..., features) alone.

        With dropout, one pattern is used for all steps.
        """
        if training and self.dropout:
            shape = (None, *(1,) * (inputs.ndim - 2), None)
            inputs = random.dropout(inputs, self.dropout, shape, self.seed_generator)
        x = ops.matmul(inputs, self.kernel)
        bias = self._input_bias()
        return x if bias is None else x + bias

    def _input_bias(self) -> Any:
        return self.bias

    def recurrent_pattern(self, batch_size: int, training: Any) -> Any:
        """Return factors for the state by recurrent dropout, the same for all steps; or None."""
        if not (training and self.recurrent_dropout):
            return None
        ones = ops.ones((batch_size, self.units), dtype=self.compute_dtype)
        return random.dropout(ones, self.recurrent_dropout, None, self.seed_generator)

    def step(self, projected: Any, states: list[Any], pattern: Any) -> tuple[Any, list[Any]]:
        """Return the output and the new states."""
        raise NotImplementedError

    #: Names of the activations that ``run`` knows, by attribute.
    _run_activations: ClassVar[dict[str, str]] = {"activation": "tanh"}

    def can_run(self) -> bool:
        """Say whether ``run`` does what ``step`` does, step by step."""
        cls = next(c for c in type(self).__mro__ if "run" in vars(c))
        return type(self).step is cls.step is not _Cell.step and all(
            activations.name_of(getattr(self, attribute)) == name
            for attribute, name in self._run_activations.items()
        )

    def run(
        self, projected: Any, states: list[Any], mask: Any, go_backwards: bool
    ) -> tuple[Any, list[Any]]:
        """Return the outputs of all steps, each in its step's place, and the last states."""
        raise NotImplementedError

    def call(self, inputs: Any, states: Any, training: Any = False) -> tuple[Any, Any]:
        nested = isinstance(states, (list, tuple))
        pattern = self.recurrent_pattern(inputs.shape[0], training)
        out, new = self.step(
            self.project(inputs, training), list(states) if nested else [states], pattern
        )
        return out, new if nested else new[0]


def _dropped(h: Any, pattern: Any) -> Any:
    return h if pattern is None else h * pattern


class SimpleRNNCell(_Cell):
    """``h = activation(x @ kernel + h @ recurrent_kernel + bias)``.

    Parameters
    ----------
    units : int
    activation : str or callable
    use_bias : bool
    kernel_initializer, recurrent_initializer, bias_initializer : str or Initializer
    kernel_regularizer, recurrent_regularizer, bias_regularizer : Regularizer, optional
    kernel_constraint, recurrent_constraint, bias_constraint : Constraint, optional
    dropout, recurrent_dropout : float
        Share of the inputs, and of the state, that is dropped while training.
    seed : int, optional
    """

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self._set_cell(
            units,
            activation,
            use_bias,
            kernel_initializer,
            recurrent_initializer,
            bias_initializer,
            kernel_regularizer,
            recurrent_regularizer,
            bias_regularizer,
            kernel_constraint,
            recurrent_constraint,
            bias_constraint,
            dropout,
            recurrent_dropout,
            seed,
        )

    def step(self, projected: Any, states: list[Any], pattern: Any) -> tuple[Any, list[Any]]:
        h = ops.matmul(_dropped(states[0], pattern), self.recurrent_kernel)
        h = self.activation(projected + h)
        return h, [h]

    def run(
        self, projected: Any, states: list[Any], mask: Any, go_backwards: bool
    ) -> tuple[Any, list[Any]]:
        hs, h = recurrent.simple_rnn(
            projected, self.recurrent_kernel, states[0], mask, go_backwards
        )
        return hs, [h]


class LSTMCell(_Cell):
    """One step of a long short-term memory; gates in the order i, f, c, o.

    ``c = f * c + i * activation(...)``, ``h = o * activation(c)``.

    Parameters
    ----------
    units : int
    activation, recurrent_activation : str or callable
    use_bias : bool
    kernel_initializer, recurrent_initializer, bias_initializer : str or Initializer
    unit_forget_bias : bool
        Whether the forget gate's bias starts at 1.
    kernel_regularizer, recurrent_regularizer, bias_regularizer : Regularizer, optional
    kernel_constraint, recurrent_constraint, bias_constraint : Constraint, optional
    dropout, recurrent_dropout : float
        Share of the inputs, and of the state, that is dropped while training.
    seed : int, optional
    """

    _gates = 4
    _run_activations: ClassVar[dict[str, str]] = {
        "activation": "tanh",
        "recurrent_activation": "sigmoid",
    }

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self._set_cell(
            units,
            activation,
            use_bias,
            kernel_initializer,
            recurrent_initializer,
            bias_initializer,
            kernel_regularizer,
            recurrent_regularizer,
            bias_regularizer,
            kernel_constraint,
            recurrent_constraint,
            bias_constraint,
            dropout,
            recurrent_dropout,
            seed,
        )
        self.recurrent_activation = activations.get(recurrent_activation)
        self.unit_forget_bias = unit_forget_bias

    @property
    def state_size(self) -> list[int]:
        """Sizes of h and c."""
        return [self.units, self.units]

    def _bias_init(self) -> Any:
        if not self.unit_forget_bias:
            return self.bias_initializer

        def forget_one(shape: Any, dtype: str | None = None) -> np.ndarray:
            u = self.units
            return np.concatenate(
                [
                    self.bias_initializer((u,), dtype=dtype),
                    np.ones(u, dtype),
                    self.bias_initializer((2 * u,), dtype=dtype),
                ]
            )

        return forget_one

    def step(self, projected: Any, states: list[Any], pattern: Any) -> tuple[Any, list[Any]]:
        h, c = states
        z = projected + ops.matmul(_dropped(h, pattern), self.recurrent_kernel)
        i, f, g, o = ops.split(z, 4, axis=1)
        gate = self.recurrent_activation
        c = gate(f) * c + gate(i) * self.activation(g)
        h = gate(o) * self.activation(c)
        return h, [h, c]

    def run(
        self, projected: Any, states: list[Any], mask: Any, go_backwards: bool
    ) -> tuple[Any, list[Any]]:
        hs, h, c = recurrent.lstm(projected, self.recurrent_kernel, *states, mask, go_backwards)
        return hs, [h, c]


class GRUCell(_Cell):
    """One step of a gated recurrent unit; gates in the order z, r, h.

    ``h = z * h + (1 - z) * activation(...)``.

    Parameters
    ----------
    units : int
    activation, recurrent_activation : str or callable
    use_bias : bool
    kernel_initializer, recurrent_initializer, bias_initializer : str or Initializer
    kernel_regularizer, recurrent_regularizer, bias_regularizer : Regularizer, optional
    kernel_constraint, recurrent_constraint, bias_constraint : Constraint, optional
    dropout, recurrent_dropout : float
        Share of the inputs, and of the state, that is dropped while training.
    reset_after : bool
        Whether the reset gate is applied after the product with the recurrent kernel.
    seed : int, optional
    """

    _gates = 3
    _run_activations: ClassVar[dict[str, str]] = {
        "activation": "tanh",
        "recurrent_activation": "sigmoid",
    }

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self._set_cell(
            units,
            activation,
            use_bias,
            kernel_initializer,
            recurrent_initializer,
            bias_initializer,
            kernel_regularizer,
            recurrent_regularizer,
            bias_regularizer,
            kernel_constraint,
            recurrent_constraint,
            bias_constraint,
            dropout,
            recurrent_dropout,
            seed,
        )
        self.recurrent_activation = activations.get(recurrent_activation)
        self.reset_after = reset_after

    def _bias_shape(self) -> tuple[int, ...]:
        width = 3 * self.units
        return (2, width) if self.reset_after else (width,)

    def _input_bias(self) -> Any:
        if self.bias is None or not self.reset_after:
            return self.bias
        return self.bias[0]

    def step(self, projected: Any, states: list[Any], pattern: Any) -> tuple[Any, list[Any]]:
        (h,) = states
        u = self.units
        gate = self.recurrent_activation
        xz, xr, xh = ops.split(projected, 3, axis=1)
        dropped = _dropped(h, pattern)
        if self.reset_after:
            inner = ops.matmul(dropped, self.recurrent_kernel)
            if self.bias is not None:
                inner = inner + self.bias[1]
            hz, hr, hh = ops.split(inner, 3, axis=1)
            z, r = gate(xz + hz), gate(xr + hr)
            candidate = self.activation(xh + r * hh)
        else:
            inner = ops.matmul(dropped, self.recurrent_kernel[:, : 2 * u])
            hz, hr = ops.split(inner, 2, axis=1)
            z, r = gate(xz + hz), gate(xr + hr)
            hh = ops.matmul(r * dropped, self.recurrent_kernel[:, 2 * u :])
            candidate = self.activation(xh + hh)
        h = z * h + (1.0 - z) * candidate
        return h, [h]

    def can_run(self) -> bool:
        return self.reset_after and super().can_run()

    def run(
        self, projected: Any, states: list[Any], mask: Any, go_backwards: bool
    ) -> tuple[Any, list[Any]]:
        zeros = ops.zeros((3 * self.units,), dtype=self.compute_dtype)
        bias = zeros if self.bias is None else self.bias[1]
        hs, h = recurrent.gru(projected, self.recurrent_kernel, bias, states[0], mask, go_backwards)
        return hs, [h]


class StackedRNNCells(Layer):
    """Several cells as one: each takes the output of the one before.

    Parameters
    ----------
    cells : list of cells
    """

    def __init__(self, cells: Any, **kwargs: Any):
        super().__init__(**kwargs)
        for cell in cells:
            if not hasattr(cell, "state_size"):
                raise ValueError(
                    f"StackedRNNCells: every cell must have a `state_size`; received {cell!r}."
                )
        self.cells = list(cells)
        self.autocast = False  # each cell casts for itself

    @property
    def state_size(self) -> list[Any]:
        """Sizes of the cells' states."""
        return [cell.state_size for cell in self.cells]

    @property
    def output_size(self) -> Any:
        """Size of the output."""
        last = self.cells[-1]
        size = getattr(last, "output_size", last.state_size)
        return size[0] if isinstance(size, (list, tuple)) else size

    def build(self, input_shape: Any) -> None:
        for cell in self.cells:
            if not cell.built:
                cell.build(input_shape)
            size = getattr(cell, "output_size", cell.state_size)
            size = size[0] if isinstance(size, (list, tuple)) else size
            input_shape = (input_shape[0], size)

    def get_initial_state(self, batch_size: int) -> list[Any]:
        """Return states of zeros, one list per cell."""
        return [initial_state(cell, batch_size) for cell in self.cells]

    def call(self, inputs: Any, states: Any, training: Any = False) -> tuple[Any, Any]:
        new = []
        for cell, state in zip(self.cells, states):
            inputs, state = call_cell(cell, inputs, state, training)
            new.append(state)
        return inputs, new


def initial_state(cell: Any, batch_size: int) -> Any:
    """Return a cell's first state."""
    if hasattr(cell, "get_initial_state"):
        return cell.get_initial_state(batch_size=batch_size)
    sizes = cell.state_size if isinstance(cell.state_size, (list, tuple)) else [cell.state_size]
    return [ops.zeros((batch_size, n), dtype=cell.compute_dtype) for n in sizes]


def call_cell(cell: Any, inputs: Any, states: Any, training: Any) -> tuple[Any, Any]:
    """Call a cell of any class; return its output and the list of its new states."""
    if isinstance(cell, Layer) and cell._signature.takes("training"):
        out, new = cell(inputs, states, training=training)
    else:
        out, new = cell(inputs, states)
    return out, list(new) if isinstance(new, (list, tuple)) else [new]
