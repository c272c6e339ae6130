"""Mutants of rules: refuted, or proved sound; no hole."""

from __future__ import annotations

import random

import pytest

from tirx_eq.egraph.rules import INDEX_FILES, Rule, load_rules, read_files, read_forms
from tirx_eq.ir.index import show
from tirx_eq.prove import mutant_records as records
from tirx_eq.prove.mutate import judge, mutants
from tirx_eq.prove.obligations import Signature, obligation
from tirx_eq.prove.powers import with_powers
from tirx_eq.prove.prover import violates

SIGNATURE = Signature.of(s.form for s in read_files(INDEX_FILES))
RULES = {r.name: r for r in load_rules()}


def outcome(name: str, what: str) -> str:
    (mutant,) = (m for m in mutants(RULES[name], SIGNATURE) if m.what == what)
    return judge(mutant, SIGNATURE).status


@pytest.mark.parametrize(
    ("rule", "what", "status"),
    [
        ("divmod/mod-small", "without (nn a)", "refuted"),
        ("divmod/mod-small", "without (< (hi a) k)", "refuted"),
        ("divmod/mod-small", "<= for < in (< (hi a) k)", "refuted"),
        ("divmod/mod-block", "without (!= q 0)", "sound"),  # the guard only saves work
        ("linear/addk-addk", "without (= z (+ x y))", "rejected"),
        ("linear/addk-addk", "z off by 1", "refuted"),
        ("ana/add-lo", "x off by 1", "refuted"),
        ("ana/add-lo", "x off by -1", "sound"),  # a weaker bound
        ("bits/div-xor", "without (= 0 (& k (- k 1)))", "refuted"),
        ("divmod/div-mul-down", "operands of (> k x) swapped", "idle"),
        ("bits/div-or", "2 for 1 in (- k 1)", "sound"),  # k & (k - 2) = 0 and 1 <= k: a power of two as well
        ("bits/floor-down", "without (> y 1)", "sound"),  # a divisor isn't zero, and no negative y has y & (y - 1) = 0
    ],
)
def test_a_mutant_of_each_kind(rule: str, what: str, status: str) -> None:
    assert outcome(rule, what) == status


def test_records_leave_none_undecided() -> None:
    """Every mutant of every rule is refuted, is no rule, or has a proof; and the records are of today's rules."""
    assert not records.problems(records.read())


def test_powers_are_found_only_where_they_follow() -> None:
    def added(condition: str) -> set[str]:
        (source,) = read_forms(f"(rewrite (DivK a k) a :when ({condition}))")
        ob = obligation("test/rule", source.form, SIGNATURE)
        return {show(h) for h in with_powers(ob, (8, 16), 2_000_000).hypotheses} - {show(h) for h in ob.hypotheses}

    power = "(eq 0 (and k (sub k 1)))"
    assert power in added("(= 0 (& k (- k 2)))")
    assert not added("(= 0 (& k (- k 3)))")  # 1, 2 and 4, but also 10
    assert not added("(= 0 (& k 4))")
    assert not added("(> k 4)")


@pytest.mark.parametrize("seed", range(3))
def test_sampled_mutants_leave_no_hole(seed: int) -> None:
    """A fixed sample; ``python -m tirx_eq.prove --mutants`` judges them all."""
    rng = random.Random(seed)
    rules: list[Rule] = [r for r in RULES.values() if r.family not in ("prune", "size")]
    for rule in rng.sample(rules, 6):
        some = mutants(rule, SIGNATURE)
        for mutant in rng.sample(some, min(3, len(some))):
            found = judge(mutant, SIGNATURE)
            assert found.status in ("refuted", "sound", "idle", "rejected"), str(mutant)
            if found.status == "refuted":
                ob = obligation(mutant.rule, mutant.form, SIGNATURE)
                assert found.counterexample is not None
                assert violates(ob, found.counterexample) or ob.exact
