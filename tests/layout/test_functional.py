"""Composition, inverses, complement, divide and product: the stated property on every index, or a refusal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq.errors import LayoutError
from tirx_eq.layout import ComposeLayout, S, SwizzleLayout, TileLayout, mma_shared_layout
from tirx_eq.layout.functional import complement, composition, divide, left_inverse, product, right_inverse


def values(layout, count: int | None = None) -> list[int]:
    n = layout.size() if count is None else count
    return layout.evaluate(np.arange(n)).get("m", np.zeros(n, dtype=np.int64)).tolist()


def cute(shape, stride) -> TileLayout:
    """From CuTe's order, first mode fastest."""
    return TileLayout.from_iters([(e, s, "m") for e, s in zip(reversed(shape), reversed(stride))])


digit = st.tuples(st.sampled_from([1, 2, 3, 4, 6, 8]), st.integers(0, 12))
functions = st.lists(digit, max_size=3).map(lambda d: TileLayout.from_iters([(e, s, "m") for e, s in d]))
#: bijections onto [0, n): row-major digits in any order
bijections = st.lists(st.sampled_from([2, 3, 4]), min_size=1, max_size=4).flatmap(
    lambda extents: st.permutations(range(len(extents))).map(lambda order: _permuted(extents, order))
)


def _permuted(extents, order) -> TileLayout:
    strides, below = {}, 1
    for k in order:
        strides[k] = below
        below *= extents[k]
    return TileLayout.from_iters([(e, strides[k], "m") for k, e in enumerate(extents)])


@settings(max_examples=150, deadline=None)
@given(functions, functions)
def test_composition_is_right_or_refused(outer, inner):
    try:
        made = composition(outer, inner)
    except LayoutError as e:
        assert "composition:" in str(e)
        return
    table = values(outer)
    assert values(made) == [table[y] for y in values(inner)]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([2, 3, 4]), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_bijections_compose_or_the_first_bad_element_is_named(extents, rng):
    count = len(extents)
    outer, inner = (_permuted(rng.sample(extents, count), rng.sample(range(count), count)) for _ in "ab")
    try:
        made = composition(outer, inner)
    except LayoutError as e:
        assert "isn't a tile of digits" in str(e)
        return
    table = values(outer)
    assert values(made) == [table[y] for y in values(inner)]


def test_the_compositions_that_others_get_wrong():
    """Known cases: wrong at index 5, wrong by stride divisibility, refused though it has an answer."""
    outer, inner = cute((6, 2), (1, 7)), cute((3, 2), (2, 3))
    with pytest.raises(LayoutError, match="isn't a tile of digits"):
        composition(outer, inner)
    table = [x % 6 + x // 6 * 7 for x in range(12)]
    want = [table[y] for y in values(inner)]
    assert want == [0, 2, 4, 3, 5, 8]  # no digits: 0,2,4 then 3,5,8

    outer, inner = cute((4, 6, 8), (2, 3, 5)), cute((6,), (3,))
    try:
        made = composition(outer, inner)
    except LayoutError as e:
        assert "isn't a tile of digits" in str(e)
    else:
        assert values(made) == [values(outer)[y] for y in values(inner)]

    made = composition(cute((10, 2), (16, 4)), cute((3, 4), (1, 5)))
    assert values(made) == [0, 16, 32, 80, 96, 112, 4, 20, 36, 84, 100, 116]
    assert made == TileLayout(S[(2, 2, 3):(4, 80, 16)])


def test_composition_beyond_enumeration():
    outer = TileLayout(S[(1 << 16, 1 << 16):(1, 1 << 16)])  # a transpose of 2^32 elements
    inner = TileLayout(S[(1 << 10, 1 << 14):(1 << 20, 4)])
    made = composition(outer, inner)
    for x in (0, 1, 12345, (1 << 24) - 1, 1 << 23):
        assert made.at(x) == outer.at(inner.at(x)["m"])


def test_composition_under_a_swizzle():
    outer = mma_shared_layout("float16", 3, (64, 64))
    made = composition(outer, TileLayout(S[(64, 64):(1, 64)]))
    assert values(made) == [values(outer)[y] for y in values(TileLayout(S[(64, 64):(1, 64)]))]
    with pytest.raises(LayoutError, match="reaches from 0 to 8188"):
        composition(TileLayout(S[4096:1]), TileLayout(S[2048:4]))


@settings(max_examples=80, deadline=None)
@given(functions)
def test_inverses(layout):
    right = right_inverse(layout)
    table = values(layout)
    assert [table[x] for x in values(right)] == list(range(right.size()))
    try:
        left = left_inverse(layout)
    except LayoutError as e:
        assert "left inverse: stride" in str(e)
        return
    assert [left.at(y).get("m", 0) for y in table] == list(range(layout.size()))


@settings(max_examples=60, deadline=None)
@given(bijections)
def test_inverses_of_bijections_are_two_sided(layout):
    for inverse in (right_inverse(layout), left_inverse(layout)):
        assert inverse.size() == layout.size()
        assert [values(inverse)[y] for y in values(layout)] == list(range(layout.size()))


def test_inverse_of_a_swizzled_tile():
    layout = mma_shared_layout("float16", 3, (16, 64))
    inverse = right_inverse(layout)
    assert [values(inverse, 1024)[y] for y in values(layout)] == list(range(1024))
    with pytest.raises(LayoutError, match="reaches beyond"):
        right_inverse(ComposeLayout(SwizzleLayout(0, 2, 2), TileLayout(S[(4, 4):(8, 1)])))


@settings(max_examples=80, deadline=None)
@given(functions, st.integers(1, 64))
def test_complement_covers_each_address_once(layout, size):
    try:
        rest = complement(layout, size)
    except LayoutError as e:
        assert "complement: stride" in str(e)
        return
    covered = sorted(a + b for a in values(layout) for b in values(rest))
    assert covered == list(range(len(covered))) and len(covered) >= size


@settings(max_examples=60, deadline=None)
@given(bijections, st.sampled_from([1, 2, 3, 4, 6]), st.sampled_from([1, 2, 3]))
def test_divide(layout, extent, stride):
    tiler = TileLayout(S[extent:stride])
    try:
        made = divide(layout, tiler)
    except LayoutError as e:
        assert "cover" in str(e) or "tile of digits" in str(e) or "reaches" in str(e)
        return
    assert sorted(values(made)) == sorted(values(layout))
    assert values(made)[:extent] == [values(layout)[y] for y in values(tiler)]


def test_product():
    block, by = TileLayout(S[(2, 4):(4, 1)]), TileLayout(S[(3, 2):(1, 3)])
    made = product(block, by)
    assert values(made)[:8] == values(block)
    assert values(made)[::8] == [8 * v for v in values(by)]


def test_refusals():
    with pytest.raises(LayoutError, match="must be on axis m only"):
        composition(TileLayout.from_iters([(4, 1, "tx")]), TileLayout(S[4:1]))
    with pytest.raises(LayoutError, match="isn't a multiple of 4, the reach"):
        left_inverse(TileLayout(S[(4, 4):(6, 1)]))
    with pytest.raises(LayoutError, match="a bare swizzle has no size"):
        left_inverse(SwizzleLayout(3, 3, 3))
