"""Sums sent as bfloat16: what is rounded, and that all ranks agree."""

import pytest

pytestmark = pytest.mark.mpi

SUMS = """
    import numpy as np
    from uniflexflow.parallel import world
    from uniflexflow.runtime import collectives
    from uniflexflow.runtime import comm as module

    comm = world()
    p, r = comm.size, comm.rank

    def as_bfloat16(x):
        u = np.asarray(x, np.float32).view(np.uint32)
        return ((u + 0x7FFF + (u >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)

    for limit in (1 << 30, 1000):  # 1000: messages cut into pieces
        module.MAX_COUNT = limit
        for n in (20000, 16384, 3):
            rngs = [np.random.default_rng([k, n]) for k in range(p)]
            xs = [rng.standard_normal(n, dtype="float32") for rng in rngs]
            mine = xs[r].copy()
            assert comm.allreduce_rounded(mine) is mine
            piece = min(n, limit)
            owner = np.empty(n, int)
            for start in range(0, n, piece):
                size = min(piece, n - start)
                for k in range(p):
                    owner[start + size * k // p : start + size * (k + 1) // p] = k
            total = np.zeros(n, np.float32)
            for k in range(p):
                total += np.where(owner == k, xs[k], as_bfloat16(xs[k]))
            np.testing.assert_array_equal(mine, as_bfloat16(total))

    # small tensors and other dtypes stay exact, and so does all without the request
    edge = collectives.PACK_BELOW
    cases = ((100, "float32", True), (edge, "float64", True), (edge, "float32", False))
    for n, dtype, rounded in cases:
        x = np.full(n, 1 + 2.0**-20, dtype)
        collectives.allreduce([x], [x], comm, rounded=[rounded])
        np.testing.assert_array_equal(x, np.full(n, p * (1 + 2.0**-20), dtype))
    x, y = np.full(edge, 1 + 2.0**-20, "float32"), np.empty(edge, "float32")
    collectives.allreduce([x], [y], comm, rounded=[True])
    assert (y == as_bfloat16(p)).all() and (x != 1).all()
    print("fine", flush=True)
"""


@pytest.mark.parametrize("size", [2, 3])
def test_shares_are_summed_in_float32_and_sent_rounded(launcher, size):
    outcome = launcher.check(size, SUMS)
    assert outcome.out.count("fine") == size


FIT = """
    import sys
    import numpy as np
    import uniflexflow as uff

    uff.utils.set_random_seed(0)
    model = uff.Sequential(
        [
            uff.Input((64,)),
            uff.layers.Dense(512, activation="relu"),
            uff.layers.Dense(1),
        ]
    )
    dtype = sys.argv[1] if len(sys.argv) > 1 else None
    model.compile("sgd", "mse", distribution=uff.distribution.DataParallel(gradient_dtype=dtype))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((256, 64), dtype="float32")
    loss = model.fit(x, x[:, :1] * x[:, 1:2], batch_size=32, epochs=5, verbose=0).history["loss"]
    every = uff.parallel.world().gather_objects([w.tobytes() for w in model.get_weights()])
    assert every[0] == every[1], "the ranks' weights must stay the same"
    if uff.distribution.rank() == 0:
        print("loss", *loss)
"""


FORWARD = """
    import numpy as np
    import uniflexflow as uff

    uff.utils.set_random_seed(0)
    norm = uff.layers.BatchNormalization(momentum=0.0)
    model = uff.Sequential([uff.Input((20000,)), norm])
    strategy = uff.distribution.DataParallel(gradient_dtype="bfloat16")
    model.compile(uff.optimizers.SGD(0.0), "mse", distribution=strategy)
    x = np.random.default_rng(0).standard_normal((8, 20000), dtype="float32") + 3
    model.fit(x, x, batch_size=8, verbose=0)
    np.testing.assert_allclose(norm.moving_mean.numpy(), x.mean(0), rtol=1e-6)
    np.testing.assert_allclose(norm.moving_variance.numpy(), x.var(0), rtol=1e-5)
"""


def test_sums_of_the_forward_pass_are_never_rounded(launcher):
    launcher.check(2, FORWARD, env={"UNIFLEXFLOW_NODE_MEMORY": "off"}, timeout=40)


@pytest.mark.parametrize("overlap", ["off", "on"])
def test_training_with_rounded_gradients(launcher, overlap):
    env = {"UNIFLEXFLOW_NODE_MEMORY": "off", "UNIFLEXFLOW_OVERLAP": overlap}
    losses = []
    for args in ((), ("bfloat16",)):
        out = launcher.check(2, FIT, *args, env=env, timeout=40).out
        losses.append([float(w) for w in out.split()[1:]])
    exact, rounded = losses
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=0.02)  # gradients keep 8 bits
