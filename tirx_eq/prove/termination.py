"""Why the rules stop: for each rule, an argument computed from its text, or the bound its author states.

Equality saturation never throws a term away, so a rule set stops if the terms it can reach are finitely many.  Three
kinds of rule cannot break that: rules that make no terms; rules whose right side has no more operators than the left
and repeats no variable (finitely many terms of a size over finitely many 64-bit constants); and rules that lower a
polynomial measure of the term (products and divisions move towards the leaves).  All others must say in a tag what
bounds them: ``;@ grows bounded: ...``, or ``;@ both other/rule`` for a pair of directions whose forms are equally large
up to a constant.  Budgets in the engine hold in any case.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from ..egraph.rules import Rule
from . import polynomial as P
from .meaning import OPERATORS
from .polynomial import Poly

_INWARD = frozenset(
    "MulK DivK ModK TDivK TModK AndK OrK XorK Mul And Div Mod TDiv TMod Shl Shr Min Max LNot Lt Le Eq Ne".split()
)


@dataclass(frozen=True)
class Argument:
    """``kind``: no terms, no larger, measure, bounded, pair, or none (no argument found)."""

    kind: str
    text: str

    @property
    def ok(self) -> bool:
        """Whether there is an argument."""
        return self.kind != "none"


def argument(rule: Rule) -> Argument:
    """The termination argument of one rule."""
    pairs = _built(rule)
    if not pairs:
        return Argument("no terms", "sets facts, joins or hides classes; makes no term")
    worst = Argument("no larger", "")
    for left, right in pairs:
        found = _compare(left, right, rule)
        if not found.ok or worst.kind == "no larger":
            worst = found
    return worst


def _built(rule: Rule) -> list[tuple[Any, Any]]:
    """(matched term, built term) for each term that a rule may make."""
    if rule.kind == "rewrite":
        return [] if not isinstance(rule.form[2], list) else [(rule.form[1], rule.form[2])]
    facts = [f for f in rule.form[1] if isinstance(f, list) and f[0] == "="]
    terms = [t for f in facts for t in f[1:] if isinstance(t, list) and t[0] in OPERATORS]
    left = max(terms, key=_size, default="e")
    built = []
    for action in rule.form[2]:
        if action[0] in ("subsume", "set"):
            continue
        built += [t for t in action[1:] if isinstance(t, list)]
    return [(left, t) for t in built]


def _compare(left: Any, right: Any, rule: Rule) -> Argument:
    small, large = _size(right), max(1, _size(left))
    if small <= large and not _variables(right) - _variables(left):
        return Argument("no larger", f"{large} operators become {small}; no variable occurs more often")
    if _decreases(left, right):
        return Argument("measure", "a polynomial measure falls: sums come out of products and divisions")
    tags = " ".join(rule.tags)
    if "grows" in rule.tags:
        why = tags.split("grows", 1)[1].strip()
        if why:
            return Argument("bounded", why)
    if "both" in rule.tags:
        return Argument("pair", f"kept beside its other direction {tags.split('both', 1)[1].strip()}")
    return Argument("none", f"{large} operators become {small}, and no measure falls")


def _size(t: Any) -> int:
    """Operators of a pattern; constants and variables are free."""
    if not isinstance(t, list) or t[0] in ("K", "V"):
        return 0
    return 1 + sum(_size(a) for a in t[1:])


def _variables(t: Any) -> Counter[str]:
    """How often each class variable occurs (constants don't count: they carry no term)."""
    found: Counter[str] = Counter()
    if isinstance(t, str):
        found[t] += 1
    elif isinstance(t, list) and t[0] not in ("K", "V"):
        constants = t[0].endswith("K") and t[0] != "K"
        for a in t[1:-1] if constants else t[1:]:
            found += _variables(a)
    return found


def _decreases(left: Any, right: Any) -> bool:
    a, b = _measure(left), _measure(right)
    gap = P.sub(a, b)
    for name in P.symbols(gap):  # leaves weigh at least 2
        gap = P.substitute(gap, name, P.add(P.symbol(name), P.const(2)))
    return bool(gap) and all(c >= 0 for c in gap.values()) and gap.get((), 0) > 0


def _measure(t: Any) -> Poly:
    if not isinstance(t, list):
        return P.symbol(str(t))
    if t[0] in ("K", "V"):
        return P.const(2)
    if t[0].endswith("K"):
        inner = _measure(t[1])
        return P.mul(P.const(3), inner) if t[0] in _INWARD else P.add(inner, P.const(1))
    parts = [_measure(a) for a in t[1:]]
    total = parts[0]
    for p in parts[1:]:
        total = P.mul(total, p) if t[0] in _INWARD else P.add(P.add(total, p), P.const(1))
    return P.mul(P.const(3), total) if len(parts) == 1 else total
