"""Training under mpiexec: the same on any number of ranks, and an end to every failure."""

import signal
import time

import numpy as np
import pytest

pytestmark = pytest.mark.mpi

HEAD = """
    import os, signal, sys, time, zlib
    import numpy as np
    import uniflexflow as uff
    from uniflexflow import layers
    from uniflexflow.parallel import world

    comm = world()
    uff.config.set_floatx("float64")
"""

# 29 samples in batches of 13, 13 and 3: with 4 ranks uneven, then with a rank that has none.
TRAIN = (
    HEAD
    + """
    uff.utils.set_random_seed(7)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(29, 6, 6, 2))
    y = rng.integers(0, 3, size=29)
    weight = rng.uniform(0.5, 2, size=29)
    model = uff.models.Sequential([
        layers.Input((6, 6, 2)),
        layers.Conv2D(4, 3, activation="relu"),
        layers.BatchNormalization(),
        layers.MaxPooling2D(2),
        layers.Flatten(),
        layers.Dropout(0.3),
        layers.Dense(8, activation="relu"),
        layers.BatchNormalization(),
        layers.Dense(3),
    ])
    loss = uff.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, weighted_metrics=["accuracy"])
    history = model.fit(x, y, sample_weight=weight, batch_size=13, epochs=2, verbose=0)
    predicted = model.predict(x, batch_size=13, verbose=0)
    scores = model.evaluate(x, y, batch_size=13, verbose=0)
    results = [
        *[v.numpy() for v in model.variables],
        *[v.numpy() for v in model.optimizer.variables],
        np.array([history.history[k] for k in sorted(history.history)]),
        np.asarray(scores, "float64"),
        predicted,
    ]
    sums = comm.gather_objects([zlib.crc32(a.tobytes()) for a in results])
    assert all(other == sums[0] for other in sums), "ranks have drifted apart"
    if comm.rank == 0:
        np.savez(sys.argv[1], *results)
"""
)


def trained(launcher, size, tmp_path, **env):
    path = tmp_path / f"results_{size}_{'_'.join(env.values())}.npz"
    launcher.check(size, TRAIN, str(path), env=env)
    with np.load(path) as saved:
        return [saved[name] for name in saved.files]


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory):
    from launcher import Launcher

    folder = tmp_path_factory.mktemp("one_rank")
    return trained(Launcher(folder), 1, folder)


@pytest.mark.parametrize(
    ("size", "overlap", "memory"),
    [
        (2, "off", "on"),
        (2, "on", "on"),
        (3, "auto", "on"),
        (4, "off", "on"),
        (2, "auto", "off"),
        (2, "on", "off"),
        (3, "off", "off"),
    ],
)
def test_the_same_training_on_any_number_of_ranks(
    launcher, tmp_path, one_rank, size, overlap, memory
):
    env = {"UNIFLEXFLOW_OVERLAP": overlap, "UNIFLEXFLOW_NODE_MEMORY": memory}
    got = trained(launcher, size, tmp_path, **env)
    for a, b in zip(got, one_rank, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10 * max(np.abs(b).max(), 1e-3))


def test_weights_of_rank_0_count(launcher):
    # nobody set a seed, and rank 1 changes a weight by itself
    program = (
        HEAD
        + """
    model = uff.models.Sequential([layers.Input((4,)), layers.Dense(3), layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    before = comm.gather_objects([w.tobytes() for w in model.get_weights()])
    assert before[0] == before[1], "unseeded ranks must draw the same weights"
    if comm.rank == 1:
        model.set_weights([w + 1 for w in model.get_weights()])
    model.fit(np.ones((8, 4)), np.ones((8, 1)), verbose=0)
    after = comm.gather_objects([w.tobytes() for w in model.get_weights()])
    assert after[0] == after[1]
    """
    )
    launcher.check(2, program)


def test_rank_0_alone_prints(launcher):
    program = (
        HEAD
        + """
    model = uff.models.Sequential([layers.Input((4,)), layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    model.summary()
    model.fit(np.ones((8, 4)), np.ones((8, 1)), epochs=2, verbose=2)
    """
    )
    alone = launcher.check(1, program).out.splitlines()
    together = launcher.check(3, program).out.splitlines()
    assert len(alone) > 4 and len(together) == len(alone)


def test_a_model_that_differs_between_ranks_is_an_error(launcher):
    program = (
        HEAD
        + """
    units = 65 if comm.rank == 1 else 64
    model = uff.models.Sequential([
        layers.Input((16,)), layers.Dense(8, name="first"), layers.Dense(units, name="wide"),
        layers.Dense(1, name="last"),
    ])
    model.compile(optimizer="sgd", loss="mse")
    model.fit(np.ones((8, 16)), np.ones((8, 1)), verbose=0)
    """
    )
    outcome = launcher.run(3, program)
    assert outcome.code != 0, outcome.text
    assert "the model differs between ranks" in outcome.err, outcome.text
    message = outcome.err[outcome.err.index("the model differs") :]
    assert "wide" in message and "(8, 64)" in message and "(8, 65)" in message, outcome.text
    assert outcome.err.count("Traceback") == 1, outcome.text
    launcher.assert_no_orphans()


