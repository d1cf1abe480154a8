"""A failure on one rank ends all ranks: soon, non-zero, with the rank named once."""

import os
import signal
import time

import pytest

pytestmark = pytest.mark.mpi

# Rank 1 fails in the third of many steps; the others wait for it in a collective.
PROGRAM = """
    import os, signal, sys, threading, time
    import numpy as np
    from uniflexflow.parallel import world

    comm = world()
    stream = comm.dup("gradients")
    for step in range(10**9):
        if step == 3 and comm.rank == {rank}:
            print("failing", time.time(), flush=True)
            {failure}
        stream.allreduce(np.ones(4), what="gradients of 'dense'")
        time.sleep(0.01)
"""
THREAD = (
    """(lambda t: (t.start(), t.join()))(threading.Thread(target=lambda: 1 / 0, name="loader"))"""
)


def ends_in_time(outcome):
    """The whole job ends, as failed, within 10 seconds of the failure."""
    assert outcome.code != 0, outcome.text
    failed = float(outcome.out.split("failing")[1].split()[0])
    assert outcome.ended - failed < 10, outcome.text


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ("raise RuntimeError('no more')", "[rank 1/3] the program failed"),
        (THREAD, "[rank 1/3] thread 'loader' failed"),
        (
            "sys.exit(0)",
            "rank 1 has ended, but this rank waits for it in allreduce gradients of 'dense'",
        ),
        (
            "sys.exit(3)",
            "rank 1 has ended, but this rank waits for it in allreduce gradients of 'dense'",
        ),
        ("break", "rank 1 has ended, but this rank waits for it in allreduce gradients of 'dense'"),
    ],
)
def test_one_rank_fails(launcher, failure, message):
    outcome = launcher.run(3, PROGRAM.format(rank=1, failure=failure))
    ends_in_time(outcome)
    assert message in outcome.err, outcome.text
    assert outcome.err.count("Traceback") == (0 if "ended" in message else 1), outcome.text
    launcher.assert_no_orphans()


def test_rank_zero_fails_too(launcher):
    outcome = launcher.run(2, PROGRAM.format(rank=0, failure="sys.exit(0)"))
    ends_in_time(outcome)
    assert "[rank 1/2] rank 0 has ended" in outcome.err, outcome.text


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "SIGSEGV"])
def test_one_rank_is_killed(launcher, how):
    failure = f"os.kill(os.getpid(), signal.{how})"
    outcome = launcher.run(3, PROGRAM.format(rank=1, failure=failure))
    ends_in_time(outcome)
    launcher.assert_no_orphans()


def test_the_same_error_on_every_rank_is_shown_once(launcher):
    program = """
        from uniflexflow.parallel import world
        comm = world()
        raise ValueError("wrong shape")
    """
    outcome = launcher.run(3, program)
    assert outcome.code != 0
    assert outcome.err.count("ValueError: wrong shape") == 1, outcome.text
    assert "[rank 0/3]" in outcome.err


def test_ranks_may_end_at_different_times(launcher):
    program = """
        import time
        import numpy as np
        from uniflexflow.parallel import world
        comm = world()
        comm.allreduce(np.ones(4))
        if comm.rank == 0:
            time.sleep(2)  # writes a plot
            print("done", flush=True)
    """
    outcome = launcher.check(3, program)
    assert "done" in outcome.out and outcome.err == ""


def test_ranks_that_were_told_and_then_go_on_end_too(launcher):
    program = """
        import time
        import numpy as np
        from uniflexflow.parallel import world
        comm = world()
        comm.allreduce(np.ones(4))
        if comm.rank == 0:
            time.sleep(2)
            comm.barrier()
    """
    outcome = launcher.run(2, program)
    assert outcome.code != 0
    assert "rank 1 has ended, but this rank waits for it in barrier" in outcome.err, outcome.text


def test_stall_is_reported_and_survived(launcher):
    program = """
        import time
        import numpy as np
        from uniflexflow.parallel import world
        comm = world()
        comm.allreduce(np.ones(4))
        if comm.rank == 1:
            time.sleep(3)
        comm.allreduce(np.ones(4), what="gradients")
    """
    outcome = launcher.check(2, program, env={"UNIFLEXFLOW_STALL_SECONDS": "1"})
    assert outcome.err.count("has waited 1 s for the other ranks in allreduce gradients") == 1


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_launcher_is_killed(launcher, how):
    job = launcher.start(2, PROGRAM.format(rank=-1, failure="pass"))
    time.sleep(3)
    os.kill(job.pid, how)
    outcome = launcher.finish(job)
    assert outcome.code != 0
    launcher.assert_no_orphans(10)
