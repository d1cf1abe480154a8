"""Activations by name: what ``activation="relu"`` in a layer means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uniflexflow import ops


def relu(
    x: Any, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0
) -> Any:
    """Return x above the threshold, else ``negative_slope * (x - threshold)``.

    Parameters
    ----------
    x : tensor
    negative_slope : float
    max_value : float, optional
        Largest value that is returned.
    threshold : float
    """
    if not negative_slope and max_value is None and not threshold:
        return ops.relu(x)
    if not threshold:
        y = ops.relu(x)
    else:
        y = ops.where(x > threshold, x, 0.0)
    if max_value is not None:
        y = ops.minimum(y, float(max_value))
    if negative_slope:
        y = y - ops.relu(threshold - x) * float(negative_slope)
    return y


def leaky_relu(x: Any, negative_slope: float = 0.2) -> Any:
    """Return x where positive, else ``negative_slope * x``."""
    return ops.leaky_relu(x, negative_slope=negative_slope)


def relu6(x: Any) -> Any:
    """Return ``min(max(x, 0), 6)``."""
    return ops.relu6(x)


def softmax(x: Any, axis: int = -1) -> Any:
    """Return ``exp(x) / sum(exp(x))`` along an axis."""
    return ops.softmax(x, axis=axis)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """Return the logarithm of softmax."""
    return ops.log_softmax(x, axis=axis)


def elu(x: Any, alpha: float = 1.0) -> Any:
    """Return x where positive, else ``alpha * (exp(x) - 1)``."""
    return ops.elu(x, alpha=alpha)


def selu(x: Any) -> Any:
    """Return the scaled exponential linear unit."""
    return ops.selu(x)


def softplus(x: Any) -> Any:
    """Return ``log(1 + exp(x))``."""
    return ops.softplus(x)


def softsign(x: Any) -> Any:
    """Return ``x / (1 + abs(x))``."""
    return x / (ops.abs(x) + 1.0)


def silu(x: Any) -> Any:
    """Return ``x * sigmoid(x)``."""
    return ops.silu(x)


swish = silu


def gelu(x: Any, approximate: bool = False) -> Any:
    """Return x times the normal distribution function of x."""
    return ops.gelu(x, approximate=approximate)


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent."""
    return ops.tanh(x)


def sigmoid(x: Any) -> Any:
    """Return ``1 / (1 + exp(-x))``."""
    return ops.sigmoid(x)


def log_sigmoid(x: Any) -> Any:
    """Return ``log(sigmoid(x))``."""
    return -ops.softplus(-x)


def exponential(x: Any) -> Any:
    """Return ``exp(x)``."""
    return ops.exp(x)


def hard_sigmoid(x: Any) -> Any:
    """Return ``relu6(x + 3) / 6``: 0 below -3, 1 above 3, and a line between."""
    return ops.minimum(ops.relu(x + 3.0), 6.0) * (1.0 / 6.0)


def hard_silu(x: Any) -> Any:
    """Return ``x * hard_sigmoid(x)``."""
    return x * hard_sigmoid(x)


hard_swish = hard_silu


def mish(x: Any) -> Any:
    """Return ``x * tanh(softplus(x))``."""
    return x * ops.tanh(ops.softplus(x))


def celu(x: Any, alpha: float = 1.0) -> Any:
    """Return ``max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))``."""
    low = ops.minimum(x, 0.0)
    return ops.relu(x) + ops.expm1(low * (1.0 / alpha)) * alpha


def hard_tanh(x: Any) -> Any:
    """Return x cut to between -1 and 1."""
    return ops.maximum(ops.minimum(x, 1.0), -1.0)


def tanh_shrink(x: Any) -> Any:
    """Return ``x - tanh(x)``."""
    return x - ops.tanh(x)


def glu(x: Any, axis: int = -1) -> Any:
    """Return ``a * sigmoid(b)`` for the halves a, b of x along an axis."""
    a, b = ops.split(x, 2, axis=axis)
    return a * ops.sigmoid(b)


def linear(x: Any) -> Any:
    """Return x."""
    return x


_FUNCTIONS = (
    relu,
    leaky_relu,
    relu6,
    softmax,
    log_softmax,
    elu,
    selu,
    softplus,
    softsign,
    silu,
    gelu,
    tanh,
    sigmoid,
    log_sigmoid,
    exponential,
    hard_sigmoid,
    hard_silu,
    mish,
    celu,
    hard_tanh,
    tanh_shrink,
    glu,
    linear,
)
ALL: dict[str, Callable[..., Any]] = {f.__name__: f for f in _FUNCTIONS}
_NAMES = {**ALL, "swish": silu, "hard_swish": hard_silu}
# uff.ops.relu as an activation is written as "relu"
_OF_OPS = {name: getattr(ops, name) for name in ALL if hasattr(ops, name)}


def get(identifier: Any) -> Callable[..., Any]:
    """Return an activation from its name, its configuration, or itself; None is linear.

    Examples
    --------
    >>> get("swish").__name__, get(None).__name__
    ('silu', 'linear')

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    if identifier is None:
        return linear
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        if identifier in _NAMES:
            return _NAMES[identifier]
        from uniflexflow.saving.registry import get_registered_object

        custom = get_registered_object(identifier)
        if custom is not None:
            return custom
        raise ValueError(
            f"activations.get: there is no activation {identifier!r}; expected one of "
            f"{sorted(_NAMES)}, or a registered function."
        )
    if callable(identifier):
        return identifier
    raise ValueError(f"activations.get: can't interpret {identifier!r} as an activation.")


def name_of(activation: Any) -> str | None:
    """Return the name of one of our activations; None for any other function."""
    for name, fn in ALL.items():
        if activation is fn or activation is _OF_OPS.get(name):
            return name
    return None


def serialize(activation: Any) -> Any:
    """Return an activation's name, or the configuration of a custom one."""
    from uniflexflow.saving.serialization import serialize_argument

    return serialize_argument(activation)


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """Return the activation that ``serialize`` was given."""
    from uniflexflow.saving.serialization import deserialize_keras_object

    if isinstance(config, str):
        return get(config)
    return deserialize_keras_object(config, custom_objects)
