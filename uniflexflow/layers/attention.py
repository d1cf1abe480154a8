"""Attention layers, and EinsumDense, of which their projections are made."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from uniflexflow import activations, constraints, initializers, ops, random, regularizers
from uniflexflow.layers.base import Layer
from uniflexflow.layers.core import positive
from uniflexflow.ops.attention import attention_weights, weighted_values
from uniflexflow.ops.attention_rules import hidden_score
from uniflexflow.ops.mask import set_mask


class EinsumDense(Layer):
    """A dense layer by Einstein's notation: ``activation(einsum(equation, x, kernel) + bias)``.

    Parameters
    ----------
    equation : str
        Such as ``"abc,cd->abd"``: input, kernel, output. An ellipsis may stand at the
        beginning or the end of input and output.
    output_shape : int or tuple of int or None
        Without the batch axis; sizes that the kernel does not make may be None.
    activation : str or callable, optional
    bias_axes : str, optional
        Output axes that the bias has, e.g. ``"d"``; no bias by default.
    kernel_initializer, bias_initializer : str or Initializer
    kernel_regularizer, bias_regularizer, activity_regularizer : Regularizer, optional
    kernel_constraint, bias_constraint : Constraint, optional
    """

    def __init__(
        self,
        equation: str,
        output_shape: Any,
        activation: Any = None,
        bias_axes: str | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.equation = equation.replace(" ", "")
        if isinstance(output_shape, int):
            output_shape = (output_shape,)
        self.output_shape = tuple(output_shape)
        self.activation = activations.get(activation)
        self.bias_axes = bias_axes
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.bias_constraint = constraints.get(bias_constraint)

    def build(self, input_shape: Any) -> None:
        kernel_shape, bias_shape = self._weight_shapes(tuple(input_shape))
        self.kernel = self.add_weight(
            kernel_shape,
            self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            name="kernel",
        )
        self.bias = None
        if bias_shape is not None:
            self.bias = self.add_weight(
                bias_shape,
                self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
                name="bias",
            )

    def _weight_shapes(self, input_shape: tuple[Any, ...]) -> tuple[Any, Any]:
        try:
            left, out = self.equation.split("->")
            term, kernel = left.split(",")
        except ValueError:
            raise ValueError(
                f"Layer '{self.name}': the equation {self.equation!r} must be of the form "
                "'input,kernel->output'."
            ) from None
        sizes: dict[str, Any] = {}
        full_output = (input_shape[0], *self.output_shape)
        for labels, shape in ((term, input_shape), (out, full_output)):
            before, ellipsis, after = labels.partition("...")
            if not ellipsis:
                before, after = labels, ""
            if len(before) + len(after) > len(shape) or (
                not ellipsis and len(before) != len(shape)
            ):
                raise ValueError(
                    f"Layer '{self.name}': {labels!r} of the equation {self.equation!r} does not "
                    f"fit the shape {shape}."
                )
            named = [*zip(before, shape), *zip(after, shape[len(shape) - len(after) :])]
            for label, n in named:
                if n is not None and sizes.get(label) not in (None, n):
                    raise ValueError(
                        f"Layer '{self.name}': label {label!r} of the equation "
                        f"{self.equation!r} is {sizes[label]} in the input and {n} in the output."
                    )
                sizes[label] = n if n is not None else sizes.get(label)
        missing = [c for c in kernel if sizes.get(c) is None]
        if missing:
            raise ValueError(
                f"Layer '{self.name}': the size of the kernel's label {missing[0]!r} of the "
                f"equation {self.equation!r} is not known from the input's shape {input_shape} "
                f"and output_shape={self.output_shape}."
            )
        kernel_shape = tuple(sizes[c] for c in kernel)
        if self.bias_axes is None:
            return kernel_shape, None
        places = [out.find(c) for c in self.bias_axes]
        if -1 in places:
            raise ValueError(
                f"Layer '{self.name}': bias_axes={self.bias_axes!r} must be labels of the output "
                f"{out!r}."
            )
        tail = out[min(places) :]
        bias_shape = tuple(sizes[c] if c in self.bias_axes else 1 for c in tail)
        return kernel_shape, bias_shape

    def call(self, inputs: Any) -> Any:
        x = ops.einsum(self.equation, inputs, self.kernel)
        if self.bias is not None:
            x = x + self.bias
        return self.activation(x)


class MultiHeadAttention(Layer):
    """Attention with several heads ("Attention is all you need", Vaswani et al., 2017).

    Parameters
    ----------
    num_heads : int
    key_dim : int
        Size of a head's queries and keys.
    value_dim : int, optional
        Size of a head's values; default: ``key_dim``.
    dropout : float
        Share of the attention weights that is dropped while training.
    use_bias : bool
    output_shape : int or tuple of int, optional
        Size of the output's last axis; default: the query's.
    attention_axes : int or (int,), optional
        Must be 1, the steps: inputs have the shape (batch, steps, features).
    flash_attention : bool, optional
        Whether not having the attention weights in memory is demanded: with True, dropout and
        ``return_attention_scores`` raise. They are not in memory anyway where neither is used.
    kernel_initializer, bias_initializer : str or Initializer
    kernel_regularizer, bias_regularizer, activity_regularizer : Regularizer, optional
    kernel_constraint, bias_constraint : Constraint, optional
    seed : int, optional
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: Any = None,
        attention_axes: Any = None,
        flash_attention: bool | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        for unsupported in ("sliding_window", "use_gate"):
            if kwargs.pop(unsupported, None):
                raise ValueError(f"MultiHeadAttention: `{unsupported}` is not supported.")
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        where = "MultiHeadAttention"
        self.num_heads = positive(where, "num_heads", num_heads)
        self.key_dim = positive(where, "key_dim", key_dim)
        self.value_dim = positive(where, "value_dim", value_dim or key_dim)
        if not 0 <= dropout < 1:
            raise ValueError(f"{where}: `dropout` must be in [0, 1); received {dropout!r}.")
        if flash_attention and dropout:
            raise ValueError(
                f"{where}: flash_attention=True can't be honoured with dropout={dropout!r}: the "
                "attention weights to drop are never in memory; leave one of them out."
            )
        if attention_axes not in (None, 1, (1,), [1]):
            raise ValueError(
                f"{where}: attention_axes={attention_axes!r} is not supported; expected 1."
            )
        self.dropout, self.use_bias = dropout, use_bias
        if isinstance(output_shape, (list, tuple)):
            if len(output_shape) != 1:
                raise ValueError(
                    f"{where}: output_shape={output_shape!r} is not supported; expected one size."
                )
            (output_shape,) = output_shape
        self.output_shape = output_shape
        self.attention_axes = attention_axes
        self.flash_attention = flash_attention
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.bias_constraint = constraints.get(bias_constraint)
        self.seed = seed
        self.seed_generator = self._make_seed_generator(seed)
        self.supports_masking = True

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        key_shape = value_shape if key_shape is None else key_shape
        for what, shape in (("query", query_shape), ("value", value_shape), ("key", key_shape)):
            if len(shape) != 3:
                raise ValueError(
                    f"Layer '{self.name}': `{what}` must have the shape (batch, steps, features); "
                    f"received {tuple(shape)}."
                )
        heads = self.num_heads
        self._query_dense = self._projection("query", "abc,cde->abde", (heads, self.key_dim), "de")
        self._key_dense = self._projection("key", "abc,cde->abde", (heads, self.key_dim), "de")
        self._value_dense = self._projection(
            "value", "abc,cde->abde", (heads, self.value_dim), "de"
        )
        size = query_shape[-1] if self.output_shape is None else self.output_shape
        self._output_dense = self._projection("attention_output", "abcd,cde->abe", (size,), "e")
        self._query_dense.build(query_shape)
        self._key_dense.build(key_shape)
        self._value_dense.build(value_shape)
        self._output_dense.build((*query_shape[:2], heads, self.value_dim))

    def _projection(self, name: str, equation: str, shape: Any, bias_axes: str) -> EinsumDense:
        # each gets a generator of its own from the initializer's configuration
        def again(initializer: Any) -> Any:
            if hasattr(initializer, "get_config"):
                return type(initializer).from_config(initializer.get_config())
            return initializer

        dense = EinsumDense(
            equation,
            output_shape=(None, *shape),
            bias_axes=bias_axes if self.use_bias else None,
            kernel_initializer=again(self.kernel_initializer),
            bias_initializer=again(self.bias_initializer),
            kernel_regularizer=self.kernel_regularizer,
            bias_regularizer=self.bias_regularizer,
            activity_regularizer=self.activity_regularizer,
            kernel_constraint=self.kernel_constraint,
            bias_constraint=self.bias_constraint,
            name=name,
            dtype=self.dtype_policy,
        )
        dense.supports_masking = True  # the masks are this layer's to use
        return dense

    @property
    def query_dense(self) -> EinsumDense:
        """The projection of the queries."""
        return self._query_dense

    @property
    def key_dense(self) -> EinsumDense:
        """The projection of the keys."""
        return self._key_dense

    @property
    def value_dense(self) -> EinsumDense:
        """The projection of the values."""
        return self._value_dense

    @property
    def output_dense(self) -> EinsumDense:
        """The projection of the result."""
        return self._output_dense

    def call(
        self,
        query: Any,
        value: Any,
        key: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: Any = None,
        use_causal_mask: bool = False,
    ) -> Any:
        key = value if key is None else key
        mask = self._join_masks(query_mask, value_mask, key_mask, attention_mask)
        q, k, v = self._query_dense(query), self._key_dense(key), self._value_dense(value)
        scores = None
        if return_attention_scores and self.flash_attention:
            raise ValueError(
                f"Layer '{self.name}': return_attention_scores=True: with flash_attention=True "
                "there are no attention scores in memory; leave one of them out."
            )
        if return_attention_scores or (training and self.dropout):
            out, scores = self._attend(q, k, v, mask, training, use_causal_mask)
        else:
            mask = None if mask is None else ops.expand_dims(mask, 1)
            out = ops.dot_product_attention(q, k, v, mask=mask, is_causal=use_causal_mask)
        out = self._output_dense(out)
        if query_mask is not None:
            set_mask(out, query_mask)
        return (out, scores) if return_attention_scores else out

    def _join_masks(self, query_mask: Any, value_mask: Any, key_mask: Any, given: Any) -> Any:
        """Return (batch, targets, sources), true where a query may look; or None."""
        masks = []
        if query_mask is not None:
            masks.append(ops.expand_dims(ops.cast(query_mask, "bool"), -1))
        for m in (value_mask, key_mask):
            if m is not None:
                masks.append(ops.expand_dims(ops.cast(m, "bool"), -2))
        if given is not None:
            given = ops.cast(given, "bool")
            masks.append(ops.expand_dims(given, 0) if given.ndim == 2 else given)
        if not masks:
            return None
        out = masks[0]
        for m in masks[1:]:
            out = ops.logical_and(out, m)
        return out

    def _attend(
        self, q: Any, k: Any, v: Any, mask: Any, training: Any, causal: bool
    ) -> tuple[Any, Any]:
        """Return the result and the weights (batch, heads, targets, sources)."""
        mask = None if mask is None else ops.expand_dims(mask, 1)
        weights = attention_weights(q, k, None, mask, 1.0 / math.sqrt(self.key_dim), causal)
        used = weights
        if training and self.dropout:
            used = random.dropout(weights, self.dropout, None, self.seed_generator)
        return weighted_values(used, v), weights

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return None  # set in call: the query's


