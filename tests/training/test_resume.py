"""An interrupted run that is resumed is the run that was never interrupted, bit by bit."""

import json
import os
import signal

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow.callbacks import (
    BackupAndRestore,
    Callback,
    CSVLogger,
    EarlyStopping,
    LearningRateScheduler,
    ModelCheckpoint,
    ReduceLROnPlateau,
)
from uniflexflow.layers import Dense, Dropout

EPOCHS = 4
STEPS = 4  # of 14 samples in batches of 4, the last one partial


class Interrupted(Exception):
    """What ends a run from within."""


class InterruptAfter(Callback):
    """Ends the run after so many batches, or ``epochs``, of the whole run."""

    def __init__(self, batches=None, how=None):
        super().__init__()
        self.left = batches
        self.how = how

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            if self.how is None:
                raise Interrupted
            os.kill(os.getpid(), self.how)


class Recorder(Callback):
    """Has state of its own, with arrays."""

    def __init__(self):
        super().__init__()
        self.losses = []
        self.total = np.zeros(2)

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])
        self.total += [batch, logs["loss"]]

    def get_state(self):
        return {"losses": self.losses, "total": self.total}

    def set_state(self, state):
        self.losses = list(state["losses"])
        self.total = np.array(state["total"])


def moving(x, y):
    """Give other batches each time."""
    for i in range(100):
        rows = np.arange(i, i + 5) % 14
        yield x[rows], y[rows]


class Noise(uff.layers.Layer):
    """Draws at every step, of training and of evaluation."""

    def __init__(self):
        super().__init__()
        self.seed = uff.random.SeedGenerator()

    def call(self, x):
        return x + 0.1 * uff.random.normal(x.shape, seed=self.seed)


class Run:
    """One process's life: a script that is run again and again."""

    def __init__(
        self, folder, seed=3, steps_per_epoch=None, generator=False, validate_generator=False
    ):
        self.validate_generator = validate_generator
        self.folder = folder
        self.steps_per_epoch = steps_per_epoch
        self.generator = generator
        uff.utils.clear_session()
        uff.utils.set_random_seed(seed)
        self.model = uff.Sequential(
            [uff.Input((3,)), Dense(6, activation="tanh"), Dropout(0.4), Noise(), Dense(1)]
        )
        self.model.compile(
            uff.optimizers.Adam(0.01),
            "mse",
            metrics=["mae", uff.metrics.RootMeanSquaredError(name="rms")],
        )
        self.recorder = Recorder()
        self.early = EarlyStopping(monitor="val_loss", patience=100, restore_best_weights=True)
        self.plateau = ReduceLROnPlateau(
            monitor="loss", factor=0.5, patience=1, min_delta=0.5, cooldown=1
        )
        self.best = ModelCheckpoint(
            os.path.join(folder, "best.weights.h5"),
            monitor="loss",
            save_best_only=True,
            save_weights_only=True,
        )

    def fit(self, save_freq=None, interrupt=None, **kwargs):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(14, 3))
        y = x[:, :1] * 2 - x[:, 1:2]
        callbacks = [
            LearningRateScheduler(lambda epoch, rate: rate * 0.9),
            self.recorder,
            self.early,
            self.plateau,
            self.best,
            CSVLogger(os.path.join(self.folder, "log.csv")),
        ]
        if save_freq is not None:
            callbacks.insert(
                0, BackupAndRestore(os.path.join(self.folder, "backup"), save_freq, **kwargs)
            )
        if interrupt is not None:
            callbacks.append(interrupt)
        data = {"x": x, "y": y, "batch_size": 4}
        if self.generator:
            data = {"x": moving(x, y)}
        self.model.fit(
            **data,
            epochs=EPOCHS,
            steps_per_epoch=self.steps_per_epoch,
            validation_data=moving(x, y) if self.validate_generator else (x, y),
            validation_steps=2 if self.validate_generator else None,
            verbose=0,
            callbacks=callbacks,
        )
        return self

    def outcome(self):
        """Return all that must be the same, as plain data with exact numbers."""
        with open(os.path.join(self.folder, "log.csv")) as file:
            log = file.read()
        variables = [*self.model.variables, *self.model.optimizer.variables]
        return {
            "variables": [v.numpy().tolist() for v in variables],
            "history": self.model.history.history,
            "epoch": self.model.history.epoch,
            "recorder": [self.recorder.losses, self.recorder.total.tolist()],
            "early": [
                {k: v for k, v in self.early.get_state().items() if k != "best_weights"},
                [w.tolist() for w in self.early.best_weights],
            ],
            "plateau": self.plateau.get_state(),
            "best": self.best.get_state(),
            "log": log,
        }


def run_twice(tmp_path, interrupt, save_freq, **settings):
    """Run with an interruption and again; return the two outcomes to compare."""
    whole, halved = tmp_path / "whole", tmp_path / "halved"
    whole.mkdir()
    halved.mkdir()
    expected = Run(whole, **settings).fit(save_freq).outcome()
    first = Run(halved, **settings)
    try:
        first.fit(save_freq, interrupt)
    except Interrupted:
        pass
    # another process may have another seed: all that matters is in the checkpoint
    second = Run(halved, **{**settings, "seed": 99}).fit(save_freq)
    return second.outcome(), expected


