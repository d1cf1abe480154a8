"""``uff.remat`` and ``uff.RematScope``: less memory, the same training."""

import pickle

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import layers


def trained(make, dtype="float32", epochs=2):
    """Return what training leaves, and the step's arena."""
    uff.utils.set_random_seed(4)
    uff.config.set_floatx(dtype)
    try:
        model = make()
        rng = np.random.default_rng(0)
        x = rng.normal(size=(96, *model.input_shape[1:])).astype(dtype)
        y = rng.normal(size=(96, *model.output_shape[1:])).astype(dtype)
        model.compile("adam", "mse")
        arena = model.memory_usage(32).activations
        history = model.fit(x, y, batch_size=32, epochs=epochs, verbose=0)
        return arena, [*model.get_weights(), np.array(history.history["loss"])]
    finally:
        uff.config.set_floatx("float32")


def dense(mark=lambda model: model, wrap=lambda unit: unit):
    units = [
        wrap(uff.Sequential([layers.Dense(48, activation="gelu") for _ in range(4)]))
        for _ in range(4)
    ]
    return mark(uff.Sequential([uff.Input((48,)), *units, layers.Dense(1)]))


def convolutional(mark=lambda model: model):
    inputs = x = uff.Input((12, 12, 3))
    for _ in range(6):
        y = layers.Conv2D(8, 3, padding="same", use_bias=False)(x)
        y = layers.ReLU()(layers.BatchNormalization()(y))
        y = layers.Dropout(0.2)(layers.Conv2D(8, 3, padding="same")(y))
        x = layers.Add()([y, x]) if x.shape == y.shape else y
    return mark(uff.Model(inputs, layers.Dense(2)(layers.Flatten()(x))))


def attention(mark=lambda model: model):
    inputs = x = uff.Input((10, 16))
    for _ in range(3):
        y = layers.MultiHeadAttention(2, 8)(layers.LayerNormalization()(x), x)
        x = layers.Add()([x, y])
    return mark(uff.Model(inputs, layers.Dense(1)(x)))


@pytest.mark.parametrize(
    ("make", "dtype", "tolerance"),
    [
        (dense, "float32", 0),
        (attention, "float32", 0),
        (attention, "float64", 0),
        # the copy's sums are fused with other work than the original's: another order
        (convolutional, "float64", 1e-12),
    ],
)
def test_a_model_trains_the_same_in_less_memory(make, dtype, tolerance):
    plain, expected = trained(make, dtype)
    less, got = trained(lambda: make(uff.remat), dtype)
    assert less < 0.8 * plain
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_units_of_layers():
    plain, expected = trained(dense)
    less, got = trained(lambda: dense(wrap=uff.remat))
    assert less < 0.7 * plain
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("options", "marked"),
    [
        ({}, [0, 1, 2]),
        ({"mode": "list_of_layers", "layer_names": ["b", "x"]}, [1]),
        ({"mode": None}, []),
    ],
)
def test_a_scope_marks_the_layers_made_inside(options, marked):
    with uff.RematScope(**options):
        made = [layers.Dense(3, name=n) for n in "abc"]
        model = uff.Sequential(made)
    assert [i for i, layer in enumerate(made) if layer._remat] == marked
    assert model._remat is None
    assert layers.Dense(3)._remat is None


def test_scopes_nest():
    with uff.RematScope():
        with uff.RematScope(None):
            assert layers.Dense(3)._remat is None
        assert layers.Dense(3)._remat is not None


def counted(scope, batch=32):
    """Return how many exponentials a training step of one layer has."""
    with scope:
        layer = layers.Dense(40, activation=uff.ops.sigmoid)
    model = uff.Sequential([uff.Input((8,)), layer, layers.Dense(1)])
    model.compile("sgd", "mse")
    step = model.make_train_function().for_specs(
        tuple(uff.ir.TensorSpec((batch, n), "float32") for n in (8, 1))
    )
    return str(step.traced.graph.nodes).count("sigmoid")


def test_modes_say_what_is_computed_again():
    assert counted(uff.RematScope(None)) == 1
    assert counted(uff.RematScope("full")) == 2
    assert counted(uff.RematScope("activations")) == 2
    assert counted(uff.RematScope("larger_than", 32 * 40 - 1)) == 2
    assert counted(uff.RematScope("larger_than", 32 * 40)) == 1


def test_wrong_arguments():
    with pytest.raises(ValueError, match="RematScope: unknown mode: 'all'"):
        uff.RematScope("all")
    with pytest.raises(ValueError, match="read with mode='list_of_layers' only"):
        uff.RematScope(layer_names=["a"])
    with pytest.raises(TypeError, match="was called on placeholders"):
        uff.remat(uff.ops.exp)(uff.Input((3,)))


def test_a_mark_set_after_a_fit_counts():
    model = dense()
    model.compile("sgd", "mse")
    x, y = np.ones((32, 48), "float32"), np.ones((32, 1), "float32")
    model.fit(x, y, batch_size=32, verbose=0)
    before = model._steps("train").for_specs((x, y)).plan.arena_bytes
    uff.remat(model)
    model.fit(x, y, batch_size=32, verbose=0)
    assert model._steps("train").for_specs((x, y)).plan.arena_bytes < before


def test_copies_are_marked_and_configurations_are_not():
    model = uff.remat(dense())
    assert pickle.loads(pickle.dumps(model))._remat is not None
    assert uff.Sequential.from_config(model.get_config())._remat is None


def test_masks_and_losses_pass():
    def make(wrap=lambda layer: layer):
        return uff.Sequential(
            [
                uff.Input((6,)),
                layers.Embedding(7, 5, mask_zero=True),
                wrap(layers.LSTM(4, return_sequences=True, activity_regularizer="l2")),
                wrap(layers.GRU(3)),
            ]
        )

    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 7, (40, 6)), rng.normal(size=(40, 3)).astype("float32")
    results = []
    for wrap in (lambda layer: layer, uff.remat):
        uff.utils.set_random_seed(1)
        model = make(wrap)
        model.compile("sgd", "mse")
        model.fit(x, y, batch_size=20, epochs=2, verbose=0)
        results.append(model.get_weights())
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
