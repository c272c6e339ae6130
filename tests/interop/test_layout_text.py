"""Layouts in other notations: there and back, against their own meaning written out, and refusals."""

from __future__ import annotations

import importlib.util
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq.errors import InteropError, LayoutError, ParseError
from tirx_eq.interop.cute import cute_shape, from_cute, to_cute
from tirx_eq.interop.isl import from_isl, to_isl
from tirx_eq.interop.layouts import read_layout, write_layout
from tirx_eq.interop.triton import from_triton, to_triton
from tirx_eq.layout import (
    ComposeLayout,
    R,
    S,
    SwizzleLayout,
    TCol,
    TileLayout,
    TLane,
    mma_shared_layout,
    tmem_datapath_layout,
)
from tirx_eq.layout.normal import normal_form
from tirx_eq.layout.text import parse_layout

digit = st.tuples(st.sampled_from([1, 2, 3, 4, 8]), st.integers(-4, 20), st.just("m"))
functions = st.lists(digit, min_size=1, max_size=4).map(TileLayout.from_iters)
swizzles = st.builds(
    lambda m, b, s, inner: SwizzleLayout(m, b, s + b, inner),
    st.integers(0, 3), st.integers(0, 3), st.integers(0, 2), st.booleans(),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(functions, swizzles)
def test_tirx_text(tile, swizzle):
    for layout in (tile, swizzle, ComposeLayout(swizzle, tile)):
        for prefix in ("", "Tx", "T"):
            assert parse_layout(layout.script(prefix)) == layout


def test_tirx_text_as_people_write_it():
    assert parse_layout("S[(128, 64) : (1@TLane, 1@TCol)] + R[2 : 64@TLane] - 5@TCol") == TileLayout(
        S[(128, 64):(1 @ TLane, 1 @ TCol)] + R[2 : 64 @ TLane] + -5 @ TCol
    )
    assert parse_layout("mma_shared_layout('f16', '128B', (128, 8*8))") == mma_shared_layout("f16", 3, (128, 64))
    assert parse_layout("Tx.TileLayout.from_iters([(4, 1, 'm'), Iter(2, 4)], offset={'m': 3})").offset
    assert parse_layout("tmem_datapath_layout('D', 128, 64)") == tmem_datapath_layout("D", 128, 64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("S[(4,8):(8,1)", "was never closed"),
        ("S[4:1].size()", "unknown layout constructor 'size'"),
        ("__import__('os').system('x')", "unknown layout constructor"),
        ("open('x')", "unknown layout constructor 'open'"),
        ("(lambda: 1)()", "only the names of layouts"),
        ("S[4 : 1@foo]", "unknown name 'foo'"),
        ("S[4:1:2]", "extents : strides"),
        ("7", "isn't a layout"),
        ("9**9**9**9", "no meaning"),
        ("[x for x in y]", "isn't part of the notation"),
        ("TileLayout()", "missing 1 required positional argument"),
    ],
)
def test_bad_text(text, message):
    with pytest.raises(ParseError, match=message.replace("(", r"\(").replace("[", r"\[")):
        parse_layout(text)


def test_bad_values_say_where():
    with pytest.raises(LayoutError, match="atom_len") as error:
        parse_layout("ComposeLayout(SwizzleLayout(3, 3, 2), S[4:1])")
    assert error.value.span is not None and error.value.span.column == 15


# -- CuTe ------------------------------------------------------------------------------------------------------------


def colexicographic(shape, stride, x):
    """CuTe's own rule, straight from its definition: index of a nested shape, first mode fastest."""
    if isinstance(shape, int):
        return x * stride
    total = 0
    for e, s in zip(shape, stride):
        count = size(e)
        total += colexicographic(e, s, x % count)
        x //= count
    return total


def size(shape):
    return shape if isinstance(shape, int) else __import__("math").prod(size(e) for e in shape)


