"""Names and order in the logs, hooks in their order, several outputs, custom steps."""

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import ops
from uniflexflow.callbacks import Callback, History, ProgbarLogger
from uniflexflow.layers import Dense


@pytest.fixture(autouse=True)
def fresh_names():
    uff.utils.clear_session()
    uff.utils.set_random_seed(0)


def classifier(units, loss, metrics, **kwargs):
    model = uff.Sequential([uff.Input((3,)), Dense(units, activation="sigmoid")])
    model.compile("sgd", loss, metrics=metrics, **kwargs)
    return model


X = np.random.default_rng(0).normal(size=(8, 3))


# -- names -----------------------------------------------------------------------------


def double_error(y_true, y_pred):
    return 2 * ops.mean(abs(y_true - y_pred), axis=-1)


@pytest.mark.parametrize(
    ("metrics", "names"),
    [
        (["mae"], ["mae"]),
        (["MAE", "mse"], ["MAE", "mse"]),
        (["MeanAbsoluteError"], ["MeanAbsoluteError"]),
        ([uff.metrics.MeanAbsoluteError()], ["mean_absolute_error"]),
        ([uff.metrics.MeanAbsoluteError(name="mine")], ["mine"]),
        ([double_error], ["double_error"]),
        (["mae", "mae"], ["mae", "mae_1"]),
        ([["mae"], "mse"], ["mae", "mse"]),
    ],
)
def test_names_are_those_given(metrics, names):
    model = classifier(1, "mse", metrics)
    logs = model.fit(X, X[:, :1], verbose=0, validation_data=(X, X[:, :1])).history
    assert list(logs) == ["loss", *names, "val_loss", *[f"val_{n}" for n in names]]
    assert model.metrics_names == ["loss", *names]


def test_two_objects_of_one_name_are_told_apart():
    metrics = [uff.metrics.MeanAbsoluteError(), uff.metrics.MeanAbsoluteError()]
    logs = classifier(1, "mse", metrics).fit(X, X[:, :1], verbose=0).history
    assert list(logs) == ["loss", "mean_absolute_error", "mean_absolute_error_1"]


def test_names_made_up_count_until_the_session_is_cleared():
    def names():
        return [uff.metrics.Precision().name for _ in range(2)]

    assert names() == ["precision", "precision_1"]
    uff.utils.clear_session()
    assert names() == ["precision", "precision_1"]


@pytest.mark.parametrize("name", ["accuracy", "acc", "Accuracy"])
@pytest.mark.parametrize(
    ("units", "loss", "y", "kind"),
    [
        (1, "binary_crossentropy", np.arange(8)[:, None] % 2, "BinaryAccuracy"),
        (4, "sparse_categorical_crossentropy", np.arange(8) % 4, "SparseCategoricalAccuracy"),
        (4, "sparse_categorical_crossentropy", np.arange(8)[:, None] % 4,
         "SparseCategoricalAccuracy"),
        (4, "categorical_crossentropy", np.eye(4)[np.arange(8) % 4], "CategoricalAccuracy"),
    ],
)  # fmt: skip
def test_accuracy_is_the_one_that_fits_the_shapes(name, units, loss, y, kind):
    model = classifier(units, loss, [name])
    logs = model.evaluate(X, y, verbose=0, return_dict=True)
    assert list(logs) == ["loss", name]
    assert type(model.metrics[-1].metrics[0]).__name__ == kind
    probabilities = model.predict(X, verbose=0)
    if units == 1:
        right = (probabilities > 0.5) == y
    else:
        labels = y if y.ndim == 1 else y[:, 0] if y.shape[1] == 1 else y.argmax(-1)
        right = probabilities.argmax(-1) == labels
    assert logs[name] == pytest.approx(right.mean())


@pytest.mark.parametrize(
    ("units", "y", "loss"),
    [
        (1, np.arange(8)[:, None] % 2, "binary_crossentropy"),
        (4, np.arange(8) % 4, "sparse_categorical_crossentropy"),
        (4, np.eye(4)[np.arange(8) % 4], "categorical_crossentropy"),
    ],
)
def test_crossentropy_is_the_one_that_fits_the_shapes(units, y, loss):
    model = classifier(units, "crossentropy", None)
    got = model.evaluate(X, y, verbose=0)
    model.compile("sgd", loss)
    assert model.evaluate(X, y, verbose=0) == got


