"""The parity normal form: what it calls equal is equal; it never needs to answer, but it must never be wrong."""

from __future__ import annotations

import random

import pytest

from tirx_eq.egraph.random_terms import random_row, sample
from tirx_eq.ir.index import EvaluationError, Term, evaluate, parse, show
from tirx_eq.prove.parity import equal


@pytest.mark.parametrize(
    ("before", "after", "ranges"),
    [
        ("(add (mul (div x 8) 8) (mod x 8))", "x", {"x": (0, 1000)}),
        ("(add (mul y 64) (xor (mod x 64) (mul (mod (div x 8) 8) 8)))",
         "(add (mul y 64) (xor (and x 63) (and x 56)))", {"x": (0, 1023), "y": (-5, 5)}),
        ("(xor (add (mul r 64) c) (shl (and r 7) 3))", "(add (mul r 64) (xor c (and (mul r 8) 56)))",
         {"r": (0, 63), "c": (0, 63)}),
        ("(div (add (mul x 12) y) 12)", "x", {"x": (-9, 9), "y": (0, 11)}),
        ("(min a (add b 3))", "(add (min (sub a 3) b) 3)", {"a": (0, 9), "b": (-9, 9)}),
        ("(max a b)", "(sub (add a b) (min b a))", {"a": (0, 9), "b": (-9, 9)}),
        ("(lt (add a 5) (add b 5))", "(lnot (le b a))", {"a": (0, 9), "b": (-9, 9)}),
        ("(mul (add a 1) (sub b 2))", "(sub (add (mul b a) b) (mul 2 (add a 1)))", {"a": (0, 9), "b": (-9, 9)}),
        ("(or (shl v 32) (add w 1030))", "(add (mul v 4294967296) (add w 1030))", {"v": (0, 16383), "w": (0, 16383)}),
        ("(div (sub a b) (mul c 16))", "(div (add a (mul b -1)) (mul 16 c))", dict.fromkeys("abc", (0, 99))),
        ("(or (and x 12) (and x 3))", "(mod x 16)", {"x": (0, 40)}),
        ("(lt (div v 2) 128)", "(lt v 256)", {"v": (0, 16383)}),
        ("(lt 1 (div (add v 15) 16))", "(lt 16 v)", {"v": (0, 16383)}),
        ("(lt (sub (add (mul a 4) b) 32) 16)", "(le a 11)", {"a": (0, 16383), "b": (0, 3)}),
        ("(lt (mul a 12) (add (mul b 18) 5))", "(lt (mul a 2) (add (mul b 3) 1))", {"a": (-50, 50), "b": (-50, 50)}),
        ("(land (le 4 v) (lt v 8))", "(eq (div v 4) 1)", {"v": (0, 16383)}),
        ("(land (le 6 v) (lt 8 v))", "(lt 8 v)", {"v": (-9, 99)}),
        ("(land (le 8 v) (lt v 8))", "0", {"v": (-9, 99)}),
        ("(eq (shr v 2) 0)", "(le v 3)", {"v": (0, 16383)}),
        ("(lt 0 (max 0 (min 16 (sub v (mul u 32)))))", "(lt (mul u 32) v)", {"v": (0, 999), "u": (0, 99)}),
        ("(land (eq a 0) (eq (div b 3) 0))", "(eq (or (div b 3) a) 0)", {"a": (0, 99), "b": (0, 99)}),
        ("(land (eq (shr v 2) 3) (eq (and v 3) 0))", "(eq v 12)", {"v": (0, 16383)}),
        ("(land (eq (and v 3) 0) (land (lt v 40) (eq (shr v 2) 0)))", "(eq v 0)", {"v": (0, 16383)}),
        ("(land (eq (and v 6) 2) (eq (and v 24) 8))", "(eq (and v 30) 10)", {"v": (0, 16383)}),
        ("(land (eq (and v 6) 2) (eq (and v 3) 0))", "0", {"v": (0, 16383)}),
        ("(xor (add (mul (and v 127) 64) (shl (and v 7) 3)) 8)", "(add (mul (and v 127) 64) (xor 8 (mul (and v 7) 8)))",
         {"v": (0, 511)}),
        ("(max (add 1 (sub (mul v 32) (mul (min (div v 4) 7) 128))) 0)",
         "(sub (add 1 (mul v 32)) (mul (min 7 (div v 4)) 128))", {"v": (0, 16383)}),
        ("(lor (ne a 0) (lor (ne b 0) (ne c 0)))", "(ne 0 (or (or a b) c))", dict.fromkeys("abc", (0, 99))),
        ("(div (add (div (add v 127) 128) 1) 2)", "(div (add v 255) 256)", {"v": (0, 16383)}),
        ("(mod (div (div (add v 127) 128) 2) 2)", "(and (div (add v 127) 256) 1)", {"v": (0, 16383)}),
        ("(or (and u v) u)", "u", {"v": (0, 99), "u": (0, 99)}),
        ("(and (and u v) (and v w))", "(and (and w u) v)", dict.fromkeys("uvw", (0, 99))),
        ("(xor (add (add (mul a 8) (mul b 2)) c) (shl (and d 7) 3))",
         "(add (xor (add (mul a 8) (mul b 2)) (and (mul d 8) 56)) c)",
         {"a": (0, 9999), "b": (0, 9999), "c": (0, 1), "d": (0, 99)}),
        ("(shr 56 (mul (sub v 1) 4))", "(shr 56 (sub (mul v 4) 4))", {"v": (0, 9)}),
    ],
)  # fmt: skip
def test_equal_pairs(before: str, after: str, ranges: dict[str, tuple[int, int]]) -> None:
    assert equal(parse(before), parse(after), ranges)


