"""Layers around a layer: Bidirectional and TimeDistributed."""

from __future__ import annotations

from typing import Any

from uniflexflow import ops
from uniflexflow.layers.base import Layer
from uniflexflow.layers.input_spec import InputSpec


class Wrapper(Layer):
    """Base class of layers around one layer.

    Parameters
    ----------
    layer : Layer
    """

    def __init__(self, layer: Layer, **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(layer, Layer):
            raise ValueError(f"{type(self).__name__}: expected a Layer; received {layer!r}.")
        self.layer = layer

    def build(self, input_shape: Any = None) -> None:
        if not self.layer.built:
            self.layer.build(input_shape)


class TimeDistributed(Wrapper):
    """Apply a layer to each step of sequences (batch, steps, ...).

    Parameters
    ----------
    layer : Layer
    """

    def __init__(self, layer: Layer, **kwargs: Any):
        super().__init__(layer, **kwargs)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        if len(input_shape) < 3:
            raise ValueError(
                f"Layer '{self.name}': TimeDistributed takes inputs of at least 3 dimensions, "
                f"(batch, steps, ...); received the shape {tuple(input_shape)}."
            )
        super().build((input_shape[0], *input_shape[2:]))

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        batch, steps = inputs.shape[:2]
        kwargs = {}
        if mask is not None and self.layer._signature.takes("mask") and mask.ndim > 2:
            kwargs["mask"] = ops.reshape(mask, (batch * steps, *mask.shape[2:]))
        # steps and samples as one batch
        flat = ops.reshape(inputs, (batch * steps, *inputs.shape[2:]))
        out = self.layer(flat, training=training, **kwargs)
        return ops.reshape(out, (batch, steps, *out.shape[1:]))


class Bidirectional(Layer):
    """Run a recurrent layer forwards and another backwards, and join their outputs.

    Parameters
    ----------
    layer : recurrent Layer
        A copy of it runs forwards.
    merge_mode : {"concat", "sum", "mul", "ave"} or None
        None returns both outputs.
    weights : list of array, optional
        To start from: the forward layer's, then the backward layer's.
    backward_layer : recurrent Layer, optional
        Default: a copy of ``layer`` with ``go_backwards`` the other way round.
    """

    _not_in_config = ("weights",)

    def __init__(
        self,
        layer: Any,
        merge_mode: str | None = "concat",
        weights: Any = None,
        backward_layer: Any = None,
        **kwargs: Any,
    ):
        for given in (layer, backward_layer):
            if given is not None and not (
                isinstance(given, Layer) and hasattr(given, "go_backwards")
            ):
                raise ValueError(f"Bidirectional: expected a recurrent layer; received {given!r}.")
        if merge_mode not in ("sum", "mul", "ave", "concat", None):
            raise ValueError(
                f"Bidirectional: merge_mode={merge_mode!r}; expected 'sum', 'mul', 'ave', "
                "'concat' or None."
            )
        super().__init__(**kwargs)
        self.forward_layer = _copy(layer, "forward", layer.go_backwards)
        if backward_layer is None:
            self.backward_layer = _copy(layer, "backward", not layer.go_backwards)
        else:
            self.backward_layer = backward_layer
        self._has_own_backward = backward_layer is not None
        forward, backward = self.forward_layer, self.backward_layer
        if forward.go_backwards == backward.go_backwards:
            raise ValueError(
                "Bidirectional: the forward and the backward layer must have different "
                f"`go_backwards`; received {forward.go_backwards} for both."
            )
        for name in ("stateful", "return_sequences", "return_state"):
            a, b = getattr(forward, name), getattr(backward, name)
            if a != b:
                raise ValueError(
                    f"Bidirectional: `{name}` is {a} in the forward and {b} in the backward "
                    "layer; it must be equal."
                )
        for part in (forward, backward):
            if hasattr(part, "zero_output_for_mask"):
                part.zero_output_for_mask = part.return_sequences
        self.merge_mode = merge_mode
        self._initial_weights = None if weights is None else list(weights)
        self.input_spec = InputSpec(min_ndim=3)
        self.supports_masking = True

    @property
    def return_sequences(self) -> bool:
        """Whether all steps' outputs are returned."""
        return self.forward_layer.return_sequences

    @property
    def return_state(self) -> bool:
        """Whether the last states are returned too."""
        return self.forward_layer.return_state

    @property
    def stateful(self) -> bool:
        """Whether states are kept between batches."""
        return self.forward_layer.stateful

    def reset_state(self) -> None:
        """Set the states of stateful layers to zero."""
        self.forward_layer.reset_state()
        self.backward_layer.reset_state()

    reset_states = reset_state

    def build(self, sequences_shape: Any, initial_state_shape: Any = None) -> None:
        for part in (self.forward_layer, self.backward_layer):
            if not part.built:
                part.build(sequences_shape)
        if self._initial_weights is not None:
            half = len(self._initial_weights) // 2
            self.forward_layer.set_weights(self._initial_weights[:half])
            self.backward_layer.set_weights(self._initial_weights[half:])

    def call(
        self, sequences: Any, initial_state: Any = None, mask: Any = None, training: Any = None
    ) -> Any:
        first, second = None, None
        if initial_state is not None:
            half = len(initial_state) // 2
            first, second = list(initial_state[:half]), list(initial_state[half:])
        y = self.forward_layer(sequences, initial_state=first, mask=mask, training=training)
        z = self.backward_layer(sequences, initial_state=second, mask=mask, training=training)
        states: list[Any] = []
        if self.return_state:
            states = [*y[1:], *z[1:]]
            y, z = y[0], z[0]
        if self.return_sequences:
            z = ops.flip(z, axis=1)
        if self.merge_mode is None:
            out: Any = [y, z]
        elif self.merge_mode == "concat":
            out = ops.concatenate([y, z], axis=-1)
        elif self.merge_mode == "sum":
            out = y + z
        elif self.merge_mode == "ave":
            out = (y + z) * 0.5
        else:
            out = y * z
        if not self.return_state:
            return out
        return [*out, *states] if self.merge_mode is None else [out, *states]

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        mask = previous_mask if self.return_sequences else None
        masks = [mask, mask] if self.merge_mode is None else [mask]
        if self.return_state:
            masks += [None for _ in self.forward_layer.state_size] * 2
        return masks[0] if len(masks) == 1 else masks

    def get_config(self) -> dict[str, Any]:
        from uniflexflow.saving.serialization import serialize_keras_object

        config = {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": self._dtype_config(),
            "layer": serialize_keras_object(self.forward_layer),
            "merge_mode": self.merge_mode,
        }
        # a copy is built with the model, not from the pattern
        config["layer"].pop("build_config", None)
        if self._has_own_backward:
            config["backward_layer"] = serialize_keras_object(self.backward_layer)
            config["backward_layer"].pop("build_config", None)
        return config


def _copy(layer: Layer, direction: str, go_backwards: bool) -> Any:
    from uniflexflow.saving.serialization import live_functions

    with live_functions():
        config = layer.get_config()
    config["name"] = f"{direction}_{layer.name.removeprefix(direction + '_')}"
    config["go_backwards"] = go_backwards
    return type(layer).from_config(config)
