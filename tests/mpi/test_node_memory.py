"""Sums through the memory of a node: the same as with messages, and who may use it."""

import pytest

pytestmark = pytest.mark.mpi

SUMS = """
    import numpy as np
    from uniflexflow.parallel import world
    from uniflexflow.runtime import collectives
    from uniflexflow.runtime.node_memory import MAX_TENSORS, SLOT_BYTES, SharedMemory

    comm = world().dup("gradients")
    comm.join_node()
    assert comm.node_sum is not None
    p, r = comm.size, comm.rank
    edge = collectives.PACK_BELOW

    def values(rank, dtype, n, seed):
        rng = np.random.default_rng([rank, seed])
        if dtype.startswith("float"):
            x = rng.standard_normal(n).astype(dtype)
            x[: n // 7] *= 1e20
            if n > 3:
                x[n - 2] = [np.inf, 1.0][rank % 2]
                x[n - 1] = [np.nan, 1.0][rank == 1]
            return x
        if dtype == "uint8":  # sent: Open MPI's sums stop at 255 where others wrap around
            return rng.integers(0, 60, n).astype(dtype)
        return rng.integers(-100, 100, n).astype(dtype)

    def check(dtype, counts, region, padding=0, apart=False):
        at, inputs = 64 * padding, []
        for seed, n in enumerate(counts):
            x = np.ndarray((n,), dtype, region.array, at)
            x[...] = values(r, dtype, n, seed)
            at += -(-x.nbytes // 64) * 64 + 64 * padding
            inputs.append(x)
        outputs = [np.empty_like(x) for x in inputs] if apart else inputs
        collectives.allreduce(inputs, outputs, comm)
        for seed, (n, y) in enumerate(zip(counts, outputs)):
            want = values(0, dtype, n, seed)
            for rank in range(1, p):
                want = want + values(rank, dtype, n, seed)
            np.testing.assert_array_equal(y, want)

    # ranks may have their tensors at different places, and regions of different sizes
    region = SharedMemory((64 << 20) + (r << 20))
    for dtype in ("float32", "float64", "int32", "int64", "uint8"):
        for counts in ([edge], [edge + 1, 1], [3 * edge + 17, edge - 1, 2 * edge], [1], [0, 5]):
            for padding in (0, r):
                check(dtype, counts, region, padding)
        check(dtype, [edge + 5, 7], region, apart=True)
    check("float32", [edge // 4] * (MAX_TENSORS // 2) + [3] * 40, region)
    check("float32", [edge // 4 - 1] * 17, region, r)  # small ones in several turns
    assert 17 * (edge - 4) > SLOT_BYTES
    check("float32", [edge // 4 + 1] * (MAX_TENSORS + 3), SharedMemory(80 << 20))

    # a rank may move to another region, alone
    for turn in range(3):
        if r == turn % p:
            region = SharedMemory(4 << 20)
        check("float32", [edge, edge + 64, 3], region, turn)
    other = SharedMemory(1 << 20)  # a second model
    for _ in range(2):
        check("float64", [edge], other)
        check("float64", [edge + 1], region)

    # what lies elsewhere goes in messages, as if nothing had been shared
    x = np.full(edge, r + 1.0)
    collectives.allreduce([x], [x], comm)
    assert (x == p * (p + 1) // 2).all()
    print("fine", flush=True)
"""


@pytest.mark.parametrize("size", [2, 3, 4])
def test_sums_are_those_of_the_ranks_in_order(launcher, size):
    outcome = launcher.check(size, SUMS, timeout=60)
    assert outcome.out.count("fine") == size


FIT = """
    import sys
    import numpy as np
    import uniflexflow as uff

    uff.utils.set_random_seed(0)
    model = uff.Sequential(
        [
            uff.Input((20,)),
            uff.layers.Dense(300, activation="relu"),
            uff.layers.Dense(300, activation="relu"),
            uff.layers.Dense(4),
        ]
    )
    model.compile("adam", "mse", metrics=["mae"])
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((70, 20), dtype="float32"), rng.standard_normal((70, 4))
    history = model.fit(x, y, batch_size=16, epochs=3, verbose=0)  # the last batch has 6 rows
    steps = model.make_train_function()._function._steps.values()
    shared = {s._exchange.channels.axes["data"].node_sum is not None for s in steps}
    assert shared == {sys.argv[1] == "shared"}, shared
    assert {s.plan.exchange_bytes > 4 * 300 * 300 for s in steps} == {sys.argv[1] == "shared"}
    if uff.distribution.rank() == 0:
        np.savez(sys.argv[2], *model.get_weights(), loss=history.history["loss"])
"""


def test_training_goes_on_where_memory_files_are_refused(launcher, tmp_path):
    refused = """
    import os

    def memfd_create(name):
        raise PermissionError("not here")

    os.memfd_create = memfd_create
    """
    program = refused + FIT
    launcher.check(2, program, "messages", str(tmp_path / "file.npz"), timeout=40)


def test_training_is_the_same_with_and_without(launcher, tmp_path):
    import numpy as np

    files = {}
    for how, env in {
        "shared": {},
        "messages": {"UNIFLEXFLOW_NODE_MEMORY": "off"},
    }.items():
        files[how] = tmp_path / f"{how}.npz"
        launcher.check(2, FIT, how, str(files[how]), env=env, timeout=40)
    one, other = (np.load(f) for f in files.values())
    for name in one.files:  # two ranks: one addition, in whichever order
        np.testing.assert_array_equal(one[name], other[name])


def test_one_rank_that_does_not_share_keeps_all_with_messages(launcher):
    program = """
        import os
        from uniflexflow.parallel import world

        comm = world()
        if comm.rank == 1:
            os.environ["UNIFLEXFLOW_NODE_MEMORY"] = "off"
        comm.join_node()
        assert comm.node_sum is None
    """
    launcher.check(3, program)


def test_an_unknown_choice_is_refused(launcher):
    program = """
        from uniflexflow.parallel import world
        world().join_node()
    """
    outcome = launcher.run(2, program, env={"UNIFLEXFLOW_NODE_MEMORY": "maybe"})
    assert outcome.code != 0
    assert "'maybe'; expected 'on' or 'off'" in outcome.err


def test_a_rank_that_never_comes_ends_the_job(launcher):
    program = """
        import numpy as np
        from uniflexflow.parallel import world
        from uniflexflow.runtime import collectives

        comm = world().dup("gradients")
        comm.join_node()
        if comm.rank != 1:
            x = np.ones(3)
            collectives.allreduce([x], [x], comm, "of dense_1")
    """
    outcome = launcher.run(3, program)
    assert outcome.code != 0
    assert "rank 1 has ended" in outcome.err and "of dense_1" in outcome.err
    launcher.assert_no_orphans()


def test_signals_are_handled_while_waiting(launcher):
    program = """
        import os, signal, threading, time
        import numpy as np
        from uniflexflow.parallel import world
        from uniflexflow.runtime import collectives

        comm = world().dup("gradients")
        comm.join_node()
        seen = []
        signal.signal(signal.SIGTERM, lambda *_: seen.append(time.monotonic()))
        if comm.rank == 0:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
        else:
            time.sleep(1.5)
        x = np.ones(3)
        collectives.allreduce([x], [x], comm)
        if comm.rank == 0:
            assert seen and time.monotonic() - seen[0] > 0.8, seen
    """
    launcher.check(2, program)
