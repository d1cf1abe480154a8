"""Attention in tiles, forward and backward."""

import itertools

import numpy as np
import pytest
from lowered import check, compute, node_of

from uniflexflow._core import LOWERINGS

pytestmark = pytest.mark.usefixtures("isa")

DTYPES = ("float32", "float64")
# batch, targets, sources, heads, heads of the key, dim, dim of the value
SIZES = [
    (1, 1, 1, 1, 1, 1, 1),
    (2, 3, 5, 2, 2, 4, 3),
    (1, 7, 6, 3, 1, 16, 17),
    (1, 63, 65, 2, 2, 15, 16),
    (2, 64, 64, 2, 1, 32, 31),
    (1, 129, 130, 1, 1, 33, 8),
    (1, 257, 300, 2, 2, 64, 64),
    (1, 300, 70, 1, 1, 20, 5),
    (1, 40, 400, 2, 1, 8, 100),
    (1, 20, 20, 1, 1, 256, 256),
]


def operands(rng, sizes, dtype, spread=1.0):
    b, t, s, h, kv, d, w = sizes
    shapes = (b, t, h, d), (b, s, kv, d), (b, s, kv, w)
    q, k, v = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    return q * dtype_of(dtype, spread), k, v


def dtype_of(dtype, number):
    return np.dtype(dtype).type(number)


def prove(q, k, v, *extras, causal=False, ulp=256):
    """Compare forward and backward with the reference, and two threads with one."""
    attrs = {"causal": causal, "factor": 0.3}
    out, lse = check("attention", q, k, v, *extras, ulp=ulp, scale=4, **attrs)
    g = np.random.default_rng(5).standard_normal(out.shape).astype(out.dtype)
    delta = (g * out).sum(-1)
    room = 4 + np.sqrt(q.shape[1] + k.shape[1])
    return out, check(
        "attention_gradient", q, k, v, lse, delta, g, *extras, ulp=ulp, scale=room, **attrs
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_tiles(sizes, dtype, causal, rng):
    prove(*operands(rng, sizes, dtype), causal=causal)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lengths_about_the_tiles(dtype, rng):
    for t, s in itertools.product((63, 64, 65, 127, 128, 129), (1, 63, 64, 65)):
        prove(*operands(rng, (1, t, s, 1, 1, 8, 8), dtype), causal=(t + s) % 2 == 0)


def attend(*arrays):
    return compute(node_of("attention", arrays, causal=False, factor=0.3), arrays)


def forms(b, h, t, s):
    full = (b, h, t, s)
    return [
        tuple(n if keep else 1 for n, keep in zip(full, kept))
        for kept in itertools.product((0, 1), repeat=4)
    ]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_masks_and_biases_of_every_form(dtype, causal, rng):
    q, k, v = operands(rng, (2, 21, 90, 2, 1, 8, 12), dtype)
    for shape in forms(2, 2, 21, 90):
        mask = rng.random(shape) < 0.6
        bias = rng.standard_normal(shape).astype(dtype)
        prove(q, k, v, mask, causal=causal)
        prove(q, k, v, bias, causal=causal)
        prove(q, k, v, bias, mask[:, ::-1].copy(), causal=causal)


@pytest.mark.parametrize("causal", [False, True])
def test_a_target_that_may_look_at_nothing_has_the_mean_of_all(causal, rng):
    q, k, v = operands(rng, (2, 70, 150, 2, 2, 8, 8), "float32")
    mask = rng.random((2, 1, 70, 150)) < 0.5
    mask[0, :, 3:40] = False
    mask[1, :, :, :64] = False  # a whole tile of keys
    out, (dq, dk, dv) = prove(q, k, v, mask, causal=causal)
    mean = np.broadcast_to(v[0].mean(0), (37, 2, 8))
    np.testing.assert_allclose(out[0, 3:40], mean, atol=1e-6)
    assert (dq[0, 3:40] == 0).all()
    hidden = np.zeros((1, 1, 1, 150), bool)
    _, (dq, dk, dv) = prove(q, k, v, hidden, causal=causal)
    assert (dq == 0).all() and (dk == 0).all()
    np.testing.assert_allclose(dv, np.broadcast_to(dv[:, :1], dv.shape), rtol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_keys_in_runs(causal, rng):
    """One head of many keys is cut into runs, whose gradients of the queries are added."""
    sizes = (1, 700, 2100, 2, 1, 16, 16)
    q, k, v = operands(rng, sizes, "float64")
    g, row = np.zeros((1, 700, 2, 16)), np.zeros((1, 700, 2))
    node = node_of("attention_gradient", [q, k, v, row, row, g], causal=causal, factor=0.3)
    assert LOWERINGS["attention_gradient"](node).workspace > 4 * q.nbytes
    prove(q, k, v, causal=causal)
    prove(q, k, v, rng.random((1, 1, 700, 1)) < 0.5, causal=causal)


def test_scores_far_apart(rng):
    """The highest score grows from tile to tile, by more than an exponential can hold."""
    q, k, v = operands(rng, (1, 30, 200, 1, 1, 4, 4), "float64", spread=30)
    k *= np.linspace(0, 40, 200)[None, :, None, None]
    out, _ = prove(q, k, v, ulp=1 << 20)  # scores of 1e4, rounded
    assert np.isfinite(out).all()


def test_biases_of_infinity(rng):
    q, k, v = operands(rng, (1, 6, 150, 1, 1, 4, 4), "float32")
    bias = np.where(rng.random((1, 1, 6, 150)) < 0.5, -np.inf, 0).astype("float32")
    bias[0, 0, 2, :128] = -np.inf  # whole tiles
    with np.errstate(all="ignore"):
        out, _ = prove(q, k, v, bias)
        assert np.isfinite(out).all()
        bias[0, 0, 3] = -np.inf
        bias[0, 0, 4, 100] = np.inf
        bias[0, 0, 5, 100] = np.nan
        out, _ = attend(q, k, v, bias)
    assert np.isnan(out[0, 3:]).all() and np.isfinite(out[0, :3]).all()


def test_nothing_to_look_at():
    q, k = np.ones((2, 300, 2, 4), "float32"), np.ones((2, 0, 2, 4), "float32")
    out, lse = attend(q, k, k)
    assert (out == 0).all() and (lse == -np.inf).all()
    row = np.zeros((2, 300, 2), "float32")
    arrays = [q, k, k, row, row, q]
    dq, dk, _ = compute(node_of("attention_gradient", arrays, causal=True, factor=1.0), arrays)
    assert (dq == 0).all() and dk.size == 0


def test_nothing_that_looks():
    q, k = np.ones((2, 0, 2, 4), "float32"), np.ones((2, 3, 2, 4), "float32")
    assert attend(q, k, k)[0].size == 0
    row = np.zeros((2, 0, 2), "float32")
    arrays = [q, k, k, row, row, q]
    _, dk, dv = compute(node_of("attention_gradient", arrays, causal=False, factor=1.0), arrays)
    assert (dk == 0).all() and (dv == 0).all()
