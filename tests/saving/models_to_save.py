"""Models that the tests of files share, and what it means that two are equal."""

import numpy as np

import uniflexflow as uff
from uniflexflow import layers


def small(units=4, optimizer="adam", seed=1):
    """Return a compiled model with all kinds of state: weights, statistics, seeds, slots."""
    uff.random.set_random_seed(seed)
    uff.naming.reset()
    model = uff.Sequential(
        [
            uff.Input((3,)),
            layers.Dense(units, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(1),
        ]
    )
    model.compile(optimizer, "mse", metrics=["mae"])
    return model


def data(n=16, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)).astype("float32"), rng.normal(size=(n, 1)).astype("float32")


def train(model, epochs=1):
    x, y = data()
    return model.fit(x, y, batch_size=4, epochs=epochs, shuffle=False, verbose=0).history["loss"]


def state(model):
    """Return all numbers of a model and its optimizer."""
    variables = [*model.variables, *(model.optimizer.variables if model.optimizer else [])]
    return [v.numpy() for v in variables]


def assert_equal(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b):
        np.testing.assert_array_equal(x, y)


def scramble(model):
    """Put other numbers everywhere, so that what a file brings back is seen."""
    for v in [*model.variables, *model.optimizer.variables]:
        v.array[...] = 77
