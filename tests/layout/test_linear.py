"""GF(2) form and digest: both equal exactly when the meaning is."""

from __future__ import annotations

import random

import brute
import pytest
from hypothesis import given, settings
from layout_strategies import layouts
from test_pairs import random_spec

from tirx_eq.errors import LayoutError
from tirx_eq.layout import ComposeLayout, R, S, SwizzleLayout, TileLayout, from_json, mma_shared_layout
from tirx_eq.layout.digest import table_digest
from tirx_eq.layout.linear import from_linear, gf2_matrix, is_linear, to_linear
from tirx_eq.layout.normal import normal_form


@settings(max_examples=120, deadline=None)
@given(layouts())
def test_the_linear_form_is_the_layout(layout):
    try:
        linear = to_linear(layout)
    except LayoutError as e:
        assert "power of two" in str(e) or "carries" in str(e)
        return
    for x in range(layout.size()):
        assert {a: v for a, v in linear.apply(x).items() if v} == {a: v for a, v in layout.at(x).items() if v}
    assert normal_form(from_linear(linear)) == normal_form(layout)


@pytest.mark.parametrize("seed", [5, 6])
def test_partitions_agree(seed):
    rng = random.Random(seed)
    specs = [random_spec(rng, "powers") for _ in range(300)]
    digests: dict = {}
    normals: dict = {}
    for spec in specs:
        meaning, layout = brute.table(spec), from_json(spec)
        assert digests.setdefault(meaning, table_digest(layout)) == table_digest(layout)
        if is_linear(layout):
            normal = to_linear(layout).normal()
            assert normals.setdefault(meaning, normal) == normal
    assert len(set(digests.values())) == len(digests)
    assert len(set(normals.values())) == len(normals)


def test_refusals_say_why():
    with pytest.raises(LayoutError, match=r"the extent 3 \(stride 1 on m\) isn't a power of two"):
        to_linear(TileLayout(S[(4, 3):(4, 1)]))
    with pytest.raises(LayoutError, match=r"stride 3 \(extent 4 on m\) carries"):
        to_linear(TileLayout(S[(4, 4):(3, 1)]))
    with pytest.raises(LayoutError, match="dimension 0 of the shape has the extent 6"):
        gf2_matrix(SwizzleLayout(3, 3, 3), (6, 64))


def test_matrix_over_a_shape_names_its_bits():
    linear, names = gf2_matrix(mma_shared_layout("float16", 3, (128, 64)), (128, 64))
    assert names[:6] == tuple(("c1", b) for b in range(6)) and names[6:] == tuple(("c0", b) for b in range(7))
    rows = linear.rows("m")
    assert rows[3] == 1 << 4 | 1 << 7  # address bit 3 is column bit 3 XOR row bit 0


def test_a_large_layout_is_read_at_once():
    layout = ComposeLayout(3, 3, 3, TileLayout(S[(2**16, 2**10):(2**10, 1)] + R[2 : 2**26]))
    linear = to_linear(layout)
    assert linear.bits == 26 and linear.is_injective()
