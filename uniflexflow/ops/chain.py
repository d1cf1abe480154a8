"""Chains: many elementwise operations as one, made by fusion after differentiation.

A *program* is a tuple of steps ``(operation, attributes, sources)``: the name of an
elementwise primitive, its attributes as a tuple of (name, value), and the registers that
it reads. Registers ``0 .. n_inputs - 1`` are the node's inputs, then one per step. Every
register that a chain returns has the shape in which all inputs meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from uniflexflow.ir import Indices, Node, TensorSpec
from uniflexflow.ops.registry import OPS, primitive
from uniflexflow.ops.shape_rules import broadcast_shapes

__all__ = ["CHAIN", "CHAIN_REDUCE", "CHAIN_ROWS", "Program", "register_specs"]

Step = tuple[str, tuple[tuple[str, Any], ...], tuple[int, ...]]
Program = tuple[Step, ...]


def register_specs(inputs: Sequence[TensorSpec], program: Program) -> list[TensorSpec]:
    """Return the spec of every register: the inputs, then each step's result.

    Raises
    ------
    ValueError
        If a step is not an elementwise operation or reads what is not there yet.
    """
    specs = list(inputs)
    for name, attrs, sources in program:
        op = OPS.get(name)
        if op is None or not op.elementwise or name in ("chain", "chain_reduce"):
            raise ValueError(f"chain: {name!r} is not an elementwise primitive.")
        if not all(0 <= s < len(specs) for s in sources):
            raise ValueError(
                f"chain: step {name!r} reads registers {sources}; {len(specs)} are known there."
            )
        specs.append(op.infer(*[specs[s] for s in sources], **dict(attrs)))
    return specs


def _run(arrays: Sequence[np.ndarray], program: Program) -> list[np.ndarray]:
    registers = list(arrays)
    for name, attrs, sources in program:
        out = OPS[name].reference(*[registers[s] for s in sources], **dict(attrs))
        registers.append(np.asarray(out))
    return registers


def _infer(
    *inputs: TensorSpec, program: Program, results: tuple[int, ...]
) -> tuple[TensorSpec, ...]:
    specs = register_specs(inputs, program)
    shape = broadcast_shapes("chain", *[s.shape for s in inputs])
    for r in results:
        if specs[r].shape != shape:
            raise ValueError(
                f"chain: register {r} has the shape {specs[r].shape}; only registers of the "
                f"shape {shape}, in which all inputs meet, can be returned."
            )
    return tuple([specs[r] for r in results])


def _reference(
    *arrays: np.ndarray, program: Program, results: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    registers = _run(arrays, program)
    return tuple([registers[r] for r in results])


def _labels(ndim: int, out: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    extra = ndim - len(shape)
    return tuple([i + extra if n == out[i + extra] else None for i, n in enumerate(shape)])


def _indices(node: Node) -> Indices:
    """Dimension i of the results is index i; broadcast dimensions have none."""
    out = node.outputs[0].shape
    return Indices(
        tuple([_labels(len(out), out, v.shape) for v in node.inputs]),
        tuple([_labels(len(out), out, v.shape) for v in node.outputs]),
    )


CHAIN = primitive(
    "chain",
    infer=_infer,
    reference=_reference,
    gradient=None,
    indices=_indices,
    elementwise=True,
)

# -- a chain whose results are reduced without being written ---------------------------

_KINDS: dict[str, Callable[..., np.ndarray]] = {"sum": np.sum, "max": np.max}


def _reduce_infer(
    *inputs: TensorSpec,
    program: Program,
    results: tuple[int, ...],
    axes: tuple[int, ...],
    kind: str,
) -> tuple[TensorSpec, ...]:
    if kind not in _KINDS:
        raise ValueError(f"chain_reduce: unknown kind {kind!r}; expected one of {list(_KINDS)}.")
    specs = _infer(*inputs, program=program, results=results)
    if len({spec.dtype for spec in specs}) != 1:
        raise ValueError(
            f"chain_reduce: the registers {results} have the dtypes "
            f"{[spec.dtype for spec in specs]}; expected one dtype for all."
        )
    if kind == "max" and any(specs[0].shape[a] == 0 for a in axes):
        raise ValueError(
            f"chain_reduce: the tensor of shape {specs[0].shape} is empty along axes {axes}."
        )
    shape = tuple([n for i, n in enumerate(specs[0].shape) if i not in axes])
    return tuple([TensorSpec(shape, spec.dtype) for spec in specs])


def _reduce_reference(
    *arrays: np.ndarray,
    program: Program,
    results: tuple[int, ...],
    axes: tuple[int, ...],
    kind: str,
) -> tuple[np.ndarray, ...]:
    registers = _run(arrays, program)
    if kind == "sum":
        return tuple([np.sum(registers[r], axis=axes, dtype=registers[r].dtype) for r in results])
    return tuple([np.max(registers[r], axis=axes) for r in results])


def _reduce_indices(node: Node) -> Indices:
    shape = broadcast_shapes("chain_reduce", *[v.shape for v in node.inputs])
    axes = node.attrs["axes"]
    kept = tuple([i for i in range(len(shape)) if i not in axes])
    return Indices(
        tuple([_labels(len(shape), shape, v.shape) for v in node.inputs]),
        tuple([kept for _ in node.outputs]),
        "sum" if node.attrs["kind"] == "sum" else None,
    )


# y_k = sum (or max) over axes of one register of a chain, for several registers in one pass
CHAIN_REDUCE = primitive(
    "chain_reduce",
    infer=_reduce_infer,
    reference=_reduce_reference,
    gradient=None,
    indices=_reduce_indices,
)

# -- a chain over a table of summed rows that is never written ---------------------------


def _rows_infer(
    *inputs: TensorSpec, program: Program, results: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[TensorSpec, ...]:
    *others, rows, indices = inputs
    table = OPS["take_gradient"].infer(rows, indices, shape=shape, axis=0)
    return _infer(*others, table, program=program, results=results)


def _rows_reference(
    *arrays: np.ndarray, program: Program, results: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    *others, rows, indices = arrays
    table = OPS["take_gradient"].reference(rows, indices, shape=shape, axis=0)
    return _reference(*others, table, program=program, results=results)


# a chain whose last input is take_gradient(rows, indices) along axis 0, the last two operands
CHAIN_ROWS = primitive("chain_rows", infer=_rows_infer, reference=_rows_reference, gradient=None)
