"""Losses against loops in NumPy, against Keras, and against themselves after a round trip."""

import numpy as np
import pytest
from keras_oracle import needs_keras, run_keras

import uniflexflow as uff
from uniflexflow import losses, ops
from uniflexflow.ops.mask import set_mask

EPS = 1e-7


def clip(p):
    return np.clip(p, EPS, 1 - EPS)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def smooth(y, s):
    return y * (1 - s) + s / y.shape[-1]


def huber_row(t, p, delta):
    out = 0.0
    for a, b in zip(t, p):
        e = abs(b - a)
        out += 0.5 * e * e if e <= delta else delta * e - 0.5 * delta * delta
    return out / len(t)


def log_p(p, label):
    return -np.log(clip(p[label] / p.sum()))


def bce(t, p):
    p = clip(p)
    return -(t * np.log(p) + (1 - t) * np.log(1 - p))


def sign_labels(t, whole):
    return 2 * t - 1 if set(np.unique(whole)) <= {0.0, 1.0} else t


# name, class, arguments, kind of data, value of one sample
CASES = [
    ("MeanSquaredError", {}, "numbers", lambda t, p, c: np.mean((t - p) ** 2)),
    ("MeanAbsoluteError", {}, "numbers", lambda t, p, c: np.mean(abs(t - p))),
    (
        "MeanAbsolutePercentageError",
        {},
        "numbers",
        lambda t, p, c: 100 * np.mean(abs(t - p) / abs(t)),
    ),
    (
        "MeanSquaredLogarithmicError",
        {},
        "positive",
        lambda t, p, c: np.mean((np.log1p(t) - np.log1p(p)) ** 2),
    ),
    ("Huber", {"delta": 0.3}, "numbers", lambda t, p, c: huber_row(t, p, 0.3)),
    ("LogCosh", {}, "numbers", lambda t, p, c: np.mean(np.log(np.cosh(p - t)))),
    (
        "CosineSimilarity",
        {},
        "numbers",
        lambda t, p, c: -(t @ p) / np.linalg.norm(t) / np.linalg.norm(p),
    ),
    (
        "Hinge",
        {},
        "bits",
        lambda t, p, c: np.mean(np.maximum(1 - sign_labels(t, c) * p, 0)),
    ),
    (
        "SquaredHinge",
        {},
        "signs",
        lambda t, p, c: np.mean(np.maximum(1 - sign_labels(t, c) * p, 0) ** 2),
    ),
    (
        "CategoricalHinge",
        {},
        "one_hot",
        lambda t, p, c: max(np.max((1 - t) * p) - np.sum(t * p) + 1, 0),
    ),
    (
        "KLDivergence",
        {},
        "distribution",
        lambda t, p, c: np.sum(clip(t) * np.log(clip(t) / clip(p))),
    ),
    ("Poisson", {}, "positive", lambda t, p, c: np.mean(p - t * np.log(p + EPS))),
    ("BinaryCrossentropy", {}, "bits", lambda t, p, c: np.mean(bce(t, p))),
    (
        "BinaryCrossentropy",
        {"from_logits": True, "label_smoothing": 0.2},
        "bit_logits",
        lambda t, p, c: np.mean(bce(t * 0.8 + 0.1, 1 / (1 + np.exp(-p)))),
    ),
    (
        "BinaryFocalCrossentropy",
        {"apply_class_balancing": True, "alpha": 0.4, "gamma": 1.5},
        "bits",
        lambda t, p, c: np.mean(
            (t * 0.4 + (1 - t) * 0.6) * (1 - (t * p + (1 - t) * (1 - p))) ** 1.5 * bce(t, p)
        ),
    ),
    (
        "CategoricalCrossentropy",
        {"label_smoothing": 0.1},
        "one_hot",
        lambda t, p, c: -np.sum(smooth(t, 0.1) * np.log(clip(p / p.sum()))),
    ),
    (
        "CategoricalCrossentropy",
        {"from_logits": True},
        "one_hot_logits",
        lambda t, p, c: -np.sum(t * np.log(softmax(p))),
    ),
    (
        "CategoricalFocalCrossentropy",
        {"alpha": 0.5, "gamma": 1.5},
        "one_hot",
        lambda t, p, c: (
            -np.sum(0.5 * (1 - clip(p / p.sum())) ** 1.5 * t * np.log(clip(p / p.sum())))
        ),
    ),
    ("SparseCategoricalCrossentropy", {}, "labels", lambda t, p, c: log_p(p, t)),
    (
        "SparseCategoricalCrossentropy",
        {"from_logits": True},
        "label_logits",
        lambda t, p, c: -np.log(softmax(p)[t]),
    ),
    (
        "SparseCategoricalCrossentropy",
        {"ignore_class": 1},
        "labels",
        lambda t, p, c: 0.0 if t == 1 else log_p(p, t),
    ),
    (
        "CategoricalGeneralizedCrossEntropy",
        {"q": 0.7},
        "labels",
        lambda t, p, c: (1 - p[t] ** 0.7) / 0.7,
    ),
    (
        "Dice",
        {"axis": -1},
        "one_hot",
        lambda t, p, c: 1 - 2 * np.sum(t * p) / (t.sum() + p.sum() + EPS),
    ),
    (
        "Tversky",
        {"alpha": 0.3, "beta": 0.6, "axis": -1},
        "one_hot",
        lambda t, p, c: (
            1
            - np.sum(t * p)
            / (np.sum(t * p) + 0.3 * np.sum((1 - p) * t) + 0.6 * np.sum(p * (1 - t)) + EPS)
        ),
    ),
]
IDS = [f"{name}-{'-'.join(map(str, args.values()))}" for name, args, _, _ in CASES]


