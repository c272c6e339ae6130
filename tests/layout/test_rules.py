"""The layout rules: same classes as the canonical form and as brute force; every rule proved, weakened ones not."""

from __future__ import annotations

import copy
import random

import brute
import pytest
from test_pairs import GROUPS, members, random_spec

from tirx_eq.egraph.layouts import classes, layout_rules, layout_sources
from tirx_eq.egraph.rules import Rule, show_form
from tirx_eq.errors import LayoutError
from tirx_eq.layout import R, S, SwizzleLayout, TileLayout, from_json, laneid, tx, warpid, wgid, wid_in_wg
from tirx_eq.layout.normal import normal_form
from tirx_eq.prove.layout_rules import body, check, prove_rule


def partition(keys) -> set[frozenset[int]]:
    found: dict = {}
    for k, key in enumerate(keys):
        found.setdefault(key, set()).add(k)
    return {frozenset(v) for v in found.values()}


def test_every_group_is_decided():
    layouts, group = [], []
    for k, g in enumerate(GROUPS):
        for spec in members(g):
            layouts.append(from_json(spec))
            group.append(k)
    found = classes(layouts)
    for k, g in enumerate(GROUPS):
        ids = {found.ids[i] for i in range(len(layouts)) if group[i] == k}
        assert (len(ids) == 1) == g.get("semantically_equal", True), g
    assert found.report.saturated


@pytest.mark.parametrize(("kind", "seed"), [("powers", 21), ("anything", 22)])
def test_rules_form_and_brute_force_agree(kind, seed):
    rng = random.Random(seed)
    specs = [random_spec(rng, kind) for _ in range(400)]
    layouts = [from_json(s) for s in specs]
    found = classes(layouts)
    meanings = partition(brute.table(s) for s in specs)
    assert partition(found.ids) == meanings == partition(normal_form(x) for x in layouts)
    plain = [i for i, s in enumerate(specs) if s["kind"] == "tile"]
    assert all(found.by_rules[i] for i in plain), "rules alone are complete without swizzles"


def test_thread_axes_of_one_cta():
    pairs = [
        (TileLayout(S[(4, 32):(1 @ warpid, 1 @ laneid)]), TileLayout(S[128 : 1 @ tx])),
        (TileLayout(S[(4, 32):(1 @ warpid, 1 @ laneid)] + 1 @ warpid + 5 @ laneid), TileLayout(S[128 : 1 @ tx] + 37 @ tx)),
        (TileLayout(S[(2, 4):(1 @ wgid, 1 @ wid_in_wg)]), TileLayout(S[8 : 1 @ warpid])),
        (TileLayout(S[8:1] + R[4 : 1 @ warpid]), TileLayout(S[8:1] + R[4 : 32 @ tx])),
    ]
    for a, b in pairs:
        assert len(set(classes([a, b], cta=True).ids)) == 1
        assert len(set(classes([a, b]).ids)) == 2
    with pytest.raises(LayoutError, match="spreads from 0 to 63 on laneid"):
        classes([TileLayout(S[64 : 1 @ laneid])], cta=True)


def test_sizes_keep_bare_swizzles_apart():
    swizzle = SwizzleLayout(3, 3, 3)
    assert len(set(classes([swizzle, swizzle, swizzle], sizes=[512, 1024, 512]).ids)) == 2


def test_every_rule_has_a_proof_of_today():
    assert check() == []
    assert len(layout_rules()) == 59 and len({r.family for r in layout_rules()}) == 6


#: conditions that soundness doesn't need: they keep rules from running for nothing, or bits among those tracked
GUARDS = {
    "copies/negative": {"(< s 0)"},
    "copies/start": {"(> s 0)", "(> e 1)"},
    "swizzle/dead": {"(>= s 0)", "(< s 40)"},
    "swizzle/flip-up": {"(>= d 0)", "(< d 40)"},
}


@pytest.mark.parametrize(
    "name",
    [
        "shard/fuse", "copies/still", "copies/start", "offset/trivial", "threads/warp", "threads/offset-warp",
        "known/digit", "known/other-axis", "known/layout", "swizzle/twice", "swizzle/commute", "swizzle/dead",
        "swizzle/flip-in", "swizzle/flip-up",
    ],
)  # fmt: skip
def test_a_rule_without_one_of_its_conditions_is_refuted(name):
    rule = next(r for r in layout_rules() if r.name == name)
    tried = 0
    for k, fact in enumerate(body(rule.form)):
        weaker = copy.deepcopy(rule.form)
        del (weaker[1] if rule.kind == "rule" else weaker[weaker.index(":when") + 1])[k]
        if not _bound(weaker) or show_form(fact) in GUARDS.get(name, ()):
            continue
        if name.startswith("known") and show_form(fact) in ("(> e 1)", "(< r 1099511627776)"):
            continue
        tried += 1
        found = prove_rule(Rule(name, rule.family, weaker, "", "", 0, (), ""))
        assert found.verdict == "refuted", show_form(fact)
    assert tried or "(cta)" not in show_form(rule.form)


def _bound(form) -> bool:
    """Whether all variables of the right side are bound by the left side and the conditions."""

    def names(f):
        if isinstance(f, list):
            for x in f[1:]:
                yield from names(x)
        elif isinstance(f, str) and not f.startswith('"'):
            yield f

    facts = body(form)
    left = set(names(form[1])) if form[0] == "rewrite" else set()
    for fact in facts:
        left |= set(names(fact))
    right = form[2] if form[0] == "rewrite" else ["actions", *form[2]]
    return set(names(right)) <= left


def test_wrong_rules_are_refuted():
    def mutant(name: str, old: str, new: str) -> str:
        from tirx_eq.egraph.rules import read_forms, rules_of

        text = next(s.text for s in layout_sources() if f'"{name}"' in s.text)
        assert old in text
        return prove_rule(rules_of(read_forms(text.replace(old, new)))[0]).verdict

    assert mutant("shard/fuse", "(= s (* f u))", "(= s (* e u))") == "refuted"
    assert mutant("copies/negative", "(* s (- e 1))", "(* s e)") == "refuted"
    assert mutant("threads/warpgroup", "(* 128 s)", "(* 32 s)") == "refuted"
    assert mutant("swizzle/constant", "(Flip d l)", "(Flip s l)") == "refuted"
    assert mutant("swizzle/flip-down", "(- 0 k)", "(+ 0 k)") == "refuted"
    assert mutant("known/layout", "(^ -1 c)", "-1") == "refuted"
    assert mutant("known/digit", "(- (<< 2 (log2 r)) g)", "(- (<< 1 (log2 r)) g)") == "refuted"
