"""Optimizers against loops in NumPy and against Keras, over many steps in float64."""

import warnings

import numpy as np
import pytest
from keras_oracle import needs_keras, run_keras

import uniflexflow as uff
from uniflexflow import ops, optimizers, passes
from uniflexflow.optimizers import schedules

STEPS = 12
# name -> class, arguments
CASES = {
    "sgd": ("SGD", {}),
    "sgd momentum": ("SGD", {"momentum": 0.9}),
    "sgd nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "adam": ("Adam", {"beta_1": 0.8, "beta_2": 0.98, "epsilon": 1e-5}),
    "adam amsgrad": ("Adam", {"amsgrad": True, "beta_2": 0.5}),
    "adamw": ("AdamW", {"weight_decay": 0.1}),
    "adamax": ("Adamax", {"beta_2": 0.9}),
    "nadam": ("Nadam", {}),
    "lamb": ("Lamb", {}),
    "rmsprop": ("RMSprop", {"rho": 0.8}),
    "rmsprop momentum": ("RMSprop", {"momentum": 0.5}),
    "rmsprop centered": ("RMSprop", {"centered": True, "momentum": 0.5, "epsilon": 1e-3}),
    "adagrad": ("Adagrad", {"initial_accumulator_value": 0.2}),
    "adadelta": ("Adadelta", {"rho": 0.9, "epsilon": 1e-3}),
    "ftrl": (
        "Ftrl",
        {
            "learning_rate_power": -0.6,
            "l1_regularization_strength": 0.01,
            "l2_regularization_strength": 0.02,
            "l2_shrinkage_regularization_strength": 0.03,
            "beta": 0.1,
        },
    ),
    "lion": ("Lion", {"beta_1": 0.8}),
    "clipnorm": ("SGD", {"clipnorm": 0.5}),
    "clipvalue": ("SGD", {"clipvalue": 0.3}),
    "global_clipnorm": ("Adam", {"global_clipnorm": 0.5}),
    "weight_decay": ("SGD", {"momentum": 0.9, "weight_decay": 0.2}),
    "ema": ("SGD", {"use_ema": True, "ema_momentum": 0.8, "ema_overwrite_frequency": 4}),
    "accumulation": ("Adam", {"gradient_accumulation_steps": 3}),
    "accumulation clipped": (
        "SGD",
        {"gradient_accumulation_steps": 2, "clipnorm": 0.2, "momentum": 0.9, "weight_decay": 0.1},
    ),
    "loss scale": ("SGD", {"loss_scale_factor": 8.0}),
}
RATE = 0.05


def start():
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=(3, 2)), rng.normal(size=(4,))]
    grads = [[rng.normal(size=w.shape) for w in weights] for _ in range(STEPS)]
    return weights, grads


@pytest.fixture(autouse=True)
def float64():
    uff.ops.dtypes.set_floatx("float64")
    yield
    uff.ops.dtypes.set_floatx("float32")


def trajectory(optimizer, weights, grads, traced=False):
    variables = [uff.Variable(w, name=f"w{i}") for i, w in enumerate(weights)]
    optimizer.build(variables)
    if traced:
        step = uff.compiler.Function(lambda *gs: optimizer.apply(list(gs), variables))
    out = []
    for gs in grads:
        step(*gs) if traced else optimizer.apply(gs, variables)
        out.append([v.numpy() for v in variables])
    return out


# -- loops: one weight at a time, written from the papers' formulas ----------------------


def loop(name, args, weights, grads):
    """Return the weights after each step."""
    state = [{} for _ in weights]
    weights = [w.copy() for w in weights]
    out = []
    for t, gs in enumerate(grads, 1):
        for i, g in enumerate(gs):
            weights[i] = RULES[name](weights[i], g, state[i], t, **args)
        out.append([w.copy() for w in weights])
    return out


def sgd(w, g, s, t, momentum=0.0, nesterov=False):
    s["m"] = momentum * s.get("m", 0) - RATE * g
    if not momentum:
        return w - RATE * g
    return w + (momentum * s["m"] - RATE * g if nesterov else s["m"])


def averages(g, s, b1, b2):
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
    return s["m"], s["v"]