def test_added_losses_are_in_the_loss():
    class Activity(uff.layers.Layer):
        def call(self, x):
            self.add_loss(ops.sum(ops.square(x)) * 0.5)
            return x

    model = uff.Sequential(
        [uff.Input((3,)), Activity(), Dense(1, kernel_regularizer=uff.regularizers.L2(0.1))]
    )
    model.compile("sgd", "mse")
    kernel, bias = model.get_weights()
    expected = np.mean((X @ kernel + bias - 1) ** 2)
    expected += 0.5 * np.sum(X**2) + 0.1 * np.sum(kernel**2)
    assert model.evaluate(X, np.ones((8, 1)), verbose=0) == pytest.approx(expected, rel=1e-5)
    model.compile("sgd")  # no loss of its own
    assert model.evaluate(X, verbose=0) == pytest.approx(
        0.5 * np.sum(X**2) + 0.1 * np.sum(kernel**2), rel=1e-5
    )


def test_metrics_of_a_layer_are_logged():
    class Watch(uff.layers.Layer):
        def __init__(self):
            super().__init__()
            self.size = uff.metrics.Mean(name="size")

        def call(self, x):
            self.size.update_state(ops.mean(abs(x)))
            return x

    model = uff.Sequential([uff.Input((3,)), Watch(), Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    logs = model.fit(X, X[:, :1], batch_size=4, epochs=2, verbose=0).history
    assert list(logs) == ["loss", "size", "mae"]
    np.testing.assert_allclose(logs["size"], [np.abs(X).mean()] * 2, rtol=1e-5)


# -- several outputs -------------------------------------------------------------------


def two_outputs(as_dict=False, **compile_arguments):
    x = uff.Input((3,), name="x")
    a, b = Dense(1, name="a")(x), Dense(2, name="b")(x)
    model = uff.Model(x, {"a": a, "b": b} if as_dict else [a, b])
    model.compile("sgd", **compile_arguments)
    return model


YA, YB = X[:, :1], X[:, 1:]


@pytest.mark.parametrize("as_dict", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [
        {"loss": "mse"},
        {"loss": ["mse", "mse"]},
        {"loss": {"a": "mse", "b": "mse"}},
    ],
)
@pytest.mark.parametrize("y_as_dict", [False, True])
def test_losses_per_output(as_dict, arguments, y_as_dict):
    model = two_outputs(
        as_dict, **arguments, loss_weights={"a": 2.0, "b": 0.5}, metrics={"b": ["mae"]}
    )
    y = {"b": YB, "a": YA} if y_as_dict else [YA, YB]
    logs = model.fit(X, y, batch_size=3, verbose=0, shuffle=False).history
    assert list(logs) == ["loss", "a_loss", "b_loss", "b_mae"]
    expected = 2 * logs["a_loss"][0] + 0.5 * logs["b_loss"][0]
    assert logs["loss"][0] == pytest.approx(expected, rel=1e-5)
    results = model.evaluate(X, y, verbose=0)
    predicted = model.predict(X, verbose=0)
    a, b = (predicted["a"], predicted["b"]) if as_dict else predicted
    np.testing.assert_allclose(
        results[1:], [np.mean((a - YA) ** 2), np.mean((b - YB) ** 2), np.abs(b - YB).mean()],
        rtol=1e-4,
    )  # fmt: skip


def test_metrics_as_lists_per_output():
    model = two_outputs(loss="mse", metrics=[["mae", "mse"], None], weighted_metrics=[None, "mae"])
    logs = model.evaluate(X, [YA, YB], verbose=0, return_dict=True)
    assert list(logs) == ["loss", "a_loss", "b_loss", "a_mae", "a_mse", "b_mae"]


def test_an_output_without_loss():
    model = two_outputs(loss={"a": "mse"})
    logs = model.evaluate(X, {"a": YA}, verbose=0, return_dict=True)
    assert list(logs) == ["loss"]
    assert logs == model.evaluate(X, [YA], verbose=0, return_dict=True)


def test_sample_weights_per_output():
    model = two_outputs(loss="mse")
    wa, wb = np.arange(8.0), np.ones(8)
    a, b = model.predict(X, verbose=0)
    logs = model.evaluate(X, [YA, YB], sample_weight=[wa, wb], verbose=0, return_dict=True)
    assert logs["a_loss"] == pytest.approx(np.mean(wa * ((a - YA) ** 2)[:, 0]), rel=1e-4)
    assert logs["b_loss"] == pytest.approx(np.mean((b - YB) ** 2), rel=1e-4)
    both = model.evaluate(X, [YA, YB], sample_weight=wa, verbose=0, return_dict=True)
    assert both["b_loss"] == pytest.approx(np.mean(wa[:, None] * (b - YB) ** 2), rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "y"),
    [
        ({"loss": {"c": "mse"}}, [YA, YB]),
        ({"loss": ["mse"]}, [YA, YB]),
        ({"loss": "mse"}, [YA]),
        ({"loss": "mse"}, {"a": YA, "c": YB}),
        ({"loss": "mse", "metrics": ["mae"]}, [YA, YB]),
        ({"loss": "mse", "metrics": {"c": ["mae"]}}, [YA, YB]),
        ({"loss": "mse", "loss_weights": [1.0]}, [YA, YB]),
    ],
)
def test_what_does_not_match_the_outputs_is_refused(arguments, y):
    with pytest.raises(ValueError, match=r"\['a', 'b'\]"):
        two_outputs(**arguments).fit(X, y, verbose=0)


def test_several_inputs():
    a, b = uff.Input((1,), name="a"), uff.Input((2,), name="b")
    y = Dense(1)(uff.layers.Concatenate()([a, b]))
    model = uff.Model([a, b], y)
    model.compile("sgd", "mse")
    first = model.evaluate([X[:, :1], X[:, 1:]], YA, verbose=0)
    named = model.evaluate({"a": X[:, :1], "b": X[:, 1:]}, YA, verbose=0)
    assert first == named
    model.fit([X[:, :1], X[:, 1:]], YA, verbose=0, validation_split=0.5)
    assert model.predict([X[:, :1], X[:, 1:]], batch_size=3, verbose=0).shape == (8, 1)


# -- subclasses and custom steps -------------------------------------------------------


class Twice(uff.Model):
    def __init__(self):
        super().__init__()
        self.inner = Dense(4, activation="tanh")
        self.outer = Dense(1)

    def call(self, x, training=None):
        return self.outer(self.inner(x))


def test_subclassed_models_are_built_by_fit():
    model = Twice()
    model.compile("sgd", "mse", metrics=["mae"])
    history = model.fit(X, YA, epochs=8, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    assert model.built and len(model.get_weights()) == 4


class Custom(Twice):
    """The train_step of the guides: gradients and the optimizer by hand."""

    def train_step(self, data):
        x, y = data
        y_pred = self(x, training=True)
        loss = self.compute_loss(x=x, y=y, y_pred=y_pred)
        gradients = uff.gradients(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return self.compute_metrics(x, y, y_pred)


class CustomMetrics(Twice):
    """Metrics updated one by one."""

    def train_step(self, data):
        x, y = data
        y_pred = self(x, training=True)
        loss = self.compute_loss(y=y, y_pred=y_pred)
        gradients = uff.gradients(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=x.shape[0])
            else:
                metric.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}


class CustomLoss(Twice):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None):
        return ops.mean(ops.square(y - y_pred))


@pytest.mark.parametrize("cls", [Custom, CustomMetrics, CustomLoss])
def test_custom_steps_do_what_the_default_does(cls):
    results = []
    for kind in (Twice, cls):
        uff.utils.set_random_seed(7)
        model = kind()
        model.compile(uff.optimizers.Adam(0.01), "mse", metrics=["mae"])
        history = model.fit(X, YA, batch_size=3, epochs=3, verbose=0).history
        results.append((history, [w.tolist() for w in model.get_weights()]))
    for name in ("loss", "mae"):
        np.testing.assert_allclose(results[0][0][name], results[1][0][name], rtol=1e-6)
    for a, b in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_a_train_step_without_compile_loss():
    class Autoencoder(uff.Model):
        def __init__(self):
            super().__init__()
            self.net = Dense(3)
            self.tracker = uff.metrics.Mean(name="reconstruction")

        def call(self, x):
            return self.net(x)

        def train_step(self, x):
            loss = ops.mean(ops.square(self(x, training=True) - x))
            self.optimizer.apply(uff.gradients(loss, self.trainable_variables),
                                 self.trainable_variables)  # fmt: skip
            self.tracker.update_state(loss)
            return {"reconstruction": self.tracker.result(), "fixed": 1.5}

    model = Autoencoder()
    model.compile("sgd")
    history = model.fit(X, batch_size=8, epochs=2, verbose=0).history
    assert list(history) == ["reconstruction", "fixed"] and history["fixed"] == [1.5, 1.5]
    assert history["reconstruction"][1] < history["reconstruction"][0]


def test_a_step_must_return_logs():
    class Broken(Twice):
        def train_step(self, data):
            return self(data[0])

    model = Broken()
    model.compile("sgd", "mse")
    with pytest.raises(TypeError, match="dict of logs"):
        model.fit(X, YA, verbose=0)


def test_custom_test_and_predict_steps():
    class Doubled(Twice):
        def predict_step(self, data):
            return {"twice": 2 * self(data, training=False)}

        def test_step(self, data):
            return {"answer": ops.sum(data[1]) * 0 + 42}

    model = Doubled()
    model.compile("sgd", "mse")
    plain = model(X)
    np.testing.assert_allclose(model.predict(X, batch_size=3, verbose=0)["twice"], 2 * plain,
                               rtol=1e-6)  # fmt: skip
    assert model.evaluate(X, YA, verbose=0) == 42.0


# -- hooks -----------------------------------------------------------------------------


class Spy(Callback):
    """Notes each call, and that logs come by keyword."""

    def __init__(self):
        super().__init__()
        self.calls = []


def _spy(name):
    def hook(self, *args, logs=None):
        assert self.model is not None
        self.calls.append((name.removeprefix("on_"), *args, sorted(logs)))

    return hook


for _name in dir(Callback):
    if _name.startswith("on_") and _name not in ("on_batch_begin", "on_batch_end"):
        setattr(Spy, _name, _spy(_name))


def test_hooks_in_keras_s_order():
    spy = Spy()
    model = classifier(1, "mse", ["mae"])
    model.fit(X, YA, batch_size=5, epochs=2, verbose=0, callbacks=[spy],
              validation_data=(X[:3], YA[:3]))  # fmt: skip
    logs, both = ["loss", "mae"], ["loss", "mae", "val_loss", "val_mae"]
    epoch = [
        ("train_batch_begin", 0, []),
        ("train_batch_end", 0, logs),
        ("train_batch_begin", 1, []),
        ("train_batch_end", 1, logs),
        ("test_begin", []),
        ("test_batch_begin", 0, []),
        ("test_batch_end", 0, logs),
        ("test_end", logs),
    ]
    assert spy.calls == [
        ("train_begin", []),
        ("epoch_begin", 0, []),
        *epoch,
        ("epoch_end", 0, both),
        ("epoch_begin", 1, []),
        *epoch,
        ("epoch_end", 1, both),
        ("train_end", both),
    ]
    assert spy.params == {"verbose": 0, "epochs": 2, "steps": 2}


def test_hooks_of_predict():
    spy = Spy()
    model = classifier(1, "mse", ["mae"])
    model.predict(X, batch_size=5, verbose=0, callbacks=[spy])
    assert spy.calls == [
        ("predict_begin", []),
        ("predict_batch_begin", 0, []),
        ("predict_batch_end", 0, ["outputs"]),
        ("predict_batch_begin", 1, []),
        ("predict_batch_end", 1, ["outputs"]),
        ("predict_end", []),
    ]


def test_batch_aliases_and_running_averages():
    seen = []

    class Old(Callback):
        def on_batch_end(self, batch, logs=None):
            seen.append(logs["loss"])

    model = classifier(1, "mse", None)
    model.optimizer.learning_rate = 0.0
    history = model.fit(X, YA, batch_size=3, verbose=0, shuffle=False, callbacks=[Old()])
    error = (model.predict(X, verbose=0) - YA) ** 2
    np.testing.assert_allclose(seen, [error[:3].mean(), error[:6].mean(), error.mean()], rtol=1e-4)
    assert history.history["loss"][0] == seen[-1]


def test_callbacks_may_add_to_the_logs():
    class Add(Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["extra"] = epoch

    model = classifier(1, "mse", None)
    assert model.fit(X, YA, epochs=2, verbose=0, callbacks=[Add()]).history["extra"] == [0, 1]


def test_own_history_and_progress_are_used(capsys):
    mine = History()
    model = classifier(1, "mse", None)
    assert model.fit(X, YA, verbose=1, callbacks=[mine, ProgbarLogger()]) is mine
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_batch_logs_are_not_computed_for_nobody(monkeypatch):
    from uniflexflow.training import loop

    asked = []
    plain = loop.logs_of
    monkeypatch.setattr(loop, "logs_of", lambda *a: asked.append(1) or plain(*a))

    class EpochsOnly(Callback):
        def on_epoch_end(self, epoch, logs=None):
            pass

    model = classifier(1, "mse", ["mae"])
    model.fit(X, YA, batch_size=1, epochs=3, verbose=2, callbacks=[EpochsOnly()])
    assert len(asked) == 3
