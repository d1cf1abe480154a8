"""SGD and Lion: steps along the gradient or its sign, with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from uniflexflow import ops
from uniflexflow.ops.variable import Variable
from uniflexflow.optimizers.optimizer import Optimizer, update_dtype


class SGD(Optimizer):
    """Stochastic gradient descent.

    w -= lr g; with momentum: m = momentum * m - lr g, then w += m, or, if ``nesterov``,
    w += momentum * m - lr g.

    Parameters
    ----------
    learning_rate : float or LearningRateSchedule
    momentum : float
    nesterov : bool
    **kwargs
        See `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, **kwargs)
        if not 0 <= momentum <= 1:
            raise ValueError(
                f"SGD: `momentum` must be a float between 0 and 1; received {momentum!r}."
            )
        self.momentum = float(momentum)
        self.nesterov = nesterov

    def build(self, variables: Sequence[Variable]) -> None:
        """Make the state for these weights."""
        if self.built:
            return
        super().build(variables)
        self._momentums = (
            self.add_optimizer_variables(variables, "momentum") if self.momentum else []
        )

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Any) -> None:
        """Update one weight."""
        step = gradient * self.rate(learning_rate, update_dtype(variable))
        if not self.momentum:
            variable.assign(variable - step)
            return
        slot = self._momentums[self.index_of(variable)]
        m = slot * self.momentum - step
        slot.assign(m)
        variable.assign(variable + (m * self.momentum - step if self.nesterov else m))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "momentum": self.momentum,
            "nesterov": self.nesterov,
        }


class Lion(Optimizer):
    """w -= lr sign(beta_1 m + (1 - beta_1) g), then m = beta_2 m + (1 - beta_2) g.

    Parameters
    ----------
    learning_rate : float or LearningRateSchedule
    beta_1, beta_2 : float
    **kwargs
        See `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, **kwargs)
        if not 0 < beta_1 <= 1:
            raise ValueError(
                "Lion: `beta_1` must be in the range (0, 1], or Lion degenerates to "
                f"SignSGD; received {beta_1!r}."
            )
        self.beta_1 = beta_1
        self.beta_2 = beta_2

    def build(self, variables: Sequence[Variable]) -> None:
        """Make the state for these weights."""
        if self.built:
            return
        super().build(variables)
        self._momentums = self.add_optimizer_variables(variables, "momentum")

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Any) -> None:
        """Update one weight."""
        m = self._momentums[self.index_of(variable)]
        lr = self.rate(learning_rate, update_dtype(variable))
        direction = ops.sign(m * self.beta_1 + gradient * (1.0 - self.beta_1))
        variable.assign(variable - lr * direction)
        m.assign(m * self.beta_2 + gradient * (1.0 - self.beta_2))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "beta_1": self.beta_1, "beta_2": self.beta_2}
