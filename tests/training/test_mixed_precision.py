"""Training in mixed precision: what is kept in which dtype, and that the loss is float32's."""

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import layers

#: the relative rounding of one bfloat16 number
ROUNDING = 2.0**-9


@pytest.fixture(autouse=True)
def policy_back():
    yield
    uff.config.set_dtype_policy("float32")


# -- policies ----------------------------------------------------------------------------


def test_a_policy_has_two_dtypes():
    policy = uff.DTypePolicy("mixed_bfloat16")
    assert (policy.name, policy.compute_dtype) == ("mixed_bfloat16", "bfloat16")
    assert policy.variable_dtype == "float32"
    assert uff.DTypePolicy("bfloat16").variable_dtype == "bfloat16"
    assert uff.DTypePolicy().name == "float32"
    assert uff.DTypePolicy.from_config(policy.get_config()) == policy
    assert uff.dtype_policies.get(uff.dtype_policies.serialize(policy)) == policy
    assert policy != uff.DTypePolicy("bfloat16") and len({policy, policy}) == 1


def test_the_default_policy():
    uff.config.set_dtype_policy("mixed_bfloat16")
    assert uff.config.dtype_policy() == uff.DTypePolicy("mixed_bfloat16")
    assert uff.config.floatx() == "float32"
    assert layers.Dense(1).dtype_policy.name == "mixed_bfloat16"
    assert layers.Dense(1, dtype="float32").compute_dtype == "float32"
    uff.mixed_precision.set_global_policy(uff.DTypePolicy("float32"))
    assert uff.mixed_precision.global_policy().name == "float32"


@pytest.mark.parametrize("name", ["float16", "mixed_float16"])
def test_float16_names_what_to_use_instead(name):
    instead = name.replace("float16", "bfloat16")
    for make in (
        lambda: uff.DTypePolicy(name),
        lambda: uff.config.set_dtype_policy(name),
        lambda: layers.Dense(1, dtype=name),
    ):
        with pytest.raises(ValueError, match=f"'{name}' is not supported.*'{instead}'"):
            make()
    with pytest.raises(ValueError, match="'float16'.*'mixed_bfloat16'"):
        uff.config.set_floatx("float16")
    with pytest.raises(AttributeError, match="need no scaling with bfloat16"):
        _ = uff.mixed_precision.LossScaleOptimizer


def test_wrong_policies():
    with pytest.raises(ValueError, match="'int4_from_float32' is not supported"):
        uff.DTypePolicy("int4_from_float32")
    with pytest.raises(TypeError, match="must be a string"):
        uff.DTypePolicy(3)
    with pytest.raises(ValueError, match="set_dtype_policy: expected a name"):
        uff.config.set_dtype_policy(3)
    with pytest.raises(ValueError, match="not supported"):
        uff.dtype_policies.get({"class_name": "QuantizedDTypePolicy", "config": {"name": "x"}})


# -- layers ------------------------------------------------------------------------------


class Reads(layers.Layer):
    """Notes the dtypes in which weights are read."""

    def build(self, input_shape):
        self.kernel = self.add_weight((input_shape[-1],), "ones")
        self.exact = self.add_weight((input_shape[-1],), "ones", autocast=False)
        self.inner = layers.Dense(2, dtype="float32")
        self.inner.build(input_shape)

    def call(self, x):
        self.seen = (x.dtype, self.kernel.value.dtype, self.exact.value.dtype)
        self.of_inner = self.inner(x).dtype
        self.afterwards = self.kernel.value.dtype
        return x * self.kernel


def test_weights_and_inputs_are_cast_when_a_layer_is_called():
    layer = Reads(dtype="mixed_bfloat16")
    x = np.ones((2, 3), "float32")
    y = layer(x)
    assert y.dtype == "bfloat16"
    assert layer.seen == ("bfloat16", "bfloat16", "float32")
    assert layer.of_inner == "float32"  # its own policy
    assert layer.afterwards == "bfloat16"
    assert layer.kernel.dtype == layer.kernel.numpy().dtype == "float32"
    plain = Reads()
    assert plain(x).dtype == "float32" and plain.seen == ("float32",) * 3