def adam(w, g, s, t, beta_1=0.9, beta_2=0.999, epsilon=1e-7, amsgrad=False, weight_decay=0.0):
    w = w - RATE * weight_decay * w
    m, v = averages(g, s, beta_1, beta_2)
    if amsgrad:
        v = s["largest"] = np.maximum(s.get("largest", 0), v)
    # epsilon stands beside the uncorrected root, as in the paper's last form
    alpha = RATE * np.sqrt(1 - beta_2**t) / (1 - beta_1**t)
    return w - alpha * m / (np.sqrt(v) + epsilon)


def adamax(w, g, s, t, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
    s["m"] = beta_1 * s.get("m", 0) + (1 - beta_1) * g
    s["u"] = np.maximum(beta_2 * s.get("u", 0), abs(g))
    return w - RATE / (1 - beta_1**t) * s["m"] / (s["u"] + epsilon)


def nadam(w, g, s, t, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
    def mu(k):
        return beta_1 * (1 - 0.5 * 0.96**k)

    m, v = averages(g, s, beta_1, beta_2)
    s["product"] = s.get("product", 1.0) * mu(t)
    m_hat = mu(t + 1) * m / (1 - s["product"] * mu(t + 1)) + (1 - mu(t)) * g / (1 - s["product"])
    return w - RATE * m_hat / (np.sqrt(v / (1 - beta_2**t)) + epsilon)


def lamb(w, g, s, t, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
    m, v = averages(g, s, beta_1, beta_2)
    r = m / (1 - beta_1**t) / (np.sqrt(v / (1 - beta_2**t)) + epsilon)
    return w - RATE * np.linalg.norm(w) / np.linalg.norm(r) * r


def rmsprop(w, g, s, t, rho=0.9, momentum=0.0, epsilon=1e-7, centered=False):
    s["v"] = rho * s.get("v", 0) + (1 - rho) * g * g
    s["a"] = rho * s.get("a", 0) + (1 - rho) * g
    v = s["v"] - s["a"] ** 2 if centered else s["v"]
    s["m"] = momentum * s.get("m", 0) + RATE * g / np.sqrt(v + epsilon)
    return w - s["m"]


def adagrad(w, g, s, t, initial_accumulator_value=0.1, epsilon=1e-7):
    s["a"] = s.get("a", initial_accumulator_value) + g * g
    return w - RATE * g / np.sqrt(s["a"] + epsilon)


def adadelta(w, g, s, t, rho=0.95, epsilon=1e-7):
    s["a"] = rho * s.get("a", 0) + (1 - rho) * g * g
    d = -np.sqrt(s.get("d", 0) + epsilon) / np.sqrt(s["a"] + epsilon) * g
    s["d"] = rho * s.get("d", 0) + (1 - rho) * d * d
    return w + RATE * d


def lion(w, g, s, t, beta_1=0.9, beta_2=0.99):
    m = s.get("m", 0)
    s["m"] = beta_2 * m + (1 - beta_2) * g
    return w - RATE * np.sign(beta_1 * m + (1 - beta_1) * g)


RULES = {
    "SGD": sgd,
    "Adam": adam,
    "AdamW": adam,
    "Adamax": adamax,
    "Nadam": nadam,
    "Lamb": lamb,
    "RMSprop": rmsprop,
    "Adagrad": adagrad,
    "Adadelta": adadelta,
    "Lion": lion,
}
PLAIN = [
    name
    for name, (cls, args) in CASES.items()
    if cls in RULES and not any("clip" in a or "_steps" in a or "ema" in a for a in args)
    if name not in ("weight_decay", "loss scale")
]


@pytest.mark.parametrize("traced", [False, True], ids=["arrays", "traced"])
@pytest.mark.parametrize("name", PLAIN)
def test_trajectory_is_that_of_a_loop(name, traced):
    cls, args = CASES[name]
    weights, grads = start()
    got = trajectory(getattr(optimizers, cls)(RATE, **args), weights, grads, traced)
    for step, (a, b) in enumerate(zip(got, loop(cls, args, weights, grads))):
        for x, y in zip(a, b):
            np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13, err_msg=f"step {step}")


KERAS = """
keras.config.set_floatx("float64")
for key, (name, args, weights, grads) in inputs["cases"].items():
    optimizer = getattr(keras.optimizers, name)(0.05, **args)
    variables = [keras.Variable(w, name=f"w{i}") for i, w in enumerate(weights)]
    optimizer.build(variables)
    steps = []
    for gs in grads:
        optimizer.apply([keras.ops.convert_to_tensor(g) for g in gs], variables)
        steps.append([np.array(v) for v in variables])
    outputs[key] = steps, [np.array(v) for v in optimizer.variables]
"""


@pytest.mark.slow
@needs_keras
def test_keras_gives_the_same():
    weights, grads = start()
    cases = {key: (*case, weights, grads) for key, case in CASES.items()}
    for key, (steps, state) in run_keras(KERAS, cases=cases).items():
        cls, args = CASES[key]
        optimizer = getattr(optimizers, cls)(RATE, **args)
        for step, (a, b) in enumerate(zip(trajectory(optimizer, weights, grads), steps)):
            for x, y in zip(a, b):
                message = f"{key}, step {step}"
                np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13, err_msg=message)
        # the same list of variables in the same order: their files are ours
        assert len(state) == len(optimizer.variables), key
        for x, y in zip(optimizer.variables, state):
            np.testing.assert_allclose(
                x.array, y, rtol=1e-11, atol=1e-13, err_msg=f"{key} {x.path}"
            )


@pytest.mark.parametrize("name", CASES)
def test_arrays_and_traces_give_the_same(name):
    cls, args = CASES[name]
    weights, grads = start()
    a = trajectory(getattr(optimizers, cls)(RATE, **args), weights, grads)
    b = trajectory(getattr(optimizers, cls)(RATE, **args), weights, grads, traced=True)
    for x, y in zip(a[-1], b[-1]):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", CASES)
def test_round_trip_keeps_the_numbers(name):
    cls, args = CASES[name]
    weights, grads = start()
    optimizer = getattr(optimizers, cls)(RATE, name="mine", **args)
    again = optimizers.deserialize(optimizers.serialize(optimizer))
    assert type(again) is type(optimizer) and again.name == "mine"
    a = trajectory(optimizer, weights, grads)
    for x, y in zip(a[-1], trajectory(again, weights, grads)[-1]):
        np.testing.assert_array_equal(x, y)
    if args:  # which would pass above if both had forgotten them
        plain = trajectory(getattr(optimizers, cls)(RATE), weights, grads)
        if name != "loss scale":
            assert any(np.abs(x - y).max() > 1e-6 for x, y in zip(a[-1], plain[-1]))


# -- schedules ---------------------------------------------------------------------------

SCHEDULES = {
    "exponential": ("ExponentialDecay", (0.1, 7, 0.5)),
    "staircase": ("ExponentialDecay", (0.1, 7, 0.5, True)),
    "piecewise": ("PiecewiseConstantDecay", ([5, 10], [0.3, 0.2, 0.1])),
    "polynomial": ("PolynomialDecay", (0.1, 12, 0.01, 2.0)),
    "cycle": ("PolynomialDecay", (0.1, 5, 0.01, 1.0, True)),
    "inverse": ("InverseTimeDecay", (0.1, 7, 0.5)),
    "inverse stairs": ("InverseTimeDecay", (0.1, 7, 0.5, True)),
    "cosine": ("CosineDecay", (0.1, 12, 0.1)),
    "warmup": ("CosineDecay", (0.0, 8, 0.1, "c", 0.2, 4)),
    "restarts": ("CosineDecayRestarts", (0.1, 4, 1.0, 0.9, 0.1)),
    "longer restarts": ("CosineDecayRestarts", (0.1, 4, 2.0, 0.9, 0.1)),
}
KERAS_SCHEDULES = """
keras.config.set_floatx("float64")
for key, (name, args) in inputs["cases"].items():
    schedule = getattr(keras.optimizers.schedules, name)(*args)
    outputs[key] = [float(schedule(step)) for step in range(25)]
"""


@pytest.mark.slow
@needs_keras
def test_keras_schedules_give_the_same():
    for key, expected in run_keras(KERAS_SCHEDULES, cases=SCHEDULES).items():
        name, args = SCHEDULES[key]
        rate = getattr(schedules, name)(*args)
        got = [float(rate(step)) for step in range(25)]
        # Keras computes a schedule's constants in float32 if asked without a dtype
        np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=key)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_called_with_the_step(name):
    cls, args = SCHEDULES[name]
    rate = getattr(schedules, cls)(*args)
    again = schedules.deserialize(schedules.serialize(rate))
    weights, grads = start()
    optimizer = optimizers.SGD(rate)
    got = trajectory(optimizer, weights, grads, traced=True)
    w = weights[0].copy()
    for step, gs in enumerate(grads):
        w = w - float(again(step)) * gs[0]
        np.testing.assert_allclose(got[step][0], w, rtol=1e-12)
    assert [v.name for v in optimizer.variables] == ["iteration"]
    assert float(optimizer.learning_rate) == pytest.approx(float(rate(STEPS)))