@pytest.mark.parametrize(
    ("before", "after", "ranges"),
    [
        ("(land (eq (shr v 2) 3) (eq (and v 1) 0))", "(eq v 12)", {"v": (0, 16383)}),
        ("(land (eq (shr v 2) 3) (eq (and w 3) 0))", "(eq v 12)", {"v": (0, 16383), "w": (0, 16383)}),
        ("(max (sub (mul v 32) (mul (min (div v 4) 7) 129)) 0)", "(sub (mul v 32) (mul (min (div v 4) 7) 129))",
         {"v": (0, 16383)}),
        ("(div (add (mul x 12) y) 12)", "x", {"x": (0, 9), "y": (0, 12)}),
        ("(xor a b)", "(add a b)", {"a": (0, 3), "b": (0, 3)}),
        ("(tdiv x 2)", "(div x 2)", {"x": (-3, 3)}),
        ("x", "(add x (mul 0 (div x y)))", {"x": (0, 3), "y": (0, 3)}),
        ("(select (ne y 0) (div x y) 0)", "(mul (ne y 0) (div x y))", {"x": (0, 3), "y": (0, 3)}),
        ("(mod (mul (div (mod i 20) 2) 2) 4)", "(mod i 4)", {"i": (0, 79)}),
        ("(lt a b)", "(le a b)", {"a": (0, 3), "b": (0, 3)}),
        ("(min a b)", "a", {"a": (0, 3), "b": (2, 5)}),
        ("(lt (div v 2) 128)", "(lt v 255)", {"v": (0, 16383)}),
        ("(land (le 4 v) (le v 8))", "(eq (div v 4) 1)", {"v": (0, 16383)}),
        ("(land (le 3 v) (lt v 8))", "(eq (div v 4) 1)", {"v": (0, 16383)}),
        ("(lt (mul a 12) (add (mul b 18) 7))", "(lt (mul a 2) (add (mul b 3) 1))", {"a": (-50, 50), "b": (-50, 50)}),
        ("(lt 0 (max 0 (min 16 (sub v 32))))", "(lt 33 v)", {"v": (0, 999)}),
        ("(div (add (div (add v 127) 128) 1) 2)", "(div (add v 254) 256)", {"v": (0, 16383)}),
        ("(or (and u v) u)", "v", {"v": (0, 99), "u": (0, 99)}),
        ("(xor (add (mul a 2) c) (mul d 4))", "(add (xor (mul a 2) (mul d 4)) c)",
         {"a": (0, 999), "c": (0, 2), "d": (0, 99)}),
        ("(mul v 0)", "(mul 0 (shr 56 (sub v 1)))", {"v": (0, 9)}),
    ],
)  # fmt: skip
def test_unequal_or_undefined_pairs(before: str, after: str, ranges: dict[str, tuple[int, int]]) -> None:
    assert not equal(parse(before), parse(after), ranges)


def _tweaked(r: random.Random, t: Term) -> Term:
    """``t`` with one constant or operator changed somewhere."""
    if not isinstance(t, tuple):
        return t + r.choice((-1, 1)) if isinstance(t, int) else r.choice([t, 0])
    i = r.randrange(len(t))
    if i == 0:
        swap = {
            "add": "xor",
            "xor": "or",
            "or": "add",
            "div": "tdiv",
            "mod": "tmod",
            "min": "max",
            "lt": "le",
            "and": "or",
        }
        return (swap.get(t[0], t[0]), *t[1:])
    return (*t[:i], _tweaked(r, t[i]), *t[i + 1 :])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_never_wrong(seed: int) -> None:
    r = random.Random(seed)
    said = 0
    for _ in range(250):
        before, ranges = random_row(r, 5)
        after = _tweaked(r, before)
        if not equal(before, after, ranges):
            continue
        said += 1
        for point in sample(r, ranges, 60):
            try:
                value = evaluate(before, point)
            except EvaluationError:
                continue
            assert value == evaluate(after, point), f"{show(before)} {show(after)} {point}"
    assert said > 10
