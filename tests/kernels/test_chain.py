"""Elementwise kernels and the chains made of them."""

import itertools

import numpy as np
import pytest
from lowered import check, compute, node_of, unaligned

from uniflexflow import ir
from uniflexflow._core import LOWERINGS
from uniflexflow._core.chain import find_kernel
from uniflexflow._core.runner import run_call
from uniflexflow.ops.registry import OPS

pytestmark = pytest.mark.usefixtures("isa")

FLOATS = ("float32", "float64")
INTS = ("int8", "uint8", "int32", "int64")
NUMBERS = FLOATS + INTS
ALL = (*NUMBERS, "bool")
STORED = (*ALL, "bfloat16")  # is moved, chosen and cast; computed with as float32
SIZES = (0, 1, 3, 7, 8, 9, 31, 64, 65, 5000, 70001)

EXACT = {
    "negative": NUMBERS, "abs": NUMBERS, "sign": NUMBERS, "square": NUMBERS, "relu": NUMBERS,
    "floor": FLOATS, "ceil": FLOATS, "round": FLOATS, "sqrt": FLOATS, "reciprocal": FLOATS,
    "logical_not": ("bool",), "isnan": FLOATS, "isfinite": FLOATS, "stop_gradient": STORED,
    "add": NUMBERS, "subtract": NUMBERS, "multiply": NUMBERS, "divide": FLOATS, "maximum": NUMBERS,
    "minimum": NUMBERS, "relu_gradient": NUMBERS, "floor_divide": NUMBERS, "mod": NUMBERS,
    "equal": ALL, "not_equal": ALL, "less": ALL, "less_equal": ALL, "greater": ALL,
    "greater_equal": ALL, "logical_and": ("bool",), "logical_or": ("bool",),
}  # fmt: skip
UNARY = tuple(itertools.takewhile(lambda name: name != "add", EXACT))
# by tests/kernels/test_functions.py
FUNCTIONS = (
    "exp", "expm1", "log", "log1p", "tanh", "sin", "cos", "sigmoid", "softplus", "erf", "power",
    "rsqrt",
)  # fmt: skip
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 0.5, 1.5, -2.5, 3e38)


def numbers(rng, dtype, shape):
    x = (rng.standard_normal(shape) * 20).astype("int32" if dtype == "uint8" else dtype)
    x = x.astype(dtype)
    if dtype in (*FLOATS, "bfloat16") and x.ndim == 1:
        with np.errstate(over="ignore"):
            x[: len(SPECIAL)] = np.array(SPECIAL[: x.size])
    return x


def test_every_elementwise_operation_is_tested_here_or_with_the_functions():
    known = {*EXACT, *FUNCTIONS, "where", "cast", "chain"}
    assert {name for name, op in OPS.items() if op.elementwise} == known


@pytest.mark.parametrize("name", EXACT)
def test_gives_what_numpy_gives(name, rng):
    for dtype, n in itertools.product(EXACT[name], SIZES):
        operands = [numbers(rng, dtype, n)]
        if name not in UNARY:
            operands.append(rng.permutation(numbers(rng, dtype, n)))
        check(name, *operands)


@pytest.mark.parametrize("dtype", STORED)
def test_where_chooses_in_every_dtype(dtype, rng):
    for n in SIZES:
        check("where", rng.random(n) < 0.5, numbers(rng, dtype, n), numbers(rng, dtype, n))


@pytest.mark.parametrize("source, target", list(itertools.product(STORED, STORED)))
def test_casts_cut_fractions_and_wrap_integers(source, target, rng):
    for n in SIZES:
        x = (rng.standard_normal(n) * 30).astype(source)
        if source in (*FLOATS, "bfloat16") and target == "uint8":
            x = abs(x)  # a negative float has no meaning there
        check("cast", x, dtype=target)


def test_a_cast_of_nan_to_bool_is_true():
    for dtype in ("float64", "bfloat16"):
        check("cast", np.array([np.nan, 0.0, -0.0, 2.0]).astype(dtype), dtype="bool")


def test_casts_to_bfloat16_round_to_nearest_even(rng):
    # halfway between two numbers, just beside it, the largest, what overflows, subnormals
    half = np.uint32(0x3F80_7FFE) + np.arange(5, dtype=np.uint32)[:, None]
    bits = (half + (np.arange(64, dtype=np.uint32) << 16)).reshape(-1)
    edge = np.uint32([0x7F7F_FFFF, 0x7F7F_7FFF, 0x7F80_0000, 0x7F80_0001, 0x7FC0_0000, 0x1, 0x8000])
    bits = np.concatenate([bits, edge, edge | np.uint32(1 << 31)])
    x = np.concatenate([bits, rng.integers(0, 2**32, 4096).astype("uint32")]).view("float32")
    (y,) = check("cast", x, dtype="bfloat16")
    u = x.view("uint32")
    rounded = ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype("uint16")
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(y.view("uint16")[numbers], rounded[numbers])
    assert np.isnan(y.astype("float32")[~numbers]).all()
    (back,) = check("cast", y, dtype="float32")
    np.testing.assert_array_equal(back.view("uint32") >> 16, y.view("uint16"))


