"""Mutants of rules: refuted, or proved sound; no hole."""

from __future__ import annotations

import random

import pytest

from tirx_eq.egraph.rules import INDEX_FILES, Rule, load_rules, read_files
from tirx_eq.prove.mutate import judge, mutants
from tirx_eq.prove.obligations import Signature, obligation
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
    ],
)
def test_a_mutant_of_each_kind(rule: str, what: str, status: str) -> None:
    assert outcome(rule, what) == status


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
