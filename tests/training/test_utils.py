"""uff.utils and uff.config: what Keras users look for there."""

import hashlib
import io
import sys
import tarfile
import zipfile

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import utils


def test_to_categorical():
    np.testing.assert_array_equal(utils.to_categorical([1, 0], 3), [[0, 1, 0], [1, 0, 0]])
    assert utils.to_categorical(np.zeros((4, 5, 1), int), 2).shape == (4, 5, 2)
    assert utils.to_categorical([], 3).shape == (0, 3)
    for labels, n in (([3], 3), ([-1], 3), ([0.5], 3)):
        with pytest.raises(ValueError, match="labels"):
            utils.to_categorical(labels, n)


def test_normalize():
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(utils.normalize(x), [[0.6, 0.8], [0, 0]])
    np.testing.assert_allclose(utils.normalize(x, axis=0, order=1), [[1, 1], [0, 0]])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [[0, 0, 1], [2, 3, 4]]),
        ({"padding": "post"}, [[1, 0, 0], [2, 3, 4]]),
        ({"maxlen": 2}, [[0, 1], [3, 4]]),
        ({"maxlen": 2, "truncating": "post"}, [[0, 1], [2, 3]]),
        ({"maxlen": 4, "value": 9}, [[9, 9, 9, 1], [9, 2, 3, 4]]),
    ],
)
def test_pad_sequences(arguments, expected):
    got = utils.pad_sequences([[1], [2, 3, 4]], **arguments)
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == np.int32


def test_pad_sequences_of_vectors_and_of_nothing():
    rows = [np.ones((1, 2)), np.ones((2, 2)), []]
    got = utils.pad_sequences(rows, dtype="float32")
    np.testing.assert_array_equal(got[..., 0], [[0, 1], [1, 1], [0, 0]])
    for bad in ([1, 2], [np.ones((1, 2)), np.ones((1, 3))]):
        with pytest.raises(ValueError, match="iterable|Shape"):
            utils.pad_sequences(bad)
    with pytest.raises(ValueError, match="padding"):
        utils.pad_sequences([[1]], padding="before")


def test_split_dataset():
    x = np.arange(10)
    left, right = utils.split_dataset({"a": x, "b": x * 2}, left_size=0.7)
    assert left["a"].tolist() == list(range(7)) and right["b"].tolist() == [14, 16, 18]
    left, right = utils.split_dataset(x, right_size=4, shuffle=True, seed=1)
    assert sorted([*left, *right]) == list(range(10)) and len(right) == 4
    assert left.tolist() != sorted(left.tolist())
    again, _ = utils.split_dataset(x, right_size=4, shuffle=True, seed=1)
    np.testing.assert_array_equal(left, again)
    for sizes in ({}, {"left_size": 8, "right_size": 5}, {"left_size": 1.5}, {"left_size": 11}):
        with pytest.raises(ValueError, match="split_dataset"):
            utils.split_dataset(x, **sizes)


# -- get_file --------------------------------------------------------------------------


def test_get_file_checks_and_keeps(tmp_path):
    source = tmp_path / "source.bin"
    source.write_bytes(b"numbers")
    digest = hashlib.sha256(b"numbers").hexdigest()
    how = {"origin": source.as_uri(), "cache_dir": tmp_path / "cache"}
    path = utils.get_file(file_hash=digest, **how)
    assert open(path, "rb").read() == b"numbers"
    source.unlink()
    assert utils.get_file(file_hash=digest, **how) == path  # from the cache
    with pytest.raises(FileNotFoundError, match="put it at"):
        utils.get_file("other", **how)


def test_get_file_keeps_nothing_that_is_wrong(tmp_path):
    source = tmp_path / "source.bin"
    source.write_bytes(b"numbers")
    with pytest.raises(ValueError, match="digest"):
        utils.get_file(origin=source.as_uri(), md5_hash="0" * 32, cache_dir=tmp_path / "cache")
    assert list((tmp_path / "cache" / "datasets").iterdir()) == []