BROADCASTS = [
    ((), ()), ((5,), ()), ((300, 40), (40,)), ((300, 40), (300, 1)), ((3, 1, 5), (1, 4, 1)),
    ((2, 3, 1, 5), (1, 3, 4, 1)), ((10, 3000), (3000,)), ((10, 3000), (10, 1)), ((64, 1), (1, 64)),
    ((7, 30000), ()), ((50, 4, 8), (50, 1, 8)), ((50, 8, 4), (50, 8, 1)), ((50, 4, 8), (1, 4, 1)),
    ((0, 4), (4,)), ((3, 0), (3, 1)), ((1, 1), (1,)), ((20000, 3), (3,)), ((20000, 3), (20000, 1)),
    ((4, 1, 300, 1), (1, 5, 1, 30)), ((2, 1, 3, 1, 4, 1), (1, 2, 1, 3, 1, 5)),
]  # fmt: skip

PROGRAM = (
    ("add", (), (0, 1)),  # 2
    ("tanh", (), (2,)),  # 3
    ("square", (), (1,)),  # 4: the same for all tiles where input 1 is
    ("multiply", (), (4, 3)),  # 5
    ("less", (), (2, 0)),  # 6
    ("cast", (("dtype", "float64"),), (6,)),  # 7
    ("stop_gradient", (), (5,)),  # 8
    ("where", (), (6, 5, 0)),  # 9
)


@pytest.mark.parametrize("a, b", BROADCASTS)
def test_broadcasts_rows_columns_and_single_elements(a, b, rng):
    x, y = numbers(rng, "float32", a), numbers(rng, "float32", b)
    for left, right in ((x, y), (y, x)):
        check("add", left, right)
        check("less", left.astype("int64"), right.astype("int64"))
        check("where", left > 0, right, left)
        check("chain", left, right, program=PROGRAM, results=(6, 8, 5, 9, 7), ulp=8)


def test_a_chain_may_return_its_input(rng):
    x = numbers(rng, "float32", 100)
    check("chain", x, program=(("negative", (), (0,)),), results=(0, 1, 0))


def test_a_long_chain_with_many_live_registers(rng):
    x, y = numbers(rng, "float64", (40, 50)), numbers(rng, "float64", 50)
    program = tuple([("add", (), (i, 1)) for i in (0, *range(2, 40))])
    total = [("add", (), (2 + i, 2 + len(program) + i - 1)) for i in range(1, len(program))]
    total.insert(0, ("square", (), (2,)))
    program = (*program, *total)
    check("chain", x, y, program=program, results=(1 + len(program),))


@pytest.mark.parametrize("shape", [(5,), (3000,), (300, 40)])
def test_what_may_be_done_in_place_can_be(shape, rng):
    x, y = numbers(rng, "float32", shape), numbers(rng, "float32", shape[-1:])
    node = node_of("chain", (x, y), program=PROGRAM[:4], results=(2, 5))
    expected = compute(node, (x, y))
    call = LOWERINGS["chain"](node)
    pairs = [p for p in call.inplace if p[1] == 0]
    assert pairs
    for k, _ in pairs:
        memory = unaligned(x)
        outs = [memory if i == k else np.empty(shape, "float32") for i in range(2)]
        run_call(call, outs, [memory, unaligned(y)])
        for out, ref in zip(outs, expected):
            np.testing.assert_array_equal(out, ref)


def test_an_input_that_is_read_later_is_not_offered_for_writing():
    x = ir.leaf((8,), "float32", "x")
    program = (("exp", (), (0,)), ("multiply", (), (1, 0)))
    first, second = ir.apply(OPS["chain"], x, program=program, results=(1, 2))
    assert LOWERINGS["chain"](first.node).inplace == ((1, 0),)
    # the same memory under two names
    y = ir.apply(OPS["reshape"], ir.apply(OPS["reshape"], x, shape=(2, 4)), shape=(8,))
    program = (("exp", (), (0,)), ("multiply", (), (2, 1)))
    first, _ = ir.apply(OPS["chain"], x, y, program=program, results=(2, 3))
    assert {k for k, _ in LOWERINGS["chain"](first.node).inplace} == {1}


def test_an_operation_without_a_kernel_says_so():
    with pytest.raises(NotImplementedError, match="'subtract' on operands of bool, bool"):
        find_kernel("subtract", ("bool", "bool"), "bool")


