"""One battery for all layers, over the rows of ``layer_cases``."""

import inspect

import numpy as np
import pytest
from layer_cases import CASES, NO_ROW, NOT_IN_FULL

import uniflexflow as uff
from uniflexflow import layers, ops, tree
from uniflexflow.compiler import Function
from uniflexflow.layers.auto_config import constructor_names
from uniflexflow.saving import deserialize_keras_object, serialize_keras_object

IDS = [c.name for c in CASES]
every_case = pytest.mark.parametrize("case", CASES, ids=IDS)
with_weights = pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.num_weights and not c.note == "weights"],
    ids=[c.name for c in CASES if c.num_weights and not c.note == "weights"],
)
with_arguments = pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.full is not None],
    ids=[c.name for c in CASES if c.full is not None],
)


def fresh(case, kwargs=None, **more):
    """Make the row's layer; layers among its arguments are copied."""
    kwargs = dict(case.kwargs if kwargs is None else kwargs)

    def copy(x):
        # a layer that one test has built must not serve another
        if isinstance(x, layers.Layer):
            config = x.get_config()
            if "dtype" in more:
                config = with_dtype(config, more["dtype"])
            return type(x).from_config(config)
        return x

    for name in ("layer", "cell", "backward_layer"):
        if name in kwargs:
            kwargs[name] = tree.map_structure(copy, kwargs[name])
    return case.layer(**kwargs, **more)


def with_dtype(config, dtype):
    """Return a configuration with the dtype of each layer in it replaced."""
    if isinstance(config, dict):
        return {k: dtype if k == "dtype" else with_dtype(v, dtype) for k, v in config.items()}
    if isinstance(config, list):
        return [with_dtype(v, dtype) for v in config]
    return config


def make_inputs(case, rng, dtype="float32", shapes=None):
    """Return the row's inputs; values are away from each other, so from kinks too."""
    out = []
    for shape in shapes or case.shapes:
        if case.integers:
            out.append(rng.integers(0, case.integers, shape).astype("int32"))
        else:
            n = int(np.prod(shape))
            values = (rng.permutation(n) - n / 2 + 0.5) * (3.0 / n)
            out.append(values.reshape(shape).astype(dtype))
    return out


def apply(case, layer, inputs, **kwargs):
    """Call the layer as the row says."""
    kwargs = {**case.call, **kwargs}
    return layer(list(inputs), **kwargs) if case.as_list else layer(*inputs, **kwargs)


def outputs_of(y):
    return list(y) if isinstance(y, (list, tuple)) else [y]


def expected_shapes(case):
    return case.output if isinstance(case.output, list) else [case.output]


# -- every layer has a row ---------------------------------------------------------------


def test_every_layer_has_a_row():
    public = {
        name
        for name in layers.__all__
        if inspect.isclass(getattr(layers, name)) and getattr(layers, name).__name__ == name
    }
    covered = {c.layer.__name__ for c in CASES} | set(NO_ROW)
    assert public - covered == set()
    assert set(NO_ROW) <= public


def test_every_argument_is_in_a_full_row():
    missing = {}
    for layer in {c.layer for c in CASES}:
        given = set()
        for case in CASES:
            if case.layer is layer:
                given |= set(case.full or ()) | set(NOT_IN_FULL)
        hidden = set(layer._not_in_config) | {"activity_regularizer"}
        left = set(constructor_names(layer)) - given - hidden
        if left:
            missing[layer.__name__] = left
    assert missing == {}


@with_arguments
def test_full_rows_have_no_default(case):
    defaults = {}
    for cls in reversed(case.layer.__mro__[:-1]):
        for p in inspect.signature(cls.__init__).parameters.values():
            defaults[p.name] = p.default
    for name, value in case.full.items():
        if name in NOT_IN_FULL:
            continue
        assert value is not defaults[name] and value != defaults[name], name


# -- shapes and weights ------------------------------------------------------------------


@every_case
def test_shapes_and_weights(case, rng):
    layer = fresh(case)
    y = outputs_of(apply(case, layer, make_inputs(case, rng)))
    assert [x.shape for x in y] == [tuple(s) for s in expected_shapes(case)]
    assert len(layer.weights) == case.num_weights
    assert layer.built
    assert len({v.path for v in layer.weights}) == case.num_weights
    assert all(v.path.startswith(layer.name + "/") for v in layer.weights)


