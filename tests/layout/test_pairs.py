"""Equality by canonical form: the groups that the reference can't identify, and random layouts against brute force."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path

import brute
import pytest
from hypothesis import given, settings
from layout_strategies import layouts

from tirx_eq.layout import R, S, TileLayout, from_json
from tirx_eq.layout.normal import normal_form

GROUPS = [json.loads(line) for line in (Path(__file__).parents[1] / "data" / "layout_pairs.jsonl").read_text().splitlines()]


def members(group: dict) -> list[dict]:
    return group["forms"] if "forms" in group else [group["a"], group["b"]]


def test_every_group_is_decided():
    for group in GROUPS:
        forms = {normal_form(from_json(spec)) for spec in members(group)}
        assert (len(forms) == 1) == group.get("semantically_equal", True), group
        assert all(f.complete for f in forms)


@settings(max_examples=150, deadline=None)
@given(layouts())
def test_the_canonical_form_means_the_same(layout):
    form = normal_form(layout)
    assert brute.table(form.layout.to_json(), layout.size()) == brute.table(layout.to_json())
    assert normal_form(form.layout, layout.size()) == form


def random_spec(rng: random.Random, kind: str) -> dict:
    """A small layout; ``kind`` chooses how adversarial: powers of two, or anything."""
    powers = kind == "powers"
    extents = [1, 2, 2, 4, 4, 8] if powers else [1, 2, 3, 4, 5, 6]
    strides = [0, 1, 2, 4, 8, 16, 32] if powers else [-4, -2, -1, 0, 1, 2, 3, 4, 5, 6, 8, 12]
    swizzled = rng.random() < 0.5
    axes = ["m"] * (5 if swizzled else 3) + ["tx"]

    def iters(most: int) -> list:
        made, n = [], 1
        for _ in range(rng.randint(0, most)):
            e = rng.choice(extents)
            if n * e <= 24:
                made.append([e, rng.choice(strides), rng.choice(axes)])
                n *= e
        return made

    tile = {"kind": "tile", "shard": iters(4), "replica": iters(2) if rng.random() < 0.4 else [], "offset": {}}
    if rng.random() < 0.3:
        tile["offset"] = {rng.choice(axes): rng.choice([1, 2, 4, 8, -1, 16])}
    if not swizzled:
        return tile
    count = rng.randint(0, 2)
    return {
        "kind": "compose", "per_element": rng.randint(0, 2), "swizzle_len": count,
        "atom_len": rng.randint(count, 3), "swizzle_inner": rng.random() < 0.7, "tile": tile,
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "seed"), [("powers", 1), ("anything", 2)])
def test_equal_forms_exactly_when_equal_meaning(kind, seed):
    """All pairs among 450 layouts (about 100,000): the partition by form is the partition by meaning."""
    rng = random.Random(seed)
    by_form, by_meaning = defaultdict(set), defaultdict(set)
    for k in range(450):
        spec = random_spec(rng, kind)
        by_form[normal_form(from_json(spec))].add(k)
        by_meaning[brute.table(spec)].add(k)
    assert {frozenset(v) for v in by_form.values()} == {frozenset(v) for v in by_meaning.values()}
    assert len(by_meaning) < 450


def test_sets_of_copies_with_several_writings():
    a = TileLayout(S[4:100] + R[(2, 4, 4):(3, 2, 2)])
    b = TileLayout(S[4:100] + R[(2, 3, 3):(5, 2, 3)])
    for one, other in ((a, b), (b, a)):
        equal = brute.table(one.to_json()) == brute.table(other.to_json())
        assert (normal_form(one) == normal_form(other)) == equal
