"""Weight files and model files: round trips, strict errors, and refusals."""

import errno
import json
import os
import zipfile

import h5py
import numpy as np
import pytest
from models_to_save import assert_equal, data, scramble, small, state, train

import uniflexflow as uff
from uniflexflow import layers, saving
from uniflexflow.saving import weight_paths


def test_weights_and_optimizer_come_back(tmp_path):
    model = small()
    train(model)
    before = state(model)
    n = len(model.weights)
    model.save_weights(tmp_path / "w.weights.h5")
    scramble(model)
    model.load_weights(tmp_path / "w.weights.h5")
    assert_equal(state(model)[:n], before[:n])
    slots = len(model.optimizer.variables)
    assert_equal(state(model)[-slots:], before[-slots:])


def test_optimizer_is_built_when_its_state_is_read(tmp_path):
    model = small()
    train(model)
    model.save_weights(tmp_path / "w.weights.h5")
    fresh = small(seed=2)
    assert not fresh.optimizer.built
    fresh.load_weights(tmp_path / "w.weights.h5")
    assert_equal(
        [v.numpy() for v in fresh.optimizer.variables],
        [v.numpy() for v in model.optimizer.variables],
    )


def test_another_optimizer_is_left_alone(tmp_path):
    model = small()
    train(model)
    model.save_weights(tmp_path / "w.weights.h5")
    other = small(optimizer="sgd")
    with pytest.warns(UserWarning, match="Skipping variable loading for optimizer 'sgd'"):
        other.load_weights(tmp_path / "w.weights.h5")
    assert_equal(other.get_weights(), model.get_weights())


def test_shapes_that_do_not_fit(tmp_path):
    small().save_weights(tmp_path / "w.weights.h5")
    other = small(units=5)
    before = state(other)
    with pytest.raises(ValueError) as caught:
        other.load_weights(tmp_path / "w.weights.h5")
    for part in ("w.weights.h5", "kernel", "'dense'", "layers/dense", "(3, 4)", "(3, 5)"):
        assert part in str(caught.value)
    assert_equal(state(other), before)