def test_schedules_by_hand():
    rate = schedules.CosineDecayRestarts(1.0, 10, t_mul=2.0, m_mul=0.5)
    # periods of 10, 20, 40 steps, of heights 1, 1/2, 1/4
    for step, value in ((0, 1.0), (5, 0.5), (10, 0.5), (20, 0.25), (30, 0.25), (50, 0.125)):
        assert float(rate(step)) == pytest.approx(value, abs=1e-6)
    with pytest.raises(ValueError, match="`decay_steps` must be > 0; received 0"):
        schedules.CosineDecay(1.0, 0)
    with pytest.raises(ValueError, match="length of boundaries should be 1 less"):
        schedules.PiecewiseConstantDecay([1, 2], [0.1, 0.2])


# -- the face ----------------------------------------------------------------------------


def test_learning_rate_is_assignable_without_a_new_trace():
    w = uff.Variable(np.zeros(2))
    sgd = optimizers.SGD(1.0)
    sgd.build([w])
    traces = []

    def step(g):
        traces.append(1)
        sgd.apply([g], [w])

    step = uff.compiler.Function(step)
    step(np.ones(2))
    sgd.learning_rate = 0.5
    step(np.ones(2))
    assert w.numpy().tolist() == [-1.5, -1.5]
    assert len(traces) == 1
    assert float(sgd.learning_rate) == 0.5
    assert optimizers.SGD(1).get_config()["learning_rate"] == 1.0


