"""What fit, evaluate and predict mean: against plain NumPy and Keras's facts."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow.callbacks import Callback, LambdaCallback
from uniflexflow.data.sampler import permutation
from uniflexflow.layers import Dense


def linear(x, y=None, seed=0, **compile_arguments):
    """Return a compiled linear model and a copy of its first weights."""
    uff.utils.set_random_seed(seed)
    model = uff.Sequential([uff.Input(x.shape[1:]), Dense(1)])
    arguments = {"optimizer": uff.optimizers.SGD(0.1), "loss": "mse", **compile_arguments}
    model.compile(**arguments)
    return model, [w.astype("float64") for w in model.get_weights()]


def descend(weights, x, y, batches, rate=0.1, sample_weight=None):
    """Train a linear model by hand; return the weights and each batch's loss."""
    kernel, bias = (w.copy() for w in weights)
    losses = []
    for rows in batches:
        w = np.ones(len(rows)) if sample_weight is None else sample_weight[rows]
        error = x[rows] @ kernel + bias - y[rows]
        losses.append(float(np.sum(w[:, None] * error**2) / len(rows)))
        slope = 2 * w[:, None] * error / len(rows)
        kernel -= rate * x[rows].T @ slope
        bias -= rate * slope.sum(0)
    return [kernel, bias], losses


@pytest.fixture
def data(rng):
    x = rng.normal(size=(11, 3))
    return x, x @ np.array([[1.0], [-2.0], [0.5]]) + 0.3


def test_fit_is_gradient_descent_and_keeps_the_partial_batch(data):
    x, y = data
    model, start = linear(x)
    history = model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    batches = [np.arange(0, 4), np.arange(4, 8), np.arange(8, 11)] * 2
    weights, losses = descend(start, x, y, batches)
    for got, expected in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    means = [np.average(losses[i : i + 3], weights=[4, 4, 3]) for i in (0, 3)]
    np.testing.assert_allclose(history.history["loss"], means, rtol=1e-4)
    assert all(type(v) is float for v in history.history["loss"])
    assert history.epoch == [0, 1] and history is model.history
    assert history.params == {"verbose": 0, "epochs": 2, "steps": 3}


