"""Metrics against loops and sorts in NumPy, and against Keras, over several batches."""

import inspect
import math

import numpy as np
import pytest
from keras_oracle import needs_keras, run_keras

import uniflexflow as uff
from uniflexflow import losses, metrics, ops
from uniflexflow.metrics import resolve
from uniflexflow.ops.mask import set_mask

N, CLASSES, BATCHES = 9, 4, 3


def batches(kind, seed=0):
    """Return (y_true, y_pred, sample_weight) of some batches, the last one smaller."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(BATCHES):
        n = N - 4 * (i == BATCHES - 1)
        labels = rng.integers(0, CLASSES, n)
        p = rng.dirichlet(np.ones(CLASSES), n)
        x = rng.normal(size=(n, CLASSES))
        y_true, y_pred = {
            "numbers": lambda x=x: (rng.normal(size=x.shape), x),
            "positive": lambda p=p: (rng.random(p.shape) + 0.1, p + 0.1),
            "labels": lambda labels=labels, p=p: (labels, p),
            "one_hot": lambda labels=labels, p=p: (np.eye(CLASSES)[labels], p),
            "label_logits": lambda labels=labels, x=x: (labels, x),
            "one_hot_logits": lambda labels=labels, x=x: (np.eye(CLASSES)[labels], x),
            "bits": lambda p=p: (rng.integers(0, 2, p.shape).astype(float), p),
            "bit": lambda n=n: (rng.integers(0, 2, (n, 1)).astype(float), rng.random((n, 1))),
            "edge_bit": lambda n=n: (
                rng.integers(0, 2, (n, 1)).astype(float),
                rng.integers(0, 5, (n, 1)) / 4,
            ),
            "bit_logits": lambda x=x: (rng.integers(0, 2, x.shape).astype(float), x),
            "classes": lambda labels=labels, n=n: (labels, rng.integers(0, CLASSES, n)),
            "ids": lambda labels=labels, p=p: (labels, np.argsort(-p, -1).astype(float)),
        }[kind]()
        out.append((y_true, y_pred, rng.random(n) + 0.5))
    return out


# class, arguments, kind of data
CASES = [
    ("MeanSquaredError", {}, "numbers"),
    ("MeanAbsoluteError", {}, "numbers"),
    ("MeanAbsolutePercentageError", {}, "numbers"),
    ("MeanSquaredLogarithmicError", {}, "positive"),
    ("RootMeanSquaredError", {}, "numbers"),
    ("LogCoshError", {}, "numbers"),
    ("CosineSimilarity", {}, "numbers"),
    ("R2Score", {}, "numbers"),
    ("R2Score", {"class_aggregation": None}, "numbers"),
    ("R2Score", {"class_aggregation": "variance_weighted_average"}, "numbers"),
    ("R2Score", {"num_regressors": 2}, "numbers"),
    ("Hinge", {}, "bits"),
    ("SquaredHinge", {}, "bits"),
    ("CategoricalHinge", {}, "one_hot"),
    ("KLDivergence", {}, "positive"),
    ("Poisson", {}, "positive"),
    ("BinaryCrossentropy", {"label_smoothing": 0.1}, "bits"),
    ("BinaryCrossentropy", {"from_logits": True}, "bit_logits"),
    ("CategoricalCrossentropy", {"label_smoothing": 0.1}, "one_hot"),
    ("CategoricalCrossentropy", {"from_logits": True}, "one_hot_logits"),
    ("SparseCategoricalCrossentropy", {"from_logits": True}, "label_logits"),
    ("SparseCategoricalCrossentropy", {"ignore_class": 1}, "labels"),
    ("Accuracy", {}, "classes"),
    ("BinaryAccuracy", {"threshold": 0.4}, "bit"),
    ("CategoricalAccuracy", {}, "one_hot"),
    ("SparseCategoricalAccuracy", {}, "labels"),
    ("TopKCategoricalAccuracy", {"k": 2}, "one_hot"),
    ("SparseTopKCategoricalAccuracy", {"k": 2}, "labels"),
    ("SparseTopKCategoricalAccuracy", {"k": 2, "from_sorted_ids": True}, "ids"),
    ("Precision", {}, "bit"),
    ("Precision", {"thresholds": [0.2, 0.7]}, "bits"),
    ("Precision", {"top_k": 2}, "one_hot"),
    ("Precision", {"class_id": 2, "thresholds": 0.3}, "one_hot"),
    ("Recall", {}, "bit"),
    ("Recall", {"thresholds": [0.0, 0.5, 1.0]}, "edge_bit"),
    ("Recall", {"top_k": 2, "class_id": 1}, "one_hot"),
    ("TruePositives", {"thresholds": [0.2, 0.7]}, "bit"),
    ("FalsePositives", {}, "bit"),
    ("TrueNegatives", {}, "bit"),
    ("FalseNegatives", {"thresholds": 0.6}, "bit"),
    ("AUC", {}, "bit"),
    ("AUC", {"num_thresholds": 5}, "edge_bit"),
    ("AUC", {"curve": "PR"}, "bit"),
    ("AUC", {"curve": "PR", "summation_method": "majoring"}, "bit"),
    ("AUC", {"curve": "PRGAIN", "summation_method": "minoring"}, "bit"),
    ("AUC", {"thresholds": [0.1, 0.15, 0.6]}, "bit"),
    ("AUC", {"from_logits": True}, "bit_logits"),
    ("AUC", {"multi_label": True, "label_weights": [1.0, 2.0, 3.0, 4.0]}, "bits"),
    ("AUC", {"multi_label": True, "num_labels": 4, "curve": "PR"}, "bits"),
    ("AUC", {"label_weights": [1.0, 2.0, 3.0, 4.0]}, "bits"),
    ("SensitivityAtSpecificity", {"specificity": 0.6}, "bit"),
    ("SpecificityAtSensitivity", {"sensitivity": 0.6, "num_thresholds": 50}, "bit"),
    ("PrecisionAtRecall", {"recall": 0.6}, "bit"),
    ("RecallAtPrecision", {"precision": 0.6}, "bit"),
    ("RecallAtPrecision", {"precision": 0.4, "class_id": 1}, "one_hot"),
    ("F1Score", {}, "one_hot"),
    ("F1Score", {"average": "macro", "threshold": 0.3}, "one_hot"),
    ("FBetaScore", {"average": "micro", "beta": 2.0}, "one_hot"),
    ("FBetaScore", {"average": "weighted", "beta": 0.5}, "one_hot"),
    ("MeanIoU", {"num_classes": CLASSES}, "classes"),
    ("MeanIoU", {"num_classes": CLASSES, "sparse_y_pred": False, "ignore_class": 2}, "labels"),
    ("IoU", {"num_classes": CLASSES, "target_class_ids": [0, 2]}, "classes"),
    ("OneHotIoU", {"num_classes": CLASSES, "target_class_ids": [1]}, "one_hot"),
    ("OneHotMeanIoU", {"num_classes": CLASSES}, "one_hot"),
    ("BinaryIoU", {"threshold": 0.3}, "bit"),
]
IDS = [f"{name}-{'-'.join(map(str, args.values()))}-{kind}" for name, args, kind in CASES]


@pytest.fixture(autouse=True)
def float64():
    uff.ops.dtypes.set_floatx("float64")
    yield
    uff.ops.dtypes.set_floatx("float32")


def run(metric, data, weighted, traced=False):
    def update(y_true, y_pred, weight):
        metric.update_state(y_true, y_pred, weight)
        return metric.result()

    step = uff.compiler.Function(update) if traced else update
    for y_true, y_pred, weight in data:
        result = step(y_true, y_pred, weight if weighted else None)
    return np.asarray(result)


def make(case, **more):
    name, args, _ = case
    return getattr(metrics, name)(**args, **more)


def takes_weights(case):
    # Keras cuts the weights of these to integers
    return "IoU" not in case[0]


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_arrays_and_traces_give_the_same(case, weighted):
    data = batches(case[2])
    a, b = run(make(case), data, weighted), run(make(case), data, weighted, traced=True)
    np.testing.assert_allclose(a, b, rtol=1e-14)
    assert a.dtype == "float64"


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_batches_do_not_matter(case):
    """Samples in batches, at once, and in another order give one number."""
    data = batches(case[2])
    if case[0] in ("Hinge", "SquaredHinge"):
        data = [(2 * t - 1, p, w) for t, p, w in data]  # 0/1 labels are told by the batch
    whole = [np.concatenate(xs)[::-1].copy() for xs in zip(*data)]
    a = run(make(case), data, True, traced=True)
    np.testing.assert_allclose(a, run(make(case), [whole], True, traced=True), rtol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_reset_forgets_everything(case):
    data = batches(case[2])
    metric = make(case)
    a = run(metric, data, True)
    metric.reset_state()
    assert metric.variables and all((v.array == 0).all() for v in metric.variables)
    np.testing.assert_array_equal(run(metric, data, True), a)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_round_trip_keeps_the_numbers(case):
    data = batches(case[2])
    metric = make(case, name="mine")
    again = metrics.deserialize(metrics.serialize(metric))
    assert type(again) is type(metric) and again.name == "mine"
    np.testing.assert_array_equal(run(again, data, True), run(metric, data, True))


def test_every_class_is_in_the_table():
    classes = {
        name
        for name in metrics.__all__
        if inspect.isclass(getattr(metrics, name))
        and name not in ("Metric", "Mean", "Sum", "MeanMetricWrapper")
    }
    assert classes == {name for name, _, _ in CASES}


KERAS = """
keras.config.set_floatx("float64")
for key, (name, args, weighted, data) in inputs["cases"].items():
    metric = getattr(keras.metrics, name)(**args)
    for y_true, y_pred, weight in data:
        metric.update_state(y_true, y_pred, sample_weight=weight if weighted else None)
    outputs[key] = np.asarray(metric.result())
