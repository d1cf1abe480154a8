"""Steps divided by the size of past gradients: RMSprop, Adagrad, Adadelta, Ftrl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from uniflexflow import ops
from uniflexflow.ops.variable import Variable
from uniflexflow.optimizers.optimizer import Optimizer, update_dtype


class RMSprop(Optimizer):
    """v = rho v + (1 - rho) g**2; w -= lr g / sqrt(v + epsilon).

    With momentum: m = momentum * m + that step, w -= m. If ``centered``, the square of
    the gradients' average is taken from v.

    Parameters
    ----------
    learning_rate : float or LearningRateSchedule
    rho : float
    momentum : float
    epsilon : float
    centered : bool
    **kwargs
        See `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, **kwargs)
        self.rho = rho
        self.momentum = momentum
        self.epsilon = epsilon
        self.centered = centered

    def build(self, variables: Sequence[Variable]) -> None:
        """Make the state for these weights."""
        if self.built:
            return
        super().build(variables)
        self._velocities = self.add_optimizer_variables(variables, "velocity")
        if self.momentum > 0:
            self._momentums = self.add_optimizer_variables(variables, "momentum")
        if self.centered:
            self._means = self.add_optimizer_variables(variables, "average_gradient")

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Any) -> None:
        """Update one weight."""
        i = self.index_of(variable)
        lr = self.rate(learning_rate, update_dtype(variable))
        v = self.rho * self._velocities[i] + (1.0 - self.rho) * ops.square(gradient)
        self._velocities[i].assign(v)
        if self.centered:
            mean = self.rho * self._means[i] + (1.0 - self.rho) * gradient
            self._means[i].assign(mean)
            v = v - ops.square(mean)
        step = lr * gradient / ops.sqrt(v + self.epsilon)
        if self.momentum > 0:
            step = self.momentum * self._momentums[i] + step
            self._momentums[i].assign(step)
        variable.assign(variable - step)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "rho": self.rho,
            "momentum": self.momentum,
            "epsilon": self.epsilon,
            "centered": self.centered,
        }


class Adagrad(Optimizer):
    """a += g**2; w -= lr g / sqrt(a + epsilon).

    Parameters
    ----------
    learning_rate : float or LearningRateSchedule
    initial_accumulator_value : float
        The first a.
    epsilon : float
    **kwargs
        See `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, **kwargs)
        self.initial_accumulator_value = initial_accumulator_value
        self.epsilon = epsilon

    def build(self, variables: Sequence[Variable]) -> None:
        """Make the state for these weights."""
        if self.built:
            return
        super().build(variables)
        self._accumulated = self.add_optimizer_variables(
            variables, "accumulator", self.initial_accumulator_value
        )

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Any) -> None:
        """Update one weight."""
        slot = self._accumulated[self.index_of(variable)]
        lr = self.rate(learning_rate, update_dtype(variable))
        a = slot + ops.square(gradient)
        slot.assign(a)
        variable.assign(variable - lr * gradient / ops.sqrt(a + self.epsilon))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "initial_accumulator_value": self.initial_accumulator_value,
            "epsilon": self.epsilon,
        }


class Adadelta(Optimizer):
    """a = rho a + (1 - rho) g**2; d = -g sqrt(s + epsilon) / sqrt(a + epsilon); w += lr d.

    s is the average of d**2 so far, kept as a is.

    Parameters
    ----------
    learning_rate : float or LearningRateSchedule
    rho : float
    epsilon : float
    **kwargs
        See `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-7,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, **kwargs)
        self.rho = rho
        self.epsilon = epsilon

    def build(self, variables: Sequence[Variable]) -> None:
        """Make the state for these weights."""
        if self.built:
            return
        super().build(variables)
        self._squares, self._steps = self.add_optimizer_variables(
            variables, ["accumulated_grad", "accumulated_delta_var"]
        )

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Any) -> None:
        """Update one weight."""
        i = self.index_of(variable)
        lr = self.rate(learning_rate, update_dtype(variable))
        a = self.rho * self._squares[i] + (1.0 - self.rho) * ops.square(gradient)
        root = ops.sqrt(self._steps[i] + self.epsilon)
        step = -(root * gradient / ops.sqrt(a + self.epsilon))
        self._squares[i].assign(a)
        self._steps[i].assign(self.rho * self._steps[i] + (1.0 - self.rho) * ops.square(step))
        variable.assign(variable + lr * step)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "rho": self.rho, "epsilon": self.epsilon}


class Ftrl(Optimizer):
    """Follow the regularised leader, for sparse models.

    Parameters
    ----------
    learning_rate : float or LearningRateSchedule
    learning_rate_power : float
        Not above 0.
    initial_accumulator_value : float
    l1_regularization_strength, l2_regularization_strength : float
    l2_shrinkage_regularization_strength : float
    beta : float
    **kwargs
        See `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, **kwargs)
        if learning_rate_power > 0.0:
            raise ValueError(
                "Ftrl: `learning_rate_power` needs to be negative or zero; received "
                f"{learning_rate_power!r}."
            )
        not_negative = {
            "initial_accumulator_value": initial_accumulator_value,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
        }
        for name, value in not_negative.items():
            if value < 0.0:
                raise ValueError(
                    f"Ftrl: `{name}` needs to be positive or zero; received {value!r}."
                )
        self.learning_rate_power = learning_rate_power
        self.initial_accumulator_value = initial_accumulator_value
        self.l1_regularization_strength = l1_regularization_strength
        self.l2_regularization_strength = l2_regularization_strength
        self.l2_shrinkage_regularization_strength = l2_shrinkage_regularization_strength
        self.beta = beta

    def build(self, variables: Sequence[Variable]) -> None:
        """Make the state for these weights."""
        if self.built:
            return
        super().build(variables)
        self._accumulated, self._linears = self.add_optimizer_variables(
            variables, ["accumulator", "linear"], [self.initial_accumulator_value, 0.0]
        )

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Any) -> None:
        """Update one weight."""
        i = self.index_of(variable)
        lr = self.rate(learning_rate, update_dtype(variable))
        l1 = float(self.l1_regularization_strength)
        l2 = self.l2_regularization_strength + self.beta / (2.0 * lr)
        shrunk = gradient + 2.0 * self.l2_shrinkage_regularization_strength * variable
        accumulated = self._accumulated[i]
        new = accumulated + ops.square(gradient)
        power = -float(self.learning_rate_power)
        new_root = ops.power(new, power)
        linear = self._linears[i] + (
            shrunk - (new_root - ops.power(accumulated, power)) / lr * variable
        )
        quadratic = new_root / lr + 2.0 * l2
        clipped = ops.minimum(ops.maximum(linear, -l1), l1)
        self._linears[i].assign(linear)
        accumulated.assign(new)
        variable.assign((clipped - linear) / quadratic)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "learning_rate_power": self.learning_rate_power,
            "initial_accumulator_value": self.initial_accumulator_value,
            "l1_regularization_strength": self.l1_regularization_strength,
            "l2_regularization_strength": self.l2_regularization_strength,
            "l2_shrinkage_regularization_strength": self.l2_shrinkage_regularization_strength,
            "beta": self.beta,
        }
