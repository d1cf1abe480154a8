"""Simplification: the same numbers from fewer and smaller nodes.

Rules are a table by operation; each looks at one node over its (already simplified)
inputs and gives something simpler, or None. What a rule makes is simplified in turn, so
one walk over the graph is enough. Equal nodes become one, and small constants are
computed. Results are equal up to the sign of zero and, for sums of scaled or equal
elements, up to rounding (and overflow, which may come earlier or later).

Runs before ``materialize``, whose copies this pass would take for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from uniflexflow.ir import CONSTANT, INPUT, Graph, Node, TensorSpec, Value, constant, rewrite
from uniflexflow.ops.dtypes import finfo, is_float
from uniflexflow.ops.registry import OPS

# A folded constant of at most this many elements is worth its memory.
MAX_FOLDED = 1024
_MAX_COMPARED = 64  # elements of constants that are compared with each other

Make = Callable[..., Value]
Inputs = tuple[Value, ...]
Rule = Callable[[Make, Inputs, dict[str, Any], TensorSpec], "Value | None"]

# -- what the rules ask ------------------------------------------------------------


def _made_by(value: Value, name: str) -> bool:
    return value.node.op.name == name


def _source(value: Value) -> Value:
    return value.node.inputs[0]


def _number(value: Value) -> Any:
    """Return the number that every element is, or None."""
    while value.node.op.name in ("broadcast_to", "reshape"):
        value = value.node.inputs[0]
    if value.node.op is CONSTANT and value.spec.size == 1:
        return value.node.attrs["array"].item()
    return None


def _as(make: Make, value: Value, spec: TensorSpec) -> Value | None:
    """Return a value broadcast to a spec; None if the dtype differs."""
    if value.spec == spec:
        return value
    return make("broadcast_to", value, shape=spec.shape) if value.dtype == spec.dtype else None


# -- arithmetic --------------------------------------------------------------------


def _add(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    a, b = inputs
    for x, y in ((a, b), (b, a)):
        if _number(y) == 0:
            return _as(make, x, spec)
    if _made_by(b, "negative"):
        return make("subtract", a, _source(b))
    if _made_by(a, "negative"):
        return make("subtract", b, _source(a))
    for x, y in ((a, b), (b, a)):
        if _made_by(y, "pad"):
            joined = _add_pad(make, x, y)
            if joined is not None:
                return joined
    return None


def _add_pad(make: Make, x: Value, pad: Value) -> Value | None:
    """Add what a slice's gradient is to that of the slice beside it: both stand side by side.

    Gradients of many slices of one tensor would else be as many tensors of its full size.
    """
    if _made_by(x, "pad"):
        return _side_by_side(make, x, pad)
    if _made_by(x, "add"):  # of several slices, which came in another order
        for one, other in (x.node.inputs, x.node.inputs[::-1]):
            if _made_by(one, "pad") and _made_by(other, "pad"):
                joined = _side_by_side(make, one, pad)
                if joined is not None:
                    return make("add", other, joined)
    return None


def _side_by_side(make: Make, one: Value, other: Value) -> Value | None:
    """Join two padded tensors if one starts where the other ends."""
    joined = _beside(make, one, other)
    return _beside(make, other, one) if joined is None else joined


def _beside(make: Make, first: Value, second: Value) -> Value | None:
    a, b = first.node.attrs, second.node.attrs
    x, y = _source(first), _source(second)
    if a["value"] or b["value"] or any(a["interior"]) or any(b["interior"]):
        return None
    apart = [
        i
        for i in range(first.ndim)
        if (a["low"][i], a["high"][i], x.shape[i]) != (b["low"][i], b["high"][i], y.shape[i])
    ]
    if len(apart) != 1 or a["low"][apart[0]] + x.shape[apart[0]] != b["low"][apart[0]]:
        return None
    (axis,) = apart
    parts = [part for v in (x, y) for part in (v.node.inputs if _joins(v, axis) else (v,))]
    high = (*a["high"][:axis], b["high"][axis], *a["high"][axis + 1 :])
    joined = make("concatenate", *parts, axis=axis)
    return make("pad", joined, low=a["low"], high=high, interior=a["interior"], value=a["value"])


def _joins(value: Value, axis: int) -> bool:
    return _made_by(value, "concatenate") and value.node.attrs["axis"] == axis


def _subtract(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    a, b = inputs
    if _number(b) == 0:
        return _as(make, a, spec)
    if _number(a) == 0:
        negative = make("negative", b)
        return _as(make, negative, spec)
    if _made_by(b, "negative"):
        return make("add", a, _source(b))
    return None


def _multiply(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    a, b = inputs
    for x, y in ((a, b), (b, a)):
        number = _number(y)
        if number == 1:
            return _as(make, x, spec)
        if number == -1 and spec.dtype != "uint8":
            return _as(make, make("negative", x), spec)
    if a is b:
        return make("square", a)
    if _made_by(a, "negative") and _made_by(b, "negative"):
        return make("multiply", _source(a), _source(b))
    return None


def _divide(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    a, b = inputs
    number = _number(b)
    if number == 1:
        return _as(make, a, spec)
    if number and math.isfinite(number) and abs(math.frexp(number)[0]) == 0.5:
        inverse = 1.0 / number  # exact for a power of two, as long as it stays normal
        if abs(inverse) >= float(finfo(spec.dtype).tiny) and math.isfinite(inverse):
            return _as(make, make("multiply", a, constant(inverse, b.dtype)), spec)
    return None


def _negative(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    (x,) = inputs
    if _made_by(x, "negative"):
        return _source(x)
    if _made_by(x, "subtract") and is_float(x.dtype):
        a, b = x.node.inputs
        return make("subtract", b, a)
    return None


def _where(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    condition, a, b = inputs
    if a is b:
        return _as(make, a, spec)
    chosen = _number(condition)
    if chosen is None:
        return None
    return _as(make, a if chosen else b, spec)


def _exact(source: str, target: str) -> bool:
    """Say whether every number of one dtype is one of the other."""
    return bool(np.can_cast(source, target, casting="safe")) and (source, target) != (
        "int64",
        "float64",
    )


def _cast(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    (x,) = inputs
    if x.dtype == spec.dtype:
        return x
    if _made_by(x, "cast") and _exact(_source(x).dtype, x.dtype):
        return make("cast", _source(x), dtype=spec.dtype)
    if _made_by(x, "broadcast_to"):
        return make("broadcast_to", make("cast", _source(x), dtype=spec.dtype), shape=spec.shape)
    return None


def _itself(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    return inputs[0]


def _before_broadcast(value: Value) -> Value:
    """Return what a value was broadcast from: smaller, or without leading axes of size 1."""
    node = value.node
    if node.op.name == "broadcast_to":
        return node.inputs[0]
    if node.op.name == "reshape" and value.shape[:1] == (1,):
        inner = node.inputs[0].shape
        extra = len(value.shape) - len(inner)
        if extra > 0 and value.shape == (1,) * extra + inner:
            return node.inputs[0]
    return value


def _narrow(make: Make, op: str, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    """Elementwise operations broadcast by themselves: read what was broadcast from."""
    sources = tuple([_before_broadcast(v) for v in inputs])
    if sources == inputs:
        return None
    out = make(op, *sources, **attrs)
    return out if out.spec == spec else make("broadcast_to", out, shape=spec.shape)


# -- shapes ------------------------------------------------------------------------


def _reshape(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    (x,) = inputs
    if x.shape == spec.shape:
        return x
    if _made_by(x, "reshape"):
        return make("reshape", _source(x), shape=spec.shape)
    if _made_by(x, "broadcast_to") and _source(x).spec.size == 1:
        return _spread_scalar(make, _source(x), spec)
    return None


def _spread_scalar(make: Make, scalar: Value, spec: TensorSpec) -> Value:
    if scalar.ndim:
        scalar = make("reshape", scalar, shape=())
    return make("broadcast_to", scalar, shape=spec.shape) if spec.shape else scalar


def _transpose(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    (x,), axes = inputs, attrs["axes"]
    if axes == tuple(range(len(axes))):
        return x
    if _made_by(x, "transpose"):
        inner = x.node.attrs["axes"]
        return make("transpose", _source(x), axes=tuple([inner[a] for a in axes]))
    moved = [a for a in axes if x.shape[a] != 1]
    if moved == sorted(moved):
        return make("reshape", x, shape=spec.shape)  # only axes of size 1 move
    if _made_by(x, "broadcast_to") and _source(x).spec.size == 1:
        return _spread_scalar(make, _source(x), spec)
    return None


def _broadcast_to(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    (x,) = inputs
    if x.shape == spec.shape:
        return x
    if _made_by(x, "broadcast_to"):
        return make("broadcast_to", _source(x), shape=spec.shape)
    if x.spec.size == spec.size:
        return make("reshape", x, shape=spec.shape)  # only axes of size 1 are new
    return None


def _slice(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    (x,) = inputs
    whole = x.shape == spec.shape and not any(attrs["start"])
    if whole and all(s == 1 or n <= 1 for s, n in zip(attrs["step"], x.shape)):
        return x
    if _made_by(x, "broadcast_to") and _source(x).spec.size == 1:
        return _spread_scalar(make, _source(x), spec)
    return None


def _pad(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    return inputs[0] if inputs[0].shape == spec.shape else None


def _concatenate(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    kept = [v for v in inputs if v.shape[attrs["axis"]]]
    if len(kept) == 1:
        return kept[0]
    return make("concatenate", *kept, axis=attrs["axis"]) if 0 < len(kept) < len(inputs) else None


# -- sums and products of matrices -------------------------------------------------


def _sum(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    (x,), axes = inputs, attrs["axes"]
    if all(x.shape[a] == 1 for a in axes):
        return make("reshape", x, shape=spec.shape)
    if _made_by(x, "broadcast_to"):
        return _sum_of_broadcast(make, x, axes, spec)
    if _made_by(x, "negative"):
        return make("negative", make("sum", _source(x), axes=axes))
    if _made_by(x, "multiply") or _made_by(x, "divide"):
        return _sum_of_scaled(make, x, axes)
    if _made_by(x, "subtract") and _is_mean(x.node.inputs[1], x.node.inputs[0], axes):
        return make("broadcast_to", constant(0, spec.dtype), shape=spec.shape)
    if _made_by(x, "sum"):
        inner = x.node.attrs["axes"]
        left = [i for i in range(_source(x).ndim) if i not in inner]
        both = tuple(sorted([*inner, *[left[a] for a in axes]]))
        return make("sum", _source(x), axes=both)
    return None


def _is_mean(m: Value, x: Value, axes: Any) -> bool:
    """Say whether m is the mean of x over axes: then the distances x - m add up to nothing.

    Gradients of normalisation ask for that sum; what would come out is rounding.
    """
    padded = (1,) * (x.ndim - m.ndim) + m.shape
    if padded != tuple([1 if i in axes else n for i, n in enumerate(x.shape)]):
        return False
    m = _without_reshape(m)
    count = math.prod(x.shape[a] for a in axes)
    if _made_by(m, "divide"):
        scaled = _number(m.node.inputs[1]) == count
    else:  # a power of two
        scaled = _made_by(m, "multiply") and _number(m.node.inputs[1]) == 1 / max(count, 1)
    total = _without_reshape(_source(m)) if scaled else m
    return (
        scaled
        and _made_by(total, "sum")
        and _source(total) is x
        and (total.node.attrs["axes"] == axes)
    )


def _without_reshape(value: Value) -> Value:
    while _made_by(value, "reshape"):
        value = _source(value)
    return value


def _sum_of_scaled(make: Make, x: Value, axes: Any) -> Value | None:
    """Take a factor that is the same along the axes out of the sum."""
    pairs = [x.node.inputs]
    if _made_by(x, "multiply"):
        pairs.append(x.node.inputs[::-1])
    for value, factor in pairs:
        sizes = (1,) * (x.ndim - factor.ndim) + factor.shape
        if value.shape == x.shape and all(sizes[a] == 1 for a in axes):
            kept = tuple([n for i, n in enumerate(sizes) if i not in axes])
            kept = () if factor.spec.size == 1 else kept
            total = make("sum", value, axes=axes)
            return make(x.node.op.name, total, make("reshape", factor, shape=kept))
    return None


def _sum_of_broadcast(make: Make, x: Value, axes: Any, spec: TensorSpec) -> Value | None:
    """Sum what there is, and multiply by how often it is there."""
    source = _source(x)
    extra = x.ndim - source.ndim
    count, real = 1, []
    for a in axes:
        inside = a - extra
        if inside >= 0:
            real.append(inside)
        if inside < 0 or source.shape[inside] != x.shape[a]:
            count *= x.shape[a]
    out = make("sum", source, axes=tuple(real)) if real else source
    if count != 1:
        out = make("multiply", out, constant(count, spec.dtype))
    return _as(make, out, spec)


def _matmul(make: Make, inputs: Inputs, attrs: Any, spec: TensorSpec) -> Value | None:
    """The product reads a transposed matrix as it lies."""
    flags = [attrs["transpose_a"], attrs["transpose_b"]]
    operands = list(inputs)
    for i, value in enumerate(inputs):
        if _made_by(value, "transpose"):
            n = value.ndim
            if value.node.attrs["axes"] == (*range(n - 2), n - 1, n - 2):
                operands[i], flags[i] = _source(value), not flags[i]
    if operands == list(inputs):
        return None
    return make("matmul", *operands, transpose_a=flags[0], transpose_b=flags[1])


RULES: dict[str, Rule] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "negative": _negative,
    "where": _where,
    "cast": _cast,
    "stop_gradient": _itself,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast_to": _broadcast_to,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "sum": _sum,
    "matmul": _matmul,
}

# Never computed beforehand: a number repeated is cheaper than its copies, and random
# numbers may be drawn by shares.
_NOT_FOLDED = frozenset({"broadcast_to", "random_uniform"})

# -- the walk ----------------------------------------------------------------------


class _Simplifier:
    """The nodes known so far, and how a new one is made of them."""

    def __init__(self) -> None:
        self.known: dict[Any, tuple[Value, ...]] = {}

    def make(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        """Return the simplest known value of ``op(*inputs, **attrs)``."""
        inputs = tuple([self.constant(v) if v.node.op is CONSTANT else v for v in inputs])
        return self.outputs(Node(OPS[op], inputs, attrs))[0]

    def outputs(self, node: Node) -> tuple[Value, ...]:
        """Return what stands for a node over simplified inputs: its own outputs or others."""
        key = (node.op.name, node.inputs, repr(node.attrs) if node.attrs else "")
        found = self.known.get(key)
        if found is None:
            better = self._better(node)
            found = node.outputs if better is None else better
            self.known[key] = found
        return found

    def _better(self, node: Node) -> tuple[Value, ...] | None:
        name, inputs = node.op.name, node.inputs
        if inputs and inputs[0].node.op is CONSTANT and self._foldable(node):
            return self._fold(node)
        if len(node.outputs) > 1:
            return None
        spec = node.outputs[0].spec
        rule = RULES.get(name)
        new = rule(self.make, inputs, node.attrs, spec) if rule is not None else None
        if new is None and node.op.elementwise:
            new = _narrow(self.make, name, inputs, node.attrs, spec)
        return None if new is None else (new,)

    def _foldable(self, node: Node) -> bool:
        return (
            node.op.name not in _NOT_FOLDED
            and all([v.node.op is CONSTANT for v in node.inputs])
            and sum([v.spec.size for v in node.outputs]) <= MAX_FOLDED
        )

    def _fold(self, node: Node) -> tuple[Value, ...]:
        arrays = [v.node.attrs["array"] for v in node.inputs]
        with np.errstate(all="ignore"):
            out = node.op.reference(*arrays, **node.attrs)
        outs = out if isinstance(out, tuple) else (out,)
        return tuple([self.constant(constant(x, v.dtype)) for x, v in zip(outs, node.outputs)])

    def constant(self, value: Value) -> Value:
        """Return the first constant that is equal to this one, if it is small."""
        if value.spec.size > _MAX_COMPARED:
            return value
        key = (value.spec, value.node.attrs["array"].tobytes())
        return self.known.setdefault(key, (value,))[0]


def simplify(graph: Graph) -> Graph:
    """Return a graph of the same inputs, outputs and updates with less to compute."""
    simplifier = _Simplifier()

    def rule(node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if node.op is INPUT:
            return None
        if node.op is CONSTANT:
            return (simplifier.constant(node.outputs[0]),)
        if inputs != node.inputs:
            node = node.over(inputs)
        return simplifier.outputs(node)

    return rewrite(graph, rule)
