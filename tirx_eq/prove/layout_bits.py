"""Obligations of rules about single bits and known bits of an address, over 64-bit vectors, for all parameters at once.

Products are opaque there; what is used of them, the range and divisibility of a digit's contribution, is proved over
integers (``digit_lemma``).  ``lo`` of a list is exactly its least value on m; ``may`` holds every bit that value - lo can
have, of the low 40; ``zeros`` and ``ones`` are bits that every address of a layout lacks or has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..egraph.rules import Rule, show_form
from ..errors import RuleError
from .layout_lists import COMPARISONS, Form, Prover, body


class _Bits:
    """The bit-vector reading of a rule about Layout terms or known bits."""

    WIDTH = 64

    def __init__(self, prover: Prover) -> None:
        self.p, self.z3 = prover, prover.z3
        self.vars: dict[str, Any] = {}
        self.hypotheses: list[Any] = []

    def const(self, value: int) -> Any:
        return self.z3.BitVecVal(value, self.WIDTH, self.p.ctx)

    def var(self, name: Form) -> Any:
        if isinstance(name, int):
            return self.const(name)
        return self.vars.setdefault(name, self.z3.BitVec(name, self.WIDTH, self.p.ctx))

    def number(self, form: Form) -> Any:
        z3 = self.z3
        if not isinstance(form, list):
            return self.var(form)
        a: Any = self.number(form[1])
        b: Any = self.number(form[2]) if len(form) > 2 else None
        head = form[0]
        if head == "+":
            self.hypotheses += [z3.BVAddNoOverflow(a, b, True), z3.BVAddNoUnderflow(a, b)]
            return a + b
        if head == "-":
            self.hypotheses += [z3.BVSubNoOverflow(a, b), z3.BVSubNoUnderflow(a, b, True)]
            return a - b
        if head == "*":  # opaque: only that equal factors give equal products
            return self.product()(a, b)
        if head == "log2":
            found = z3.FreshConst(z3.BitVecSort(self.WIDTH, self.p.ctx), "log")
            self.hypotheses += [
                a > 0, found >= 0, found < self.WIDTH - 1, self.const(1) << found <= a,
                z3.Or(found == self.WIDTH - 2, a < self.const(2) << found),
            ]  # fmt: skip
            return found
        simple: dict[str, Callable[[], Any]] = {"&": lambda: a & b, "|": lambda: a | b, "^": lambda: a ^ b}
        if head in simple:
            return simple[head]()
        if head == "<<":  # egglog drops bits silently; the amount must be a shift
            self.hypotheses += [b >= 0, b < self.WIDTH]
            return a << b
        raise RuleError(f"no meaning on bits for {show_form(form)}")

    def product(self) -> Any:
        return self.z3.Function("product", *[self.z3.BitVecSort(self.WIDTH, self.p.ctx)] * 3)

    def compare(self, fact: Form) -> Any:
        a: Any = self.number(fact[1])
        b: Any = self.number(fact[2])
        return {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b, "=": a == b, "!=": a != b}[fact[0]]

    def apply(self, term: Form, m: Any) -> Any:
        """The address after the swizzle terms of ``term`` on an address ``m`` of its innermost layout."""
        if not isinstance(term, list):
            return m
        z3, head = self.z3, term[0]
        if head == "Lay":
            copies = term[2]
            return m + self.number(copies[2]) if isinstance(copies, list) and copies[0] == "Of" else m
        inner = self.apply(term[-1], m)
        if head == "Bit":
            s, d = self.var(term[1]), self.var(term[2])
            return inner ^ (((inner >> s) & 1) << d)
        if head == "Flip":
            return inner ^ (self.const(1) << self.var(term[1]))
        if head == "Swz":
            low, count, shift, side = (self.var(t) for t in term[1:5])
            ones = (self.const(1) << count) - 1
            down = ((inner >> (low + shift)) & ones) << low
            up = ((inner >> low) & ones) << (low + shift)
            return inner ^ z3.If(side == 1, down, up)
        raise RuleError(f"no meaning for the term {show_form(term)}")


def _innermost(term: Form) -> str:
    while isinstance(term, list) and term[0] != "Lay":
        term = term[-1]
    return show_form(term)


def _shifts(term: Form) -> Iterator[Form]:
    """Bit numbers that occur in a term."""
    if isinstance(term, list):
        if term[0] == "Bit":
            yield from term[1:3]
        elif term[0] == "Flip":
            yield term[1]
        yield from _shifts(term[-1]) if term[0] != "Lay" else ()


def prove_swizzle(form: Form) -> tuple[str, int, str]:
    """A rewrite of Layout terms: equal addresses for every address of the innermost layout that the facts allow.

    The sizes and other axes are untouched by these terms.  Bit numbers are those of an encoded layout: 0 to 63.
    """
    prover = Prover()
    bits = _Bits(prover)
    m = bits.z3.BitVec("the address", bits.WIDTH, prover.ctx)
    for fact in body(form):
        if isinstance(fact[2], list) and fact[2][0] in ("zeros", "ones"):
            about = fact[2][1]
            value = bits.apply(about, m) if _innermost(about) == _innermost(form[1]) else m
            known = bits.var(fact[1])
            bits.hypotheses.append(value & known == (0 if fact[2][0] == "zeros" else known))
            bits.hypotheses.append(bits.z3.And(known >= 0, known < 1 << 40))
        else:
            bits.hypotheses.append(bits.compare(fact))
    for name in {*_shifts(form[1]), *_shifts(form[2])}:
        bits.hypotheses += [bits.var(name) >= 0, bits.var(name) < bits.WIDTH]
    bits.hypotheses += _swizzle_ranges(bits, form[1])
    if _is_offset(form[2]):  # an integer addition: it must not wrap
        k = bits.number(form[2][2][2])
        bits.hypotheses += [m >= -(1 << 60), m < 1 << 60, k >= -(1 << 40), k <= 1 << 40]
    goals = [bits.apply(form[1], m) == bits.apply(form[2], m), *_swizzle_ranges(bits, form[2])]
    answers = [prover.refute(bits.hypotheses, g) for g in goals]
    return _verdict(answers), len(goals), ""


def _swizzle_ranges(bits: _Bits, term: Form) -> list[Any]:
    """What makes a Swz term one: counts at least 0, and all its bits among the 64.  Encoded terms are, built ones must be."""
    found: list[Any] = []
    while isinstance(term, list) and term[0] != "Lay":
        if term[0] == "Swz":
            low, count, shift = (bits.var(t) for t in term[1:4])
            found += [low >= 0, count >= 0, shift >= 0, low <= 63, shift <= 63, count <= 63, low + shift + count <= 63]
        term = term[-1]
    return found


def _is_offset(term: Form) -> bool:
    return isinstance(term, list) and term[0] == "Lay" and isinstance(term[2], list) and term[2][0] == "Of"


MASK = (1 << 40) - 1


def prove_known(rule: Rule) -> tuple[str, int, str]:
    """A transfer rule: each fact it sets is true of the term, given that the facts it reads are true of the parts.

    ``lo`` is exactly the least value on m; ``may`` holds every bit that value - lo can have, of the low 40; ``zeros`` and
    ``ones`` are bits that every address of a layout lacks or has.
    """
    form = rule.form
    term = next(f[2] for f in body(form) if f[0] == "=" and isinstance(f[2], list) and f[2][0][0].isupper())
    answers: list[str] = []
    for action in form[2]:
        if action[0] != "set":
            raise RuleError(f"{rule.name}: no meaning for the action {show_form(action)}")
        function, value = action[1][0], action[2]
        prove = _lo_goal if function.startswith("lo") else _may_goal if function.startswith("may") else _known_goal
        answers.append(prove(form, term, function, value))
    return _verdict(answers), len(answers), ""


def _verdict(answers: Sequence[str]) -> str:
    bad = [a for a in answers if a != "unsat"]
    return "proved" if not bad else "refuted" if "sat" in bad else "unknown"


def _tails(term: Form) -> list[str]:
    """The lists inside a term, whose facts a transfer rule may read."""
    return [str(t) for t in term[1:] if isinstance(t, str)] if term[0] == "Lay" else [str(term[-1])] if term[1:] else []


def _reads(form: Form, function: str) -> list[tuple[str, str]]:
    """(variable, part) for each ``(= variable (function part))``."""
    return [(f[1], f[2][1]) for f in body(form) if f[0] == "=" and isinstance(f[2], list) and f[2][0].startswith(function)]


def _axis_of(term: Form) -> Form:
    places = {"It": 3, "Rp": 3, "Of": 1, "Set": 1}
    return term[places[term[0]]] if term[0] in places else None


def _lo_goal(form: Form, term: Form, function: str, value: Form) -> str:
    """The value is a lower bound of digit + part, and one digit (first or last) attains it at the part's least."""
    prover = Prover()
    z3, ints = prover.z3, {}  # type: ignore[var-annotated]

    def num(f: Form) -> Any:
        if isinstance(f, int):
            return z3.IntVal(f, prover.ctx)
        if isinstance(f, str):
            return ints.setdefault(f, z3.Int(f, prover.ctx))
        a, b = num(f[1]), num(f[2])
        return {"+": a + b, "-": a - b, "*": a * b}[f[0]]

    hypotheses = []
    for f in body(form):
        try:
            if f[0] in COMPARISONS and f[2] != term:
                a, b = num(f[1]), num(f[2])
                pick = {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b, "=": a == b, "!=": a != b}
                hypotheses.append(pick[f[0]])
        except (KeyError, IndexError):  # a fact about bits: not used here
            continue
    least = [num(v) for v, _ in _reads(form, "lo")]
    low = least[0] if least else z3.IntVal(0, prover.ctx)
    c, part = z3.Int("digit", prover.ctx), z3.Int("part", prover.ctx)
    axis = _axis_of(term)
    zero = z3.IntVal(0, prover.ctx)
    if term[0] in ("It", "Rp"):
        e, s = num(term[1]), num(term[2])
        moved = z3.If(num(axis) == 0, c * s, zero)
        span = [0 <= c, c < e]
        first, last = z3.If(num(axis) == 0, zero, zero), z3.If(num(axis) == 0, (e - 1) * s, zero)
        lemma = [z3.Implies(s >= 0, c * s >= 0), z3.Implies(s <= 0, c * s >= (e - 1) * s), e >= 1]
        ranged = [0 <= c, c < e]
        if (
            prover.refute(
                [*ranged, e >= 1, z3.Implies(s <= 0, (e - 1 - c) * s <= 0), z3.Implies(s >= 0, c * s >= 0)], z3.And(*lemma)
            )
            != "unsat"
        ):
            return "unknown"
    else:
        moved = first = last = num(term[2]) if term[0] in ("Of", "Set") and axis is not None else zero
        if axis is not None and term[0] in ("Of", "Set"):
            moved = first = last = z3.If(num(axis) == 0, moved, zero)
        span, lemma = [], []
    if term[0] == "Set" and _mask_is_one(form, term) is False and axis == 0:
        return "unknown"
    bound = prover.refute([*hypotheses, *span, *lemma, part >= low], moved + part >= num(value))
    exact = [prover.refute([*hypotheses, *lemma], end + low == num(value)) for end in (first, last)]
    return "unsat" if bound == "unsat" and "unsat" in exact else "sat"


