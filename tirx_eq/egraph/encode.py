"""Index terms to rows of the load tables, and chosen e-nodes back to terms.

The encoder only writes operators down in the vocabulary of ``rules/ops.egg`` (constants inside operators, subtraction as
addition of a multiple of -1, shifts by constants as multiplication and floor division); all simplification is rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..ir.index import SCALAR, EvaluationError, Ranges, Term, postorder, show
from .cost import CostTable, is_pow2

LIMIT = 1 << 62
"""Constants and ranges beyond this stay out of the e-graph: its integers have 64 bits."""
WIDE = 1 << 4096
"""The limit of encoders whose nodes only Python sees."""

BINARY = ("Add", "Mul", "Div", "Mod", "TDiv", "TMod", "And", "Or", "Xor", "Shl", "Shr", "Min", "Max",
          "Lt", "Le", "Eq", "Ne", "LAnd", "LOr")  # fmt: skip
CONSTANT = ("AddK", "MulK", "DivK", "ModK", "TDivK", "TModK", "AndK", "OrK", "XorK")
OPERATORS = frozenset({"K", "V", "Sub", "LNot", "Sel", *BINARY, *CONSTANT})

_NAMES = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "mod": "Mod", "tdiv": "TDiv", "tmod": "TMod",
    "and": "And", "or": "Or", "xor": "Xor", "shl": "Shl", "shr": "Shr", "min": "Min", "max": "Max",
    "lt": "Lt", "le": "Le", "eq": "Eq", "ne": "Ne", "land": "LAnd", "lor": "LOr", "lnot": "LNot", "select": "Sel",
}  # fmt: skip
_BACK = {new: old for old, new in _NAMES.items()}
_BACK_K = {f"{_NAMES[old]}K": old for old in ("add", "mul", "div", "mod", "tdiv", "tmod", "and", "or", "xor")}


class TooBig(Exception):
    """A constant or range that 64-bit integers cannot hold; the caller keeps the input as it is."""


Key = tuple[Any, ...]


@dataclass
class Encoder:
    """Hash-consed nodes ``(operator, operands…)``: operands are node numbers, constants, or a name and its range.

    ``limit`` bounds constants and ranges: what goes to the e-graph must fit its 64 bits.
    """

    limit: int = LIMIT
    nodes: dict[Key, int] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)

    def node(self, *key: Any) -> int:
        n = self.nodes.get(key)
        if n is None:
            n = self.nodes[key] = len(self.keys)
            self.keys.append(key)
        return n

    def constant(self, n: int) -> int | None:
        """Value of node ``n`` if it is a constant."""
        return self.keys[n][1] if self.keys[n][0] == "K" else None

    def number(self, k: int) -> int:
        if not -self.limit <= k <= self.limit:
            raise TooBig
        return self.node("K", k)

    def variable(self, name: str, lo: int, hi: int) -> int:
        if not (-self.limit <= lo and hi <= self.limit):
            raise TooBig
        return self.number(lo) if lo == hi else self.node("V", name, lo, hi)

    def with_k(self, op: str, a: int, k: int) -> int:
        """``op`` with a constant second operand."""
        if not -self.limit <= k <= self.limit:
            raise TooBig
        return self.node(op, a, k)

    def add_term(self, term: Term, ranges: Ranges, alias: Mapping[str, str] | None = None) -> int:
        """Node of ``term``.  Raises ``TooBig``, or ``EvaluationError`` for a constant division by zero or shift."""
        memo: dict[int, int] = {}

        def of(t: Term) -> int:
            if isinstance(t, tuple):
                return memo[id(t)]
            if isinstance(t, str):
                lo, hi = ranges[t]
                return self.variable(alias[t] if alias else t, lo, hi)
            return self.number(t)

        for t in postorder(term):
            if isinstance(t, tuple):
                memo[id(t)] = self.apply(t[0], [of(a) for a in t[1:]], t)
        return of(term)

    def apply(self, op: str, args: list[int], where: Term = 0) -> int:
        """Node of one operation of the neutral form."""
        keys = self.keys
        if len(args) == 2:
            a, b = args
            x = keys[a][1] if keys[a][0] == "K" else None
            y = keys[b][1] if keys[b][0] == "K" else None
            if x is not None:
                if y is not None:
                    return self._folded(op, [x, y], where)
                if op in _COMMUTE:
                    a, b, x, y = b, a, y, x
            if y is not None:
                special = _WITH_CONSTANT.get(op)
                if special is not None:
                    return special(self, a, y, where)
            if op == "sub":
                return self.node("Add", a, self.with_k("MulK", b, -1)) if x is None else self._minus(x, b)
            return self.node(_NAMES[op], a, b)
        known = [self.constant(a) for a in args]
        if op == "select":
            if known[0] is not None:
                return args[1] if known[0] else args[2]
            return self.node("Sel", *args)
        if known[0] is not None:
            return self._folded(op, known, where)
        return self.with_k("MulK", args[0], -1) if op == "neg" else self.node("LNot", args[0])

    def _folded(self, op: str, known: list[int | None], where: Term) -> int:
        try:
            return self.number(SCALAR[op](*known))
        except EvaluationError as error:
            raise EvaluationError(f"{error.message} in {show(where, limit=120)}") from None

    def _minus(self, k: int, b: int) -> int:
        negative = self.with_k("MulK", b, -1)
        return self.with_k("AddK", negative, k) if k else negative


def children(key: Key) -> tuple[int, ...]:
    """Operand nodes of a node's key."""
    op = key[0]
    if op in ("K", "V"):
        return ()
    if op[-1] == "K":
        return (key[1],)
    return tuple(key[1:])


