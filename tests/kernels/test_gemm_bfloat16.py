"""Matrix products of bfloat16: those of float32 on the same numbers, rounded once.

The form of AVX512_BF16, pairs of numbers, is tested in every instruction set: with the
products of a pair written out where the instruction is missing.
"""

import itertools

import ml_dtypes
import numpy as np
import pytest

from uniflexflow._core import gemm
from uniflexflow._core.runner import run_call
from uniflexflow.plan.kernel_call import KernelCall

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FORMS = ("bfloat16", "bfloat16 pairs")
TRANSPOSITIONS = tuple(itertools.product((False, True), repeat=2))


def operands(rng, batch, m, n, k, ta, tb):
    a = rng.standard_normal((batch, k, m) if ta else (batch, m, k)).astype(BFLOAT16)
    b = rng.standard_normal((batch, n, k) if tb else (batch, k, n)).astype(BFLOAT16)
    return a, b


def product(dtype, a, b, ta, tb, bias=None, act=0, threads=1, out="bfloat16", **force):
    batch, m, n = len(a), a.shape[2 if ta else 1], b.shape[1 if tb else 2]
    k = a.shape[1 if ta else 2]
    call = gemm.lower_sizes(dtype, batch, m, n, k, ta, tb, bias is not None, act, out=out, **force)
    out = "float32" if dtype == "float32" else out
    c = np.full((batch, m, n), np.nan, out)
    run_call(KernelCall("matmul", **call), [c], [x for x in (a, b, bias) if x is not None], threads)
    return c


def in_float32(a, b, ta, tb, bias=None, act=0, **force):
    """The float32 kernel on the expanded operands."""
    wide = [None if x is None else x.astype(np.float32) for x in (a, b, bias)]
    return product("float32", *wide[:2], ta, tb, wide[2], act, **force)


def same(one, two):
    return one.dtype == two.dtype and one.tobytes() == two.tobytes()


def bound(a, b, ta, tb, bias=None):
    """Of the difference of two sums of k products: 2 (k + 3) u |A| |B|, u = 2^-24."""
    a, b = (abs(x.astype(np.float64)) for x in (a, b))
    size = np.matmul(a.swapaxes(1, 2) if ta else a, b.swapaxes(1, 2) if tb else b)
    if bias is not None:
        size += abs(bias.astype(np.float64))
    return 2 * (a.shape[1 if ta else 2] + 3) * 2.0**-24 * size


def check(form, a, b, ta, tb, bias=None, act=0, **force):
    """Rounded once, and before that float32's: the same bits where sums have the same order."""
    wide = product(form, a, b, ta, tb, bias, act, out="float32", **force) if bias is None else None
    rounded = product(form, a, b, ta, tb, bias, act, **force)
    want = in_float32(a, b, ta, tb, bias, act, **force)
    if form == "bfloat16" and gemm.elements_together(form) == 1:
        assert wide is None or same(wide, want)
        assert same(rounded, want.astype(BFLOAT16))
        return
    near = bound(a, b, ta, tb, bias)
    if wide is not None:
        assert (abs(wide - want) <= near).all()
        assert same(rounded, wide.astype(BFLOAT16))
    # neighbours are 2^-7 apart, of which the rounded number is the nearer
    assert (abs(rounded.astype(np.float64) - want) <= near + 2.0**-8 * (abs(want) + near)).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("ta", "tb"), TRANSPOSITIONS)
def test_edges(isa, rng, form, ta, tb):
    mr, nr = gemm.micro_tile(form)
    rows = (0, 1, 2, mr - 1, mr, mr + 1, 2 * mr + 1)
    columns = (0, 1, 2, nr - 1, nr, nr + 1, 2 * nr + 3)
    for m, n, k in itertools.product(rows, columns, (0, 1, 2, 3, 8, 33)):
        check(form, *operands(rng, 1, m, n, k, ta, tb), ta, tb, pack_a=True, pack_b=True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("ta", "tb"), TRANSPOSITIONS)
