"""Each callback does what its name says."""

import csv
import math

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow.callbacks import (
    Callback,
    CallbackList,
    CSVLogger,
    EarlyStopping,
    LambdaCallback,
    LearningRateScheduler,
    ModelCheckpoint,
    ReduceLROnPlateau,
    TerminateOnNaN,
)
from uniflexflow.layers import Dense


class Fake(Callback):
    """Writes given numbers into the logs, before the other callbacks see them."""

    def __init__(self, **columns):
        super().__init__()
        self.columns = columns

    def on_epoch_end(self, epoch, logs=None):
        for name, values in self.columns.items():
            logs[name] = values[epoch]


@pytest.fixture
def model():
    uff.utils.set_random_seed(0)
    model = uff.Sequential([uff.Input((2,)), Dense(1)])
    model.compile(uff.optimizers.SGD(0.1), "mse", metrics=["mae", "accuracy"])
    return model


def train(model, *callbacks, epochs=10, **kwargs):
    x = np.random.default_rng(0).normal(size=(8, 2))
    return model.fit(x, x[:, :1], epochs=epochs, verbose=0, callbacks=list(callbacks), **kwargs)


# -- EarlyStopping ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "arguments", "epochs"),
    [
        ([5, 4, 3, 2, 1], {}, 5),
        ([5, 4, 4, 1, 0], {}, 3),
        ([5, 4, 4, 4, 0], {"patience": 2}, 4),
        ([5, 4, 4, 3, 3, 3], {"patience": 2}, 6),
        ([5, 4.5, 4.1, 4, 3.9], {"min_delta": 1, "patience": 2}, 3),
        ([1, 2, 3, 2, 1], {"mode": "max"}, 4),
        ([5, 5, 5, 5, 5, 5], {"start_from_epoch": 3}, 5),
        ([5, 5, 5, 5, 5], {"baseline": 1, "patience": 3}, 3),
    ],
)
def test_early_stopping(model, values, arguments, epochs):
    stop = EarlyStopping("watched", **{"mode": "min", **arguments})
    history = train(model, Fake(watched=values), stop, epochs=len(values))
    assert len(history.epoch) == epochs


def test_best_weights_are_restored(model):
    kept = []

    class Keep(Callback):
        def on_epoch_end(self, epoch, logs=None):
            kept.append(self.model.get_weights())

    stop = EarlyStopping("watched", mode="min", patience=9, restore_best_weights=True)
    train(model, Fake(watched=[3, 1, 2, 2]), Keep(), stop, epochs=4)
    for got, expected in zip(model.get_weights(), kept[1], strict=True):
        np.testing.assert_array_equal(got, expected)
    assert stop.best_epoch == 1


def test_direction_comes_from_the_metric(model):
    for name, less in (("loss", True), ("val_mae", True), ("accuracy", False)):
        stop = EarlyStopping(name, patience=99)
        x = np.zeros((4, 2))
        model.fit(x, x[:, :1], verbose=0, callbacks=[stop], validation_data=(x, x[:, :1]))
        assert stop._less_is_better is less
    with pytest.raises(ValueError, match="mode='max'"):
        train(model, Fake(watched=[1]), EarlyStopping("watched"), epochs=1)


def test_a_missing_monitor_warns(model):
    with pytest.warns(UserWarning, match="Available metrics are: loss,mae,accuracy"):
        train(model, EarlyStopping("val_loss"), epochs=1)


def test_unknown_mode():
    with pytest.raises(ValueError, match="mode"):
        EarlyStopping(mode="up")


# -- learning rates --------------------------------------------------------------------


def test_learning_rate_scheduler(model):
    history = train(model, LearningRateScheduler(lambda e, rate: rate * 0.5), epochs=3)
    np.testing.assert_allclose(history.history["learning_rate"], [0.05, 0.025, 0.0125], rtol=1e-6)
    history = train(model, LearningRateScheduler(lambda e: 1.0 / (e + 1)), epochs=3)
    np.testing.assert_allclose(history.history["learning_rate"], [1, 1 / 2, 1 / 3], rtol=1e-6)


def test_a_schedule_must_give_a_float(model):
    with pytest.raises(ValueError, match="should be a float"):
        train(model, LearningRateScheduler(lambda e: "fast"), epochs=1)


def test_errors_within_a_schedule_come_through(model):
    def broken(epoch, rate):
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        train(model, LearningRateScheduler(broken), epochs=1)


