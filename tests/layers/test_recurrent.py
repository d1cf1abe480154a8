"""Recurrent layers: masks, states, directions, cells."""

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import layers, ops
from uniflexflow.compiler import Function
from uniflexflow.ops.mask import get_mask

MASK = np.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1]], bool)
KINDS = [layers.SimpleRNN, layers.LSTM, layers.GRU]
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def x(rng):
    return rng.normal(size=(2, 5, 3)).astype("float32")


@every_kind
def test_masked_steps_are_left_out(kind, x):
    """A masked sequence ends as the sequence without its masked steps."""
    layer = kind(4)
    y = layer(x, mask=MASK)
    for i in range(2):
        np.testing.assert_allclose(y[i : i + 1], layer(x[i : i + 1, MASK[i]]), rtol=1e-5, atol=1e-6)


@every_kind
def test_masked_outputs_repeat_the_step_before(kind, x):
    y = kind(4, return_sequences=True)(x, mask=MASK)
    np.testing.assert_array_equal(y[0, 2], y[0, 1])
    np.testing.assert_array_equal(y[1, 0], 0)
    layer = kind(4, return_sequences=True)
    layer.zero_output_for_mask = True
    np.testing.assert_array_equal(layer(x, mask=MASK)[0, 2], 0)


@every_kind
def test_backwards(kind, x):
    forwards, backwards = (
        kind(4, return_sequences=True),
        kind(4, return_sequences=True, go_backwards=True),
    )
    y = forwards(x[:, ::-1])
    backwards(x)
    backwards.set_weights(forwards.get_weights())
    np.testing.assert_array_equal(backwards(x), y)


@every_kind
def test_two_halves_with_the_state_between(kind, x):
    layer = kind(4, return_state=True)
    whole, first = layer(x), layer(x[:, :2])
    second = layer(x[:, 2:], initial_state=first[1:])
    for a, b in zip(whole, second):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="initial states"):
        layer(x, initial_state=[first[1]] * 3)


def step_by_step(kind):
    """Return the layer class with a cell of its own, whose steps are written out."""

    class Cell(kind._cell_class):
        def step(self, projected, states, pattern):
            return super().step(projected, states, pattern)

    class Written(kind):
        _cell_class = Cell

    return Written


