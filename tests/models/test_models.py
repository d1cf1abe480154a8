"""Functional, Sequential and subclassed models; configurations, clones, summary."""

import json

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import layers, ops
from uniflexflow.models import clone_model, model_from_json

X = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)
Z = X[:, :2] + 1


def two_in_two_out():
    a, b = uff.Input((3,), name="a"), uff.Input((2,), name="b")
    shared = layers.Dense(4, activation="tanh", name="shared")
    left = shared(a)
    right = shared(layers.Dense(3, name="lift")(b))
    mixed = left * 2.0 + right
    inner_in = uff.Input((4,))
    inner = uff.Model(inner_in, layers.Dense(2, name="deep")(inner_in), name="inner")
    return uff.Model(
        {"x": a, "y": b},
        {"first": inner(mixed), "second": layers.Concatenate(name="join")([left, right[:, 1:3]])},
        name="net",
    )


def same(model, other, *inputs):
    other.set_weights(model.get_weights())
    one, two = model(*inputs), other(*inputs)
    for a, b in zip(uff.tree.flatten(one), uff.tree.flatten(two)):
        np.testing.assert_array_equal(a, b)


# -- functional --------------------------------------------------------------------------


def test_shared_layers_nested_models_operators():
    model = two_in_two_out()
    out = model({"x": X, "y": Z})
    w, b = (v.numpy() for v in model.get_layer("shared").weights)
    lw, lb = (v.numpy() for v in model.get_layer("lift").weights)
    dw, db = (v.numpy() for v in model.get_layer("inner").weights)
    left, right = np.tanh(X @ w + b), np.tanh((Z @ lw + lb) @ w + b)
    np.testing.assert_allclose(out["first"], (2 * left + right) @ dw + db, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        out["second"], np.concatenate([left, right[:, 1:3]], 1), rtol=1e-5, atol=1e-6
    )
    assert model.output_names == ["first", "second"]
    assert len(model.weights) == 6
    assert len(model.layers) == 6
    assert model.get_layer("inner").get_layer("deep").units == 2


def test_inputs_by_list_or_dict():
    a, b = uff.Input((3,), name="a"), uff.Input((2,), name="b")
    model = uff.Model([a, b], ops.concatenate([a, b], axis=1))
    expected = np.concatenate([X, Z], 1)
    np.testing.assert_array_equal(model([X, Z]), expected)
    np.testing.assert_array_equal(model({"b": Z, "a": X}), expected)
    with pytest.raises(ValueError, match="Missing data for input 'b'"):
        model({"a": X})
    with pytest.raises(ValueError, match=r"expects 2 input\(s\) \['a', 'b'\]"):
        model([X])


def test_inputs_are_fitted():
    i = uff.Input((3,), name="i")
    model = uff.Model(i, i * 2.0, name="fit")
    assert model(np.ones((2, 3), "int32")).dtype == "float32"
    with pytest.raises(ValueError, match=r"'i' of model 'fit'.*\(None, 3\).*\(2, 4\)"):
        model(np.ones((2, 4)))
    j = uff.Input((1,))
    assert uff.Model(j, j + 1.0)(np.ones(5)).shape == (5, 1)


def test_output_that_needs_a_missing_input():
    a, b = uff.Input((3,), name="a"), uff.Input((3,), name="b")
    with pytest.raises(ValueError, match="name=b.*not among its inputs"):
        uff.Model(a, layers.add([a, b]))


def test_part_of_a_model():
    seq = uff.Sequential([uff.Input((3,)), layers.Dense(4), layers.ReLU(), layers.Dense(2)])
    features = uff.Model(seq.inputs, seq.layers[1].output)
    assert features(X).shape == (4, 4)
    head = uff.Model(seq.layers[1].output, seq.outputs)
    np.testing.assert_array_equal(head(features(X))[0], seq(X))
    assert [type(x).__name__ for x in head.layers] == ["InputLayer", "Dense"]


