"""From what ``compile`` is given to losses and metrics, with the names that logs show.

``"accuracy"`` and ``"crossentropy"`` stand for one of three, by the shapes of targets
and predictions.
"""

from __future__ import annotations

import inspect
from typing import Any

from uniflexflow import losses, metrics, naming
from uniflexflow.losses import Loss, LossFunctionWrapper
from uniflexflow.metrics.metric import Metric
from uniflexflow.metrics.reduction import MeanMetricWrapper


def kind_of_targets(y_true: Any, y_pred: Any) -> str:
    """Return ``"binary"``, ``"sparse"`` or ``"categorical"``, by shapes.

    Parameters
    ----------
    y_true, y_pred : anything with a ``shape``

    Examples
    --------
    >>> import numpy as np
    >>> kind_of_targets(np.zeros((8,)), np.zeros((8, 3)))
    'sparse'
    """
    true, pred = tuple(y_true.shape), tuple(y_pred.shape)
    if pred and pred[-1] == 1:
        return "binary"
    if len(true) < len(pred) or (true and true[-1] == 1 and pred[-1] > 1):
        return "sparse"
    return "categorical"


def _object_name(thing: Any) -> str:
    name = getattr(thing, "name", None)
    if name is None:
        name = naming.to_snake_case(getattr(thing, "__name__", type(thing).__name__))
    return name


def resolve_metric(identifier: Any, y_true: Any, y_pred: Any) -> Metric | None:
    """Return the metric that an entry of ``compile(metrics=...)`` stands for.

    Parameters
    ----------
    identifier : str, dict, Metric, callable or None
    y_true, y_pred : anything with a ``shape``

    Returns
    -------
    Metric or None
        Named as the string given, as the object, or as the function.
    """
    if identifier is None:
        return None
    key = str(identifier).lower()
    if key in ("accuracy", "acc"):
        metric: Any = {
            "binary": metrics.BinaryAccuracy,
            "sparse": metrics.SparseCategoricalAccuracy,
            "categorical": metrics.CategoricalAccuracy,
        }[kind_of_targets(y_true, y_pred)](name=str(identifier))
    elif key in ("crossentropy", "ce"):
        metric = {
            "binary": metrics.BinaryCrossentropy,
            "sparse": metrics.SparseCategoricalCrossentropy,
            "categorical": metrics.CategoricalCrossentropy,
        }[kind_of_targets(y_true, y_pred)](name=str(identifier))
    else:
        metric = metrics.get(identifier)
    name = identifier if isinstance(identifier, str) else _object_name(metric)
    if not isinstance(metric, Metric):
        metric = MeanMetricWrapper(metric, name=name)
    metric.name = name
    return metric


def resolve_loss(identifier: Any, y_true: Any, y_pred: Any) -> Loss | None:
    """Return the loss that an entry of ``compile(loss=...)`` stands for.

    Parameters
    ----------
    identifier : str, dict, Loss, callable or None
    y_true, y_pred : anything with a ``shape``
    """
    if identifier is None:
        return None
    if str(identifier).lower() in ("crossentropy", "ce"):
        return {
            "binary": losses.BinaryCrossentropy,
            "sparse": losses.SparseCategoricalCrossentropy,
            "categorical": losses.CategoricalCrossentropy,
        }[kind_of_targets(y_true, y_pred)]()
    loss = losses.get(identifier)
    if inspect.isclass(loss):
        loss = loss()
    return loss if isinstance(loss, Loss) else LossFunctionWrapper(loss, name=_object_name(loss))
