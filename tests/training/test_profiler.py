"""Profiler: a table that adds up, a trace that viewers read, and nothing when it is not used."""

import json

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import layers
from uniflexflow.machine.measure import copy_bandwidth, peak_flops
from uniflexflow.runtime import profile
from uniflexflow.training import loop


def sequential():
    return uff.Sequential(
        [
            uff.Input((16, 16, 3)),
            layers.Conv2D(16, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(4, name="head"),
        ]
    )


def functional():
    inputs = uff.Input((16, 16, 3))
    x = layers.Conv2D(8, 3)(inputs)
    x = layers.Add()([x, layers.ReLU()(x)])
    return uff.Model(inputs, layers.Dense(4, name="head")(layers.Flatten()(x)))


def fitted(make=sequential, samples=96, epochs=1, callbacks=(), **options):
    profiler = uff.Profiler(**options)
    model = make()
    model.compile("adam", "mse")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(samples, 16, 16, 3)).astype("float32")
    y = rng.normal(size=(samples, 4)).astype("float32")
    model.fit(x, y, batch_size=16, epochs=epochs, verbose=0, callbacks=[profiler, *callbacks])
    return profiler, model


@pytest.mark.parametrize("make", [sequential, functional])
def test_the_rows_add_up_to_the_step(make):
    profiler, _ = fitted(make, steps=(2, 5), verbose=0)
    found = profiler.profile
    assert [s.number for s in found.steps] == [2, 3, 4, 5]
    assert len(found.gaps) == 3 and min(found.gaps) > 0
    for key in (profile.operation_of, profile.layer_of):
        *rows, outside = found.rows(key)
        assert sum(r.seconds for r in rows) + outside.seconds == pytest.approx(found.seconds)
        assert all(r.seconds > 0 for r in rows)
        assert 0 < outside.seconds < found.seconds
    assert {r.name for r in found.rows(profile.operation_of)} >= {"conv2d_weight_gradient", "dense"}
    names = {r.name for r in found.rows(profile.layer_of)}
    assert any(name.endswith("/head") for name in names)


def test_operations_and_bytes_are_those_of_the_plan():
    profiler, model = fitted(steps=3, verbose=0)
    (step,) = profiler.profile.steps
    rows = profiler.profile.rows(profile.operation_of)
    assert sum(r.flops for r in rows) == step.plan.flops > 0
    assert sum(r.calls for r in rows) == len(step.plan.instructions)
    # y = x w + b: 7 * 7 * 16 inputs, 4 units, 16 samples
    dense = next(r for r in rows if r.name == "dense")
    assert dense.flops == 2 * 16 * 784 * 4
    assert dense.nbytes == 4 * (16 * 784 + 784 * 4 + 4 + 16 * 4)


def test_instructions_follow_each_other_within_their_step():
    profiler, _ = fitted(steps=(1, 6), verbose=0)
    for step in profiler.profile.steps:
        ends = step.starts + step.seconds
        assert step.called <= step.start <= step.starts[0]
        assert (step.starts[1:] >= ends[:-1]).all()
        assert ends[-1] <= step.stop <= step.left


def test_percent_of_the_roofline():
    """Against a machine of 1 GFLOP/s a core and 1 GB/s."""
    profiler, _ = fitted(steps=3, verbose=0)
    given = profiler.profile
    found = profile.Profile(
        given.steps, threads=2, peak=lambda dtype: 1e9, bandwidth=lambda threads: 1e9
    )
    (step,) = found.steps
    for instruction in step.plan.instructions:
        least = max(instruction.call.flops / 2e9, instruction.nbytes / 1e9)
        assert found.least_seconds(instruction) == pytest.approx(least)
    row = found.rows(profile.operation_of)[0]
    percent = row.cells(found.seconds)[-1]
    assert float(percent) == pytest.approx(100 * row.least / row.seconds, abs=0.6)


def test_an_embedding_reads_the_rows_it_takes():
    model = uff.Sequential([uff.Input((3,), dtype="int32"), layers.Embedding(1000, 8)])
    model.compile("sgd", "mse")
    profiler = uff.Profiler(steps=1, verbose=0)
    x, y = np.zeros((4, 3), "int32"), np.zeros((4, 3, 8), "float32")
    model.fit(x, y, verbose=0, callbacks=profiler)
    row = next(r for r in profiler.profile.rows(profile.operation_of) if r.name == "take")
    assert row.nbytes == 2 * 4 * 3 * 8 * 4 + 4 * 3 * 4


def test_the_table(capfd):
    fitted(steps=(2, 4))
    out = capfd.readouterr().out
    assert "Profile of steps 2 to 4, rank 0 of 1" in out
    for words in ("between two steps", "operation", "layer", "slowest instructions", "% roof"):
        assert words in out
    assert out.count("a step  ") == 3


