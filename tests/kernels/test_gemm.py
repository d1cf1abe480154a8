"""Matrix products, kernel by kernel, against the reference in float64."""

import itertools

import numpy as np
import pytest

from uniflexflow import ir
from uniflexflow._core import gemm
from uniflexflow._core.runner import run_call
from uniflexflow.ops.contraction import DENSE, MATMUL
from uniflexflow.plan.kernel_call import KernelCall
from uniflexflow.runtime.reference import run_node

DTYPES = ("float32", "float64")
TRANSPOSITIONS = tuple(itertools.product((False, True), repeat=2))
UNIT = {"float32": 2.0**-24, "float64": 2.0**-53}


def node_of(a, b, ta, tb, bias=None, activation=None):
    values = [ir.leaf(x.shape, x.dtype.name, "x") for x in (a, b, bias) if x is not None]
    attrs = {"transpose_a": ta, "transpose_b": tb}
    if bias is not None:
        return ir.apply(DENSE, *values, **attrs, activation=activation).node
    return ir.apply(MATMUL, *values, **attrs).node


def compute(node, *arrays, threads=1):
    """Run the node's kernel into an array of NaN: an element it forgets shows."""
    out = np.full(node.outputs[0].shape, np.nan, node.outputs[0].dtype)
    run_call(gemm.lower(node), [out], arrays, threads)
    return out


def operands(rng, dtype, batch, m, n, k, ta, tb):
    a = rng.standard_normal((*batch, k, m) if ta else (*batch, m, k)).astype(dtype)
    b = rng.standard_normal((*batch, n, k) if tb else (*batch, k, n)).astype(dtype)
    return a, b


def expected(a, b, ta, tb, bias=None, activation=None):
    wide = [x.astype(np.float64) for x in (a, b, bias) if x is not None]
    return run_node(node_of(*wide[:2], ta, tb, *wide[2:], activation=activation), wide)[0]


def check(result, a, b, ta, tb, bias=None, activation=None):
    """Compare with the error bound of a sum of k products: k * u * |A| |B|."""
    k = a.shape[-2] if ta else a.shape[-1]
    bound = expected(abs(a), abs(b), ta, tb)
    if bias is not None:
        bound = bound + abs(bias)
    error = abs(result - expected(a, b, ta, tb, bias, activation))
    assert (error <= (k + 3) * UNIT[result.dtype.name] * bound).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("ta", "tb"), TRANSPOSITIONS)
def test_edges(isa, rng, dtype, ta, tb):
    mr, nr = gemm.micro_tile(dtype)
    rows = (0, 1, 2, mr - 1, mr, mr + 1, 2 * mr + 1)
    columns = (0, 1, 2, nr - 1, nr, nr + 1, 2 * nr + 3)
    for m, n, k in itertools.product(rows, columns, (0, 1, 3, 8, 33)):
        a, b = operands(rng, dtype, (), m, n, k, ta, tb)
        check(compute(node_of(a, b, ta, tb), a, b), a, b, ta, tb)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("ta", "tb", "pack_b"),
    [(ta, tb, pack) for ta, tb in TRANSPOSITIONS for pack in (False, True) if pack or not tb],
)
@pytest.mark.parametrize("pack_a", [False, True])
@pytest.mark.parametrize("blocks", [(16, 8, 32), (64, 30, 64)])
def test_every_blocking(isa, rng, dtype, ta, tb, pack_a, pack_b, blocks):
    """Whatever the planner may choose, in one product and in a stack of them.

    (A transposed B is always packed.)
    """
    mr, nr = gemm.micro_tile(dtype)
    kc, mc, nc = blocks[0], -(-blocks[1] // mr) * mr, -(-blocks[2] // nr) * nr
    for batch, m, n, k in ((1, 61, 75, 130), (3, 37, 50, 41)):
        a, b = operands(rng, dtype, (batch,), m, n, k, ta, tb)
        out = np.full((batch, m, n), np.nan, dtype)
        call = gemm.lower_sizes(
            dtype, batch, m, n, k, ta, tb, pack_a=pack_a, pack_b=pack_b, blocks=(kc, mc, nc)
        )
        run_call(KernelCall("matmul", **call), [out], [a, b], 2)
        check(out, a, b, ta, tb)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("ta", "tb"), TRANSPOSITIONS)