def test_get_file_unpacks(tmp_path):
    tar, zipped = tmp_path / "a.tar.gz", tmp_path / "b.zip"
    with tarfile.open(tar, "w:gz") as file:
        entry = tarfile.TarInfo("inner/x.txt")
        entry.size = 2
        file.addfile(entry, io.BytesIO(b"hi"))
    with zipfile.ZipFile(zipped, "w") as file:
        file.writestr("inner/x.txt", "hi")
    for archive in (tar, zipped):
        folder = utils.get_file(origin=archive.as_uri(), extract=True, cache_dir=tmp_path / "cache")
        assert open(f"{folder}/inner/x.txt").read() == "hi"


def test_an_archive_can_t_write_outside_of_its_folder(tmp_path):
    tar = tmp_path / "evil.tar"
    with tarfile.open(tar, "w") as file:
        entry = tarfile.TarInfo("../../evil.txt")
        entry.size = 2
        file.addfile(entry, io.BytesIO(b"hi"))
    with pytest.raises(tarfile.TarError):
        utils.get_file(origin=tar.as_uri(), untar=True, cache_dir=tmp_path / "cache")
    assert not list(tmp_path.rglob("evil.txt"))


# -- others ----------------------------------------------------------------------------


def test_clear_session_restarts_names():
    utils.clear_session()
    first = uff.layers.Dense(1).name
    utils.clear_session()
    assert uff.layers.Dense(1).name == first == "dense"


def test_set_random_seed_gives_the_same_weights():
    weights = []
    for _ in range(2):
        utils.set_random_seed(5)
        model = uff.Sequential([uff.Input((2,)), uff.layers.Dense(3)])
        weights.append(model.get_weights()[0])
    np.testing.assert_array_equal(*weights)


def test_plot_model_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydot", None)
    model = uff.Sequential([uff.Input((2,)), uff.layers.Dense(3)])
    with pytest.raises(ImportError, match=r"uniflexflow\[plot\]"):
        utils.plot_model(model)


def test_model_to_dot(monkeypatch):
    class Dot:
        def __init__(self, **kwargs):
            self.nodes, self.edges = [], []

        def set_node_defaults(self, **kwargs):
            pass

        def add_node(self, node):
            self.nodes.append(node)

        def add_edge(self, edge):
            self.edges.append(edge)

    class Pydot:
        Node = staticmethod(lambda name, label: (name, label))
        Edge = staticmethod(lambda a, b: (a, b))

    Pydot.Dot = Dot
    monkeypatch.setitem(sys.modules, "pydot", Pydot)
    x = uff.Input((2,), name="x")
    a, b = uff.layers.Dense(3, name="a")(x), uff.layers.Dense(3, name="b")(x)
    model = uff.Model(x, uff.layers.Add(name="sum")([a, b]))
    graph = utils.model_to_dot(model, show_shapes=True, show_trainable=True)
    labels = dict(graph.nodes)
    assert len(labels) == 4
    names = {n: label.strip("{}").split(" ")[0] for n, label in labels.items()}
    assert {(names[a], names[b]) for a, b in graph.edges} == {
        ("x", "a"), ("x", "b"), ("a", "sum"), ("b", "sum"),
    }  # fmt: skip
    assert any("(None, 3)" in label for label in labels.values())


def test_config():
    config = uff.config
    assert config.floatx() == "float32" and config.image_data_format() == "channels_last"
    assert config.backend() == "uniflexflow" and config.dtype_policy().name == "float32"
    config.set_dtype_policy("float64")
    try:
        assert uff.layers.Dense(1).dtype == "float64"
    finally:
        config.set_floatx("float32")
    config.set_epsilon(1e-5)
    try:
        assert config.epsilon() == 1e-5
    finally:
        config.set_epsilon(1e-7)
    for call in (
        lambda: config.set_floatx("float16"),
        lambda: config.set_image_data_format("channels_first"),
        lambda: config.set_dtype_policy("mixed_float16"),
        lambda: config.set_max_epochs(0),
    ):
        with pytest.raises(
            ValueError, match=r"set_|DTypePolicy: 'mixed_float16'.*'mixed_bfloat16'"
        ):
            call()
