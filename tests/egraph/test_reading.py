"""Every rule, read a second time by something that shares no code with the prover, holds wherever it fires; and the two
readings agree on the wrong versions of the rules."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.egraph.reading import ANALYSES, PRIMITIVES, Rule, Wrong, forms
from tirx_eq.egraph.rules import CONGRUENCE_FILE, INDEX_FILES, STRENGTH_FILE, load_rules, read_files
from tirx_eq.prove import mutant_records
from tirx_eq.prove.mutate import claiming, mutants
from tirx_eq.prove.obligations import Signature
from tirx_eq.prove.records import subjects
from tirx_eq.resources import rules_dir

FILES = dict.fromkeys((*INDEX_FILES, CONGRUENCE_FILE, STRENGTH_FILE))
ALL = [f for file in FILES for f in forms((rules_dir() / file).read_text())]
RULES = [Rule(f) for f in ALL if f[0] in ("rewrite", "rule")]
MERGES = {f[1]: f[f.index(":merge") + 1] for f in ALL if f[0] == "function" and ":merge" in f and f[1] in ANALYSES}
WANTED = 30
TRIES = 6_000


def fired(rule: Rule, wanted: int, tries: int) -> int:
    rng = random.Random(rule.name)
    count = 0
    for _ in range(tries):
        count += rule.fire(rng)
        if count >= wanted:
            break
    return count


def test_nothing_is_left_out() -> None:
    """What is read here is what is proved: each rule, and each merge of an analysis."""
    assert {r.name for r in RULES} | {f"merge/{name}" for name in MERGES} == {s.name for s in subjects()}
    silent = {r.name for r in RULES if not r.claims}
    assert all(n.startswith(("prune/", "size/", "order/ask-", "strength/try-")) for n in silent)


def test_every_rule_fires_and_says_what_is_true() -> None:
    for rule in RULES:
        assert fired(rule, WANTED, TRIES) >= WANTED or not rule.claims, rule.name


@pytest.mark.parametrize("name", MERGES)
def test_two_true_facts_merge_into_a_true_one(name: str) -> None:
    rng = random.Random(name)
    op, *args = MERGES[name]
    assert args == ["old", "new"]
    merged = 0
    for _ in range(2_000):
        e = rng.choice((rng.randint(-70, 200), 60 * rng.randint(-2, 3)))
        old, new = (rng.choice((rng.randint(-20, 210), rng.randint(1, 12))) for _ in range(2))
        if ANALYSES[name](e, old) and ANALYSES[name](e, new):
            assert ANALYSES[name](e, PRIMITIVES[op](old, new))
            merged += 1
    assert merged > 20


@pytest.mark.parametrize(
    "text",
    [
        '(rewrite (MulK (DivK a k) k) a :ruleset simp :name "wrong")',
        '(rewrite (DivK (Add a b) k) (Add (DivK a k) (DivK b k)) :when ((nn a)) :ruleset simp :name "wrong")',
        '(rewrite (ModK a k) (AndK a m) :when ((= m (- k 1))) :ruleset simp :name "wrong")',
        '(rewrite (AddK a k) (DivK a k) :when ((= k 0)) :ruleset simp :name "wrong")',
        '(rule ((= e (Min a b)) (= x (hi a)) (= y (hi b)) (= z (- (min x y) 1))) ((set (hi e) z)) :ruleset ana :name "wrong")',
        '(rule ((= e (ModK a k)) (= m (al a))) ((set (al e) m)) :ruleset ana :name "wrong")',
        '(rule ((le a b)) ((lt a b)) :ruleset ana :name "wrong")',
        '(rule ((= e (Div a b))) ((cg e 2 1)) :ruleset ana :name "wrong")',
    ],
)
def test_a_wrong_rule_is_caught(text: str) -> None:
    with pytest.raises(Wrong):
        fired(Rule(forms(text)[0]), 200, TRIES)


def test_both_readings_agree_on_mutants() -> None:
    """Of the wrong versions of every sixth rule: what the prover lets stand is never seen to fail, what never fires doesn't,
    and of what it refutes nearly all fail at a random point as well."""
    signature = Signature.of(s.form for s in read_files(INDEX_FILES))
    records = {r.rule: r for r in mutant_records.read()}
    seen: Counter[tuple[str, str]] = Counter()
    known = {r.name for r in load_rules()}
    for rule in claiming()[::6]:
        assert rule.name in known
        found = mutants(rule, signature)
        times = Counter(m.what for m in found)
        kept = {k.what: k.status for k in records[rule.name].kept}
        rejected = sum(n for _, status, n in records[rule.name].counts if status == "rejected")
        for mutant in found:
            if mutant.what in kept and times[mutant.what] > 1:
                continue  # two changes with the same words
            status = kept.get(mutant.what, "either" if rejected else "refuted")
            try:
                count = fired(Rule(mutant.form), 400, 600)
                seen["fired" if count else "never", status] += 1
                assert status != "idle" or not count, mutant
            except Wrong as wrong:
                assert status in ("refuted", "either"), (str(mutant), status, str(wrong))
                seen["wrong", status] += 1
    refuted = sum(n for (_, status), n in seen.items() if status == "refuted")
    assert refuted > 200
    assert seen["wrong", "refuted"] >= 0.9 * refuted, seen
