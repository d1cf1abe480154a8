"""Learning rates as functions of the step, computed in the step's graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from uniflexflow import ops
from uniflexflow.ops.dtypes import floatx


class LearningRateSchedule:
    """Base of all schedules; subclasses define ``__call__(step)`` and ``get_config``.

    ``step`` is the number of updates so far: an int64 scalar, symbolic while a training
    step is traced.
    """

    def __call__(self, step: Any) -> Any:
        """Return the learning rate at a step."""
        raise NotImplementedError(
            f"Learning rate schedule '{type(self).__name__}' must override `__call__(self, step)`."
        )

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        raise NotImplementedError(
            f"Learning rate schedule '{type(self).__name__}' must override "
            "`get_config()` in order to be serializable."
        )

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LearningRateSchedule:
        """Make a schedule from ``get_config``'s result."""
        return cls(**config)


def _check_steps(where: str, name: str, value: Any) -> None:
    if not value > 0:
        raise ValueError(f"{where}: argument `{name}` must be > 0; received {value!r}.")


def _step(step: Any) -> Any:
    return ops.cast(step, floatx())


class ExponentialDecay(LearningRateSchedule):
    """initial_learning_rate * decay_rate**(step / decay_steps).

    Parameters
    ----------
    initial_learning_rate : float
    decay_steps : int
    decay_rate : float
    staircase : bool
        Whether the exponent is cut to a whole number.
    name : str

    Examples
    --------
    >>> float(ExponentialDecay(1.0, decay_steps=10, decay_rate=0.25)(5))
    0.5
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        decay_rate: float,
        staircase: bool = False,
        name: str = "ExponentialDecay",
    ):
        _check_steps("ExponentialDecay", "decay_steps", decay_steps)
        self.initial_learning_rate = initial_learning_rate
        self.decay_steps = decay_steps
        self.decay_rate = decay_rate
        self.staircase = staircase
        self.name = name

    def __call__(self, step: Any) -> Any:
        """Return the learning rate at a step."""
        p = _step(step) / float(self.decay_steps)
        p = ops.floor(p) if self.staircase else p
        return self.initial_learning_rate * ops.power(float(self.decay_rate), p)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "initial_learning_rate": self.initial_learning_rate,
            "decay_steps": self.decay_steps,
            "decay_rate": self.decay_rate,
            "staircase": self.staircase,
            "name": self.name,
        }


class PiecewiseConstantDecay(LearningRateSchedule):
    """values[i] up to and at the step boundaries[i], and values[-1] after the last.

    Parameters
    ----------
    boundaries : sequence of int
        Increasing.
    values : sequence of float
        One more than boundaries.
    name : str

    Examples
    --------
    >>> rate = PiecewiseConstantDecay([10, 20], [1.0, 0.5, 0.25])
    >>> [float(rate(step)) for step in (0, 10, 11, 21)]
    [1.0, 1.0, 0.5, 0.25]
    """

    def __init__(
        self,
        boundaries: Sequence[float],
        values: Sequence[float],
        name: str = "PiecewiseConstant",
    ):
        if len(boundaries) != len(values) - 1 or not boundaries:
            raise ValueError(
                "PiecewiseConstantDecay: the length of boundaries should be 1 less than "
                f"the length of values, and at least 1: received boundaries={boundaries} "
                f"of length {len(boundaries)}, and values={values} of length {len(values)}."
            )
        self.boundaries = list(boundaries)
        self.values = list(values)
        self.name = name

    def __call__(self, step: Any) -> Any:
        """Return the learning rate at a step."""
        step = ops.cast(step, "int64")
        rate: Any = ops.cast(self.values[-1], floatx())
        for boundary, value in zip(self.boundaries[::-1], self.values[-2::-1]):
            rate = ops.where(step <= int(boundary), float(value), rate)
        return rate

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"boundaries": self.boundaries, "values": self.values, "name": self.name}


class PolynomialDecay(LearningRateSchedule):
    """(initial - end) * (1 - step / decay_steps)**power + end.

    Parameters
    ----------
    initial_learning_rate : float
    decay_steps : int
    end_learning_rate : float
    power : float
    cycle : bool
        Whether to begin anew, with more steps, when decay_steps are over.
    name : str

    Examples
    --------
    >>> float(PolynomialDecay(1.0, decay_steps=4, end_learning_rate=0.0)(3))
    0.25
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        end_learning_rate: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        name: str = "PolynomialDecay",
    ):
        _check_steps("PolynomialDecay", "decay_steps", decay_steps)
        self.initial_learning_rate = initial_learning_rate
        self.decay_steps = decay_steps
        self.end_learning_rate = end_learning_rate
        self.power = power
        self.cycle = cycle
        self.name = name

    def __call__(self, step: Any) -> Any:
        """Return the learning rate at a step."""
        step, steps = _step(step), float(self.decay_steps)
        if self.cycle:
            rounds = ops.where(ops.equal(step, 0.0), 1.0, ops.ceil(step / steps))
            p = step / (steps * rounds)
        else:
            p = ops.minimum(step, steps) / steps
        span = self.initial_learning_rate - self.end_learning_rate
        return span * ops.power(1.0 - p, float(self.power)) + self.end_learning_rate

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "initial_learning_rate": self.initial_learning_rate,
            "decay_steps": self.decay_steps,
            "end_learning_rate": self.end_learning_rate,
            "power": self.power,
            "cycle": self.cycle,
            "name": self.name,
        }


