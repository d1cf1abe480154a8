"""Chains over bfloat16: steps that read and write it themselves, without casts."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from lowered import compute, node_of, unaligned

from uniflexflow import ir
from uniflexflow._core import LOWERINGS
from uniflexflow._core.chain import find_kernel
from uniflexflow._core.runner import run_call
from uniflexflow._core.tile_program import clean
from uniflexflow._core.tile_roundings import MIXED
from uniflexflow.ir import TensorSpec
from uniflexflow.ops.registry import OPS
from uniflexflow.runtime.reference import run_node

pytestmark = pytest.mark.usefixtures("isa")

NARROW, WIDE = "bfloat16", "float32"
UNARY = ("negative", "relu", "square")
SIZES = (0, 1, 3, 7, 8, 9, 15, 17, 31, 64, 65, 5000, 70001)
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 0.5, 1.5, -2.5, 3e38)


def numbers(rng, n, dtype):
    x = (rng.standard_normal(n) * 20).astype(WIDE)
    places = rng.integers(0, 5 * len(SPECIAL), n)
    for i, special in enumerate(SPECIAL):
        x[places == i] = special
    with np.errstate(over="ignore"):
        return x.astype(dtype)


def to_wide(r):
    return ("cast", (("dtype", WIDE),), (r,))


def to_narrow(r):
    return ("cast", (("dtype", NARROW),), (r,))


def steps_of(shapes, dtypes, program, results):
    specs = [TensorSpec(shape, dtype) for shape, dtype in zip(shapes, dtypes)]
    return [(name, sources) for _, name, sources in clean(specs, program, results).steps]


def same_bits(out, ref):
    """A NaN may have any sign."""
    assert out.dtype == ref.dtype
    bits = "uint16" if out.dtype == ml_dtypes.bfloat16 else "uint32"
    numbers = ref.astype(WIDE) == ref.astype(WIDE)
    np.testing.assert_array_equal(out.view(bits)[numbers], ref.view(bits)[numbers])
    assert np.isnan(out.astype(WIDE)[~numbers]).all()


def check_chain(arrays, program, results):
    node = node_of("chain", arrays, program=program, results=results)
    got = compute(node, arrays)
    for one, two in zip(got, compute(node, arrays, threads=2)):
        assert one.tobytes() == two.tobytes()
    with np.errstate(all="ignore"):
        for out, ref in zip(got, run_node(node, arrays)):
            same_bits(out, ref)


def program_of(name, dtypes, out):
    """The operation in float32 between casts, and the register of its result."""
    program, sources = [], []
    for i, dtype in enumerate(dtypes):
        if dtype == NARROW:
            sources.append(len(dtypes) + len(program))
            program.append(to_wide(i))
        else:
            sources.append(i)
    program.append((name, (), tuple(sources)))
    if out == NARROW:
        program.append(to_narrow(len(dtypes) + len(program) - 1))
    return tuple(program), (len(dtypes) + len(program) - 1,)


def combinations(name):
    count = 1 if name in UNARY else 2
    for *dtypes, out in itertools.product((WIDE, NARROW), repeat=count + 1):
        if NARROW in (*dtypes, out):
            yield dtypes, out


@pytest.mark.parametrize("name", sorted(MIXED))
def test_gives_what_the_operation_gives_between_casts(name, rng):
    for dtypes, out in combinations(name):
        assert find_kernel(name, tuple(dtypes), out)
        program, results = program_of(name, dtypes, out)
        for n in SIZES:
            arrays = [numbers(rng, n, dtype) for dtype in dtypes]
            steps = steps_of([(n,)] * len(dtypes), dtypes, program, results)
            assert steps == [(name, tuple(range(len(dtypes))))]
            check_chain(arrays, program, results)


def test_what_has_no_kernel_for_bfloat16_is_done_between_casts(rng):
    program, results = program_of("exp", [NARROW], NARROW)
    assert [name for name, _ in steps_of([(9,)], [NARROW], program, results)] == [
        "cast", "exp", "cast",
    ]  # fmt: skip
    with pytest.raises(NotImplementedError, match="exp"):
        find_kernel("exp", (NARROW,), NARROW)
    with pytest.raises(NotImplementedError, match="add"):
        find_kernel("add", (NARROW, "float64"), "float64")


def test_a_number_rounded_and_read_again_is_one_step(rng):
    """The cast back is read by a function, which has no kernel that reads bfloat16."""
    program = (to_narrow(0), to_wide(1), ("sqrt", (), (2,)))
    assert steps_of([(9,)], [WIDE], program, (3,)) == [("rounded", (0,)), ("sqrt", (2,))]
    for n in SIZES:
        check_chain([abs(numbers(rng, n, WIDE))], program, (3,))


def test_casts_stay_where_their_numbers_are_wanted(rng):
    # both are results: the number before it is rounded, the rounded one, and that in float32
    program = (("add", (), (0, 1)), to_narrow(2), to_wide(3), ("multiply", (), (4, 0)))
    results = (2, 3, 4, 5)
    names = [name for name, _ in steps_of([(9,)] * 2, [WIDE] * 2, program, results)]
    assert names == ["add", "cast", "cast", "multiply"]
    # a reader that needs float32 has it made once, and the others read that
    shared = (to_wide(0), ("exp", (), (1,)), ("add", (), (1, 2)))
    assert steps_of([(9,)], [NARROW], shared, (3,)) == [
        ("cast", (0,)), ("exp", (1,)), ("add", (1, 2)),
    ]  # fmt: skip
    for n in SIZES:
        check_chain([numbers(rng, n, WIDE), numbers(rng, n, WIDE)], program, results)


def test_rounds_where_the_graph_rounds(rng):
    """A value is rounded between two steps that both have kernels for bfloat16."""
    program = (
        to_wide(0), to_wide(1), ("relu_gradient", (), (3, 4)), to_narrow(5), to_wide(6),
        ("multiply", (), (7, 2)), ("add", (), (8, 4)), to_narrow(9),
    )  # fmt: skip
    steps = steps_of([(6, 9), (6, 9), (9,)], [NARROW, NARROW, WIDE], program, (10,))
    assert [name for name, _ in steps] == ["relu_gradient", "multiply", "add"]
    for rows, columns in ((1, 1), (3, 5), (40, 9), (7, 3000), (300, 64)):
        arrays = [
            numbers(rng, (rows, columns), NARROW),
            numbers(rng, (rows, columns), NARROW),
            numbers(rng, columns, WIDE),
        ]
        check_chain(arrays, program, (10,))


def test_operands_that_are_broadcast(rng):
    program, results = program_of("multiply", [NARROW, NARROW], NARROW)
    for shape in ((1,), (9,), (40, 1), (1, 9), (40, 9), (3, 40, 9), (3, 1, 9)):
        check_chain(
            [numbers(rng, (3, 40, 9), NARROW), numbers(rng, shape, NARROW)], program, results
        )


def test_writes_over_an_operand(rng):
    program, results = program_of("add", [NARROW, WIDE], NARROW)
    x, y = numbers(rng, 5000, NARROW), numbers(rng, 5000, WIDE)
    node = node_of("chain", [x, y], program=program, results=results)
    call = LOWERINGS["chain"](node)
    assert call.inplace == ((0, 0),)
    (want,) = run_node(node, [x, y])
    (got,) = compute(node, [x, y], inplace=(0, 0))
    same_bits(got, want)


def test_what_is_reduced_is_read_as_bfloat16(rng):
    x, y = (rng.standard_normal((70, 33)).astype(NARROW) for _ in range(2))
    program = (to_wide(0), to_wide(1), ("multiply", (), (2, 3)))
    assert steps_of([x.shape] * 2, [NARROW] * 2, program, (4,)) == [("multiply", (0, 1))]
    for axes in ((0,), (1,), (0, 1)):
        values = [ir.leaf(a.shape, NARROW, "x") for a in (x, y)]
        out = ir.apply(
            OPS["chain_reduce"], *values, program=program, results=(4,), axes=axes, kind="sum"
        )
        got = unaligned(np.zeros(out.shape, WIDE))
        run_call(LOWERINGS["chain_reduce"](out.node), [got], [x, y], 2)
        products = x.astype("float64") * y.astype("float64")
        bound = 1e-6 * abs(products).sum(axis=axes)
        assert (abs(got - products.sum(axis=axes)) <= bound).all()
