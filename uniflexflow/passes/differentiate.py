"""Reverse-mode differentiation: gradients are ordinary nodes of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from uniflexflow.ir import Value, constant, reachable
from uniflexflow.ops.dispatch import as_value
from uniflexflow.ops.dtypes import is_float
from uniflexflow.ops.pull_back import pull_back
from uniflexflow.ops.shaping import broadcast_to
from uniflexflow.passes.recompute import Recomputation


def gradients(target: Any, sources: Sequence[Any], grad_target: Any = None) -> list[Value | None]:
    """Return the gradient of ``target`` with respect to each source.

    Parameters
    ----------
    target : symbolic tensor
        Usually a scalar loss; for any other shape, the gradient is that of
        ``sum(target * grad_target)``.
    sources : sequence of symbolic tensors and Variables
    grad_target : symbolic tensor, optional
        Ones by default.

    Returns
    -------
    list of symbolic tensor or None
        None where ``target`` does not depend on the source.

    Raises
    ------
    ValueError
        If the way from a source to the target leads through an operation that has no
        gradient; names the operation and its layer.
    """
    if not isinstance(sources, (list, tuple)):
        raise TypeError(
            f"gradients: `sources` must be a list; received {type(sources).__name__}. For one "
            "tensor write `(grad,) = gradients(target, [tensor])`."
        )
    target = as_value(target)
    values = [as_value(s) for s in sources]
    if not is_float(target.dtype):
        raise ValueError(f"gradients: the target must be a float tensor; received {target.dtype}.")
    one = broadcast_to(constant(1, target.dtype), target.shape)
    seed = one if grad_target is None else as_value(grad_target)
    version = Recomputation(reachable([target])).version
    return pull_back([target], [seed], values, version)