def test_whole_numbers_are_not_cast():
    table = layers.Embedding(1000, 4, dtype="mixed_bfloat16")
    model = uff.Sequential([uff.Input((1,)), table])  # indices come as float32
    y = model(np.float32([[999.0], [257.0]]))
    expected = table.embeddings.numpy()[[999, 257]][:, None].astype("bfloat16")
    np.testing.assert_array_equal(y, expected)
    deferred = uff.Sequential([layers.Embedding(1000, 4, dtype="mixed_bfloat16")])
    deferred(np.float32([[999.0]]))
    assert deferred.inputs[0].dtype == "float32"


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: layers.BatchNormalization(**k),
        lambda **k: layers.LayerNormalization(**k),
        lambda **k: layers.GroupNormalization(2, **k),
        lambda **k: layers.RMSNormalization(**k),
    ],
    ids=["batch", "layer", "group", "rms"],
)
def test_statistics_are_float32(make):
    """Features far from 0: statistics in bfloat16 would be those of the roundings."""
    x = (np.random.default_rng(0).normal(size=(64, 8)) + 30).astype("bfloat16")
    mixed, single = make(dtype="mixed_bfloat16"), make()
    y, exact = mixed(x, training=True), single(x.astype("float32"), training=True)
    assert y.dtype == "bfloat16"
    np.testing.assert_array_equal(y, exact.astype("bfloat16"))
    for a, b in zip(mixed.weights, single.weights, strict=True):
        assert a.dtype == "float32"
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_data_are_normalized_before_they_are_rounded():
    x = np.float32([[1000.25], [1000.5], [1001.0]])
    for layer in (
        layers.Normalization(mean=1000.0, variance=1.0, dtype="mixed_bfloat16"),
        layers.Rescaling(1.0, -1000.0, dtype="mixed_bfloat16"),
    ):
        y = layer(x)
        assert y.dtype == "bfloat16"
        np.testing.assert_array_equal(y.astype("float32"), x - 1000)


def test_configurations_keep_the_policy():
    layer = layers.Dense(2, dtype="mixed_bfloat16")
    config = layer.get_config()
    assert config["dtype"] == {
        "module": "keras",
        "class_name": "DTypePolicy",
        "config": {"name": "mixed_bfloat16"},
        "registered_name": None,
    }
    assert layers.Dense.from_config(config).dtype_policy == layer.dtype_policy
    for name in ("bfloat16", "float32"):
        again = layers.Dense.from_config(layers.Dense(2, dtype=name).get_config())
        assert again.dtype_policy.name == name
    around = layers.Bidirectional(layers.LSTM(2, dtype="mixed_bfloat16"), dtype="mixed_bfloat16")
    model = uff.Sequential([uff.Input((4, 3)), around, layer])
    copy = uff.models.clone_model(model)
    found = [x.dtype_policy.name for x in (*copy.layers, copy.layers[0].forward_layer.cell)]
    assert found == ["mixed_bfloat16"] * 3


# -- training ----------------------------------------------------------------------------

RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(256, 20)).astype("float32")
CLASSES = (VECTORS @ RNG.normal(size=(20, 5))).argmax(1)
IMAGES = RNG.normal(size=(128, 12, 12, 2)).astype("float32")
QUADRANT = IMAGES.reshape(128, 2, 6, 2, 6, 2).mean((2, 4, 5)).reshape(128, 4).argmax(1)
WORDS = RNG.integers(0, 50, size=(128, 12)).astype("int32")
NEXT = (WORDS * 7 + 3) % 50


def mlp():
    return VECTORS, CLASSES, [layers.Dense(64, activation="relu"), layers.Dense(5)]


def normalized():
    body = [layers.Dense(64, use_bias=False), layers.BatchNormalization(), layers.ReLU()]
    return VECTORS, CLASSES, [*body, layers.Dropout(0.1), layers.Dense(5)]


def convnet():
    body = [
        layers.Conv2D(8, 3, activation="relu", padding="same"),
        layers.MaxPooling2D(),
        layers.Conv2D(16, 3, strides=2),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.Flatten(),
    ]
    return IMAGES, QUADRANT, [*body, layers.Dense(4)]


def lstm():
    return WORDS, NEXT[:, -1], [layers.Embedding(50, 16), layers.LSTM(24), layers.Dense(50)]


