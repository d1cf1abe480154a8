"""What a batch is made of: inputs, targets and sample weights, as arrays.

Conversions that every source of data needs. Nothing here knows models or training.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from uniflexflow import tree
from uniflexflow.ops.dtypes import DTYPES

# What the graph's dtypes lack goes to the next one that holds its values.
_WIDENED = {"int16": "int32", "uint16": "int32", "uint32": "int64", "uint64": "int64"}


def pack_x_y_sample_weight(x: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """Pack data into the form in which ``train_step`` receives it.

    Parameters
    ----------
    x, y, sample_weight : array or structure of arrays, optional

    Examples
    --------
    >>> pack_x_y_sample_weight(1, 2)
    (1, 2)
    >>> pack_x_y_sample_weight(1)
    1
    """
    if y is None and sample_weight is None:
        return (x,) if isinstance(x, (tuple, list)) else x
    return (x, y) if sample_weight is None else (x, y, sample_weight)


def unpack_x_y_sample_weight(data: Any) -> tuple[Any, Any, Any]:
    """Unpack a batch into inputs, targets and sample weights; what lacks is None.

    Raises
    ------
    ValueError
        If ``data`` is a tuple of more than three parts.

    Examples
    --------
    >>> unpack_x_y_sample_weight((1, 2))
    (1, 2, None)
    """
    if isinstance(data, list):
        data = tuple(data)
    if not isinstance(data, tuple):
        return data, None, None
    if 1 <= len(data) <= 3:
        return (*data, *[None] * (3 - len(data)))  # type: ignore[return-value]
    raise ValueError(
        f"Data is expected to be in the format `x`, `(x,)`, `(x, y)` or "
        f"`(x, y, sample_weight)`; received a tuple of {len(data)} parts."
    )


def feed_dtype(dtype: Any, float_dtype: str, where: str = "data") -> str:
    """Return the dtype in which an array goes into the graph.

    Floating-point numbers wider than ``float_dtype`` become that (a float64 array for
    a float32 model); integers and booleans stay, for the graph casts them itself.

    Raises
    ------
    TypeError
        If tensors can't hold such numbers (text, objects).
    """
    dtype = np.dtype(dtype)
    name = dtype.name
    if name == "float64":
        return float_dtype
    if name in DTYPES:
        return name
    if name in ("float16", "longdouble", "float128"):
        return float_dtype
    if name in _WIDENED:
        return _WIDENED[name]
    raise TypeError(
        f"{where}: arrays of dtype {name!r} can't be fed to a model; expected numbers or "
        "booleans. Convert it first (text: to integer codes)."
    )


def is_stored(x: Any) -> bool:
    """Say whether ``x`` is rows in a file: an ``h5py.Dataset`` or what behaves like one."""
    return (
        not isinstance(x, np.ndarray)
        and hasattr(x, "chunks")
        and hasattr(x, "shape")
        and hasattr(x, "dtype")
        and hasattr(x, "__getitem__")
    )


def as_arrays(structure: Any, where: str) -> Any:
    """Turn the leaves of a nested structure into arrays; stored rows stay where they are.

    A list of plain numbers is one array, a list of arrays is several.
    """

    def is_numbers(x: Any) -> bool:
        while isinstance(x, (list, tuple)) and x:
            x = x[0]
        return isinstance(x, (bool, int, float, np.generic))

    def convert(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: convert(v) for k, v in x.items()}
        if isinstance(x, (list, tuple)) and not is_numbers(x):
            items = [convert(v) for v in x]
            return items if isinstance(x, list) else tuple(items)
        if x is None or is_stored(x):
            return x
        if hasattr(x, "to_numpy"):  # a pandas table or column
            x = x.to_numpy()
        if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
            raise ValueError(
                f"{where}: masked arrays can't be fed to a model, which has no place for their "
                "masks. Fill them: x.filled(value); to leave steps out, use a Masking layer."
            )
        try:
            array = np.asarray(x)
        except ValueError as error:
            raise ValueError(
                f"{where}: the data can't be made an array: {error} All rows must have the same "
                "shape; see utils.pad_sequences."
            ) from error
        if array.ndim == 0:
            raise ValueError(
                f"{where}: expected arrays with a first axis of samples; "
                f"received {type(x).__name__} {x!r}."
            )
        return array

    return convert(structure)


def check_cardinality(x: Any, y: Any, sample_weight: Any) -> int:
    """Return the number of samples, which all arrays must share.

    Raises
    ------
    ValueError
        If they don't, or if there are none.
    """
    sizes = {int(a.shape[0]) for a in tree.flatten((x, y, sample_weight)) if a is not None}
    if len(sizes) == 1:
        return sizes.pop()
    if not sizes:
        raise ValueError("No data: expected at least one array for `x`.")
    lines = [
        "Data cardinality is ambiguous. Make sure all arrays contain the same number of samples."
    ]
    for label, part in (("x", x), ("y", y), ("sample_weight", sample_weight)):
        counts = [str(a.shape[0]) for a in tree.flatten(part) if a is not None]
        if counts:
            lines.append(f"'{label}' sizes: {', '.join(counts)}")
    raise ValueError("\n".join(lines))


def class_weights_of(y: Any, class_weight: dict[int, float], dtype: str) -> np.ndarray:
    """Return one weight per sample, by the class its target names.

    ``y`` has integer labels of shape (batch,) or (batch, 1), or one-hot rows. Classes
    that ``class_weight`` doesn't name weigh 1.
    """
    if tree.is_nested(y):
        raise ValueError("`class_weight` is only supported for Models with a single output.")
    if y is None:
        raise ValueError("`class_weight` needs targets: `y` is None.")
    y = np.asarray(y)
    if y.ndim > 1:
        y = np.squeeze(y, -1) if y.shape[-1] == 1 else np.argmax(y, -1)
    if y.ndim != 1:
        raise ValueError(
            "`class_weight` needs one class per sample; received targets whose classes "
            f"have shape {y.shape}. Pass `sample_weight` instead."
        )
    labels = np.round(y).astype(np.int64)
    weights = np.ones(labels.shape, dtype=dtype)
    for label, weight in class_weight.items():
        weights[labels == int(label)] = weight
    return weights


def split_validation(
    x: Any, y: Any, sample_weight: Any, fraction: float
) -> tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]]:
    """Split off the last rows for validation, before any shuffling.

    Raises
    ------
    ValueError
        If the fraction leaves one of the two parts empty, or the data isn't arrays.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"`validation_split` must lie between 0 and 1; received {fraction!r}.")
    if is_batches(x):
        raise ValueError(
            "`validation_split` is only supported for arrays; received "
            f"x of type {type(x).__name__}. Pass `validation_data` instead."
        )
    x, y, sample_weight = (
        as_arrays(part, "fit") if part is not None else None for part in (x, y, sample_weight)
    )
    n = check_cardinality(x, y, sample_weight)
    at = int(np.floor(n * (1.0 - fraction)))
    if at in (0, n):
        raise ValueError(
            f"Training data contains {n} samples, which is not sufficient to split it into "
            f"a validation and training set as specified by `validation_split={fraction}`. "
            "Either provide more data, or a different value for `validation_split`."
        )

    def rows(part: Any, lo: int, hi: int) -> Any:
        def cut(a: Any) -> Any:
            if a is None:
                return None
            return RowRange(a, lo, hi) if is_stored(a) else a[lo:hi]

        return tree.map_structure(cut, part)

    parts = (x, y, sample_weight)
    return (
        tuple(rows(p, 0, at) for p in parts),  # type: ignore[return-value]
        tuple(rows(p, at, n) for p in parts),
    )


def is_batches(x: Any) -> bool:
    """Say whether ``x`` gives whole batches: a generator, a PyDataset, an iterable."""
    if isinstance(x, (np.ndarray, list, tuple, dict)) or x is None:
        return False
    if hasattr(x, "shape") or hasattr(x, "to_numpy"):
        return False
    return hasattr(x, "__iter__") or hasattr(x, "__next__") or hasattr(x, "num_batches")


class RowRange:
    """Some consecutive rows of stored ones, looking like stored rows themselves."""

    def __init__(self, stored: Any, lo: int, hi: int):
        self.stored = stored
        self.lo = lo
        self.shape = (hi - lo, *stored.shape[1:])
        self.dtype = stored.dtype
        self.chunks = stored.chunks

    def __getitem__(self, rows: slice) -> Any:
        lo, hi, _ = rows.indices(self.shape[0])
        return self.stored[self.lo + lo : self.lo + hi]


def warn_ran_out(steps: int) -> None:
    """Tell that the data ended before the epoch did."""
    warnings.warn(
        "Your input ran out of data; interrupting the epoch after "
        f"{steps} batches. Make sure that your dataset or generator can generate at least "
        "`steps_per_epoch * epochs` batches.",
        stacklevel=4,
    )
