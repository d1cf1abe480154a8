"""Trainer: the part of a Model that compiles, fits, evaluates and predicts.

What is computed on a batch is in ``steps``; the loops that run it are in ``fit_run``
and ``loop``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from uniflexflow import callbacks as callbacks_module
from uniflexflow import random as random_module
from uniflexflow import tree
from uniflexflow.config import limits
from uniflexflow.data import (
    Epochs,
    is_batches,
    make_source,
    split_validation,
    unpack_x_y_sample_weight,
)
from uniflexflow.ops.dtypes import floatx
from uniflexflow.parallel import world
from uniflexflow.parallel.distribute import require_equal
from uniflexflow.training import loop, memory
from uniflexflow.training.arguments import check_class_weight, check_count, check_validation
from uniflexflow.training.fit_run import FitRun
from uniflexflow.training.steps import TrainingSteps


class Trainer(TrainingSteps):
    """compile, fit, evaluate and predict, for models.

    Attributes
    ----------
    optimizer : Optimizer or None
    stop_training : bool
        Set it to True in a callback to stop after the batch or epoch.
    history : History or None
        Of the last ``fit``.
    interrupted : bool
        Whether the last ``fit`` ended early because the process was sent SIGTERM; a
        script should end then, and go on from a checkpoint when it is started again.
    """

    stop_training = False
    interrupted = False
    history: Any = None
    _fit_run: FitRun | None = None
    _order_seed: int | None = None  # of the sample order of the last fit

    def _source(
        self, where: str, x: Any, y: Any = None, sample_weight: Any = None, **how: Any
    ) -> Any:
        dtypes = {layer.dtype for layer in self._flatten_layers()}  # type: ignore[attr-defined]
        comm = world()
        mesh = self._distribution.mesh_for(comm.size)
        axis = mesh.axis(self._distribution.batch_axis, comm.rank)
        if "class_weight" in how:
            how["class_weight"] = check_class_weight(how["class_weight"])
        source = make_source(
            x,
            y,
            sample_weight,
            where=where,
            float_dtype="float64" if "float64" in dtypes or floatx() == "float64" else "float32",
            rank=axis.rank,
            size=axis.size,
            **how,
        )
        if comm.size > 1:
            require_equal(f"{where}: the data", source.describe())
        return source

    # -- fit ---------------------------------------------------------------------------

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: Any = True,
        class_weight: dict[int, float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
    ) -> Any:
        """Train the model.

        Parameters
        ----------
        x : array, stored rows, nested structure of these, generator, or PyDataset
            An ``h5py.Dataset`` is read by rows as needed. What gives batches gives whole
            (global) ones: ``x``, ``(x, y)`` or ``(x, y, sample_weight)``.
        y : array or nested structure, optional
        batch_size : int, optional
            Of the global batch, over all ranks; default 32.
        epochs : int
            Number of the last epoch.
        verbose : {"auto", 0, 1, 2}
            0 silent, 1 a bar, 2 a line per epoch; ``"auto"``: a bar on a terminal, else
            lines.
        callbacks : list of Callback, optional
        validation_split : float
            Part of the data, at its end, that is kept for validation.
        validation_data : tuple, generator or PyDataset, optional
        shuffle : bool or "batch"
            The order depends on the seed and the epoch only.
        class_weight : dict of int to float, optional
        sample_weight : array, optional
        initial_epoch : int
            Number of the first epoch. If not 0, the order of the samples continues that
            of the previous call.
        steps_per_epoch, validation_steps : int, optional
        validation_batch_size : int, optional
        validation_freq : int or list of int
            Validate every so many epochs, or after these (from 1).

        Returns
        -------
        History
        """
        compiled = self._require_compiled("fit")
        epochs = limits.limited_epochs(check_count("fit", "epochs", epochs))
        initial_epoch = check_count("fit", "initial_epoch", initial_epoch)
        check_validation(
            validation_split,
            validation_data,
            validation_freq,
            validation_steps=validation_steps,
            validation_batch_size=validation_batch_size,
        )
        steps_per_epoch = limits.limited_steps(steps_per_epoch)
        if validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = split_validation(
                x, y, sample_weight, validation_split
            )
        if self._order_seed is None or initial_epoch == 0:
            self._order_seed = random_module.make_seed()
        source = self._source(
            "fit",
            x,
            y,
            sample_weight,
            batch_size=batch_size,
            steps=steps_per_epoch,
            shuffle=shuffle,
            seed=self._order_seed,
            class_weight=class_weight,
        )
        validation = None
        if validation_data is not None:
            validation = self._validation_epochs(
                validation_data, validation_batch_size or batch_size, validation_steps
            )
        data = Epochs(source, steps_per_epoch, initial_epoch)
        require_equal(
            "fit: the length of training",
            f"epochs={epochs}, initial_epoch={initial_epoch}, steps_per_epoch={steps_per_epoch}, "
            f"validation of {validation and validation.steps} steps at {validation_freq!r}",
        )
        run = FitRun(
            self,
            data,
            validation,
            self._callback_list(callbacks, verbose, epochs=epochs, steps=data.steps, history=True),
            initial_epoch=initial_epoch,
            epochs=epochs,
            validation_freq=validation_freq,
            steps_per_execution=compiled.steps_per_execution,
        )
        self._fit_run = run
        try:
            run.run()
        finally:
            run.close()
            self._fit_run = None
        return self.history

    def _callback_list(
        self, callbacks: Any, verbose: Any, epochs: int, steps: int | None, history: bool = False
    ) -> Any:
        if isinstance(callbacks, callbacks_module.CallbackList):
            return callbacks
        return callbacks_module.CallbackList(
            callbacks,
            add_history=history,
            add_progbar=verbose != 0,
            model=self,
            verbose=verbose,
            epochs=epochs,
            steps=steps,
        )

    def _validation_epochs(self, data: Any, batch_size: int | None, steps: int | None) -> Epochs:
        if is_batches(data):
            source = self._source("validation_data", data, steps=steps)
            if source.one_shot and steps is None:
                raise ValueError(
                    "fit: `validation_data` is a generator, which can be gone through only once: "
                    "pass `validation_steps`, or a PyDataset or arrays."
                )
        else:
            x, y, sample_weight = unpack_x_y_sample_weight(data)
            if is_batches(x):
                raise ValueError(
                    "fit: `validation_data` must be arrays `(x, y)` or `(x, y, sample_weight)`, "
                    "or itself a generator or PyDataset; received a tuple with a "
                    f"{type(x).__name__}."
                )
            source = self._source(
                "validation_data", x, y, sample_weight, batch_size=batch_size, steps=steps
            )
        return Epochs(source, steps)

    # -- evaluate and predict ----------------------------------------------------------

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """Return the loss and metrics on data; parameters as those of ``fit``.

        Returns
        -------
        float, list of float, or dict
            The loss alone if there is nothing else.
        """
        self._require_compiled("evaluate")
        steps = limits.limited_steps(steps)
        source = self._source("evaluate", x, y, sample_weight, batch_size=batch_size, steps=steps)
        data = Epochs(source, steps)
        run_callbacks = self._callback_list(callbacks, verbose, epochs=1, steps=data.steps)
        try:
            logs = loop.evaluate(self, data, run_callbacks, self._compiled.steps_per_execution)
        finally:
            data.close()
        return logs if return_dict else as_results(logs)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """Return the model's outputs for data, on every rank.

        Returns
        -------
        ndarray, or structure of ndarray
            As the model's outputs.
        """
        return self._predict(
            "predict", x, batch_size, verbose, limits.limited_steps(steps), callbacks
        )

    def _predict(
        self,
        where: str,
        x: Any,
        batch_size: int | None,
        verbose: Any = 0,
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        silent = verbose == 0 and not callbacks and steps is None
        alone = silent and type(x) is np.ndarray and x.ndim and 0 < len(x) <= (batch_size or 32)
        if alone:
            done, outputs = loop.predict_alone(self._steps("predict"), x)
            if done:
                return outputs
        source = self._source(where, x, batch_size=batch_size, steps=steps)
        data = Epochs(source, steps)
        run_callbacks = self._callback_list(callbacks, verbose, epochs=1, steps=data.steps)
        try:
            outputs = loop.predict(self, data, run_callbacks)
        finally:
            data.close()
        if alone:
            self._steps("predict").note_alone(x, source)
        return outputs

    # -- one batch ---------------------------------------------------------------------

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: dict[int, float] | None = None,
        return_dict: bool = False,
    ) -> Any:
        """Make one training step on one batch; return that batch's loss and metrics."""
        return self._on_batch("train", x, y, sample_weight, class_weight, return_dict)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Return the loss and metrics of one batch."""
        return self._on_batch("test", x, y, sample_weight, None, return_dict)

    def predict_on_batch(self, x: Any) -> Any:
        """Return the outputs for one batch."""
        return self._predict("predict_on_batch", x, _rows(x))

    def _on_batch(
        self, kind: str, x: Any, y: Any, sample_weight: Any, class_weight: Any, as_dict: bool
    ) -> Any:
        self._require_compiled(f"{kind}_on_batch")
        source = self._source(
            f"{kind}_on_batch", x, y, sample_weight, batch_size=_rows(x), class_weight=class_weight
        )
        steps = self._steps(kind)
        step = steps.get(source, source.first_key())
        self.reset_metrics()
        for _, _, feeds in source.run(0):
            logs = loop.logs_of(step, loop.run_step(step, feeds))
        return logs if as_dict else as_results(logs)

    def memory_usage(self, batch_size: int, x: Any = None, y: Any = None) -> memory.MemoryUsage:
        """Return the memory that training steps will need, before any of them runs.

        Parameters
        ----------
        batch_size : int
            Global batch size; the figures are this rank's.
        x, y : arrays or structures of arrays, optional
            A few rows of data, where a model's inputs or targets are not known without.

        Returns
        -------
        MemoryUsage
            Bytes, by kind; ``print`` shows a table.

        Raises
        ------
        ValueError
            If the model is not compiled, or its inputs or targets are not known.

        Examples
        --------
        >>> import uniflexflow as uff
        >>> model = uff.Sequential([uff.Input((100,)), uff.layers.Dense(10)])
        >>> model.compile("sgd", "mse")
        >>> model.memory_usage(batch_size=32).weights
        4040
        """
        return memory.memory_usage(self, batch_size, x, y)


def as_results(logs: dict[str, Any]) -> Any:
    """Return logs as ``evaluate`` does: a list, or the only number."""
    values = list(logs.values())
    return values[0] if len(values) == 1 else values


def _rows(x: Any) -> int:
    first = next(a for a in tree.flatten(x) if a is not None)
    return max(1, np.shape(first)[0] if np.ndim(first) else len(tree.flatten(x)))