class InverseTimeDecay(LearningRateSchedule):
    """initial_learning_rate / (1 + decay_rate * step / decay_steps).

    Parameters
    ----------
    initial_learning_rate : float
    decay_steps : int
    decay_rate : float
    staircase : bool
        Whether step / decay_steps is cut to a whole number.
    name : str

    Examples
    --------
    >>> float(InverseTimeDecay(1.0, decay_steps=1, decay_rate=1.0)(3))
    0.25
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        decay_rate: float,
        staircase: bool = False,
        name: str = "InverseTimeDecay",
    ):
        _check_steps("InverseTimeDecay", "decay_steps", decay_steps)
        self.initial_learning_rate = initial_learning_rate
        self.decay_steps = decay_steps
        self.decay_rate = decay_rate
        self.staircase = staircase
        self.name = name

    def __call__(self, step: Any) -> Any:
        """Return the learning rate at a step."""
        p = _step(step) / float(self.decay_steps)
        p = ops.floor(p) if self.staircase else p
        return self.initial_learning_rate / (1.0 + self.decay_rate * p)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "initial_learning_rate": self.initial_learning_rate,
            "decay_steps": self.decay_steps,
            "decay_rate": self.decay_rate,
            "staircase": self.staircase,
            "name": self.name,
        }


def _half_cosine(fraction: Any) -> Any:
    return 0.5 * (1.0 + ops.cos(math.pi * fraction))


class CosineDecay(LearningRateSchedule):
    """Half a cosine from the initial rate (or the warmup's target) down to alpha of it.

    Parameters
    ----------
    initial_learning_rate : float
    decay_steps : int
        Without the warmup's.
    alpha : float
        The part of the rate at which it ends.
    name : str
    warmup_target : float, optional
        The rate rises linearly to it over ``warmup_steps``, then falls.
    warmup_steps : int

    Examples
    --------
    >>> rate = CosineDecay(0.0, decay_steps=10, warmup_target=1.0, warmup_steps=4)
    >>> [round(float(rate(step)), 3) for step in (0, 1, 4, 9, 14)]
    [0.0, 0.25, 1.0, 0.5, 0.0]
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        alpha: float = 0.0,
        name: str = "CosineDecay",
        warmup_target: float | None = None,
        warmup_steps: int = 0,
    ):
        _check_steps("CosineDecay", "decay_steps", decay_steps)
        self.initial_learning_rate = initial_learning_rate
        self.decay_steps = decay_steps
        self.alpha = alpha
        self.name = name
        self.warmup_target = warmup_target
        self.warmup_steps = warmup_steps

    def _decayed(self, step: Any, start: float) -> Any:
        cosine = _half_cosine(step / float(self.decay_steps))
        return start * ((1.0 - self.alpha) * cosine + self.alpha)

    def __call__(self, step: Any) -> Any:
        """Return the learning rate at a step."""
        step = _step(step)
        if self.warmup_target is None:
            step = ops.minimum(step, float(self.decay_steps))
            return self._decayed(step, self.initial_learning_rate)
        warmup = float(self.warmup_steps)
        step = ops.minimum(step, self.decay_steps + warmup)
        decayed = self._decayed(step - warmup, self.warmup_target)
        if not self.warmup_steps:
            return decayed
        rise = self.warmup_target - self.initial_learning_rate
        warm = rise * (step / warmup) + self.initial_learning_rate
        return ops.where(step < warmup, warm, decayed)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "initial_learning_rate": self.initial_learning_rate,
            "decay_steps": self.decay_steps,
            "alpha": self.alpha,
            "name": self.name,
            "warmup_target": self.warmup_target,
            "warmup_steps": self.warmup_steps,
        }