def test_order_of_layers_is_keras():
    i = uff.Input((3,), name="in")
    one = layers.Dense(3, name="a")(i)
    two = layers.Dense(3, name="l2")(layers.Dense(3, name="l1")(one))
    short = layers.Dense(3, name="short")(one)
    model = uff.Model(i, layers.Add(name="add")([short, two]))
    assert [x.name for x in model.layers] == ["in", "a", "l1", "short", "l2", "add"]


def test_names_are_unique():
    i = uff.Input((3,))
    x = layers.Dense(3, name="twice")(i)
    with pytest.raises(ValueError, match="'twice' is used 2 times"):
        uff.Model(i, layers.Dense(3, name="twice")(x))


def test_custom_train_step_class():
    class Own(uff.Model):
        def train_step(self, data):
            return {"mine": data}

    i = uff.Input((3,))
    model = Own(i, layers.Dense(1)(i))
    assert isinstance(model, uff.models.Functional)
    assert model.train_step(3) == {"mine": 3}
    assert model(X).shape == (4, 1)


# -- sequential --------------------------------------------------------------------------


def test_deferred_and_direct_are_the_same():
    direct = uff.Sequential([uff.Input((3,)), layers.Dense(4), layers.Dense(2)])
    deferred = uff.Sequential([layers.Dense(4), layers.Dense(2)])
    assert not deferred.built
    with pytest.raises(AttributeError, match="no input shape"):
        _ = deferred.inputs
    deferred(X)
    assert deferred.built
    assert deferred.output_shape == (None, 2)
    same(direct, deferred, X)
    other = uff.Sequential([layers.Dense(4), layers.Dense(2)])
    other.build((None, 3))
    same(direct, other, X)
    old = uff.Sequential([layers.Dense(4, input_shape=(3,)), layers.Dense(2, name="last")])
    assert old.built
    assert old.weights[0].path == f"{old.name}/{old.layers[0].name}/kernel"
    assert old.output_names == ["last"]


def test_add_and_pop():
    model = uff.Sequential([uff.Input((3,)), layers.Dense(4)])
    before = model(X)
    model.add(layers.Dense(2))
    assert model(X).shape == (4, 2)
    assert model.pop().units == 2
    np.testing.assert_array_equal(model(X), before)
    with pytest.raises(ValueError, match="unique names"):
        model.add(layers.Dense(2, name=model.layers[0].name))
    with pytest.raises(ValueError, match="Only instances of Layer"):
        model.add(3)
    model.pop()
    with pytest.raises(ValueError, match="no layers"):
        model(X)


# -- subclasses --------------------------------------------------------------------------


class Net(uff.Model):
    def __init__(self, units=4, scale=1.0, **kwargs):
        super().__init__(**kwargs)
        self.blocks = [layers.Dense(units) for _ in range(2)]
        self.drop = layers.Dropout(0.5)
        self.scale = scale

    def call(self, x, training=None):
        for block in self.blocks:
            x = block(x)
        return self.drop(x) * self.scale


def test_subclass():
    model = Net(name="net")
    assert (model.built, model.weights) == (False, [])
    y = model(X)
    assert model.built
    assert [v.path.rsplit("/", 1)[1] for v in model.weights] == ["kernel", "bias"] * 2
    assert model.weights[0].path.startswith("net/dense")
    np.testing.assert_array_equal(model(X), y)
    assert np.any(model(X, training=True) == 0)
    other = Net()
    other.build((None, 3))
    same(model, other, X)
    assert [type(x).__name__ for x in model.layers] == ["Dense", "Dense", "Dropout"]


def test_arguments_of_a_subclass_survive():
    """Keras 3.15 stores the defaults here, and loads another model without a word."""
    model = Net(scale=3.0)
    copy = Net.from_config(model.get_config())
    assert copy.scale == 3.0
    model(X), copy(X)
    same(model, copy, X)
    loaded = model_from_json(model.to_json(), custom_objects={"Net": Net})
    assert loaded.scale == 3.0


# -- configurations ----------------------------------------------------------------------