def test_learning_rate_errors():
    with pytest.raises(ValueError, match="must be a number or a LearningRateSchedule"):
        optimizers.SGD("fast")
    scheduled = optimizers.SGD(schedules.InverseTimeDecay(0.1, 1, 1.0))
    with pytest.raises(TypeError, match="not settable"):
        scheduled.learning_rate = 0.1
    plain = optimizers.SGD(0.1)
    plain.learning_rate = schedules.InverseTimeDecay(0.4, 1, 1.0)
    assert float(plain.learning_rate) == pytest.approx(0.4)
    assert [v.name for v in plain.variables] == ["iteration"]


def test_none_gradients():
    a, b = uff.Variable(np.ones(2), name="a"), uff.Variable(np.ones(2), name="b")
    sgd = optimizers.SGD(0.5)
    with pytest.warns(UserWarning, match=r"Gradients do not exist for variables \['b'\]"):
        sgd.apply([np.ones(2), None], [a, b])
    assert a.numpy().tolist() == [0.5, 0.5] and b.numpy().tolist() == [1, 1]
    with pytest.raises(ValueError, match="no gradients provided"):
        sgd.apply([None, None], [a, b])


def test_unknown_variables_and_arguments():
    a, b = uff.Variable(np.ones(2)), uff.Variable(np.ones(2), name="stranger")
    sgd = optimizers.SGD(0.5)
    sgd.build([a])
    with pytest.raises(ValueError, match=r"unknown variable .*stranger"):
        sgd.apply([np.ones(2)], [b])
    with pytest.raises(ValueError, match="2 gradients for 1 variables"):
        sgd.apply([np.ones(2), np.ones(2)])
    with pytest.raises(ValueError, match="must already be built"):
        optimizers.SGD(0.5).apply([np.ones(2)])
    with pytest.raises(ValueError, match=r"not recognized: \{'decay': 0.1\}"):
        optimizers.SGD(0.5, decay=0.1)
    with pytest.raises(ValueError, match="only one of `clipnorm`"):
        optimizers.SGD(0.5, clipnorm=1.0, clipvalue=1.0)
    with pytest.raises(ValueError, match="Unknown optimizer 'adamm'"):
        optimizers.get("adamm")
    with pytest.raises(ValueError, match="integer >= 2"):
        optimizers.SGD(gradient_accumulation_steps=1)