def nested(rng, depth=0):
    if depth == 2 or rng.random() < 0.5:
        return rng.choice([1, 2, 3, 4]), rng.randint(0, 20)
    parts = [nested(rng, depth + 1) for _ in range(rng.randint(1, 3))]
    return tuple(p[0] for p in parts), tuple(p[1] for p in parts)


def test_cute_both_readings():
    rng = random.Random(3)
    for _ in range(200):
        parts = [nested(rng) for _ in range(rng.randint(1, 3))]
        shape, stride = tuple(p[0] for p in parts), tuple(p[1] for p in parts)
        text = f"{shape}:{stride}".replace(" ", "").replace(",)", ")")
        flat = from_cute(text, flat=True)
        total = size(shape)
        assert [flat.at(x).get("m", 0) for x in range(total)] == [colexicographic(shape, stride, x) for x in range(total)]
        layout, dims = from_cute(text), [size(e) for e in shape]
        assert tuple(dims) == cute_shape(text)
        for x in range(0, total, 7):
            coord, rest = [], x
            for e in dims:
                coord.append(rest % e)
                rest //= e
            want = sum(colexicographic(e, s, c) for e, s, c in zip(shape, stride, coord))
            assert layout.at(*coord, shape=dims).get("m", 0) == want
        assert normal_form(from_cute(to_cute(layout, dims))) == normal_form(layout)


def test_cute_swizzles_are_its_formula():
    for bits, base, shift in [(3, 4, 3), (2, 3, 3), (1, 0, -2), (3, 0, -4)]:
        layout = from_cute(f"Sw<{bits},{base},{shift}> o 0 o 4096:1")
        ones = (1 << bits) - 1
        source = ones << (base + max(0, shift))
        for x in range(0, 4096, 13):
            moved = (x & source) >> shift if shift >= 0 else (x & source) << -shift
            assert layout.at(x) == {"m": x ^ moved}
        assert from_cute(to_cute(layout)) == layout
    assert from_cute("Swizzle<3,3,3> o smem_ptr[16b](unset) o (8,64):(64,1)") == ComposeLayout(
        3, 3, 3, TileLayout(S[(8, 64):(64, 1)])
    )
    assert from_cute("S<3,3,3> o 512 o (_8,_64):(_64,_1)").tile.offset


def test_cute_against_tirx():
    assert from_cute("(128,64):(64,1)") == TileLayout(S[(128, 64):(64, 1)])
    assert from_cute("(3,(2,2)):(16,(80,4))", flat=True) == TileLayout(S[(2, 2, 3):(4, 80, 16)])
    assert read_layout("cute:(8,(4,2)):(4,(1,32))") == read_layout("tirx:S[(8, 2, 4):(4, 32, 1)]")


@pytest.mark.parametrize(
    ("text", "message"),
    [("(8,4):(1", "expected"), ("(8,4):(1,2,3)", "same form"), ("(8,x):(1,2)", "unexpected 'x'"), ("8", "expected :"),
     ("(0,4):(1,2)", "an extent of 0"), ("8:1)", "after the layout"), ("", "expected a number")],
)  # fmt: skip
def test_bad_cute(text, message):
    with pytest.raises(ParseError, match=message):
        from_cute(text)
    with pytest.raises(InteropError, match="basis"):
        from_cute("(8,4):(1@0,1@1)")
    with pytest.raises(InteropError, match="axis m without copies"):
        to_cute(TileLayout(S[8 : 1 @ TLane]))


# -- Triton ----------------------------------------------------------------------------------------------------------

MMA = {  # the accumulator of mma.m16n8 as Triton describes it
    "register": [[0, 1], [8, 0]],
    "lane": [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]],
    "warp": [],
}


def triton_value(bases, hardware):
    at = [0, 0]
    for name, index in hardware.items():
        for bit, vector in enumerate(bases[name]):
            if index >> bit & 1:
                at = [a ^ v for a, v in zip(at, vector)]
    return tuple(at)


