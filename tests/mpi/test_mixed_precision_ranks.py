"""Mixed precision over ranks: the same training as on one, but for roundings."""

import pytest

pytestmark = pytest.mark.mpi

FIT = """
    import numpy as np
    import uniflexflow as uff

    uff.utils.set_random_seed(0)
    uff.config.set_dtype_policy("mixed_bfloat16")
    model = uff.Sequential(
        [
            uff.Input((8, 8, 3)),
            uff.layers.Conv2D(8, 3, padding="same"),
            uff.layers.BatchNormalization(),
            uff.layers.Activation("relu"),
            uff.layers.Flatten(),
            uff.layers.Dense(64, activation="gelu"),
            uff.layers.Dense(4, dtype="float32"),
        ]
    )
    loss = uff.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(uff.optimizers.Adam(1e-3), loss, metrics=["accuracy"])
    rng = np.random.default_rng(0)
    x = rng.standard_normal((96, 8, 8, 3)).astype("float32")
    y = rng.integers(0, 4, 96)
    losses = model.fit(x, y, batch_size=24, epochs=4, verbose=0, shuffle=False).history["loss"]
    kept = {w.dtype for w in model.weights}
    assert kept == {"float32"}, kept
    every = uff.parallel.world().gather_objects([w.tobytes() for w in model.get_weights()])
    predicted = model.predict(x[:7], batch_size=4, verbose=0)
    assert predicted.shape == (7, 4) and np.isfinite(predicted).all()
    if uff.distribution.rank() == 0:
        assert all(weights == every[0] for weights in every), "ranks' weights must stay the same"
        print("losses", *losses)
"""


def losses_of(outcome):
    line = next(line for line in outcome.out.splitlines() if line.startswith("losses"))
    return [float(word) for word in line.split()[1:]]


def test_ranks_train_as_one_does(launcher):
    alone = losses_of(launcher.check(1, FIT))
    assert alone[-1] < alone[0] / 2
    # a rank's sums are rounded to bfloat16 (2**-9) before they meet; in 16 steps that adds up
    for size in (2, 3):
        ranks = losses_of(launcher.check(size, FIT))
        assert ranks == pytest.approx(alone, rel=8 * 2.0**-9)
