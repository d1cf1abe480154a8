"""Each layer against Keras: outputs, gradients and state from the same weights.

The layers go over as configurations, so those are compared too.
"""

import inspect

import numpy as np
import pytest
from keras_oracle import needs_keras, run_keras
from layer_cases import CASES
from test_battery import apply, fresh, make_inputs, outputs_of

import uniflexflow as uff
from uniflexflow import layers, ops
from uniflexflow.compiler import Function
from uniflexflow.saving import serialize_keras_object

COMPARED = [c for c in CASES if c.in_keras]

_SOURCE = """
import jax
import jax.numpy as jnp

def run(case):
    layer = keras.saving.deserialize_keras_object(case["config"])
    xs = [jnp.asarray(x) for x in case["inputs"]]

    def call(f, xs):
        return f(list(xs)) if case["as_list"] else f(*xs)

    shapes = [keras.KerasTensor(x.shape, str(x.dtype)) for x in xs]
    call(lambda *a: layer(*a, **case["call"]), shapes)
    layer.set_weights(case["weights"])
    floats = [i for i, x in enumerate(xs) if x.dtype.kind == "f"]
    tv = [v.value for v in layer.trainable_variables]
    ntv = [v.value for v in layer.non_trainable_variables]
    kwargs = dict(case["call"])
    if case["training"]:
        kwargs["training"] = True

    def total(tv, moved):
        full = list(xs)
        for i, x in zip(floats, moved):
            full[i] = x
        y, new = call(lambda *a: layer.stateless_call(tv, ntv, *a, **kwargs), full)
        ys = list(y) if isinstance(y, (list, tuple)) else [y]
        return sum(jnp.sum(a * r) for a, r in zip(ys, case["factors"])), (ys, new)

    gradient = jax.jit(jax.grad(total, argnums=(0, 1), has_aux=True))
    grads, (ys, new) = gradient(tv, [xs[i] for i in floats])
    return {
        "outputs": [np.asarray(y) for y in ys],
        "weights": [np.asarray(g) for g in grads[0]],
        "inputs": [np.asarray(g) for g in grads[1]],
        "state": [np.asarray(v) for v in new],
        "config": keras.saving.serialize_keras_object(layer)["config"],
    }

for name, case in inputs["cases"].items():
    try:
        outputs[name] = run(case)
    except Exception as error:
        import traceback
        outputs[name] = traceback.format_exc()
"""

_SIGNATURES = """
import inspect
for name in inputs["names"]:
    parameters = inspect.signature(getattr(keras.layers, name).__init__).parameters
    outputs[name] = {
        n: p.default if p.default is not p.empty else "required"
        for n, p in parameters.items()
        if p.kind is not p.VAR_KEYWORD and n != "self"
    }
"""


def _number(case):
    return COMPARED.index(case)


def _ours(case):
    """Return what goes to Keras, and what we get."""
    rng = np.random.default_rng(_number(case))
    layer = fresh(case)
    inputs = make_inputs(case, rng)
    y = outputs_of(apply(case, layer, inputs))
    for v in layer.weights:
        if v.dtype == "float32":
            v.array[...] += rng.uniform(0.05, 0.3, v.shape)
    factors = [rng.normal(size=x.shape).astype("float32") for x in y]
    training = True if case.training else None
    sent = {
        "config": serialize_keras_object(layer),
        "inputs": inputs,
        "weights": layer.get_weights(),
        "factors": factors,
        "call": case.call,
        "as_list": case.as_list,
        "training": case.training,
    }

    def step(inputs, factors):
        out = outputs_of(apply(case, layer, inputs, training=training))
        total = 0.0
        for x, r in zip(out, factors):
            total = total + ops.sum(x * r)
        sources = [*layer.trainable_weights, *([] if case.integers else inputs)]
        grads = uff.gradients(total, sources)
        return out, [
            g if g is not None else ops.zeros(s.shape, "float32") for g, s in zip(grads, sources)
        ]

    out, grads = Function(step)(inputs, factors)
    n = len(layer.trainable_weights)
    state = [v.numpy() for v in layer.non_trainable_weights]
    return sent, {"outputs": out, "weights": grads[:n], "inputs": grads[n:], "state": state}


@pytest.fixture(scope="module")
def both():
    """Run every case here and in one Keras process."""
    sent, ours = {}, {}
    for i, case in enumerate(COMPARED):
        sent[i], ours[i] = _ours(case)
    return ours, run_keras(_SOURCE, timeout=500, cases=sent)


@needs_keras
@pytest.mark.parametrize("case", COMPARED, ids=[c.name for c in COMPARED])
def test_same_numbers(case, both):
    ours, theirs = both[0][_number(case)], both[1][_number(case)]
    assert not isinstance(theirs, str), theirs
    for part in ("outputs", "weights", "inputs"):
        assert len(ours[part]) == len(theirs[part]), part
        for a, b in zip(ours[part], theirs[part]):
            # sums of up to a few hundred products of numbers of the size of 1
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=5e-5, err_msg=part)
    if case.training:
        for a, b in zip(ours["state"], theirs["state"]):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@needs_keras
def test_same_signatures():
    """The order and the defaults of arguments are Keras's."""
    names = sorted(
        name
        for name in layers.__all__
        if inspect.isclass(getattr(layers, name))
        and issubclass(getattr(layers, name), layers.Layer)
    )
    theirs = run_keras(_SIGNATURES, names=names)
    # what we have no use for, or refuse with an error of its own
    absent = {
        "lora_rank",
        "lora_alpha",
        "quantization_config",
        "gptq_unpacked_column_size",
        "renorm",
        "renorm_clipping",
        "renorm_momentum",
        "sliding_window",
        "use_gate",
        "sparse",
        "ragged",
        "optional",
        "args",
        # of all layers, by keyword
        "name",
        "trainable",
        "dtype",
    }
    plain = (str, int, float, bool, type(None), tuple)
    for name in names:
        ours = _signature(getattr(layers, name))
        expected = [n for n in theirs[name] if n not in absent]
        if name in ("Layer", "InputLayer", "Wrapper"):
            continue  # keyword arguments only
        assert [n for n in ours if n in expected] == expected, name
        for n in expected:
            default = ours[n]
            if isinstance(default, plain) and isinstance(theirs[name][n], plain):
                assert _same(default, theirs[name][n]), (name, n, default, theirs[name][n])


def _signature(cls):
    parameters = inspect.signature(cls.__init__).parameters
    return {
        n: p.default if p.default is not p.empty else "required"
        for n, p in parameters.items()
        if p.kind is not p.VAR_KEYWORD and n != "self"
    }


def _same(a, b):
    return a == b or (isinstance(b, tuple) and set(b) == {a})
