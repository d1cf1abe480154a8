"""KerasTensor: the placeholder from which functional models are drawn.

Its shape may have None for sizes that are not known yet (the batch). A call on
KerasTensors is noted as a ``CallNode``, which points to the nodes its arguments came
from. The result's shape is found by tracing the call with two different numbers in
place of each None: a size that differs between the two is unknown in the result too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from uniflexflow import tree
from uniflexflow.ir import Value, leaf
from uniflexflow.ops.dtypes import canonical_dtype, floatx
from uniflexflow.ops.variable import Trace

# Two sizes for None; primes, so that they are not mistaken for a product.
_FILLS = (83, 89)

_next_name = itertools.count().__next__


class KerasTensor:
    """A tensor without numbers, of a functional model.

    Parameters
    ----------
    shape : tuple of int or None
        With the batch axis.
    dtype : str, optional
    name : str, optional

    Attributes
    ----------
    node : CallNode or None
        The call that makes it; None for one made by hand.
    index : int
        Its place among the outputs of that call.
    """

    def __init__(
        self, shape: tuple[int | None, ...], dtype: str | None = None, name: str | None = None
    ):
        self.shape = tuple(shape)
        self.dtype = canonical_dtype(dtype or floatx())
        self.name = name or f"keras_tensor_{_next_name()}"
        self.node: CallNode | None = None
        self.index = 0

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<KerasTensor shape={self.shape}, dtype={self.dtype}, name={self.name}>"

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"{self!r} is a placeholder without numbers. Use uff.ops functions and layers "
            "on it, then make a Model of its inputs and outputs."
        )

    def __bool__(self) -> bool:
        raise TypeError(f"The truth of {self!r} is not known: it has no numbers.")


class CallNode:
    """One call in a functional model: a layer, or an operation of ``uff.ops``.

    Attributes
    ----------
    target : Layer or OpCall
        What is called.
    args, kwargs : nested structures, with KerasTensors as leaves where they stand
    outputs : nested structure of KerasTensor
    """

    def __init__(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Any):
        self.target = target
        self.args = args
        self.kwargs = kwargs
        self.outputs = outputs
        for i, tensor in enumerate(tree.flatten(outputs)):
            tensor.node = self
            tensor.index = i

    @property
    def inputs(self) -> list[KerasTensor]:
        """KerasTensors among the arguments, in order."""
        return [x for x in tree.flatten((self.args, self.kwargs)) if isinstance(x, KerasTensor)]


class OpCall:
    """An operation of ``uff.ops`` as a step of a functional model."""

    def __init__(self, fn: Callable[..., Any]):
        self.fn = fn
        self.name = fn.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)


def compute_output_spec(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return the structure of KerasTensors that ``fn`` gives for KerasTensor arguments.

    ``fn`` is traced; nothing is computed and no variable changes.
    """

    def trace(fill: int) -> Any:
        def stand_in(x: Any) -> Any:
            if not isinstance(x, KerasTensor):
                return x
            return leaf(tuple(fill if s is None else s for s in x.shape), x.dtype, x.name)

        with Trace():
            return fn(*tree.map_structure(stand_in, args), **tree.map_structure(stand_in, kwargs))

    first = trace(_FILLS[0])
    unknown = any(
        None in x.shape for x in tree.flatten((args, kwargs)) if isinstance(x, KerasTensor)
    )
    second = trace(_FILLS[1]) if unknown else first

    def merge(a: Any, b: Any) -> Any:
        if not isinstance(a, Value):
            return a
        return KerasTensor(tuple(s if s == t else None for s, t in zip(a.shape, b.shape)), a.dtype)

    return tree.map_structure(merge, first, second)


def record_call(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Note a call of an operation on KerasTensors; return its output KerasTensors."""
    outputs = compute_output_spec(fn, args, kwargs)
    CallNode(OpCall(fn), args, kwargs, outputs)
    return outputs
