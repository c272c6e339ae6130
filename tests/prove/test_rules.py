"""Rules and their obligations: the shipped ones are proved, wrong ones are refuted, malformed ones are refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq.egraph.rules import INDEX_FILES, load_rules, read_files, read_forms
from tirx_eq.errors import RuleError
from tirx_eq.ir.index import EvaluationError, evaluate, names, show
from tirx_eq.prove import bitvector
from tirx_eq.prove.hints import WITNESSES
from tirx_eq.prove.meaning import FUNCTIONS, OPERATORS, RELATIONS, SYNTACTIC
from tirx_eq.prove.obligations import Obligation, Signature, merge_obligation, obligation
from tirx_eq.prove.prover import admissible, prove, violates, witness

SOURCES = read_files(INDEX_FILES)
SIGNATURE = Signature.of(s.form for s in SOURCES)
RULES = {r.name: r for r in load_rules()}


def made(text: str) -> Obligation:
    (source,) = read_forms(text)
    return obligation("test/rule", source.form, SIGNATURE)


def test_every_head_of_the_language_has_one_meaning() -> None:
    """What rules/ops.egg declares and what the dictionary explains are the same set."""
    declared = set(SIGNATURE.heads) - {"K", "V"}
    meant = set(OPERATORS) | set(FUNCTIONS) | set(RELATIONS) | set(SYNTACTIC)
    assert {h for h in declared if h in meant} >= set(OPERATORS)
    unexplained = declared - meant
    used = {h for r in RULES.values() for h in str(r.form).replace("'", " ").split() if h in unexplained}
    assert not used


def test_hints_are_few_and_name_rules() -> None:
    assert set(WITNESSES) <= set(RULES)
    assert len(WITNESSES) <= len(RULES) // 10


# One of each kind: fast enough for every run.  Records (test_records) cover all rules.
@pytest.mark.parametrize(
    "name",
    [
        "linear/distribute",
        "divmod/div-mod",
        "divmod/mod-keep-right",
        "divmod/mod-mul-gcd",
        "divmod/two-blocks",
        "ana/mul-range",
        "ana/min-al",
        "ana/shl-al",
        "ana/al-bits",
        "ana/range-bits",
        "bits/floor-up",
        "bits/xor-into-left",
        "fold/point",
    ],
)
def test_shipped_rule_is_proved(name: str) -> None:
    rule = RULES[name]
    proof = prove(obligation(name, rule.form, SIGNATURE))
    assert proof.verdict == "proved", proof
    if proof.procedure == "bit-vectors":
        assert {8, 16, 32} <= set(proof.widths)
        assert all(have >= wide for have, wide in zip(proof.arithmetic, proof.widths))


@pytest.mark.parametrize("name", ["lo", "hi", "al", "kz", "ko"])
def test_merges_are_proved(name: str) -> None:
    form = next(s.form for s in SOURCES if isinstance(s.form, list) and s.form[:2] == ["function", name])
    assert prove(merge_obligation(form)).verdict == "proved"


def test_a_wrong_merge_is_refuted() -> None:
    (source,) = read_forms("(function lo (E) i64 :merge (+ old new))")
    assert prove(merge_obligation(source.form)).verdict == "refuted"


WRONG = {
    "floor and multiply trade places": "(rewrite (MulK (DivK a k) k) a)",
    "offset hoisted out of a modulus": "(rewrite (ModK (Add a b) k) (Add (ModK a k) b) :when ((nn b) (< (hi b) k)))",
    "floor rule for truncating division": "(rewrite (TDivK (Add a b) k) (Add (TDivK a k) (TDivK b k))"
    " :when ((= 0 (% (al a) k))))",
    "sign out of a truncating remainder": "(rewrite (TMod a (MulK b -1)) (MulK (TMod a b) -1))",
    "shift by zero forgotten": "(rewrite (ModK (K 1) k) (K 1))",
    "exclusive or of a number that is no power of two": "(rewrite (DivK (Xor a b) k) (Xor (DivK a k) (DivK b k)))",
    "a fact that is too strong": "(rule ((= e (Mod a b)) (= x (hi b))) ((set (hi e) x)))",
    "a divisor from nowhere": "(rewrite (Mul a b) (Div a b) :when ((= 1 (al b))))",
    "invariant of DivK broken": "(rewrite (MulK a k) (DivK (MulK a k) z) :when ((= z (* k k)) (= k 0)))",
    "bits lost": "(rule ((= e (AddK a k)) (> k 0) (= x (<< k 40)) (= k (>> x 40))) ((set (hi e) x) (set (lo e) x)))",
    "union of unequal": "(rule ((= e (AddK a k)) (> k 0)) ((union e a)))",
    "relation": "(rule ((= e (Min a b)) (nn a)) ((nn e)))",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG.keys())
def test_wrong_rules_are_refuted_with_a_point(text: str) -> None:
    ob = made(text)
    proof = prove(ob)
    assert proof.verdict == "refuted", proof
    assert proof.counterexample is not None
    assert violates(ob, proof.counterexample)
    assert proof.detail


def test_lost_bits_are_noticed() -> None:
    """The claim holds over the integers, but ``<<`` on a 64-bit constant would drop bits."""
    ob = made("(rule ((= e (MulK a k)) (= k (<< 1 s)) (<= 0 s) (= l (lo a)) (>= l 0) (= x (<< l s))) ((set (lo e) x)))")
    proof = prove(ob)
    assert proof.verdict == "refuted"
    assert "may lose bits" in proof.detail


def test_contradictory_conditions_are_vacuous_not_proved() -> None:
    proof = prove(made("(rewrite (DivK a k) (K 7) :when ((nn a) (< (hi a) 0)))"))
    assert proof.verdict == "vacuous"
    assert not proof.ok


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(rewrite (Add a b) (Frob a b))", "'Frob' has no meaning"),
        ("(rewrite (AddK a k) (AddK a z))", "'z' on the right is not bound"),
        ("(rewrite (AddK a k) (AddK a (+ k 1)))", "primitive '\\+' on the right"),
        ("(rewrite (MulK a k) a :when ((= s (log2 k))))", "log2 of k"),
        ("(rewrite (AddK a k) (AddK a z) :when ((= z (popcount k))))", "primitive 'popcount' has no meaning"),
        ("(rewrite (DivK a k) a :when ((frob a)))", "fact 'frob' has no meaning"),
        ("(rewrite (Add a) a)", "takes 2 operands, not 1"),
        ("(rule ((= e (Add a b))) ((delete (Add a b))))", "action 'delete' has no meaning"),
        ("(rewrite (MulK a x) (MulK a z) :when ((= z (denom (rational x k)))))", "not known to be positive"),
    ],
)
def test_rules_without_meaning_are_refused(text: str, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        made(text)


def test_obligations_are_readable() -> None:
    ob = obligation("divmod/mod-small", RULES["divmod/mod-small"].form, SIGNATURE)
    assert "given (le 0 a)" in str(ob)
    assert "prove (eq (mod a k) a)" in str(ob)


def test_every_rule_can_fire() -> None:
    """Hypotheses of a few guarded rules have a model that the evaluator confirms."""
    for name in ("divmod/div-drop-right", "bits/mask-add-left", "bits/floor-down", "ana/bits-lo"):
        ob = obligation(name, RULES[name].form, SIGNATURE)
        point = witness(ob)
        assert point is not None
        assert all(evaluate(h, point) for h in ob.hypotheses)


AMOUNT = st.integers(0, 9)
NUMBER = st.integers(-300, 300)


@settings(max_examples=200, deadline=None)
@given(NUMBER, NUMBER, NUMBER.filter(bool), AMOUNT, AMOUNT)
def test_rewording_for_the_solver_keeps_the_meaning(a: int, b: int, z: int, s: int, t: int) -> None:
    """Each step of ``bitvector`` on its own, against the evaluator."""
    point = {"a": a, "b": b, "z": z, "s": s, "t": t}
    power = ("shl", 1, "s")
    odd = ("add", ("mul", 2, "b"), 1)
    for term in (
        ("mul", "a", power),
        ("mul", power, "a"),
        ("div", "a", power),
        ("mod", "a", power),
        ("mod", "a", 16),
        ("div", "a", 8),
        ("mul", "a", ("shl", "b", "s")),
        ("mul", ("shl", "a", "t"), ("shl", "b", "s")),
        ("and", "a", ("sub", 0, power)),
        ("div", "a", ("shl", "z", "s")),
        ("tdiv", ("shl", "a", "s"), power),
        ("and", ("shl", odd, "s"), ("sub", 0, ("shl", odd, "s"))),
        ("mod", "a", ("and", "z", ("sub", 0, "z"))),
        ("add", ("sub", power, 1), 1),
    ):
        again = bitvector.rewrite(bitvector.rewrite(term, bitvector._shifts), bitvector._offsets)
        assert evaluate(again, point) == evaluate(term, point), (show(term), show(again))


def _sampled(ob: Obligation, rng: random.Random) -> dict[str, int] | None:
    """Random small values; a hypothesis ``variable = term`` gives the variable's, the others are met or not."""
    point = {n: rng.choice((0, 1, 2, 3, 4, 8, 16, -1, -3, rng.randint(-40, 40))) for n in ob.sorts}
    for h in ob.hypotheses:
        if isinstance(h, tuple) and h[0] == "eq":
            for x, t in ((h[1], h[2]), (h[2], h[1])):
                if isinstance(x, str) and x not in names(t):
                    try:
                        point[x] = evaluate(t, point)
                    except EvaluationError:
                        return None
                    break
    return point if admissible(ob, point) else None


def test_proved_rules_hold_at_random_points() -> None:
    """No solver involved: wherever the conditions hold, so do the claims."""
    rng = random.Random(5)
    fired = 0
    for rule in rng.sample(list(RULES.values()), 120):
        ob = obligation(rule.name, rule.form, SIGNATURE)
        for _ in range(40):
            point = _sampled(ob, rng)
            if point is not None:
                assert not violates(ob, point), (rule.name, point)
                fired += 1
    assert fired > 1000
