"""Triton's swizzled shared encoding against its definition, element by element."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tirx_eq.errors import InteropError, LayoutError
from tirx_eq.interop.triton_shared import SwizzledShared, to_swizzled_shared
from tirx_eq.layout import SwizzleLayout, TileLayout, default_layout
from tirx_eq.layout.axis import m
from tirx_eq.layout.compose import ComposeLayout
from tirx_eq.layout.tile import Iter


def defined(form: SwizzledShared, row: int, column: int, width: int) -> int:
    phase = row // form.per_phase % form.max_phase
    return row * width + (column // form.vec ^ phase) * form.vec + column % form.vec


def powers(most: int) -> st.SearchStrategy[int]:
    return st.integers(0, most).map(lambda k: 1 << k)


@given(powers(3), powers(3), powers(3), powers(3), powers(2))
def test_there_and_back(vec, per_phase, max_phase, rows, spare):
    rows, width = rows * per_phase * max_phase, vec * max_phase * spare
    form = SwizzledShared(vec, per_phase, max_phase)
    layout = form.layout((rows, width))
    for r in range(rows):
        for c in range(width):
            assert layout.at(r, c, shape=(rows, width)) == {"m": defined(form, r, c, width)}
    back = to_swizzled_shared(layout, (rows, width))
    assert back == (form if max_phase > 1 else SwizzledShared(1, 1, 1))


def test_a_swizzle_has_the_form_for_one_length_of_row():
    """A reported fault: a conversion that doesn't look at the length of the row."""
    swizzle = SwizzleLayout(3, 3, 3)
    form = to_swizzled_shared(swizzle, (16, 64))
    assert form == SwizzledShared(8, 1, 8)
    for r in range(16):
        for c in range(64):
            assert swizzle.at(r * 64 + c) == {"m": defined(form, r, c, 64)}
    with pytest.raises(InteropError, match=re.escape("element (8, 0) is stored in row 9 of 32 elements")):
        to_swizzled_shared(swizzle, (16, 32))
    with pytest.raises(InteropError, match=re.escape("element (0, 64) is stored at 72: the swizzle's row bits start inside")):
        to_swizzled_shared(swizzle, (16, 128))


def test_what_has_no_form_is_refused_with_the_first_element():
    padded = TileLayout((Iter(16, 36, m), Iter(32, 1, m)))
    with pytest.raises(LayoutError, match="stride 36"):
        to_swizzled_shared(padded, (16, 32))
    skipping = ComposeLayout(SwizzleLayout(3, 1, 3), default_layout((8, 64)))
    assert to_swizzled_shared(skipping, (8, 64)) == SwizzledShared(8, 1, 2)
    with pytest.raises(InteropError, match="don't fit in a row of 16"):
        SwizzledShared(8, 1, 4).layout((8, 16))
    with pytest.raises(InteropError, match="powers of two"):
        to_swizzled_shared(skipping, (8, 48))
    with pytest.raises(InteropError, match="vec must be a power of two"):
        SwizzledShared(3, 1, 4)