def test_reduce_on_plateau(model):
    plateau = ReduceLROnPlateau(
        "watched", factor=0.1, patience=2, mode="min", cooldown=1, min_lr=0.0005
    )
    watched = [1.0, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    history = train(model, Fake(watched=watched), plateau)
    rates = history.history["learning_rate"]
    np.testing.assert_allclose(
        rates, [0.1] * 3 + [0.01] * 2 + [0.001] * 2 + [0.0005] * 3, rtol=1e-5
    )


def test_reduce_on_plateau_refuses():
    with pytest.raises(ValueError, match="factor"):
        ReduceLROnPlateau(factor=1.0)


# -- files -----------------------------------------------------------------------------


def test_csv_logger(model, tmp_path):
    path = tmp_path / "log.csv"
    history = train(model, CSVLogger(path), epochs=2).history
    rows = list(csv.DictReader(path.open()))
    assert [r["epoch"] for r in rows] == ["0", "1"]
    assert [float(r["loss"]) for r in rows] == history["loss"]
    assert rows[0]["val_loss"] == "NA"
    train(model, CSVLogger(path, append=True), epochs=1)
    assert len(list(csv.DictReader(path.open()))) == 3
    train(model, CSVLogger(path, separator=";"), epochs=1)
    assert path.read_text().startswith("epoch;loss;mae;accuracy")


def test_model_checkpoint(model, tmp_path):
    template = str(tmp_path / "at-{epoch:02d}-{watched:.1f}.weights.h5")
    train(
        model,
        Fake(watched=[3, 1, 2]),
        ModelCheckpoint(template, save_weights_only=True),
        ModelCheckpoint(
            tmp_path / "sub" / "best.weights.h5",
            monitor="watched",
            mode="min",
            save_best_only=True,
            save_weights_only=True,
        ),
        epochs=3,
    )
    names = sorted(p.name for p in tmp_path.glob("at-*"))
    assert names == [f"at-{n}.weights.h5" for n in ("01-3.0", "02-1.0", "03-2.0")]
    other = uff.Sequential([uff.Input((2,)), Dense(1)])
    other.load_weights(tmp_path / "sub" / "best.weights.h5")
    best = other.get_weights()[0]
    other.load_weights(tmp_path / names[1])
    np.testing.assert_array_equal(best, other.get_weights()[0])


def test_model_checkpoint_every_few_batches(model, tmp_path):
    saved = []
    checkpoint = ModelCheckpoint(
        tmp_path / "{epoch}-{batch}.weights.h5", save_weights_only=True, save_freq=3
    )
    model.save_weights = lambda path, overwrite: saved.append(path.rsplit("/")[-1])
    train(model, checkpoint, epochs=2, batch_size=2)
    assert saved == ["1-3.weights.h5", "2-2.weights.h5"]


def test_whole_models_are_saved(model, tmp_path):
    train(model, ModelCheckpoint(tmp_path / "m.keras"), epochs=1)
    loaded = uff.saving.load_model(tmp_path / "m.keras")
    x = np.ones((3, 2))
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))


@pytest.mark.parametrize(
    "arguments",
    [
        {"filepath": "a.h5"},
        {"filepath": "a.keras", "save_weights_only": True},
        {"filepath": "a.keras", "save_freq": "batch"},
        {"filepath": "a.keras", "mode": "best"},
    ],
)
def test_model_checkpoint_refuses(arguments):
    with pytest.raises(ValueError, match="ModelCheckpoint"):
        ModelCheckpoint(**arguments)


def test_an_unknown_placeholder_is_named(model, tmp_path):
    with pytest.raises(KeyError, match="val_loss"):
        train(model, ModelCheckpoint(tmp_path / "{val_loss}.weights.h5", save_weights_only=True))


# -- others ----------------------------------------------------------------------------


def test_terminate_on_nan(model):
    x = np.ones((8, 2))
    x[4] = np.nan
    seen = []
    watch = LambdaCallback(on_train_batch_end=lambda b, logs: seen.append(logs["loss"]))
    model.fit(x, x[:, :1], batch_size=2, shuffle=False, epochs=3, verbose=0,
              callbacks=[TerminateOnNaN(), watch])  # fmt: skip
    assert len(seen) == 3 and math.isnan(seen[-1])
    with pytest.raises(RuntimeError, match="Invalid loss"):
        model.fit(x, x[:, :1], verbose=0, callbacks=[TerminateOnNaN(raise_error=True)])


def test_lambda_callback_takes_any_hook(model):
    seen = []
    hooks = LambdaCallback(
        on_epoch_begin=lambda epoch, logs: seen.append(epoch),
        on_test_begin=lambda logs: seen.append("test"),
        on_train_end=lambda logs: seen.append(sorted(logs)),
    )
    train(model, hooks, epochs=1, validation_split=0.5)
    assert seen[:2] == [0, "test"] and "val_loss" in seen[2]
    with pytest.raises(TypeError, match="on_lunch"):
        LambdaCallback(on_lunch=print)


def test_callback_list_for_loops_of_one_s_own(model):
    seen = []
    both = CallbackList(
        [LambdaCallback(on_batch_end=lambda b, logs: seen.append((b, logs)))],
        add_history=True,
        model=model,
        epochs=1,
        steps=2,
        verbose=0,
    )
    both.on_train_begin()
    both.on_epoch_begin(0)
    both.on_train_batch_end(0, logs={"loss": 1.0})
    both.on_epoch_end(0, logs={"loss": 1.0})
    both.on_train_end()
    assert model.history.history == {"loss": [1.0]}
    assert seen == [(0, {"loss": 1.0})]
    assert both.params == {"epochs": 1, "steps": 2, "verbose": 0}


def test_states_go_to_callbacks_of_their_class():
    a, b = EarlyStopping(), EarlyStopping()
    a.wait, b.wait = 1, 2
    state = CallbackList([TerminateOnNaN(), a, b]).get_state()
    c, d = EarlyStopping(), EarlyStopping()
    CallbackList([c, LambdaCallback(), d]).set_state(state)
    assert (c.wait, d.wait) == (1, 2)
