"""Pictures: well-formed SVG, a cell per element with its place on hover, copies and the first difference marked."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from tirx_eq.errors import LayoutError
from tirx_eq.ir import Var
from tirx_eq.layout import (
    ComposeLayout,
    R,
    S,
    SwizzleLayout,
    TileLayout,
    laneid,
    mma_shared_layout,
    tcgen05_atom_layout,
    tmem_datapath_layout,
)
from tirx_eq.layout.draw import default_shape, first_difference, grid, html, svg, svg_pair, text, text_pair

NS = "{http://www.w3.org/2000/svg}"


def titles(picture: str) -> list[str]:
    return [e.text or "" for e in ET.fromstring(picture).iter(f"{NS}title")]


def test_every_cell_says_where_it_is():
    layout = mma_shared_layout("float16", 3, (8, 64))
    found = titles(svg(layout, (8, 64)))
    assert len(found) == 512
    assert found[64] == "(1, 0) → m = 72" and found[0] == "(0, 0) → m = 0"


def test_copies_are_marked_and_listed():
    layout = TileLayout(S[(2, 4):(4, 1)] + R[2:64])
    picture = svg(layout, (2, 4))
    assert titles(picture)[5] == "(1, 1) → m = 5; m = 69"
    assert len(list(ET.fromstring(picture).iter(f"{NS}path"))) == 8
    assert "5+" in text(layout, (2, 4))


def test_colours_group_what_belongs_together():
    layout = TileLayout(S[(4, 8, 2):(8 @ laneid, 1 @ laneid, 1)])
    cells = [c for row in grid(layout, (4, 16)).rows for c in row]
    assert {c.group for c in cells} == set(range(32)) and cells[2].label == "L1:0"
    banks = grid(TileLayout(S[128:1]), (2, 64), colour="bank")
    assert banks.rows[0][2].group == 1 and banks.rows[1][0].group == 0
    warps = grid(tcgen05_atom_layout("32x32b", (128, 4), "float32"), (128, 4), colour="warp", most=(128, 4))
    assert [row[0].group for row in warps.rows[::32]] == [0, 1, 2, 3]
    with pytest.raises(LayoutError, match="colour 'mood' is none of"):
        grid(layout, colour="mood")


def test_two_layouts_side_by_side():
    a, b = mma_shared_layout("float16", 3, (8, 64)), mma_shared_layout("float16", 2, (8, 64))
    assert first_difference(a, a, 512) is None
    mark = first_difference(a, b, 512)
    assert mark == next(x for x in range(512) if a.at(x) != b.at(x))
    root = ET.fromstring(svg_pair(a, b, (8, 64)))
    assert sum(e.get("class") == "d" for e in root.iter(f"{NS}rect")) == 2
    assert "first difference at" in svg_pair(a, b, (8, 64))
    assert text_pair(a, a, (8, 64)).endswith("equal")
    assert "(0, 32) → m = 256" in text_pair(a, b, (8, 64)) or "first difference:" in text_pair(a, b, (8, 64))
    copies = ComposeLayout(0, 1, 1, TileLayout(S[4:1] + R[3:1]))
    assert first_difference(copies, TileLayout(S[4:1] + R[3:1]), 4) == 0


def test_shapes_and_cutting():
    assert default_shape(tmem_datapath_layout("D", 128, 64)) == (128, 64)
    assert default_shape(SwizzleLayout(3, 3, 3)) == (8, 64)
    big = grid(TileLayout(S[(256, 256):(256, 1)]))
    assert big.cut and len(big.rows) == 64 and len(big.rows[0]) == 64
    assert "cut off" in text(TileLayout(S[(64, 64):(64, 1)]))
    with pytest.raises(LayoutError, match="a shape of 12 elements for a layout of 16"):
        svg(TileLayout(S[16:1]), (3, 4))


def test_colours_are_numbers_that_every_reader_of_svg_knows():
    root = ET.fromstring(svg(TileLayout(S[(8, 8):(8, 1)]), (8, 8)))
    fills = {e.get("fill") for e in root.iter(f"{NS}rect")}
    assert len(fills) > 4 and all(f and f.startswith("#") for f in fills)


def test_notebooks():
    assert html(TileLayout(S[(2, 2):(2, 1)])).startswith("<div")
    assert TileLayout(S[(2, 2):(2, 1)])._repr_html_().count("<title>") == 4
    assert html(TileLayout(S[(Var("n"), 2):(2, 1)])).startswith("<pre>")


def test_text():
    shown = text(TileLayout(S[(2, 4):(4, 1)]), (2, 4)).splitlines()
    assert shown[0] == "TileLayout(S[(2, 4):(4, 1)])"
    assert shown[2:] == ["0 │ 0 1 2 3", "1 │ 4 5 6 7"]
    assert "\x1b[48;5;" in text(TileLayout(S[(2, 4):(4, 1)]), (2, 4), colours=True)