def test_shuffled_batches_are_the_sampler_s(data):
    x, y = data
    model, start = linear(x)
    model.fit(x, y, batch_size=4, epochs=2, verbose=0)
    batches = []
    for epoch in range(2):
        order = permutation(model._order_seed, epoch, 11)
        batches += [order[0:4], order[4:8], order[8:11]]
    weights, _ = descend(start, x, y, batches)
    for got, expected in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_sample_weights_divide_by_the_number_of_samples(data, rng):
    x, y = data
    weight = rng.uniform(0.1, 3, 11)
    model, start = linear(x, metrics=["mae"], weighted_metrics=["mae"])
    history = model.fit(x, y, sample_weight=weight, batch_size=11, shuffle=False, verbose=0).history
    weights, losses = descend(start, x, y, [np.arange(11)], sample_weight=weight)
    np.testing.assert_allclose(model.get_weights()[0], weights[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(history["loss"], losses, rtol=1e-4)
    error = np.abs(x @ start[0] + start[1] - y)[:, 0]
    np.testing.assert_allclose(history["mae"], [error.mean()], rtol=1e-4)
    np.testing.assert_allclose(
        history["weighted_mae"], [np.average(error, weights=weight)], rtol=1e-4
    )
    evaluated = model.evaluate(x, y, sample_weight=weight, verbose=0, return_dict=True)
    error = np.abs(x @ model.get_weights()[0] + model.get_weights()[1] - y)[:, 0]
    np.testing.assert_allclose(evaluated["loss"], np.sum(weight * error**2) / 11, rtol=1e-4)


def test_class_weights_are_sample_weights(data):
    x, _ = data
    y = np.arange(11) % 3
    results = []
    for how in (
        {"class_weight": {0: 2.0, 2: 0.5}},
        {"sample_weight": np.array([2.0, 1.0, 0.5])[y]},
    ):
        model, _ = linear(x)
        model.fit(x, y, verbose=0, **how)
        results.append(model.get_weights())
    np.testing.assert_array_equal(results[0][0], results[1][0])


def test_validation_split_is_the_last_rows(data):
    x, y = data
    model, _ = linear(x)
    history = model.fit(x, y, validation_split=0.3, batch_size=3, verbose=0).history
    expected = model.evaluate(x[7:], y[7:], batch_size=3, verbose=0)
    assert history["val_loss"] == [expected]
    steps = []
    model.fit(
        x,
        y,
        validation_split=0.3,
        batch_size=3,
        verbose=0,
        callbacks=[LambdaCallback(on_train_batch_end=lambda b, logs: steps.append(b))],
    )
    assert steps == [0, 1, 2]  # 7 rows


def test_validation_freq(data):
    x, y = data
    model, _ = linear(x)
    history = model.fit(
        x, y, epochs=5, validation_data=(x, y), validation_freq=2, verbose=0
    ).history
    assert (len(history["loss"]), len(history["val_loss"])) == (5, 2)
    history = model.fit(
        x, y, epochs=5, validation_data=(x, y), validation_freq=[1, 4, 5], verbose=0
    ).history
    assert len(history["val_loss"]) == 3


def test_validation_steps_begin_with_the_first_rows_each_time(data):
    x, y = data
    model, _ = linear(x)
    model.optimizer.learning_rate = 0.0
    history = model.fit(
        x, y, epochs=3, validation_data=(x, y), validation_steps=2, validation_batch_size=2,
        verbose=0,
    ).history  # fmt: skip
    expected = model.evaluate(x[:4], y[:4], batch_size=2, verbose=0)
    assert history["val_loss"] == [expected] * 3


def test_validation_does_not_change_the_training_logs(data):
    x, y = data
    first, _ = linear(x)
    a = first.fit(x, y, batch_size=4, epochs=3, verbose=0).history
    second, _ = linear(x)
    b = second.fit(x, y, batch_size=4, epochs=3, verbose=0, validation_data=(x, y)).history
    assert a["loss"] == b["loss"]


def test_initial_epoch_and_further_fits(data):
    x, y = data
    whole, _ = linear(x)
    whole.fit(x, y, batch_size=4, epochs=4, verbose=0)
    parts, _ = linear(x)
    parts.fit(x, y, batch_size=4, epochs=2, verbose=0)
    history = parts.fit(x, y, batch_size=4, epochs=4, initial_epoch=2, verbose=0)
    assert history.epoch == [2, 3]
    np.testing.assert_array_equal(whole.get_weights()[0], parts.get_weights()[0])
    seed = parts._order_seed
    assert parts.fit(x, y, epochs=2, verbose=0).epoch == [0, 1]
    assert parts._order_seed != seed


def test_evaluate_and_predict(data):
    x, y = data
    model, start = linear(x, metrics=["mae"])
    predicted = x @ start[0] + start[1]
    np.testing.assert_allclose(
        model.predict(x, batch_size=4, verbose=0), predicted, rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(model.predict_on_batch(x), predicted, rtol=1e-4, atol=1e-5)
    mse, mae = np.mean((predicted - y) ** 2), np.mean(np.abs(predicted - y))
    np.testing.assert_allclose(model.evaluate(x, y, batch_size=4, verbose=0), [mse, mae], rtol=1e-4)
    alone, _ = linear(x)
    assert isinstance(alone.evaluate(x, y, verbose=0), float)
    assert set(alone.evaluate(x, y, verbose=0, return_dict=True)) == {"loss"}
    # predictions don't need compile
    other = uff.Sequential([uff.Input((3,)), Dense(2)])
    assert other.predict(x, verbose=0).shape == (11, 2)


def test_on_batch_methods_give_that_batch_alone(data):
    x, y = data
    model, start = linear(x, metrics=["mae"])
    first = model.train_on_batch(x[:4], y[:4])
    weights, losses = descend(start, x, y, [np.arange(4)])
    np.testing.assert_allclose(first[0], losses[0], rtol=1e-4)
    np.testing.assert_allclose(model.get_weights()[0], weights[0], rtol=1e-4, atol=1e-5)
    second = model.test_on_batch(x[4:], y[4:], return_dict=True)
    error = x[4:] @ weights[0] + weights[1] - y[4:]
    np.testing.assert_allclose(second["loss"], np.mean(error**2), rtol=1e-3)
    assert isinstance(linear(x)[0].train_on_batch(x, y), float)


def test_inputs_of_other_dtypes(data, rng):
    x, y = data
    model, _ = linear(x)
    model.fit(x.astype("float32"), y.astype("float32"), shuffle=False, verbose=0)
    other, _ = linear(x)
    other.fit(x, y, shuffle=False, verbose=0)
    np.testing.assert_array_equal(model.get_weights()[0], other.get_weights()[0])
    images = rng.integers(0, 255, (11, 3)).astype("uint8")
    np.testing.assert_allclose(
        model.predict(images, verbose=0), model.predict(images.astype("float32"), verbose=0)
    )


def test_float64_models_are_fed_float64(data):
    x, y = data
    model = uff.Sequential([uff.Input((3,), dtype="float64"), Dense(1, dtype="float64")])
    kernel, bias = model.get_weights()
    got = model.predict(x, verbose=0)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, x @ kernel + bias, rtol=1e-12)


def test_generators(data):
    x, y = data

    def batches():
        while True:
            for i in range(0, 8, 4):
                yield x[i : i + 4], y[i : i + 4]

    model, start = linear(x)
    history = model.fit(batches(), steps_per_epoch=2, epochs=2, verbose=0)
    weights, losses = descend(start, x, y, [np.arange(0, 4), np.arange(4, 8)] * 2)
    np.testing.assert_allclose(model.get_weights()[0], weights[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        history.history["loss"], [np.mean(losses[:2]), np.mean(losses[2:])], rtol=1e-4
    )


def test_an_epoch_without_data_has_no_entry(data):
    x, y = data
    model, _ = linear(x)
    batches = ((x[i : i + 4], y[i : i + 4]) for i in (0, 4, 7))
    with pytest.warns(UserWarning, match="ran out of data"):
        history = model.fit(batches, steps_per_epoch=2, epochs=4, verbose=0)
    assert len(history.history["loss"]) == 2 and history.epoch == [0, 1]


def test_pydataset(data):
    x, y = data

    class Batches(uff.utils.PyDataset):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return x[4 * i : 4 * i + 4], y[4 * i : 4 * i + 4]

    model, _ = linear(x)
    other, _ = linear(x)
    a = model.fit(Batches(), shuffle=False, epochs=2, verbose=0, validation_data=Batches())
    b = other.fit(x, y, batch_size=4, shuffle=False, epochs=2, verbose=0)
    assert a.history["loss"] == b.history["loss"] and len(a.history["val_loss"]) == 2
    np.testing.assert_array_equal(model.get_weights()[0], other.get_weights()[0])
    np.testing.assert_array_equal(
        model.predict(Batches(), verbose=0), model.predict(x, batch_size=4, verbose=0)
    )


def test_stop_training_after_a_batch(data):
    x, y = data
    model, _ = linear(x)

    class Stop(Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1:
                self.model.stop_training = True

    history = model.fit(x, y, batch_size=2, epochs=5, verbose=0, callbacks=[Stop()])
    assert history.epoch == [0] and int(model.optimizer.iterations.numpy()) == 2


def test_steps_per_execution_groups_hooks(data):
    x, y = data
    seen = []
    model, _ = linear(x, steps_per_execution=2)
    hooks = LambdaCallback(
        on_train_batch_begin=lambda b, logs: seen.append(("begin", b)),
        on_train_batch_end=lambda b, logs: seen.append(("end", b)),
    )
    model.fit(x, y, batch_size=4, verbose=0, callbacks=[hooks])
    assert seen == [("begin", 0), ("end", 1), ("begin", 2), ("end", 2)]


def test_caps(data):
    x, y = data
    model, _ = linear(x)
    uff.config.set_max_epochs(1)
    uff.config.set_max_steps_per_epoch(2)
    try:
        with pytest.warns(UserWarning, match="Limiting"):
            history = model.fit(x, y, batch_size=2, epochs=3, verbose=0)
    finally:
        uff.config.set_max_epochs(None)
        uff.config.set_max_steps_per_epoch(None)
    assert history.epoch == [0] and int(model.optimizer.iterations.numpy()) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"run_eagerly": True}, "run_eagerly"),
        ({"jit_compile": False}, "jit_compile"),
        ({"steps_per_execution": 0}, "steps_per_execution"),
        ({"metrics": "mae"}, "metrics"),
        ({"loss_weights": "1"}, "loss_weights"),
    ],
)
def test_compile_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        uff.Sequential([Dense(1)]).compile("sgd", "mse", **arguments)


