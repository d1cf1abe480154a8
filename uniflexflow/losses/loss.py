"""Loss: from targets and predictions to one number.

A loss function gives one value per sample (or per step of a sample); ``Loss`` weights
these, leaves out masked ones, and reduces them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from uniflexflow import naming, ops, tree
from uniflexflow.ir import scope
from uniflexflow.ops.dtypes import canonical_dtype, floatx
from uniflexflow.ops.mask import get_mask

REDUCTIONS = ("sum_over_batch_size", "mean", "mean_with_sample_weight", "sum", "none", None)


def as_tensors(structure: Any, dtype: str | None = None) -> Any:
    """Return a structure of tensors in ``dtype``; a list of plain numbers is one tensor.

    Without ``dtype``, tensors stay as they are.
    """
    leaves = tree.flatten(structure)
    if all(isinstance(x, (int, float, bool)) for x in leaves):
        structure = np.asarray(structure, dtype=dtype)
    if dtype is None:
        return structure
    return tree.map_structure(lambda x: ops.cast(x, dtype), structure)


def squeeze_or_expand_to_same_rank(x1: Any, x2: Any, expand_rank_1: bool = True) -> Any:
    """Drop or add a last axis of size 1 where one tensor has just that more.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = squeeze_or_expand_to_same_rank(np.zeros(3), np.zeros((3, 1)))
    >>> a.shape, b.shape
    ((3, 1), (3, 1))
    """

    def fit(long: Any, short: Any) -> tuple[Any, Any]:
        if long.shape[-1] == 1:
            if len(short.shape) == 1 and expand_rank_1:
                return long, ops.expand_dims(short, -1)
            return ops.squeeze(long, -1), short
        return long, short

    if len(x1.shape) == len(x2.shape) + 1:
        return fit(x1, x2)
    if len(x2.shape) == len(x1.shape) + 1:
        return fit(x2, x1)[::-1]
    return x1, x2


def divide_no_nan(x: Any, y: Any) -> Any:
    """Return x / y, and 0 where y is 0."""
    zero = ops.equal(y, 0.0)
    return ops.where(zero, 0.0, x / ops.where(zero, 1.0, y))


def check_reduction(reduction: str | None) -> str | None:
    """Return the reduction if there is one of that name.

    Raises
    ------
    ValueError
        If not.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(
            f"Invalid value for argument `reduction`: {reduction!r}; expected one of {REDUCTIONS}."
        )
    return reduction


def apply_mask(sample_weight: Any, mask: Any, dtype: str, reduction: str | None) -> Any:
    """Merge a mask into the weights.

    For a mean, valid entries weigh total/valid, so that the mean over all entries is
    the mean over the valid ones.
    """
    if mask is None:
        return sample_weight
    weight = ops.cast(mask, dtype)
    if reduction in ("mean", "sum_over_batch_size"):
        valid = ops.sum(weight)  # may be 0
        total = float(np.prod(mask.shape, dtype=np.int64))
        weight = ops.where(ops.cast(mask, "bool"), divide_no_nan(total, valid), 0.0)
    if sample_weight is None:
        return weight
    weight, sample_weight = squeeze_or_expand_to_same_rank(weight, ops.cast(sample_weight, dtype))
    return sample_weight * weight


def drop_masked(values: Any, mask: Any) -> Any:
    """Return values that are 0 where a mask of their first axes is false.

    Padding may be no class: its loss is NaN, which no weight makes 0.
    """
    shape = () if mask is None else tuple(mask.shape)
    if not shape or tuple(values.shape[: len(shape)]) != shape:
        return values
    counts = ops.reshape(mask, shape + (1,) * (len(values.shape) - len(shape)))
    return ops.where(ops.cast(counts, "bool"), values, 0.0)


def weigh(values: Any, weight: Any) -> Any:
    """Return values times their weights; what weighs nothing is 0, even if it is NaN."""
    return ops.where(ops.equal(weight, 0), 0.0, values * weight)


def fit_weights(weight: Any, shape: tuple[int, ...]) -> Any:
    """Return weights that broadcast to values of a shape; one per sample goes by samples.

    Raises
    ------
    ValueError
        If they don't fit.
    """
    given = tuple(weight.shape)
    if len(given) == 1 < len(shape) and given[0] == shape[0]:
        return ops.reshape(weight, (*given, *[1] * (len(shape) - 1)))
    padded = (1,) * (len(shape) - len(given)) + given
    if len(padded) > len(shape) or any(w not in (1, n) for w, n in zip(padded, shape)):
        raise ValueError(
            f"`sample_weight` of shape {given} doesn't fit the losses of shape {shape}; expected "
            f"one weight per sample, {shape[:1]}, or one per loss."
        )
    return weight


def reduce_values(values: Any, sample_weight: Any, reduction: str | None) -> Any:
    """Reduce weighted values to a scalar, or leave them."""
    shape = tuple(values.shape)
    if reduction in (None, "none") or shape in ((), (0,)):
        return values
    loss = ops.sum(values)
    if reduction == "sum":
        return loss
    if reduction == "mean_with_sample_weight" and sample_weight is not None:
        return divide_no_nan(loss, ops.sum(sample_weight))
    count = int(np.prod(shape, dtype=np.int64))
    return loss / float(count) if count else loss


