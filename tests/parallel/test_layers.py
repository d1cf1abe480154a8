"""Whole training steps of models made of layers, on any number of ranks.

Each step must train the same as on one rank, and must not gather what the ranks have of
the batch: only sums travel.
"""

import numpy as np
import pytest
from ranks import error, train

import uniflexflow as uff
from uniflexflow import layers
from uniflexflow.compiler import Traced
from uniflexflow.ir import TensorSpec
from uniflexflow.parallel import DataParallel, Split
from uniflexflow.parallel.distribute import local_graph
from uniflexflow.passes import AFTER_SHARDING, BEFORE_SHARDING, FUSION

IMAGES, SERIES, WORDS, ROWS = (8, 8, 2), (6, 3), "words", (5,)

MODELS = {
    "dense": (ROWS, lambda: [layers.Dense(8, "tanh"), layers.Dense(3)]),
    # a bias before it would have a gradient of nothing but rounding, which Adam makes large
    "batch norm": (
        ROWS,
        lambda: [layers.Dense(8, use_bias=False), layers.BatchNormalization(), layers.Dense(3)],
    ),
    "dropout": (ROWS, lambda: [layers.Dense(8), layers.Dropout(0.4), layers.Dense(3)]),
    "noise": (ROWS, lambda: [layers.GaussianNoise(0.3), layers.Dense(3)]),
    "norms": (
        ROWS,
        lambda: [layers.LayerNormalization(), layers.Dense(8), layers.UnitNormalization()],
    ),
    "convolution": (
        IMAGES,
        lambda: [
            layers.Conv2D(4, 3, strides=2, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.DepthwiseConv2D(3),
            layers.Flatten(),
            layers.Dense(3),
        ],
    ),
    "pooling": (
        IMAGES,
        lambda: [
            layers.ZeroPadding2D(1),
            layers.MaxPooling2D(2),
            layers.AveragePooling2D(2),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3),
        ],
    ),
    "transposed": (
        IMAGES,
        lambda: [layers.Conv2DTranspose(2, 3, strides=2), layers.Flatten(), layers.Dense(3)],
    ),
    "embedding": (WORDS, lambda: [layers.Embedding(11, 4), layers.Flatten(), layers.Dense(3)]),
    "lstm": (SERIES, lambda: [layers.LSTM(4, return_sequences=True), layers.LSTM(3)]),
    "gru": (SERIES, lambda: [layers.Bidirectional(layers.GRU(4)), layers.Dense(3)]),
    "time distributed": (
        SERIES,
        lambda: [layers.TimeDistributed(layers.Dense(4)), layers.Flatten(), layers.Dense(3)],
    ),
    "conv1d": (
        SERIES,
        lambda: [layers.Conv1D(4, 3, padding="causal"), layers.GlobalMaxPooling1D()],
    ),
}


def attention():
    inputs = layers.Input(SERIES)
    x = layers.Dense(4)(inputs)
    x = layers.MultiHeadAttention(2, 3, dropout=0.2)(x, x, use_causal_mask=True) + x
    outputs = layers.Dense(3)(layers.GlobalAveragePooling1D()(x))
    return uff.models.Model(inputs, outputs)


NAMES = [*MODELS, "attention"]


@pytest.fixture(autouse=True)
def float64():
    uff.config.set_floatx("float64")
    yield
    uff.config.set_floatx("float32")


def made(name):
    """Return a compiled model and three batches: uneven, and one with fewer rows than ranks."""
    uff.utils.set_random_seed(3)
    form = SERIES if name == "attention" else MODELS[name][0]
    if name == "attention":
        model = attention()
    else:
        first = layers.Input((6,), dtype="int32") if form is WORDS else layers.Input(form)
        model = uff.models.Sequential([first, *MODELS[name][1]()])
    model.compile(
        optimizer=uff.optimizers.Adam(0.02, global_clipnorm=1.0),
        loss=uff.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy", "sparse_top_k_categorical_accuracy"],
    )
    rng = np.random.default_rng(4)
    batches = []
    for n in (7, 7, 2):
        x = rng.integers(0, 11, size=(n, 6)).astype("int32")
        if form is not WORDS:
            x = rng.normal(size=(n, *form))
        batches.append([x, rng.integers(0, 3, size=n).astype("int64"), rng.uniform(0.5, 2, size=n)])
    return model, batches


def step_of(model):
    def step(*data):
        logs = model.train_step(data)
        return [logs[name] for name in sorted(logs)]

    return step


def results(name, size):
    model, batches = made(name)
    variables, outputs = train(lambda: (None, step_of(model)), batches, size)
    return [*variables, *[x for step in outputs for x in step]]


@pytest.mark.parametrize("name", NAMES)
def test_same_training_on_any_number_of_ranks(name):
    expected = results(name, 1)
    for size in (2, 3):
        assert error(results(name, size), expected) <= 1e-11


@pytest.mark.parametrize("name", NAMES)
def test_only_sums_travel(name):
    model, batches = made(name)
    specs = tuple(TensorSpec(x.shape, x.dtype.name) for x in batches[0])
    traced = Traced(step_of(model), specs, "train")
    graph = traced.graph
    for run_pass in BEFORE_SHARDING:
        graph = run_pass(graph)
    mesh = DataParallel().mesh_for(3)
    for rank in range(3):
        local, _ = local_graph(graph, traced.split, DataParallel(), mesh, rank)
        for run_pass in (*AFTER_SHARDING, *FUSION):
            local = run_pass(local)
        gathered = [
            f"{n.inputs[0]!r} in {n.scope}"
            for n in local.nodes
            if n.op.name == "reshard" and isinstance(n.attrs["source"], Split)
        ]
        assert not gathered


@pytest.mark.parametrize("name", NAMES)
def test_each_gradient_travels_once(name):
    model, batches = made(name)
    specs = tuple(TensorSpec(x.shape, x.dtype.name) for x in batches[0])
    traced = Traced(step_of(model), specs, "train")
    local, _ = local_graph(
        traced.graph, traced.split, DataParallel(), DataParallel().mesh_for(3), 0
    )
    sent = sum(n.outputs[0].size for n in local.nodes if n.op.name == "reshard")
    weights = sum(w.size for w in model.trainable_weights)
    statistics = 6 * sum(w.size for w in model.non_trainable_weights)  # of batch normalisation
    scalars = 16
    assert weights <= sent <= weights + statistics + scalars
