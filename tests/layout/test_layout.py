"""The three kinds of layout: notation, meaning, text, JSON, slices."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from brute import image
from hypothesis import given, settings
from layout_strategies import layouts, tiles

from tirx_eq.errors import LayoutError
from tirx_eq.ir import IntImm, Range, Var, load_json, save_json
from tirx_eq.layout import (
    Axis,
    ComposeLayout,
    Iter,
    R,
    S,
    SwizzleLayout,
    TCol,
    TileLayout,
    TLane,
    default_layout,
    from_json,
    laneid,
    m,
    mma_shared_layout,
    tid_in_wg,
    warpid,
)

NAMES = {c.__name__: c for c in (TileLayout, ComposeLayout, SwizzleLayout, Axis)} | {"S": S, "R": R}


def points(coordinates: dict) -> dict:
    """A coordinate without zeros: an absent axis reads as 0."""
    return {a: v for a, v in coordinates.items() if v}


def read(text: str):
    """A layout's printed source, evaluated here in the test only."""
    return eval(text, {"__builtins__": {}}, NAMES)


def test_notation_matches_iters():
    made = TileLayout(S[(128, 64):(1 @ TLane, 1 @ TCol)] + R[2 : 64 @ TLane] + 5 @ TCol)
    assert made == TileLayout.from_iters([(128, 1, "TLane"), (64, 1, "TCol")], [(2, 64, "TLane")], {"TCol": 5})
    assert TileLayout(S[128, 64]) == default_layout((128, 64)) == TileLayout(S[(128, 64):(64, 1)])
    assert TileLayout(S[8:1] + 3).offset == {m: 3}
    assert TileLayout(S[8:1] + 3 + 2 @ m).offset == {m: 5}


def test_printed_as_tirx_prints():
    made = TileLayout(S[(128, 64):(1 @ TLane, 1 @ TCol)] + R[2 : 64 @ TLane] + 5 @ TCol)
    assert made.script() == (
        "Tx.TileLayout(Tx.S[(128, 64):(1 @ Axis.TLane, 1 @ Axis.TCol)] + Tx.R[2:64 @ Axis.TLane] + 5 @ Axis.TCol)"
    )
    assert mma_shared_layout("float16", 3, (128, 128)).script("T") == (
        "T.ComposeLayout(3, 3, 3, T.TileLayout(T.S[(128, 2, 64):(64, 8192, 1)]))"
    )
    assert SwizzleLayout(3, 3, 3).script() == "Tx.SwizzleLayout(3, 3, 3)"


@settings(max_examples=60, deadline=None)
@given(layouts())
def test_text_and_json_come_back(layout):
    assert read(layout.script(prefix="")) == layout
    assert from_json(layout.to_json()) == layout
    assert load_json(save_json(layout)) == layout


@settings(max_examples=80, deadline=None)
@given(layouts())
def test_apply_is_the_definition(layout):
    """apply, at and evaluate give the base point, which is a member of the image."""
    spec = layout.to_json()
    size = layout.size()
    values = layout.evaluate(np.arange(size))
    bare = {**spec, "replica": []} if spec["kind"] == "tile" else spec
    if spec["kind"] == "compose":
        bare = {**spec, "tile": {**spec["tile"], "replica": []}}
    for x in range(min(size, 40)):
        (want,) = image(bare, x)
        got = layout.at(x)
        assert {(a, v) for a, v in got.items() if v} == set(want)
        assert got == {a: int(v[x]) for a, v in values.items()}
        assert layout.apply(x) == {a: IntImm("int32", v) for a, v in got.items()}


