"""Dtypes: which there are, how they mix, and the default float type.

Promotion is NumPy's (NEP 50), with one difference that Keras users expect: an integer
or boolean tensor with a float tensor gives that float type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FLOAT_TYPES = ("float32", "float64")
INTEGER_TYPES = ("int8", "uint8", "int32", "int64")
DTYPES = (*FLOAT_TYPES, *INTEGER_TYPES, "bool")

_settings: dict[str, Any] = {"floatx": "float32", "epsilon": 1e-7}


def canonical_dtype(dtype: Any) -> str:
    """Return the name of a dtype that tensors may have.

    Raises
    ------
    ValueError
        If tensors of that dtype are not supported.
    """
    name = np.dtype(dtype).name
    if name not in DTYPES:
        raise ValueError(f"dtype {name!r} is not supported; expected one of {', '.join(DTYPES)}.")
    return name


def is_float(dtype: str) -> bool:
    """Say whether ``dtype`` names a floating-point type."""
    return dtype in FLOAT_TYPES


def floatx() -> str:
    """Return the default float type.

    Examples
    --------
    >>> floatx()
    'float32'
    """
    return _settings["floatx"]


def set_floatx(dtype: str) -> None:
    """Set the default float type: ``"float32"`` or ``"float64"``.

    Raises
    ------
    ValueError
        For any other type.
    """
    if dtype not in FLOAT_TYPES:
        raise ValueError(
            f"set_floatx: unknown float type {dtype!r}; expected one of {FLOAT_TYPES}."
        )
    _settings["floatx"] = dtype


def epsilon() -> float:
    """Return the small number that keeps divisions and logarithms finite.

    Examples
    --------
    >>> epsilon()
    1e-07
    """
    return _settings["epsilon"]


def set_epsilon(value: float) -> None:
    """Set the small number used in numeric expressions."""
    if not value > 0:
        raise ValueError(f"set_epsilon: expected a positive number; received {value!r}.")
    _settings["epsilon"] = float(value)


def promote(*dtypes: str) -> str:
    """Return the dtype in which tensors of these dtypes meet.

    Examples
    --------
    >>> promote("int64", "float32")
    'float32'
    >>> promote("int32", "int64")
    'int64'
    """
    floats = [d for d in dtypes if is_float(d)]
    if floats:
        return "float64" if "float64" in floats else "float32"
    name = np.result_type(*dtypes).name
    return {"int16": "int32"}.get(name, name)
