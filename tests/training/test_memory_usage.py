"""memory_usage tells before a step runs what it will need, within 10 %."""

import json
import subprocess
import sys

import numpy as np
import pytest

import uniflexflow as uff

PROGRAM = """
import json, re
import numpy as np
import uniflexflow as uff


def resident():
    text = open("/proc/self/status").read()
    return int(re.search(r"VmRSS:\\s+(\\d+)", text).group(1)) * 1024


def make(width):
    layers = uff.layers
    model = uff.Sequential([
        uff.Input((32, 32, 8)),
        layers.Conv2D(width, 3, padding="same", activation="relu"),
        layers.BatchNormalization(),
        layers.Conv2D(width, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(2),
        layers.Flatten(),
        layers.Dense(8 * width, activation="relu"),
        layers.Dense(10),
    ])
    model.compile("adam", uff.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


x = np.random.default_rng(0).standard_normal((128, 32, 32, 8), dtype="float32")
y = np.arange(128) % 10
make(2).fit(x[:16], y[:16], batch_size=16, verbose=0)  # code and threads are there now
model = make(32)
usage = model.memory_usage(128)
before = resident()
model.fit(x, y, batch_size=128, verbose=0)
used = resident() - before
# weights and the batch were there before; slots are touched by the first step only
print(json.dumps([used, usage.activations + usage.optimizer]))
"""


def test_told_is_what_is_used():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    used, told = json.loads(done.stdout)
    assert told > 30 << 20, "too small to measure"
    assert abs(used - told) < 0.1 * told, (used, told)


def test_parts_and_table():
    model = uff.Sequential([uff.Input((100,)), uff.layers.Dense(10)])
    model.compile("adam", "mse")
    usage = model.memory_usage(32)
    assert usage.weights == 1010 * 4
    assert usage.optimizer >= 2 * 1010 * 4
    assert usage.batch == 32 * (100 + 10) * 4
    assert usage.total == usage.weights + usage.optimizer + usage.batch + usage.activations
    assert "total" in str(usage) and len(str(usage).splitlines()) == 5
    assert model.memory_usage(64).batch == 2 * usage.batch


def test_what_is_not_known_is_asked_for():
    class Odd(uff.Model):
        def __init__(self):
            super().__init__()
            self.dense = uff.layers.Dense(1)

        def call(self, x):
            return self.dense(x)

    model = Odd()
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="give some rows of data"):
        model.memory_usage(8)
    usage = model.memory_usage(8, np.ones((2, 5), "float32"), np.ones((2, 1), "float32"))
    assert usage.batch == 8 * (5 + 1) * 4


def test_batch_size_must_be_positive():
    model = uff.Sequential([uff.Input((4,)), uff.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="at least 1"):
        model.memory_usage(0)


def attention_model(length, **options):
    """Two layers of attention over ``length`` steps."""
    layers = uff.layers
    inputs = x = uff.Input((length, 32))
    for _ in range(2):
        x = x + layers.MultiHeadAttention(4, 8, **options)(x, x, use_causal_mask=True)
    model = uff.Model(inputs, layers.Dense(1)(x))
    model.compile("sgd", "mse")
    return model


def test_attention_takes_memory_by_its_length_not_by_the_square():
    told = {n: attention_model(n).memory_usage(1).activations for n in (1024, 2048, 4096, 8192)}
    assert told[8192] < 2.2 * told[4096] < 2.2**2 * told[2048] < 2.2**3 * told[1024]
    scores = 4 * 4096 * 4096 * 4
    assert told[4096] < scores / 10
    # the proof can fail: weights that are dropped are in memory
    assert attention_model(4096, dropout=0.1).memory_usage(1).activations > scores


def test_a_sequence_of_4096_trains():
    x = np.random.default_rng(0).normal(size=(1, 4096, 32)).astype("float32")
    y = np.roll(x[..., :1], 1, axis=1)
    history = attention_model(4096).fit(x, y, epochs=2, verbose=0)
    first, second = history.history["loss"]
    assert second < first < 10
