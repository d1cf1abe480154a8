"""No constructor's argument is missing from a configuration.

That the numbers are the same after a round trip is tested beside each kind of object; this
looks for arguments that a class and its test might have forgotten together.
"""

import inspect

import pytest

from uniflexflow import losses, metrics, optimizers
from uniflexflow.optimizers import schedules

NEEDED = {
    "CategoricalGeneralizedCrossEntropy": {"q": 0.3},
    "IoU": {"num_classes": 3, "target_class_ids": [0]},
    "MeanIoU": {"num_classes": 3},
    "OneHotIoU": {"num_classes": 3, "target_class_ids": [0]},
    "OneHotMeanIoU": {"num_classes": 3},
    "SensitivityAtSpecificity": {"specificity": 0.5},
    "SpecificityAtSensitivity": {"sensitivity": 0.5},
    "PrecisionAtRecall": {"recall": 0.5},
    "RecallAtPrecision": {"precision": 0.5},
    "AUC": {"thresholds": [0.5]},
    "ExponentialDecay": {"initial_learning_rate": 0.1, "decay_steps": 3, "decay_rate": 0.5},
    "InverseTimeDecay": {"initial_learning_rate": 0.1, "decay_steps": 3, "decay_rate": 0.5},
    "PolynomialDecay": {"initial_learning_rate": 0.1, "decay_steps": 3},
    "CosineDecay": {"initial_learning_rate": 0.1, "decay_steps": 3},
    "CosineDecayRestarts": {"initial_learning_rate": 0.1, "first_decay_steps": 3},
    "PiecewiseConstantDecay": {"boundaries": [1], "values": [0.1, 0.2]},
}
BASES = (
    losses.Loss,
    losses.LossFunctionWrapper,
    metrics.Metric,
    metrics.MeanMetricWrapper,
    optimizers.Optimizer,
    schedules.LearningRateSchedule,
)


def classes():
    for room in (losses, metrics, optimizers, schedules):
        for name, cls in vars(room).items():
            if inspect.isclass(cls) and issubclass(cls, BASES) and cls not in BASES:
                if name[0] != "_":
                    yield room, name, cls


def arguments(cls):
    """Return the names of a constructor's arguments, those of its bases behind ** too."""
    names = set()
    for c in cls.__mro__:
        if "__init__" not in vars(c) or c is object:
            continue
        parameters = inspect.signature(c.__init__).parameters.values()
        names |= {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return names - {"self"}


CLASSES = list(classes())


@pytest.mark.parametrize(
    ("room", "name", "cls"), CLASSES, ids=[f"{r.__name__[12:]}.{n}" for r, n, _ in CLASSES]
)
def test_every_argument_is_in_the_configuration(room, name, cls):
    given = dict(NEEDED.get(name, {}))
    if room is losses:
        given["dtype"] = "float64"
    obj = cls(**given)
    config = obj.get_config()
    assert arguments(cls) - set(config) == set()
    assert set(config) - arguments(cls) == set()  # which the constructor would refuse
    again = room.deserialize(room.serialize(obj))
    assert type(again) is cls
    assert again.get_config() == config


def test_there_are_many():
    assert len(CLASSES) >= 75