class Attention(Layer):
    """Dot-product attention (Luong et al., 2015), without projections.

    Called on ``[query, value]`` or ``[query, value, key]``, each (batch, steps, features).

    Parameters
    ----------
    use_scale : bool
        Whether scores have a learned factor.
    score_mode : {"dot", "concat"}
        ``"concat"``: the sum of tanh(query + key) over the features.
    dropout : float
        Share of the attention weights that is dropped while training.
    seed : int, optional
    """

    def __init__(
        self,
        use_scale: bool = False,
        score_mode: str = "dot",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if score_mode not in ("dot", "concat"):
            raise ValueError(f"Attention: score_mode={score_mode!r}; expected 'dot' or 'concat'.")
        if not 0 <= dropout < 1:
            raise ValueError(f"Attention: `dropout` must be in [0, 1); received {dropout!r}.")
        self.use_scale, self.score_mode, self.dropout = use_scale, score_mode, dropout
        self.seed = seed
        self.seed_generator = self._make_seed_generator(seed)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        if len(input_shape) not in (2, 3):
            raise ValueError(
                f"Layer '{self.name}': expected [query, value] or [query, value, key]; received "
                f"{len(input_shape)} inputs."
            )
        self.scale = self.concat_score_weight = None
        if self.use_scale:
            self.scale = self.add_weight((), "ones", name="scale")
        if self.score_mode == "concat":
            self.concat_score_weight = self.add_weight((), "ones", name="concat_score_weight")

    def _scores(self, query: Any, key: Any) -> Any:
        if self.score_mode == "dot":
            scores = ops.matmul(query, ops.transpose(key, (0, 2, 1)))
            return scores if self.scale is None else scores * self.scale
        total = ops.expand_dims(query, -2) + ops.expand_dims(key, -3)
        total = total if self.scale is None else total * self.scale
        return self.concat_score_weight * ops.sum(ops.tanh(total), axis=-1)

    def call(
        self,
        inputs: Any,
        mask: Any = None,
        training: Any = False,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
    ) -> Any:
        query, value = inputs[0], inputs[1]
        key = inputs[2] if len(inputs) > 2 else value
        query_mask, value_mask = (mask[0], mask[1]) if mask is not None else (None, None)
        dropped = training and self.dropout
        if self.score_mode == "dot" and not return_attention_scores and not dropped:
            out = self._attend(query, key, value, value_mask, use_causal_mask)
            return self._without_masked_targets(out, query_mask)
        scores = self._scores(query, key)
        allowed = None
        if value_mask is not None:
            allowed = ops.expand_dims(ops.cast(value_mask, "bool"), -2)
        if use_causal_mask:
            triangle = np.tri(*scores.shape[-2:], dtype=bool)
            allowed = triangle if allowed is None else ops.logical_and(allowed, triangle)
        if allowed is not None:
            scores = ops.where(allowed, scores, hidden_score(scores.dtype))
        weights = ops.softmax(scores, axis=-1)
        if dropped:
            weights = random.dropout(weights, self.dropout, None, self.seed_generator)
        out = self._without_masked_targets(ops.matmul(weights, value), query_mask)
        return (out, weights) if return_attention_scores else out

    def _attend(self, query: Any, key: Any, value: Any, value_mask: Any, causal: bool) -> Any:
        """Return the result without ever having the scores in memory; one head."""
        query = query if self.scale is None else query * self.scale
        q, k, v = (ops.expand_dims(x, 2) for x in (query, key, value))
        mask = None if value_mask is None else ops.expand_dims(value_mask, (1, 2))
        out = ops.dot_product_attention(q, k, v, mask=mask, scale=1.0, is_causal=causal)
        return ops.squeeze(out, 2)

    def _without_masked_targets(self, out: Any, query_mask: Any) -> Any:
        if query_mask is None:
            return out
        return out * ops.cast(ops.expand_dims(query_mask, -1), out.dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return previous_mask[0] if isinstance(previous_mask, (list, tuple)) else None
