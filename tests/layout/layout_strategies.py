"""Small layouts at random."""

from __future__ import annotations

from hypothesis import strategies as st

from tirx_eq.layout import ComposeLayout, SwizzleLayout, TileLayout

AXES = ("m", "m", "m", "laneid", "TCol")


def _iters(axes, most, extents=(1, 2, 3, 4, 8)):
    stride = st.one_of(st.sampled_from([0, 1, 2, 4, 8, 16, 64]), st.integers(-6, 20))
    one = st.tuples(st.sampled_from(extents), stride, st.sampled_from(axes))
    return st.lists(one, max_size=most)


@st.composite
def tiles(draw, axes=AXES):
    shard = draw(_iters(axes, 4))
    replica = draw(st.one_of(st.just([]), _iters(axes, 2, (1, 2, 3))))
    offset = draw(st.dictionaries(st.sampled_from(axes), st.integers(-4, 40), max_size=2))
    return TileLayout.from_iters(shard, replica, offset)


@st.composite
def swizzles(draw):
    count = draw(st.integers(0, 3))
    return SwizzleLayout(draw(st.integers(0, 4)), count, draw(st.integers(count, 4)), draw(st.booleans()))


def layouts():
    return st.one_of(tiles(), st.builds(ComposeLayout, swizzles(), tiles(axes=("m", "m", "m", "laneid"))))