def test_names_in_any_case():
    for name in ("adam", "Adam", "ADAM", "rmsprop", "SGD", "sgd", "adamw", "nadam"):
        assert type(optimizers.get(name)).__name__.lower() == name.lower()
    adam = optimizers.Adam()
    assert optimizers.get(adam) is adam
    assert optimizers.get({"class_name": "adam", "config": {"beta_1": 0.5}}).beta_1 == 0.5


def test_excluded_weights_do_not_decay():
    kernel, bias = uff.Variable(np.ones(2), name="kernel"), uff.Variable(np.ones(2), name="bias")
    gamma = uff.Variable(np.ones(2), name="gamma")
    sgd = optimizers.SGD(0.5, weight_decay=0.5)
    sgd.exclude_from_weight_decay(var_list=[gamma], var_names=["bias"])
    sgd.apply([np.zeros(2)] * 3, [kernel, bias, gamma])
    assert [v.numpy()[0] for v in (kernel, bias, gamma)] == [0.75, 1.0, 1.0]
    with pytest.raises(ValueError, match="before the optimizer is built"):
        sgd.exclude_from_weight_decay(var_names=["kernel"])


def test_constraints_come_after_the_update():
    w = uff.Variable(np.array([1.0, -1.0]))
    w.constraint = lambda x: ops.maximum(x, 0.0)
    optimizers.SGD(1.0).apply([np.array([3.0, -3.0])], [w])
    assert w.numpy().tolist() == [0.0, 2.0]


def test_averages_replace_the_weights_at_the_end():
    w = uff.Variable(np.array([1.0]))
    sgd = optimizers.SGD(1.0, use_ema=True, ema_momentum=0.5)
    for _ in range(3):
        sgd.apply([np.array([1.0])], [w])
    # weights 0, -1, -2; the average begins at the first: 0, -1/2, -5/4
    sgd.finalize_variable_values([w])
    assert w.numpy().tolist() == [-1.25]


def test_infinite_gradients_are_seen():
    w = uff.Variable(np.array([1.0]))
    optimizers.SGD(1.0, global_clipnorm=1.0).apply([np.array([np.inf])], [w])
    assert np.isnan(w.numpy()).all()


def test_float32_weights_stay_float32():
    w = uff.Variable(np.ones(2, "float32"))
    for cls, args in CASES.values():
        optimizer = getattr(optimizers, cls)(0.1, **args)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            optimizer.apply([np.ones(2, "float32")], [w])
        assert w.dtype == "float32"


@pytest.mark.parametrize("name", ["sgd nesterov", "adam", "adamw", "nadam", "rmsprop centered"])
def test_an_update_is_one_pass_over_each_weight(name):
    cls, args = CASES[name]
    weights = [uff.Variable(np.ones((3, 5))), uff.Variable(np.ones((7,)))]
    optimizer = getattr(optimizers, cls)(**args)
    optimizer.build(weights)
    update = uff.compiler.Function(lambda *gs: optimizer.apply(list(gs), weights))
    step, _ = update.step(*[w.numpy() for w in weights])
    fused = passes.fuse(passes.simplify(step.traced.graph))
    shapes = [node.outputs[0].shape for node in fused.nodes if node.inputs]
    assert [s for s in shapes if s] == [(3, 5), (7,)]


def test_base_class():
    with pytest.raises(NotImplementedError, match="must define `update_step"):
        optimizers.Optimizer(0.1).apply([np.ones(1)], [uff.Variable(np.ones(1))])


def test_user_optimizer():
    class SignDescent(optimizers.Optimizer):
        def update_step(self, gradient, variable, learning_rate):
            lr = ops.cast(learning_rate, variable.dtype)
            variable.assign_sub(lr * ops.sign(gradient))

    w = uff.Variable(np.zeros(2))
    SignDescent(0.5).apply([np.array([3.0, -1.0])], [w])
    assert w.numpy().tolist() == [-0.5, 0.5]
