"""The contract of Layer: weights, tracking, losses, training, errors, configuration."""

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import layers, ops
from uniflexflow.compiler import Function
from uniflexflow.saving import (
    CustomObjectScope,
    deserialize_keras_object,
    register_keras_serializable,
    serialize_keras_object,
)

X = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)


class Scale(layers.Layer):
    """Multiply by a weight."""

    def __init__(self, start=2.0, **kwargs):
        super().__init__(**kwargs)
        self.start = start

    def build(self, input_shape):
        self.factor = self.add_weight(
            input_shape[-1:], uff.initializers.Constant(self.start), name="factor"
        )

    def call(self, x):
        return x * self.factor


class Block(layers.Layer):
    """Layers in attributes, lists and dicts."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.first = Scale(2.0)
        self.more = [Scale(3.0), {"inner": Scale(5.0)}]
        self.drop = layers.Dropout(0.5)

    def call(self, x):
        x = self.more[0](self.first(x))
        return self.drop(self.more[1]["inner"](x))


def test_three_ways_to_call():
    layer = Scale()
    np.testing.assert_array_equal(layer(X), 2 * X)
    assert layer(uff.Input((3,))).shape == (None, 3)
    np.testing.assert_array_equal(Function(lambda x: layer(x))(X), 2 * X)
    assert len(layer.weights) == 1


def test_state_is_found_in_containers():
    block = Block(name="block")
    np.testing.assert_allclose(block(X), 30 * X)
    assert [v.path for v in block.weights] == [
        f"block/{s.name}/factor" for s in (block.first, block.more[0], block.more[1]["inner"])
    ]
    assert len(block.variables) == 4  # and the state of the dropout
    assert block.count_params() == 9
    with pytest.raises(ValueError, match="isn't built"):
        Block().count_params()


def test_appending_to_a_list_is_seen():
    block = Block()
    block.more.append(Scale())
    assert len(block._sublayers()) == 5


def test_training_reaches_nested_layers():
    block = Block()
    assert not np.any(block(X) == 0)
    assert np.any(block(np.ones((4, 3), "float32"), training=True) == 0)


def test_trainable_is_inherited():
    block = Block()
    block.trainable = False
    block(X)
    assert block.trainable_weights == []
    assert len(block.non_trainable_weights) == 3
    block.trainable = True
    assert len(block.trainable_weights) == 3
    block.more[0].trainable = False
    assert len(block.trainable_weights) == 2
    outer = Scale(trainable=False)
    outer(X)
    assert outer.trainable_weights == []
    assert not outer.factor.trainable


def test_losses():
    class Costly(layers.Layer):
        def __init__(self):
            super().__init__()
            self.inner = layers.Dense(
                2, kernel_regularizer=uff.regularizers.L2(0.5), activity_regularizer="l1"
            )

        def call(self, x):
            y = self.inner(x)
            self.add_loss(ops.sum(x) * 3.0)
            return y

    layer = Costly()
    y = layer(X)
    expected = [
        3 * X.sum(),
        0.01 * np.abs(y).sum() / 2,
        0.5 * np.sum(layer.inner.kernel.numpy() ** 2),
    ]
    np.testing.assert_allclose(layer.losses, expected, rtol=1e-5)
    layer(X)
    assert len(layer.losses) == 3  # those of the last call only

    def total(x):
        layer(x)
        return sum(layer.losses[1:], layer.losses[0])

    np.testing.assert_allclose(Function(total)(X), sum(expected), rtol=1e-5)
    layer.trainable = False
    layer(X)
    assert len(layer.losses) == 2
    with pytest.raises(ValueError, match="takes scalars"):
        layer.add_loss(X)


def test_state_after_build_is_refused():
    layer = Scale(name="late")
    layer(X)
    with pytest.raises(ValueError, match="'late' is already built"):
        layer.add_weight((2,))
    with pytest.raises(ValueError, match="'late' is already built"):
        layer.other = layers.Dense(2)
    layer.number = 5


def test_errors_name_layer_and_shape():
    layer = layers.Dense(2, name="fc")
    layer(X)
    with pytest.raises(ValueError, match=r"layer 'fc'.*axis -1.*value 3.*shape \(2, 4\)"):
        layer(np.ones((2, 4), "float32"))
    with pytest.raises(ValueError, match=r"layer 'fc2'.*min_ndim=2.*\(3,\)"):
        layers.Dense(2, name="fc2")(np.ones(3, "float32"))
    with pytest.raises(
        ValueError, match=r"Unrecognized keyword arguments passed to Dense: \{'foo'"
    ):
        layers.Dense(2, foo=1)
    with pytest.raises(ValueError, match=r"weight 'fc/kernel' has shape \(3, 2\).*\(3, 3\)"):
        layer.set_weights([np.ones((3, 3)), np.ones(2)])
    with pytest.raises(TypeError, match="'fc': call"):
        layer(X, X, X)

    class Hasty(layers.Layer):
        def __init__(self):
            self.x = 1

        def call(self, x):
            return x

    with pytest.raises(RuntimeError, match=r"Hasty.*super\(\).__init__"):
        Hasty()(X)


def test_unknown_sizes_of_weights():
    with pytest.raises(ValueError, match="'fc3'.*all sizes"):
        layers.Dense(2, name="fc3")(uff.Input((None,)))


def test_inputs_get_the_dtype_of_the_layer():
    layer = Scale(dtype="float64")
    assert layer(X).dtype == "float64"
    assert layers.Identity(autocast=False)(X.astype("float64")).dtype == "float64"


def test_numbers_in_lists_are_a_tensor():
    np.testing.assert_array_equal(layers.Identity()([[1.0, 2.0]]), [[1, 2]])


def test_compute_output_shape():
    assert layers.Conv2D(5, 3).compute_output_shape((None, 8, 8, 2)) == (None, 6, 6, 5)


def test_arguments_are_the_configuration():
    layer = Scale(start=7.0, name="s")
    assert layer.get_config() == {"name": "s", "trainable": True, "dtype": "float32", "start": 7.0}
    copy = Scale.from_config(layer.get_config())
    np.testing.assert_array_equal(copy(X), 7 * X)


def test_constructor_without_kwargs():
    class Bare(layers.Layer):
        def __init__(self, power):
            super().__init__()
            self.p = power + 1  # another attribute, another number

        def call(self, x):
            return x**self.p

    layer = Bare(1)
    layer.trainable = False
    copy = Bare.from_config(layer.get_config())
    assert (copy.p, copy.name, copy.trainable) == (2, layer.name, False)


def test_changed_arguments_are_kept_as_given():
    class Eats(layers.Layer):
        def __init__(self, sizes, **kwargs):
            super().__init__(**kwargs)
            self.last = sizes.pop()

    layer = Eats([1, 2, 3])
    assert layer.get_config()["sizes"] == [1, 2, 3]


def test_nested_objects_in_a_configuration():
    @register_keras_serializable("test")
    class Around(layers.Layer):
        def __init__(self, inner, start, **kwargs):
            super().__init__(**kwargs)
            self.inner = inner

        def call(self, x):
            return self.inner(x)

    layer = Around(layers.Dense(2, activation="tanh"), uff.initializers.Constant(3.0))
    config = serialize_keras_object(layer)
    assert config["registered_name"] == "test>Around"
    copy = deserialize_keras_object(config)
    y = layer(X)
    copy(X)
    copy.set_weights(layer.get_weights())
    np.testing.assert_array_equal(copy(X), y)


def test_own_get_config_adds_to_that_of_the_base():
    class Tall(layers.Dense):
        def __init__(self, height, **kwargs):
            super().__init__(units=2 * height, **kwargs)
            self.height = height

        def get_config(self):
            config = super().get_config()
            del config["units"]
            return {**config, "height": self.height}

    layer = Tall(3, activation="relu", use_bias=False)
    copy = Tall.from_config(layer.get_config())
    assert copy.units == 6
    assert copy.activation is uff.activations.relu
    assert not copy.use_bias

    class Plain(layers.Dense):
        def __init__(self, height, **kwargs):
            super().__init__(units=2 * height, **kwargs)

    assert Plain.from_config(Plain(3, activation="tanh").get_config()).units == 6


def test_files_import_nothing():
    for config in (
        {"module": "os", "class_name": "system", "config": {}, "registered_name": None},
        {"module": "keras.layers", "class_name": "auto_config", "config": {}},
        {"module": "keras.layers", "class_name": "np", "config": {}},
        {"module": "uniflexflow.saving", "class_name": "keras_module", "config": {}},
        {"module": "builtins", "class_name": "function", "config": "eval"},
        {"module": "builtins", "class_name": "__lambda__", "config": {"code": "x"}},
    ):
        with pytest.raises(ValueError, match="not known|not run"):
            deserialize_keras_object(config)
    with pytest.raises(ValueError, match="lambda"):
        serialize_keras_object(layers.Dense(2, activation=lambda x: x))


def test_custom_functions_by_name():
    def double(x):
        return x * 2.0

    config = serialize_keras_object(layers.Activation(double))
    with pytest.raises(ValueError, match="'double' is not known"):
        deserialize_keras_object(config)
    with CustomObjectScope({"double": double}):
        np.testing.assert_array_equal(deserialize_keras_object(config)(X), 2 * X)
        np.testing.assert_array_equal(layers.Activation("double")(X), 2 * X)


def test_unhonoured_arguments_raise():
    for make in (
        lambda: layers.Conv2D(2, 3, data_format="channels_first"),
        lambda: layers.UpSampling2D(interpolation="bilinear"),
        lambda: layers.BatchNormalization(renorm=True),
        lambda: layers.LSTM(2, use_cudnn=True),
        lambda: layers.MultiHeadAttention(2, 2, dropout=0.1, flash_attention=True),
        lambda: layers.MultiHeadAttention(2, 2, sliding_window=3),
        lambda: uff.Input((2,), sparse=True),
    ):
        with pytest.raises(ValueError, match="not supported|can't be honoured"):
            make()


def test_upsampling_takes_two_sizes():
    with pytest.raises(ValueError, match=r"one integer or two; received \(2, 2, 2\)"):
        layers.UpSampling2D((2, 2, 2))


def test_an_input_may_be_given_its_placeholder():
    placeholder = uff.KerasTensor((None, 2), "float64")
    assert uff.Input(tensor=placeholder) is placeholder
    assert uff.Model(placeholder, layers.Dense(3)(placeholder)).output_shape == (None, 3)


def test_a_replaced_layer_is_called_on_arrays_too():
    class Stack(uff.Model):
        def __init__(self):
            super().__init__()
            self.blocks = [layers.Dense(2)]

        def call(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    model = Stack()
    for _ in range(10):
        out = model(X)
        np.testing.assert_array_equal(out, model.blocks[0](X))
        model.blocks[0] = layers.Dense(2)