@every_case
def test_unknown_batch(case):
    layer = fresh(case)
    dtype = "int32" if case.integers else "float32"
    inputs = [uff.Input(shape[1:], dtype=dtype) for shape in case.shapes]
    y = outputs_of(apply(case, layer, inputs))
    assert [x.shape for x in y] == [(None, *s[1:]) for s in expected_shapes(case)]
    assert len(layer.weights) == case.num_weights


@every_case
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype(case, dtype, rng):
    layer = fresh(case, dtype=dtype)
    inputs = make_inputs(case, rng, "float64")
    y = outputs_of(apply(case, layer, inputs))
    assert {x.dtype.name for x in y} == {dtype}
    floats = [v for v in layer.weights if v.dtype != "int64"]
    assert {v.dtype for v in floats} <= {dtype}
    if dtype == "float64":
        single = fresh(case, dtype="float32")
        apply(case, single, inputs)
        single.set_weights(layer.get_weights())
        for a, b in zip(outputs_of(apply(case, single, inputs)), y):
            np.testing.assert_allclose(a, b, rtol=3e-5, atol=3e-6)


@every_case
def test_rejects_unknown_arguments(case):
    with pytest.raises((ValueError, TypeError), match="no_such_argument"):
        fresh(case, no_such_argument=1)


# -- gradients ---------------------------------------------------------------------------


@every_case
def test_gradient(case, rng):
    """The derivative along a random direction, by central differences in float64."""
    layer = fresh(case, dtype="float64")
    inputs = make_inputs(case, rng, "float64")
    training = case.training
    y = outputs_of(apply(case, layer, inputs, training=training))
    for v in layer.weights:
        if v.dtype == "float64":
            v.array[...] += rng.uniform(0.05, 0.3, v.shape)
    factors = [rng.normal(size=x.shape) for x in y]

    def forward(inputs, factors):
        out = outputs_of(apply(case, layer, inputs, training=training))
        total = 0.0
        for x, r in zip(out, factors):
            total = total + ops.sum(x * r)
        return total

    def with_gradients(inputs, factors):
        total = forward(inputs, factors)
        sources = [*([] if case.integers else inputs), *layer.trainable_weights]
        grads = uff.gradients(total, sources)
        return total, [
            g if g is not None else ops.zeros(s.shape, "float64") for g, s in zip(grads, sources)
        ]

    _, grads = Function(with_gradients)(inputs, factors)
    weights = layer.trainable_weights
    directions = [rng.normal(size=g.shape) for g in grads]
    analytic = sum(float(np.sum(g * d)) for g, d in zip(grads, directions))
    run, eps = Function(forward), 1e-6
    state = [v.numpy() for v in layer.non_trainable_weights]
    start = [v.numpy() for v in weights]
    values = []
    for sign in (1, -1):
        moved = inputs
        if not case.integers:
            moved = [x + sign * eps * d for x, d in zip(inputs, directions)]
        rest = directions if case.integers else directions[len(inputs) :]
        for v, w, d in zip(weights, start, rest):
            v.array[...] = w + sign * eps * d
        for v, s in zip(layer.non_trainable_weights, state):
            v.array[...] = s
        values.append(float(run(moved, factors)))
    numeric = (values[0] - values[1]) / (2 * eps)
    assert analytic == pytest.approx(numeric, rel=2e-6, abs=2e-7)
    if grads and case.layer is not layers.Masking:
        assert any(np.any(g) for g in grads)


@every_case
def test_gradient_in_mixed_precision(case, rng):
    """That of float32 up to roundings, also where what is read was rounded just before."""
    single, mixed = fresh(case, dtype="float32"), fresh(case, dtype="mixed_bfloat16")
    inputs = make_inputs(case, rng)
    if not case.integers:
        inputs = [x.astype("bfloat16").astype("float32") for x in inputs]
    y = outputs_of(apply(case, single, inputs, training=case.training))
    apply(case, mixed, inputs, training=case.training)
    mixed.set_weights([w.numpy() for w in single.weights])
    factors = [rng.normal(size=x.shape).astype("float32") for x in y]

    def gradients(layer):
        dtype = layer.compute_dtype

        def step(inputs, factors):
            made = inputs
            if not case.integers:
                made = [ops.cast(ops.cast(x, dtype) * 1.0625, dtype) for x in inputs]
            total = 0.0
            for out, r in zip(
                outputs_of(apply(case, layer, made, training=case.training)), factors
            ):
                total += ops.sum(ops.cast(out, "float32") * r)
            sources = [*([] if case.integers else inputs), *layer.trainable_weights]
            grads = uff.gradients(total, sources)
            return [g for g in grads if g is not None]

        return [np.asarray(g, "float64") for g in Function(step)(inputs, factors)]

    for got, want in zip(gradients(mixed), gradients(single), strict=True):
        assert np.linalg.norm(got - want) <= 2.0**-4 * np.linalg.norm(want) + 1e-5


