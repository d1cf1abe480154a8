"""Files under MPI: rank 0 writes and reads, every rank has the result or the error."""

import pytest

pytestmark = pytest.mark.mpi

PROGRAM = """
    import os, sys
    import numpy as np
    import uniflexflow as uff
    from uniflexflow import saving

    rank, folder = uff.parallel.world().rank, sys.argv[1]
    uff.random.set_random_seed(1)
    model = uff.Sequential([uff.Input((3,)), uff.layers.Dense(4), uff.layers.Dropout(0.5)])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    kernel = model.layers[0].kernel
    path = os.path.join(folder, "c.h5")

    kernel.array[...] = 7 + rank  # only rank 0's are written
    saving.save_checkpoint(path, model, {"epoch": 3, "best": np.arange(3)})
    kernel.array[...] = 0
    progress = saving.load_checkpoint(path, model)
    assert (kernel.array == 7).all()
    assert progress["epoch"] == 3 and progress["best"].tolist() == [0, 1, 2]
    assert saving.checkpoint_exists(path)
    seeds = uff.parallel.world().gather_objects(uff.random.make_seed())
    assert len(set(seeds)) == 1

    # an error of rank 0 is everyone's, and all go on together
    try:
        saving.save_checkpoint(os.path.join(folder, "no folder", "c.h5"), model)
    except OSError as error:
        assert "can't write" in str(error)
    else:
        raise SystemExit("no error")
    other = uff.Sequential([uff.Input((3,)), uff.layers.Dense(5)])
    try:
        saving.load_checkpoint(path, other)
    except ValueError as error:
        assert "another model" in str(error) and "(3, 5)" in str(error)
    else:
        raise SystemExit("no error")

    model.save(os.path.join(folder, "m.keras"))
    again = saving.load_model(os.path.join(folder, "m.keras"))
    assert (again.layers[0].kernel.array == 7).all()
    print(f"rank {rank} is content")
"""


@pytest.mark.parametrize("size", [1, 3])
def test_all_ranks_have_the_same(launcher, tmp_path, size):
    folder = tmp_path / "files"
    folder.mkdir()
    outcome = launcher.check(size, PROGRAM, str(folder), timeout=60)
    for rank in range(size):
        assert f"rank {rank} is content" in outcome.out
    assert {p.name for p in folder.iterdir()} == {"c.h5", "m.keras"}