def test_skip_mismatch_takes_what_fits(tmp_path):
    model = small()
    model.save_weights(tmp_path / "w.weights.h5")
    uff.naming.reset()
    other = uff.Sequential(
        [
            uff.Input((3,)),
            layers.Dense(4, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(2),
        ]
    )
    last = other.layers[-1].kernel.numpy()
    with pytest.warns(UserWarning, match=r"\(4, 1\).*layers/dense_1.*\(4, 2\).*Skipped"):
        other.load_weights(tmp_path / "w.weights.h5", skip_mismatch=True)
    assert_equal([other.layers[0].kernel.numpy()], [model.layers[0].kernel.numpy()])
    assert_equal([other.layers[-1].kernel.numpy()], [last])


def test_layers_too_many_or_too_few(tmp_path):
    path = tmp_path / "w.weights.h5"
    small().save_weights(path)
    fewer = uff.Sequential([uff.Input((3,)), layers.Dense(4)])
    with pytest.raises(ValueError, match=r"has weights that model .* has no layer for: layers/b"):
        fewer.load_weights(path)
    more = small()
    more.add(layers.Dense(1))
    with pytest.raises(ValueError, match=r"'dense_2' \(layers/dense_2\) has 2 variables .* has 0"):
        more.load_weights(path)


def test_names_and_unbuilt_models(tmp_path):
    model = small()
    with pytest.raises(ValueError, match=r"must end in `.weights.h5`"):
        model.save_weights(tmp_path / "w.h5")
    with pytest.raises(ValueError, match=r"ends in `.weights.h5` or `.keras`"):
        model.load_weights(tmp_path / "w.npz")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        model.load_weights(tmp_path / "w.weights.h5")
    with pytest.raises(ValueError, match="has no weights yet: it is not built"):
        uff.Sequential([layers.Dense(1)]).save_weights(tmp_path / "w.weights.h5")
    model.save_weights(tmp_path / "w.weights.h5")
    with pytest.raises(FileExistsError):
        model.save_weights(tmp_path / "w.weights.h5", overwrite=False)
    with pytest.raises(ValueError, match=r"must end in `.keras`"):
        model.save(tmp_path / "m.h5")


def test_cut_off_weight_files(tmp_path):
    path = tmp_path / "w.weights.h5"
    model = small()
    model.save_weights(path)
    content = path.read_bytes()
    before = state(model)
    for length in range(0, len(content), 501):
        path.write_bytes(content[:length])
        with pytest.raises(OSError, match=r"w\.weights\.h5"):
            model.load_weights(path)
    assert_equal(state(model), before)


def test_links_are_refused(tmp_path):
    path = tmp_path / "w.weights.h5"
    model = small()
    for link in (h5py.SoftLink("/vars"), h5py.ExternalLink("/tmp/other.h5", "/x")):
        model.save_weights(path)
        with h5py.File(path, "r+") as file:
            del file["layers/dense/vars"]
            file["layers/dense/vars"] = link
        with pytest.raises(ValueError, match=f"refused.*{type(link).__name__}"):
            model.load_weights(path)


def test_compressed_and_wider_datasets_are_read(tmp_path):
    path = tmp_path / "w.weights.h5"
    model = small()
    expected = np.arange(12, dtype="float64").reshape(3, 4)
    model.save_weights(path)
    with h5py.File(path, "r+") as file:
        del file["layers/dense/vars/0"]
        file.create_dataset("layers/dense/vars/0", data=expected, chunks=(1, 4), compression="gzip")
    model.load_weights(path)
    np.testing.assert_array_equal(model.layers[0].kernel.array, expected.astype("float32"))


# -- where weights lie -------------------------------------------------------------------


def paths(model):
    return [e.path for e in weight_paths.walk(model) if e.variables]


def test_paths_of_a_functional_model():
    x = uff.Input((4,))
    short = layers.Dense(4, name="short")(x)
    long = layers.Dense(4, name="l2")(layers.Dense(4, name="l1")(x))
    model = uff.Model(x, layers.Add()([short, long]))
    order = [e.name for e in weight_paths.walk(model) if e.variables]
    assert order == ["l1", "short", "l2"]
    assert paths(model) == ["layers/dense", "layers/dense_1", "layers/dense_2"]


class Block(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.d = layers.Dense(4)
        self._p = layers.Dense(4)
        self.many = [layers.Dense(4), {"x": layers.Dense(4)}]

    def call(self, x):
        return self.many[1]["x"](self.many[0](self._p(self.d(x))))


def test_paths_of_a_layer_with_layers():
    model = uff.Sequential([uff.Input((4,)), Block()])
    assert paths(model) == [
        "layers/block/d",
        "layers/block/many/dense",
        "layers/block/many/container/dense",
        "layers/block/_p",
    ]


class Letters(uff.Model):
    def __init__(self):
        super().__init__()
        self.z = layers.Dense(4)
        self.a = layers.Dense(4)
        self.B = layers.Dense(4)

    def call(self, x):
        return self.z(self.a(self.B(x)))


def test_paths_of_a_model_that_a_user_wrote():
    model = Letters()
    model(np.ones((1, 4), "float32"))
    assert paths(model) == ["B", "a", "layers/dense"]


# -- model files -------------------------------------------------------------------------


def test_a_model_comes_back_with_its_training(tmp_path):
    model = small()
    train(model)
    model.save(tmp_path / "m.keras")
    again = saving.load_model(tmp_path / "m.keras")
    x, y = data()
    np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
    assert again.evaluate(x, y, verbose=0) == model.evaluate(x, y, verbose=0)
    assert_equal(
        [v.numpy() for v in again.optimizer.variables],
        [v.numpy() for v in model.optimizer.variables],
    )
    plain = uff.models.load_model(tmp_path / "m.keras", compile=False)
    assert plain.optimizer is None
    with zipfile.ZipFile(tmp_path / "m.keras") as archive:
        names = [i.filename for i in archive.infolist()]
        assert names == ["metadata.json", "config.json", "model.weights.h5"]
        assert all(i.compress_type == zipfile.ZIP_STORED for i in archive.infolist())


def test_training_goes_on_in_a_model_that_was_read(tmp_path):
    whole = small()
    losses = train(whole, epochs=4)
    first = small()
    train(first, epochs=2)
    first.save(tmp_path / "m.keras")
    uff.random.set_random_seed(77)
    second = saving.load_model(tmp_path / "m.keras")
    assert train(second, epochs=2) == losses[2:]  # with dropout: its generator is in the file
    assert_equal(second.get_weights(), whole.get_weights())


def test_weights_are_read_from_a_model_file(tmp_path):
    model = small()
    model.save(tmp_path / "m.keras")
    other = small(seed=5)
    other.load_weights(tmp_path / "m.keras")
    assert_equal(other.get_weights(), model.get_weights())


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.keras"
    small().save(path)
    content = path.read_bytes()

    class Odd(layers.Layer):
        def call(self, x):
            return x

        def get_config(self):
            raise RuntimeError("no configuration")

    with pytest.raises(RuntimeError, match="no configuration"):
        uff.Sequential([uff.Input((2,)), Odd()]).save(path)

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="no space left"):
        small().save(path)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["m.keras"]


def rewrite(path, change):
    with zipfile.ZipFile(path) as archive:
        members = {n: archive.read(n) for n in archive.namelist()}
    config = json.loads(members["config.json"])
    change(config, members)
    members["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in reversed(members.items()):
            archive.writestr(name, content)


def names_a_module(config, members):
    config["config"]["layers"][1].update(module="os", class_name="system", registered_name=None)


def holds_code(config, members):
    config["config"]["layers"][1]["config"]["activation"] = {
        "class_name": "__lambda__",
        "config": {"value": "4wEAAAA="},
    }


def bomb(config, members):
    members["model.weights.h5"] = b"\0" * (1 << 25)


def no_weights(config, members):
    del members["model.weights.h5"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (names_a_module, "not known"),
        (holds_code, "lambda"),
        (bomb, "would unpack"),
        (no_weights, "has no 'model.weights.h5'"),
    ],
)
def test_bad_model_files_are_refused(tmp_path, change, message):
    path = tmp_path / "m.keras"
    small().save(path)
    rewrite(path, change)
    with pytest.raises(ValueError, match=message):
        saving.load_model(path)


def test_compressed_members_in_any_order_are_read(tmp_path):
    path = tmp_path / "m.keras"
    model = small()
    model.save(path)
    rewrite(path, lambda config, members: members.pop("metadata.json"))
    assert_equal(saving.load_model(path).get_weights(), model.get_weights())


def test_cut_off_model_files(tmp_path):
    path = tmp_path / "m.keras"
    small().save(path)
    content = path.read_bytes()
    for length in range(0, len(content), 1013):
        path.write_bytes(content[:length])
        with pytest.raises(OSError, match=r"m\.keras' is not a whole model file"):
            saving.load_model(path)


def test_damaged_weights_in_a_model_file(tmp_path):
    path = tmp_path / "m.keras"
    model = small()
    model.save(path)
    content = bytearray(path.read_bytes())
    place = content.find(model.layers[0].kernel.array.tobytes())
    content[place + 5] ^= 8
    path.write_bytes(content)
    with pytest.raises(OSError, match=r"'model.weights.h5' in .*m\.keras' is damaged"):
        saving.load_model(path)


def test_safe_mode_can_not_be_left(tmp_path):
    with pytest.raises(ValueError, match="safe_mode=False is not supported"):
        saving.load_model(tmp_path / "m.keras", safe_mode=False)