@pytest.mark.parametrize("way", ["json", "config", "clone"])
def test_functional_round_trip(way):
    model = two_in_two_out()
    if way == "json":
        copy = model_from_json(model.to_json())
    elif way == "config":
        copy = uff.Model.from_config(model.get_config())
    else:
        copy = clone_model(model)
    assert [x.name for x in copy.layers] == [x.name for x in model.layers]
    assert copy.name == model.name
    same(model, copy, {"x": X, "y": Z})


@pytest.mark.parametrize("way", ["json", "clone"])
def test_sequential_round_trip(way):
    model = uff.Sequential(
        [uff.Input((3,)), layers.Dense(4, activation="gelu"), layers.BatchNormalization()]
    )
    copy = model_from_json(model.to_json()) if way == "json" else clone_model(model)
    same(model, copy, X)
    deferred = uff.Sequential([layers.Dense(4), layers.Dense(1)])
    assert not model_from_json(deferred.to_json()).built
    deferred(X)
    assert model_from_json(deferred.to_json()).built


def test_clone_function_and_lambdas():
    i = uff.Input((3,))
    model = uff.Model(i, layers.Lambda(lambda x: x * 3.0)(layers.Dense(2)(i)))
    same(model, clone_model(model), X)
    with pytest.raises(ValueError, match="lambda"):
        model.to_json()

    def smaller(layer):
        config = layer.get_config()
        return type(layer).from_config(
            {**config, "use_bias": False} if "units" in config else config
        )

    plain = uff.Sequential([uff.Input((3,)), layers.Dense(2)])
    assert len(clone_model(plain, clone_function=smaller).weights) == 1


def test_json_is_what_keras_reads():
    config = json.loads(uff.Sequential([uff.Input((3,)), layers.Dense(2)]).to_json())
    assert (config["module"], config["class_name"]) == ("keras", "Sequential")
    dense = config["config"]["layers"][1]
    assert (dense["module"], dense["registered_name"]) == ("keras.layers", None)
    assert dense["config"]["kernel_initializer"]["class_name"] == "GlorotUniform"


# -- the rest ----------------------------------------------------------------------------


def test_get_layer():
    model = two_in_two_out()
    assert model.get_layer(index=-1) is model.layers[-1]
    with pytest.raises(ValueError, match="No such layer: nobody.*'shared'"):
        model.get_layer("nobody")
    with pytest.raises(ValueError, match="at index 99"):
        model.get_layer(index=99)


def test_float64_layers_in_a_float32_model():
    model = uff.Sequential([layers.Dense(2, dtype="float64")])
    x = np.full((1, 1), 1 + 1e-12)
    model(x)
    model.set_weights([np.ones((1, 2)), np.zeros(2)])
    assert model(x)[0, 0] == 1 + 1e-12


def test_frozen_model():
    model = two_in_two_out()
    model.trainable = False
    assert model.trainable_weights == []
    assert model.get_layer("inner").trainable_weights == []
    model.get_layer("shared").trainable = True
    assert model.trainable_weights == []


def printed(model, **kwargs):
    lines = []
    model.summary(print_fn=lines.append, **kwargs)
    assert len(lines) == 1
    return lines[0]


def test_summary():
    model = uff.Sequential([uff.Input((3,)), layers.Dense(4, name="d"), layers.Dense(2)], name="s")
    text = printed(model)
    assert 'Model: "s"' in text
    assert "d (Dense)" in text
    assert "(None, 4)" in text
    assert "Total params: 26 (104.00 B)" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) == 88
    for width in (60, 120):
        assert max(map(len, printed(model, line_length=width).splitlines())) == width
    unbuilt = printed(uff.Sequential([layers.Dense(4)]))
    assert "0 (unbuilt)" in unbuilt
    assert " ? " in unbuilt


def test_summary_of_a_graph(capsys):
    model = two_in_two_out()
    model.get_layer("lift").trainable = False
    text = printed(model, expand_nested=True, show_trainable=True)
    assert "Connected to" in text
    assert "shared[0][0]" in text
    assert "shared[1][0]" in text
    assert "└ deep" in text
    assert "Non-trainable params: 9 " in text
    part = printed(model, layer_range=("lift", "shared"))
    assert "join" not in part
    model.summary(line_length=130)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) == 130
    assert "\x1b" not in out