OPTIONS = {
    "last": {},
    "sequences": {"return_sequences": True},
    "state": {"return_sequences": True, "return_state": True},
    "backwards": {"return_sequences": True, "return_state": True, "go_backwards": True},
    "last backwards": {"go_backwards": True},
    "no bias": {"use_bias": False, "return_sequences": True},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("mask", ["none", "repeat", "zero"])
@pytest.mark.parametrize("start", [False, True], ids=["from zero", "from a state"])
@every_kind
def test_whole_sequences_are_steps_one_after_another(kind, start, mask, options, x):
    """Outputs, states and gradients of the one operation are those of single steps."""
    x = x.astype("float64")
    one, other = (
        kind(4, dtype="float64", **options),
        step_by_step(kind)(4, dtype="float64", **options),
    )
    rng = np.random.default_rng(3)
    states = [rng.normal(size=(2, 4)) for _ in one.state_size] if start else None
    one(x), other(x)
    weights = [rng.normal(size=w.shape) for w in one.weights]
    for layer in (one, other):
        layer.set_weights(weights)
        layer.zero_output_for_mask = mask == "zero"
    mask = None if mask == "none" else MASK

    def results(layer):
        def fn(x, states):
            out = layer(x, initial_state=states, mask=mask)
            outs = out if isinstance(out, list) else [out]
            loss = sum(ops.sum(ops.sin(y) * (k + 1)) for k, y in enumerate(outs))
            sources = [x, *(states or []), *[w.value for w in layer.trainable_weights]]
            return [*outs, *uff.gradients(loss, sources)]

        step, feeds = Function(fn).step(x, states)
        names = {node.op.name for node in step.graph.nodes}
        return step.run(feeds), names

    (got, names), (expected, written) = results(one), results(other)
    own = {"lstm", "gru", "simple_rnn"}
    assert len(own & names) == 1 and not own & written
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def test_a_cell_with_a_first_state_of_its_own(x):
    """Before the first step that counts the output is zero, the state what it began with."""

    class Ones(layers.LSTMCell):
        def get_initial_state(self, batch_size):
            return [ops.ones((batch_size, 4)), ops.ones((batch_size, 4))]

    mask = np.ones(x.shape[:2], bool)
    mask[:, 0] = False
    out = layers.RNN(Ones(4), return_sequences=True)(x, mask=mask)
    np.testing.assert_array_equal(out[:, 0], 0)
    assert (np.asarray(out[:, 1]) != 0).all()


@pytest.mark.parametrize(
    "options",
    [
        {"activation": "relu"},
        {"recurrent_activation": "hard_sigmoid"},
        {"recurrent_dropout": 0.5},
        {"reset_after": False},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_is_written_out(options, x):
    layer = layers.GRU(3, **options)
    step, _ = Function(lambda x: layer(x, training=True)).step(x)
    assert "gru" not in {node.op.name for node in step.graph.nodes}


def test_a_long_sequence_is_few_nodes():
    model = uff.Sequential([uff.Input((1000, 3)), layers.LSTM(4), layers.Dense(1)])
    model.compile("adam", "mse")
    x, y = np.zeros((2, 1000, 3), "float32"), np.zeros((2, 1), "float32")
    step, _ = model.make_train_function()._function.step((x, y))
    assert len(step.graph.nodes) < 200


@every_kind
def test_stateful(kind, x):
    layer, plain = kind(4, stateful=True), kind(4)
    layer(x[:, :2])
    plain(x)
    layer.set_weights(plain.get_weights())
    layer.reset_state()
    layer(x[:, :2])
    np.testing.assert_allclose(layer(x[:, 2:]), plain(x), rtol=1e-5, atol=1e-6)
    assert len(layer.weights) == 3  # states are no weights
    assert len(layer.variables) == len(plain.variables) + (2 if kind is layers.LSTM else 1)
    layer.reset_state()
    np.testing.assert_allclose(layer(x), plain(x), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"axis 0.*value 2.*\(1, 5, 3\)"):
        layer(x[:1])
    with pytest.raises(ValueError, match="fixed batch size"):
        kind(4, stateful=True)(uff.Input((5, 3)))


def test_forget_bias_starts_at_one(x):
    layer = layers.LSTM(2, bias_initializer="ones", unit_forget_bias=False)
    layer(x)
    np.testing.assert_array_equal(layer.cell.bias.numpy(), np.ones(8))
    layer = layers.LSTM(2)
    layer(x)
    np.testing.assert_array_equal(layer.cell.bias.numpy(), [0, 0, 1, 1, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("cell", "layer"),
    [
        (layers.SimpleRNNCell, layers.SimpleRNN),
        (layers.LSTMCell, layers.LSTM),
        (layers.GRUCell, layers.GRU),
    ],
)
def test_cells_make_the_layers(cell, layer, x):
    one, other = layers.RNN(cell(4), return_sequences=True), layer(4, return_sequences=True)
    y = one(x)
    other(x)
    other.set_weights(one.get_weights())
    np.testing.assert_array_equal(other(x), y)
    # called step by step
    c = one.cell
    states = c.get_initial_state(batch_size=2)
    for t in range(5):
        out, states = c(x[:, t], states)
        np.testing.assert_allclose(out, y[:, t], rtol=1e-5, atol=1e-6)


def test_stacked_cells_are_stacked_layers(x):
    stack = layers.RNN(layers.StackedRNNCells([layers.LSTMCell(3), layers.GRUCell(4)]))
    first, second = layers.LSTM(3, return_sequences=True), layers.GRU(4)
    y = stack(x)
    second(first(x))
    first.set_weights(stack.get_weights()[:3])
    second.set_weights(stack.get_weights()[3:])
    np.testing.assert_allclose(second(first(x)), y, rtol=1e-5, atol=1e-6)


def test_own_cell(x):
    class Sum(layers.Layer):
        state_size = 3

        def call(self, inputs, states):
            out = inputs + states[0]
            return out, [out]

    np.testing.assert_allclose(layers.RNN(Sum())(x), x.sum(1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rate", ["dropout", "recurrent_dropout"])
@every_kind
def test_dropout_uses_one_pattern_for_all_steps(kind, rate):
    layer = kind(3, **{rate: 0.5}, return_sequences=True, seed=1)
    x = np.ones((4, 6, 8), "float32")
    quiet = layer(x)
    np.testing.assert_array_equal(quiet, layer(x, training=False))
    loud = layer(x, training=True)
    assert not np.allclose(loud, quiet)
    assert not np.allclose(loud, layer(x, training=True))


def test_bidirectional_modes(x):
    forward, backward = layers.GRU(3), layers.GRU(3, go_backwards=True)
    results = {}
    a, b = forward(x), backward(x)
    for mode in ("concat", "sum", "mul", "ave", None):
        layer = layers.Bidirectional(
            layers.GRU(3), mode, weights=[*forward.get_weights(), *backward.get_weights()]
        )
        results[mode] = layer(x)
    np.testing.assert_array_equal(results["concat"], np.concatenate([a, b], -1))
    np.testing.assert_allclose(results["sum"], a + b)
    np.testing.assert_allclose(results["mul"], a * b)
    np.testing.assert_allclose(results["ave"], (a + b) / 2)
    np.testing.assert_array_equal(results[None][1], b)
    with pytest.raises(ValueError, match="merge_mode"):
        layers.Bidirectional(layers.GRU(3), "max")
    with pytest.raises(ValueError, match="go_backwards"):
        layers.Bidirectional(layers.GRU(3), backward_layer=layers.GRU(3))


def test_masks_travel_from_embedding_to_lstm():
    ids = np.array([[1, 2, 3, 0, 0], [4, 0, 0, 0, 0]], "int32")
    embedding, lstm = layers.Embedding(5, 3, mask_zero=True), layers.LSTM(2)
    model = uff.Sequential([embedding, layers.Dropout(0.5), layers.Dense(3), lstm])
    y = model(ids)
    for i, n in enumerate([3, 1]):
        np.testing.assert_allclose(model(ids[i : i + 1, :n])[0], y[i], rtol=1e-5, atol=1e-6)
    inputs = uff.Input((None,), dtype="int32")
    functional = uff.Model(inputs, lstm(model.layers[2](embedding(inputs))))
    np.testing.assert_allclose(functional(ids), y, rtol=1e-5, atol=1e-6)


def test_output_masks():
    seen = {}

    class Look(layers.Layer):
        def compute_mask(self, inputs, previous_mask):
            return previous_mask

        def call(self, x, mask=None):
            seen["mask"] = mask
            return x

    ids = np.array([[1, 0]], "int32")
    for middle, has in (
        (layers.LSTM(2, return_sequences=True), True),
        (layers.Bidirectional(layers.GRU(2, return_sequences=True)), True),
        (layers.TimeDistributed(layers.Dense(2)), True),
        (layers.LSTM(2), False),
        (layers.GlobalAveragePooling1D(), False),
    ):
        uff.Sequential([layers.Embedding(3, 2, mask_zero=True), middle, Look()])(ids)
        assert (seen["mask"] is not None) == has, middle.name


def test_a_layer_that_loses_the_mask_says_so():
    model = uff.Sequential([layers.Embedding(3, 2, mask_zero=True), layers.Flatten(name="flat")])
    with pytest.warns(UserWarning, match="'flat'.*destroy the mask"):
        model(np.array([[1, 0]], "int32"))


def test_masking_layer(x):
    x[0, 1] = 0
    layer = uff.Sequential([layers.Masking(), layers.SimpleRNN(2)])
    y = layer(x)
    np.testing.assert_allclose(layer(np.delete(x[:1], 1, axis=1)), y[:1], rtol=1e-5, atol=1e-6)
    assert get_mask(x) is None


def test_average_pooling_counts_real_steps(x):
    y = layers.GlobalAveragePooling1D()(x, mask=MASK)
    np.testing.assert_allclose(y[0], x[0, MASK[0]].mean(0), rtol=1e-5, atol=1e-6)