def _floor(e: Encoder, a: int, k: int, where: Term) -> int:
    if k == 0:
        raise EvaluationError(f"division by zero in {show(where, limit=120)}")
    return e.with_k("DivK", a, k) if k > 0 else e.with_k("DivK", e.with_k("MulK", a, -1), -k)


def _modulus(e: Encoder, a: int, k: int, where: Term) -> int:
    if k == 0:
        raise EvaluationError(f"division by zero in {show(where, limit=120)}")
    if k > 0:
        return e.with_k("ModK", a, k)
    return e.with_k("MulK", e.with_k("ModK", e.with_k("MulK", a, -1), -k), -1)


def _truncated(e: Encoder, a: int, k: int, where: Term) -> int:
    if k == 0:
        raise EvaluationError(f"division by zero in {show(where, limit=120)}")
    return e.with_k("TDivK", a, k) if k > 0 else e.with_k("MulK", e.with_k("TDivK", a, -k), -1)


def _remainder(e: Encoder, a: int, k: int, where: Term) -> int:
    if k == 0:
        raise EvaluationError(f"division by zero in {show(where, limit=120)}")
    return e.with_k("TModK", a, abs(k))


def _amount(k: int, where: Term) -> int:
    if k < 0:
        raise EvaluationError(f"shift amount {k} is negative in {show(where, limit=120)}")
    if k > 4096:
        raise TooBig
    return 1 << k


_WITH_CONSTANT = {
    "add": lambda e, a, k, w: e.with_k("AddK", a, k) if k else a,
    "sub": lambda e, a, k, w: e.with_k("AddK", a, -k) if k else a,
    "mul": lambda e, a, k, w: e.with_k("MulK", a, k),
    "and": lambda e, a, k, w: e.with_k("AndK", a, k),
    "or": lambda e, a, k, w: e.with_k("OrK", a, k),
    "xor": lambda e, a, k, w: e.with_k("XorK", a, k),
    "div": _floor,
    "mod": _modulus,
    "tdiv": _truncated,
    "tmod": _remainder,
    "shl": lambda e, a, k, w: e.with_k("MulK", a, _amount(k, w)),
    "shr": lambda e, a, k, w: e.with_k("DivK", a, _amount(k, w)),
}


_COMMUTE = frozenset({"add", "mul", "and", "or", "xor"})

FACTS = ("lt", "le", "eq", "al")
"""Kinds of assumption: first below second, first at most second, both the same, first a multiple of a number."""

LOAD = (
    "(relation nK (i64 i64))",
    "(relation nV (i64 String i64 i64))",
    "(relation nW (i64 String))",
    "(relation nL (i64 i64))",
    "(relation nH (i64 i64))",
    "(relation n1 (i64 i64 i64))",
    "(relation n2 (i64 i64 i64 i64))",
    "(relation nC (i64 i64 i64 i64))",
    "(relation n3 (i64 i64 i64 i64))",
    "(relation nR (i64 i64))",
    "(relation nF (i64 i64 i64))",
    "(function term (i64) E :no-merge)",
    "(function root (i64) E :no-merge)",
    "(ruleset load)",
    '(rule ((nK i k)) ((set (term i) (K k))) :ruleset load :name "load/K")',
    "(rule ((nV i s l h)) ((let v (V s)) (set (term i) v) (set (lo v) l) (set (hi v) h))"
    ' :ruleset load :name "load/V")',
    '(rule ((nW i s)) ((set (term i) (V s))) :ruleset load :name "load/W")',
    '(rule ((nL i k) (= x (term i))) ((set (lo x) k)) :ruleset load :name "load/L")',
    '(rule ((nH i k) (= x (term i))) ((set (hi x) k)) :ruleset load :name "load/H")',
    '(rule ((n1 i 0 a) (= x (term a))) ((set (term i) (LNot x))) :ruleset load :name "load/LNot")',
    "(rule ((n3 i c a b) (= z (term c)) (= x (term a)) (= y (term b))) ((set (term i) (Sel z x y)))"
    ' :ruleset load :name "load/Sel")',
    '(rule ((nR r i) (= x (term i))) ((set (root r) x)) :ruleset load :name "load/root")',
    '(rule ((nF i j 0) (= x (term i)) (= y (term j))) ((lt x y)) :ruleset load :name "load/lt")',
    '(rule ((nF i j 1) (= x (term i)) (= y (term j))) ((le x y)) :ruleset load :name "load/le")',
    '(rule ((nF i j 2) (= x (term i)) (= y (term j))) ((union x y)) :ruleset load :name "load/eq")',
    '(rule ((nF i k 3) (= x (term i))) ((set (al x) k)) :ruleset load :name "load/al")',
)
"""Tables that nodes arrive in, and the rules that build them; one rule per operator is added from ``load_rules``."""


