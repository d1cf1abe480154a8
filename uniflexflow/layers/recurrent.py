"""Recurrent layers: cells run over the steps of a sequence.

With a cell of ``cells.py`` the inputs' part of all steps is one matrix product and, with the
usual activations and without recurrent dropout, the rest is one operation over whole sequences.
Anything else is written out in the trace, step after step.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from uniflexflow import ops, tree
from uniflexflow.ir import scope
from uniflexflow.layers.base import Layer
from uniflexflow.layers.cells import (
    GRUCell,
    LSTMCell,
    SimpleRNNCell,
    StackedRNNCells,
    _Cell,
    call_cell,
    initial_state,
)
from uniflexflow.layers.input_spec import InputSpec
from uniflexflow.layers.tracking import StateHolder
from uniflexflow.ops.variable import Variable


class RNN(Layer):
    """A cell, run over the steps of sequences (batch, steps, ...).

    Parameters
    ----------
    cell : cell, or list of cells
        Called as ``cell(inputs, states)``; has ``state_size``.
    return_sequences : bool
        Whether the outputs of all steps are returned, or that of the last.
    return_state : bool
        Whether the last states are returned too.
    go_backwards : bool
        Whether steps are taken from the last to the first; outputs are in that order.
    stateful : bool
        Whether a batch starts with the last states of the one before.
    unroll : bool
        For compatibility; it changes nothing.
    zero_output_for_mask : bool
        Whether a masked step's output is zero, or that of the step before.
    """

    def __init__(
        self,
        cell: Any,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        zero_output_for_mask: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if isinstance(cell, (list, tuple)):
            cell = StackedRNNCells(cell, dtype=kwargs.get("dtype"))
        if not hasattr(cell, "state_size") or not callable(cell):
            raise ValueError(
                f"{type(self).__name__}: `cell` must be callable and have a `state_size`; "
                f"received {cell!r}."
            )
        self.cell = cell
        self.return_sequences, self.return_state = return_sequences, return_state
        self.go_backwards, self.stateful, self.unroll = go_backwards, stateful, unroll
        self.zero_output_for_mask = zero_output_for_mask
        self.states: StateHolder | None = None
        self.input_spec = InputSpec(min_ndim=3)
        self.supports_masking = True

    @property
    def state_size(self) -> list[Any]:
        """Sizes of the states."""
        size = self.cell.state_size
        return list(size) if isinstance(size, (list, tuple)) else [size]

    def build(self, sequences_shape: Any, initial_state_shape: Any = None) -> None:
        if isinstance(self.cell, Layer) and not self.cell.built:
            self.cell.build((sequences_shape[0], *sequences_shape[2:]))
        if not self.stateful:
            return
        batch = sequences_shape[0]
        if batch is None:
            raise ValueError(
                f"Layer '{self.name}': a stateful RNN needs a fixed batch size; received inputs of "
                f"shape {tuple(sequences_shape)}. Give it with Input(batch_shape=...)."
            )
        from uniflexflow.initializers import Zeros

        variables = [
            Variable(Zeros(), (batch, n), self.dtype, trainable=False, name=f"state_{i}")
            for i, n in enumerate(tree.flatten(self.state_size))
        ]
        self.states = StateHolder(variables)
        self.input_spec = InputSpec(min_ndim=3, axes={0: batch})

    def get_initial_state(self, batch_size: int) -> list[Any]:
        """Return the states that a sequence starts with."""
        state = initial_state(self.cell, batch_size)
        return list(state) if isinstance(state, (list, tuple)) else [state]

    def reset_state(self) -> None:
        """Set the states of a stateful layer to zero."""
        if self.states is not None:
            for v in self.states.variables:
                v.assign(ops.zeros(v.shape, dtype=v.dtype))

    reset_states = reset_state

    def call(
        self, sequences: Any, initial_state: Any = None, mask: Any = None, training: Any = False
    ) -> Any:
        if mask is not None:
            mask = tree.flatten(mask)[0]
        batch, steps = sequences.shape[:2]
        if steps == 0:
            raise ValueError(
                f"Layer '{self.name}': the sequences have no step; received the shape "
                f"{tuple(sequences.shape)}."
            )
        if initial_state is not None:
            states = initial_state if isinstance(initial_state, (list, tuple)) else [initial_state]
            states = list(states)
            if len(states) != len(self.state_size):
                raise ValueError(
                    f"Layer '{self.name}': expected {len(self.state_size)} initial states; "
                    f"received {len(states)}."
                )
        elif self.states is not None:
            flat = [v.value for v in self.states.variables]
            states = tree.pack_sequence_as(self.state_size, flat)
        else:
            states = self.get_initial_state(batch)
        out, states = self._run(sequences, states, mask, training, initial_state is None)
        if self.states is not None:
            for variable, value in zip(self.states.variables, tree.flatten(states)):
                variable.assign(value)
        return [out, *states] if self.return_state else out

    def _run(
        self, sequences: Any, states: Any, mask: Any, training: Any, fresh: bool
    ) -> tuple[Any, Any]:
        """Return the outputs (or the last one) and the last states.

        ``fresh`` says that no initial state was given.
        """
        cell = self.cell
        if not (isinstance(cell, _Cell) and type(cell).call is _Cell.call):
            return self._run_steps(
                sequences, states, mask, lambda x, s: call_cell(cell, x, s, training)
            )
        with scope(cell.name):
            projected = cell.project(sequences, training)
            pattern = cell.recurrent_pattern(sequences.shape[0], training)
            if pattern is None and cell.can_run():
                hs, states = cell.run(projected, list(states), mask, self.go_backwards)
                usual = type(cell).get_initial_state is _Cell.get_initial_state
                zeros = fresh and self.states is None and usual
                return self._outputs_of_run(hs, states[0], mask, zeros), states

        def step(x: Any, states: Any) -> tuple[Any, Any]:
            with scope(cell.name):
                return cell.step(x, states, pattern)

        return self._run_steps(projected, states, mask, step)

    def _outputs_of_run(self, hs: Any, last: Any, mask: Any, zeros: bool) -> Any:
        """Return the outputs, or the last one, from the states h of all steps.

        They differ where masked outputs are zero, and before the first step that counts: there
        the output is zero, h what the sequence started with (``zeros``: it was zero).
        """
        shown = None  # where an output is not zero, in the order of the steps
        if mask is not None and self.zero_output_for_mask:
            shown = self._ordered(mask)
        elif mask is not None and not zeros:
            shown = ops.cumsum(ops.cast(self._ordered(mask), "int32"), axis=1) > 0
        if not self.return_sequences:
            return last if shown is None else _where(shown[:, -1], last, ops.zeros_like(last))
        hs = self._ordered(hs)
        if shown is None:
            return hs
        return ops.where(ops.expand_dims(shown, -1), hs, ops.zeros_like(hs))

    def _ordered(self, x: Any) -> Any:
        """Return what belongs to steps in the order in which they are taken."""
        return ops.flip(x, axis=1) if self.go_backwards else x

    def _run_steps(
        self,
        sequences: Any,
        states: Any,
        mask: Any,
        step: Callable[[Any, Any], tuple[Any, Any]],
    ) -> tuple[Any, Any]:
        steps = sequences.shape[1]
        # steps first: each is then one block of memory
        by_step = ops.transpose(sequences, (1, 0, *range(2, sequences.ndim)))
        outputs: list[Any] = []
        order = range(steps)[::-1] if self.go_backwards else range(steps)
        last = None
        for t in order:
            out, new = step(by_step[t], states)
            if mask is not None:
                real = mask[:, t]
                if last is None or self.zero_output_for_mask:
                    last = ops.zeros(out.shape, dtype=out.dtype)
                out = _where(real, out, last)
                new = tree.map_structure(lambda a, b, real=real: _where(real, a, b), new, states)
                last = out
            states = new
            if self.return_sequences or t == order[-1]:
                outputs.append(out)
        return ops.stack(outputs, axis=1) if self.return_sequences else outputs[-1], states

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        mask = tree.flatten(previous_mask)[0] if previous_mask is not None else None
        mask = mask if self.return_sequences else None
        return [mask, *[None for _ in self.state_size]] if self.return_state else mask


def _where(real: Any, a: Any, b: Any) -> Any:
    return ops.where(ops.reshape(real, (real.shape[0], *(1,) * (a.ndim - 1))), a, b)


class _CellLayer(RNN):
    """An RNN whose cell has the layer's arguments."""

    _cell_class: type
    _not_in_config = ("cell", "zero_output_for_mask")
    _options = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll")

    def _init_with_cell(self, arguments: dict[str, Any]) -> None:
        arguments = {k: v for k, v in arguments.items() if k not in ("self", "__class__")}
        kwargs = arguments.pop("kwargs")
        implementation = kwargs.pop("implementation", 2)
        if implementation not in (0, 1, 2):
            raise ValueError(
                f"{type(self).__name__}: implementation={implementation!r}; expected 1 or 2."
            )
        if arguments.pop("use_cudnn", "auto") is True:
            raise ValueError(
                f"{type(self).__name__}: use_cudnn=True can't be honoured: there are no GPUs here."
            )
        regularizer = arguments.pop("activity_regularizer")
        options = {k: arguments.pop(k) for k in self._options}
        cell_options = {k: kwargs[k] for k in ("trainable", "dtype") if k in kwargs}
        cell = self._cell_class(**arguments, **cell_options)
        RNN.__init__(self, cell, **options, activity_regularizer=regularizer, **kwargs)

    def __getattr__(self, name: str) -> Any:
        # the cell's arguments are the layer's
        cell = self.__dict__.get("cell")
        if cell is not None and name in _cell_arguments(self._cell_class):
            return getattr(cell, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.setdefault("activity_regularizer", None)
        return config


def _cell_arguments(cls: type) -> list[str]:
    return list(inspect.signature(cls.__init__).parameters)[1:-1]


class SimpleRNN(_CellLayer):
    """A fully connected recurrent layer: ``h = activation(x @ kernel + h @ recurrent + bias)``.

    Parameters
    ----------
    units : int
    activation : str or callable
    use_bias : bool
    kernel_initializer, recurrent_initializer, bias_initializer : str or Initializer
    kernel_regularizer, recurrent_regularizer, bias_regularizer : Regularizer, optional
    activity_regularizer : Regularizer, optional
    kernel_constraint, recurrent_constraint, bias_constraint : Constraint, optional
    dropout, recurrent_dropout : float
        Share of the inputs, and of the state, that is dropped while training.
    return_sequences, return_state, go_backwards, stateful, unroll : bool
        As of RNN.
    seed : int, optional
    """

    _cell_class = SimpleRNNCell

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
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ):
        self._init_with_cell(dict(locals()))


