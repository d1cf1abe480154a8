"""Training checkpoints: complete, whole or absent, and refused when they don't fit."""

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
from models_to_save import assert_equal, scramble, small, state, train

import uniflexflow as uff
from uniflexflow import saving
from uniflexflow.saving import DamagedFileError, atomic, plain_data, sealed

PROGRESS = {
    "epoch": 3,
    "lr": 0.1,
    "nan": float("inf"),
    "none": None,
    "pair": (1, "a"),
    "logs": {"loss": [0.1 + 0.2, 1e-300]},
    "best_weights": [np.arange(6.0).reshape(2, 3), np.array(7, "int64")],
    3: {"__array__": 5},
}


def check_progress(got):
    assert_equal(got.pop("best_weights"), PROGRESS["best_weights"])
    assert got == {k: v for k, v in PROGRESS.items() if k != "best_weights"}


@pytest.fixture
def saved(tmp_path):
    """Return a trained model, its state, and its checkpoint."""
    model = small()
    train(model)
    path = tmp_path / "run.h5"
    saving.save_checkpoint(path, model, PROGRESS)
    return model, state(model), path


def test_everything_comes_back(saved):
    model, before, path = saved
    scramble(model)
    check_progress(saving.load_checkpoint(path, model))
    assert_equal(state(model)[: len(model.weights)], before[: len(model.weights)])
    names = [v.path for v in [*model.variables, *model.optimizer.variables]]
    metrics = {v.path for m in model.metrics for v in m.variables}
    for name, a, b in zip(names, state(model), before):
        if name not in metrics:  # sums within an epoch are part of the progress
            np.testing.assert_array_equal(a, b, err_msg=name)


def test_another_process_goes_on_with_the_same_numbers(tmp_path):
    whole = small()
    train(whole)
    x, y = uff.random.make_seed(), None
    losses = train(whole, 2)
    del x, y
    first = small()
    train(first)
    saving.save_checkpoint(tmp_path / "c.h5", first)
    second = small(seed=99)  # made by a process that knows nothing of the first
    saving.load_checkpoint(tmp_path / "c.h5", second)
    uff.random.make_seed()
    assert train(second, 2) == losses
    assert_equal(state(second), state(whole))


def test_global_random_state_comes_back(saved):
    model, _, path = saved
    expected = [uff.random.make_seed() for _ in range(3)]
    numbers = np.asarray(uff.random.normal((4,)))
    uff.random.set_random_seed(5)
    saving.load_checkpoint(path, model)
    assert [uff.random.make_seed() for _ in range(3)] == expected
    if uff.random._global:
        assert numbers.shape == (4,)


def test_file_is_plain_hdf5(saved):
    model, _, path = saved
    with h5py.File(path) as file:
        assert file.attrs["format"] == "uniflexflow-checkpoint"
        kernel = file["model/layers/dense/vars/0"][:]
    np.testing.assert_array_equal(kernel, model.layers[0].kernel.array)
    assert [p.name for p in path.parent.iterdir()] == ["run.h5"]


def test_scheduled_rate_and_averages(tmp_path):
    rate = uff.optimizers.schedules.ExponentialDecay(0.1, 3, 0.5)
    model = small(optimizer=uff.optimizers.RMSprop(rate, momentum=0.5, use_ema=True))
    train(model)
    before = state(model)
    saving.save_checkpoint(tmp_path / "c.h5", model)
    scramble(model)
    saving.load_checkpoint(tmp_path / "c.h5", model)
    assert_equal(state(model)[: len(model.weights)], before[: len(model.weights)])
    n = len(model.optimizer.variables)
    assert_equal(state(model)[-n:], before[-n:])


# -- damage ------------------------------------------------------------------------------


def test_cut_off_anywhere(saved):
    model, _, path = saved
    content = path.read_bytes()
    before = state(model)
    for length in sorted({*range(0, len(content), 97), 1, len(content) - 1, len(content) - 60}):
        path.write_bytes(content[:length])
        with pytest.raises(DamagedFileError, match=r"no whole checkpoint is left.*run\.h5"):
            saving.load_checkpoint(path, model)
    assert_equal(state(model), before)