def data(kind, n=7, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    p = rng.dirichlet(np.ones(classes), n) * 0.9 + 0.01
    x = rng.normal(size=(n, classes)) * 2
    return {
        "numbers": lambda: (rng.normal(size=(n, classes)) + 0.1, x),
        "positive": lambda: (rng.random((n, classes)) * 4 + 0.1, rng.random((n, classes)) + 0.1),
        "bits": lambda: (rng.integers(0, 2, (n, classes)).astype(float), p),
        "bit_logits": lambda: (rng.integers(0, 2, (n, classes)).astype(float), x),
        "signs": lambda: (rng.integers(0, 2, (n, classes)) * 2.0 - 1, x),
        "one_hot": lambda: (np.eye(classes)[labels], p),
        "one_hot_logits": lambda: (np.eye(classes)[labels], x),
        "distribution": lambda: (rng.dirichlet(np.ones(classes), n), p),
        "labels": lambda: (labels, p),
        "label_logits": lambda: (labels, x),
    }[kind]()


def make(cls, args, **more):
    return getattr(losses, cls)(**args, **more)


@pytest.mark.parametrize(("name", "args", "kind", "oracle"), CASES, ids=IDS)
def test_values_are_those_of_a_loop(name, args, kind, oracle):
    y_true, y_pred = data(kind)
    loss = make(name, args, reduction="none", dtype="float64")
    expected = [oracle(t, p, y_true) for t, p in zip(y_true, y_pred)]
    np.testing.assert_allclose(loss(y_true, y_pred), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("name", "args", "kind", "oracle"), CASES, ids=IDS)
def test_gradient_is_that_of_differences(name, args, kind, oracle, rng):
    y_true, y_pred = data(kind)
    loss = make(name, args, dtype="float64")
    step = uff.compiler.Function(lambda t, p: uff.gradients(loss(t, p), [p])[0])
    way = rng.normal(size=y_pred.shape)
    h = 1e-6
    difference = (loss(y_true, y_pred + h * way) - loss(y_true, y_pred - h * way)) / (2 * h)
    slope = np.sum(step(y_true, y_pred) * way)
    np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-7)


def test_reductions():
    y_true, y_pred = data("numbers")
    weights = np.arange(1.0, 8.0)
    each = np.mean((y_true - y_pred) ** 2, -1)
    expected = {
        "sum_over_batch_size": np.sum(each * weights) / 7,
        "mean": np.sum(each * weights) / 7,
        "sum": np.sum(each * weights),
        "mean_with_sample_weight": np.sum(each * weights) / weights.sum(),
        "none": each * weights,
        None: each * weights,
    }
    for reduction, value in expected.items():
        loss = losses.MeanSquaredError(reduction=reduction, dtype="float64")
        np.testing.assert_allclose(loss(y_true, y_pred, weights), value, rtol=1e-12)
        column = np.squeeze(loss(y_true, y_pred, weights[:, None]))
        np.testing.assert_allclose(column, value, rtol=1e-12)
    with pytest.raises(ValueError, match="Invalid value for argument `reduction`: 'average'"):
        losses.MeanSquaredError(reduction="average")


