"""Settings that Keras has several values for and this framework has one."""

from __future__ import annotations


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
