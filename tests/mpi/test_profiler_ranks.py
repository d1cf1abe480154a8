"""Profiler under mpiexec: all ranks in one trace, their communication included."""

import json

import pytest

pytestmark = pytest.mark.mpi

PROGRAM = """
    import sys
    import numpy as np
    import uniflexflow as uff
    from uniflexflow import layers
    from uniflexflow.parallel import world

    model = uff.Sequential([uff.Input((40,)), layers.Dense(64, activation="relu"), layers.Dense(1)])
    model.compile("adam", "mse")
    x, y = np.ones((128, 40), "float32"), np.ones((128, 1), "float32")
    profiler = uff.Profiler(steps=(3, 6), filename=sys.argv[1])
    model.fit(x, y, batch_size=16, verbose=0, callbacks=[profiler])
    found = profiler.profile
    assert (found.rank, found.ranks) == (world().rank, 2)
    communication = [
        seconds
        for step in found.steps
        for instruction, seconds in zip(step.plan.instructions, step.seconds)
        if instruction.call is None
    ]
    assert communication and sum(communication) > 0
"""


def test_both_ranks_are_in_the_trace(launcher, tmp_path):
    path = tmp_path / "trace.json"
    done = launcher.check(2, PROGRAM, str(path))
    assert done.out.count("Profile of steps 3 to 6, rank 0 of 2") == 1
    events = json.loads(path.read_text())["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {"rank 0", "rank 1"}
    for rank in (0, 1):
        mine = [e for e in events if e["ph"] == "X" and e["pid"] == rank]
        assert [e["name"] for e in mine if e["cat"] == "step"] == [f"step {i}" for i in range(3, 7)]
        assert sum(e["dur"] for e in mine if e["cat"] == "communication") > 0
        assert min(e["ts"] for e in mine) >= 0
    # one clock: no rank has ended a step before the other has begun it
    begun = {
        (e["name"], e["pid"]): (e["ts"], e["ts"] + e["dur"])
        for e in events
        if e.get("cat") == "step"
    }
    for number in range(3, 7):
        a, b = begun[f"step {number}", 0], begun[f"step {number}", 1]
        assert a[0] < b[1] and b[0] < a[1]
