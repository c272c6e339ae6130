"""Sums of different variables are compared part by part."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq.egraph import result
from tirx_eq.egraph.apart import apart
from tirx_eq.ir.index import evaluate, substitute
from tirx_eq.strategies import index_exprs

WIDE = (-(1 << 31), (1 << 31) - 1)
RANGES = {"s": WIDE, "t": (0, 511)}
#: The slot of a ring of three, and a place in it that takes bits of a thread's number.
PLACE = ("mul", ("div", "t", 8), 64)
BEFORE = ("add", ("mul", ("mod", "s", 3), 8192), ("mul", ("add", PLACE, ("xor", ("mod", "t", 8), 5)), 16))
AFTER = ("add", ("mod", ("mul", "s", 8192), 24576), ("mul", ("xor", ("add", PLACE, ("and", "t", 7)), 5), 16))


def test_a_ring_and_a_swizzle_take_no_solver(monkeypatch):
    asked = []
    decide = result._decided_by
    monkeypatch.setattr(result, "_decided_by", lambda *claim: asked.append(decide(*claim)) or asked[-1])
    monkeypatch.setattr(result, "_verdicts", type(result._verdicts)())
    monkeypatch.setattr("tirx_eq.prove.parity.equal", lambda *_: False)  # which knows these
    assert result.checked_equal(BEFORE, AFTER, RANGES) is not None
    assert len(asked) == 2 and set(asked) <= {"isl", "enumeration", "gf2"}
    assert result.checked_equal(BEFORE, ("add", AFTER, 1), RANGES) is None
    wrong = substitute(AFTER, {"s": ("add", "s", 1)})
    assert result.checked_equal(BEFORE, wrong, RANGES) is None


def test_what_hangs_together_stays_together():
    mixed = ("xor", ("add", "s", "t"), 3)
    assert apart(("add", mixed, "s"), ("add", "s", mixed), RANGES) == []
    assert apart(("add", "s", "t"), ("add", ("add", "t", "s"), 1), RANGES) == []
    assert len(apart(("add", "s", "t"), ("add", "t", "s"), RANGES)) == 2


@settings(max_examples=40)
@given(index_exprs(), index_exprs(), st.sampled_from((-3, 1, 4)), st.randoms(use_true_random=False))
def test_the_parts_say_what_the_whole_does(first, second, factor, random):
    """At any point the sides differ by what those of the parts differ by, all together."""
    (f, known), (g, more) = first, second
    renamed = {n: f"{n}_" for n in more}
    g = substitute(g, renamed)
    ranges = known | {renamed[n]: r for n, r in more.items()}
    before = ("add", ("mul", f, factor), ("sub", 7, g))
    after = ("sub", ("add", ("mul", ("add", f, "x"), factor), 7), ("add", g, ("mul", "x", factor)))
    claims = apart(before, after, ranges)
    for _ in range(3):
        at = {name: random.randint(*bounds) for name, bounds in ranges.items()}
        whole = evaluate(before, at) - evaluate(after, at)
        if claims:
            assert sum(evaluate(left, at) - evaluate(right, at) for left, right in claims) == whole
