"""Adam and its relatives: averages of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from uniflexflow import ops
from uniflexflow.ops.variable import Variable
from uniflexflow.optimizers.optimizer import Optimizer, update_dtype


class _Adaptive(Optimizer):
    """What the family shares: two averages per weight, m and v."""

    _slots = ("momentum", "velocity")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def build(self, variables: Sequence[Variable]) -> None:
        """Make the state for these weights."""
        if self.built:
            return
        super().build(variables)
        self._m, self._v = self.add_optimizer_variables(variables, self._slots)

    def beta_power(self, beta: float, dtype: str) -> Any:
        """Return beta to the power of the step's number."""
        step = self.step_number(dtype)
        return self.per_step(f"power {beta}", dtype, lambda: ops.power(float(beta), step))

    def update_m(self, i: int, gradient: Any) -> Any:
        """Move the average of the gradient; return it."""
        m = self._m[i]
        m.assign(m + (gradient - m) * (1.0 - self.beta_1))
        return m.value

    def update_v(self, i: int, gradient: Any) -> Any:
        """Move the average of the gradient's square; return it."""
        v = self._v[i]
        v.assign(v + (ops.square(gradient) - v) * (1.0 - self.beta_2))
        return v.value

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
        }


class Adam(_Adaptive):
    """w -= alpha m / (sqrt(v) + epsilon).

    m and v average g and g**2 with beta_1 and beta_2; at step t,
    alpha = lr sqrt(1 - beta_2**t) / (1 - beta_1**t).

    Parameters
    ----------
    learning_rate : float or LearningRateSchedule
    beta_1, beta_2 : float
    epsilon : float
    amsgrad : bool
        Whether to divide by the largest v so far.
    **kwargs
        See `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, **kwargs)
        self.amsgrad = amsgrad

    def build(self, variables: Sequence[Variable]) -> None:
        """Make the state for these weights."""
        if self.built:
            return
        super().build(variables)
        if self.amsgrad:
            self._v_hat = self.add_optimizer_variables(variables, "velocity_hat")

    def _alpha(self, learning_rate: Any, dtype: str) -> Any:
        lr = self.rate(learning_rate, dtype)
        correction = ops.sqrt(1.0 - self.beta_power(self.beta_2, dtype))
        return lr * correction / (1.0 - self.beta_power(self.beta_1, dtype))

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Any) -> None:
        """Update one weight."""
        i, dtype = self.index_of(variable), update_dtype(variable)
        alpha = self.per_step("alpha", dtype, lambda: self._alpha(learning_rate, dtype))
        m, v = self.update_m(i, gradient), self.update_v(i, gradient)
        if self.amsgrad:
            v = ops.maximum(self._v_hat[i], v)
            self._v_hat[i].assign(v)
        variable.assign(variable - m * alpha / (ops.sqrt(v) + self.epsilon))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "amsgrad": self.amsgrad}


class AdamW(Adam):
    """Adam with decoupled weight decay: w -= w * weight_decay * lr comes first.

    Parameters
    ----------
    learning_rate : float or LearningRateSchedule
    weight_decay : float
    beta_1, beta_2 : float
    epsilon : float
    amsgrad : bool
    **kwargs
        See `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        weight_decay: float = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **kwargs: Any,
    ):
        if weight_decay is None:
            raise ValueError("AdamW: `weight_decay` must be a float; received None.")
        super().__init__(
            learning_rate,
            beta_1,
            beta_2,
            epsilon,
            amsgrad,
            weight_decay=weight_decay,
            **kwargs,
        )


class Adamax(_Adaptive):
    """Adam with the largest gradient so far: ``u = max(beta_2 u, |g|)``.

    w -= lr m / ((1 - beta_1**t) (u + epsilon)).

    Parameters
    ----------
    learning_rate : float or LearningRateSchedule
    beta_1, beta_2 : float
    epsilon : float
    **kwargs
        See `Optimizer`.
    """

    _slots = ("momentum", "norm")

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Any) -> None:
        """Update one weight."""
        i, dtype = self.index_of(variable), update_dtype(variable)
        lr = self.rate(learning_rate, dtype)
        m = self.update_m(i, gradient)
        u = ops.maximum(self.beta_2 * self._v[i], ops.abs(gradient))
        self._v[i].assign(u)
        correction = self.per_step(
            "correction", dtype, lambda: 1.0 - self.beta_power(self.beta_1, dtype)
        )
        variable.assign(variable - lr * m / (correction * (u + self.epsilon)))


class Nadam(_Adaptive):
    """Adam with Nesterov momentum, whose beta_1 grows with the step.

    Parameters
    ----------
    learning_rate : float or LearningRateSchedule
    beta_1, beta_2 : float
    epsilon : float
    **kwargs
        See `Optimizer`.
    """

    def build(self, variables: Sequence[Variable]) -> None:
        """Make the state for these weights."""
        if self.built:
            return
        super().build(variables)
        dtype = update_dtype(variables[0]) if variables else None
        self._u_product = self.add_variable((), 1.0, dtype, "u_product")

    def _u(self, step: Any) -> Any:
        return self.beta_1 * (1.0 - 0.5 * ops.power(0.96, step))

    def update_all(self, grads: list[Any], variables: list[Variable], learning_rate: Any) -> None:
        """Update the product of the momenta so far, then each weight."""
        product = self._u_product
        product.assign(product * self._u(self.step_number(product.dtype)))
        super().update_all(grads, variables, learning_rate)

    def _factors(self, dtype: str) -> tuple[Any, Any, Any]:
        # of m, of g, and of v in this step
        step = self.step_number(dtype)
        u, u_next = self._u(step), self._u(step + 1.0)
        product = ops.cast(self._u_product, dtype)
        return (
            u_next / (1.0 - product * u_next),
            (1.0 - u) / (1.0 - product),
            1.0 - self.beta_power(self.beta_2, dtype),
        )

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Any) -> None:
        """Update one weight."""
        i, dtype = self.index_of(variable), update_dtype(variable)
        lr = self.rate(learning_rate, dtype)
        of_m, of_g, of_v = self.per_step("factors", dtype, lambda: self._factors(dtype))
        m, v = self.update_m(i, gradient), self.update_v(i, gradient)
        m_hat = of_m * m + of_g * gradient
        variable.assign(variable - m_hat * lr / (ops.sqrt(v / of_v) + self.epsilon))


class Lamb(_Adaptive):
    """Adam whose step of each weight has the weight's own norm.

    Parameters
    ----------
    learning_rate : float or LearningRateSchedule
    beta_1, beta_2 : float
    epsilon : float
    **kwargs
        See `Optimizer`.
    """

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Any) -> None:
        """Update one weight."""
        i, dtype = self.index_of(variable), update_dtype(variable)
        lr = self.rate(learning_rate, dtype)
        m, v = self.update_m(i, gradient), self.update_v(i, gradient)
        m_hat = m / (1.0 - self.beta_power(self.beta_1, dtype))
        v_hat = v / (1.0 - self.beta_power(self.beta_2, dtype))
        step = m_hat / (ops.sqrt(v_hat) + self.epsilon)
        w_norm = ops.sqrt(ops.sum(ops.square(variable)))
        step_norm = ops.sqrt(ops.sum(ops.square(step)))
        both = ops.logical_and(w_norm > 0, step_norm > 0)
        ratio = ops.where(both, w_norm / ops.where(both, step_norm, 1.0), 1.0)
        variable.assign(variable - ratio * lr * step)
