"""The nine workloads: models in the Keras API, and their data.

``build(k, name)`` draws a model with any framework that has Keras's API: ``k`` is the
module ``uniflexflow`` or ``keras``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Workload:
    """What is trained: the data's shapes, the loss and the optimizer."""

    batch: int
    input_shape: tuple[int, ...]
    classes: int  # 0: regression; for sequence models, the vocabulary of the target
    optimizer: str  # "adam" or "momentum"
    vocabulary: int = 0  # > 0: integer inputs
    per_token: bool = False  # a target for each position


WORKLOADS = {
    "tiny": Workload(32, (13,), 0, "adam"),
    "mlp": Workload(128, (784,), 10, "adam"),
    "convnet": Workload(128, (28, 28, 1), 10, "adam"),
    "resnet20": Workload(128, (32, 32, 3), 10, "momentum"),
    "resnet50": Workload(8, (224, 224, 3), 1000, "momentum"),
    "vgg16": Workload(8, (224, 224, 3), 1000, "momentum"),
    "gpt": Workload(16, (128,), 4096, "adam", vocabulary=4096, per_token=True),
    "gpt_124m": Workload(2, (256,), 50257, "adam", vocabulary=50257, per_token=True),
    "lstm": Workload(32, (80,), 2, "adam", vocabulary=20000),
}


def data(name: str, samples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Make random inputs and targets of a workload."""
    w = WORKLOADS[name]
    rng = np.random.default_rng(seed)
    shape = (samples, *w.input_shape)
    if w.vocabulary:
        x = rng.integers(0, w.vocabulary, shape).astype("int32")
    else:
        x = rng.standard_normal(shape, dtype="float32")
    if not w.classes:
        return x, rng.standard_normal((samples, 1), dtype="float32")
    targets = shape if w.per_token else (samples,)
    return x, rng.integers(0, w.classes, targets).astype("int32")


def optimizer(k, name: str):
    """Return the workload's optimizer."""
    if WORKLOADS[name].optimizer == "adam":
        return k.optimizers.Adam(1e-3)
    return k.optimizers.SGD(0.01, momentum=0.9)


def loss(k, name: str):
    """Return the workload's loss, over logits."""
    if not WORKLOADS[name].classes:
        return "mse"
    return k.losses.SparseCategoricalCrossentropy(from_logits=True)


def build(k, name: str):
    """Draw a workload's model in the Keras API of module ``k``."""
    return _BUILDERS[name](k, WORKLOADS[name])


def _tiny(k, w):
    layers = k.layers
    return k.Sequential(
        [
            k.Input(w.input_shape),
            layers.Dense(64, activation="relu"),
            layers.Dense(64, activation="relu"),
            layers.Dense(1),
        ]
    )


def _mlp(k, w):
    layers = k.layers
    return k.Sequential(
        [
            k.Input(w.input_shape),
            layers.Dense(512, activation="relu"),
            layers.Dense(512, activation="relu"),
            layers.Dense(w.classes),
        ]
    )


def _convnet(k, w):
    layers = k.layers
    return k.Sequential(
        [
            k.Input(w.input_shape),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(w.classes),
        ]
    )


def _conv_bn(k, x, filters, size, strides=1, relu=True):
    layers = k.layers
    x = layers.Conv2D(filters, size, strides=strides, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x) if relu else x


def _resnet20(k, w):
    layers = k.layers
    inputs = k.Input(w.input_shape)
    x = _conv_bn(k, inputs, 16, 3)
    for stage, filters in enumerate((16, 32, 64)):
        for block in range(3):
            strides = 2 if stage and not block else 1
            shortcut = x
            if strides > 1:
                shortcut = _conv_bn(k, x, filters, 1, strides, relu=False)
            y = _conv_bn(k, x, filters, 3, strides)
            y = _conv_bn(k, y, filters, 3, relu=False)
            x = layers.ReLU()(layers.Add()([y, shortcut]))
    x = layers.GlobalAveragePooling2D()(x)
    return k.Model(inputs, layers.Dense(w.classes)(x))


def _resnet50(k, w):
    layers = k.layers
    inputs = k.Input(w.input_shape)
    x = _conv_bn(k, inputs, 64, 7, 2)
    x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
    for stage, (filters, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            strides = 2 if stage and not block else 1
            shortcut = x
            if not block:
                shortcut = _conv_bn(k, x, 4 * filters, 1, strides, relu=False)
            y = _conv_bn(k, x, filters, 1)
            y = _conv_bn(k, y, filters, 3, strides)
            y = _conv_bn(k, y, 4 * filters, 1, relu=False)
            x = layers.ReLU()(layers.Add()([y, shortcut]))
    x = layers.GlobalAveragePooling2D()(x)
    return k.Model(inputs, layers.Dense(w.classes)(x))


def _vgg16(k, w):
    layers = k.layers
    inputs = x = k.Input(w.input_shape)
    for filters, convs in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(convs):
            x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(2)(x)
    x = layers.Flatten()(x)
    for _ in range(2):
        x = layers.Dropout(0.5)(layers.Dense(4096, activation="relu")(x))
    return k.Model(inputs, layers.Dense(w.classes)(x))


def _gpt_of(depth: int, width: int, heads: int):
    def make(k, w):
        layers = k.layers

        class Positions(layers.Layer):
            """Adds a learned vector for each position."""

            def build(self, input_shape):
                self.table = self.add_weight(
                    shape=tuple(input_shape[1:]), initializer="uniform", name="table"
                )

            def call(self, x):
                return x + self.table

        inputs = k.Input(w.input_shape, dtype="int32")
        x = Positions()(layers.Embedding(w.vocabulary, width)(inputs))
        for _ in range(depth):
            y = layers.LayerNormalization(epsilon=1e-5)(x)
            y = layers.MultiHeadAttention(heads, width // heads)(y, y, use_causal_mask=True)
            x = layers.Add()([x, y])
            y = layers.LayerNormalization(epsilon=1e-5)(x)
            y = layers.Dense(4 * width, activation="gelu")(y)
            x = layers.Add()([x, layers.Dense(width)(y)])
        x = layers.LayerNormalization(epsilon=1e-5)(x)
        return k.Model(inputs, layers.Dense(w.classes, use_bias=False)(x))

    return make


def _lstm(k, w):
    layers = k.layers
    return k.Sequential(
        [
            k.Input(w.input_shape, dtype="int32"),
            layers.Embedding(w.vocabulary, 128),
            layers.LSTM(128),
            layers.Dense(w.classes),
        ]
    )


_BUILDERS = {
    "tiny": _tiny,
    "mlp": _mlp,
    "convnet": _convnet,
    "resnet20": _resnet20,
    "resnet50": _resnet50,
    "vgg16": _vgg16,
    "gpt": _gpt_of(4, 256, 4),
    "gpt_124m": _gpt_of(12, 768, 12),
    "lstm": _lstm,
}
