"""Settings that Keras has several values for and this framework has one."""

from __future__ import annotations

from typing import Any

from uniflexflow.ops.dtypes import FLOATX_TYPES, floatx, set_floatx


def backend() -> str:
    """Return the name of what computes.

    Examples
    --------
    >>> backend()
    'uniflexflow'
    """
    return "uniflexflow"


def image_data_format() -> str:
    """Return where images have their channels.

    Examples
    --------
    >>> image_data_format()
    'channels_last'
    """
    return "channels_last"


def set_image_data_format(data_format: str) -> None:
    """Accept ``"channels_last"``, the only format.

    Raises
    ------
    ValueError
        For any other.
    """
    if data_format != "channels_last":
        raise ValueError(
            f"set_image_data_format: {data_format!r} is not supported; images are "
            "'channels_last': transpose them with np.moveaxis(images, 1, -1)."
        )


def dtype_policy() -> str:
    """Return the dtype of layers that are given none.

    Examples
    --------
    >>> dtype_policy()
    'float32'
    """
    return floatx()


def set_dtype_policy(policy: Any) -> None:
    """Set the dtype of layers that are given none: ``"float32"`` or ``"float64"``.

    Raises
    ------
    ValueError
        For mixed precision, which is not supported.
    """
    name = getattr(policy, "name", policy)
    if name not in FLOATX_TYPES:
        raise ValueError(
            f"set_dtype_policy: {name!r} is not supported; expected one of {FLOATX_TYPES}."
        )
    set_floatx(name)