"""


@pytest.mark.slow
@needs_keras
def test_keras_gives_the_same():
    cases = {
        (i, weighted): (case[0], case[1], weighted, batches(case[2], seed=5))
        for i, case in enumerate(CASES)
        for weighted in (False, True)
        if takes_weights(case) or not weighted
    }
    for (i, weighted), expected in run_keras(KERAS, cases=cases).items():
        case = CASES[i]
        got = run(make(case), batches(case[2], seed=5), weighted)
        # Keras takes means in float32
        np.testing.assert_allclose(
            got, expected, rtol=3e-6, atol=1e-6, err_msg=f"{IDS[i]} weighted={weighted}"
        )


# -- oracles of their own ----------------------------------------------------------------


def test_area_is_the_share_of_ordered_pairs():
    """With a threshold between any two predictions, ROC-AUC = P(positive > negative)."""
    data = batches("bit")
    y_true, y_pred = (np.concatenate(xs).ravel() for xs in list(zip(*data))[:2])
    cuts = np.sort(y_pred)
    cuts = (cuts[1:] + cuts[:-1]) / 2
    got = run(metrics.AUC(thresholds=cuts.tolist()), data, False)
    pairs = y_pred[y_true == 1][:, None] > y_pred[y_true == 0][None]
    assert got == pytest.approx(pairs.mean(), rel=1e-12)


def test_counts_by_hand():
    y_true, y_pred = np.array([1, 1, 0, 0, 1.0]), np.array([0.9, 0.4, 0.6, 0.5, 0.51])
    weights = np.array([1.0, 2, 4, 8, 16])
    counts = {
        name: float(getattr(metrics, name)()(y_true, y_pred, weights))
        for name in ("TruePositives", "FalsePositives", "TrueNegatives", "FalseNegatives")
    }
    assert list(counts.values()) == [17.0, 4.0, 8.0, 2.0]
    assert metrics.Precision()(y_true, y_pred, weights) == pytest.approx(17 / 21)
    assert metrics.Recall()(y_true, y_pred, weights) == pytest.approx(17 / 19)
    assert metrics.Precision()(y_true * 0, y_pred * 0) == 0.0  # nothing found, nothing there


def test_even_thresholds_take_the_short_way_to_the_same_counts():
    rng = np.random.default_rng(0)
    y_true, y_pred = rng.integers(0, 2, (50, 3)), rng.integers(0, 9, (50, 3)) / 8
    even = metrics.TruePositives(thresholds=[0.0, 0.25, 0.5, 0.75, 1.0])
    odd = metrics.TruePositives(thresholds=[0.0, 0.25, 0.5, 0.75, 0.9, 1.0])
    assert even._even and not odd._even
    a, b = np.asarray(even(y_true, y_pred)), np.asarray(odd(y_true, y_pred))
    np.testing.assert_array_equal(a, np.delete(b, 4))
    assert a[0] == np.sum(y_true * (y_pred > 0))


def test_top_k_keeps_ties():
    y_pred = np.array([[0.4, 0.4, 0.2], [0.1, 0.2, 0.7]])
    assert metrics.SparseTopKCategoricalAccuracy(k=1)(np.array([1, 1]), y_pred) == 0.5


def test_totals_are_exact():
    metric = metrics.Mean(dtype="float32")
    for _ in range(3):
        metric.update_state(np.array([2.0**24, 1.0], "float32"))
    assert float(metric.total.array) == 3 * (2**24 + 1)
    assert [v.dtype for v in metric.variables] == ["float64"] * 2


def test_mean_of_samples_with_steps():
    values = np.array([[1.0, 3.0], [5.0, 7.0]])
    assert metrics.Mean()(values) == 4.0
    assert metrics.Mean()(values, np.array([1.0, 3.0])) == (2 + 18) / 4
    assert metrics.Mean()(values, np.array([[1.0, 0.0], [0.0, 1.0]])) == 4.0
    assert metrics.Mean()(3.0) == 3.0
    assert metrics.Mean().result() == 0.0
    assert metrics.Sum()(values, np.array([1.0, 2.0])) == 28.0


def test_mask_of_predictions_counts():
    metric = metrics.MeanSquaredError()

    def update(y_true, y_pred, mask):
        set_mask(y_pred, mask)
        metric.update_state(y_true, y_pred)
        return metric.result()

    y_pred = np.array([[1.0, 2, 9], [1, 9, 9]])[..., None]
    mask = np.array([[True, True, False], [True, False, False]])
    # as Keras: samples' means over their steps, over the weights' means
    got = uff.compiler.Function(update)(np.zeros((2, 3, 1)), y_pred, mask)
    assert got == pytest.approx((5 / 3 + 1 / 3) / (2 / 3 + 1 / 3))


def test_masked_padding_may_be_no_class():
    metric = metrics.SparseCategoricalCrossentropy(from_logits=True)

    def update(y_true, y_pred, mask):
        set_mask(y_pred, mask)
        metric.update_state(y_true, y_pred)
        return metric.result()

    y_true = np.array([[0, 1, -1], [2, -1, -1]])
    got = uff.compiler.Function(update)(y_true, np.zeros((2, 3, 4), "float32"), y_true >= 0)
    assert got == pytest.approx(np.log(4))


def test_adjusted_score_falls_back():
    y_true, y_pred = np.array([[1.0], [2.0], [4.0]]), np.array([[1.0], [2.5], [3.0]])
    plain = metrics.R2Score()(y_true, y_pred)
    assert metrics.R2Score(num_regressors=2)(y_true, y_pred) == plain
    assert metrics.R2Score(num_regressors=1)(y_true, y_pred) == pytest.approx(
        1 - (1 - plain) * 2 / 1
    )


# -- names -------------------------------------------------------------------------------


def test_names():
    assert isinstance(metrics.get("mse"), metrics.MeanSquaredError)
    assert isinstance(metrics.get("AUC"), metrics.AUC)
    assert isinstance(metrics.get("auc"), metrics.AUC)
    assert isinstance(metrics.get("f1_score"), metrics.F1Score)
    assert isinstance(metrics.get("binary_accuracy"), metrics.BinaryAccuracy)
    with pytest.raises(ValueError, match="Unknown metric 'acuracy'"):
        metrics.get("acuracy")
    with pytest.raises(ValueError, match="Could not interpret metric identifier: 3"):
        metrics.get(3)


@pytest.mark.parametrize(
    ("true", "pred", "kind"),
    [
        ((8, 1), (8, 1), "Binary"),
        ((8,), (8, 1), "Binary"),
        ((8,), (8, 3), "SparseCategorical"),
        ((8, 1), (8, 3), "SparseCategorical"),
        ((8, 5), (8, 5, 3), "SparseCategorical"),
        ((8, 3), (8, 3), "Categorical"),
    ],
)
def test_accuracy_is_resolved_by_shapes(true, pred, kind):
    y_true, y_pred = np.zeros(true), np.zeros(pred)
    for name in ("accuracy", "acc", "Accuracy"):
        metric = resolve.resolve_metric(name, y_true, y_pred)
        assert type(metric) is getattr(metrics, f"{kind}Accuracy")
        assert metric.name == name
    for name in ("crossentropy", "ce"):
        metric = resolve.resolve_metric(name, y_true, y_pred)
        assert type(metric) is getattr(metrics, f"{kind}Crossentropy")
        loss = resolve.resolve_loss(name, y_true, y_pred)
        assert type(loss) is getattr(losses, f"{kind}Crossentropy")


def test_resolved_names_are_those_that_logs_show():
    y = np.zeros((4, 2))

    def my_error(y_true, y_pred):
        return ops.mean(y_true - y_pred, axis=-1)

    assert resolve.resolve_metric("mse", y, y).name == "mse"
    assert resolve.resolve_metric(my_error, y, y).name == "my_error"
    assert resolve.resolve_metric(metrics.AUC(name="area"), y, y).name == "area"
    assert resolve.resolve_metric(None, y, y) is None
    assert resolve.resolve_loss("mse", y, y).name == "mean_squared_error"
    assert resolve.resolve_loss(my_error, y, y).name == "my_error"


def test_automatic_names_count_up():
    uff.naming.reset()
    assert [metrics.AUC().name for _ in range(3)] == ["auc", "auc_1", "auc_2"]


def test_directions():
    up = {"Accuracy", "AUC", "Precision", "Recall", "CosineSimilarity", "R2Score", "F1Score"}
    for case in CASES:
        direction = make(case)._direction
        if "Positives" in case[0] or "Negatives" in case[0]:
            assert direction is None  # neither way is better
            continue
        assert direction in ("up", "down")
        if case[0] in up:
            assert direction == "up"
        if "Error" in case[0] or "entropy" in case[0]:
            assert direction == "down"


# -- the face ----------------------------------------------------------------------------


def test_user_metric_with_float32_values():
    uff.ops.dtypes.set_floatx("float32")

    class Last(metrics.Metric):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.last = self.add_weight(name="last")
            self.inner = metrics.Mean()

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.last.assign(ops.mean(y_pred))
            self.inner.update_state(y_pred)

        def result(self):
            return self.last + self.inner.result()

    metric = Last()
    step = uff.compiler.Function(lambda p: (metric.update_state(None, p), metric.result())[1])
    step(np.ones(4, "float32"))
    assert step(np.full(4, 2.0, "float32")) == 2.0 + 1.5
    assert len(metric.variables) == 3


def test_errors():
    with pytest.raises(ValueError, match=r"threshold values must be in \[0, 1\]; received \[2\]"):
        metrics.Precision(thresholds=2)
    with pytest.raises(ValueError, match="expects 2D inputs"):
        metrics.F1Score()(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="must be in the range"):
        metrics.RecallAtPrecision(1.5)
    with pytest.raises(ValueError, match="invalid value for argument `curve`: 'XY'"):
        metrics.AUC(curve="XY")
    with pytest.raises(ValueError, match=r"shape \(3, 2\).*shape \(3, 3\)"):
        metrics.Precision()(np.zeros((3, 2)), np.zeros((3, 3)))
    with pytest.raises(NotImplementedError, match="must define `update_state`"):
        metrics.Metric().update_state()


def test_f_score_of_perfect_predictions():
    y = np.eye(3)
    got = np.asarray(metrics.F1Score()(y, y))
    np.testing.assert_allclose(got, np.ones(3), rtol=1e-6)
    assert math.isclose(metrics.FBetaScore("micro", 2.0)(y, y[::-1]), 1 / 3, rel_tol=1e-6)