def load_rules(operators: Iterable[str]) -> list[str]:
    """Load rules for the binary operators among ``operators``."""
    present = set(operators)
    out = []
    for i, op in enumerate(BINARY):
        if op in present:
            out.append(
                f"(rule ((n2 i {i} a b) (= x (term a)) (= y (term b))) ((set (term i) ({op} x y)))"
                f' :ruleset load :name "load/{op}")'
            )
    for i, op in enumerate(CONSTANT):
        if op in present:
            out.append(
                f'(rule ((nC i {i} a k) (= x (term a))) ((set (term i) ({op} x k))) :ruleset load :name "load/{op}")'
            )
    return out


_BINARY_CODE = {op: i for i, op in enumerate(BINARY)}
_CONSTANT_CODE = {op: i for i, op in enumerate(CONSTANT)}


def tables(
    encoder: Encoder, roots: Iterable[int], facts: Iterable[tuple[int, int, str]] = ()
) -> dict[str, list[tuple[Any, ...]]]:
    """Rows of the load tables for all nodes of ``encoder``; root ``i`` gets number ``i``; ``facts`` are ``(a, b, kind)``.

    A number that 64 bits may not hold is left out, and with it whatever needs it; a variable loses that bound.
    """
    out: dict[str, list[tuple[Any, ...]]] = {t: [] for t in ("nK", "nV", "n1", "n2", "nC", "n3", "nR", "nF")}
    for i, key in enumerate(encoder.keys):
        op = key[0]
        if op == "V":
            _, name, lo, hi = key
            if -LIMIT <= lo and hi <= LIMIT:
                out["nV"].append((i, name, lo, hi))
                continue
            out.setdefault("nW", []).append((i, name))
            for table, bound in (("nL", lo), ("nH", hi)):
                if -LIMIT <= bound <= LIMIT:
                    out.setdefault(table, []).append((i, bound))
        elif op == "K":
            if -LIMIT <= key[1] <= LIMIT:
                out["nK"].append((i, key[1]))
        elif op in _BINARY_CODE:
            out["n2"].append((i, _BINARY_CODE[op], key[1], key[2]))
        elif op in _CONSTANT_CODE:
            if not -LIMIT <= key[2] <= LIMIT:
                continue
            out["nC"].append((i, _CONSTANT_CODE[op], key[1], key[2]))
        elif op == "Sel":
            out["n3"].append((i, *key[1:]))
        else:
            out["n1"].append((i, 0, key[1]))
    out["nR"] = list(enumerate(roots))
    out["nF"] = [(a, b, FACTS.index(kind)) for a, b, kind in facts if kind != "al" or b <= LIMIT]
    return out


def decode(op: str, args: tuple[Any, ...]) -> Term:
    """Term of one e-node whose class operands have been replaced by terms."""
    if op in ("K", "V"):
        leaf: Term = args[0]
        return leaf
    if op == "AddK" and args[1] < 0:
        return ("sub", args[0], -args[1])
    return (_BACK_K.get(op) or _BACK[op], *args)


def node_cost(op: str, args: tuple[Any, ...], table: CostTable) -> int:
    """Cost of one e-node; the constants inside operators are part of the operator."""
    if op in ("K", "V"):
        return 0
    if op == "MulK":
        return table.times(args[1])
    if op in ("DivK", "ModK", "TDivK", "TModK"):
        return table.divide(args[1])
    if op == "Mul":
        return table.times(None)
    if op in ("Div", "Mod", "TDiv", "TMod"):
        return table.divide(None)
    return table.op


__all__ = ["LOAD", "OPERATORS", "Encoder", "TooBig", "decode", "is_pow2", "load_rules", "node_cost", "tables"]