def _mask_is_one(form: Form, term: Form) -> bool:
    return ["=", term[3], ["bigint", 1]] in body(form)


def _bits_with_facts(form: Form, term: Form) -> tuple[Prover, _Bits]:
    prover = Prover()
    bits = _Bits(prover)
    for fact in body(form):
        if fact[2] == term or (isinstance(fact[2], list) and "-" in fact[2][0] and len(fact[2][0]) > 1):
            continue
        if isinstance(fact[2], list) and fact[2][0] in ("zeros", "ones", "bigint"):
            continue
        bits.hypotheses.append(bits.compare(fact))
    return prover, bits


def _digit(bits: _Bits, e: Any, s: Any) -> Any:
    """The contribution x of a digit: 0 <= x <= (e-1)s, a multiple of s's lowest bit (for s < 0: counted from below)."""
    z3 = bits.z3
    product = bits.product()
    total = product(e - 1, s)
    size = z3.If(s > 0, total, -total)
    x = z3.FreshConst(z3.BitVecSort(bits.WIDTH, bits.p.ctx), "x")
    bits.hypotheses += [size >= 0, x >= 0, x <= size, x & ((s & -s) - 1) == 0]
    return x


def _may_goal(form: Form, term: Form, function: str, value: Form) -> str:
    """(digit - its least) + (part - its least) has only bits of the value, among the low 40."""
    _, bits = _bits_with_facts(form, term)
    prover = bits.p
    part = sum(_rests(form, term, bits), bits.const(0))
    axis = _axis_of(term)
    moved = bits.const(0)
    if term[0] in ("It", "Rp") and axis == 0:
        moved = _digit(bits, bits.var(term[1]), bits.var(term[2]))
    elif term[0] == "Set" and axis == 0 and not _mask_is_one(form, term):
        return "sat"
    elif term[0] in ("It", "Rp", "Set", "Of") and axis != 0:
        if ["!=", axis, 0] not in body(form):
            return "sat"
    # the part stands for its value modulo 2^40: higher bits of it cannot reach lower ones
    return prover.refute(bits.hypotheses, (moved + part) & MASK & ~bits.number(value) == 0)