def test_a_chain_of_what_is_not_elementwise_is_refused():
    with pytest.raises(ValueError, match="'sum' is not an elementwise primitive"):
        node_of("chain", (np.ones(3),), program=(("sum", (("axes", (0,)),), (0,)),), results=(1,))


REDUCED = [
    # shapes of two inputs, axes
    ((300, 40), (40,), (0,)), ((300, 40), (300, 1), (1,)), ((300, 40), (40,), (1,)),
    ((300, 40), (300, 40), (0, 1)), ((7, 30000), (30000,), (0,)), ((7, 30000), (7, 1), (1,)),
    ((20000, 3), (3,), (0,)), ((20000, 3), (20000, 1), (1,)), ((8, 14, 14, 64), (64,), (0, 1, 2)),
    ((8, 14, 14, 64), (8, 1, 1, 64), (0, 1, 2)), ((8, 14, 14, 64), (8, 1, 1, 64), (1, 2)),
    ((50, 4, 8), (50, 1, 8), (1,)), ((50, 4, 8), (1, 4, 1), (0, 2)), ((5,), (), (0,)),
    ((3, 5, 7, 9), (5, 1, 9), (0, 2)), ((3, 5, 7, 9), (5, 1, 9), (1, 3)), ((1, 1), (1,), (0,)),
    ((0, 4), (4,), (0,)), ((4, 0), (4, 1), (0,)), ((64, 1), (1, 64), (1,)), ((5000,), (), (0,)),
    # more rows than one partial result takes in
    ((110000, 5), (5,), (0,)), ((5000, 300), (300,), (0,)), ((40, 60, 5000), (60, 5000), (0,)),
]  # fmt: skip


@pytest.mark.parametrize("a, b, axes", REDUCED)
def test_a_chain_is_reduced_without_being_written(a, b, axes, rng):
    x, y = rng.standard_normal(a), rng.standard_normal(b)
    program = PROGRAM[:4]
    # of the sizes of what is added; NumPy adds rows one by one, so its error grows too
    near = {"ulp": 64, "scale": 100.0 + 4 * max(x.size, y.size)}
    check("chain_reduce", x, y, program=program, results=(5,), axes=axes, kind="sum", **near)
    f = [v.astype("float32") for v in (x, y)]
    check("chain_reduce", *f, program=program, results=(5,), axes=axes, kind="sum", **near)
    if 0 not in a:
        check("chain_reduce", x, y, program=program, results=(5,), axes=axes, kind="max", ulp=8)
    integers = [(v * 9).astype("int32") for v in (x, y)]
    program = (("add", (), (0, 1)), ("square", (), (2,)))
    check("chain_reduce", *integers, program=program, results=(3,), axes=axes, kind="sum")


@pytest.mark.parametrize("a, b, axes", REDUCED)
def test_several_registers_are_reduced_in_one_pass(a, b, axes, rng):
    x, y = rng.standard_normal(a), rng.standard_normal(b)
    near = {"ulp": 64, "scale": 100.0 + 4 * max(x.size, y.size)}
    shape = np.broadcast_shapes(a, b)
    inputs = [r for r, own in enumerate((a, b)) if own == shape]
    for results in [(*inputs, 5), (5, 3, *inputs, 2, 5)]:
        for dtype in ("float32", "float64"):
            arrays = [v.astype(dtype) for v in (x, y)]
            check("chain_reduce", *arrays, program=PROGRAM[:4], results=results, axes=axes,
                  kind="sum", **near)  # fmt: skip
            if 0 not in shape:
                check("chain_reduce", *arrays, program=PROGRAM[:4], results=results, axes=axes,
                      kind="max", ulp=8)  # fmt: skip


@pytest.mark.parametrize("shape", [(1 << 18, 16), (1 << 13, 300), (1 << 11, 5000), (8, 300, 999)])
def test_a_long_float32_sum_of_a_chain_is_as_good_as_a_short_one(shape):
    x = np.full(shape, 0.1, "float32")
    axes = tuple(range(x.ndim - 1))
    node = node_of("chain_reduce", (x,), program=(("negative", (), (0,)),), results=(1,),
                   axes=axes, kind="sum")  # fmt: skip
    (y,) = compute(node, (x,))
    np.testing.assert_allclose(y, -float(np.float32(0.1)) * (x.size // shape[-1]), rtol=4e-6)


def test_a_nan_in_one_column_stays_in_it(rng):
    x = rng.standard_normal((3000, 48)).astype("float32")
    x[1234, 7], x[2999, 40] = np.nan, -np.inf
    for kind in ("sum", "max"):
        check("chain_reduce", x, program=(("negative", (), (0,)),), results=(1,), axes=(0,),
              kind=kind, ulp=64, scale=1000.0)  # fmt: skip