@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("sizes", [(1, 1, 5), (1, 40, 9), (40, 1, 9), (32, 64, 13), (70, 90, 700)])
def test_bias_and_activation(isa, rng, dtype, ta, tb, activation, sizes):
    m, n, k = sizes
    a, b = operands(rng, dtype, (), m, n, k, ta, tb)
    bias = rng.standard_normal(n).astype(dtype)
    result = compute(node_of(a, b, ta, tb, bias, activation), a, b, bias)
    check(result, a, b, ta, tb, bias, activation)
    assert activation is None or (result >= 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("ta", "tb"), TRANSPOSITIONS)
def test_stacks(isa, rng, dtype, ta, tb):
    for batch, m, n, k in (
        ((3, 2), 17, 19, 23),
        ((5,), 1, 100, 50),
        ((5,), 100, 1, 50),
        ((0,), 4, 4, 4),
        ((2,), 130, 140, 150),
    ):
        a, b = operands(rng, dtype, batch, m, n, k, ta, tb)
        check(compute(node_of(a, b, ta, tb), a, b, threads=2), a, b, ta, tb)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(33, 35, 37), (1, 200, 40), (200, 1, 40)])
def test_start_on_any_element(isa, rng, dtype, sizes):
    """Operands that start one element after an aligned address."""
    m, n, k = sizes

    def shifted(shape):
        return rng.standard_normal(np.prod(shape) + 1).astype(dtype)[1:].reshape(shape)

    for ta, tb in TRANSPOSITIONS:
        a, b = shifted((k, m) if ta else (m, k)), shifted((n, k) if tb else (k, n))
        out = shifted((m, n))
        run_call(gemm.lower(node_of(a, b, ta, tb)), [out], [a, b])
        check(out, a, b, ta, tb)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("ta", "tb"), TRANSPOSITIONS)
def test_large_by_residual(isa, rng, dtype, ta, tb):
    """A large product times a vector: (A B) x against A (B x), in float64."""
    m, n, k = 700, 650, 900
    a, b = operands(rng, dtype, (), m, n, k, ta, tb)
    c = compute(node_of(a, b, ta, tb), a, b, threads=2).astype(np.float64)
    wide_a, wide_b = (a.T if ta else a).astype(np.float64), (b.T if tb else b).astype(np.float64)
    x = rng.standard_normal(n)
    residual = np.linalg.norm(c @ x - wide_a @ (wide_b @ x))
    scale = np.linalg.norm(wide_a) * np.linalg.norm(wide_b) * np.linalg.norm(x)
    assert residual <= 4 * UNIT[dtype] * scale


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("ta", "tb"), TRANSPOSITIONS)
@pytest.mark.parametrize("sizes", [(1, 9, 40), (9, 1, 40), (20, 37, 40)])
def test_special_values(isa, rng, dtype, ta, tb, sizes):
    """NaN and infinity come out exactly where the sums have them, also through relu."""
    m, n, k = sizes
    a, b = operands(rng, dtype, (), m, n, k, ta, tb)
    rows, columns = (a.T if ta else a), (b.T if tb else b)
    rows[0, 3], rows[-1, 5], columns[7, -1] = np.nan, np.inf, -np.inf
    bias = np.zeros(n, dtype)
    for activation in (None, "relu"):
        result = compute(node_of(a, b, ta, tb, bias, activation), a, b, bias)
        want = expected(a, b, ta, tb, bias, activation)
        assert np.array_equal(np.isnan(result), np.isnan(want))
        assert np.array_equal(result[np.isinf(want)], want[np.isinf(want)])
        assert np.isinf(want).any() or activation == "relu" or m == 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("ta", "tb"), TRANSPOSITIONS)
@pytest.mark.parametrize(
    "sizes",
    [(1, 300, 310, 700), (1, 40, 900, 90), (7, 60, 70, 80), (1, 1, 3000, 200), (1, 3000, 1, 64)],
)
def test_same_bits_on_any_number_of_threads(isa, rng, dtype, ta, tb, sizes):
    batch, m, n, k = sizes
    a, b = operands(rng, dtype, (batch,), m, n, k, ta, tb)
    node = node_of(a, b, ta, tb)
    one = compute(node, a, b)
    for threads in (2, 3):
        assert compute(node, a, b, threads=threads).tobytes() == one.tobytes()
