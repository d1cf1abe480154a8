"""Recomputation under mpiexec: the same training, less memory, whatever travels beside it."""

import numpy as np
import pytest

pytestmark = pytest.mark.mpi

PROGRAM = """
    import sys
    import numpy as np
    import uniflexflow as uff
    from uniflexflow import layers
    from uniflexflow.parallel import world

    uff.config.set_floatx("float64")

    def made(mark):
        uff.utils.set_random_seed(5)
        inputs = x = uff.Input((12, 12, 3))
        for _ in range(6):
            y = layers.Conv2D(6, 3, padding="same", use_bias=False)(x)
            y = layers.Dropout(0.2)(layers.ReLU()(layers.BatchNormalization()(y)))
            x = layers.Add()([x, y]) if x.shape == y.shape else y
        model = mark(uff.Model(inputs, layers.Dense(2)(layers.GlobalAveragePooling2D()(x))))
        model.compile("adam", "mse")
        return model

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(29, 12, 12, 3)), rng.normal(size=(29, 2))
    plain, less = made(lambda model: model), made(uff.remat)
    assert less.memory_usage(13).activations < 0.7 * plain.memory_usage(13).activations
    less.fit(x, y, batch_size=13, epochs=2, verbose=0)
    if world().rank == 0:
        np.savez(sys.argv[1], *less.get_weights())
"""


def trained(launcher, size, path):
    launcher.check(size, PROGRAM, str(path))
    with np.load(path) as saved:
        return [saved[name] for name in saved.files]


def test_the_same_training_on_any_number_of_ranks(launcher, tmp_path):
    one, two, three = (trained(launcher, n, tmp_path / f"{n}.npz") for n in (1, 2, 3))
    for several in (two, three):
        for a, b in zip(several, one, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