def test_mask_counts_only_valid_steps():
    y_true, y_pred = np.zeros((2, 3, 1)), np.array([[1.0, 2, 9], [1, 9, 9]])[..., None]
    mask = np.array([[True, True, False], [True, False, False]])
    loss = losses.MeanSquaredError(dtype="float64")

    def masked(t, p, m):
        set_mask(p, m)
        return loss(t, p), losses.MeanSquaredError(reduction="sum", dtype="float64")(t, p)

    mean, total = uff.compiler.Function(masked)(y_true, y_pred, mask)
    assert mean == 2.0  # (1 + 4 + 1) / 3
    assert total == 6.0
    nothing = uff.compiler.Function(masked)(y_true, y_pred, np.zeros((2, 3), bool))
    assert nothing[0] == 0.0


def test_ignored_class_does_not_count_in_the_mean():
    y_true, y_pred = data("labels")
    kept = y_true != 1
    assert kept.any() and not kept.all()
    full = losses.SparseCategoricalCrossentropy(ignore_class=1, dtype="float64")
    part = losses.SparseCategoricalCrossentropy(dtype="float64")
    np.testing.assert_allclose(full(y_true, y_pred), part(y_true[kept], y_pred[kept]))
    step = uff.compiler.Function(lambda t, p: uff.gradients(full(t, p), [p])[0])
    gradient = step(y_true, np.where(kept[:, None], y_pred, 0.0))
    assert np.isfinite(gradient).all()
    assert (gradient[~kept] == 0).all()


def test_large_labels_are_not_rounded():
    n = 2**24 + 2
    y_pred = np.zeros((1, 4), "float32")
    loss = losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    assert np.isnan(loss(np.array([n + 1]), y_pred))  # no such class
    assert loss(np.array([3]), y_pred) == pytest.approx(np.log(4))


@pytest.mark.parametrize("from_logits", [False, True])
def test_a_label_that_is_no_class_shows(from_logits):
    """Its loss is NaN, not 0: a wrong label must not pass for a right prediction."""
    loss = losses.SparseCategoricalCrossentropy(from_logits=from_logits, reduction="none")
    y_pred = np.full((3, 4), 0.25, "float32")
    np.testing.assert_array_equal(np.isnan(loss(np.array([4, -1, 3]), y_pred)), [True, True, False])
    ignoring = losses.SparseCategoricalCrossentropy(from_logits=from_logits, ignore_class=-1)
    assert ignoring(np.array([3, -1, 3]), y_pred) == pytest.approx(np.log(4))
    general = losses.categorical_generalized_cross_entropy(np.array([4, -1, 3]), y_pred, 0.5)
    np.testing.assert_array_equal(np.isnan(general), [True, True, False])


def test_padding_without_weight_may_be_no_class():
    y, y_pred = np.array([0, 1, -1, -1]), np.zeros((4, 4), "float32")
    weight = np.array([1.0, 1.0, 0.0, 0.0], "float32")
    loss = losses.SparseCategoricalCrossentropy(from_logits=True)
    assert loss(y, y_pred, sample_weight=weight) == pytest.approx(np.log(4) / 2)
    assert np.isnan(loss(y, y_pred, sample_weight=weight + 0.5))


def test_padding_that_is_masked_may_be_no_class():
    loss = losses.SparseCategoricalCrossentropy(from_logits=True)
    y_true = np.array([[0, 1, -1], [2, -1, -1]])
    y_pred = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")

    def masked(t, p, m):
        set_mask(p, m)
        value = loss(t, p)
        return value, uff.gradients(value, [p])[0]

    kept = y_true >= 0
    value, gradient = uff.compiler.Function(masked)(y_true, y_pred, kept)
    np.testing.assert_allclose(value, loss(y_true[kept], y_pred[kept]), rtol=1e-6)
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal((gradient != 0).any(-1), kept)


def test_class_axis_may_be_elsewhere():
    y_true, y_pred = data("label_logits", n=6)
    last = losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
    first = losses.sparse_categorical_crossentropy(y_true, y_pred.T, from_logits=True, axis=0)
    np.testing.assert_allclose(first, last)


