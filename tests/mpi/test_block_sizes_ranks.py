"""Measured block sizes under mpiexec: all ranks use those of rank 0."""

import pytest

pytestmark = pytest.mark.mpi

PROGRAM = """
    import os, sys
    rank = int(next(os.environ[n] for n in ("PMI_RANK", "OMPI_COMM_WORLD_RANK") if n in os.environ))
    # each rank finds other sizes, as nodes with home folders of their own would
    os.environ["UNIFLEXFLOW_TUNED"] = f"{sys.argv[1]}/{rank}"
    import numpy as np
    import uniflexflow as uff
    from uniflexflow import machine
    from uniflexflow._core import dispatch
    from uniflexflow._core.block_sizes import block_sizes
    from uniflexflow.machine import stored
    from uniflexflow.parallel import world

    stored.save(machine.host(), dispatch.selected(), {"gemm_float32": (64 * (rank + 1), 48, 480)})
    model = uff.Sequential([uff.Input((300,)), uff.layers.Dense(40), uff.layers.Dense(1)])
    model.compile("sgd", "mse")
    rng = np.random.default_rng(0)
    model.fit(rng.normal(size=(24, 300)), rng.normal(size=(24, 1)), batch_size=12, verbose=0)
    found = world().gather_objects(block_sizes())
    assert found[0]["gemm_float32"] == [64, 48, 480], found
    assert all(sizes == found[0] for sizes in found), found
    shown = machine.report.config()["block sizes"]
    assert ("as rank 0 has them" in shown) == (rank > 0), shown
"""


def test_ranks_use_the_sizes_of_rank_0(launcher, tmp_path):
    launcher.check(2, PROGRAM, str(tmp_path / "tuned"))
