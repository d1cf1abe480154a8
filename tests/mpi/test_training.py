"""fit and its kin on several ranks: data, logs, output, interruption and resume."""

import re

import numpy as np
import pytest

pytestmark = pytest.mark.mpi

MODEL = """
import json, os, signal, sys
import numpy as np
import uniflexflow as uff
from uniflexflow.callbacks import BackupAndRestore, Callback, CSVLogger, EarlyStopping
from uniflexflow.parallel import world

rank, size = world().rank, world().size
uff.utils.set_random_seed(4)
uff.config.set_floatx("float64")
rng = np.random.default_rng(0)
x = rng.normal(size=(13, 3))
y = np.sin(x[:, :1])

def make_model():
    layers = uff.layers
    model = uff.Sequential([
        uff.Input((3,)),
        layers.Dense(5, activation="tanh"),
        layers.Dropout(0.3),
        layers.Dense(1),
    ])
    model.compile(uff.optimizers.Adam(0.02), "mse", metrics=["mae"])
    return model

def report(**values):
    values["weights"] = [w.tolist() for w in values.pop("model").get_weights()]
    open(f"{sys.argv[1]}.{rank}", "w").write(json.dumps(values))
"""


def results(launcher, name, size):
    import json

    return [json.loads((launcher.tmp_path / f"{name}.{r}").read_text()) for r in range(size)]


def assert_close(a, b):
    """Compare nested plain data up to rounding."""
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_close(a[key], b[key])
    elif isinstance(a, list):
        assert len(a) == len(b)
        for s, t in zip(a, b, strict=True):
            assert_close(s, t)
    else:
        assert a == pytest.approx(b, rel=1e-9, abs=1e-12)


DATA = (
    MODEL
    + """
class Batches(uff.utils.PyDataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return x[4 * i : 4 * i + 4], y[4 * i : 4 * i + 4]

def forever():
    while True:
        for i in range(4):
            yield Batches()[i]

out = {}
kind = sys.argv[2]
model = make_model()
how = {"epochs": 3, "validation_data": (x, y)}
if kind == "arrays":
    model.fit(x, y, batch_size=4, shuffle=False, **how)
elif kind == "pydataset":
    model.fit(Batches(), shuffle=False, **how)
elif kind == "generator":
    model.fit(forever(), steps_per_epoch=4, **how)
else:
    import h5py
    path = f"rows{rank}.h5"
    with h5py.File(path, "w") as file:
        file["x"], file["y"] = x, y
        model.fit(file["x"], file["y"], batch_size=4, shuffle=False, **how)
report(
    model=model,
    history=model.history.history,
    evaluated=model.evaluate(x, y, batch_size=5),
    predicted=model.predict(x, batch_size=5).tolist(),
)
"""
)


@pytest.mark.parametrize("kind", ["arrays", "pydataset", "generator", "h5"])
def test_sources_give_the_same_training_on_any_number_of_ranks(launcher, kind):
    alone = launcher.check(1, DATA, "one", kind, timeout=60)
    expected = results(launcher, "one", 1)[0]
    assert len(expected["predicted"]) == 13
    for size in (2, 3):
        outcome = launcher.check(size, DATA, f"n{size}", kind, timeout=60)
        got = results(launcher, f"n{size}", size)
        assert all(r == got[0] for r in got)  # to the last bit among themselves
        assert_close(got[0], expected)
        # one display: as many lines as on one rank, and no control characters
        assert len(outcome.out.splitlines()) == len(alone.out.splitlines()) == 5
        assert not re.search(r"[\x1b\b\r]", outcome.out)


RESUME = (
    MODEL
    + """
class Interrupt(Callback):
    def __init__(self, rank, batches):
        super().__init__()
        self.rank, self.left = rank, batches
    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0 and rank == self.rank:
            os.kill(os.getpid(), signal.SIGTERM)

model = make_model()
callbacks = [
    EarlyStopping("loss", patience=50),
    CSVLogger("log.csv"),
    BackupAndRestore("backup", delete_checkpoint=False),
]
if sys.argv[2] != "-":
    callbacks.append(Interrupt(int(sys.argv[2]), 6))
model.fit(x, y, batch_size=4, epochs=40, verbose=0, callbacks=callbacks)
report(
    model=model,
    history=model.history.history,
    best=callbacks[0].get_state(),
    steps=int(model.optimizer.iterations.numpy()),
    log=open("log.csv").read().splitlines()[0],
)
"""
)


def test_sigterm_on_one_rank_ends_all_and_another_number_of_ranks_goes_on(launcher):
    launcher.check(1, RESUME, "whole", "-", timeout=60)
    expected = results(launcher, "whole", 1)[0]
    for path in (launcher.tmp_path / "backup").iterdir():
        path.unlink()
    launcher.check(3, RESUME, "first", "1", timeout=60)
    first = results(launcher, "first", 3)
    assert all(r == first[0] for r in first)
    assert 6 <= first[0]["steps"] < 160
    launcher.check(2, RESUME, "second", "-", timeout=60)
    second = results(launcher, "second", 2)
    assert second[0] == second[1]
    assert second[0]["steps"] == 160
    assert_close(second[0]["history"], expected["history"])
    assert_close(second[0]["weights"], expected["weights"])
    assert len((launcher.tmp_path / "log.csv").read_text().splitlines()) == 41


def test_predictions_of_fewer_samples_than_ranks(launcher):
    program = MODEL + "report(model=(m := make_model()), p=m.predict(x[:2], verbose=0).tolist())"
    launcher.check(1, program, "one", timeout=60)
    launcher.check(3, program, "three", timeout=60)
    expected = results(launcher, "one", 1)[0]["p"]
    for got in results(launcher, "three", 3):
        np.testing.assert_allclose(got["p"], expected, rtol=1e-12)