def _rests(form: Form, term: Form, bits: _Bits) -> list[Any]:
    """For each list inside the term, what a value of it has above the least one: any bits of its mask, modulo 2^40."""
    masks = {part: v for v, part in _reads(form, "may")}
    found = []
    for part in _tails(term):
        w = bits.z3.FreshConst(bits.z3.BitVecSort(bits.WIDTH, bits.p.ctx), "w")
        bits.hypotheses += [w >= 0, w <= MASK]
        if part in masks:
            mask = bits.var(masks[part])
            bits.hypotheses += [mask >= 0, mask <= MASK, w & ~mask == 0]
        found.append(w)
    return found


def _known_goal(form: Form, term: Form, function: str, value: Form) -> str:
    """Every address of the layout lacks (or has) the bits of the value."""
    _, bits = _bits_with_facts(form, term)
    prover, z3 = bits.p, bits.z3
    sort = z3.BitVecSort(bits.WIDTH, prover.ctx)
    if term[0] == "Lay":
        m = sum(_rests(form, term, bits), bits.const(0))
        lows = {part: v for v, part in _reads(form, "lo")}
        for part in _tails(term):
            m = m + (bits.var(lows[part]) if part in lows else z3.FreshConst(sort, "lo"))
    elif term[0] == "Bit":
        m = z3.FreshConst(sort, "m")
        for v, _ in _reads(form, "zeros"):
            bits.hypotheses.append(m & bits.var(v) == 0)
        for v, _ in _reads(form, "ones"):
            bits.hypotheses.append(m & bits.var(v) == bits.var(v))
        s = bits.var(term[1])
        bits.hypotheses += [s >= 0, s < bits.WIDTH]
        m = bits.apply([term[0], term[1], term[2], "h"], m)
    else:
        raise RuleError(f"no meaning for known bits of {show_form(term)}")
    found = bits.number(value)
    goal = m & found == (0 if function == "zeros" else found)
    return prover.refute(bits.hypotheses, goal)


