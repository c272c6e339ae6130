"""What every head of a rule text means, as index terms: the one dictionary between egglog and mathematics.

Three tables: operators of the e-graph's sort, facts of the analyses, and egglog's primitives on constants.  Proofs,
mutants and counterexample replay all read rules through these tables and nothing else, so a rule means in a proof what
it means everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir.index import Term


def le(a: Term, b: Term) -> Term:
    """``a <= b`` as an index term."""
    return ("le", a, b)


def eq(a: Term, b: Term) -> Term:
    """``a == b`` as an index term."""
    return ("eq", a, b)


def multiple(e: Term, m: Term) -> Term:
    """``m`` is at least 1 and divides ``e``."""
    return ("land", ("le", 1, m), ("eq", ("mod", e, m), 0))


@dataclass(frozen=True)
class Operator:
    """An operator of the e-graph.

    ``op`` is the index operator it stands for.  ``invariant`` is what encoder and rules keep true of its constant
    operands (a hypothesis where the operator is matched, a goal where it is built); ``defined`` is when it has a value.
    """

    op: str
    invariant: Callable[..., Term] | None = None
    defined: Callable[..., Term] | None = None


def _positive_divisor(a: Term, k: Term) -> Term:
    return le(1, k)


def _nonzero_divisor(a: Term, b: Term) -> Term:
    return ("ne", b, 0)


def _shift_amount(a: Term, b: Term) -> Term:
    return le(0, b)


OPERATORS: dict[str, Operator] = {
    "Add": Operator("add"),
    "AddK": Operator("add"),
    "Sub": Operator("sub"),
    "Mul": Operator("mul"),
    "MulK": Operator("mul"),
    "Div": Operator("div", defined=_nonzero_divisor),
    "Mod": Operator("mod", defined=_nonzero_divisor),
    "TDiv": Operator("tdiv", defined=_nonzero_divisor),
    "TMod": Operator("tmod", defined=_nonzero_divisor),
    "DivK": Operator("div", invariant=_positive_divisor),
    "ModK": Operator("mod", invariant=_positive_divisor),
    "TDivK": Operator("tdiv", invariant=_positive_divisor),
    "TModK": Operator("tmod", invariant=_positive_divisor),
    "And": Operator("and"),
    "AndK": Operator("and"),
    "Or": Operator("or"),
    "OrK": Operator("or"),
    "Xor": Operator("xor"),
    "XorK": Operator("xor"),
    "Shl": Operator("shl", defined=_shift_amount),
    "Shr": Operator("shr", defined=_shift_amount),
    "Min": Operator("min"),
    "Max": Operator("max"),
    "Lt": Operator("lt"),
    "Le": Operator("le"),
    "Eq": Operator("eq"),
    "Ne": Operator("ne"),
    "LAnd": Operator("land"),
    "LOr": Operator("lor"),
    "LNot": Operator("lnot"),
    "Sel": Operator("select"),
}
"""Operators of sort E besides ``(K k)``, the integer k, and ``(V s)``, some integer."""


FUNCTIONS: dict[str, Callable[[Term, Term], Term]] = {
    "lo": lambda v, e: le(v, e),
    "hi": lambda v, e: le(e, v),
    "al": lambda v, e: multiple(e, v),
    "kz": lambda v, e: eq(("and", e, v), 0),
    "ko": lambda v, e: eq(("and", e, v), v),
}
"""Analyses: what ``(f e) = v`` says of the value of ``e`` (``v`` first)."""

SYNTACTIC = frozenset(("sz", "ask"))
"""Functions and relations of terms, not of values (a size, a question): as facts they say nothing, and setting them
claims nothing."""

RELATIONS: dict[str, Callable[..., Term]] = {
    "nn": lambda e: le(0, e),
    "ps": lambda e: le(1, e),
    "lt": lambda a, b: ("lt", a, b),
    "le": lambda a, b: ("le", a, b),
    "cg": lambda e, m, r: ("land", ("le", 2, m), ("eq", ("mod", e, m), r)),
}
"""Relations between values: what the presence of a row says."""

PRIMITIVES: dict[str, str] = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "tdiv",
    "%": "tmod",
    "&": "and",
    "|": "or",
    "^": "xor",
    "<<": "shl",
    ">>": "shr",
    "min": "min",
    "max": "max",
}
"""Binary primitives on 64-bit constants.  They are checked (overflow and zero divisors drop the match), so their
meaning is that of mathematical integers, except for ``<<``, which drops bits: that none is lost is its own goal."""

COMPARISONS: dict[str, Callable[[Term, Term], Term]] = {
    "<": lambda a, b: ("lt", a, b),
    ">": lambda a, b: ("lt", b, a),
    "<=": lambda a, b: ("le", a, b),
    ">=": lambda a, b: ("le", b, a),
    "!=": lambda a, b: ("ne", a, b),
}

BIT_HEADS = frozenset("And AndK Or OrK Xor XorK Shl Shr kz ko & | ^ not-i64 << >> log2".split())
"""A rule that mentions one of these is proved on bit-vectors."""
