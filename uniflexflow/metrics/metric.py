"""Metric: a number gathered over batches.

Its state is a few float64 Variables, so that sums over an epoch are the same in any
order up to the last bits of float64. ``update_state`` and ``result`` work in a trace,
where they become part of the step, and on NumPy arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from uniflexflow import initializers, naming
from uniflexflow.ir import scope
from uniflexflow.ops.dtypes import canonical_dtype, floatx, is_float
from uniflexflow.ops.variable import Variable

STATE_DTYPE = "float64"


class Metric:
    """Base of all metrics; subclasses define ``update_state`` and ``result``.

    Parameters
    ----------
    dtype : str, optional
        In which values are computed before they are summed; default ``floatx()``.
    name : str, optional

    Examples
    --------
    >>> import uniflexflow as uff
    >>> class Largest(Metric):
    ...     def __init__(self, name="largest"):
    ...         super().__init__(name=name)
    ...         self.largest = self.add_variable((), "zeros", name="largest")
    ...
    ...     def update_state(self, y_true, y_pred, sample_weight=None):
    ...         self.largest.assign(uff.ops.maximum(self.largest, uff.ops.max(y_pred)))
    ...
    ...     def result(self):
    ...         return self.largest.value
    >>> metric = Largest()
    >>> metric.update_state(None, np.array([1.0, 3.0]))
    >>> metric.update_state(None, np.array([2.0]))
    >>> float(metric.result())
    3.0
    """

    #: Which way is better: "up", "down" or None.
    _direction: str | None = None

    def __init__(self, dtype: Any = None, name: str | None = None):
        self.name = name or naming.auto_name(type(self).__name__)
        self._dtype = canonical_dtype(getattr(dtype, "compute_dtype", dtype) or floatx())

    def __new__(cls, *args: Any, **kwargs: Any) -> Metric:
        self = super().__new__(cls)
        object.__setattr__(self, "_variables", [])
        object.__setattr__(self, "_metrics", [])
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Variable) and not any(v is value for v in self._variables):
            self._variables.append(value)
        elif isinstance(value, Metric) and not any(m is value for m in self._metrics):
            self._metrics.append(value)
        super().__setattr__(name, value)

    @property
    def dtype(self) -> str:
        """In which values are computed before they are summed."""
        return self._dtype

    @property
    def variables(self) -> list[Variable]:
        """Its state, and that of metrics that it holds."""
        inner = [v for m in self._metrics for v in m.variables]
        return [*self._variables, *inner]

    def add_variable(
        self,
        shape: tuple[int, ...],
        initializer: Any = "zeros",
        dtype: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """Add a variable to the state.

        Parameters
        ----------
        shape : tuple of int
        initializer : str or callable
        dtype : str, optional
            Float state is kept in float64, whatever float type is asked for.
        name : str, optional
        """
        dtype = canonical_dtype(dtype or STATE_DTYPE)
        dtype = STATE_DTYPE if is_float(dtype) else dtype
        make = initializers.get(initializer)
        with scope(self.name.replace("/", ">")):
            variable = Variable(
                np.asarray(make(tuple(shape), dtype=dtype)),
                trainable=False,
                name=name,
                autocast=False,
            )
        self._variables.append(variable)
        return variable

    def add_weight(
        self,
        shape: tuple[int, ...] = (),
        initializer: Any = "zeros",
        dtype: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """Add a variable to the state; see ``add_variable``."""
        return self.add_variable(shape, initializer or "zeros", dtype, name)

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        """Take in a batch; to be defined by subclasses."""
        raise NotImplementedError(f"{type(self).__name__}: a Metric must define `update_state`.")

    def result(self) -> Any:
        """Return the metric of what was taken in; to be defined by subclasses."""
        raise NotImplementedError(f"{type(self).__name__}: a Metric must define `result`.")

    def reset_state(self) -> None:
        """Forget what was taken in."""
        for v in self.variables:
            v.assign(np.zeros(v.shape, v.dtype))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Take in a batch and return the result."""
        self.update_state(*args, **kwargs)
        return self.result()

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"name": self.name, "dtype": self.dtype}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Metric:
        """Make a metric from ``get_config``'s result."""
        return cls(**config)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}>"
