"""One program, run by Keras and by us: the same names, numbers and calls.

The program is written against ``keras``; here that name is ``uniflexflow``.
"""

import numpy as np
import pytest
from keras_oracle import needs_keras, run_keras

import uniflexflow as uff

PROGRAM = """
x, ya, yb, weight = inputs["x"], inputs["ya"], inputs["yb"], inputs["weight"]

def model_of(units, activation=None, **arguments):
    keras.utils.clear_session()
    model = keras.Sequential([
        keras.Input((4,)),
        keras.layers.Dense(5, activation="tanh"),
        keras.layers.Dense(units, activation=activation),
    ])
    rng = np.random.default_rng(1)
    model.set_weights([rng.normal(size=w.shape) * 0.4 for w in model.get_weights()])
    model.compile(**arguments)
    return model

class Spy(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.calls = []

def spy(name):
    def hook(self, *args, logs=None):
        if args and not isinstance(args[-1], int):  # Keras gives some hooks' logs by place
            *args, logs = args
        args = tuple(args)
        numbers = {k: float(v) for k, v in (logs or {}).items() if k != "outputs"}
        self.calls.append((name, args, sorted(numbers.items())))
    return hook

for hook in dir(keras.callbacks.Callback):
    if hook.startswith("on_") and hook not in ("on_batch_begin", "on_batch_end"):
        setattr(Spy, hook, spy(hook))

def fit(model, *data, **how):
    how = {"batch_size": 4, "epochs": 3, "shuffle": False, "verbose": 0, **how}
    spy = Spy()
    history = model.fit(*data, callbacks=[*how.pop("callbacks", []), spy], **how)
    return {
        "history": history.history,
        "epoch": history.epoch,
        "params": {k: v for k, v in history.params.items()},
        "calls": spy.calls,
        "weights": [np.asarray(w) for w in model.get_weights()],
    }

# weights, partial batches, validation from the end
model = model_of(1, optimizer=keras.optimizers.SGD(0.1, momentum=0.9), loss="mse",
                 metrics=["mae", keras.metrics.RootMeanSquaredError(name="rms")],
                 weighted_metrics=["mse"])
outputs["regression"] = fit(model, x, ya, sample_weight=weight, validation_split=0.3)
outputs["regression evaluate"] = model.evaluate(x, ya, sample_weight=weight, verbose=0)
outputs["regression predict"] = np.asarray(model.predict(x, batch_size=5, verbose=0))
outputs["on batch"] = [
    model.train_on_batch(x[:3], ya[:3], return_dict=True),
    model.test_on_batch(x, ya, return_dict=True),
]

# classes
labels = inputs["labels"]
model = model_of(3, "softmax", optimizer="adam", loss="sparse_categorical_crossentropy",
                 metrics=["accuracy", "sparse_categorical_crossentropy"])
outputs["classes"] = fit(model, x, labels, class_weight={0: 2.0, 2: 0.25},
                         validation_data=(x, labels), validation_freq=2)
model = model_of(3, "softmax", optimizer="rmsprop", loss="categorical_crossentropy",
                 metrics=["acc"])
outputs["one-hot"] = fit(model, x, np.eye(3)[labels], initial_epoch=1,
                         validation_data=(x, np.eye(3)[labels], weight))
model = model_of(1, "sigmoid", optimizer="sgd", loss="binary_crossentropy",
                 metrics=["accuracy"])
outputs["binary"] = fit(model, x, labels[:, None] % 2, steps_per_epoch=2)

# rates
model = model_of(1, optimizer=keras.optimizers.SGD(0.1), loss="mse")
outputs["rates"] = fit(model, x, ya, epochs=6, callbacks=[
    keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
    keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=0.3),
])
outputs["rates"]["calls"] = None  # the order of these callbacks' own entries is not compared
model = model_of(1, optimizer=keras.optimizers.SGD(0.6), loss="mse")
outputs["early"] = fit(model, x, ya, epochs=12, callbacks=[
    keras.callbacks.EarlyStopping("loss", patience=1, min_delta=0.05, restore_best_weights=True),
])

# several outputs
def two(**arguments):
    keras.utils.clear_session()
    inner = keras.Input((4,), name="in")
    model = keras.Model(inner, [keras.layers.Dense(1, name="a")(inner),
                                keras.layers.Dense(2, name="b")(inner)])
    rng = np.random.default_rng(2)
    model.set_weights([rng.normal(size=w.shape) * 0.4 for w in model.get_weights()])
    model.compile(optimizer="sgd", **arguments)
    return model

model = two(loss={"a": "mse", "b": "mae"}, loss_weights={"a": 0.5, "b": 2.0},
            metrics={"b": ["mse"]})
outputs["two"] = fit(model, x, {"a": ya, "b": yb}, validation_data=(x, [ya, yb]))
outputs["two evaluate"] = model.evaluate(x, [ya, yb], verbose=0)
model = two(loss="mse", metrics=[["mae"], ["mae"]], weighted_metrics=[["mse"], ["mse"]])
outputs["two weighted"] = fit(model, x, [ya, yb], sample_weight=[weight, weight ** 2])
"""


@pytest.fixture(scope="module")
def both():
    rng = np.random.default_rng(0)
    inputs = {
        "x": rng.normal(size=(13, 4)).astype("float32"),
        "ya": rng.normal(size=(13, 1)).astype("float32"),
        "yb": rng.normal(size=(13, 2)).astype("float32"),
        "weight": rng.uniform(0.2, 2, 13).astype("float32"),
        "labels": rng.integers(0, 3, 13),
    }
    ours = {}
    exec(PROGRAM, {"keras": uff, "np": np, "inputs": inputs, "outputs": ours})
    return ours, run_keras(PROGRAM, **inputs)


def assert_same(ours, theirs, where):
    if isinstance(theirs, dict):
        assert sorted(ours) == sorted(theirs), where
        for key in theirs:
            assert_same(ours[key], theirs[key], f"{where}/{key}")
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs), where
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(a, b, f"{where}/{i}")
    elif isinstance(theirs, (float, np.ndarray)):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5, err_msg=where)
    else:
        assert ours == theirs, where


PARTS = [
    "regression",
    "regression evaluate",
    "regression predict",
    "on batch",
    "classes",
    "one-hot",
    "binary",
    "rates",
    "early",
    "two",
    "two evaluate",
    "two weighted",
]


@needs_keras
@pytest.mark.parametrize("part", PARTS)
def test_the_same_as_keras(both, part):
    ours, theirs = both
    assert set(ours) == set(theirs) == set(PARTS)
    assert_same(ours[part], theirs[part], part)