@pytest.mark.parametrize(
    ("save_freq", "batches"),
    [(1, 2), (1, 3), (1, 4), (1, 5), (1, 8), (1, 12), (1, 15), (3, 4), (3, 5), (3, 9), (3, 14)],
)
def test_resume_in_mid_epoch(tmp_path, save_freq, batches):
    got, expected = run_twice(tmp_path, InterruptAfter(batches), save_freq)
    assert json.dumps(got) == json.dumps(expected)


@pytest.mark.parametrize("batches", [1, 6, 11])
def test_resume_at_the_last_epoch_s_end(tmp_path, batches):
    got, expected = run_twice(tmp_path, InterruptAfter(batches), "epoch")
    if batches == 1:  # nothing was saved: the second run is one of its own
        assert got["epoch"] == expected["epoch"] and got["variables"] != expected["variables"]
        return
    assert json.dumps(got) == json.dumps(expected)


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # 4 batches in epochs of 3
@pytest.mark.parametrize("batches", [2, 3, 5, 7])
def test_resume_with_steps_per_epoch(tmp_path, batches):
    got, expected = run_twice(tmp_path, InterruptAfter(batches), 1, steps_per_epoch=3)
    assert json.dumps(got) == json.dumps(expected)


@pytest.mark.parametrize("batches", [2, 3, 5, 7])
def test_resume_with_a_generator(tmp_path, batches):
    got, expected = run_twice(
        tmp_path, InterruptAfter(batches), 1, steps_per_epoch=3, generator=True
    )
    assert json.dumps(got) == json.dumps(expected)


def test_a_generator_is_drawn_from_for_steps_alone(tmp_path):
    drawn = []

    def batches():
        for number in range(7):
            drawn.append(number)
            yield np.ones((4, 3)), np.ones((4, 1))

    model = uff.Sequential([uff.Input((3,)), Dense(1)])
    model.compile("sgd", "mse")
    backup = BackupAndRestore(os.path.join(tmp_path, "backup"), save_freq=1)
    model.fit(batches(), epochs=2, steps_per_epoch=3, verbose=0, callbacks=[backup])
    assert drawn == list(range(6))


@pytest.mark.parametrize("batches", [1, 4, 6])
def test_sigterm_writes_a_checkpoint_at_the_next_step(tmp_path, batches, capsys):
    got, expected = run_twice(tmp_path, InterruptAfter(batches, signal.SIGTERM), "epoch")
    assert json.dumps(got) == json.dumps(expected)
    assert "SIGTERM" in capsys.readouterr().out


@pytest.mark.parametrize("validate_generator", [False, True])
def test_sigterm_in_validation_validates_again(tmp_path, validate_generator):
    class InTest(Callback):
        def __init__(self):
            super().__init__()
            self.left = 2

        def on_test_batch_begin(self, batch, logs=None):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGTERM)

    got, expected = run_twice(tmp_path, InTest(), "epoch", validate_generator=validate_generator)
    assert json.dumps(got) == json.dumps(expected)


def test_sigterm_ends_fit_and_leaves_the_handler_as_it_was(tmp_path):
    run = Run(tmp_path)
    run.fit(interrupt=InterruptAfter(2, signal.SIGTERM))
    assert run.model.stop_training and run.model.interrupted
    assert int(run.model.optimizer.iterations.numpy()) == 2
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_the_checkpoint_is_deleted_at_the_end_only(tmp_path):
    with pytest.raises(Interrupted):
        Run(tmp_path).fit("epoch", InterruptAfter(6))
    assert os.listdir(tmp_path / "backup")
    Run(tmp_path).fit("epoch")
    assert not (tmp_path / "backup").exists()
    run = Run(tmp_path).fit("epoch", delete_checkpoint=False)
    again = Run(tmp_path).fit("epoch", delete_checkpoint=False)
    # all epochs are done: nothing is trained, and the results are there
    assert again.model.history.history == run.model.history.history
    np.testing.assert_array_equal(again.model.get_weights()[0], run.model.get_weights()[0])


def test_early_stop_survives(tmp_path):
    def fit(interrupt=None):
        uff.utils.clear_session()
        uff.utils.set_random_seed(1)
        model = uff.Sequential([uff.Input((1,)), Dense(1)])
        model.compile(uff.optimizers.SGD(0.0), "mse")
        callbacks = [EarlyStopping("loss", patience=2), BackupAndRestore(tmp_path / "b")]
        x = np.ones((4, 1))
        model.fit(x, x, epochs=20, verbose=0, callbacks=callbacks + (interrupt or []))
        return model.history.epoch

    class Stop(Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                raise Interrupted

    with pytest.raises(Interrupted):
        fit([Stop()])
    assert fit() == [0, 1, 2]


def test_another_model_s_checkpoint_is_refused(tmp_path):
    with pytest.raises(Interrupted):
        Run(tmp_path).fit("epoch", InterruptAfter(6))
    other = Run(tmp_path)
    other.model.compile("adam", "mse")
    with pytest.raises(ValueError, match="checkpoint"):
        other.fit("epoch")


@pytest.mark.parametrize("save_freq", [0, -1, "batch", 1.5])
def test_bad_save_freq(save_freq):
    with pytest.raises(ValueError, match="save_freq"):
        BackupAndRestore("somewhere", save_freq)


def test_backup_dir_is_needed():
    with pytest.raises(ValueError, match="backup_dir"):
        BackupAndRestore("")
