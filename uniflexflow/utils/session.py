"""Seeds and names of the whole process."""

from __future__ import annotations

import gc

from uniflexflow import naming
from uniflexflow.ops.dtypes import canonical_dtype, floatx
from uniflexflow.ops.symbolic import KerasTensor
from uniflexflow.ops.variable import Variable
from uniflexflow.random import set_random_seed

__all__ = ["clear_session", "is_keras_tensor", "set_random_seed", "standardize_dtype"]


def clear_session(free_memory: bool = True) -> None:
    """Forget which automatic names were given, and give memory back.

    Parameters
    ----------
    free_memory : bool
        Whether to collect garbage at once.
    """
    naming.reset()
    if free_memory:
        gc.collect()


def is_keras_tensor(x: object) -> bool:
    """Say whether ``x`` is a placeholder of a functional model.

    Examples
    --------
    >>> is_keras_tensor(KerasTensor((None, 2)))
    True
    """
    return isinstance(x, KerasTensor)


def standardize_dtype(dtype: object) -> str:
    """Return the name of a dtype; the default float type for None.

    Examples
    --------
    >>> standardize_dtype(None), standardize_dtype("int32")
    ('float32', 'int32')
    """
    if dtype is None:
        return floatx()
    return dtype.dtype if isinstance(dtype, Variable) else canonical_dtype(dtype)
