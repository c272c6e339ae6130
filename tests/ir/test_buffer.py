"""Buffers, regions, indexing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_samples import a_buffer

from tirx_eq import ir
from tirx_eq.errors import IRError


def test_indices_give_a_load_and_slices_a_region():
    buffer, i = a_buffer(), ir.Var("i")
    assert buffer[i, 2] == ir.BufferLoad(buffer, (i, ir.const(2)))
    region = buffer[i, 1:3]
    assert region == ir.BufferRegion(buffer, (ir.Range(i, ir.const(1)), ir.Range(ir.const(1), ir.const(2))))
    assert buffer[2:4] == ir.BufferRegion(
        buffer, (ir.Range(ir.const(2), ir.const(2)), ir.Range(ir.const(0), ir.const(4)))
    )
    assert region.buffer is buffer


def test_symbolic_bounds():
    buffer, i = a_buffer(), ir.Var("i")
    assert buffer[i : i + 2, :].region[0] == ir.Range(i, i + 2 - i)
    assert buffer[i : i + 2, :].const_extents() is None


def test_full_region_and_extents():
    region = a_buffer().full_region()
    assert region.const_extents() == (8, 4) and region.dtype == "float32"


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_region_of_a_region_is_relative_to_it(data):
    buffer = a_buffer()
    bounds = []
    for extent in (8, 4):
        low = data.draw(st.integers(0, extent - 1))
        bounds.append((low, data.draw(st.integers(low + 1, extent))))
    outer = buffer[tuple(slice(low, high) for low, high in bounds)]
    inner = []
    for low, high in bounds:
        start = data.draw(st.integers(0, high - low - 1))
        inner.append((start, data.draw(st.integers(start + 1, high - low))))
    got = outer[tuple(slice(a, b) for a, b in inner)]
    want = [(low + a, b - a) for (low, _), (a, b) in zip(bounds, inner)]
    assert [(int(r.min), int(r.extent)) for r in got.region] == want


def test_as_load_makes_a_ramp_of_a_longer_extent():
    buffer = a_buffer()
    assert buffer[2:3, 0:4].as_load() == ir.BufferLoad(
        buffer, (ir.const(2), ir.Ramp(ir.const(0), ir.const(1), 4))
    )
    with pytest.raises(IRError, match="dimension 0: its extent isn't constant"):
        buffer[0 : ir.Var("n"), 0:4].as_load()


def test_strided_slice_is_a_ramp():
    buffer = a_buffer()
    assert buffer[1, 0:4:2].indices[1] == ir.Ramp(ir.const(0), ir.const(2), 2)


def test_ptr_to_is_the_address_of_an_element():
    buffer = a_buffer()
    pointer = buffer.ptr_to([1, 2])
    assert pointer.op.name == "tirx.address_of" and pointer.args == (buffer[1, 2],) and pointer.dtype == "handle"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ((0, 0, 0), "2 dimensions but 3 indices"),
        ((slice(3, 1), 0), "dimension 0: stop is before start"),
        ((0.5, 0), "must be an integer, got float32"),
    ],
)
def test_bad_indices(key, message):
    with pytest.raises(IRError, match=message):
        a_buffer()[key]


def test_views_share_the_pointer():
    base = a_buffer()
    view = ir.make_buffer("V", (32,), "float32", data=base.data)
    assert view.data is base.data and view.scope == base.scope


def test_const_shape():
    assert a_buffer().const_shape() == (8, 4)
    assert ir.make_buffer("A", (ir.Var("n"),), "float32").const_shape() is None
