"""Nothing grows: not over epochs, not over models that are made and dropped."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import layers

X, Y = np.ones((64, 8), "float32"), np.ones((64, 3), "float32")


def functional():
    inputs = uff.Input((8,))
    return uff.Model(inputs, layers.Dense(3)(layers.Dense(4)(inputs)))


def sequential():
    return uff.Sequential([uff.Input((8,)), layers.Dense(4), layers.Dropout(0.5), layers.Dense(3)])


class Subclass(uff.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(3)

    def call(self, x):
        return self.dense(x)


def used(make):
    """Return a model that has done all that models do."""
    model = make()
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(X, Y, verbose=0, validation_data=(X, Y))
    model.evaluate(X, Y, verbose=0)
    model.predict(X[:1], verbose=0)
    model.predict(X[:1], verbose=0)
    model.train_on_batch(X, Y)
    model(X[:1])
    model.optimizer.apply([np.zeros(v.shape, "float32") for v in model.trainable_variables])
    return model


@pytest.mark.parametrize("make", [functional, sequential, Subclass])
def test_a_model_that_is_dropped_is_gone_at_once(make):
    """With its arenas and the optimizer's slots: they don't wait for the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        model = used(make)
        arenas = [model._steps(kind)._function._arena for kind in ("train", "test", "predict")]
        watched = [weakref.ref(x) for x in (model, model.optimizer, *arenas)]
        del model, arenas
        assert [w() for w in watched] == [None] * 5
    finally:
        gc.enable()


def test_history_outlives_its_model():
    model = used(sequential)
    history = model.history
    assert history.model is model
    del model
    gc.collect()
    assert history.model is None
    assert len(history.history["loss"]) == 1


def test_steps_say_that_their_model_is_gone():
    model = used(sequential)
    steps = model.make_train_function()
    del model
    with pytest.raises(ReferenceError, match="train_step: the model is gone; keep a reference"):
        steps.for_specs((X[:7], Y[:7]))


HEAD = """
    import gc
    import numpy as np
    import uniflexflow as uff

    def resident():  # MB
        gc.collect()
        with open("/proc/self/status") as status:
            return next(int(l.split()[1]) for l in status if l.startswith("VmRSS")) / 1024

    x, y = np.ones((512, 64), "float32"), np.ones((512, 1), "float32")

    def made():
        layers = [uff.layers.Dense(512, activation="relu") for _ in range(4)]
        model = uff.Sequential([uff.Input((64,)), *layers, uff.layers.Dense(1)])
        model.compile("adam", "mse")
        return model
"""


def grown(program):
    import textwrap

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HEAD + program)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert not done.returncode, done.stderr
    return float(done.stdout)


def test_no_growth_over_50_epochs():
    program = """
    model = made()
    seen = []
    note = uff.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(resident()))
    model.fit(x, y, epochs=50, batch_size=64, verbose=0, callbacks=[note], validation_data=(x, y))
    print(seen[-1] - seen[9])
    """
    assert grown(program) < 1.0


def test_no_growth_over_20_models():
    """A model, its slots and its arenas are 25 MB here."""
    program = """
    def once():
        model = made()
        model.fit(x, y, batch_size=512, verbose=0)
        model.predict(x, verbose=0)
    seen = []
    for _ in range(25):
        once()
        seen.append(resident())
    print(seen[-1] - seen[4])
    """
    assert grown(program) < 4.0
