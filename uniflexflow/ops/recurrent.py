"""Recurrent layers over whole sequences: LSTM, GRU and the simple recurrence.

Each is a pair of primitives: ``lstm`` runs over the steps of a batch of sequences,
``lstm_gradient`` back over them. The loops in ``recurrence.py`` are their meaning.

``x`` (batch, steps, gates * units) is the inputs' part, inputs @ kernel + bias, of all
gates side by side; ``recurrent`` (units, gates * units) multiplies the state. Where a
``mask`` (batch, steps) is False, a step leaves the state as it is. With
``go_backwards`` the steps are taken from the last to the first; what belongs to a step
stays in the step's place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from uniflexflow.ir import Indices, Node, TensorSpec, Value, apply
from uniflexflow.ops import recurrence
from uniflexflow.ops.dispatch import as_value, cast_to, meet
from uniflexflow.ops.dtypes import is_float
from uniflexflow.ops.pull_back import is_zero, pull_back
from uniflexflow.ops.reduction import sum as sum_over
from uniflexflow.ops.registry import OPS, primitive
from uniflexflow.ops.shaping import RESHAPE, broadcast_to, reshape
from uniflexflow.ops.slicing import concatenate

# -- rules ---------------------------------------------------------------------------------


def _reference(loop: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arrays, **attrs: loop(recurrence.ARRAYS, *arrays, **attrs)


def _through(loop: Callable[..., Any], node: Node, grads: Sequence[Value]) -> list[Value | None]:
    """Return the gradients of a node's inputs by its loop, written out step by step."""
    # as values of their own, so that nothing is followed beyond the node's inputs
    own = [apply(RESHAPE, v, shape=v.shape) for v in node.inputs]
    return pull_back(loop(recurrence.SYMBOLS, *own, **node.attrs), grads, own)


def _split_by_batch(weights: Sequence[int]) -> Callable[[Node], Indices]:
    """Sequences are independent; the inputs numbered in ``weights`` belong to all of them."""

    def labels(value: Value, whole: bool = False) -> tuple[Any, ...]:
        return (None if whole else "batch",) + (None,) * (value.ndim - 1)

    return lambda node: Indices(
        tuple(labels(v, k in weights) for k, v in enumerate(node.inputs)),
        tuple(labels(v) for v in node.outputs),
    )


def _check(
    name: str,
    gates: int,
    sequences: TensorSpec,
    recurrent: TensorSpec,
    others: Sequence[TensorSpec],
    mask: TensorSpec | None,
    bias: TensorSpec | None = None,
) -> None:
    """Raise unless sequences (batch, steps, gates * units) and what goes with them fit.

    ``others`` are states (batch, units).
    """
    shape, dtype = sequences.shape, sequences.dtype
    if not is_float(dtype) or {x.dtype for x in (recurrent, *others)} != {dtype}:
        got = ", ".join(str(x) for x in (sequences, recurrent, *others))
        raise TypeError(f"{name}: the operands must share one float dtype; received {got}.")
    if len(shape) != 3 or not shape[1] or not shape[2] or shape[2] % gates:
        raise ValueError(
            f"{name}: the projected inputs have the shape {shape}; expected (batch, steps, "
            f"{gates} * units), with at least one step and one unit."
        )
    units = shape[2] // gates
    if recurrent.shape != (units, shape[2]):
        raise ValueError(
            f"{name}: a recurrent kernel of shape {recurrent.shape} does not fit inputs of shape "
            f"{shape}; expected {(units, shape[2])}."
        )
    if bias is not None and bias != TensorSpec((shape[2],), dtype):
        raise ValueError(f"{name}: the bias is {bias}; expected {dtype}[{shape[2]}].")
    for x in others:
        if x.shape != (shape[0], units):
            raise ValueError(
                f"{name}: a state of shape {x.shape} does not fit inputs of shape {shape}; "
                f"expected {(shape[0], units)}."
            )
    if mask is not None and mask != TensorSpec(shape[:2], "bool"):
        raise ValueError(f"{name}: the mask is {mask}; expected bool{list(shape[:2])}.")