def reduce_weighted_values(
    values: Any,
    sample_weight: Any = None,
    mask: Any = None,
    reduction: str | None = "sum_over_batch_size",
    dtype: str | None = None,
) -> Any:
    """Weight values per sample, leave out masked ones, and reduce.

    Parameters
    ----------
    values : array_like
        (batch,) or (batch, steps...)
    sample_weight : array_like, optional
        Same shape as ``values``, or (batch,), or what fits by broadcasting.
    mask : array_like, optional
        True where an entry counts.
    reduction : str, optional
    dtype : str, optional

    Returns
    -------
    array_like
        A scalar, or the weighted values for the reduction ``"none"``.
    """
    check_reduction(reduction)
    dtype = dtype or values.dtype
    dtype = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    values = ops.cast(values, dtype)
    if sample_weight is not None:
        sample_weight = as_tensors(sample_weight, dtype)
    sample_weight = apply_mask(sample_weight, mask, dtype, reduction)
    values = drop_masked(values, mask)
    if sample_weight is not None:
        values, sample_weight = squeeze_or_expand_to_same_rank(values, sample_weight)
        sample_weight = fit_weights(sample_weight, tuple(values.shape))
        values = weigh(values, sample_weight)
    return reduce_values(values, sample_weight, reduction)


class Loss:
    """Base of all losses; subclasses define ``call(y_true, y_pred)``.

    Parameters
    ----------
    name : str, optional
    reduction : str or None
        ``"sum_over_batch_size"`` and ``"mean"``: the sum over the number of values;
        ``"mean_with_sample_weight"``: the sum over the sum of the sample weights;
        ``"sum"``; ``"none"`` or None: one value per sample.
    dtype : str, optional
        In which the loss computes; default ``floatx()``.

    Examples
    --------
    >>> import numpy as np
    >>> class AbsoluteError(Loss):
    ...     def call(self, y_true, y_pred):
    ...         return ops.mean(abs(y_pred - y_true), axis=-1)
    >>> float(AbsoluteError()(np.zeros((2, 2)), np.array([[1.0, 3.0], [0.0, 0.0]])))
    1.0
    """

    #: Class labels are left as integers instead of being cast to ``dtype``.
    integer_targets = False

    def __init__(
        self,
        name: str | None = None,
        reduction: str | None = "sum_over_batch_size",
        dtype: Any = None,
    ):
        self.name = name or naming.auto_name(type(self).__name__)
        self.reduction = check_reduction(reduction)
        self._given_dtype = dtype
        self._dtype = canonical_dtype(getattr(dtype, "compute_dtype", dtype) or floatx())

    @property
    def dtype(self) -> str:
        """In which the loss computes."""
        return self._dtype

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Return the loss of predictions against targets.

        Parameters
        ----------
        y_true, y_pred : array_like
        sample_weight : array_like, optional

        Returns
        -------
        array_like
            A scalar, unless the reduction is ``"none"``.
        """
        mask = get_mask(y_pred)
        with scope(self.name):
            y_pred = as_tensors(y_pred, self.dtype)
            y_true = as_tensors(y_true, None if self.integer_targets else self.dtype)
            values, valid = self.call_with_mask(y_true, y_pred)
            if values is None:
                raise TypeError(f"Loss '{self.name}' returned None; expected a tensor of losses.")
            if mask is None:
                mask = valid
            elif valid is not None:
                mask = ops.logical_and(mask, valid)
            return reduce_weighted_values(values, sample_weight, mask, self.reduction, self.dtype)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one value per sample; to be defined by subclasses."""
        raise NotImplementedError(
            f"{type(self).__name__}: a Loss must define `call(self, y_true, y_pred)`."
        )

    def call_with_mask(self, y_true: Any, y_pred: Any) -> tuple[Any, Any]:
        """Return the values, and a mask of those that count or None."""
        values = self.call(y_true, y_pred)
        return values, get_mask(values)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config: dict[str, Any] = {"name": self.name, "reduction": self.reduction}
        if self._given_dtype is not None:
            config["dtype"] = self.dtype
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Loss:
        """Make a loss from ``get_config``'s result."""
        return cls(**config)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}>"


class LossFunctionWrapper(Loss):
    """A Loss of a function ``fn(y_true, y_pred, **kwargs)``.

    Parameters
    ----------
    fn : callable
    reduction, name, dtype
        See `Loss`.
    **kwargs
        Passed to ``fn`` at each call.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        reduction: str | None = "sum_over_batch_size",
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.fn = fn
        self.fn_kwargs = kwargs
        self.integer_targets = getattr(fn, "integer_targets", False)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return ``fn``'s values after the ranks of the two tensors were matched."""
        if not tree.is_nested(y_true) and not tree.is_nested(y_pred):
            y_true, y_pred = squeeze_or_expand_to_same_rank(y_true, y_pred)
        return self.fn(y_true, y_pred, **self.fn_kwargs)

    def call_with_mask(self, y_true: Any, y_pred: Any) -> tuple[Any, Any]:
        """Return the values, and which of them count where ``fn`` leaves some out."""
        values = self.call(y_true, y_pred)
        valid = getattr(self.fn, "valid_targets", None)
        if valid is None:
            return values, get_mask(values)
        return values, valid(y_true, y_pred, **self.fn_kwargs)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments; built-in losses have no ``fn``."""
        from uniflexflow.saving.serialization import serialize_keras_object

        config = super().get_config()
        if type(self) is LossFunctionWrapper:
            config["fn"] = serialize_keras_object(self.fn)
        return {**config, **serialize_keras_object(self.fn_kwargs)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Loss:
        """Make a loss from ``get_config``'s result."""
        from uniflexflow.saving.serialization import deserialize_arguments

        return cls(**deserialize_arguments(config))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} fn={self.fn.__name__}, kwargs={self.fn_kwargs}>"
