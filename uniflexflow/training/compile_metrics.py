"""The metrics of ``compile`` as one: some per output, weighted ones and others."""

from __future__ import annotations

from typing import Any

from uniflexflow import metrics as metrics_module
from uniflexflow import tree
from uniflexflow.metrics.reduction import not_rounded
from uniflexflow.training.outputs import (
    flat_outputs,
    kind_of_targets,
    output_names_of,
    per_output,
    spread,
)

_ACCURACY = {
    "binary": "BinaryAccuracy",
    "sparse_categorical": "SparseCategoricalAccuracy",
    "categorical": "CategoricalAccuracy",
}
_CROSSENTROPY = {
    "binary": "BinaryCrossentropy",
    "sparse_categorical": "SparseCategoricalCrossentropy",
    "categorical": "CategoricalCrossentropy",
}


def resolve_metric(identifier: Any, y_true: Any, y_pred: Any) -> Any:
    """Return the Metric that an identifier means for tensors of these shapes.

    It is named as the string it was given by, else by its own name.
    """
    if identifier is None:
        raise ValueError("Expected a metric, received `None`.")
    short = identifier.lower() if isinstance(identifier, str) else None
    if short in ("accuracy", "acc"):
        metric = getattr(metrics_module, _ACCURACY[kind_of_targets(y_true, y_pred)])()
    elif short in ("crossentropy", "ce"):
        metric = getattr(metrics_module, _CROSSENTROPY[kind_of_targets(y_true, y_pred)])()
    else:
        metric = metrics_module.get(identifier)
    if isinstance(identifier, str):
        name = identifier
    elif isinstance(metric, metrics_module.Metric):
        name = metric.name
    else:
        name = getattr(metric, "__name__", type(metric).__name__)
    if not isinstance(metric, metrics_module.Metric):
        metric = metrics_module.MeanMetricWrapper(metric, name=name)
    metric.name = name
    return metric


class CompileMetrics:
    """All metrics of a model, with the face of one.

    Parameters
    ----------
    metrics, weighted_metrics
        As given to ``compile``.
    output_names : list of str, optional
    """

    name = "compile_metrics"

    def __init__(self, metrics: Any, weighted_metrics: Any = None, output_names: Any = None):
        for label, value in (("metrics", metrics), ("weighted_metrics", weighted_metrics)):
            if value and not isinstance(value, (list, tuple, dict)):
                raise ValueError(
                    f"Expected `{label}` argument to be a list, tuple, or dict. "
                    f"Received instead: {label}={value!r} of type {type(value).__name__}"
                )
        self._given = {"metrics": metrics, "weighted_metrics": weighted_metrics}
        self._output_names = output_names
        self._named: dict[str, Any] | None = None
        self._plain: list[list[Any]] = []
        self._weighted: list[list[Any]] = []

    @property
    def built(self) -> bool:
        """Whether the metrics exist: they are made for the shapes of the first batch."""
        return self._named is not None

    @property
    def metrics(self) -> list[Any]:
        """All metrics, each once."""
        return list((self._named or {}).values())

    @property
    def named_metrics(self) -> dict[str, Any]:
        """The metrics by their names in the logs."""
        return dict(self._named or {})

    @property
    def variables(self) -> list[Any]:
        """State of all metrics."""
        return [v for m in self.metrics for v in m.variables]

    def build(self, y_true: Any, y_pred: Any) -> None:
        """Make the metrics for targets and predictions of these shapes."""
        names = output_names_of(y_pred, self._output_names)
        preds = flat_outputs(y_pred, names)
        self._plain, self._weighted = (
            self._make(self._given[label], names, y_true, preds, label)
            for label in ("metrics", "weighted_metrics")
        )
        named: dict[str, Any] = {}
        prefix = [f"{name}_" if len(names) > 1 else "" for name in names]
        for label, groups in (("", self._plain), ("weighted_", self._weighted)):
            for before, group in zip(prefix, groups):
                for metric in group:
                    name = f"{before}{metric.name}"
                    if name in named and label:
                        name = f"{before}{label}{metric.name}"
                    base, count = name, 1
                    while name in named:
                        name, count = f"{base}_{count}", count + 1
                    named[name] = metric
        self._named = named

    def _make(
        self, given: Any, names: list[str], y_true: Any, preds: list[Any], label: str
    ) -> list[list[Any]]:
        if not given:
            return [[] for _ in names]
        if len(names) == 1:
            entries = [tree.flatten(given)]
        else:
            entries = [
                e if isinstance(e, (list, tuple)) else [] if e is None else [e]
                for e in spread(given, names, label)
            ]
        targets = per_output(y_true, names, "y", [bool(e) for e in entries])
        for name, target, entry in zip(names, targets, entries):
            if entry and target is None:
                raise ValueError(
                    f"`{label}` has {entry!r} for the output {name!r}, which has no targets: "
                    "pass them in `y`."
                )
        return [
            [resolve_metric(m, t, p) for m in entry if m is not None]
            for entry, t, p in zip(entries, targets, preds)
        ]

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take in a batch."""
        if not self.built:
            self.build(y_true, y_pred)
        names = output_names_of(y_pred, self._output_names)
        preds = [not_rounded(p) for p in flat_outputs(y_pred, names)]
        wanted = [bool(a or b) for a, b in zip(self._plain, self._weighted)]
        targets = per_output(y_true, names, "y", wanted)
        if sample_weight is not None and not tree.is_nested(sample_weight):
            weights = [sample_weight] * len(names)
        else:
            weights = per_output(sample_weight, names, "sample_weight", wanted)
        for plain, weighted, t, p, w in zip(self._plain, self._weighted, targets, preds, weights):
            for metric in plain:
                metric.update_state(t, p)
            for metric in weighted:
                metric.update_state(t, p, sample_weight=w)

    def reset_state(self) -> None:
        """Forget all batches."""
        for metric in self.metrics:
            metric.reset_state()

    def result(self) -> dict[str, Any]:
        """Return each metric's value by its name in the logs."""
        if self._named is None:
            raise ValueError("CompileMetrics: there is no result before the first batch.")
        return {name: metric.result() for name, metric in self._named.items()}