def _check_rest(
    name: str, states: TensorSpec, rest: Sequence[TensorSpec], sequences: bool
) -> TensorSpec | None:
    """Check the gradient of all steps' states, if there is one; return the mask."""
    if len(rest) not in (int(sequences), sequences + 1):
        raise ValueError(
            f"{name}: received {len(rest)} operands after the states' gradients; expected "
            f"{'the gradient of all states and ' if sequences else ''}at most a mask."
        )
    dhs, mask = recurrence.given(rest, sequences)
    if dhs is not None and dhs != states:
        raise ValueError(f"{name}: the gradient of all states is {dhs}; expected {states}.")
    return mask


def _states(sequences: TensorSpec, gates: int) -> TensorSpec:
    batch, steps, width = sequences.shape
    return TensorSpec((batch, steps, width // gates), sequences.dtype)


def _kernel_gradient(states: Value, first: Value, dz: Value, go_backwards: bool) -> Value:
    """Return the recurrent kernel's gradient: one product over all steps.

    ``states`` are those after each step, ``dz`` the gradient of the products with the kernel.
    """
    batch, steps, units = states.shape
    start = reshape(first, (batch, 1, units))
    parts = [states[:, 1:], start] if go_backwards else [start, states[:, : steps - 1]]
    before = reshape(concatenate(parts, axis=1), (batch * steps, units))
    flat = reshape(dz, (batch * steps, dz.shape[2]))
    return apply(OPS["matmul"], before, flat, transpose_a=True, transpose_b=False)


def _all_steps(grad: Value) -> list[Value]:
    """Return the operand of a gradient primitive: none if only the last state counts."""
    return [] if is_zero(grad) else [grad]


# -- LSTM ----------------------------------------------------------------------------------


def _lstm_infer(
    x: TensorSpec,
    recurrent: TensorSpec,
    h: TensorSpec,
    c: TensorSpec,
    mask: TensorSpec | None = None,
    *,
    go_backwards: bool,
) -> tuple[TensorSpec, ...]:
    _check("lstm", 4, x, recurrent, (h, c), mask)
    states = _states(x, 4)
    return h, c, states, states, x


def _lstm_gradient(
    node: Node, dh: Value, dc: Value, dhs: Value, dcs: Value, dgates: Value
) -> tuple[Value | None, ...]:
    if not (is_zero(dcs) and is_zero(dgates)):  # of a gradient: they are nobody else's
        return tuple(_through(recurrence.lstm, node, (dh, dc, dhs, dcs, dgates)))
    _, recurrent, h, c, *mask = node.inputs
    _, _, hs, cs, gates = node.outputs
    go_backwards, every = node.attrs["go_backwards"], _all_steps(dhs)
    operands = (gates, cs, recurrent, c, dh, dc, *every, *mask)
    dx, dh, dc = apply(LSTM_GRADIENT, *operands, sequences=bool(every), go_backwards=go_backwards)
    kernel = _kernel_gradient(hs, h, dx, go_backwards)
    return dx, kernel, dh, dc, *[None for _ in mask]


# i, f, g, o = the four parts of x[t] + h recurrent, g by tanh, the others by sigmoid;
# c = f c + i g, h = o tanh(c). Gives the last h and c, h and c after each step, the gates.
# Hochreiter, Schmidhuber, "Long short-term memory" (1997); Gers et al. (2000) for f.
LSTM = primitive(
    "lstm",
    infer=_lstm_infer,
    reference=_reference(recurrence.lstm),
    gradient=_lstm_gradient,
    indices=_split_by_batch((1,)),
)


def _lstm_gradient_infer(
    gates: TensorSpec,
    cs: TensorSpec,
    recurrent: TensorSpec,
    c: TensorSpec,
    dh: TensorSpec,
    dc: TensorSpec,
    *rest: TensorSpec,
    sequences: bool,
    go_backwards: bool,
) -> tuple[TensorSpec, ...]:
    mask = _check_rest("lstm_gradient", cs, rest, sequences)
    _check("lstm_gradient", 4, gates, recurrent, (c, dh, dc), mask)
    return gates, dh, dc


# From the last step to the first, with d the gradient of c:
#   d += dh o (1 - tanh(c)^2);  di = d g i (1 - i);  df = d c' f (1 - f);
#   dg = d i (1 - g^2);  do = dh tanh(c) o (1 - o);  c' the c before the step
# then dh = (di df dg do) recurrent^T and d = d f for the step before. Gives the gradients of
# x, of the first h and of the first c.
LSTM_GRADIENT = primitive(
    "lstm_gradient",
    infer=_lstm_gradient_infer,
    reference=_reference(recurrence.lstm_back),
    gradient=lambda node, *grads: tuple(_through(recurrence.lstm_back, node, grads)),
    indices=_split_by_batch((2,)),
)


# -- GRU -----------------------------------------------------------------------------------


def _gru_infer(
    x: TensorSpec,
    recurrent: TensorSpec,
    bias: TensorSpec,
    h: TensorSpec,
    mask: TensorSpec | None = None,
    *,
    go_backwards: bool,
) -> tuple[TensorSpec, ...]:
    _check("gru", 3, x, recurrent, (h,), mask, bias)
    states = _states(x, 3)
    return h, states, x, states


def _gru_gradient(
    node: Node, dh: Value, dhs: Value, dgates: Value, dinner: Value
) -> tuple[Value | None, ...]:
    if not (is_zero(dgates) and is_zero(dinner)):
        return tuple(_through(recurrence.gru, node, (dh, dhs, dgates, dinner)))
    _, recurrent, _, h, *mask = node.inputs
    _, hs, gates, inner = node.outputs
    go_backwards, every = node.attrs["go_backwards"], _all_steps(dhs)
    operands = (gates, inner, hs, recurrent, h, dh, *every, *mask)
    dx, dy, dh = apply(GRU_GRADIENT, *operands, sequences=bool(every), go_backwards=go_backwards)
    kernel = _kernel_gradient(hs, h, dy, go_backwards)
    return dx, kernel, sum_over(dy, (0, 1)), dh, *[None for _ in mask]


# xz, xr, xa = the parts of x[t]; hz, hr, n = those of h recurrent + bias;
# z = sigmoid(xz + hz), r = sigmoid(xr + hr), a = tanh(xa + r n), h = z h + (1 - z) a.
# Gives the last h, h after each step, the gates (z r a), and n of each step.
# Cho et al. (2014), with the reset after the product, as cuDNN has it.
GRU = primitive(
    "gru",
    infer=_gru_infer,
    reference=_reference(recurrence.gru),
    gradient=_gru_gradient,
    indices=_split_by_batch((1, 2)),
)


def _gru_gradient_infer(
    gates: TensorSpec,
    inner: TensorSpec,
    hs: TensorSpec,
    recurrent: TensorSpec,
    h: TensorSpec,
    dh: TensorSpec,
    *rest: TensorSpec,
    sequences: bool,
    go_backwards: bool,
) -> tuple[TensorSpec, ...]:
    mask = _check_rest("gru_gradient", hs, rest, sequences)
    _check("gru_gradient", 3, gates, recurrent, (h, dh), mask)
    return gates, gates, dh


# From the last step to the first, with h' the state before the step:
#   dz = dh (h' - a) z (1 - z);  da = dh (1 - z) (1 - a^2);  dr = da n r (1 - r)
# then dh = dh z + (dz dr da*r) recurrent^T for the step before. Gives the gradients of x
# (dz dr da), of the products with the recurrent kernel (dz dr da*r) and of the first h.
GRU_GRADIENT = primitive(
    "gru_gradient",
    infer=_gru_gradient_infer,
    reference=_reference(recurrence.gru_back),
    gradient=lambda node, *grads: tuple(_through(recurrence.gru_back, node, grads)),
    indices=_split_by_batch((3,)),
)


# -- the simple recurrence -----------------------------------------------------------------


def _simple_rnn_infer(
    x: TensorSpec,
    recurrent: TensorSpec,
    h: TensorSpec,
    mask: TensorSpec | None = None,
    *,
    go_backwards: bool,
) -> tuple[TensorSpec, ...]:
    _check("simple_rnn", 1, x, recurrent, (h,), mask)
    return h, x


def _simple_rnn_gradient(node: Node, dh: Value, dhs: Value) -> tuple[Value | None, ...]:
    _, recurrent, h, *mask = node.inputs
    hs, go_backwards, every = node.outputs[1], node.attrs["go_backwards"], _all_steps(dhs)
    dx, dh = apply(
        SIMPLE_RNN_GRADIENT, hs, recurrent, dh, *every, *mask,
        sequences=bool(every), go_backwards=go_backwards,
    )  # fmt: skip
    return dx, _kernel_gradient(hs, h, dx, go_backwards), dh, *[None for _ in mask]


# h = tanh(x[t] + h recurrent). Gives the last h, and h after each step. Elman (1990).
SIMPLE_RNN = primitive(
    "simple_rnn",
    infer=_simple_rnn_infer,
    reference=_reference(recurrence.simple_rnn),
    gradient=_simple_rnn_gradient,
    indices=_split_by_batch((1,)),
)


def _simple_rnn_gradient_infer(
    hs: TensorSpec,
    recurrent: TensorSpec,
    dh: TensorSpec,
    *rest: TensorSpec,
    sequences: bool,
    go_backwards: bool,
) -> tuple[TensorSpec, ...]:
    mask = _check_rest("simple_rnn_gradient", hs, rest, sequences)
    _check("simple_rnn_gradient", 1, hs, recurrent, (dh,), mask)
    return hs, dh


# From the last step to the first: dx[t] = dh (1 - h^2), dh = dx[t] recurrent^T.
SIMPLE_RNN_GRADIENT = primitive(
    "simple_rnn_gradient",
    infer=_simple_rnn_gradient_infer,
    reference=_reference(recurrence.simple_rnn_back),
    gradient=lambda node, *grads: tuple(_through(recurrence.simple_rnn_back, node, grads)),
    indices=_split_by_batch((1,)),
)


# -- what layers call ----------------------------------------------------------------------


def _operands(
    x: Any, recurrent: Any, bias: Any, states: Sequence[Any], mask: Any
) -> tuple[Value, ...]:
    """Return a primitive's inputs: one dtype, and states and mask of the whole batch."""
    x, recurrent, *others = meet(x, recurrent, *([] if bias is None else [bias]), *states)
    if mask is not None:
        mask = broadcast_to(cast_to(as_value(mask), "bool"), x.shape[:2])
    first = len(others) - len(states)
    shape = (x.shape[0], recurrent.shape[0])
    wide = [broadcast_to(s, shape) for s in others[first:]]
    return x, recurrent, *others[:first], *wide, *([] if mask is None else [mask])


def lstm(
    x: Any, recurrent: Any, h: Any, c: Any, mask: Any = None, go_backwards: bool = False
) -> tuple[Value, Value, Value]:
    """Run a long short-term memory over sequences.

    Parameters
    ----------
    x : tensor of shape (batch, steps, 4 * units)
        Inputs times kernel plus bias; gates in the order i, f, g, o.
    recurrent : tensor of shape (units, 4 * units)
    h, c : tensors of shape (batch, units)
        The states before the first step.
    mask : boolean tensor of shape (batch, steps), optional
        Where it is False, the states stay as they are.
    go_backwards : bool
        Whether steps are taken from the last to the first.

    Returns
    -------
    hs, h, c : tensors
        h after each step, in the step's place; h and c after the last.
    """
    outputs = apply(LSTM, *_operands(x, recurrent, None, (h, c), mask), go_backwards=go_backwards)
    return outputs[2], outputs[0], outputs[1]


def gru(
    x: Any, recurrent: Any, bias: Any, h: Any, mask: Any = None, go_backwards: bool = False
) -> tuple[Value, Value]:
    """Run a gated recurrent unit over sequences, reset gate after the product.

    Parameters
    ----------
    x : tensor of shape (batch, steps, 3 * units)
        Inputs times kernel plus bias; gates in the order z, r, h.
    recurrent : tensor of shape (units, 3 * units)
    bias : tensor of shape (3 * units,)
        Added to the products with ``recurrent``.
    h : tensor of shape (batch, units)
        The state before the first step.
    mask, go_backwards
        As in ``lstm``.

    Returns
    -------
    hs, h : tensors
        h after each step, in the step's place; h after the last.
    """
    outputs = apply(GRU, *_operands(x, recurrent, bias, (h,), mask), go_backwards=go_backwards)
    return outputs[1], outputs[0]


def simple_rnn(
    x: Any, recurrent: Any, h: Any, mask: Any = None, go_backwards: bool = False
) -> tuple[Value, Value]:
    """Run ``h = tanh(x + h @ recurrent)`` over sequences.

    Parameters
    ----------
    x : tensor of shape (batch, steps, units)
        Inputs times kernel plus bias.
    recurrent : tensor of shape (units, units)
    h : tensor of shape (batch, units)
        The state before the first step.
    mask, go_backwards
        As in ``lstm``.

    Returns
    -------
    hs, h : tensors
        h after each step, in the step's place; h after the last.
    """
    operands = _operands(x, recurrent, None, (h,), mask)
    h, hs = apply(SIMPLE_RNN, *operands, go_backwards=go_backwards)
    return hs, h
