"""Steps: what a model computes on one batch, and what ``compile`` says about it.

``train_step``, ``test_step`` and ``predict_step`` are traced once per shape of the
batch: everything that they do becomes one graph.
"""

from __future__ import annotations

import inspect
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from uniflexflow import metrics as metrics_module
from uniflexflow import optimizers, tree
from uniflexflow.compiler import Function
from uniflexflow.data import unpack_x_y_sample_weight
from uniflexflow.layers.tracking import owned
from uniflexflow.ops.variable import Trace
from uniflexflow.parallel import strategy
from uniflexflow.passes.differentiate import gradients
from uniflexflow.training import loop
from uniflexflow.training.compile_loss import CompileLoss
from uniflexflow.training.compile_metrics import CompileMetrics

_NOT_IN_FILES = ("distribution", "auto_scale_loss")
_OF_A_BACKEND = ("jit_compile", "run_eagerly")  # how Keras ran it is not how we do


class Compiled:
    """What ``compile`` was given, and what became of it."""

    def __init__(
        self, arguments: dict[str, Any], loss: CompileLoss | None, metrics: CompileMetrics | None
    ):
        self.arguments = arguments
        self.loss = loss
        self.metrics = metrics
        self.loss_tracker = metrics_module.Mean(name="loss")
        self.steps_per_execution = arguments["steps_per_execution"]
        self.functions: dict[str, loop.Steps] = {}
        self.traced_loss: Any = None  # of the step being traced, until it is tracked

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "functions": {}, "traced_loss": None}


