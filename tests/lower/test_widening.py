"""Loops are analysed in few rounds, whatever constants stand elsewhere and however deep they nest."""

from __future__ import annotations

import pytest

from tests.lower.test_run_statements import build, facts_at_the_store
from tirx_eq.ir import AllocBuffer, post_order_visit
from tirx_eq.lower.facts.scalars import Scalars
from tirx_eq.lower.facts.widening import Steps


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        # A ring of slots, moved on in a loop within a loop, by a number that is only bound elsewhere.
        ("x: Tx.int32 = 0\nfor k in Tx.serial(A[0]):\n    for j in Tx.serial(A[1]):\n        x = x + 1\n"
         "        if x == 13:\n            x = 0\nC[t] = x", 0, 12),
        ("x: Tx.int32 = 0\ny: Tx.int32 = 5\nfor k in Tx.serial(A[0]):\n    x = y\n    y = y + 2\n"
         "    if y >= 21:\n        y = 1\nC[t] = x", 0, 20),
        ("x: Tx.int32 = 0\nfor k in Tx.serial(A[0]):\n    x = (x + 1) ^ 5\n    if x > 9:\n        x = 0\nC[t] = x", 0, 9),
        # What a loop leaves alone is known in it and after it.
        ("x: Tx.int32 = 7\ny: Tx.int32 = 0\nfor k in Tx.serial(A[0]):\n    y = y + 1\n    C[t] = x", 7, 7),
    ],
)  # fmt: skip
def test_intervals(text, low, high):
    fact, _, _ = facts_at_the_store(text)
    assert (fact.low, fact.high) == (low, high)


def rounds_of(text: str, monkeypatch) -> int:
    """How often the body of a loop is walked."""
    taken = []
    one = Scalars._round
    monkeypatch.setattr(Scalars, "_round", lambda self, *given: taken.append(None) or one(self, *given))
    facts_at_the_store(text)
    return len(taken)


def test_constants_of_addresses_are_passed_over(monkeypatch):
    """The rounds of a counter that nothing bounds don't grow with the program around it."""

    def program(n: int) -> str:
        stores = "".join(f"    A[{7 * k}] = {3 * k}\n" for k in range(n))
        return f"x: Tx.int32 = 0\nfor k in Tx.serial(A[0]):\n    x = x + 1\n{stores}C[t] = x"

    few, many = (rounds_of(program(n), monkeypatch) for n in (2, 9))
    assert few == many < 20


def test_loops_in_loops_are_not_walked_for_what_they_do_not_mention(monkeypatch):
    """A loop beside, and one within, a loop over a scalar that neither mentions: as many rounds as without it."""
    inner = "    y: Tx.int32 = 0\n    for j in Tx.serial(9):\n        y = y ^ 1\n    C[t] = y\n"
    plain = rounds_of("for k in Tx.serial(A[0]):\n" + inner, monkeypatch)
    counting = rounds_of("x: Tx.int32 = 0\nfor k in Tx.serial(A[0]):\n    x = x + 1\n" + inner, monkeypatch)
    alone = rounds_of("x: Tx.int32 = 0\nfor k in Tx.serial(A[0]):\n    x = x + 1\nC[t] = x", monkeypatch)
    assert counting - alone <= plain


def test_bounds_that_tighten_by_one_each_round_are_taken_as_they_are(monkeypatch):
    """From the range of 32 bits downwards: some 2^31 rounds would end it."""
    ring = "x: Tx.uint32 = 0\nwhile A[0] != 0:\n    x = x + {}\n    if x >= {}:\n        x = x - {}\nC[t] = Tx.int32(x)"
    for step, depth in ((1, 3), (2, 3)):
        text = ring.format(*(f"Tx.uint32({n})" for n in (step, depth, depth)))
        assert rounds_of(text, monkeypatch) < 30


def test_steps_come_from_what_a_value_is_made_of():
    """Through other scalars, and from conditions on any of them; not from places in memory."""
    func = build("x: Tx.int32 = 0\ny: Tx.int32 = 0\nfor k in Tx.serial(40):\n    x = x + y\n    if y == 100:\n"
                 "        y = 17\n    A[50] = x\nC[t] = x")  # fmt: skip
    scalars = {}
    post_order_visit(
        func.body, lambda n: scalars.update({n.buffer.name: n.buffer.data}) if isinstance(n, AllocBuffer) else None
    )
    steps = Steps(func.body, set(scalars.values()))
    assert {16, 17, 18, 99, 100, 101, 127, 128} <= set(steps.of(scalars["x"]))
    assert not {40, 50} & set(steps.of(scalars["x"]))
    assert steps.next_above(scalars["y"], 19, 1000) == 31 and steps.next_above(scalars["y"], 500, 1000) == 1000
    assert steps.next_below(scalars["y"], -5, -9) == -9