@settings(max_examples=60, deadline=None)
@given(tiles())
def test_apply_over_a_shape(layout):
    size = layout.size()
    for first in [d for d in range(1, size + 1) if size % d == 0]:
        shape = (first, size // first)
        for x in range(0, size, max(1, size // 7)):
            assert points(layout.at(x // shape[1], x % shape[1], shape=shape)) == points(layout.at(x))


def test_a_symbolic_coordinate_folds_what_is_constant():
    i = Var("i")
    layout = TileLayout(S[(128, 2, 64):(64, 8192, 1)])
    assert layout.apply(i, 0, shape=(128, 128)) == {"m": i * 64}
    assert layout.apply(i, 65, shape=(128, 128)) == {"m": i * 64 + 8192 + 1}
    plain = SwizzleLayout(3, 0, 3)
    assert plain.apply(i) == {"m": i}


def test_symbolic_extents():
    n = Var("n")
    layout = TileLayout(S[(n, 64):(64, 1)])
    assert layout.size() == n * 64
    assert layout.canonicalize() == TileLayout(S[n * 64 : 1])
    assert load_json(save_json(layout)).shard[1] == Iter(64, 1)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (mma_shared_layout("float16", "128B", (128, 64)), SwizzleLayout(3, 3, 3)),
        (mma_shared_layout("float16", 3, (128, 128)), None),
        (TileLayout(S[(128, 64):(1 @ TLane, 1 @ TCol)]), None),
        (TileLayout(S[(128, 64):(64, 1)]), TileLayout(S[8192:1])),
        (TileLayout(S[(1, 1):(5 @ laneid, 7)]), TileLayout(S[1:1])),
        (ComposeLayout(3, 0, 3, TileLayout(S[(8, 8):(8, 1)])), TileLayout(S[64:1])),
    ],
)
def test_canonical_kinds(layout, expected):
    assert layout.canonicalize() == (expected if expected is not None else layout)


def test_errors_name_the_fault():
    with pytest.raises(LayoutError, match="unknown axis 'foo'"):
        Axis.get("foo")
    with pytest.raises(LayoutError, match=r"S\[...\] has 2 extents but 1 strides"):
        TileLayout(S[(4, 8):8])
    with pytest.raises(LayoutError, match="at least 1, got 0"):
        TileLayout(S[(0, 8):(8, 1)])
    with pytest.raises(LayoutError, match=r"atom_len .2. must be at least swizzle_len .3."):
        SwizzleLayout(3, 3, 2)
    with pytest.raises(LayoutError, match="a shape of 12 elements for a layout of 16"):
        TileLayout(S[16:1]).apply(0, 0, shape=(3, 4))
    with pytest.raises(LayoutError, match="kind 'tiel'"):
        from_json({"kind": "tiel"})
    with pytest.raises(LayoutError, match="needs the field 'atom_len'"):
        from_json({"kind": "swizzle", "per_element": 3, "swizzle_len": 3})


def test_numbers_too_large_are_refused():
    with pytest.raises(LayoutError, match="addresses have at most 62 bits"):
        SwizzleLayout(1000, 3, 3)
    huge = TileLayout(S[(4, 4):(1 << 61, 1)])
    assert huge.at(15) == {"m": 3 * (1 << 61) + 3}
    with pytest.raises(LayoutError, match="don't fit in 64 bits"):
        huge.evaluate(np.arange(16))


def test_spans():
    assert TileLayout(S[4:-1] + 3).span() == 4
    assert TileLayout(S[(2, 4):(8, 1)] + R[2:100]).span() == 112
    assert TileLayout(S[(4, 4):(4 @ TCol, 1 @ TLane)]).span("TCol") == 13
    assert TileLayout(S[4 : 1 @ tid_in_wg]).span("TCol") == 1
    assert ComposeLayout(0, 2, 2, TileLayout(S[5:1])).span() == 6
    assert mma_shared_layout("float16", 3, (128, 128)).span() == 16384
    with pytest.raises(LayoutError, match="TCol, TLane"):
        TileLayout(S[(4, 4):(4 @ TCol, 1 @ TLane)]).span()


@settings(max_examples=60, deadline=None)
@given(layouts())
def test_span_is_the_true_reach(layout):
    spec = layout.to_json()
    for axis in layout.axes():
        values = [dict(p).get(axis, 0) for x in range(layout.size()) for p in image(spec, x)]
        assert layout.span(axis) == max(values) + 1


@settings(max_examples=60, deadline=None)
@given(layouts(), tiles())
def test_slices_are_pointwise_right_or_refused(layout, other):
    size = layout.size()
    inner = next(d for d in range(max(1, size // 3), 0, -1) if size % d == 0)
    shape = (size // inner, inner)
    pick = other.size()
    low = (pick % shape[0], (pick * 3) % shape[1])
    extent = (max(1, (shape[0] - low[0]) // 2), max(1, (shape[1] - low[1] + 1) // 2))
    try:
        part = layout.slice(shape, [Range(low[0], extent[0]), (low[1], low[1] + extent[1])])
    except LayoutError as e:
        assert "slice: dimension" in str(e) or "group:" in str(e)
        return
    assert part.size() == extent[0] * extent[1]
    for i in range(extent[0]):
        for j in range(extent[1]):
            want = layout.at(low[0] + i, low[1] + j, shape=shape)
            got = part.at(i, j, shape=extent)
            assert points(got) == points(want)


def test_slice_of_a_stage_with_a_symbolic_begin():
    stage = Var("stage")
    layout = mma_shared_layout("float16", 3, (4, 128, 64))
    part = layout.slice((4, 128, 64), [Range(stage, IntImm("int32", 1)), (0, 128), (0, 64)])
    assert isinstance(part, ComposeLayout) and part.size() == 8192
    assert part.apply(0, 0, 0, shape=(1, 128, 64)) == layout.apply(stage, 0, 0, shape=(4, 128, 64))


def test_symbolic_bounds_of_one_length_give_a_number():
    i, n = Var("i"), Var("n")
    part = TileLayout(S[(n, 64):(64, 1)]).slice((n, 64), [(i * 8, i * 8 + 8), (0, 64)])
    assert part == TileLayout(S[(8, 64):(64, 1)] + (i * 8) * 64)


def test_slices_refuse_what_is_outside():
    layout = default_layout((8, 8))
    with pytest.raises(LayoutError, match=r"dimension 1: \[4, 12\) isn't inside \[0, 8\)"):
        layout.slice((8, 8), [(0, 8), (4, 12)])
    with pytest.raises(LayoutError, match="dimension 0 of the region is empty"):
        layout.slice((8, 8), [(3, 3), (0, 8)])


def test_storage_drops_threads():
    layout = TileLayout(S[(4, 32, 8):(1 @ warpid, 1 @ laneid, 1)] + 3 @ warpid + 2)
    assert layout.storage() == TileLayout(S[8:1] + 2)


def test_names_of_the_reference():
    """What TVM's layout objects offer, by its names and with its results."""
    layout = TileLayout(S[(4, 8, 2):(16, 2, 1)])
    assert layout.group([8, 8]) == (TileLayout(S[(4, 2, 4, 2):(16, 8, 2, 1)]), (0, 2, 4))
    assert layout.permute_dims([2, 0, 1]) == TileLayout(S[(2, 4, 8):(1, 16, 2)])
    assert layout.broadcast(3, 0, "TCol") == TileLayout(S[(3, 4, 8, 2):(0 @ TCol, 16, 2, 1)])
    assert layout.apply_to_shape([1, 3], [8, 8]) == [IntImm("int32", v) for v in (0, 1, 1, 1)]
    assert TileLayout(S[8:1]).is_tile_inner(TileLayout(S[32:1]), [32], [8]) == TileLayout(S[4:1])
    assert TileLayout(S[4:1]).is_tile_outer(TileLayout(S[32:1]), [32], [4]) == TileLayout(S[8:1])
    total = TileLayout(S[(4, 8):(100, 1)])
    assert TileLayout(S[8:1]).is_direct_sum_right(total, [4, 8], [8]) == TileLayout(S[4:100])
    assert TileLayout(S[4:100]).is_direct_sum_left(total, [4, 8], [4]) == TileLayout(S[8:1])
    assert TileLayout(S[8:1]).is_tile_inner(TileLayout(S[32:3]), [32], [8]) is None
    refined, seps = layout.group_many([[8, 8], [4, 16], [2, 32]])
    assert refined.size() == 64 and [s[-1] for s in seps] == [len(refined.shard)] * 3
    for shape, at in zip([[8, 8], [4, 16], [2, 32]], seps):
        assert [TileLayout(refined.shard[a:b]).size() for a, b in pairwise(at)] == shape