def test_long_tables_keep_their_sums():
    profiler, _ = fitted(steps=(2, 4), verbose=0)
    lines = profiler.profile.table(lines=2).split("\n\n")[1].splitlines()
    assert len(lines) == 1 + 2 + 3  # headings; two rows; the others, outside, total
    column = lines[0].index(" ms") + 3
    shown = [float(line[:column].split()[-1]) for line in lines[1:]]
    assert sum(shown[:-1]) == pytest.approx(shown[-1], abs=3e-3)


def test_the_trace_file(tmp_path):
    path = tmp_path / "trace.json"
    profiler, _ = fitted(steps=(2, 4), filename=path, verbose=0)
    trace = json.loads(path.read_text())
    events = trace["traceEvents"]
    assert {e["ph"] for e in events} == {"M", "X"}
    timed = [e for e in events if e["ph"] == "X"]
    for event in timed:
        assert event["ts"] >= 0 and event["dur"] >= 0
        assert event["pid"] == 0 and event["tid"] == 0 and event["name"]
    steps = [e for e in timed if e["cat"] == "step"]
    assert [e["name"] for e in steps] == ["step 2", "step 3", "step 4"]
    assert len([e for e in timed if e["cat"] == "gap"]) == 2
    inner = [e for e in timed if e["cat"] not in ("step", "gap")]
    assert len(inner) == 3 * len(profiler.profile.steps[0].plan.instructions)
    for event in inner:  # viewers nest what lies within
        assert any(
            s["ts"] <= event["ts"] and event["ts"] + event["dur"] <= s["ts"] + s["dur"] + 0.01
            for s in steps
        )
        assert {"layer", "outputs", "inputs", "GB/s"} <= event["args"].keys()


def test_steps_are_counted_over_epochs_and_validation_is_none_of_them():
    profiler = uff.Profiler(steps=(5, 8), verbose=0)
    model = sequential()
    model.compile("sgd", "mse")
    x, y = np.ones((60, 16, 16, 3), "float32"), np.ones((60, 4), "float32")
    model.fit(x, y, batch_size=16, epochs=2, validation_data=(x, y), verbose=0,
              callbacks=[profiler])  # fmt: skip
    found = profiler.profile
    assert [s.number for s in found.steps] == [5, 6, 7, 8]
    assert len({id(s.plan) for s in found.steps}) == 2  # the last batch is a partial one
    *rows, outside = found.rows(profile.operation_of)
    assert sum(r.seconds for r in rows) + outside.seconds == pytest.approx(found.seconds)


def test_what_was_not_reached_is_said(capfd):
    profiler, _ = fitted(steps=(100, 200))
    assert profiler.profile.steps == []
    out = capfd.readouterr().out
    assert "training ended after 6 steps, before step 100: nothing was timed" in out
    assert fitted(steps=(5, 200), verbose=0)[0].profile.steps[-1].number == 6


def test_a_second_fit_is_profiled_anew():
    profiler, model = fitted(steps=(2, 3), verbose=0)
    first = profiler.profile
    x, y = np.ones((96, 16, 16, 3), "float32"), np.ones((96, 4), "float32")
    model.fit(x, y, batch_size=16, verbose=0, callbacks=[profiler])
    assert profiler.profile is not first
    assert [s.number for s in profiler.profile.steps] == [2, 3]


def test_training_is_the_same_with_it():
    weights = []
    for options in ({"steps": (1, 100)}, {"steps": 100}):
        uff.utils.set_random_seed(3)
        weights.append(fitted(epochs=2, verbose=0, **options)[1].get_weights())
    for a, b in zip(*weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_batch_hooks_and_it_go_together():
    seen = []
    hook = uff.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch))
    profiler, _ = fitted(steps=(2, 3), verbose=0, callbacks=[hook])
    assert [s.number for s in profiler.profile.steps] == [2, 3]
    assert seen == list(range(6))


def test_without_it_the_loop_runs_the_step_itself():
    model = sequential()
    model.compile("sgd", "mse")
    callbacks = uff.callbacks.CallbackList(None, model=model)
    assert loop.Batches(model, "train", None, callbacks).run_step is loop.run_step


def test_its_count_is_part_of_a_checkpoint():
    profiler = uff.Profiler(steps=(3, 4))
    profiler.set_state({"step": 7})
    assert profiler.get_state() == {"step": 7}


@pytest.mark.parametrize("steps", [0, (0, 3), (5, 4)])
def test_wrong_steps(steps):
    with pytest.raises(ValueError, match="expected the first and the last step, counted from 1"):
        uff.Profiler(steps=steps)


def test_wrong_use(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="there are 2 Profilers; expected one"):
        fitted(steps=1, callbacks=[uff.Profiler()])
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        fitted(steps=1, filename=tmp_path / "nowhere" / "trace.json")
    monkeypatch.setenv("UNIFLEXFLOW_EXECUTOR", "reference")
    with pytest.raises(RuntimeError, match="the reference interpreter has no instructions"):
        fitted(steps=1)


def test_measured_once():
    assert peak_flops("float32") == peak_flops("float32") > 1e8
    assert peak_flops("float64") > 1e8
    assert copy_bandwidth(1) == copy_bandwidth(1) > 1e7
