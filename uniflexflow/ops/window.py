"""The geometry of windows that slide over images: convolution and pooling share it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]


def window_count(size: int, window: int, stride: int, padding: Pair, dilation: int = 1) -> int:
    """Return how many windows fit along one axis; 0 or less if none does."""
    span = (window - 1) * dilation + 1
    return (size + padding[0] + padding[1] - span) // stride + 1


def same_padding(size: int, window: int, stride: int, dilation: int = 1) -> Pair:
    """Return the padding (before, after) that gives ``ceil(size / stride)`` windows.

    An odd width goes after, as in Keras.
    """
    span = (window - 1) * dilation + 1
    count = -(-size // stride)
    total = max((count - 1) * stride + span - size, 0)
    return total // 2, total - total // 2


def resolve_padding(
    where: str, padding: str, sizes: Pair, window: Pair, strides: Pair, dilations: Pair = (1, 1)
) -> Padding:
    """Turn ``"valid"`` or ``"same"`` into widths around the two spatial axes."""
    if padding == "valid":
        return ((0, 0), (0, 0))
    if padding == "same":
        top, left = map(same_padding, sizes, window, strides, dilations)
        return (top, left)
    raise ValueError(
        f"{where}: padding {padding!r} is not supported; expected 'valid' or 'same'. For other "
        "widths, use uff.ops.pad first and padding='valid' here."
    )


def output_sizes(
    where: str,
    sizes: Pair,
    window: Pair,
    strides: Pair,
    padding: Padding,
    dilations: Pair = (1, 1),
) -> Pair:
    """Return the two spatial sizes of the result.

    Raises
    ------
    ValueError
        If an attribute is out of range, or a window does not fit even once.
    """
    for name, pair, least in (
        ("window", window, 1),
        ("strides", strides, 1),
        ("dilations", dilations, 1),
        ("padding", sum(padding, ()), 0),
    ):
        if min(pair) < least:
            raise ValueError(
                f"{where}: {name} out of range: received {pair}; expected integers of at least "
                f"{least}."
            )
    out = tuple(map(window_count, sizes, window, strides, padding, dilations))
    if min(out) < 1:
        span = tuple((k - 1) * d + 1 for k, d in zip(window, dilations))
        raise ValueError(
            f"{where}: the window is larger than the image: received a window of {span} (with "
            f"its dilation) for an image of {tuple(sizes)} padded by {padding}; expected the "
            "window to fit. Use a smaller window, padding='same', or fewer reductions before."
        )
    return out  # type: ignore[return-value]


def taps(
    window: Pair, strides: Pair, dilations: Pair, out: Pair
) -> Iterator[tuple[int, int, tuple[slice, ...]]]:
    """Give, for each place (i, j) in the window, the slices of a padded image under it."""
    for i in range(window[0]):
        for j in range(window[1]):
            rows, columns = (
                slice(at * d, at * d + (n - 1) * s + 1, s)
                for at, d, n, s in zip((i, j), dilations, out, strides)
            )
            yield i, j, (slice(None), rows, columns)


def padded(x: np.ndarray, padding: Padding, value: float = 0) -> np.ndarray:
    """Return images with ``value`` around their two spatial axes."""
    return np.pad(x, ((0, 0), *padding, (0, 0)), constant_values=value)


def spatial(where: str, name: str, value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Return an argument as one positive int per spatial axis."""
    values = (value,) * rank if isinstance(value, (int, np.integer)) else tuple(value)
    if len(values) != rank or not all(isinstance(v, (int, np.integer)) and v > 0 for v in values):
        raise ValueError(
            f"{where}: {name}={value!r} does not fit: expected one positive integer, or one for "
            f"each of the {rank} spatial axes."
        )
    return tuple(int(v) for v in values)


def check_images(where: str, shape: tuple[int, ...], data_format: str | None) -> int:
    """Return the number of spatial axes of a batch of images (or sequences).

    Raises
    ------
    ValueError
        For a layout or a number of axes that is not supported.
    """
    if data_format not in (None, "channels_last"):
        raise ValueError(
            f"{where}: data_format {data_format!r} is not supported; expected 'channels_last'. "
            "Transpose the tensor so that its channels come last."
        )
    if len(shape) not in (3, 4):
        raise ValueError(
            f"{where}: a tensor of {len(shape)} axes does not fit: received shape {shape}; "
            "expected (batch, steps, channels) or (batch, height, width, channels)."
        )
    return len(shape) - 2


def with_height(values: tuple[int, ...], fill: Any = 1) -> tuple[Any, Any]:
    """Return attributes of one spatial axis as those of two: an image of height 1."""
    return (fill, *values) if len(values) == 1 else values  # type: ignore[return-value]