def test_fit_refuses(data):
    x, y = data
    model = uff.Sequential([uff.Input((3,)), Dense(1)])
    with pytest.raises(ValueError, match=r"You must call `compile\(\)`"):
        model.fit(x, y)
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="Data cardinality is ambiguous"):
        model.fit(x, y[:3])
    with pytest.raises(TypeError, match="callbacks"):
        model.fit(x, y, callbacks=[print], verbose=0)
    with pytest.raises(ValueError, match="validation_freq"):
        model.fit(x, y, validation_freq=0, verbose=0)
    model.compile("sgd")
    with pytest.raises(ValueError, match="No loss to compute"):
        model.fit(x, y, verbose=0)


def test_compile_survives_a_config(data):
    x, y = data
    model, _ = linear(x, metrics=["mae"], loss_weights=[2.0])
    config = uff.saving.serialize_keras_object(model.get_compile_config())
    config = json.loads(json.dumps(config))
    config["jit_compile"] = False  # as Keras writes it
    other = uff.Sequential.from_config(model.get_config())
    other.set_weights(model.get_weights())
    other.compile_from_config(config)
    for m in (model, other):
        m.fit(x, y, shuffle=False, epochs=2, verbose=0)
    np.testing.assert_array_equal(model.get_weights()[0], other.get_weights()[0])
    assert model.evaluate(x, y, verbose=0) == other.evaluate(x, y, verbose=0)
    assert uff.Sequential().get_compile_config() is None


