"""The arena: buffers alive at the same time never overlap, and space is used again."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from uniflexflow.plan.memory import ALIGNMENT, Lifetime, align, assign_offsets

lifetimes = st.lists(
    st.tuples(st.integers(0, 4096), st.integers(0, 30), st.integers(0, 12)), max_size=40
).map(
    lambda rows: [
        Lifetime(n, first, first + more) for n, first, more in sorted(rows, key=lambda r: r[1])
    ]
)


def overlap(a, b):
    return a[0] < b[1] and b[0] < a[1]


def spans(rows, offsets):
    return [(o, o + align(r.nbytes)) for r, o in zip(rows, offsets)]


@given(lifetimes)
def test_live_buffers_never_overlap(rows):
    offsets, top = assign_offsets(rows)
    places = spans(rows, offsets)
    assert all(o % ALIGNMENT == 0 for o in offsets)
    assert all(end <= top for _, end in places)
    for i, a in enumerate(rows):
        for j, b in enumerate(rows[:i]):
            if a.first <= b.last and b.first <= a.last:
                assert not overlap(places[i], places[j]), (a, b, places[i], places[j])


@given(lifetimes)
def test_peak_is_between_need_and_sum(rows):
    _, top = assign_offsets(rows)
    need = max(
        (sum(align(r.nbytes) for r in rows if r.first <= t <= r.last) for t in range(45)),
        default=0,
    )
    assert need <= top <= sum(align(r.nbytes) for r in rows)


def test_space_is_used_again():
    rows = [Lifetime(640, i, i + 1) for i in range(100)]
    _, top = assign_offsets(rows)
    assert top == 2 * 640


def test_taking_over_keeps_the_place():
    rows = [
        Lifetime(640, 0, 1),
        Lifetime(640, 1, 2, takes_over=0),
        Lifetime(640, 2, 3, takes_over=1),
    ]
    offsets, top = assign_offsets(rows)
    assert offsets == [0, 0, 0]
    assert top == 640


@pytest.mark.parametrize("nbytes", [0, 1, 64, 65])
def test_every_buffer_has_an_address_of_its_own(nbytes):
    offsets, _ = assign_offsets([Lifetime(nbytes, 0, 1), Lifetime(nbytes, 0, 1)])
    assert offsets[0] != offsets[1]