class TrainingSteps:
    """The part of a Trainer that is traced, and its ``compile``."""

    optimizer: Any = None
    loss: Any = None
    _compiled: Compiled | None = None
    _predict_steps: loop.Steps | None = None
    _distribution: strategy.Strategy = strategy.DataParallel()

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()  # type: ignore[misc]
        return {**state, "_predict_steps": None, "_fit_run": None, "history": None}

    # -- compile -----------------------------------------------------------------------

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
        jit_compile: Any = "auto",
        auto_scale_loss: bool = True,
        distribution: Any = None,
    ) -> None:
        """Say how the model is to be trained.

        Parameters
        ----------
        optimizer : str or Optimizer
        loss : str, Loss, callable, or list or dict of these, optional
            One for all outputs, or one per output; ``"crossentropy"`` is the one that
            fits the targets.
        loss_weights : list, dict or float, optional
            Factor of each output's loss in the total.
        metrics, weighted_metrics : list or dict of str, Metric or callable, optional
            Computed without and with sample weights. ``"accuracy"`` is the one that
            fits the targets.
        run_eagerly : bool
            Must be False: a step is always one graph.
        steps_per_execution : int
            Callbacks' batch hooks are called once in that many batches.
        jit_compile : bool or "auto"
            Must not be False: a step is always compiled.
        auto_scale_loss : bool
            Whether the loss is scaled as the optimizer's ``loss_scale_factor`` says.
        distribution : Strategy, str, path or dict, optional
            How the ranks share the work; default: data parallel.
        """
        if run_eagerly:
            raise ValueError(
                "compile: `run_eagerly=True` is not supported: a training step is one graph. To "
                "look at numbers, call the model or its layers on arrays, or use "
                "`train_on_batch`."
            )
        if jit_compile not in (True, "auto"):
            raise ValueError(
                f"compile: `jit_compile={jit_compile!r}` is not supported: a step is always "
                "compiled; leave it out."
            )
        if not isinstance(steps_per_execution, int) or steps_per_execution < 1:
            raise ValueError(
                "compile: `steps_per_execution` must be a positive integer; received "
                f"{steps_per_execution!r}."
            )
        self.optimizer = optimizers.get(optimizer)
        self._distribution = strategy.get(distribution)
        names = getattr(self, "output_names", None)
        self.loss = loss
        self._compiled = Compiled(
            {
                "optimizer": self.optimizer,
                "loss": loss,
                "loss_weights": loss_weights,
                "metrics": metrics,
                "weighted_metrics": weighted_metrics,
                "run_eagerly": run_eagerly,
                "steps_per_execution": steps_per_execution,
                "jit_compile": jit_compile,
                "auto_scale_loss": auto_scale_loss,
                "distribution": distribution,
            },
            None if loss is None else CompileLoss(loss, loss_weights, names),
            CompileMetrics(metrics, weighted_metrics, names)
            if metrics or weighted_metrics
            else None,
        )
        self._predict_steps = None
        self.stop_training = False

    @property
    def compiled(self) -> bool:
        """Whether ``compile`` was called."""
        return self._compiled is not None

    def _require_compiled(self, method: str) -> Compiled:
        if self._compiled is None:
            raise ValueError(
                f"You must call `compile()` before using the model (here: `{method}`)."
            )
        return self._compiled

    def get_compile_config(self) -> dict[str, Any] | None:
        """Return the arguments of ``compile`` as files keep them; None before it.

        How ranks share the work is no part of a model, and isn't among them.
        """
        if self._compiled is None:
            return None
        arguments = self._compiled.arguments
        return {k: v for k, v in arguments.items() if k not in _NOT_IN_FILES}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compile as ``get_compile_config``, of this library or of Keras, says.

        Parameters
        ----------
        config : dict
            Objects in it may be serialized.
        """
        from uniflexflow.saving import deserialize_keras_object

        config = {k: v for k, v in config.items() if k not in _OF_A_BACKEND}
        self.compile(**deserialize_keras_object(config))
        if self.built and self.optimizer is not None:  # type: ignore[attr-defined]
            self.optimizer.build(self.trainable_variables)  # type: ignore[attr-defined]

    # -- metrics -----------------------------------------------------------------------

    @property
    def metrics(self) -> list[Any]:
        """The loss's mean, the means of the outputs' losses, the model's own metrics, and
        those given to ``compile`` as one."""
        found: list[Any] = []
        compiled = self._compiled
        if compiled is not None:
            found.append(compiled.loss_tracker)
            if compiled.loss is not None:
                found.extend(compiled.loss.metrics)
        for layer in self._flatten_layers():  # type: ignore[attr-defined]
            found.extend(owned(layer, metrics_module.Metric))
        if compiled is not None and compiled.metrics is not None:
            found.append(compiled.metrics)
        return list({id(m): m for m in found}.values())

    @property
    def metrics_names(self) -> list[str]:
        """Names of the results, in their order."""
        names = []
        for metric in self.metrics:
            if isinstance(metric, CompileMetrics):
                names.extend(metric.named_metrics)
            else:
                names.append(metric.name)
        return names

    def metric_direction(self, name: str) -> str | None:
        """Return which way is better for a metric of that name in the logs: up or down."""
        for metric in self.metrics:
            named = getattr(metric, "named_metrics", {metric.name: metric})
            if name in named:
                return getattr(named[name], "_direction", None)
        return None

    def reset_metrics(self) -> None:
        """Forget what the metrics have taken in."""
        for metric in self.metrics:
            metric.reset_state()

    def get_metrics_result(self) -> dict[str, Any]:
        """Return each metric's result by its name."""
        results: dict[str, Any] = {}
        for metric in self.metrics:
            if isinstance(metric, CompileMetrics) and not metric.built:
                continue
            result = metric.result()
            if isinstance(result, dict):
                results.update(result)
            else:
                results[metric.name] = result
        return results

    # -- steps, to be overridden -------------------------------------------------------

    def train_step(self, data: Any) -> dict[str, Any]:
        """Train on one batch; traced.

        Parameters
        ----------
        data : nested structure of tensors
            ``x``, ``(x, y)`` or ``(x, y, sample_weight)``.

        Returns
        -------
        dict of str to scalar tensor
            The logs.
        """
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        y_pred = self(x, training=True)  # type: ignore[operator]
        loss = self._loss_of_step(x, y, y_pred, sample_weight, training=True)
        self._track_loss(loss, x)
        trainable = self.trainable_variables  # type: ignore[attr-defined]
        if trainable:
            scaled = loss
            if self._require_compiled("train_step").arguments["auto_scale_loss"]:
                scaled = self.optimizer.scale_loss(loss)
            self.optimizer.apply(gradients(scaled, trainable), trainable)
        else:
            warnings.warn("The model does not have any trainable weights.", stacklevel=2)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def test_step(self, data: Any) -> dict[str, Any]:
        """Evaluate one batch; traced. See ``train_step``."""
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        y_pred = self(x, training=False)  # type: ignore[operator]
        loss = self._loss_of_step(x, y, y_pred, sample_weight, training=False)
        self._track_loss(loss, x)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def predict_step(self, data: Any) -> Any:
        """Predict one batch; traced. Returns the model's outputs."""
        x, _, _ = unpack_x_y_sample_weight(data)
        return self(x, training=False)  # type: ignore[operator]

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Return the total loss of a batch: of ``compile``, and what layers added.

        Raises
        ------
        ValueError
            If there is none.
        """
        compiled = self._require_compiled("compute_loss")
        total = None
        if compiled.loss is not None:
            total = compiled.loss(y, y_pred, sample_weight)
        for extra in self.losses:  # type: ignore[attr-defined]
            total = extra if total is None else total + extra
        if total is None:
            raise ValueError(
                "No loss to compute. Provide a `loss` argument in `compile()`, or use "
                "`add_loss` in a layer."
            )
        compiled.traced_loss = total
        return total

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Update the metrics of ``compile`` with a batch, and return all results."""
        compiled = self._require_compiled("compute_metrics")
        if compiled.traced_loss is not None:  # a custom step that left it to us
            self._track_loss(compiled.traced_loss, x)
        if compiled.metrics is not None:
            compiled.metrics.update_state(y, y_pred, sample_weight)
        return self.get_metrics_result()

    def _track_loss(self, loss: Any, x: Any) -> None:
        """Take the batch's loss into the mean over the epoch, once."""
        compiled = self._require_compiled("train_step")
        compiled.traced_loss = None
        trace = Trace.current()
        tracker = compiled.loss_tracker
        if trace is not None and any(v in trace.writes for v in tracker.variables):
            return
        sizes = [t.shape[0] for t in tree.flatten(x) if getattr(t, "shape", ())]
        tracker.update_state(loss, sample_weight=sizes[0] if sizes else 1)

    def _loss_of_step(self, x: Any, y: Any, y_pred: Any, sample_weight: Any, training: bool) -> Any:
        arguments = {"x": x, "y": y, "y_pred": y_pred, "sample_weight": sample_weight}
        parameters = inspect.signature(self.compute_loss).parameters
        if "training" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            arguments["training"] = training
        return self.compute_loss(**arguments)

    # -- traced functions --------------------------------------------------------------

    def make_train_function(self, force: bool = False) -> Any:
        """Return the compiled ``train_step``."""
        return self._steps("train", force)

    def make_test_function(self, force: bool = False) -> Any:
        """Return the compiled ``test_step``."""
        return self._steps("test", force)

    def make_predict_function(self, force: bool = False) -> Any:
        """Return the compiled ``predict_step``."""
        return self._steps("predict", force)

    def _steps(self, kind: str, force: bool = False) -> loop.Steps:
        if kind == "predict":
            if self._predict_steps is None or force:
                self._predict_steps = self._make_steps("predict", TrainingSteps._run_predict_step)
            return self._predict_steps
        functions = self._require_compiled(f"{kind}_step").functions
        if kind not in functions or force:
            functions[kind] = self._make_steps(kind, TrainingSteps._run_step)
        return functions[kind]

    def _make_steps(self, kind: str, run: Callable[..., Any]) -> loop.Steps:
        # the steps are the model's: did they hold it, a model that is dropped would wait for
        # the garbage collector, and all its memory with it
        link = weakref.ref(self)

        def this() -> Any:
            model = link()
            if model is None:
                raise ReferenceError(
                    f"{kind}_step: the model is gone; keep a reference to it as long as its "
                    "functions are used."
                )
            return model

        def make() -> Function:
            return Function(
                lambda data: run(this(), kind, data),
                f"{kind}_step",
                distribution=this()._distribution,
            )

        return loop.Steps(this, make)

    def _run_predict_step(self, kind: str, data: Any) -> Any:
        return self.predict_step(data)

    def _run_step(self, kind: str, data: Any) -> Any:
        self._require_compiled(f"{kind}_step").traced_loss = None
        logs = getattr(self, f"{kind}_step")(data)
        if not isinstance(logs, dict):
            raise TypeError(
                f"{type(self).__name__}.{kind}_step must return a dict of logs; "
                f"received {type(logs).__name__}."
            )
        return loop.flat_logs(logs)
