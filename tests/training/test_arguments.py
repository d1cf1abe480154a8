"""What ``fit`` and its kin are told wrongly is refused, by name, before anything is trained."""

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import layers

X, Y = np.ones((6, 3), "float32"), np.ones((6, 1), "float32")


@pytest.fixture
def model():
    model = uff.Sequential([layers.Input((3,)), layers.Dense(1, name="head")])
    model.compile("sgd", "mse")
    return model


FIT = {
    "a negative number of epochs": ({"epochs": -1}, "`epochs`"),
    "a broken number of epochs": ({"epochs": 1.5}, "`epochs`"),
    "no number of epochs": ({"epochs": None}, "`epochs`"),
    "a negative first epoch": ({"initial_epoch": -1}, "`initial_epoch`"),
    "a batch size that is no number": ({"batch_size": True}, "`batch_size`"),
    "a split that is text": ({"validation_split": "a"}, "`validation_split`"),
    "a frequency that is text": (
        {"validation_data": (X, Y), "validation_freq": "a"},
        "`validation_freq`",
    ),
    "steps of no validation": ({"validation_steps": 3}, "nothing to validate on"),
    "batches of no validation": ({"validation_batch_size": 3}, "nothing to validate on"),
    "weights of classes as a list": ({"class_weight": [1, 2]}, "`class_weight` must be a dict"),
    "weights of classes by a word": ({"class_weight": "balanced"}, "`class_weight` must be"),
}


@pytest.mark.parametrize("case", FIT)
def test_fit_refuses(model, case):
    arguments, message = FIT[case]
    before = model.get_weights()
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y, verbose=0, **arguments)
    np.testing.assert_array_equal(model.get_weights()[0], before[0])


@pytest.mark.parametrize(
    "method", ["fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"]
)
def test_arrays_without_samples_are_refused(model, method):
    data = (X[:0],) if "predict" in method else (X[:0], Y[:0])
    with pytest.raises(ValueError, match=r"no samples; received arrays of the shapes \[\(0, 3\)"):
        getattr(model, method)(*data)


@pytest.mark.parametrize("shape", [(6, 3), (6, 1, 2)])
def test_targets_that_predictions_would_be_broadcast_to_are_refused(model, shape):
    with pytest.raises(ValueError, match=rf"targets have the shape \(6, {shape[1]}.*\(6, 1\)"):
        model.fit(X, np.ones(shape), verbose=0)


def test_a_loss_of_the_users_own_takes_any_targets(model):
    model.compile("sgd", lambda y, p: uff.ops.mean(uff.ops.abs(y[:, :1] - p), axis=-1))
    model.fit(X, np.ones((6, 3)), verbose=0)


@pytest.mark.parametrize("trained_before", [False, True])
def test_missing_targets_are_missed_by_name(model, trained_before):
    if trained_before:
        model.fit(X, Y, verbose=0)
    with pytest.raises(ValueError, match="output 'head' has a loss .'mse'. but no targets"):
        model.fit(X, verbose=0)
    with pytest.raises(ValueError, match="output 'head' has a loss .'mse'. but no targets"):
        model.fit(X, Y, validation_data=X, verbose=0)


def test_weights_that_fit_no_loss_are_refused(model):
    with pytest.raises(ValueError, match=r"`sample_weight` of shape \(6, 4\) doesn't fit"):
        model.fit(X, Y, sample_weight=np.ones((6, 4)), verbose=0)


@pytest.mark.parametrize("steps", [4, 6])
def test_one_weight_per_sample_weights_all_its_steps(steps):
    rng = np.random.default_rng(0)
    y, p, w = rng.random((6, steps, 2)), rng.random((6, steps, 2)), rng.random(6)
    loss = uff.losses.MeanSquaredError(dtype="float64")
    expected = np.mean(w[:, None] * np.mean((y - p) ** 2, axis=-1))
    np.testing.assert_allclose(loss(y, p, sample_weight=w), expected, rtol=1e-12)


def test_a_schedule_that_is_no_function_is_refused():
    with pytest.raises(TypeError, match="LearningRateScheduler: `schedule` must be a function"):
        uff.callbacks.LearningRateScheduler(0.1)


@pytest.mark.parametrize("name", ["ModelCheckpoint", "CSVLogger"])
def test_a_callback_names_itself_and_the_directory_that_it_cant_have(model, tmp_path, name):
    (tmp_path / "file").write_text("")
    callback = getattr(uff.callbacks, name)(tmp_path / "file" / "deeper" / "log.keras")
    with pytest.raises(OSError, match=f"{name}: can't .*deeper"):
        model.fit(X, Y, callbacks=[callback], verbose=0)


def test_gradients_of_one_source_need_a_list():
    x = uff.Variable(np.ones(3))
    with pytest.raises(TypeError, match="gradients: `sources` must be a list; received Variable"):
        uff.gradients(uff.ops.sum(x), x)


def test_a_loss_that_returns_nothing_is_named(model):
    model.compile("sgd", uff.losses.LossFunctionWrapper(lambda y, p: None, name="nothing"))
    with pytest.raises(TypeError, match="Loss 'nothing' returned None"):
        model.fit(X, Y, verbose=0)


@pytest.mark.parametrize("first", [True, False])
def test_a_batch_without_samples_is_refused(model, first):
    batches = [(X[:0], Y[:0])] if first else [(X, Y), (X[:0], Y[:0])]
    with pytest.raises(ValueError, match="fit: the generator gave a batch without samples"):
        model.fit((b for b in batches), verbose=0)


def test_data_that_is_no_whole_array_is_refused(model):
    with pytest.raises(ValueError, match="fit: masked arrays can't be fed"):
        model.fit(np.ma.masked_array(X, mask=np.eye(6, 3)), Y, verbose=0)
    with pytest.raises(ValueError, match="predict: the data can't be made an array"):
        model.predict([[1.0, 2.0, 3.0], [4.0]], verbose=0)
