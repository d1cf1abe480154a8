"""Losses and metrics of the global batch are the same on any number of ranks."""

import pytest

pytestmark = pytest.mark.mpi

PROGRAM = """
    import numpy as np
    import uniflexflow as uff
    from uniflexflow import layers, losses, metrics, optimizers

    uff.config.set_floatx("float64")
    uff.utils.set_random_seed(1)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(29, 5))
    labels = rng.integers(0, 3, size=29)
    weight = rng.uniform(0.5, 2, size=29)

    def run(loss, y, units, activation, optimizer, found):
        model = uff.Sequential([uff.Input((5,)), layers.Dense(units, activation)])
        model.compile(optimizer, loss, weighted_metrics=found)
        history = model.fit(x, y, sample_weight=weight, batch_size=13, epochs=2, verbose=0)
        values = {k: v[-1] for k, v in history.history.items()}
        values |= model.evaluate(
            x, y, sample_weight=weight, batch_size=13, verbose=0, return_dict=True)
        values["weights"] = float(sum(np.abs(w).sum() for w in model.get_weights()))
        for name, value in values.items():
            if uff.parallel.world().rank == 0:
                print(f"{loss.name} {name} {value:.9e}")

    one_hot = np.eye(3)[labels]
    run(losses.SparseCategoricalCrossentropy(ignore_class=1), labels, 3, "softmax",
        optimizers.Adam(0.01, clipnorm=0.1),
        [metrics.SparseCategoricalAccuracy(), metrics.SparseTopKCategoricalAccuracy(k=2)])
    run(losses.CategoricalCrossentropy(label_smoothing=0.1), one_hot, 3, "softmax",
        optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.5),
        [metrics.F1Score(average="macro"), metrics.R2Score(), metrics.Precision(top_k=1),
         metrics.OneHotMeanIoU(3)])
    run(losses.BinaryCrossentropy(), (labels == 1).astype(float)[:, None], 1, "sigmoid",
        optimizers.Lamb(0.01),
        [metrics.AUC(), metrics.AUC(curve="PR", thresholds=[0.3, 0.5], name="pr"),
         metrics.Recall(), metrics.BinaryAccuracy(), metrics.RecallAtPrecision(0.4)])
    run(losses.Hinge(), (labels == 1).astype(float)[:, None], 1, None, optimizers.Nadam(0.01),
        [metrics.Hinge(), metrics.RootMeanSquaredError()])
"""


def test_the_same_numbers_on_any_number_of_ranks(launcher):
    outputs = {n: launcher.check(n, PROGRAM, timeout=90).out.splitlines() for n in (1, 2, 3)}
    assert len(outputs[1]) > 20
    for size in (2, 3):
        assert len(outputs[size]) == len(outputs[1])
        for a, b in zip(outputs[1], outputs[size]):
            assert a.rsplit(" ", 1)[0] == b.rsplit(" ", 1)[0]
            x, y = float(a.split()[-1]), float(b.split()[-1])
            assert y == pytest.approx(x, rel=1e-8, abs=1e-12), (size, a, b)
