"""The losses of ``compile`` as one: a number per output, weighted and summed."""

from __future__ import annotations

from typing import Any

from uniflexflow import losses, metrics, ops, tree
from uniflexflow.training.outputs import (
    flat_outputs,
    kind_of_targets,
    output_names_of,
    per_output,
    spread,
)


def resolve_loss(identifier: Any, y_true: Any, y_pred: Any) -> losses.Loss | None:
    """Return the Loss that an identifier means for tensors of these shapes."""
    if identifier is None:
        return None
    if isinstance(identifier, str) and identifier.lower() in ("crossentropy", "ce"):
        loss = losses.get(f"{kind_of_targets(y_true, y_pred)}_crossentropy")
    else:
        loss = losses.get(identifier)
    if isinstance(loss, losses.Loss):
        return loss
    name = identifier if isinstance(identifier, str) else getattr(loss, "__name__", "loss")
    return losses.LossFunctionWrapper(loss, name=name)


class CompileLoss:
    """All losses of a model.

    Parameters
    ----------
    loss, loss_weights
        As given to ``compile``.
    output_names : list of str, optional

    Attributes
    ----------
    metrics : list of Mean
        ``<output>_loss`` for each output with a loss, if there are several: the
        unweighted means over the epoch.
    """

    name = "compile_loss"

    def __init__(self, loss: Any, loss_weights: Any = None, output_names: Any = None):
        kinds = (list, tuple, dict, float, int)
        if loss_weights is not None and not isinstance(loss_weights, kinds):
            raise ValueError(
                "Expected `loss_weights` argument to be a float, list, tuple, or dict. "
                f"Received instead: loss_weights={loss_weights!r} of type "
                f"{type(loss_weights).__name__}"
            )
        self._loss = loss
        self._loss_weights = loss_weights
        self._output_names = output_names
        self.metrics: list[Any] = []
        self._losses: list[list[losses.Loss]] | None = None
        self._names: list[str] = []
        self._weights: list[Any] = []
        self._trackers: list[Any] = []

    @property
    def variables(self) -> list[Any]:
        """State of the means per output."""
        return [v for m in self.metrics for v in m.variables]

    def _build(self, y_true: list[Any], y_pred: list[Any], entries: list[Any]) -> None:
        built = []
        for entry, t, p in zip(entries, y_true, y_pred):
            several = entry if isinstance(entry, (list, tuple)) else [entry]
            built.append([resolve_loss(e, t, p) for e in several if e is not None])
        self._losses = built
        weights = self._loss_weights
        if isinstance(weights, (int, float)) or weights is None:
            self._weights = [weights] * len(self._names)
        else:
            self._weights = spread(weights, self._names, "loss_weights")
        with_loss = [bool(several) for several in built]
        if sum(with_loss) > 1:
            self._trackers = [
                metrics.Mean(name=f"{name}_loss") if has else None
                for name, has in zip(self._names, with_loss)
            ]
            self.metrics = [t for t in self._trackers if t is not None]
        else:
            self._trackers = [None] * len(self._names)

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Return the weighted sum of the losses of all outputs; note each in its mean."""
        names = output_names_of(y_pred, self._output_names)
        if self._losses is not None and names != self._names:
            raise ValueError(
                f"The model has the outputs {names}, but when its losses were first computed it "
                f"had {self._names}; call `compile` again."
            )
        self._names = names
        one_with_several = len(names) == 1 and isinstance(self._loss, (list, tuple))
        entries = [list(self._loss)] if one_with_several else spread(self._loss, names, "loss")
        wanted = [e is not None for e in entries]
        preds = flat_outputs(y_pred, names)
        targets = per_output(y_true, names, "y", wanted)
        if sample_weight is not None and not tree.is_nested(sample_weight):
            weights = [sample_weight] * len(names)
        else:
            weights = per_output(sample_weight, names, "sample_weight", wanted)
        for name, entry, target in zip(names, entries, targets):
            if entry is not None and target is None:
                raise ValueError(
                    f"The output {name!r} has a loss ({entry!r}) but no targets: pass `y` for "
                    f"each of the outputs {names} that have a loss."
                )
        if self._losses is None:
            self._build(targets, preds, entries)
        total = None
        parts = zip(self._losses or [], targets, preds, weights, self._weights, self._trackers)
        for several, t, p, w, loss_weight, tracker in parts:
            if not several:
                continue
            value = None
            for loss in several:
                _check_target(loss, t, p)
                part = loss(t, p, sample_weight=w)
                if part.shape != ():
                    part = ops.sum(part)
                value = part if value is None else value + part
            if tracker is not None:
                tracker.update_state(value, sample_weight=p.shape[0])
            if loss_weight is not None:
                value = value * loss_weight
            total = value if total is None else total + value
        return total


def _check_target(loss: losses.Loss, y_true: Any, y_pred: Any) -> None:
    """Refuse targets to which the predictions would be broadcast: it is never meant.

    Not for a loss of the user's own, whose targets may hold anything.
    """
    maker = getattr(loss, "fn", type(loss))
    if not getattr(maker, "__module__", "").startswith("uniflexflow."):
        return
    true, pred = tuple(getattr(y_true, "shape", ())), tuple(y_pred.shape)
    if len(true) > len(pred) + (true[-1:] == (1,)) or (
        len(true) == len(pred) > 0 and true[-1] != pred[-1] and pred[-1] == 1
    ):
        raise ValueError(
            f"The targets have the shape {true}, the outputs {pred}; expected targets of the "
            "outputs' shape, or without their last axis. Check `y`, or the last layer's size."
        )
