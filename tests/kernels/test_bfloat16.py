"""Rounding to bfloat16: to nearest, ties to even, for every kind of float32."""

import numpy as np
import pytest

from uniflexflow._core.bfloat16 import expand, round_to


def rounded(x):
    out = np.empty(x.shape, np.uint16)
    round_to(x, out)
    return out


def expanded(bits):
    out = np.empty(bits.shape, np.float32)
    expand(bits, out)
    return out


def test_every_bfloat16_stays_itself():
    bits = np.arange(1 << 16, dtype=np.uint32)
    x = (bits << 16).view(np.float32)
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(rounded(x)[numbers], bits[numbers].astype(np.uint16))
    assert np.isnan(expanded(rounded(x))[~numbers]).all()


def test_rounding_is_to_the_nearest_and_ties_go_to_even():
    below = np.arange(0, 0x7F80, dtype=np.uint32)  # finite, positive; the next one may be infinite
    for low, up in ((0, 0), (1, 0), (0x7FFF, 0), (0x8001, 1), (0xFFFF, 1)):
        for sign in (0, 1 << 31):
            x = (below << 16 | low | sign).view(np.float32)
            want = (below + up).astype(np.uint16) | np.uint16(sign >> 16)
            np.testing.assert_array_equal(rounded(x), want)
    ties = (below << 16 | 0x8000).view(np.float32)
    np.testing.assert_array_equal(rounded(ties), (below + (below & 1)).astype(np.uint16))


def test_not_a_number_never_becomes_infinite():
    x = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(expanded(rounded(x))).all()


def test_expanding_adds_on_request():
    x = np.array([1.5, -2.0, np.inf], np.float32)
    total = np.array([1.0, 2.0, 3.0], np.float32)
    expand(rounded(x), total, add=True)
    np.testing.assert_array_equal(total, np.array([2.5, 0.0, np.inf], np.float32))
    expand(rounded(x[:0]), total[:0])


@pytest.mark.parametrize("function", [round_to, expand])
def test_lengths_must_agree(function):
    kinds = (np.float32, np.uint16) if function is round_to else (np.uint16, np.float32)
    with pytest.raises(ValueError, match="3 numbers to 2 places"):
        function(np.zeros(3, kinds[0]), np.zeros(2, kinds[1]))