def digit_lemma() -> str:
    """What the bit proofs use of a digit c of extent e and stride s: its contribution c·s lies between 0 and (e-1)·s and
    is a multiple of every divisor of s.  Over all integers; ``unsat`` if it holds."""
    prover = Prover()
    z3 = prover.z3
    c, e, s, g, q = (z3.Int(n, prover.ctx) for n in "cesgq")
    given = [0 <= c, c < e]
    signs = [z3.Implies(s >= 0, (e - 1 - c) * s >= 0), z3.Implies(s <= 0, (e - 1 - c) * s <= 0)]
    for goal in (z3.Implies(z3.And(e - 1 - c >= 0, s >= 0), (e - 1 - c) * s >= 0),):
        if prover.refute(given, goal) != "unsat":
            return "unknown"
    up = z3.Implies(s >= 0, z3.And(c * s >= 0, c * s <= (e - 1) * s))
    down = z3.Implies(s <= 0, z3.And(c * s <= 0, c * s >= (e - 1) * s))
    answers = [
        prover.refute([*given, *signs, z3.Implies(s >= 0, c * s >= 0), z3.Implies(s <= 0, c * s <= 0)], z3.And(up, down)),
        prover.refute([s == g * q], c * s == g * (q * c)),
    ]
    return "unsat" if all(a == "unsat" for a in answers) else "unknown"


def merge_goal(name: str, merge: Form) -> str:
    """Two facts of one term merge into a true fact: equal exact values, masks that both hold, bits that both know."""
    prover = Prover()
    bits = _Bits(prover)
    z3 = bits.z3
    a, b, m = (z3.BitVec(n, 64, prover.ctx) for n in ("old", "new", "m"))
    if not isinstance(merge, list) or merge[1:] != ["old", "new"]:
        return "unknown"
    joined = {"&": a & b, "|": a | b, "max": z3.If(a > b, a, b), "min": z3.If(a < b, a, b)}.get(merge[0])
    if joined is None:
        return "unknown"
    if name.startswith("lo"):
        return prover.refute([a == m, b == m], joined == m)  # both are the least value
    if name.startswith("may"):
        return prover.refute([m & ~a == 0, m & ~b == 0], m & ~joined == 0)
    if name == "zeros":
        return prover.refute([m & a == 0, m & b == 0], m & joined == 0)
    return prover.refute([m & a == a, m & b == b], m & joined == joined)
