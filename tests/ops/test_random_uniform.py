"""The generator against the paper's vectors, and shares against the whole."""

import numpy as np
import pytest

from uniflexflow.ir import TensorSpec, constant
from uniflexflow.ops import random as ops_random
from uniflexflow.ops.random import RANDOM_UNIFORM, philox4x32, random_uniform

# Random123's kat_vectors for philox 4x32 10: counter, key, output
KNOWN = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answers(counter, key, expected):
    assert tuple(int(w) for w in philox4x32(counter, key)) == expected


def draw(key, shape, dtype="float32", start=None, global_shape=None):
    return RANDOM_UNIFORM.reference(
        np.asarray(key, np.int64),
        shape=shape,
        dtype=dtype,
        start=start or (0,) * len(shape),
        global_shape=global_shape or shape,
    )


def test_which_word_serves_which_element():
    w = philox4x32(([0, 1], 0, 7, 0), (5, 0))
    u = draw((5, 7), (8,))
    expected = np.array([[int(word[b]) >> 8 for word in w] for b in (0, 1)]) / 2**24
    np.testing.assert_array_equal(u, expected.reshape(-1).astype("float32"))
    d = draw((5, 7), (4,), "float64")
    bits = [(int(w[j][b]) >> 5) * 2**26 + (int(w[j + 1][b]) >> 6) for b in (0, 1) for j in (0, 2)]
    np.testing.assert_array_equal(d, np.array(bits) / 2**53)


def test_seed_and_counter_use_all_their_bits():
    draws = [draw(k, (4,)) for k in [(0, 0), (1 << 40, 0), (0, 1 << 40), (-1, 0), (0, -1)]]
    assert len({d.tobytes() for d in draws}) == 5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("start", [(0, 0, 0), (1, 0, 0), (2, 3, 0), (1, 2, 1)])
def test_a_share_has_the_numbers_of_the_whole(dtype, start):
    whole = draw((3, 9), (5, 7, 3), dtype)
    shape = (2, 3, 2)
    share = draw((3, 9), shape, dtype, start, whole.shape)
    box = tuple(slice(b, b + n) for b, n in zip(start, shape))
    np.testing.assert_array_equal(share, whole[box])


def test_localise_moves_the_start():
    node = random_uniform(constant([1, 2], "int64"), (6, 4)).node
    spec = TensorSpec((2, 4), "float32")
    once = RANDOM_UNIFORM.localise(node.attrs, (), (spec,), ((3, 0),))
    assert once == {**node.attrs, "shape": (2, 4), "start": (3, 0)}
    again = RANDOM_UNIFORM.localise(once, (), (TensorSpec((1, 4), "float32"),), ((1, 0),))
    assert again["start"] == (4, 0)
    assert again["global_shape"] == (6, 4)


def test_numbers_are_uniform():
    u = draw((11, 0), (200_000,)).astype("float64")
    assert u.min() >= 0 and u.max() < 1
    counts = np.histogram(u, bins=50, range=(0, 1))[0]
    chi2 = ((counts - 4000) ** 2 / 4000).sum()
    assert chi2 < 85.4  # 99.9 % of chi-square with 49 degrees of freedom
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.01


def test_empty_and_scalar():
    assert draw((0, 0), (0, 3)).shape == (0, 3)
    assert draw((0, 0), ()).shape == ()


def test_errors():
    key = constant([0, 0], "int64")
    with pytest.raises(ValueError, match=r"key must be int64\[2\]; received float32\[3\]"):
        random_uniform(constant([0.0, 1, 2], "float32"), (2,))
    with pytest.raises(
        TypeError, match=r"expected one of \('float32', 'float64'\); received 'int32'"
    ):
        random_uniform(key, (2,), "int32")
    with pytest.raises(ValueError, match="is not inside a tensor"):
        ops_random.apply(
            RANDOM_UNIFORM, key, shape=(2,), dtype="float32", start=(3,), global_shape=(4,)
        )
