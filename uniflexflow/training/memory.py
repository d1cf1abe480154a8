"""What a training step will need, told before it runs: from its plan, not from trying."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from uniflexflow import tree
from uniflexflow.ir import TensorSpec
from uniflexflow.losses import SparseCategoricalCrossentropy
from uniflexflow.ops.dtypes import floatx


@dataclass(frozen=True)
class MemoryUsage:
    """Bytes of one rank during training steps.

    Attributes
    ----------
    weights : int
        The model's own variables.
    optimizer : int
        The optimizer's slots, and all other variables of the step.
    batch : int
        One batch of inputs and targets.
    activations : int
        Activations, gradients and temporary values at their peak, and what is summed over
        the ranks.
    """

    weights: int
    optimizer: int
    batch: int
    activations: int

    @property
    def total(self) -> int:
        """All of it together."""
        return self.weights + self.optimizer + self.batch + self.activations

    def __str__(self) -> str:
        rows = [("weights", self.weights), ("optimizer and metrics", self.optimizer)]
        rows += [("one batch", self.batch), ("activations, gradients", self.activations)]
        rows += [("total", self.total)]
        return "\n".join(f"{name:24s}{nbytes / 2**20:12.2f} MiB" for name, nbytes in rows)


def _is_sparse(loss: Any) -> bool:
    return isinstance(loss, SparseCategoricalCrossentropy) or (
        isinstance(loss, str) and loss.lower().replace("_", "").startswith("sparse")
    )


def _target_spec(output: Any, loss: Any, batch_size: int) -> TensorSpec:
    """Guess what the targets of an output look like: as the output, or class numbers."""
    shape = tuple(batch_size if n is None else n for n in output.shape)
    if _is_sparse(loss):
        return TensorSpec(shape[:-1], "int32")
    return TensorSpec(shape, floatx() if output.dtype == "bfloat16" else output.dtype)


def _spec_of(data: Any, batch_size: int) -> Any:
    return tree.map_structure(
        lambda a: TensorSpec((batch_size, *np.shape(a)[1:]), np.asarray(a[:1]).dtype.name), data
    )


def memory_usage(model: Any, batch_size: int, x: Any = None, y: Any = None) -> MemoryUsage:
    """Plan a training step and add up what it needs; see ``Trainer.memory_usage``."""
    if batch_size < 1:
        raise ValueError(f"memory_usage: batch_size must be at least 1; received {batch_size}.")
    if x is not None:
        inputs = _spec_of(x, batch_size)
    elif getattr(model, "inputs", None):
        placeholders = model.inputs[0] if len(model.inputs) == 1 else list(model.inputs)
        inputs = tree.map_structure(
            lambda t: TensorSpec(tuple(batch_size if n is None else n for n in t.shape), t.dtype),
            placeholders,
        )
    else:
        raise ValueError(
            f"memory_usage: the inputs of model {model.name!r} are not known; give some rows of "
            "data: memory_usage(batch_size, x, y)."
        )
    if y is not None:
        targets = _spec_of(y, batch_size)
    elif getattr(model, "outputs", None):
        outputs, losses = model.outputs, tree.flatten(model.loss)
        if len(losses) != len(outputs):
            losses = [losses[0]] * len(outputs)
        specs = [_target_spec(o, loss, batch_size) for o, loss in zip(outputs, losses)]
        targets = specs[0] if len(specs) == 1 else specs
    else:
        raise ValueError(
            f"memory_usage: the outputs of model {model.name!r} are not known; give some rows of "
            "targets: memory_usage(batch_size, x, y)."
        )
    step = model.make_train_function().for_specs((inputs, targets))
    if step.plan is None:
        raise RuntimeError(
            "memory_usage: the reference interpreter makes no plan; unset UNIFLEXFLOW_EXECUTOR."
        )
    own = {id(v) for v in model.variables}
    weights = sum(v.nbytes for v in model.variables)
    others = sum(v.nbytes for v in step.traced.variables if id(v) not in own)
    feeds = [v for v in step.graph.inputs if v.node.attrs["kind"] == "feed"]
    return MemoryUsage(
        weights=weights,
        optimizer=others,
        batch=sum(v.spec.nbytes for v in feeds),
        activations=step.plan.arena_bytes + step.plan.exchange_bytes,
    )
