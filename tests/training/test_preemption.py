"""How often ranks ask each other whether to leave: by time, whatever lies between two batches."""

import time

import numpy as np

from uniflexflow.training import preemption
from uniflexflow.training.preemption import Preemption


class Ranks:
    """A communicator of two ranks that are alike; counts the questions."""

    size = 2

    def __init__(self):
        self.asked = 0

    def allreduce(self, array, op, what):
        assert op == "max"
        self.asked += 1
        return np.array(array)


def ask(monkeypatch, seconds, at_ends=()):
    """Return the batches after which a warning in batch 40 was agreed on, and the questions."""
    clock = [0.0]
    monkeypatch.setattr(preemption, "world", Ranks)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    watch = Preemption()
    for batch in range(100_000):
        clock[0] += seconds
        watch.raised = batch >= 40
        if watch.agreed(batch):
            return batch - 40, watch._comm.asked
        if batch in at_ends:  # an epoch ends: nothing lies between these questions
            watch.agreed(None)
            watch.agreed(None)
    raise AssertionError("never agreed")


def test_a_warning_waits_a_tenth_of_a_second(monkeypatch):
    late, asked = ask(monkeypatch, seconds=0.01)
    assert late * 0.01 <= 0.11
    assert asked < 20


def test_the_end_of_an_epoch_does_not_make_questions_rare(monkeypatch):
    late, _ = ask(monkeypatch, seconds=0.01, at_ends=(20, 30, 39))
    assert late * 0.01 <= 0.11


def test_fast_batches_are_not_slowed_down(monkeypatch):
    late, asked = ask(monkeypatch, seconds=1e-5)
    assert late * 1e-5 <= 0.11
    assert asked < 10