class Block(layers.Layer):
    """A transformer's."""

    def build(self, input_shape):
        self.norms = [layers.LayerNormalization() for _ in range(2)]
        self.attention = layers.MultiHeadAttention(2, 16)
        self.wide, self.narrow = layers.Dense(64, activation="gelu"), layers.Dense(32)

    def call(self, x):
        y = self.norms[0](x)
        x = x + self.attention(y, y, use_causal_mask=True)
        return x + self.narrow(self.wide(self.norms[1](x)))


def gpt():
    return WORDS, NEXT, [layers.Embedding(50, 32), Block(), Block(), layers.Dense(50)]


def losses(make, policy, epochs=8, **compile_options):
    uff.config.set_dtype_policy(policy)
    uff.utils.set_random_seed(3)
    x, y, stack = make()
    first = uff.Input(x.shape[1:], dtype=str(x.dtype))
    model = uff.Sequential([first, *stack])
    loss = uff.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(uff.optimizers.Adam(0.01), loss, metrics=["accuracy"], **compile_options)
    history = model.fit(x, y, batch_size=32, epochs=epochs, verbose=0).history
    return model, np.array(history["loss"]), history["accuracy"]


@pytest.mark.parametrize("make", [mlp, normalized, convnet, lstm, gpt])
def test_the_loss_is_that_of_float32(make):
    _, single, accuracy = losses(make, "float32")
    model, mixed, of_mixed = losses(make, "mixed_bfloat16")
    assert all(v.dtype == "float32" for v in model.weights)
    assert all(v.dtype in ("float32", "int64") for v in model.optimizer.variables)
    assert model.outputs[0].dtype == "bfloat16"
    assert single[-1] < 0.9 * single[0]  # it learns
    # Each epoch's loss is a mean over many numbers whose roundings are independent; 4 of them
    # are what the logits of these models are off by at most, relative to the first loss.
    assert np.abs(mixed - single).max() <= 4 * ROUNDING * single[0]
    assert (mixed != single).any()  # something was rounded
    assert of_mixed[-1] == pytest.approx(accuracy[-1], abs=0.05)


def test_weights_in_bfloat16_train():
    """Updates below half a rounding are lost, so only the beginning is as in float32."""
    model, rounded, _ = losses(mlp, "bfloat16")
    _, single, _ = losses(mlp, "float32")
    assert all(v.dtype == "bfloat16" for v in model.weights)
    slots = [v for v in model.optimizer.variables if "momentum" in v.path or "velocity" in v.path]
    assert slots and all(v.dtype == "float32" for v in slots)
    assert np.isfinite(rounded).all() and rounded[-1] < 1.5 * single[-1]


def test_recomputed_activations_change_nothing():
    _, kept, _ = losses(gpt, "mixed_bfloat16", epochs=2)
    with uff.RematScope(mode="full"):
        _, again, _ = losses(gpt, "mixed_bfloat16", epochs=2)
    # values that are made anew may be read unrounded where the kept ones were rounded
    np.testing.assert_allclose(again, kept, rtol=4 * ROUNDING)


def test_training_goes_on_from_a_checkpoint_bit_by_bit(tmp_path):
    for policy in ("mixed_bfloat16", "bfloat16"):
        path = tmp_path / f"{policy}.checkpoint"
        model, _, _ = losses(mlp, policy, epochs=2)
        uff.saving.save_checkpoint(path, model)
        model.fit(VECTORS, CLASSES, batch_size=32, epochs=1, shuffle=False, verbose=0)
        again, _, _ = losses(mlp, policy, epochs=1)
        uff.saving.load_checkpoint(path, again)
        again.fit(VECTORS, CLASSES, batch_size=32, epochs=1, shuffle=False, verbose=0)
        for a, b in zip(model.get_weights(), again.get_weights(), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def test_metrics_read_float32():
    """Class 257 is 256 in bfloat16."""
    model = uff.Sequential([uff.Input((1,)), layers.Identity(dtype="bfloat16")])
    model.compile(loss="mse", metrics=["mae"])
    x = np.float32([[256.0], [257.0]])
    result = model.evaluate(x, x, verbose=0, return_dict=True)
    assert result["mae"] == pytest.approx(0.5)
