"""Input: where a functional model begins."""

from __future__ import annotations

import numbers
from typing import Any

from uniflexflow.layers.base import Layer
from uniflexflow.ops.dtypes import floatx
from uniflexflow.ops.symbolic import CallNode, KerasTensor


class InputLayer(Layer):
    """The layer that stands for an input of a model.

    Parameters
    ----------
    shape : tuple of int or None, optional
        Without the batch axis.
    batch_size : int, optional
    dtype : str, optional
    batch_shape : tuple of int or None, optional
        With the batch axis; instead of ``shape``.
    input_tensor : KerasTensor, optional
        A placeholder to use.
    name : str, optional
    """

    def __init__(
        self,
        shape: Any = None,
        batch_size: int | None = None,
        dtype: Any = None,
        batch_shape: Any = None,
        input_tensor: KerasTensor | None = None,
        name: str | None = None,
        **kwargs: Any,
    ):
        for unsupported in ("sparse", "ragged", "optional"):
            if kwargs.pop(unsupported, None):
                raise ValueError(f"InputLayer: `{unsupported}` is not supported.")
        super().__init__(name=name, **kwargs)
        if shape is not None and batch_shape is not None:
            raise ValueError("InputLayer: pass `shape` or `batch_shape`, not both.")
        if batch_size is not None and batch_shape is not None:
            raise ValueError("InputLayer: `batch_size` is already the first of `batch_shape`.")
        if input_tensor is not None:
            if not isinstance(input_tensor, KerasTensor):
                raise ValueError(
                    f"InputLayer: `input_tensor` must be a KerasTensor; received {input_tensor!r}."
                )
            batch_shape, dtype = input_tensor.shape, input_tensor.dtype
        if batch_shape is None:
            if shape is None:
                raise ValueError("InputLayer: you must pass a `shape` argument.")
            if isinstance(shape, int):
                raise ValueError(
                    f"InputLayer: `shape` must be a tuple; received {shape}. Write ({shape},)."
                )
            batch_shape = (batch_size, *shape)
        for n in batch_shape:
            whole = isinstance(n, numbers.Integral) and not isinstance(n, bool)
            if n is not None and not (whole and n >= 0):
                raise ValueError(
                    "InputLayer: sizes must be integers of 0 or more, or None where they vary; "
                    f"received the shape {tuple(batch_shape)}."
                )
        self.batch_shape = tuple(None if n is None else int(n) for n in batch_shape)
        # the dtype of the data: an integer type too, unlike that of other layers
        self.dtype_policy = getattr(dtype, "compute_dtype", dtype) or floatx()
        self.autocast = False
        self.built = True
        tensor = input_tensor
        if tensor is None:
            tensor = KerasTensor(self.batch_shape, self.dtype, self.name)
        self._inbound_nodes.append(CallNode(self, (), {}, tensor))

    @property
    def batch_size(self) -> int | None:
        """Size of the batch axis, if it is fixed."""
        return self.batch_shape[0]

    def call(self) -> Any:
        raise RuntimeError(f"InputLayer '{self.name}' can't be called.")

    def get_config(self) -> dict[str, Any]:
        return {
            "batch_shape": list(self.batch_shape),
            "dtype": self.dtype,
            "name": self.name,
        }


def Input(
    shape: Any = None,
    batch_size: int | None = None,
    dtype: Any = None,
    name: str | None = None,
    tensor: KerasTensor | None = None,
    batch_shape: Any = None,
    **kwargs: Any,
) -> KerasTensor:
    """Return a placeholder: an input of a functional model.

    Parameters
    ----------
    shape : tuple of int or None
        Without the batch axis; None where a size varies.
    batch_size : int, optional
        Fixes the batch size.
    dtype : str, optional
        Default: ``floatx()``.
    name : str, optional
    tensor : KerasTensor, optional
        A placeholder to use.
    batch_shape : tuple of int or None, optional
        With the batch axis; instead of ``shape``.

    Examples
    --------
    >>> Input((28, 28, 1)).shape
    (None, 28, 28, 1)
    """
    layer = InputLayer(
        shape=shape,
        batch_size=batch_size,
        dtype=dtype,
        name=name,
        input_tensor=tensor,
        batch_shape=batch_shape,
        **kwargs,
    )
    return layer.output
