"""Specs, operations, nodes and values: the words a graph is written in.

A value knows the node that made it and a node its input values, so a graph is found
by walking back from what is wanted. Everything here is frozen once made. Nodes are
numbered in order of creation; inputs are always made before the nodes that use them,
so that order is a topological one.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401  NumPy then knows "bfloat16"
import numpy as np

Shape = tuple[int, ...]
Attrs = Mapping[str, Any]

_next_id = itertools.count().__next__


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape and dtype of one tensor; the dtype is NumPy's name for it."""

    shape: Shape
    dtype: str

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Indices:
    """Loop indices of one node: which dimensions of its operands run together.

    Each operand has one label per dimension; equal labels are the same loop index, a
    ``None`` is a dimension that can't be split. An index that stands in inputs but not
    in an output is contracted there: where it is split, the output is a partial sum if
    ``contraction`` is ``"sum"``, and the split is not allowed if it is None.
    """

    inputs: tuple[tuple[Any, ...], ...]
    outputs: tuple[tuple[Any, ...], ...]
    contraction: str | None = "sum"


@dataclass(frozen=True, slots=True, eq=False)
class OpDef:
    """One primitive operation: its name and its rule for each stage.

    Attributes
    ----------
    name : str
    infer : callable
        ``infer(*input_specs, **attrs)`` gives the output's TensorSpec, or a tuple of
        them; raises ValueError for shapes that don't fit.
    reference : callable
        ``reference(*arrays, **attrs)`` gives the output array or a tuple of arrays:
        the meaning, in NumPy.
    gradient : callable or None
        ``gradient(node, *grad_outputs)`` gives one Value or None (zero) per input;
        None as a whole says that the operation has no gradient.
    indices : callable or None
        ``indices(node)`` gives the Indices; None: no dimension can be split.
    localise : callable or None
        ``localise(attrs, local_inputs, local_outputs, starts)`` gives the attributes
        of the same operation on one rank's share (specs of the share; ``starts`` has
        each output's first global position per dimension). None: unchanged.
    linear : str
        How a partial sum passes through: ``""`` not at all, ``"all"`` if every input
        is partial (a sum), ``"one"`` if one input is and the others are replicated
        (a product with a constant).
    elementwise : bool
        One output element needs only the input elements at its position.
    num_read : int, optional
        How many inputs, the first ones, have their numbers read; those behind them are
        only waited for. None: all.
    """

    name: str
    infer: Callable[..., Any]
    reference: Callable[..., Any]
    gradient: Callable[..., Any] | None
    indices: Callable[[Node], Indices] | None = None
    localise: Callable[..., Attrs] | None = None
    linear: str = ""
    elementwise: bool = False
    num_read: int | None = None

    def __repr__(self) -> str:
        return f"<op {self.name}>"


class Node:
    """One application of an operation.

    ``regions`` are those that it was made in, the outermost first; leaves are in none.
    """

    __slots__ = ("op", "inputs", "attrs", "outputs", "id", "scope", "regions")

    def __init__(self, op: OpDef, inputs: tuple[Value, ...], attrs: dict[str, Any]):
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.scope = current_scope()
        self.regions = tuple(_scopes.regions) if inputs and _scopes.regions else ()
        specs = op.infer(*[v.spec for v in inputs], **attrs)
        if isinstance(specs, TensorSpec):
            specs = (specs,)
        self.id = _next_id()
        self.outputs = tuple([Value(self, i, s) for i, s in enumerate(specs)])

    def over(self, inputs: tuple[Value, ...]) -> Node:
        """Return the same operation over other inputs, in the same scope."""
        if any([new.spec != old.spec for new, old in zip(inputs, self.inputs) if new is not old]):
            node = Node(self.op, inputs, self.attrs)
        else:  # nothing to infer
            node = object.__new__(Node)
            node.op, node.inputs, node.attrs, node.id = self.op, inputs, self.attrs, _next_id()
            node.outputs = tuple([Value(node, v.index, v.spec) for v in self.outputs])
        node.scope = self.scope
        node.regions = ()  # they are of the graph that gradients are taken of
        return node

    def __repr__(self) -> str:
        outs = ", ".join(str(v.spec) for v in self.outputs)
        return f"<node {self.id} {self.op.name} -> {outs}>"


