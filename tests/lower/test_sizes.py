"""Run-time sizes in layout equations: for all of them where addresses are polynomials, at some choices otherwise."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tirx_eq.errors import ProofError
from tirx_eq.ir.index import Term, evaluate
from tirx_eq.lower import kernel as driver
from tirx_eq.lower.equations.sizes import polynomial
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import Memory, mapped
from tirx_eq.script import parse_source

TEXT = """
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

@T.prim_func
def k(a: T.handle, b: T.handle, p: T.int32):
    m = T.int32()
{more}    A = T.match_buffer(a, {shape}, "float32")
    B = T.match_buffer(b, {shape}, "float32")
    T.device_entry()
    bx = T.cta_id([T.ceildiv(m, 4)])
    tx = T.thread_id([64])
    {before}Tx.cta.{call}
"""


def details(shape: str, call: str, before: str = "") -> list[str]:
    more = "    n = T.int32()\n" if "n" in shape else ""
    func = parse_source(TEXT.format(shape=shape, call=call, before=before, more=more), "k.py")["k"]
    return [c.equation.detail for c in compile_function(func).calls]


@pytest.mark.parametrize(
    ("shape", "region", "says"),
    [
        ("(m, p * 4)", "bx * 4 : bx * 4 + 4, 0:64", "for all p: coefficients of polynomials"),
        ("(m, n)", "bx * 4 : bx * 4 + 4, p : p + 16", "for all n, p: coefficients of polynomials"),
        ("(m, n, 8)", "bx * 4 : bx * 4 + 4, 0:2, 0:8", "for all n: coefficients"),
        ("(m, n, m)", "bx * 4 : bx * 4 + 4, 0:2, 0:8", "for all m, n: coefficients"),
        ("(m, 64)", "bx * 4 : bx * 4 + 4, 0:64", ""),
        ("(m, n)", "bx * 4 : bx * 4 + 4, n // 2 : n // 2 + 16", "at 3 choices of n"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("call", ["copy(B[{r}], A[{r}])", "add(B[{r}], A[{r}], 1.0)"])
def test_how_sizes_are_compared(shape, region, says, call):
    (detail,) = details(shape, call.format(r=region))
    assert detail.endswith(says) if says.startswith("at") else says in detail
    assert bool(says) is ("coefficients" in detail or "choices" in detail)


def test_polynomials_have_the_values_of_their_terms():
    rng = random.Random(3)
    checked = 0

    def term(depth: int) -> Term:
        if depth == 0:
            return rng.choice(("n", "m", "x", "y", rng.randint(-9, 9)))
        op = rng.choice(("add", "sub", "mul", "neg", "shl", "div"))
        if op == "neg":
            return ("neg", term(depth - 1))
        if op in ("shl", "div"):
            return (op, term(depth - 1), rng.randint(1, 3))
        return (op, term(depth - 1), term(depth - 1))

    ranges = dict.fromkeys("xynm", (-5, 7))
    for _ in range(400):
        t = term(rng.randint(0, 4))
        point = {n: rng.randint(-5, 7) for n in "xynm"}
        fixed = {**ranges, "x": (point["x"],) * 2, "y": (point["y"],) * 2}
        made = polynomial(t, frozenset("nm"), fixed)
        if made is None:
            continue
        monomials = {m: int(np.prod([point[n] for n in m], dtype=np.int64)) if m else 1 for m in made}
        low = sum(min(a * monomials[m], b * monomials[m]) for m, (a, b) in made.items())
        high = sum(max(a * monomials[m], b * monomials[m]) for m, (a, b) in made.items())
        assert low <= evaluate(t, point) <= high
        if all(a == b for a, b in made.values()):
            assert low == evaluate(t, point) == high
            checked += 1
    assert checked > 100


def test_a_size_in_a_quotient_is_no_polynomial():
    assert polynomial(("add", "x", ("div", "n", 2)), frozenset("n"), {"x": (0, 9), "n": (0, 99)}) is None
    assert polynomial(("mul", ("div", "x", 2), "n"), frozenset("n"), {"x": (0, 9), "n": (0, 99)}) == {("n",): (0, 4)}


@pytest.mark.parametrize(
    "extra", [lambda m, n: n * 4, lambda m, n: (m - n) * 4, lambda m, n: (m - n) * n * 4, lambda m, n: m * 0 + 4]
)
def test_an_address_that_is_wrong_is_found(extra, monkeypatch):
    """Coefficients of one size or of a product of two that differ."""
    emit = driver._emit

    def wrong(choice):
        source = choice.context.operands["src"]
        m, n = source.buffer.shape[:2]

        def moved(node):
            operands = tuple(
                replace(o, offset=o.offset + extra(m, n)) if isinstance(o, Memory) and o.root == source.root else o
                for o in node.operands
            )
            return (replace(node, operands=operands),)

        return mapped(emit(choice), moved)

    monkeypatch.setattr(driver, "_emit", wrong)
    with pytest.raises(ProofError, match="breaks its layout equation"):
        details("(m, n, m)", "copy(B[bx * 4 : bx * 4 + 4, 0:2, 0:8], A[bx * 4 : bx * 4 + 4, 0:2, 0:8])")
