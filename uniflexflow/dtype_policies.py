"""Policies: in which dtype layers keep their weights, and in which they compute."""

from __future__ import annotations

from typing import Any

from uniflexflow.ops.dtypes import FLOATX_TYPES, canonical_dtype, floatx, set_floatx

__all__ = ["DTypePolicy", "deserialize", "get", "serialize"]

#: name -> dtype of the computation, dtype of the weights
_MIXED = {"mixed_bfloat16": ("bfloat16", "float32")}

_default: list[DTypePolicy | None] = [None]


class DTypePolicy:
    """The dtypes of a layer: of its weights, and of what it computes.

    A layer casts its floating-point inputs and its weights to the compute dtype when it is
    called. With ``"mixed_bfloat16"`` the weights, their gradients' sums and the optimizer's
    state are float32, activations are bfloat16 (Micikevicius et al., "Mixed precision
    training", 2018; Kalamkar et al., "A study of bfloat16 for deep learning training", 2019).
    As bfloat16 has the range of float32, losses need no scaling.

    Parameters
    ----------
    name : str, optional
        A dtype, which is then both, or ``"mixed_bfloat16"``. Default: the policy of layers
        that are given none, ``config.dtype_policy()``.

    Examples
    --------
    >>> policy = DTypePolicy("mixed_bfloat16")
    >>> policy.compute_dtype, policy.variable_dtype
    ('bfloat16', 'float32')
    """

    def __init__(self, name: str | None = None):
        if name is None:
            name = dtype_policy().name
        if not isinstance(name, str):
            raise TypeError(
                f"DTypePolicy: the name must be a string; received {name!r} of type "
                f"{type(name).__name__}; expected one such as 'float32' or 'mixed_bfloat16'."
            )
        self._name = name
        self._dtypes = _MIXED.get(name) or (_dtype_named(name),) * 2

    @property
    def name(self) -> str:
        """The name it was made of."""
        return self._name

    @property
    def compute_dtype(self) -> str:
        """Dtype of the computation and of its results."""
        return self._dtypes[0]

    @property
    def variable_dtype(self) -> str:
        """Dtype of the weights."""
        return self._dtypes[1]

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's argument."""
        return {"name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> DTypePolicy:
        """Make a policy from what ``get_config`` returned."""
        return cls(**config)

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f'<DTypePolicy "{self.name}">'


def _dtype_named(name: str) -> str:
    if name in ("float16", "mixed_float16"):
        instead = name.replace("float16", "bfloat16")
        raise ValueError(
            f"DTypePolicy: {name!r} is not supported: gradients leave the range of float16; use "
            f"{instead!r}, which has the range of float32."
        )
    try:
        return canonical_dtype(name)
    except (TypeError, ValueError):
        raise ValueError(
            f"DTypePolicy: {name!r} is not supported; expected 'mixed_bfloat16' or a dtype such "
            "as 'float32', 'float64' or 'bfloat16'."
        ) from None


def get(identifier: Any) -> DTypePolicy:
    """Return a policy.

    Parameters
    ----------
    identifier : None, str, dtype, dict or DTypePolicy
        None is the default policy; a dict is what ``serialize`` returned.

    Examples
    --------
    >>> get("bfloat16")
    <DTypePolicy "bfloat16">
    """
    if identifier is None:
        return dtype_policy()
    if isinstance(identifier, DTypePolicy):
        return identifier
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        return DTypePolicy(identifier)
    return DTypePolicy(canonical_dtype(identifier))


def serialize(dtype_policy: DTypePolicy) -> dict[str, Any]:
    """Return a policy's configuration, in the form of Keras's files."""
    return {
        "module": "keras",
        "class_name": "DTypePolicy",
        "config": dtype_policy.get_config(),
        "registered_name": None,
    }


def deserialize(config: dict[str, Any]) -> DTypePolicy:
    """Make a policy from what ``serialize`` returned.

    Raises
    ------
    ValueError
        For another kind of policy: quantized ones are not supported.
    """
    kind, inner = config.get("class_name"), config.get("config")
    if kind not in ("DTypePolicy", "FloatDTypePolicy") or not isinstance(inner, dict):
        raise ValueError(
            f"dtype_policies.deserialize: {config!r} is not supported; expected the configuration "
            "of a DTypePolicy, as `serialize` returns it."
        )
    return DTypePolicy(inner.get("name"))


def dtype_policy() -> DTypePolicy:
    """Return the policy of layers that are given none; by default that of ``floatx()``.

    Examples
    --------
    >>> dtype_policy()
    <DTypePolicy "float32">
    """
    return _default[0] or DTypePolicy(floatx())


def set_dtype_policy(policy: Any) -> None:
    """Set the policy of layers that are given none.

    ``"float32"`` and ``"float64"`` set ``floatx()`` too, in which losses and metrics compute;
    ``"mixed_bfloat16"`` leaves it.

    Parameters
    ----------
    policy : str or DTypePolicy

    Raises
    ------
    ValueError
        For a policy that is not supported.
    """
    if not isinstance(policy, (str, DTypePolicy)):
        raise ValueError(
            f"set_dtype_policy: expected a name such as 'mixed_bfloat16', or a DTypePolicy; "
            f"received {policy!r} of type {type(policy).__name__}."
        )
    policy = get(policy)
    if policy.name in FLOATX_TYPES:
        set_floatx(policy.name)
        _default[0] = None
    else:
        _default[0] = policy