class Value:
    """One tensor of a graph: an output of a node.

    The operators of a tensor (``x + y``, ``x[0]``) are put on by ``ops.operators``.
    """

    __slots__ = ("node", "index", "spec")
    __array_priority__ = 1000

    def __init__(self, node: Node, index: int, spec: TensorSpec):
        self.node = node
        self.index = index
        self.spec = spec

    @property
    def shape(self) -> Shape:
        return self.spec.shape

    @property
    def dtype(self) -> str:
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        return len(self.spec.shape)

    @property
    def size(self) -> int:
        return self.spec.size

    @property
    def is_leaf(self) -> bool:
        return self.node.op is INPUT or self.node.op is CONSTANT

    def __repr__(self) -> str:
        return f"<value {self.node.op.name}.{self.node.id} {self.spec}>"

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise TypeError(
            f"{self!r} is a symbolic tensor: it has no numbers until the step runs. "
            "Use uff.ops functions on it instead of NumPy functions."
        )

    def __bool__(self) -> bool:
        raise TypeError(
            f"The truth of {self!r} is not known while a step is being traced. "
            "Use uff.ops.where, or decide on Python values such as shapes."
        )


# -- leaves ------------------------------------------------------------------------


def _reference_of_leaf(**_: Any) -> Any:
    raise TypeError("A leaf has no reference: its array is given.")


INPUT = OpDef(
    "input",
    infer=lambda *, spec, **_: spec,
    reference=_reference_of_leaf,
    gradient=None,
)
CONSTANT = OpDef(
    "constant",
    infer=lambda *, array: TensorSpec(array.shape, array.dtype.name),
    reference=lambda *, array: array,
    gradient=None,
)


def leaf(shape: Shape, dtype: str, name: str, kind: str = "feed") -> Value:
    """Make an input of a graph.

    ``kind`` is ``"feed"`` (given at each call, split over ranks along its first axis)
    or ``"variable"`` (state, the same on every rank).
    """
    spec = TensorSpec(tuple(shape), dtype)
    return Node(INPUT, (), {"spec": spec, "name": name, "kind": kind}).outputs[0]


def constant(array: Any, dtype: str | None = None) -> Value:
    """Make a value that is known when the graph is made."""
    array = np.array(array, dtype=dtype, order="C")
    array.flags.writeable = False
    return Node(CONSTANT, (), {"array": array}).outputs[0]


def apply(op: OpDef, *inputs: Value, **attrs: Any) -> Any:
    """Add a node; return its output Value, or a tuple of them if it has several."""
    outputs = Node(op, inputs, attrs).outputs
    return outputs[0] if len(outputs) == 1 else outputs


# -- scopes: which layer a node comes from -----------------------------------------


class Region:
    """A part of a graph that gradients may compute again instead of keeping its values.

    Attributes
    ----------
    active : bool
        Whether they do; may be set to False once the region has been traced.
    """

    __slots__ = ("active",)

    def __init__(self) -> None:
        self.active = True


class _Scopes(threading.local):
    """The layers and the regions that this thread is tracing, the innermost last."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.regions: list[Region] = []


_scopes = _Scopes()


def current_scope() -> str:
    """Path of the layer whose ``call`` is being traced, e.g. ``"model/dense"``."""
    return "/".join(_scopes.names)


@contextlib.contextmanager
def scope(name: str) -> Iterator[None]:
    """Name the nodes made inside after a layer."""
    _scopes.names.append(name)
    try:
        yield
    finally:
        _scopes.names.pop()


@contextlib.contextmanager
def region() -> Iterator[Region]:
    """Make the nodes inside a region of its own."""
    made = Region()
    _scopes.regions.append(made)
    try:
        yield made
    finally:
        _scopes.regions.pop()
