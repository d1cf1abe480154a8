"""Two steps of a chain in one kernel: the numbers of both, one after the other."""

import itertools

import numpy as np
import pytest
from lowered import compute, node_of, unaligned

from uniflexflow._core.chain import find_kernel
from uniflexflow._core.tile_pairs import DTYPES, FIRST, SECOND, join_steps
from uniflexflow.ir import TensorSpec

SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 0.5, -2.5, 3e38)
PAIRS = [
    (first, second, side)
    for first, (second, names) in itertools.product(FIRST, SECOND.items())
    for side in range(len(names) if names[0] != names[-1] else 1)
    if names[side] is not None
]


def numbers(rng, n, dtype):
    x = (rng.standard_normal(n) * 20).astype(dtype)
    places = rng.integers(0, 4 * len(SPECIAL), n)
    for i, special in enumerate(SPECIAL):
        x[places == i] = special
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("first", "second", "side"), PAIRS)
def test_the_numbers_are_those_of_both(isa, rng, first, second, side, dtype):
    """Bit by bit; the same chain with the first's result returned too is not joined."""
    count = FIRST[first]
    for n in (1, 7, 8, 17, 70001):
        arrays = [unaligned(numbers(rng, n, dtype)) for _ in range(count + 1)]
        made = count + 1
        order = (made, count) if side == 0 else (count, made)
        order = order[: len(SECOND[second])]
        program = ((first, (), tuple(range(count))), (second, (), order))
        joined = compute(node_of("chain", arrays, program=program, results=(made + 1,)), arrays)[0]
        both = node_of("chain", arrays, program=program, results=(made, made + 1))
        apart = compute(both, arrays)[1]
        real = ~np.isnan(apart)
        bits = f"uint{8 * apart.itemsize}"
        np.testing.assert_array_equal(joined.view(bits)[real], apart.view(bits)[real])
        assert np.isnan(joined[~real]).all()


def join(program, count, results, dtype="float32", once=()):
    specs = [TensorSpec((5,), dtype)] * (count + len(program))
    steps = [(count + i, name, sources) for i, (name, sources) in enumerate(program)]
    return [(name, sources) for _, name, sources in join_steps(specs, steps, results, once)]


def test_every_pair_has_a_kernel(isa):
    for first, second in itertools.product(FIRST, SECOND):
        for name in filter(None, SECOND[second]):
            for dtype in DTYPES:
                assert find_kernel(f"{first}+{name}", [dtype] * 3, dtype)


def test_an_optimizer_has_half_as_many_steps():
    program = [
        ("subtract", (0, 1)), ("multiply", (4, 2)), ("add", (1, 5)),
        ("square", (0,)), ("subtract", (7, 3)), ("multiply", (8, 2)), ("add", (3, 9)),
    ]  # fmt: skip
    assert join(program, 4, (6, 10)) == [
        ("subtract+multiply", (0, 1, 2)),
        ("add", (1, 5)),
        ("square+subtract", (0, 0, 3)),
        ("multiply+add", (8, 2, 3)),
    ]


@pytest.mark.parametrize(
    ("program", "results", "once"),
    [
        ([("add", (0, 1)), ("multiply", (2, 1))], (2, 3), ()),  # it is a result itself
        ([("add", (0, 1)), ("multiply", (2, 2))], (3,), ()),  # both operands
        ([("add", (0, 1)), ("multiply", (2, 1)), ("add", (2, 3))], (4,), ()),  # read twice
        ([("add", (0, 1)), ("maximum", (2, 1))], (3,), ()),  # no kernel
        ([("add", (0, 1)), ("multiply", (2, 1))], (3,), (2,)),  # made once for all tiles
    ],
)
def test_what_stays_apart(program, results, once):
    joined = join(program, 2, results, once=once)
    assert (program[0][0], program[0][1]) in joined


def test_other_dtypes_stay_apart():
    assert len(join([("add", (0, 1)), ("multiply", (2, 1))], 2, (3,), "int32")) == 2