@pytest.mark.parametrize("blocks", [(16, 8, 32), (64, 30, 64)])
def test_sums_in_several_blocks_are_rounded_once(isa, rng, form, ta, tb, blocks):
    mr, nr = gemm.micro_tile(form)
    blocks = blocks[0], -(-blocks[1] // mr) * mr, -(-blocks[2] // nr) * nr
    for batch, m, n, k in ((1, 61, 75, 131), (3, 37, 50, 41)):
        a, b = operands(rng, batch, m, n, k, ta, tb)
        for threads in (1, 2):
            check(form, a, b, ta, tb, pack_a=True, pack_b=True, blocks=blocks, threads=threads)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("act", [0, 1])
@pytest.mark.parametrize("sizes", [(1, 40, 9), (40, 1, 9), (32, 64, 13), (70, 90, 1400)])
def test_bias_and_activation(isa, rng, form, act, sizes):
    m, n, k = sizes
    for ta, tb in TRANSPOSITIONS:
        a, b = operands(rng, 1, m, n, k, ta, tb)
        bias = rng.standard_normal(n).astype(BFLOAT16)
        check(form, a, b, ta, tb, bias, act, pack_a=True, pack_b=True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", [(1, 9, 41), (9, 1, 41), (20, 37, 41)])
def test_special_values(isa, rng, form, sizes):
    """NaN and infinity come out exactly where the float32 sums have them, also through relu."""
    m, n, k = sizes
    for (ta, tb), act in itertools.product(TRANSPOSITIONS, (0, 1)):
        a, b = operands(rng, 1, m, n, k, ta, tb)
        rows, columns = (a[0].T if ta else a[0]), (b[0].T if tb else b[0])
        rows[0, 3], rows[-1, k - 1], columns[7, -1] = np.nan, np.inf, -np.inf
        bias = np.zeros(n, BFLOAT16)
        result = product(form, a, b, ta, tb, bias, act).astype(np.float32)
        want = in_float32(a, b, ta, tb, bias, act)
        assert np.array_equal(np.isnan(result), np.isnan(want))
        assert np.array_equal(result[np.isinf(want)], want[np.isinf(want)])
        assert np.isnan(want).any()
        assert np.isinf(want).any() or act or m == 1


def test_too_large_becomes_infinite_and_ties_go_to_even(isa):
    """1 + 2^-8 lies between two bfloat16 and goes to 1, 1 + 3 * 2^-8 to 1 + 2^-6."""
    a = np.array([[[1, 2.0**-8], [1, 3 * 2.0**-8], [2.0**127, 2.0**127]]], BFLOAT16)
    for form, n in itertools.product(FORMS, (1, 2, 40)):
        result = product(form, a, np.ones((1, 2, n), BFLOAT16), False, False)
        assert (result.astype(np.float32) == [[[1], [1 + 2.0**-6], [np.inf]]]).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", [(33, 35, 37), (1, 200, 41), (200, 1, 41)])
def test_start_on_any_element(isa, rng, form, sizes):
    """Operands that start one element after an aligned address."""
    m, n, k = sizes

    def shifted(array):
        out = np.empty(array.size + 1, BFLOAT16)[1:].reshape(array.shape)
        out[...] = array
        return out

    for ta, tb in TRANSPOSITIONS:
        a, b = map(shifted, operands(rng, 1, m, n, k, ta, tb))
        check(form, a, b, ta, tb, pack_a=True, pack_b=True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "sizes",
    [(1, 300, 310, 1401), (1, 40, 900, 90), (7, 60, 70, 81), (1, 1, 3000, 200), (1, 3000, 1, 64)],
)
def test_same_bits_on_any_number_of_threads(isa, rng, form, sizes):
    for ta, tb in TRANSPOSITIONS:
        a, b = operands(rng, *sizes, ta, tb)
        one = product(form, a, b, ta, tb)
        for threads in (2, 3):
            assert same(product(form, a, b, ta, tb, threads=threads), one)