def test_another_number_of_rows_on_a_rank_is_an_error(launcher):
    program = (
        HEAD
        + """
    model = uff.models.Sequential([layers.Input((4,)), layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    n = 8 + comm.rank
    model.fit(np.ones((n, 4)), np.ones((n, 1)), batch_size=16, verbose=0)
    """
    )
    outcome = launcher.run(2, program)
    assert outcome.code != 0, outcome.text
    assert "differs between ranks" in outcome.err, outcome.text


# Rank 1 fails in the fifth batch of an endless training.
FAIL = (
    HEAD
    + """
    class Fail(uff.callbacks.Callback):
        told = False

        def on_train_batch_end(self, batch, logs=None):
            if comm.rank == 0 and batch == 2 and not self.told:
                self.told = True
                print("training", flush=True)
            if batch == 5 and comm.rank == 1:
                print("failing", time.time(), flush=True)
                {failure}

    model = uff.models.Sequential([layers.Input((4,)), layers.Dense(16), layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    model.fit(
        np.ones((64, 4)), np.ones((64, 1)), batch_size=8, epochs=10**6, verbose=0,
        callbacks=[Fail()],
    )
"""
)


@pytest.mark.parametrize("overlap", ["off", "on"])
@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ("raise OSError('the disk is full')", "[rank 1/3] the program failed"),
        ("sys.exit(0)", "rank 1 has ended, but this rank waits for it"),
        ("os.kill(os.getpid(), signal.SIGKILL)", ""),
    ],
    ids=["exception", "exit", "kill"],
)
def test_a_failure_on_one_rank_ends_the_training(launcher, failure, message, overlap):
    env = {"UNIFLEXFLOW_OVERLAP": overlap}
    outcome = launcher.run(3, FAIL.format(failure=failure), env=env)
    assert outcome.code != 0, outcome.text
    failed = float(outcome.out.split("failing")[1].split()[0])
    assert outcome.ended - failed < 10, outcome.text
    assert message in outcome.err, outcome.text
    assert outcome.err.count("Traceback") == failure.startswith("raise"), outcome.text
    launcher.assert_no_orphans()


def test_a_terminated_training_leaves_nothing(launcher):
    job = launcher.start(2, FAIL.format(failure="pass"))
    assert job.stdout.readline().strip() == "training"
    time.sleep(0.5)
    job.send_signal(signal.SIGTERM)
    launcher.finish(job)
    launcher.assert_no_orphans()


LAST_BATCH_OF_ONE = (
    HEAD
    + """
    uff.utils.set_random_seed(7)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(9, 4)), rng.integers(0, 3, size=9)
    model = uff.Sequential([layers.Input((4,)), layers.Dense(3)])
    loss = uff.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=["accuracy"])
    results = [model.evaluate(x, y, batch_size=4, verbose=0), model.train_on_batch(x[:1], y[:1])]
    model.fit(x, y, batch_size=4, verbose=0)
    if comm.rank == 0:
        np.save(sys.argv[1], [*np.ravel(results), *np.ravel(model.get_weights()[0])])
"""
)


@pytest.mark.parametrize("size", [2, 3])
def test_a_rank_without_rows_sends_the_messages_in_the_order_of_the_others(
    launcher, size, tmp_path
):
    launcher.check(1, LAST_BATCH_OF_ONE, str(tmp_path / "alone.npy"))
    launcher.check(size, LAST_BATCH_OF_ONE, str(tmp_path / "shared.npy"))
    alone, shared = np.load(tmp_path / "alone.npy"), np.load(tmp_path / "shared.npy")
    np.testing.assert_allclose(shared, alone, rtol=1e-12)


OTHER_DATA = (
    HEAD
    + """
    model = uff.Sequential([layers.Input((4,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    n, epochs = (9, 2) if comm.rank else (20, 2)
    if sys.argv[1] == "epochs":
        n, epochs = 20, 1 + comm.rank
    x, y = np.ones((n, 4)), np.ones((n, 1))
    if sys.argv[1] == "predict":
        model.predict(x, verbose=0)
    else:
        model.fit(x, y, batch_size=4, epochs=epochs, verbose=0)
"""
)


@pytest.mark.parametrize(
    "case, message",
    [
        ("data", "fit: the data differs between ranks: rank 0 has arrays of the shapes [(20, 4)"),
        ("predict", "predict: the data differs between ranks"),
        ("epochs", "fit: the length of training differs between ranks: rank 0 has epochs=1"),
    ],
)
def test_ranks_that_are_given_other_data_end_with_an_error(launcher, case, message):
    outcome = launcher.run(2, OTHER_DATA, case)
    assert outcome.code != 0 and message in outcome.err, outcome.text