@with_weights
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_step_lowers_the_loss(case, dtype, rng):
    layer = fresh(case, dtype=dtype)
    inputs = make_inputs(case, rng, dtype)
    y = outputs_of(apply(case, layer, inputs, training=True))
    targets = [(x + rng.normal(size=x.shape) * 0.5).astype(dtype) for x in y]

    def loss_of(inputs, targets):
        out = outputs_of(apply(case, layer, inputs, training=True))
        total = 0.0
        for x, t in zip(out, targets):
            total = total + ops.mean(ops.square(x - t))
        return total

    def step(inputs, targets):
        loss = loss_of(inputs, targets)
        weights = layer.trainable_weights
        for v, g in zip(weights, uff.gradients(loss, weights)):
            v.assign(v - g * 0.01)
        return loss

    run = Function(step)
    losses = [float(run(inputs, targets)) for _ in range(3)]
    assert losses[2] < losses[1] < losses[0]


# -- configurations ----------------------------------------------------------------------


def behaviour(case, layer, inputs):
    """Return all that arguments act on: outputs, losses, first weights, their rules."""
    quiet = outputs_of(apply(case, layer, inputs))
    loud = outputs_of(apply(case, layer, inputs, training=True))
    rules = [
        (repr(v.regularizer), repr(v.constraint), v.trainable, v.dtype, v.shape)
        for v in layer.weights
    ]
    losses = [np.asarray(x) for x in layer.losses]
    return quiet, loud, [v.numpy() for v in layer.weights], losses, rules


@with_arguments
def test_configuration_brings_back_every_argument(case, rng):
    layer = fresh(case, case.full, name="given", trainable=False, dtype="float64")
    revived = deserialize_keras_object(serialize_keras_object(layer))
    assert type(revived) is type(layer)
    assert revived.get_config() == layer.get_config()
    assert (revived.name, revived.trainable, revived.dtype) == ("given", False, "float64")

    # equal configurations may lack the same argument: what the layer does must be equal
    layer = fresh(case, case.full)
    revived = deserialize_keras_object(serialize_keras_object(layer))
    inputs = make_inputs(case, rng, shapes=case.full_shapes)
    apply(case, layer, inputs)
    apply(case, revived, inputs)
    if case.layer not in (layers.RNN, layers.Bidirectional, layers.TimeDistributed):
        # all initializers are seeded
        for a, b in zip(layer.get_weights(), revived.get_weights()):
            np.testing.assert_array_equal(a, b)
    revived.set_weights(layer.get_weights())
    for holder in (*layer._state_holders(), *revived._state_holders()):
        _reset(holder)
    one, other = behaviour(case, layer, inputs), behaviour(case, revived, inputs)
    for x, y in zip(tree.flatten(one[:4]), tree.flatten(other[:4])):
        np.testing.assert_array_equal(x, y)
    assert one[4] == other[4]


def _reset(holder):
    for v in holder.variables:
        if hasattr(holder, "seed"):
            v.array[...] = [holder.seed, 0]
        else:
            v.array[...] = 0


@every_case
def test_weights_round_trip(case, rng):
    layer, other = fresh(case), fresh(case)
    inputs = make_inputs(case, rng)
    expected = outputs_of(apply(case, layer, inputs))
    apply(case, other, inputs)
    other.set_weights(layer.get_weights())
    for a, b in zip(outputs_of(apply(case, other, inputs)), expected):
        np.testing.assert_array_equal(a, b)
    if case.num_weights:
        with pytest.raises(ValueError, match=f"layer '{layer.name}'.*expecting"):
            layer.set_weights([])


@every_case
def test_repeats_in_inference(case, rng):
    layer = fresh(case)
    inputs = make_inputs(case, rng)
    first = outputs_of(apply(case, layer, inputs))
    for a, b in zip(first, outputs_of(apply(case, layer, inputs, training=False))):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.random], ids=[c.name for c in CASES if c.random]
)
def test_noise_only_in_training(case, rng):
    layer = fresh(case)
    inputs = make_inputs(case, rng)
    np.testing.assert_array_equal(apply(case, layer, inputs), inputs[0])
    a = apply(case, layer, inputs, training=True)
    b = apply(case, layer, inputs, training=True)
    assert not np.array_equal(a, inputs[0])
    assert not np.array_equal(a, b)
