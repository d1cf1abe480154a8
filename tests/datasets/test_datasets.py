"""Data sets: real files where they ship or a package brings them, made-up ones elsewhere."""

import gzip
import io
import pickle
import tarfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import pytest

from uniflexflow import datasets
from uniflexflow.datasets import fashion_mnist, files, npz, word_sequences

DEBIAN = Path("/usr/share/datasets/fashion-mnist")


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No network and an empty cache; counts attempts."""
    attempts = []

    def refuse(url, *args, **kwargs):
        attempts.append(url)
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setenv("UNIFLEXFLOW_DATASETS", str(tmp_path / "cache"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    return attempts


def test_digits():
    (x, y), (xt, yt) = datasets.digits.load_data()
    assert x.shape == (1437, 8, 8) and xt.shape == (360, 8, 8)
    assert x.dtype == np.uint8 and x.max() == 16 and set(y) == set(yt) == set(range(10))
    held_out = {a.tobytes() for a in xt}
    assert not any(a.tobytes() in held_out for a in x), "an image is in both parts"


def test_fashion_mnist_as_debian_ships_it():
    assert DEBIAN.is_dir(), "install Debian's dataset-fashion-mnist: the loader is tested on it"
    (x, y), (xt, yt) = datasets.fashion_mnist.load_data()
    assert x.shape == (60000, 28, 28) and xt.shape == (10000, 28, 28)
    assert np.bincount(y).tolist() == [6000] * 10 and np.bincount(yt).tolist() == [1000] * 10
    assert abs(x.mean() - 72.94) < 0.01  # the figure in the data set's own README


@pytest.mark.parametrize(
    "name, file",
    [
        ("mnist", "mnist.npz"),
        ("imdb", "imdb.npz"),
        ("reuters", "reuters.npz"),
        ("boston_housing", "boston_housing.npz"),
        ("california_housing", "california_housing.npz"),
        ("cifar10", "cifar-10-binary.tar.gz"),
    ],
)
def test_offline_error_says_which_file_to_put_where(name, file, tmp_path, offline):
    with pytest.raises(FileNotFoundError) as error:
        getattr(datasets, name).load_data()
    assert file in str(error.value) and str(tmp_path / "cache" / file) in str(error.value)
    assert len(offline) == 1


def test_a_wrong_path_is_an_error_without_download(offline):
    with pytest.raises(FileNotFoundError, match="nowhere/mnist.npz"):
        datasets.mnist.load_data(path="nowhere/mnist.npz")
    assert not offline


def test_a_wrong_download_is_not_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(urllib.request, "urlopen", lambda *a, **k: io.BytesIO(b"a login page"))
    with pytest.raises(ValueError, match="SHA-256"):
        datasets.mnist.load_data()
    assert not list((tmp_path / "cache").glob("*"))


def test_a_good_download_is_kept(monkeypatch, tmp_path):
    content = io.BytesIO()
    arrays = {f"{a}_{b}": np.arange(6, dtype=np.uint8) for a in "xy" for b in ("train", "test")}
    np.savez(content, **arrays)
    monkeypatch.setattr(urllib.request, "urlopen", lambda *a, **k: io.BytesIO(content.getvalue()))
    import hashlib

    digest = hashlib.sha256(content.getvalue()).hexdigest()
    monkeypatch.setattr(datasets.mnist, "SHA256", digest)
    (x, _), _ = datasets.mnist.load_data()
    assert x.tolist() == list(range(6))
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["mnist.npz"]


def _words(path, monkeypatch):
    x = np.empty(4, dtype=object)
    x[:] = [[1, 2, 3], [4, 5], [6], [7, 8, 9, 10]]
    np.savez(
        path,
        x_train=x,
        y_train=np.array([0, 1, 0, 1]),
        x_test=x,
        y_test=np.arange(4) % 2,
        x=x,
        y=np.arange(4),
    )


def test_imdb_options(tmp_path, monkeypatch):
    _words(tmp_path / "imdb.npz", monkeypatch)
    (x, y), (xt, _) = datasets.imdb.load_data(path=str(tmp_path), num_words=9, maxlen=5)
    assert len(x) == 3 and len(y) == 3 and len(xt) == 3  # the longest has 5 with its mark
    assert all(row[0] == 1 for row in x)
    assert sorted(map(len, x)) == [2, 3, 4]
    assert {w for row in x for w in row} == {1, 4, 5, 6, 7, 8, 2}  # 9 and above became 2
    with pytest.raises(ValueError, match="maxlen"):
        datasets.imdb.load_data(path=str(tmp_path), maxlen=1)


def test_rows_of_one_length_stay_lists():
    rows = word_sequences.as_object_array([[1, 2], [3, 4]])
    assert rows.shape == (2,)
    assert rows.tolist() == [[1, 2], [3, 4]]


def test_reuters_split(tmp_path, monkeypatch):
    _words(tmp_path / "reuters.npz", monkeypatch)
    (x, y), (xt, yt) = datasets.reuters.load_data(path=str(tmp_path), test_split=0.25)
    assert (len(x), len(xt)) == (3, 1) and sorted([*y, *yt]) == [0, 1, 2, 3]


def test_housing_rows_stay_together(tmp_path):
    x = np.arange(20.0).reshape(10, 2)
    np.savez(tmp_path / "boston_housing.npz", x=x, y=x[:, 0])
    (a, ya), (b, yb) = datasets.boston_housing.load_data(path=str(tmp_path))
    assert (len(a), len(b)) == (8, 2)
    np.testing.assert_array_equal(np.concatenate([a, b])[:, 0], np.concatenate([ya, yb]))


def test_a_pickle_that_runs_code_is_refused(tmp_path):
    class Bad:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|O", "fortran_order": False, "shape": (1,)}
    )
    with zipfile.ZipFile(tmp_path / "imdb.npz", "w") as archive:
        archive.writestr("x_train.npy", header.getvalue() + pickle.dumps(Bad()))
    with pytest.raises(ValueError, match="imdb.npz"):
        npz.load(tmp_path / "imdb.npz")
    assert not (tmp_path / "ran").exists()


def test_cifar10_from_archive(tmp_path):
    row = bytes([3]) + bytes(range(256)) * 12
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
            info = tarfile.TarInfo(f"../../{name}")  # where it wants to go does not matter
            info.size = 2 * len(row)
            archive.addfile(info, io.BytesIO(2 * row))
    (x, y), (xt, yt) = datasets.cifar10.load_data(path=str(tmp_path))
    assert x.shape == (10, 32, 32, 3) and y.shape == (10, 1) and xt.shape == (2, 32, 32, 3)
    assert x[0, 0, 1].tolist() == [1, 1, 1] and (yt == 3).all()


@pytest.mark.parametrize("damage", ["cut", "no gzip", "no idx"])
def test_damaged_idx_file_is_named(tmp_path, damage):
    content = b"\0\0\x08\x02" + np.array([3, 4], ">u4").tobytes() + bytes(12)
    data = {"cut": gzip.compress(content[:-1]), "no gzip": content, "no idx": gzip.compress(b"abc")}
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(data[damage])
    with pytest.raises(ValueError, match="train-images-idx3-ubyte.gz"):
        fashion_mnist.read_idx(path)
    path.write_bytes(gzip.compress(content))
    assert fashion_mnist.read_idx(path).shape == (3, 4)


def test_search_order(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "cache").mkdir()
    for folder in ("a", "cache"):
        (tmp_path / folder / "f").write_text(folder)
    assert files.find("d", "f", folders=[tmp_path / "a"]).read_text() == "a"
    assert files.find("d", "f").read_text() == "cache"
    assert files.find("d", "g") is None