def test_a_flipped_bit_is_found_and_named(saved):
    model, _, path = saved
    content = path.read_bytes()
    with h5py.File(path) as file:
        datasets = {}
        file.visititems(
            lambda name, item: (
                datasets.update({name: (item.id.get_offset(), item.nbytes)})
                if isinstance(item, h5py.Dataset)
                else None
            )
        )
    assert len(datasets) > 20
    rng = np.random.default_rng(0)
    for name, (offset, nbytes) in datasets.items():
        damaged = bytearray(content)
        damaged[offset + int(rng.integers(nbytes))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(DamagedFileError, match=rf"run\.h5.*is damaged: dataset {name}\b"):
            saving.load_checkpoint(path, model)


def test_a_flipped_bit_anywhere_is_found(saved):
    model, before, path = saved
    content = path.read_bytes()
    rng = np.random.default_rng(1)
    for place in [*rng.integers(0, len(content), 150), *range(len(content) - 56, len(content))]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(DamagedFileError):
            saving.load_checkpoint(path, model)
    assert_equal(state(model), before)


def test_the_one_before_is_taken_when_the_last_is_damaged(saved):
    model, before, path = saved
    train(model)
    saving.save_checkpoint(path, model, {"second": True})
    content = bytearray(path.read_bytes())
    content[5000] ^= 4
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=r"run\.h5' is damaged.*run\.h5\.previous', is used"):
        check_progress(saving.load_checkpoint(path, model))
    assert_equal(model.get_weights(), before[: len(model.weights)])
    os.remove(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is damaged: it ended between two renames
        check_progress(saving.load_checkpoint(path, model))
    assert saving.checkpoint_exists(path)


def test_missing(tmp_path):
    assert not saving.checkpoint_exists(tmp_path / "none.h5")
    with pytest.raises(FileNotFoundError, match="there is no checkpoint at"):
        saving.load_checkpoint(tmp_path / "none.h5", small())


# -- a file of something else ------------------------------------------------------------


def test_other_models_are_refused(saved):
    _, _, path = saved
    other = small(units=5)
    before = other.get_weights()
    with pytest.raises(ValueError) as caught:
        saving.load_checkpoint(path, other)
    for part in ("run.h5", "dense/kernel", "(3, 4)", "(3, 5)", "another model"):
        assert part in str(caught.value)
    assert_equal(other.get_weights(), before)
    with pytest.raises(ValueError, match="optimizer/.*is not expected"):
        saving.load_checkpoint(path, small(optimizer="sgd"))


def reseal(path, change):
    """Change a checkpoint as an attacker would, with a good seal."""
    with h5py.File(path) as file:
        arrays = {}
        file.visititems(
            lambda name, item: (
                arrays.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
        attributes = dict(file.attrs)
    with open(path, "wb") as file:
        sealed.write_sealed(file, arrays, attributes)
    content = path.read_bytes()
    length = int.from_bytes(content[-40:-32], "little")
    body, tail = content[: -56 - length], content[-56 - length : -32]
    path.write_bytes(body)
    with h5py.File(path, "r+") as file:
        change(file)
    changed = path.read_bytes() + tail
    path.write_bytes(changed + hashlib.sha256(changed).digest())


def external_link(file):
    del file["model/layers/dense/vars/0"]
    file["model/layers/dense/vars/0"] = h5py.ExternalLink("/etc/other.h5", "/x")


def soft_link(file):
    del file["model/layers/dense/vars/0"]
    file["model/layers/dense/vars/0"] = h5py.SoftLink("/model/layers/dense_1/vars/0")


def external_storage(file):
    del file["model/layers/dense/vars/0"]
    file.create_dataset(
        "model/layers/dense/vars/0", (3, 4), "f4", external=[("/etc/passwd", 0, 48)]
    )


def virtual(file):
    del file["model/layers/dense/vars/0"]
    layout = h5py.VirtualLayout((3, 4), "f4")
    layout[:] = h5py.VirtualSource("/etc/other.h5", "x", (3, 4))
    file.create_virtual_dataset("model/layers/dense/vars/0", layout)


def huge(file):
    del file["model/layers/dense/vars/0"]
    file.create_dataset("model/layers/dense/vars/0", (1 << 20, 1 << 20), "f4", chunks=(1, 1024))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (external_link, "ExternalLink"),
        (soft_link, "SoftLink"),
        (external_storage, "lie in another file"),
        (virtual, "lie in another file"),
        (huge, r"has shape \(1048576, 1048576\)"),
    ],
)
def test_tricks_are_refused(saved, change, message):
    model, before, path = saved
    reseal(path, change)
    with pytest.raises(ValueError, match=message):
        saving.load_checkpoint(path, model)
    assert_equal(state(model), before)


def test_newer_versions_are_refused(saved):
    model, _, path = saved
    reseal(path, lambda file: file.attrs.update(version=2))
    with pytest.raises(ValueError, match="has version 2 of the format"):
        saving.load_checkpoint(path, model)


# -- failures while writing --------------------------------------------------------------


@pytest.mark.parametrize("at", ["write", "fsync", "replace"])
def test_a_full_disk_loses_nothing(saved, monkeypatch, at):
    model, before, path = saved
    content = path.read_bytes()
    scramble(model)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if at == "write":
        monkeypatch.setattr(sealed, "write_sealed", full)
    else:
        monkeypatch.setattr(atomic.os, at, full)
    with pytest.raises(OSError, match=r"can't write .*run\.h5.*no space left") as caught:
        saving.save_checkpoint(path, model)
    monkeypatch.undo()
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == content
    assert not [p for p in path.parent.iterdir() if p.name.endswith(atomic.TEMPORARY)]
    check_progress(saving.load_checkpoint(path, model))


@pytest.fixture
def tiny_disk(tmp_path):
    """Return a folder on a file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a file system can't be mounted without being root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_really_full_disk_loses_nothing(tiny_disk):
    model = small()
    train(model)
    before = model.get_weights()
    path = tiny_disk / "c.h5"
    saving.save_checkpoint(path, model)
    (tiny_disk / "filler").write_bytes(b"x" * (os.statvfs(tiny_disk).f_bavail - 1) * 4096)
    with pytest.raises(OSError, match="no space left"):
        saving.save_checkpoint(path, model)
    scramble(model)
    saving.load_checkpoint(path, model)
    assert_equal(model.get_weights(), before)
    assert {p.name for p in tiny_disk.iterdir()} == {"c.h5", "filler"}


def test_state_that_is_no_data_is_refused(saved):
    model, _, path = saved
    content = path.read_bytes()
    with pytest.raises(TypeError, match=r"progress\['callbacks'\]\[0\] is .*can't hold"):
        saving.save_checkpoint(path, model, {"callbacks": [object()]})
    assert path.read_bytes() == content


KILLED = """
import sys
sys.path[:0] = {paths!r}
from models_to_save import small, train
from uniflexflow import saving
model = small(units=300)
train(model)
print("ready", flush=True)
for i in range(10**6):
    for v in model.weights:
        v.array[...] = i
    saving.save_checkpoint({path!r}, model, {{"i": i}})
    print(i, flush=True)
"""


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path):
    """After each of 20 kills there is a whole checkpoint, not older than the last one told."""
    here = Path(__file__).parent
    path = str(tmp_path / "c.h5")
    paths = [str(here), str(here.parents[1])]
    script = KILLED.format(paths=paths, path=path)
    model = small(units=300)
    rng = np.random.default_rng(0)
    child = None
    deadline = time.monotonic() + 240
    kills = 0
    while kills < 20 and time.monotonic() < deadline:
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        try:
            assert child.stdout.readline() == "ready\n"
            time.sleep(float(rng.random()) * 0.2)
        finally:
            child.send_signal(signal.SIGKILL)
            told = child.stdout.read().split()
            child.wait()
        kills += 1
        if not saving.checkpoint_exists(path):
            assert not told
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a half file would warn
            progress = saving.load_checkpoint(path, model)
        if told:
            assert progress["i"] >= int(told[-1])
        for v in model.weights:
            assert (v.array == progress["i"]).all()
    assert kills >= 5


# -- the manager -------------------------------------------------------------------------


def test_manager_keeps_the_last_and_skips_damaged_ones(tmp_path):
    model = small()
    manager = saving.CheckpointManager(tmp_path / "runs", keep=3)
    for step in (1, 2, 10, 20):
        for v in model.weights:
            v.array[...] = step
        manager.save(model, {"step": step}, step)
    assert manager.steps() == [2, 10, 20]
    Path(manager.path(20)).write_bytes(b"")
    Path(manager.path(10)).write_bytes(Path(manager.path(10)).read_bytes()[:-9])
    with pytest.warns(UserWarning, match="checkpoint-000000000002.h5', is used instead"):
        assert manager.load(model) == {"step": 2}
    assert (model.weights[0].array == 2).all()
    with pytest.raises(FileNotFoundError, match="no checkpoint in"):
        saving.CheckpointManager(tmp_path / "empty").load(model)
    with pytest.raises(ValueError, match="`keep` must be at least 2"):
        saving.CheckpointManager(tmp_path, keep=1)


def test_leftovers_of_killed_processes_are_removed(tmp_path):
    model = small()
    manager = saving.CheckpointManager(tmp_path)
    leftovers = [".checkpoint-000000000007.h5.123.partial", ".c.h5.123.partial"]
    for name in [*leftovers, ".c.h5.previous.9.partial", "other.partial"]:
        (tmp_path / name).write_bytes(b"half")
    manager.save(model, None, 8)
    saving.save_checkpoint(tmp_path / "c.h5", model)
    assert {p.name for p in tmp_path.iterdir()} == {
        "checkpoint-000000000008.h5",
        "c.h5",
        "other.partial",
    }


def test_plain_data_is_exact():
    arrays = []
    data = {"a": [1, 2.5, None, True, "x"], "t": ((1,), []), 1: {2: np.float32(0.1)}}
    text = json.dumps(plain_data.split(data, arrays))
    assert plain_data.join(json.loads(text), arrays) == {
        **{k: v for k, v in data.items() if k != 1},
        1: {2: float(np.float32(0.1))},
    }