@pytest.mark.parametrize("name", ["BinaryCrossentropy", "CategoricalCrossentropy"])
def test_shapes_that_do_not_fit(name):
    with pytest.raises(ValueError, match=r"must have the same shape.*\(5, 3\).*\(5, 4\)"):
        getattr(losses, name)()(np.zeros((5, 3)), np.zeros((5, 4)))


def test_labels_that_do_not_fit():
    with pytest.raises(ValueError, match=r"y_true.shape=\(5, 4\).*use categorical_crossentropy"):
        losses.SparseCategoricalCrossentropy()(np.zeros((5, 4), int), np.zeros((5, 4)))


def test_saturated_probabilities_stay_finite():
    y_true, y_pred = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    for name in ("BinaryCrossentropy", "CategoricalCrossentropy", "KLDivergence", "Poisson"):
        assert np.isfinite(getattr(losses, name)()(y_true, y_pred)), name
    logits = np.array([[-1e4, 1e4]])
    for name in ("BinaryCrossentropy", "CategoricalCrossentropy"):
        value = getattr(losses, name)(from_logits=True)(y_true, logits)
        assert value == pytest.approx(1e4 if name[0] == "B" else 2e4)


@pytest.mark.parametrize(("name", "args", "kind", "oracle"), CASES, ids=IDS)
def test_round_trip_keeps_the_numbers(name, args, kind, oracle):
    y_true, y_pred = data(kind)
    loss = make(name, args, reduction="sum", name="mine", dtype="float64")
    again = losses.deserialize(losses.serialize(loss))
    assert type(again) is type(loss)
    assert (again.name, again.reduction) == ("mine", "sum")
    assert again(y_true, y_pred) == loss(y_true, y_pred)
    if args:  # which would pass above if both had forgotten them
        default = getattr(losses, name)(reduction="sum", dtype="float64")
        assert abs(default(y_true, y_pred) - loss(y_true, y_pred)) > 1e-6


def test_names():
    assert losses.get("mse") is losses.mean_squared_error
    assert losses.get("KLD") is losses.kl_divergence
    assert isinstance(losses.get("BinaryCrossentropy"), losses.BinaryCrossentropy)
    config = {"class_name": "CategoricalCrossentropy", "config": {"from_logits": True}}
    assert losses.get(config).fn_kwargs["from_logits"] is True
    assert losses.get(None) is None
    with pytest.raises(ValueError, match="Unknown loss 'msee'; expected one of"):
        losses.get("msee")
    with pytest.raises(ValueError, match="Could not interpret loss identifier: 3"):
        losses.get(3)


def test_user_functions_and_classes():
    class Scaled(losses.Loss):
        def __init__(self, scale=1.0, **kwargs):
            super().__init__(**kwargs)
            self.scale = scale

        def call(self, y_true, y_pred):
            return self.scale * ops.mean(ops.abs(y_true - y_pred), axis=-1)

    y_true, y_pred = np.zeros((2, 2)), np.ones((2, 2))
    assert Scaled(3.0)(y_true, y_pred) == 3.0
    assert Scaled().name.startswith("scaled")
    wrapped = losses.LossFunctionWrapper(lambda t, p, k: k * ops.sum(p - t, axis=-1), k=2.0)
    assert wrapped(y_true, y_pred) == 4.0
    with pytest.raises(NotImplementedError, match="must define `call"):
        losses.Loss()(y_true, y_pred)


KERAS = """
keras.config.set_floatx("float64")
for key, (name, args, y_true, y_pred, weights) in inputs["cases"].items():
    cls = getattr(keras.losses, name)
    outputs[key] = [
        np.asarray(cls(**args, reduction=r, dtype="float64")(y_true, y_pred, weights))
        for r in ("sum_over_batch_size", "mean_with_sample_weight", "none")
    ]
"""


@pytest.mark.slow
@needs_keras
def test_keras_gives_the_same():
    cases = {
        key: (name, args, *data(kind, seed=3), np.linspace(0.5, 2, 7))
        for key, (name, args, kind, _) in zip(IDS, CASES)
    }
    for key, values in run_keras(KERAS, cases=cases).items():
        name, args, y_true, y_pred, weights = cases[key]
        for reduction, expected in zip(
            ("sum_over_batch_size", "mean_with_sample_weight", "none"), values
        ):
            got = make(name, args, reduction=reduction, dtype="float64")(y_true, y_pred, weights)
            # Keras takes means in float32
            np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=f"{key} {reduction}")
