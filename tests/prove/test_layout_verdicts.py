"""Verdicts about layouts: they agree with the definition, counterexamples replay, the checker accepts the true ones and
refuses forged ones."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tirx_eq.errors import LayoutError, ProofError
from tirx_eq.ir import Var
from tirx_eq.layout import (
    ComposeLayout,
    Layout,
    R,
    S,
    SwizzleLayout,
    TileLayout,
    from_json,
    laneid,
    m,
    mma_shared_layout,
    tx,
)
from tirx_eq.layout.conflicts import column_access, ldmatrix_access, row_access
from tirx_eq.prove import layout_meaning as meaning
from tirx_eq.prove import symbolic
from tirx_eq.prove.check import check
from tirx_eq.prove.layouts import conflict_free, covers, equal, injective, same_up_to
from tirx_eq.prove.verdict import Verdict

PAIRS = [json.loads(line) for line in (Path(__file__).parents[1] / "data" / "layout_pairs.jsonl").read_text().splitlines()]
SWIZZLED = mma_shared_layout("float16", 3, (128, 64))


def random_layout(rng: random.Random, size: int) -> Layout:
    """A layout of ``size`` elements: digits in any order, copies, an offset, perhaps a swizzle."""
    extents, left = [], size
    while left > 1:
        e = rng.choice([d for d in range(2, left + 1) if left % d == 0])
        extents.append(e)
        left //= e
    rng.shuffle(extents)
    axes = ["m", "m", "m", "laneid"]
    shard = [(e, rng.choice([0, 1, 2, 3, 4, 8, 12, 16, -2]), rng.choice(axes)) for e in extents]
    replica = [(rng.randint(1, 3), rng.choice([0, 1, 4, 16, -8]), rng.choice(axes)) for _ in range(rng.randint(0, 2))]
    offset = {rng.choice(axes): rng.randint(-3, 9)} if rng.random() < 0.4 else {}
    tile = TileLayout.from_iters(shard, replica, offset)
    if rng.random() < 0.5:
        return tile
    count = rng.randint(0, 2)
    return ComposeLayout(SwizzleLayout(rng.randint(0, 2), count, rng.randint(count, 3), rng.random() < 0.7), tile)


def same(a: Layout, b: Layout, size: int) -> int | None:
    """The first element at which two layouts differ, by the definition."""
    p, q = a.to_json(), b.to_json()
    return next((x for x in range(size) if meaning.places(p, x, size) != meaning.places(q, x, size)), None)


def test_every_group_of_the_corpus_is_decided_and_checks() -> None:
    for group in PAIRS:
        specs = group["forms"] if "forms" in group else [group["a"], group["b"]]
        forms = [from_json(s) for s in specs]
        for other in forms[1:]:
            found = equal(forms[0], other)
            assert (found.status == "equal") == group.get("semantically_equal", True), group
            assert check(found).ok
            assert check(found).complete


@pytest.mark.parametrize("seed", range(4))
def test_random_pairs_agree_with_the_definition(seed: int) -> None:
    rng = random.Random(seed)
    seen = {"equal": 0, "different": 0}
    for _ in range(150):
        size = rng.choice([8, 12, 16, 24])
        a = random_layout(rng, size)
        b = a.canonicalize() if rng.random() < 0.3 else random_layout(rng, size)
        if isinstance(b, SwizzleLayout):
            continue
        found = equal(a, b)
        first = same(a, b, size)
        assert (found.status == "equal") == (first is None), (a, b, found)
        if first is not None:
            assert found.counterexample == {"flat": first}
        assert check(found).ok
        assert Verdict.from_json(json.loads(json.dumps(found.to_json()))).status == found.status
        seen[found.status] += 1
    assert min(seen.values()) > 20


def test_an_unequal_swizzle_names_coordinate_and_bits() -> None:
    other = ComposeLayout(SwizzleLayout(3, 2, 3), TileLayout(S[(128, 64) : (64, 1)]))
    found = equal(SWIZZLED, other, (128, 64))
    assert found.counterexample == {"flat": 256, "coordinate": [4, 0]}
    assert (found.before, found.after) == ({"m": 288}, {"m": 256})
    assert found.detail.endswith("m=288 against m=256; m differs in bits 5")


@pytest.mark.parametrize(
    ("a", "b", "by"),
    [
        (TileLayout(S[(1 << 20, 1 << 12) : (1 << 12, 1)]), TileLayout(S[(1 << 32) : (1)]), "gf2"),
        (TileLayout(S[(768000, 960000) : (960000, 1)]), TileLayout(S[(768000, 96, 10000) : (960000, 10000, 1)]), "normal form"),
        (
            ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout(S[(3 << 20, 64) : (64, 1)])),
            ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout(S[(3, 1 << 20, 64) : (64 << 20, 64, 1)])),
            "normal form",
        ),
        (SWIZZLED, SwizzleLayout(3, 3, 3), "gf2"),
    ],
)
def test_large_layouts(a: Layout, b: Layout, by: str) -> None:
    found = equal(a, b)
    assert (found.status, found.decided_by) == ("equal", by)
    assert check(found).ok


def test_large_unequal_layouts() -> None:
    a = TileLayout(S[(768000, 960000) : (960000, 1)])
    b = TileLayout(S[(768000, 96, 10000) : (960000, 10001, 1)])
    found = equal(a, b)
    assert found.status == "different"
    assert check(found).ok
    copies = TileLayout(S[(768000, 960000) : (960000, 1)] + R[2:1])
    assert equal(a, copies).status == "different"


def test_sizes_and_shapes() -> None:
    small, large = TileLayout(S[8:1]), TileLayout(S[16:1])
    found = equal(small, large)
    assert (found.status, found.decided_by) == ("different", "size")
    assert found.before is None
    assert found.after == {"m": 8}
    assert check(found).ok
    with pytest.raises(LayoutError, match=r"shape \(4, 4\) has 16 elements, a layout 8"):
        equal(small, small, (4, 4))
    with pytest.raises(LayoutError, match="symbolic"):
        equal(small, TileLayout(S[Var("n", "int32") : 1]))
    assert equal(SwizzleLayout(3, 3, 3), TileLayout(S[64:1])).status == "equal"
    assert equal(SwizzleLayout(3, 3, 3), TileLayout(S[1024:1])).status == "different"


def test_an_absent_axis_is_zero() -> None:
    assert equal(TileLayout(S[(2, 4) : (0 @ laneid, 1)]), TileLayout(S[(2, 4) : (0, 1)])).status == "equal"
    assert equal(TileLayout(S[4 : 1 @ tx]), TileLayout(S[4:1])).status == "different"


@pytest.mark.parametrize("seed", range(3))
def test_injective_agrees_with_the_definition(seed: int) -> None:
    rng = random.Random(100 + seed)
    seen = set()
    for _ in range(80):
        size = rng.choice([6, 8, 16])
        layout = random_layout(rng, size)
        owner: dict[Any, int] = {}
        clash = False
        for x in range(size):
            for place in meaning.places(layout.to_json(), x, size):
                clash = clash or owner.setdefault(place, x) != x
        found = injective(layout)
        assert (found.status == "different") == clash, (layout, found)
        assert check(found).ok
        seen.add(found.status)
    assert seen == {"equal", "different"}


def test_injectivity_of_large_layouts() -> None:
    assert injective(TileLayout(S[(1 << 20, 1 << 12) : (1 << 12, 1)])).decided_by == "mixed radix"
    overlapping = TileLayout(S[(1 << 16, 1 << 16) : (1 << 10, 1)])
    found = injective(overlapping)
    assert found.status == "different"
    assert check(found).ok


@pytest.mark.parametrize("seed", range(3))
def test_covers_agrees_with_the_definition(seed: int) -> None:
    rng = random.Random(200 + seed)
    seen = set()
    for _ in range(60):
        layout = random_layout(rng, 8)
        extents = rng.choice([{"m": 4}, {"m": 8}, {"m": 2, "laneid": 2}, {"laneid": 1}, {"m": 1}])
        reached = {p for x in range(8) for p in meaning.places(layout.to_json(), x, 8)}
        box = product(*(range(e) for e in extents.values()))
        points = [tuple(sorted((a, v) for a, v in zip(extents, p) if v)) for p in box]
        found = covers(layout, extents)
        assert (found.status == "equal") == all(p in reached for p in points)
        assert check(found).ok
        seen.add(found.status)
    assert seen == {"equal", "different"}


def test_conflicts() -> None:
    shape = (128, 64)
    plain = TileLayout(S[shape : (64, 1)])
    for layout, access, free in (
        (SWIZZLED, ldmatrix_access(shape, "float16"), True),
        (plain, ldmatrix_access(shape, "float16"), False),
        (plain, row_access(shape, 8), True),
        (plain, column_access(shape, 8), False),
        (plain, row_access(shape), True),
    ):
        found = conflict_free(layout, "float16", access, shape)
        assert (found.status == "equal") == free, found
        assert check(found).ok


def test_same_up_to_offset() -> None:
    a = TileLayout(S[(4, 8) : (8, 1)])
    assert same_up_to(a, TileLayout(S[(4, 8) : (8, 1)] + 5 @ m), "offset").claim.detail == {"offset": {"m": -5}}  # type: ignore[union-attr]
    found = same_up_to(a, TileLayout(S[(4, 8) : (9, 1)]), "offset")
    assert found.status == "different"
    assert check(found).ok
    swizzled = [ComposeLayout(SwizzleLayout(0, 1, 1), TileLayout(S[8:1] + k @ m)) for k in (0, 8, 1)]
    assert same_up_to(swizzled[0], swizzled[1], "offset").status == "equal"
    assert same_up_to(swizzled[0], swizzled[2], "offset").status == "different"
    with pytest.raises(ProofError, match="neither offset nor permutation"):
        same_up_to(a, a, "rotation")


def test_same_up_to_permutation() -> None:
    shape = (2, 3, 4)
    a = TileLayout(S[(2, 3, 4) : (12, 4, 1)])
    turned = TileLayout(S[(3, 4, 2) : (4, 1, 12)])
    found = same_up_to(a, turned, "permutation", shape)
    assert found.status == "equal"
    assert check(found).ok
    found = same_up_to(a, TileLayout(S[(2, 3, 4) : (12, 4, 2)]), "permutation", shape)
    assert found.status == "different"
    assert check(found).ok


def test_the_checker_refuses_forgeries() -> None:
    true = equal(SWIZZLED, ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout(S[(128, 8, 8) : (64, 8, 1)])))
    false = equal(SWIZZLED, TileLayout(S[(128, 64) : (64, 1)]))
    assert check(true).ok
    assert check(false).ok
    assert not check(replace(true, claim=false.claim)).ok
    assert not check(replace(false, counterexample={"flat": 0})).ok
    assert not check(replace(false, counterexample={"flat": 1 << 40})).ok
    assert not check(replace(false, claim=true.claim)).ok
    with pytest.raises(ProofError, match="does not say what was asked"):
        check(replace(true, claim=None))
    with pytest.raises(ProofError, match="no evidence"):
        check(replace(true, status="unknown"))


N, K, M = (Var(name, "int32") for name in "nkm")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (TileLayout(S[(N, K) : (K, 1)]), TileLayout(S[(N * K) : (1)])),
        (TileLayout(S[(M, N, K) : (N * K, K, 1)]), TileLayout(S[(M * N * K) : (1)])),
        (TileLayout(S[(N, 64) : (64, 1)]), TileLayout(S[(N, 8, 8) : (64, 8, 1)])),
        (TileLayout(S[(N * K, M) : (1, N * K)]), TileLayout(S[(N, K, M) : (K, 1, N * K)])),
    ],
)
def test_symbolic_layouts_are_proved_equal(a: Layout, b: Layout) -> None:
    found = symbolic.equal(a, b)
    assert found.status == "equal"
    assert check(found).ok
    assert Verdict.from_json(json.loads(json.dumps(found.to_json()))).claim == found.claim


def test_symbolic_layouts_are_refuted_with_numbers() -> None:
    found = symbolic.equal(TileLayout(S[(M, N) : (1, M)]), TileLayout(S[(M * N) : (1)]))
    assert found.status == "different"
    assert found.counterexample is not None
    assert {"m", "n", "flat"} <= set(found.counterexample)
    assert check(found).ok
    assert not check(replace(found, counterexample={**found.counterexample, "flat": 0})).ok
    one = ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout(S[(N, 64) : (64, 1)]))
    two = ComposeLayout(SwizzleLayout(3, 2, 3), TileLayout(S[(N, 64) : (64, 1)]))
    assert symbolic.equal(one, two).status == "different"
    assert symbolic.equal(one, two, ranges={N: (1, 4)}).status == "equal"
