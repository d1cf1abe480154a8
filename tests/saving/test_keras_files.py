"""Keras reads our files, and we read Keras's: the same weights, outputs and slots."""

import numpy as np
import pytest
from keras_oracle import needs_keras, run_keras

import uniflexflow as uff

# Models in words that both libraries know; `k` is one of them.
MODELS = """
def sequential(k):
    L = k.layers
    return k.Sequential([
        k.Input((8, 8, 2)),
        L.Conv2D(4, 3, padding="same", activation="relu"),
        L.BatchNormalization(),
        L.MaxPooling2D(),
        L.Dropout(0.3),
        L.Flatten(),
        L.Dense(5, activation="softmax"),
    ])

def functional(k):
    L = k.layers
    a = k.Input((4,), name="a")
    b = k.Input((4,), name="b")
    shared = L.Dense(4, name="shared")
    short = L.Dense(4, name="short")(a)
    long = shared(L.Dense(4, activation="tanh")(shared(b)))
    x = L.Concatenate()([L.Add()([short, long]), L.LayerNormalization()(a)])
    return k.Model([a, b], L.Dense(2)(x))

def nested(k):
    L = k.layers
    inner_in = k.Input((6,))
    inner = k.Model(inner_in, L.Dense(6, activation="relu")(inner_in))
    x = k.Input((6,))
    y = inner(x)
    y = k.Sequential([k.Input((6,)), L.Dense(3), L.Dense(4)])(y)
    return k.Model(x, y)

def recurrent(k):
    L = k.layers
    return k.Sequential([
        k.Input((5, 3)),
        L.Bidirectional(L.LSTM(4, return_sequences=True)),
        L.GRU(3, return_sequences=True),
        L.TimeDistributed(L.Dense(2)),
        L.SimpleRNN(2),
    ])

def attention(k):
    L = k.layers
    x = k.Input((5, 6))
    y = L.MultiHeadAttention(num_heads=2, key_dim=3)(x, x)
    return k.Model(x, L.LayerNormalization()(L.Add()([x, y])))

def mixed(k):
    L, policy = k.layers, k.DTypePolicy("mixed_bfloat16")
    return k.Sequential([
        k.Input((6, 6, 2)),
        L.Conv2D(4, 3, activation="relu", dtype="mixed_bfloat16"),
        L.BatchNormalization(dtype=policy),
        L.Flatten(dtype=policy),
        L.Dense(3, dtype="float32"),
    ])

def rounded(k):
    L = k.layers
    x = k.Input((6,))
    y = L.Dense(8, activation="tanh", dtype="bfloat16")(x)
    return k.Model(x, L.Dense(3, dtype="float32")(y))
"""
namespace = {}
exec(MODELS, namespace)
NAMES = ["sequential", "functional", "nested", "recurrent", "attention", "mixed", "rounded"]
# bfloat16 rounds to 2**-9 of a number, three or four times in these models
TOLERANCES = dict.fromkeys(("mixed", "rounded"), 2.0**-7)

KERAS = (
    MODELS
    + """
import os, tempfile
os.makedirs(inputs["theirs"], exist_ok=True)
for name in inputs["names"]:
    keras.utils.set_random_seed(3)
    model = globals()[name](keras)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    xs = inputs["data"][name]
    y = model.predict(xs, verbose=0)
    model.fit(xs, np.ones_like(y), epochs=2, verbose=0)
    model.save(os.path.join(inputs["theirs"], name + ".keras"))
    model.save_weights(os.path.join(inputs["theirs"], name + ".weights.h5"))
    result = {"output": model.predict(xs, verbose=0), "weights": model.get_weights(),
              "slots": [np.array(v) for v in model.optimizer.variables]}
    try:
        loaded = keras.models.load_model(os.path.join(inputs["ours"], name + ".keras"))
        result["ours"] = loaded.predict(xs, verbose=0)
        result["our slots"] = [np.array(v) for v in loaded.optimizer.variables]
        loaded = globals()[name](keras)
        loaded.load_weights(os.path.join(inputs["ours"], name + ".weights.h5"))
        result["our weights"] = loaded.predict(xs, verbose=0)
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"
    outputs[name] = result
"""
)


def data(name):
    model = namespace[name](uff)
    rng = np.random.default_rng(0)
    xs = [rng.normal(size=(6, *x.shape[1:])).astype("float32") for x in model.inputs]
    return xs if len(xs) > 1 else xs[0]


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory):
    """Return what Keras made of our files, where its files are, and what is in ours."""
    ours, theirs = tmp_path_factory.mktemp("ours"), tmp_path_factory.mktemp("theirs")
    expected, inputs = {}, {}
    for name in NAMES:
        uff.random.set_random_seed(1)
        model = namespace[name](uff)
        model.compile(uff.optimizers.Adam(0.02), "mse")
        xs = inputs[name] = data(name)
        y = model.predict(xs, verbose=0)
        model.fit(xs, np.zeros_like(y), epochs=2, verbose=0)
        model.save(ours / f"{name}.keras")
        model.save_weights(ours / f"{name}.weights.h5")
        slots = [v.numpy() for v in model.optimizer.variables]
        expected[name] = (model.predict(xs, verbose=0), slots)
    results = run_keras(KERAS, names=NAMES, data=inputs, ours=str(ours), theirs=str(theirs))
    return results, theirs, expected


@pytest.mark.slow
@needs_keras
@pytest.mark.parametrize("name", NAMES)
def test_keras_reads_our_files(exchanged, name):
    results, _, expected = exchanged
    result, (output, slots) = results[name], expected[name]
    assert "error" not in result, result["error"]
    near = TOLERANCES.get(name, 1e-5)
    np.testing.assert_allclose(result["ours"], output, rtol=near, atol=near)
    np.testing.assert_allclose(result["our weights"], output, rtol=near, atol=near)
    assert len(result["our slots"]) == len(slots)
    for a, b in zip(result["our slots"], slots):  # of bfloat16 weights ours are float32
        np.testing.assert_array_equal(a, b.astype(a.dtype))


@pytest.mark.slow
@needs_keras
@pytest.mark.parametrize("name", NAMES)
def test_we_read_the_files_of_keras(exchanged, name):
    results, theirs, _ = exchanged
    result, xs = results[name], data(name)
    model = uff.saving.load_model(theirs / f"{name}.keras")
    near = TOLERANCES.get(name, 1e-5)
    np.testing.assert_allclose(model.predict(xs, verbose=0), result["output"], rtol=near, atol=near)
    for v, b in zip(model.optimizer.variables, result["slots"], strict=True):
        np.testing.assert_array_equal(v.array, b.astype(v.dtype))
    again = namespace[name](uff)
    again.load_weights(theirs / f"{name}.weights.h5")
    for a, b in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(again.get_weights(), result["weights"], strict=True):
        assert a.dtype == b.dtype
    policies = [layer.dtype_policy.name for layer in model.layers]
    assert policies == [layer.dtype_policy.name for layer in again.layers]