def test_triton_is_the_inverse():
    layout = from_triton(MMA)
    for i in range(16):
        for j in range(8):
            at = layout.at(i, j, shape=(16, 8))
            assert triton_value(MMA, {"register": at.get("m", 0), "lane": at["laneid"]}) == (i, j)
    assert to_triton(layout, (16, 8)) == {k: v for k, v in MMA.items() if v}


def test_triton_copies_and_swizzle():
    bases = {"register": [[0, 1]], "lane": [[0, 2], [0, 0], [1, 0]], "warp": [[0, 0]]}
    layout = from_triton(bases, (2, 4))
    assert layout.to_json()["replica"]
    for i in range(2):
        for j in range(4):
            at = layout.at(i, j, shape=(2, 4))
            assert triton_value(bases, {"register": at.get("m", 0), "lane": at.get("laneid", 0), "warp": 0}) == (i, j)
    shared = mma_shared_layout("float16", 3, (64, 64))
    offsets = to_triton(shared, (64, 64), memory="offset")
    assert offsets["offset"][6] == [1, 8]
    assert normal_form(from_triton(offsets, (64, 64)), 4096) == normal_form(shared)


def test_triton_as_printed():
    text = """
- register=1 -> (0, 1)
  register=2 -> (8, 0)
- lane=1 -> (0, 2)
  lane=2 -> (0, 4)
  lane=4 -> (1, 0)
  lane=8 -> (2, 0)
  lane=16 -> (4, 0)
- warp is a size 1 dimension
where out dims are: [dim0 (size 16), dim1 (size 8)]"""
    assert from_triton(text) == from_triton(MMA)
    with pytest.raises(InteropError, match="no hardware bit reaches bit 0"):
        from_triton({"register": [[1, 0]]}, (2, 2))
    with pytest.raises(ParseError, match="should be for lane=1"):
        from_triton("- lane=2 -> (0, 1)")
    with pytest.raises(InteropError, match="offset"):
        to_triton(TileLayout(S[8:1] + 8), (8,))


# -- ISL -------------------------------------------------------------------------------------------------------------

needs_isl = pytest.mark.skipif(importlib.util.find_spec("islpy") is None, reason="islpy isn't installed")


@needs_isl
@settings(max_examples=20, deadline=None)
@given(functions, swizzles)
def test_isl_there_and_back(tile, swizzle):
    for layout in (tile, ComposeLayout(swizzle, tile)):
        if layout.span() < 1 or any(v["m"] < 0 for v in (layout.at(x) for x in range(layout.size())) if v):
            continue
        try:
            back = from_isl(to_isl(layout))
        except InteropError as error:
            assert "neither" in str(error)
            continue
        assert normal_form(back) == normal_form(layout)


@needs_isl
def test_isl_relations():
    import islpy as isl

    shared = mma_shared_layout("float16", 3, (16, 64))
    assert normal_form(from_isl(to_isl(shared, (16, 64))), 1024) == normal_form(shared, 1024)
    copies = isl.Map(to_isl(TileLayout(S[(4, 2):(2, 1)] + R[2:64])))
    assert copies.wrap().count_val().to_python() == 16 if hasattr(copies.wrap(), "count_val") else True
    with pytest.raises(InteropError, match="several images"):
        from_isl("{ [i] -> [m] : 0 <= i < 4 and 0 <= m < 2 }")
    with pytest.raises(ParseError, match="isl"):
        from_isl("{ [i -> ")


def test_any_notation():
    layout = mma_shared_layout("float16", 3, (128, 128))
    for notation in ("tirx", "json", "cute"):
        assert read_layout(f"{notation}:{write_layout(layout, notation)}") == layout
    assert read_layout(write_layout(layout, "json")) == layout
    with pytest.raises(InteropError, match="unknown notation 'yaml'"):
        write_layout(layout, "yaml")
