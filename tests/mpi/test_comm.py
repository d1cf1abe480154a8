"""Collectives on 1 to 4 ranks, and launchers that don't fit the MPI library."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.mpi

COLLECTIVES = """
    import numpy as np
    from uniflexflow.parallel import world
    from uniflexflow.runtime import comm as module

    comm = world()
    p, r = comm.size, comm.rank
    assert p == {size}, p
    assert comm.local_size == p and comm.local_rank == r

    for dtype in ("float32", "float64", "int8", "uint8", "int32", "int64"):
        x = np.arange(6, dtype=dtype).reshape(2, 3) + r
        total = sum(np.arange(6, dtype=dtype).reshape(2, 3) + k for k in range(p))
        before = x.copy()
        y = comm.allreduce(x)
        assert y.dtype == dtype and (y == total).all() and (x == before).all()
        assert (comm.allreduce(x, "max") == before - r + p - 1).all()
        assert (comm.allreduce(x, "min") == before - r).all()
        out = np.empty_like(x)
        assert comm.allreduce(x, out=out) is out and (out == total).all()
        assert comm.allreduce(x, out=x) is x and (x == total).all()
    assert comm.allreduce(np.array(r == p - 1)).item() is True
    assert comm.allreduce(np.float64(2.0)).shape == ()
    assert comm.allreduce(np.zeros((0, 3))).shape == (0, 3)

    for limit in (1 << 30, 5):  # 5: messages cut into pieces
        module.MAX_COUNT = limit
        rows = np.full((r, 2), r, np.float32)  # rank 0 has none
        got = comm.allgather(rows)
        want = np.concatenate([np.full((k, 2), k, np.float32) for k in range(p)])
        assert got.dtype == np.float32 and got.shape == want.shape and (got == want).all()
        big = np.arange(17.0) * (r + 1)
        assert (comm.allreduce(big) == np.arange(17.0) * (p * (p + 1) // 2)).all()
        array = np.arange(9, dtype="int64") if r == 0 else np.zeros(9, "int64")
        assert comm.bcast(array) is array and (array == np.arange(9)).all()

    assert comm.bcast({{"seed": 3}} if r == 0 else None) == {{"seed": 3}}
    assert comm.gather_objects(("rank", r)) == [("rank", k) for k in range(p)]
    other = comm.dup("gradients")
    assert (other.allreduce(np.ones(3)) == p).all()
    pair = comm.split(r % 2, r, "pairs")
    assert pair.size == (p + 1 - r % 2) // 2 and pair.rank == r // 2
    comm.barrier()
    print("fine", flush=True)
"""


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_collectives(launcher, size):
    outcome = launcher.check(size, COLLECTIVES.format(size=size))
    assert outcome.out.count("fine") == size


def test_import_of_the_package_does_not_start_mpi(launcher):
    program = """
        import sys
        import uniflexflow
        assert "mpi4py.MPI" not in sys.modules
    """
    launcher.check(2, program)


def run_alone(program, **env):
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


WORLD = "from uniflexflow.parallel import world; print(world().size)"


def test_processes_that_do_not_see_each_other_are_an_error(launcher):
    # what srun without the right PMI plug-in, or another MPI's mpiexec, gives
    outcome = run_alone(WORLD, OMPI_COMM_WORLD_SIZE="4")
    assert outcome.returncode != 0
    assert "started 4 processes (OMPI_COMM_WORLD_SIZE=4)" in outcome.stderr
    assert "sees only this one" in outcome.stderr
    assert "pip install 'uniflexflow[mpich]'" in outcome.stderr


def test_missing_mpi4py_under_a_launcher_is_an_error():
    program = "import sys; sys.modules['mpi4py'] = None; " + WORLD
    outcome = run_alone(program, OMPI_COMM_WORLD_SIZE="4")
    assert outcome.returncode != 0
    assert "mpi4py can't be used here" in outcome.stderr
    assert "pip install 'uniflexflow[mpich]'" in outcome.stderr


def test_separate_programs_if_asked():
    outcome = run_alone(WORLD, OMPI_COMM_WORLD_SIZE="4", UNIFLEXFLOW_MPI="0")
    assert (outcome.returncode, outcome.stdout.strip()) == (0, "1")


def test_child_processes_of_a_rank_are_no_ranks(launcher):
    program = """
        import os, subprocess, sys
        from uniflexflow.parallel import world
        comm = world()
        assert comm.size == 2
        child = "from uniflexflow.parallel import world; print(world().size)"
        command = [sys.executable, "-c", child]
        out = subprocess.run(command, capture_output=True, text=True, timeout=15)
        assert out.stdout.strip() == "1", out
        pid = os.fork()
        if pid == 0:
            os._exit(0 if world().size == 1 else 1)
        assert os.waitpid(pid, 0)[1] == 0
        comm.barrier()
    """
    launcher.check(2, program)


def test_log_records_and_warnings_name_the_rank(launcher):
    program = """
        import logging, warnings
        from uniflexflow.parallel import world
        comm = world()
        logging.basicConfig(format="%(message)s")
        logging.getLogger("uniflexflow").setLevel(
            logging.INFO if comm.rank == 0 else logging.NOTSET or logging.WARNING)
        logging.getLogger("uniflexflow.data").info("news")
        logging.getLogger("uniflexflow.data").warning("careful")
        if comm.rank == 1:
            warnings.warn("look out")
    """
    err = launcher.check(2, program).err
    assert err.count("news") == 1 and "[rank 0/2] news" in err
    assert "[rank 0/2] careful" in err and "[rank 1/2] careful" in err
    assert "[rank 1/2]" in err and "look out" in err