def test_a_changed_model_is_traced_again(data):
    x, y = data
    model, _ = linear(x)
    assert model.predict(x, verbose=0).shape == (11, 1)
    model.fit(x, y, verbose=0)
    model.layers[0].trainable = False
    kernel = model.get_weights()[0]
    with pytest.warns(UserWarning, match="trainable weights"):
        model.fit(x, y, verbose=0)
    np.testing.assert_array_equal(model.get_weights()[0], kernel)
    model.add(Dense(4))
    assert model.predict(x, verbose=0).shape == (11, 4)


def test_a_schedule_set_after_a_fit_counts(data):
    x, y = data
    model, _ = linear(x)
    model.fit(x, y, verbose=0)
    model.optimizer.learning_rate = uff.optimizers.schedules.PiecewiseConstantDecay([1], [0.0, 0.0])
    kernel = model.get_weights()[0]
    model.fit(x, y, verbose=0)
    np.testing.assert_array_equal(model.get_weights()[0], kernel)


def test_threads_may_predict_with_one_model(rng):
    model = uff.Sequential([uff.Input((64,)), Dense(64, activation="tanh"), Dense(64)])
    inputs = [rng.normal(size=(32 * n, 64)).astype("float32") for n in (1, 2, 3, 4)]
    expected = [model.predict(x, verbose=0) for x in inputs]

    def run(number):
        return [model.predict(inputs[number], verbose=0) for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        for got, right in zip(pool.map(run, range(4)), expected):
            for outputs in got:
                np.testing.assert_array_equal(outputs, right)
