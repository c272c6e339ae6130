"""Image, injectivity, covering, and thread axes."""

from __future__ import annotations

import brute
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_strategies import layouts

from tirx_eq.errors import LayoutError
from tirx_eq.layout import R, S, SwizzleLayout, TileLayout, laneid, tid_in_wg, tx, warpid, wgid, wid_in_wg
from tirx_eq.layout.image import collision, hole, image, injective
from tirx_eq.layout.normal import normal_form
from tirx_eq.layout.threads import fuse_threads, split_threads, to_thread


@settings(max_examples=100, deadline=None)
@given(layouts())
def test_image_and_injectivity(layout):
    table = brute.table(layout.to_json())
    assert [image(layout, x) for x in range(len(table))] == [
        frozenset(tuple(sorted(p)) for p in places) for places in table
    ]
    owner: dict = {}
    clashes = [(owner[p], x) for x, places in enumerate(table) for p in places if owner.setdefault(p, x) != x]
    found = collision(layout)
    assert (found is None) == (not clashes)
    if found is not None:
        assert table[found[0]] & table[found[1]] and found[0] != found[1]


@settings(max_examples=100, deadline=None)
@given(layouts(), st.integers(1, 20))
def test_covering(layout, extent):
    extents = {"m": extent}
    reached = {dict(p).get("m", 0) for places in brute.table(layout.to_json()) for p in places if set(dict(p)) <= {"m"}}
    missing = sorted(set(range(extent)) - reached)
    assert hole(layout, extents) == ({"m": missing[0]} if missing else None)


def test_a_large_plain_layout_needs_no_enumeration():
    assert injective(TileLayout(S[(1 << 20, 1 << 12):(1 << 12, 1)] + R[2 : 1 << 32]))
    assert injective(SwizzleLayout(3, 3, 3), 1 << 14)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (TileLayout(S[(4, 32):(1 @ warpid, 1 @ laneid)]), TileLayout(S[128 : 1 @ tx])),
        # the reference loses the warp's offset here (5@tx) …
        (TileLayout(S[(4, 32):(1 @ warpid, 1 @ laneid)] + 1 @ warpid + 5 @ laneid), TileLayout(S[128 : 1 @ tx] + 37 @ tx)),
        (TileLayout(S[(2, 128):(1 @ wgid, 1 @ tid_in_wg)]), TileLayout(S[256 : 1 @ tx])),
        (TileLayout(S[(2, 4, 32):(1 @ wgid, 1 @ wid_in_wg, 1 @ laneid)]), TileLayout(S[256 : 1 @ tx])),
        (TileLayout(S[8:1] + R[32 : 1 @ laneid]), TileLayout(S[8:1] + R[32 : 1 @ tx])),
    ],
)  # fmt: skip
def test_threads_of_a_cta(layout, expected):
    assert to_thread(layout) == expected


def test_warps_of_warpgroups_are_warps():
    """… and keeps the axis wgid here."""
    assert fuse_threads(TileLayout(S[(2, 4):(1 @ wgid, 1 @ wid_in_wg)])) == TileLayout(S[8 : 1 @ warpid])
    assert fuse_threads(TileLayout(S[(2, 4):(1 @ warpid, 1)])) == TileLayout(S[(2, 4):(1 @ warpid, 1)])


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(4)), st.integers(0, 3))
def test_splitting_is_the_inverse_of_fusing(order, shift):
    extents = [2, 4, 8, 4]
    strides, below = {}, 1
    for k in order:
        strides[k] = below
        below *= extents[k]
    layout = TileLayout.from_iters([(extents[k], strides[k], "tx") for k in range(4)], [], {"tx": 256 * shift})
    try:
        parts = split_threads(layout, "tx", "warpid", "laneid")
    except LayoutError as e:
        assert "carries" in str(e)
        return
    assert set(parts.axes()) <= {"warpid", "laneid"} and parts.span("laneid") <= 32
    assert normal_form(to_thread(parts)) == normal_form(layout)


def test_thread_refusals():
    with pytest.raises(LayoutError, match="spreads from 0 to 63 on laneid, which has 32 values"):
        to_thread(TileLayout(S[64 : 1 @ laneid]))
    with pytest.raises(LayoutError, match="uses both warpid and wgid"):
        to_thread(TileLayout(S[(2, 4):(1 @ warpid, 1 @ wgid)]))
    with pytest.raises(LayoutError, match="carries from one part into another"):
        split_threads(TileLayout(S[(4, 16):(16 @ tx, 1 @ tx)] + 24 @ tx), "tx", "warpid", "laneid")
    with pytest.raises(LayoutError, match="isn't made of"):
        split_threads(TileLayout(S[64 : 1 @ tx]), "tx", "wid_in_wg", "laneid")
