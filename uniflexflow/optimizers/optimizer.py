"""Optimizer: from gradients to new weights, as part of the step's graph.

The update of one variable is an elementwise expression over the weight, its gradient,
its slots and a few scalars, so that it runs as one pass over memory. Within a trace
everything adds to the graph; on NumPy gradients, ``apply`` runs as a plan of its own.
"""

from __future__ import annotations

import re
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from uniflexflow import naming, ops
from uniflexflow.compiler import Function
from uniflexflow.ir import scope
from uniflexflow.ops.dtypes import floatx
from uniflexflow.ops.variable import Trace, Variable
from uniflexflow.optimizers import schedules
from uniflexflow.optimizers.schedules import LearningRateSchedule


def update_dtype(variable: Variable) -> str:
    """Return the dtype in which a weight's update is computed, and its slots are kept.

    That of the weight. A bfloat16 weight has float32: 0.999, a usual decay, is 1 in bfloat16.
    """
    return "float32" if variable.dtype == "bfloat16" else variable.dtype


class Optimizer:
    """Base of all optimizers; subclasses define ``build`` and ``update_step``.

    Parameters
    ----------
    learning_rate : float or LearningRateSchedule
    weight_decay : float, optional
        Before each update, w becomes w - w * weight_decay * learning_rate.
    clipnorm : float, optional
        Bound of the norm of each gradient.
    clipvalue : float, optional
        Bound of the size of each gradient's elements.
    global_clipnorm : float, optional
        Bound of the norm of all gradients together; only one of the three may be given.
    use_ema : bool
        Whether to keep a moving average of the weights.
    ema_momentum : float
        The average becomes ema_momentum * average + (1 - ema_momentum) * w.
    ema_overwrite_frequency : int, optional
        After how many updates the weights are replaced by their average; None: at the
        end, by ``finalize_variable_values``.
    loss_scale_factor : float, optional
        The loss is multiplied by it (see ``scale_loss``), the gradients are divided.
    gradient_accumulation_steps : int, optional
        Update once in that many steps, with the mean of their gradients.
    name : str, optional

    Examples
    --------
    >>> from uniflexflow.optimizers import SGD
    >>> w = Variable([1.0, 2.0])
    >>> sgd = SGD(learning_rate=0.5)
    >>> sgd.apply([np.array([1.0, 1.0], "float64")], [w])
    >>> w.numpy().tolist(), int(sgd.iterations.numpy())
    ([0.5, 1.5], 1)
    """

    def __init__(
        self,
        learning_rate: Any,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        loss_scale_factor: float | None = None,
        gradient_accumulation_steps: int | None = None,
        name: str | None = None,
        **kwargs: Any,
    ):
        where = type(self).__name__
        if kwargs:
            raise ValueError(f"{where}: argument(s) not recognized: {kwargs}")
        clips = {
            "clipnorm": clipnorm,
            "clipvalue": clipvalue,
            "global_clipnorm": global_clipnorm,
        }
        if sum(v is not None for v in clips.values()) > 1:
            raise ValueError(
                f"{where}: only one of `clipnorm`, `clipvalue` and `global_clipnorm` "
                f"can be set; received {clips}."
            )
        for key, value in clips.items():
            if value is not None and not value > 0:
                raise ValueError(f"{where}: `{key}` must be > 0; received {value!r}.")
        if gradient_accumulation_steps is not None and not gradient_accumulation_steps >= 2:
            raise ValueError(
                f"{where}: `gradient_accumulation_steps` must be an integer >= 2; "
                f"received {gradient_accumulation_steps!r}."
            )
        if use_ema and not 0 <= ema_momentum <= 1:
            raise ValueError(
                f"{where}: `ema_momentum` must be in the range [0, 1]; received {ema_momentum!r}."
            )
        if ema_overwrite_frequency is not None and not (
            isinstance(ema_overwrite_frequency, int) and ema_overwrite_frequency >= 1
        ):
            raise ValueError(
                f"{where}: `ema_overwrite_frequency` must be an integer >= 1 or None; "
                f"received {ema_overwrite_frequency!r}."
            )
        self.name = name or naming.auto_name(where)
        self.weight_decay = weight_decay
        self.clipnorm = clipnorm
        self.clipvalue = clipvalue
        self.global_clipnorm = global_clipnorm
        self.use_ema = use_ema
        self.ema_momentum = ema_momentum
        self.ema_overwrite_frequency = ema_overwrite_frequency
        self.loss_scale_factor = loss_scale_factor
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self.built = False
        self._variables: list[Variable] = []
        self._trainable_variables: list[Variable] = []
        self._index: dict[Variable, int] = {}
        self._undecayed: set[Variable] = set()
        self._undecayed_pattern: re.Pattern[str] | None = None
        self._scalars: dict[Any, Any] = {}
        self._run: Function | None = None  # outside of a trace
        self._iterations = self.add_variable((), dtype="int64", name="iteration")
        if isinstance(learning_rate, LearningRateSchedule):
            self._learning_rate: Any = learning_rate
        else:
            value = _checked_rate(where, learning_rate)
            self._learning_rate = self.add_variable((), value, name="learning_rate")

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle needs: plans are made anew."""
        return {**self.__dict__, "_run": None}

    # -- state ---------------------------------------------------------------------

    @property
    def variables(self) -> list[Variable]:
        """Its state: iteration, learning rate (unless scheduled), averages, slots."""
        return list(self._variables)

    @property
    def iterations(self) -> Any:
        """How many updates there were: an int64 scalar."""
        if self.gradient_accumulation_steps:
            return self._iterations // self.gradient_accumulation_steps
        return self._iterations

    @property
    def learning_rate(self) -> Any:
        """The learning rate: a scalar Variable, or a schedule's present value."""
        if isinstance(self._learning_rate, LearningRateSchedule):
            return self._learning_rate(self._iterations)
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if isinstance(value, LearningRateSchedule):
            if isinstance(self._learning_rate, Variable):
                self._variables.remove(self._learning_rate)
            self._learning_rate = value
            self._run = None
        elif isinstance(self._learning_rate, LearningRateSchedule):
            raise TypeError(
                "This optimizer was created with a `LearningRateSchedule` object as its "
                "`learning_rate` constructor argument, hence its learning rate is not "
                "settable. If you need the learning rate to be settable, you should "
                "instantiate the optimizer with a float `learning_rate` argument."
            )
        else:
            self._learning_rate.assign(_checked_rate(type(self).__name__, value))

    @property
    def schedule(self) -> LearningRateSchedule | None:
        """The learning rate's schedule, if it has one."""
        rate = self._learning_rate
        return rate if isinstance(rate, LearningRateSchedule) else None

    def add_variable(
        self,
        shape: tuple[int, ...],
        initial: float = 0.0,
        dtype: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """Add a variable to the state, filled with one number."""
        with scope(self.name):
            variable = Variable(
                np.broadcast_to(np.array(initial, dtype or floatx()), shape),
                trainable=False,
                name=name,
                autocast=False,
            )
        self._variables.append(variable)
        return variable

    def add_slot(self, reference: Variable, name: str, initial: float = 0.0) -> Variable:
        """Add a variable of the form of a weight."""
        name = f"{reference.path.replace('/', '_')}_{name}"
        return self.add_variable(reference.shape, initial, update_dtype(reference), name)

    def add_optimizer_variables(
        self,
        variables: Sequence[Variable],
        name: str | Sequence[str],
        initial: float | Sequence[float] = 0.0,
    ) -> Any:
        """Add one slot per weight, or one per name and weight, weight by weight.

        Returns
        -------
        list of Variable, or a tuple of such lists if there are several names
        """
        if isinstance(name, str):
            return [self.add_slot(v, name, initial) for v in variables]
        initials = [initial] * len(name) if isinstance(initial, Real) else initial
        slots: tuple[list[Variable], ...] = tuple([] for _ in name)
        for variable in variables:
            for column, n, value in zip(slots, name, initials):
                column.append(self.add_slot(variable, n, value))
        return slots

    def build(self, variables: Sequence[Variable]) -> None:
        """Make the state for these weights.

        Subclasses call this first, then add their slots.
        """
        if self.built:
            return
        self._trainable_variables = list(variables)
        self._index = {v: i for i, v in enumerate(self._trainable_variables)}
        if self.use_ema:
            self._averages = self.add_optimizer_variables(variables, "average")
        if self.gradient_accumulation_steps:
            self._accumulators = self.add_optimizer_variables(variables, "gradient_accumulator")
        self.built = True

    def index_of(self, variable: Variable) -> int:
        """Return the place of a weight among those that it was built with."""
        return self._index[variable]

    # -- the update ----------------------------------------------------------------

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Variable]]) -> Variable:
        """Update weights by (gradient, weight) pairs; return the count of steps."""
        grads, variables = zip(*grads_and_vars)
        self.apply(grads, variables)
        return self._iterations

    def apply(
        self, grads: Sequence[Any], trainable_variables: Sequence[Variable] | None = None
    ) -> None:
        """Update weights by their gradients.

        Parameters
        ----------
        grads : sequence of tensor or None
            One per weight; a weight whose gradient is None stays, with a warning.
        trainable_variables : sequence of Variable, optional
            Needed at the first call, which builds the optimizer's state.

        Raises
        ------
        ValueError
            If the optimizer doesn't know a weight, or no weight has a gradient.
        """
        grads = list(grads)
        if not grads:
            return
        if trainable_variables is None:
            if not self.built:
                raise ValueError(
                    f"{self.name}: when passing `grads` without `variables`, the optimizer "
                    "must already be built on a list of variables. Call "
                    "`optimizer.build(trainable_variables)` first."
                )
            variables = self._trainable_variables
        else:
            variables = list(trainable_variables)
            self.build(variables)
        if len(grads) != len(variables):
            raise ValueError(
                f"{self.name}: received {len(grads)} gradients for {len(variables)} "
                "variables; expected one per variable."
            )
        for v in variables:
            if v not in self._index:
                raise ValueError(
                    f"{self.name}: unknown variable {v!r}. This optimizer can only be "
                    "called for the variables it was originally built with. When working "
                    "with a new set of variables, you should recreate a new optimizer "
                    "instance."
                )
        missing = [v.path for g, v in zip(grads, variables) if g is None]
        if len(missing) == len(variables):
            raise ValueError(f"{self.name}: no gradients provided for any variable.")
        if missing:
            warnings.warn(
                f"Gradients do not exist for variables {missing} when minimizing the "
                "loss. If using `model.compile()`, did you forget to provide a `loss` "
                "argument?",
                stacklevel=2,
            )
        pairs = [(g, v) for g, v in zip(grads, variables) if g is not None]
        if Trace.current() is None:
            if self._run is None:
                this = weakref.ref(self)  # which owns the function
                self._run = Function(lambda *args: this()._apply(*args), name=self.name)
            self._run([np.asarray(g) for g, _ in pairs], [v for _, v in pairs])
        else:
            self._apply([g for g, _ in pairs], [v for _, v in pairs])

    def _apply(self, grads: list[Any], variables: list[Variable]) -> None:
        self._scalars = {}
        with scope(self.name):
            grads = [ops.cast(g, update_dtype(v)) for g, v in zip(grads, variables)]
            if self.loss_scale_factor is not None:
                grads = [g / self.loss_scale_factor for g in grads]
            if self.gradient_accumulation_steps:
                self._accumulate(grads, variables)
            else:
                self._update(grads, variables)
            if self.use_ema:
                self._average()
            for v in variables:
                if v.constraint is not None:
                    v.assign(v.constraint(v.value))
            self._iterations.assign_add(1)
        self._scalars = {}

    def _update(self, grads: list[Any], variables: list[Variable]) -> None:
        grads = self._clip(grads)
        rate = self.learning_rate
        if self.weight_decay is not None:
            for v in variables:
                if self._decays(v):
                    lr = ops.cast(rate, update_dtype(v))
                    v.assign(v - v * self.weight_decay * lr)
        self.update_all(grads, variables, rate)

    def update_all(self, grads: list[Any], variables: list[Variable], learning_rate: Any) -> None:
        """Update each weight; a place for what is done once per step."""
        for g, v in zip(grads, variables):
            self.update_step(g, v, learning_rate)

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Any) -> None:
        """Update one weight; to be defined by subclasses."""
        raise NotImplementedError(
            f"{type(self).__name__}: an Optimizer must define "
            "`update_step(self, gradient, variable, learning_rate)`."
        )

    def per_step(self, name: str, dtype: str, compute: Callable[[], Any]) -> Any:
        """Return a scalar that all weights of a dtype share, computed once per step."""
        key = (name, dtype)
        if key not in self._scalars:
            self._scalars[key] = compute()
        return self._scalars[key]

    def rate(self, learning_rate: Any, dtype: str) -> Any:
        """Return the learning rate in a weight's dtype."""
        return self.per_step("rate", dtype, lambda: ops.cast(learning_rate, dtype))

    def step_number(self, dtype: str) -> Any:
        """Return the number of this update, from 1, in a weight's dtype."""
        return self.per_step("step", dtype, lambda: ops.cast(self.iterations + 1, dtype))

    def _accumulate(self, grads: list[Any], variables: list[Variable]) -> None:
        # The update is traced as always; then what it wrote counts in one step of n.
        n = self.gradient_accumulation_steps
        due = ops.equal((self._iterations + 1) % n, 0)
        slots = [self._accumulators[self._index[v]] for v in variables]
        sums = [g + a for g, a in zip(grads, slots)]
        trace = Trace.current()
        before = dict(trace.writes)
        self._update([s / float(n) for s in sums], variables)
        for v, new in list(trace.writes.items()):
            old = before.get(v)
            if new is not old:
                trace.writes[v] = ops.where(due, new, trace.reads[v] if old is None else old)
        for slot, total in zip(slots, sums):
            slot.assign(ops.where(due, 0.0, total))

    def _average(self) -> None:
        for v, average in zip(self._trainable_variables, self._averages):
            started = ops.cast(ops.not_equal(self.iterations, 0), update_dtype(v))
            momentum = started * self.ema_momentum
            average.assign(momentum * average + (1.0 - momentum) * v)
        if self.ema_overwrite_frequency:
            due = ops.equal((self.iterations + 1) % self.ema_overwrite_frequency, 0)
            for v, average in zip(self._trainable_variables, self._averages):
                v.assign(ops.where(due, average, v))

    def _clip(self, grads: list[Any]) -> list[Any]:
        if self.clipnorm is not None:
            return [self._clip_norm(g) for g in grads]
        if self.clipvalue is not None:
            return [ops.minimum(ops.maximum(g, -self.clipvalue), self.clipvalue) for g in grads]
        if self.global_clipnorm is None:
            return grads
        squares = [ops.sum(ops.square(g)) for g in grads]
        total = squares[0]
        for s in squares[1:]:
            total = total + s
        norm = ops.sqrt(total)
        scale = self.global_clipnorm * ops.minimum(1.0 / norm, 1.0 / self.global_clipnorm)
        # an infinite norm makes everything NaN rather than 0, so that it is seen
        scale = scale + (norm - norm)
        return [g * ops.cast(scale, g.dtype) for g in grads]

    def _clip_norm(self, g: Any) -> Any:
        square = ops.sum(ops.square(g))
        positive = square > 0
        norm = ops.where(positive, ops.sqrt(ops.where(positive, square, 1.0)), square)
        return g * self.clipnorm / ops.maximum(norm, self.clipnorm)

    # -- weight decay --------------------------------------------------------------

    def exclude_from_weight_decay(
        self,
        var_list: Sequence[Variable] | None = None,
        var_names: Sequence[str] | None = None,
    ) -> None:
        """Say which weights don't decay, before the optimizer is built.

        Parameters
        ----------
        var_list : sequence of Variable, optional
        var_names : sequence of str, optional
            Patterns; a weight whose name has a match is left out.
        """
        if self.built:
            raise ValueError(
                "`exclude_from_weight_decay()` can only be configured before the optimizer "
                "is built."
            )
        self._undecayed = set(var_list or ())
        self._undecayed_pattern = re.compile("|".join(var_names)) if var_names else None

    def _decays(self, variable: Variable) -> bool:
        if variable in self._undecayed:
            return False
        pattern = self._undecayed_pattern
        return pattern is None or pattern.search(variable.name) is None

    # -- around training -----------------------------------------------------------

    def scale_loss(self, loss: Any) -> Any:
        """Return the loss times ``loss_scale_factor``, if there is one."""
        return loss if self.loss_scale_factor is None else loss * self.loss_scale_factor

    def finalize_variable_values(self, variables: Sequence[Variable]) -> None:
        """Replace the weights by their moving averages, if these are kept."""
        if self.use_ema:
            for v in variables:
                v.assign(self._averages[self._index[v]])

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Replace the state by arrays, one per variable."""
        if not self.built:
            raise ValueError(
                "You are calling `set_weights()` on an optimizer that has not yet been "
                "built. Please call `optimizer.build(trainable_variables)` to create the "
                "optimizer weights before calling `set_weights()`."
            )
        for variable, weight in zip(self._variables, weights, strict=True):
            variable.assign(np.asarray(weight))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments; the learning rate is the present one."""
        if isinstance(self._learning_rate, LearningRateSchedule):
            rate: Any = schedules.serialize(self._learning_rate)
        else:
            rate = float(self._learning_rate.array)
        return {
            "name": self.name,
            "learning_rate": rate,
            "weight_decay": self.weight_decay,
            "clipnorm": self.clipnorm,
            "global_clipnorm": self.global_clipnorm,
            "clipvalue": self.clipvalue,
            "use_ema": self.use_ema,
            "ema_momentum": self.ema_momentum,
            "ema_overwrite_frequency": self.ema_overwrite_frequency,
            "loss_scale_factor": self.loss_scale_factor,
            "gradient_accumulation_steps": self.gradient_accumulation_steps,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Optimizer:
        """Make an optimizer from ``get_config``'s result."""
        config = dict(config)
        if isinstance(config.get("learning_rate"), dict):
            config["learning_rate"] = schedules.deserialize(config["learning_rate"], custom_objects)
        return cls(**config)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}>"


def _checked_rate(where: str, rate: Any) -> float:
    if isinstance(rate, (Variable, np.ndarray)) and tuple(rate.shape) == ():
        rate = float(np.asarray(rate))
    if isinstance(rate, bool) or not isinstance(rate, Real):
        raise ValueError(
            f"{where}: `learning_rate` must be a number or a LearningRateSchedule; "
            f"received {rate!r}. To compute it from the step, subclass "
            "uniflexflow.optimizers.schedules.LearningRateSchedule."
        )
    return float(rate)