class CosineDecayRestarts(LearningRateSchedule):
    """Half cosines, each ``t_mul`` times as long and ``m_mul`` times as high (SGDR).

    Parameters
    ----------
    initial_learning_rate : float
    first_decay_steps : int
    t_mul : float
    m_mul : float
    alpha : float
        The part of the initial rate at which it ends.
    name : str

    Examples
    --------
    >>> rate = CosineDecayRestarts(1.0, first_decay_steps=4, t_mul=1.0)
    >>> [round(float(rate(step)), 3) for step in (0, 2, 4, 6)]
    [1.0, 0.5, 1.0, 0.5]
    """

    def __init__(
        self,
        initial_learning_rate: float,
        first_decay_steps: int,
        t_mul: float = 2.0,
        m_mul: float = 1.0,
        alpha: float = 0.0,
        name: str = "SGDRDecay",
    ):
        _check_steps("CosineDecayRestarts", "first_decay_steps", first_decay_steps)
        self.initial_learning_rate = initial_learning_rate
        self.first_decay_steps = first_decay_steps
        self.t_mul = t_mul
        self.m_mul = m_mul
        self.alpha = alpha
        self.name = name

    def __call__(self, step: Any) -> Any:
        """Return the learning rate at a step."""
        fraction = _step(step) / float(self.first_decay_steps)
        t_mul = float(self.t_mul)
        if t_mul == 1.0:
            restart = ops.floor(fraction)
            fraction = fraction - restart
        else:
            # after r restarts, (1 - t**r) / (1 - t) first periods are over
            grown = ops.log(1.0 - fraction * (1.0 - t_mul))
            restart = ops.floor(grown / math.log(t_mul))
            length = ops.power(t_mul, restart)
            fraction = (fraction - (1.0 - length) / (1.0 - t_mul)) / length
        cosine = ops.power(float(self.m_mul), restart) * _half_cosine(fraction)
        return self.initial_learning_rate * ((1.0 - self.alpha) * cosine + self.alpha)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "initial_learning_rate": self.initial_learning_rate,
            "first_decay_steps": self.first_decay_steps,
            "t_mul": self.t_mul,
            "m_mul": self.m_mul,
            "alpha": self.alpha,
            "name": self.name,
        }


def serialize(schedule: LearningRateSchedule) -> dict[str, Any]:
    """Return a schedule as plain data.

    Examples
    --------
    >>> serialize(InverseTimeDecay(1.0, 10, 0.5))["class_name"]
    'InverseTimeDecay'
    """
    from uniflexflow.saving.serialization import serialize_keras_object

    return serialize_keras_object(schedule)


def deserialize(
    config: dict[str, Any], custom_objects: dict[str, Any] | None = None
) -> LearningRateSchedule:
    """Make a schedule from ``serialize``'s result.

    Raises
    ------
    ValueError
        If there is no schedule of that name.
    """
    from uniflexflow.saving.serialization import deserialize_keras_object

    module = {"module": "keras.optimizers.schedules"}
    return deserialize_keras_object({**module, **config}, custom_objects)
