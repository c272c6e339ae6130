"""Swizzled addresses: an anchor with bits flipped, only where that is the same address."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq.ir.index import evaluate
from tirx_eq.lower.code.swizzled import swizzled
from tirx_eq.lower.storage import SHARED_ALIGN

ROW = ("add", ("mul", "t", 128), ("mul", ("and", "t", 7), 16))
RANGES = {"t": (0, 127)}


def flipped(k: int):
    return ("add", ("mul", "t", 128), ("mul", ("xor", ("and", "t", 7), k), 16))


@pytest.mark.parametrize("k", range(1, 8))
def test_places_of_a_row_share_their_anchor(k):
    assert swizzled(flipped(k), RANGES) == (ROW, 16 * k, 0)


@pytest.mark.parametrize("term", [("xor", ROW, 16400), ("xor", 16400, ROW)])
def test_bits_beyond_the_alignment_are_a_constant(term):
    assert swizzled(term, RANGES) == (ROW, 16, 16384)


def test_no_constant_where_the_bit_may_be_set():
    term = ("xor", ROW, 16400)
    assert swizzled(term, {"t": (0, 255)}) == (term, 0, 0)


def test_no_flip_where_a_sum_carries():
    term = ("add", "t", ("xor", "t", 1))
    assert swizzled(term, RANGES) == (term, 0, 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 127), st.integers(0, 7), st.integers(0, 200), st.integers(1, 4000))
def test_the_address_is_the_same_wherever_shared_memory_begins(t, k, block, flips):
    for term in (flipped(k), ("xor", ROW, flips)):
        anchor, mask, constant = swizzled(term, RANGES)
        base, at = block * SHARED_ALIGN, {"t": t}
        assert (base + evaluate(anchor, at) ^ mask) + constant == base + evaluate(term, at)
