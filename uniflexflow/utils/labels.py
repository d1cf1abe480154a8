"""Class labels, norms and sequences as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def to_categorical(x: Any, num_classes: int | None = None) -> np.ndarray:
    """Turn class labels into one-hot rows.

    Parameters
    ----------
    x : array_like of int
        Labels from 0 to ``num_classes - 1``; a last axis of size 1 is dropped.
    num_classes : int, optional
        Default: the largest label + 1.

    Returns
    -------
    ndarray
        Shape of ``x`` with a last axis of ``num_classes``.

    Raises
    ------
    ValueError
        If a label is out of range.

    Examples
    --------
    >>> to_categorical([0, 2]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    labels = np.asarray(x)
    if labels.size and not np.array_equal(labels, np.floor(labels)):
        raise ValueError(f"to_categorical: expected integer labels; received {labels.dtype}.")
    labels = labels.astype(np.int64)
    shape = labels.shape
    if len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    if num_classes is None:
        num_classes = int(labels.max()) + 1 if labels.size else 0
    if labels.size and not 0 <= labels.min() <= labels.max() < num_classes:
        raise ValueError(
            f"to_categorical: labels lie in {int(labels.min())}..{int(labels.max())}; expected "
            f"0..{num_classes - 1} (num_classes={num_classes})."
        )
    out = np.zeros((labels.size, num_classes))
    out[np.arange(labels.size), labels.reshape(-1)] = 1
    return out.reshape(*shape, num_classes)


def normalize(x: Any, axis: int = -1, order: int = 2) -> np.ndarray:
    """Divide vectors by their norm; zero vectors stay.

    Parameters
    ----------
    x : array
    axis : int
    order : int
        Which p-norm.

    Examples
    --------
    >>> normalize([[3.0, 4.0]]).tolist()
    [[0.6, 0.8]]
    """
    x = np.asarray(x)
    norm = np.atleast_1d(np.linalg.norm(x, order, axis))
    norm[norm == 0] = 1
    return x / np.expand_dims(norm, axis)


def pad_sequences(
    sequences: Sequence[Any],
    maxlen: int | None = None,
    dtype: Any = "int32",
    padding: str = "pre",
    truncating: str = "pre",
    value: Any = 0.0,
) -> np.ndarray:
    """Bring sequences to one length.

    Parameters
    ----------
    sequences : list of sequences
        Of numbers, or of vectors of one shape.
    maxlen : int, optional
        Default: that of the longest.
    dtype : str
    padding, truncating : {"pre", "post"}
        Where values are put in, or cut off.
    value : float
        What is put in.

    Returns
    -------
    ndarray
        (sequences, maxlen, ...)

    Examples
    --------
    >>> pad_sequences([[1], [2, 3, 4]], maxlen=2).tolist()
    [[0, 1], [3, 4]]
    """
    for name, where in (("padding", padding), ("truncating", truncating)):
        if where not in ("pre", "post"):
            raise ValueError(f"pad_sequences: `{name}` must be 'pre' or 'post'; got {where!r}.")
    if not hasattr(sequences, "__len__"):
        raise ValueError("`sequences` must be iterable.")
    rows = []
    for row in sequences:
        if not hasattr(row, "__len__"):
            raise ValueError(
                f"`sequences` must be a list of iterables. Found non-iterable: {row!r}"
            )
        rows.append(np.asarray(row))
    if maxlen is None:
        maxlen = max((len(r) for r in rows), default=0)
    inner: tuple[int, ...] = next((r.shape[1:] for r in rows if len(r)), ())
    if isinstance(value, str) and np.dtype(dtype).kind not in "OSU":
        raise ValueError(f"`dtype` {dtype} is not compatible with `value`'s type: {type(value)}.")
    out = np.full((len(rows), maxlen, *inner), value, dtype=dtype)
    for place, row in enumerate(rows):
        if not len(row):
            continue
        if row.shape[1:] != inner:
            raise ValueError(
                f"Shape of sample {row.shape[1:]} of sequence at position {place} is different "
                f"from expected shape {inner}"
            )
        kept = row[len(row) - maxlen if len(row) > maxlen else 0 :]
        if truncating == "post":
            kept = row[:maxlen]
        if padding == "post":
            out[place, : len(kept)] = kept
        else:
            out[place, maxlen - len(kept) :] = kept
    return out