class LSTM(_CellLayer):
    """Long short-term memory; gates in the order i, f, c, o.

    Parameters
    ----------
    units : int
    activation, recurrent_activation : str or callable
    use_bias : bool
    kernel_initializer, recurrent_initializer, bias_initializer : str or Initializer
    unit_forget_bias : bool
        Whether the forget gate's bias starts at 1.
    kernel_regularizer, recurrent_regularizer, bias_regularizer : Regularizer, optional
    activity_regularizer : Regularizer, optional
    kernel_constraint, recurrent_constraint, bias_constraint : Constraint, optional
    dropout, recurrent_dropout : float
        Share of the inputs, and of the state, that is dropped while training.
    seed : int, optional
    return_sequences, return_state, go_backwards, stateful, unroll : bool
        As of RNN.
    use_cudnn : {"auto", False}
        There is none.
    """

    _cell_class = LSTMCell

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
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        use_cudnn: Any = "auto",
        **kwargs: Any,
    ):
        self._init_with_cell(dict(locals()))


class GRU(_CellLayer):
    """Gated recurrent unit; gates in the order z, r, h.

    Parameters
    ----------
    units : int
    activation, recurrent_activation : str or callable
    use_bias : bool
    kernel_initializer, recurrent_initializer, bias_initializer : str or Initializer
    kernel_regularizer, recurrent_regularizer, bias_regularizer : Regularizer, optional
    activity_regularizer : Regularizer, optional
    kernel_constraint, recurrent_constraint, bias_constraint : Constraint, optional
    dropout, recurrent_dropout : float
        Share of the inputs, and of the state, that is dropped while training.
    seed : int, optional
    return_sequences, return_state, go_backwards, stateful, unroll : bool
        As of RNN.
    reset_after : bool
        Whether the reset gate is applied after the product with the recurrent kernel.
    use_cudnn : {"auto", False}
        There is none.
    """

    _cell_class = GRUCell

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
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        use_cudnn: Any = "auto",
        **kwargs: Any,
    ):
        self._init_with_cell(dict(locals()))
