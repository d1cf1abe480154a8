"""Dtypes: which there are, how they mix, and the default float type.

Promotion is NumPy's (NEP 50), with one difference that Keras users expect: an integer
or boolean tensor with a float tensor gives that float type.

``bfloat16`` is float32 without the lower half of its bits: 8 bits of fraction, the same
range. It is a form in which numbers are kept; what is computed of them is computed in
float32, and rounded when it is kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ml_dtypes import finfo  # noqa: F401  NumPy's own has no bfloat16

FLOATX_TYPES = ("float32", "float64")  # those that may be the default
FLOAT_TYPES = (*FLOATX_TYPES, "bfloat16")
INTEGER_TYPES = ("int8", "uint8", "int32", "int64")
DTYPES = (*FLOAT_TYPES, *INTEGER_TYPES, "bool")

_BY_WIDTH = ("bfloat16", "float32", "float64")

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
        hint = "; use 'bfloat16', which has float32's range" if name == "float16" else ""
        raise ValueError(
            f"dtype {name!r} is not supported; expected one of {', '.join(DTYPES)}{hint}."
        )
    return name


def kind_of(dtype: Any) -> str:
    """Return NumPy's letter for the kind of a dtype: f for any float, i, u, b or another.

    NumPy itself has V for ``bfloat16``.
    """
    dtype = np.dtype(dtype)
    return "f" if dtype.name == "bfloat16" else dtype.kind


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
    if dtype not in FLOATX_TYPES:
        hint = ""
        if dtype in ("bfloat16", "float16"):
            hint = "; for 16 bits use set_dtype_policy('mixed_bfloat16')"
        raise ValueError(
            f"set_floatx: unknown float type {dtype!r}; expected one of {FLOATX_TYPES}{hint}."
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
    >>> promote("bfloat16", "float32"), promote("bfloat16", "int64")
    ('float32', 'bfloat16')
    """
    floats = [d for d in dtypes if is_float(d)]
    if floats:
        return max(floats, key=_BY_WIDTH.index)
    name = np.result_type(*dtypes).name
    return {"int16": "int32"}.get(name, name)
