"""Rule files: every form well formed, named once, and the reader's errors say where."""

from __future__ import annotations

import pytest

from tirx_eq.egraph.reach import reachable, shapes
from tirx_eq.egraph.rules import CONGRUENCE_FILE, INDEX_FILES, STRENGTH_FILE, load_rules, read_files, read_forms, rules_of
from tirx_eq.errors import RuleError

RULESETS = {"ana", "fold", "prune", "simp", "alt", "final"}


def test_every_rule_has_a_family_and_a_known_ruleset() -> None:
    rules = load_rules()
    assert len(rules) > 200
    assert len({r.name for r in rules}) == len(rules)
    assert {r.ruleset for r in rules} <= RULESETS
    assert len({r.digest for r in rules}) == len(rules)


def test_only_prune_subsumes_and_sub_is_final() -> None:
    for r in load_rules():
        if "subsume" in r.text:
            assert r.ruleset == "prune", r.name
        if "(Sub " in r.text:
            assert r.ruleset == "final", r.name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(rewrite a b :ruleset simp)", "needs :name"),
        ('(rewrite a b :name "f/x")', "no :ruleset"),
        ('(birewrite a b :ruleset simp :name "f/x")', "both directions"),
        ('(rewrite a b :ruleset s :name "f/x")\n(rewrite a c :ruleset s :name "f/x")', "already at"),
        ("(rule ((= a", "never closed"),
        (")", "without"),
        ("oops", "outside"),
    ],
)
def test_bad_rules(text: str, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        rules_of(read_forms(text))


def test_tags_belong_to_the_next_form() -> None:
    rules = rules_of(
        read_forms(
            ';@ grows both\n; text\n(rewrite a b :ruleset s :name "f/x")\n(rewrite b a :ruleset s :name "f/y")'
        )
    )
    assert [r.tags for r in rules] == [("grows", "both"), ()]


def test_the_fast_reader_sees_the_same_rules() -> None:
    rules = load_rules()
    files = (*INDEX_FILES, CONGRUENCE_FILE, STRENGTH_FILE)
    declared, fast = shapes(files)
    assert [(r.name, r.ruleset, r.text) for r in rules] == [(s.name, s.ruleset, s.text) for s in fast]
    assert len(declared) + len(fast) == len(read_files(files))


def test_rules_without_their_operators_are_not_loaded() -> None:
    some = {s.name for s in reachable(INDEX_FILES, {"V", "Add", "DivK"})}
    assert "divmod/div-div" in some and "bits/join" in some
    assert not any(n.startswith(("minmax/", "select/", "trunc/", "compare/")) for n in some)
    assert "minmax/min-self" in {s.name for s in reachable(INDEX_FILES, {"V", "Min"})}
