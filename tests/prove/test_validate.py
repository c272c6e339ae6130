"""The portfolio on index terms: each answer agrees with brute force, each refutation replays, nothing leaks."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq.errors import ProofError
from tirx_eq.ir.index import EvaluationError, evaluate, names, parse
from tirx_eq.prove import validate as portfolio
from tirx_eq.prove.validate import Validator, prove, validate, validate_all
from tirx_eq.prove.verdict import Enumeration, Matrix, Unsat, Verdict

SWIZZLE = "(xor {a} (shl (and (shr {a} 6) 7) 3))"


def verdict(before: str, after: str, **ranges: tuple[int, int]) -> Verdict:
    return validate(parse(before), parse(after), ranges)


@pytest.mark.parametrize(
    ("before", "after", "ranges", "by"),
    [
        ("(add x y)", "(add x y)", {"x": (0, 9), "y": (0, 9)}, "structural"),
        (SWIZZLE.format(a=SWIZZLE.format(a="x")), "x", {"x": (0, (1 << 31) - 1)}, "gf2"),
        ("(div (add (mul x 64) y) 64)", "x", {"x": (0, 1 << 20), "y": (0, 63)}, "gf2"),
        (
            "(add (mul (div x 3) 64) (and y 63))",
            "(or (shl (div x 3) 6) (mod y 64))",
            {"x": (0, 9999), "y": (0, 9999)},
            "gf2",
        ),
        ("(mod (mod x 150) 10)", "(mod x 10)", {"x": (-100000, 100000)}, "isl"),
        ("(tdiv (sub 0 x) 5)", "(neg (tdiv x 5))", {"x": (-(1 << 40), 1 << 40)}, "isl"),
        ("(div (add (mul x n) y) n)", "x", {"x": (0, 255), "y": (0, 0), "n": (1, 4095)}, "lemmas"),
        ("(div (xor x 5) 12)", "(div (xor 4 (xor x 1)) 12)", {"x": (-(1 << 40), 1 << 40)}, "z3-bv"),
        ("(mod (div (xor x (shr x 5)) 12) 7)", "(div (mod (xor x (shr x 5)) 84) 12)", {"x": (0, 1 << 31)}, "isl"),
        ("(div x 3)", "(sub x (sub x (div x 3)))", {"x": (0, 400)}, "enumeration"),
    ],
)
def test_equal_and_who_decides(before: str, after: str, ranges: dict[str, tuple[int, int]], by: str) -> None:
    found = validate(parse(before), parse(after), ranges)
    assert found.status == "equal"
    if by == "isl":
        pytest.importorskip("islpy")
    assert found.decided_by == by


def test_isl_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    from tirx_eq.prove import presburger

    monkeypatch.setattr(presburger, "available", lambda: False)
    found = verdict("(mod (mod x 150) 10)", "(mod x 10)", x=(-100000, 100000))
    assert found.status == "equal"
    assert found.decided_by == "enumeration"
    found = verdict("(mod (mod x 150) 10)", "(mod x 10)", x=(0, 1 << 31))
    assert (found.status, found.decided_by) == ("equal", "z3-int")
    assert isinstance(found.certificate, Unsat)


@pytest.mark.parametrize("high", [7, 1000, 1 << 30, 1 << 62])
def test_refutations_replay(high: int) -> None:
    before, after = parse("(mod (div x 4) 6)"), parse("(mod (div x 4) 8)")
    found = validate(before, after, {"x": (0, high)})
    if high < 24:
        assert found.status == "equal"
        return
    assert found.status == "different"
    assert found.counterexample is not None
    assert evaluate(before, found.counterexample) == found.before != found.after
    assert evaluate(after, found.counterexample) == found.after


def test_one_rare_point_is_found_in_a_large_box() -> None:
    found = verdict("(select (eq x 123456789) 1 0)", "0", x=(0, (1 << 31) - 1))
    assert found.status == "different"
    assert found.counterexample == {"x": 123456789}


def test_division_semantics_for_all_signs() -> None:
    for op in ("div", "mod", "tdiv", "tmod"):
        for b in (-5, -1, 1, 7):
            same = validate((op, "x", b), (op, "x", "b"), {"x": (-60, 60), "b": (b, b)})
            assert same.status == "equal"
    assert verdict("(div 7 -2)", "-4").status == "equal"
    assert verdict("(mod 7 -2)", "-1").status == "equal"


def test_case_negative_divisor_in_the_solver() -> None:
    claim = parse("(eq (div (mul -3 (add a 5)) 6) (div (add a 5) -2))")
    assert prove(claim, {"a": (-100, 100)}).status == "equal"
    assert prove(claim, {"a": (-(10**12), 10**12)}).status == "equal"


@pytest.mark.parametrize("width", [0, 80])
def test_solver_encodings_agree_with_the_evaluator(width: int) -> None:
    """Every operator, every sign, both theories: the solver's value is the evaluator's."""
    from tirx_eq.prove.smt import Problem, width_for
    from tirx_eq.prove.table import Table

    ops = "add sub mul div mod tdiv tmod shl shr and or xor min max lt le eq ne land lor".split()
    for op, (a, b) in itertools.product(ops, itertools.product((-7, -2, -1, 0, 2, 7), (-3, -1, 1, 2, 3))):
        if op in ("shl", "shr") and b < 0:
            continue
        table = Table({"x": (-9, 9), "y": (b, b) if op in ("shl", "shr") else (-4, 4)})
        node = table.add((op, "x", "y"))
        problem = Problem(table, ["x", "y"], width and width_for(table, [node]))
        value = problem.value(node)
        if not problem.exact:
            assert width == 0
            continue
        problem.solver.add(problem.vars["x"] == problem.const(a), problem.vars["y"] == problem.const(b))
        problem.solver.add(value != problem.const(evaluate((op, "x", "y"), {"x": a, "y": b})))
        assert problem.solve().result == "unsat", (op, a, b)


def test_case_side_condition_does_not_leak() -> None:
    assert prove(parse("(le x (shl x b))"), {"x": (0, 7), "b": (0, 5)}).status == "equal"
    second = prove(parse("(le 0 b)"), {"b": (-3, 3)})
    assert (second.status, second.counterexample) == ("different", {"b": -3})
    with pytest.raises(ProofError, match=r"shift amount may be negative: b ranges over -3\.\.3"):
        prove(parse("(le 0 (shl 1 b))"), {"b": (-3, 3)})


def test_case_partial_tile_guard_is_refuted() -> None:
    claim = parse("(lt (add (mul b 256) t) (mul n 320))")
    assume = parse("(lt b (div (add (mul n 320) 255) 256))")
    ranges = {"n": (0, 1000), "b": (0, 1250), "t": (0, 255)}
    found = prove(claim, ranges, assume=[assume])
    assert found.status == "different"
    point = found.counterexample
    assert point is not None
    assert evaluate(assume, point) == 1
    assert evaluate(claim, point) == 0
    assert {evaluate(parse("(mod (add (mul n 320) 255) 256)"), {"n": n}) for n in range(1001)} == {63, 127, 191, 255}


def test_contradictory_assumptions_prove_nothing() -> None:
    for high in (7, 1 << 40):
        with pytest.raises(ProofError, match="no point of the ranges satisfies"):
            validate("x", ("add", "x", 1), {"x": (0, high)}, assume=[("lt", "x", 0)])


def test_empty_ranges_and_undeclared_names_are_errors() -> None:
    with pytest.raises(ProofError, match=r"range 3\.\.2 is empty"):
        validate("x", "x", {"x": (3, 2)})
    with pytest.raises(ProofError, match="'y' has no range"):
        validate("x", "y", {"x": (0, 2)})


@pytest.mark.parametrize("high", [8, 1 << 40])
def test_possible_zero_divisor_is_an_error_with_its_range(high: int) -> None:
    with pytest.raises(ProofError, match=rf"divisor may be zero: y ranges over 0\.\.{high} at .*y=0"):
        validate(("div", "x", "y"), "x", {"x": (0, 9), "y": (0, high)})


def test_a_guarded_divisor_is_no_error() -> None:
    guarded = parse("(select (ne y 0) (div x y) 0)")
    assert validate(guarded, parse("(select (eq y 0) 0 (div x y))"), {"x": (0, 99), "y": (0, 99)}).status == "equal"
    wide = {"x": (0, 99), "y": (0, 1 << 30)}
    found = validate(guarded, parse("(div x y)"), wide)
    assert found.status == "different"
    assert found.after == "undefined"
    assert found.counterexample is not None
    assert found.counterexample["y"] == 0


def test_unknown_carries_a_question_that_parses(tmp_path: Path) -> None:
    z3 = pytest.importorskip("z3")
    before = parse("(mul (mul x x) (mul x y))")
    after = parse("(mul x (mul (mul y x) x))")
    found = validate(before, after, {"x": (0, 1 << 50), "y": (0, 1 << 50)}, rlimit=1)
    assert found.status == "unknown"
    assert not found
    assert "(check-sat)" in found.smtlib
    assert z3.parse_smt2_string(found.smtlib)
    assert z3.parse_smt2_file(str(found.save_question(tmp_path / "open.smt2")))
    with pytest.raises(ProofError, match="leaves no question open"):
        validate("x", "x", {"x": (0, 1)}).save_question(tmp_path / "none.smt2")


def test_validate_all_shares_and_agrees() -> None:
    shared = parse("(add (mul (div i 8) 64) (mod i 8))")
    pairs = [(("add", shared, k), ("sub", shared, -k)) for k in range(5)] + [(shared, ("add", shared, 1))]
    got = validate_all(pairs, {"i": (0, 1 << 20)})
    assert [v.status for v in got] == ["equal"] * 5 + ["different"]
    assert all(v.claim is not None for v in got)


def test_deep_and_large_terms() -> None:
    deep: object = "x"
    for k in range(5000):
        deep = ("add", deep, k)
    found = validate(deep, ("add", "x", 4999 * 2500), {"x": (0, 1 << 60)})  # type: ignore[arg-type]
    assert found.status == "equal"


def test_verdicts_survive_json() -> None:
    found = [
        verdict("(div (add (mul x 64) y) 64)", "x", x=(0, 1 << 20), y=(0, 63)),
        verdict("(div x 3)", "(sub x (sub x (div x 3)))", x=(0, 400)),
        verdict("(mul x n)", "(mul n (add x 1))", x=(0, 1 << 40), n=(1, 1 << 40)),
    ]
    assert isinstance(found[0].certificate, Matrix)
    assert isinstance(found[1].certificate, Enumeration)
    for v in found:
        again = Verdict.from_json(v.to_json())
        assert again == v
        assert again.claim == v.claim


def test_a_verdict_without_evidence_cannot_be_made() -> None:
    with pytest.raises(ProofError, match="needs a certificate"):
        Verdict("equal", "me")
    with pytest.raises(ProofError, match="needs a counterexample"):
        Verdict("different", "me")


TERMS = st.recursive(
    st.one_of(st.sampled_from(["x", "y"]), st.integers(-9, 70)),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("add sub mul and or xor min max lt le eq ne land lor".split()), inner, inner),
        st.tuples(st.sampled_from(["div", "mod", "tdiv", "tmod"]), inner, st.sampled_from([-6, -4, 1, 2, 3, 8, 64])),
        st.tuples(st.sampled_from(["shl", "shr"]), inner, st.integers(0, 6)),
        st.tuples(st.just("select"), inner, inner, inner),
        st.tuples(st.sampled_from(["neg", "lnot"]), inner),
    ),
    max_leaves=7,
)
RANGES = st.sampled_from([(0, 7), (0, 15), (-3, 9), (5, 12), (-8, 7)])


@settings(max_examples=150, deadline=None)
@given(TERMS, TERMS, RANGES, RANGES, st.sampled_from(["gf2", "sample", "isl", "enumeration", "z3-bv", "z3-int"]))
def test_every_procedure_agrees_with_brute_force(a, b, rx, ry, only) -> None:  # type: ignore[no-untyped-def]
    ranges = {"x": rx, "y": ry}
    validator = Validator(ranges)
    m, n = validator.table.add(a), validator.table.add(b)
    step = {
        "gf2": validator._gf2,
        "sample": validator._sample,
        "isl": validator._isl,
        "enumeration": validator._enumerate,
        "z3-bv": validator._bitvector,
        "z3-int": validator._integers,
    }[only]
    found = step(m, n)
    points = itertools.product(range(rx[0], rx[1] + 1), range(ry[0], ry[1] + 1))
    same = all(evaluate(a, {"x": x, "y": y}) == evaluate(b, {"x": x, "y": y}) for x, y in points)
    if found is not None:
        assert (found.status == "equal") == same
    elif only == "enumeration":
        raise AssertionError("enumeration always decides a small box")


@settings(max_examples=60, deadline=None)
@given(TERMS, RANGES, RANGES)
def test_intervals_enclose(a, rx, ry) -> None:  # type: ignore[no-untyped-def]
    table = Validator({"x": rx, "y": ry}).table
    lo, hi = table.interval[table.add(a)]
    for x, y in itertools.product(range(rx[0], rx[1] + 1), range(ry[0], ry[1] + 1)):
        assert lo <= evaluate(a, {"x": x, "y": y}) <= hi


def test_solver_is_asked_only_when_needed() -> None:
    validator = Validator({"x": (0, 1 << 20)})
    validator.compare(parse("(mod (div x 8) 4)"), parse("(and (shr x 3) 3)"))
    assert validator.decided == {"gf2": 1}
    assert "z3-bv" not in validator.asked
    assert portfolio.LARGE_BOX == 1 << 18
    with pytest.raises(EvaluationError):
        evaluate("x", {})
    assert names(("add", "x", 1)) == {"x"}


@pytest.mark.parametrize(
    ("before", "after", "assume"),
    [
        ("(mod (div (add (mul (add (mul x n) y) k) z) k) n)", "y", ["(lt y n)", "(lt z k)"]),
        ("(div (add (mul (add (mul x n) y) k) z) (mul n k))", "x", ["(lt y n)", "(lt z k)"]),
        ("(div (mod x (mul n k)) k)", "(mod (div x k) n)", []),
        ("(mod (mod x (mul n k)) k)", "(mod x k)", []),
        ("(div (div x n) k)", "(div x (mul n k))", []),
    ],
)
def test_two_level_symbolic_radix(before: str, after: str, assume: list[str]) -> None:
    """What integers alone leave unknown at any limit: the lemmas decide it, outer quotient first."""
    ranges = {**dict.fromkeys("xyz", (0, 1 << 20)), "n": (1, 1 << 12), "k": (1, 1 << 12)}
    found = validate(parse(before), parse(after), ranges, assume=[parse(f) for f in assume])
    assert found.status == "equal"
    assert found.decided_by == "lemmas"
    wrong = validate(parse(before), ("add", parse(after), 1), ranges, assume=[parse(f) for f in assume])
    assert wrong.status == "different"


def test_a_term_of_many_pieces_does_not_hang() -> None:
    """Nested minima, divisions and selections fall into more pieces than isl can handle; its limit ends the attempt."""
    pytest.importorskip("islpy")
    rng = random.Random(3)

    def term(depth: int):  # type: ignore[no-untyped-def]
        if depth == 0:
            return rng.choice(["x", "y", "z", 3, 7])
        kind = rng.choice(["min", "max", "add", "div", "mod", "select"])
        if kind in ("div", "mod"):
            return (kind, term(depth - 1), rng.choice([3, 5, 7]))
        if kind == "select":
            return ("select", ("lt", term(depth - 1), term(depth - 1)), term(depth - 1), term(depth - 1))
        return (kind, term(depth - 1), term(depth - 1))

    gave_up = 0
    for _ in range(6):
        a = term(6)
        validator = Validator(dict.fromkeys("xyz", (0, 10_000)))
        found = validator._isl(validator.table.add(a), validator.table.add(("add", ("sub", a, 1), 1)))
        assert found is None or found.status == "equal"
        gave_up += found is None
    assert gave_up
