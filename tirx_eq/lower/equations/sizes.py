"""Run-time sizes in equations: addresses as polynomials of them, compared by their coefficients.

Where every address of a program and of its meaning is a polynomial of the sizes, two are the same for all sizes if their
coefficients agree.  Sizes are then powers of one number that is more than twice as large as any coefficient: an address at such
sizes is a number in a positional system whose digits are the coefficients, so that comparing addresses compares digits.
Otherwise (a size in a quotient, a comparison, a swizzle, or coefficients too large for 64 bits) sizes are primes, and what is
known is that addresses agree at three choices of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from ...ir import Expr, Var
from ...ir.index import Term, names
from ...prove.table import Table
from ..context import CallContext
from ..indices import Indices
from ..program import (
    Block,
    Box,
    If,
    Instruction,
    Loop,
    MapAt,
    Memory,
    Node,
    Operand,
    Repeat,
    Store,
    operand_exprs,
    walk,
)  # fmt: skip

Interval = tuple[int, int]
#: Monomial (names of sizes, sorted, as often as they are factors) -> the interval of its coefficient.
Polynomial = dict[tuple[str, ...], Interval]

LARGEST = 1 << 61
MARGIN, BOX = 8, 256
MAX_DEGREE = 4


@dataclass(frozen=True)
class _Address:
    """An address as a term over the names of a scope; ``outside`` are those of its variables in the kernel's own scope."""

    term: Term
    ranges: dict[str, Interval]
    outside: dict[str, str]


def sizes_in(c: CallContext, block: Block, indices: Indices) -> tuple[str, ...]:
    """The names of the sizes that addresses of the call depend on."""
    every = {indices.scope.name(v) for v in c.launch.host.ranges}
    return tuple(sorted({a.outside.get(n, n) for a in _addresses(c, block, indices) for n in names(a.term)} & every))


def exact_sizes(c: CallContext, block: Block, indices: Indices, picked: Mapping[str, int]) -> dict[str, int] | None:
    """Sizes for which comparing addresses is a proof for all, with other variables as ``picked``; None if there are none."""
    used = sizes_in(c, block, indices)
    if not used:
        return {}
    if _computed_with(block, indices, frozenset(used)):
        return None
    found: list[Polynomial] = []
    for a in _addresses(c, block, indices):
        outside = {n: a.outside.get(n, n) for n in names(a.term)}
        ranges = {n: (picked[o], picked[o]) if o in picked else a.ranges[n] for n, o in outside.items()}
        made = polynomial(a.term, frozenset(n for n, o in outside.items() if o in used), ranges)
        if made is None:
            return None
        found.append({tuple(sorted(outside[n] for n in m)): ends for m, ends in made.items() if ends != (0, 0)})
    largest = max((abs(end) for p in found for ends in p.values() for end in ends), default=0)
    largest = MARGIN * (largest + BOX)  # a tensor copy's coordinates count elements, of up to 8 bytes, from the box's first
    base = 1 << (4 * largest + 3).bit_length()
    monomials = {m for p in found for m in p}
    weights = _weights(used, monomials)
    if weights is None:
        return None
    values = {n: base ** weights[n] for n in used}
    reach = max(sum(largest * prod(values[n] for n in m) for m in p) for p in found)
    return values if reach < LARGEST else None


def _weights(sizes: Sequence[str], monomials: Collection[tuple[str, ...]]) -> dict[str, int] | None:
    """Exponents for the sizes, as small as they can be, under which no two monomials are the same power."""
    if len(sizes) > 4:
        return None
    best: tuple[int, dict[str, int]] | None = None
    for chosen in product(range(1, 6), repeat=len(sizes)):
        weights = dict(zip(sizes, chosen))
        powers = [0, *(sum(weights[n] for n in m) for m in monomials if m)]
        if len(set(powers)) == len(powers) and (best is None or max(powers) < best[0]):
            best = max(powers), weights
    return None if best is None else best[1]


def note_sizes(c: CallContext, block: Block, indices: Indices, exact: Mapping[str, int] | None) -> None:
    """Note how addresses are compared, for :func:`how_sizes`."""
    if used := sizes_in(c, block, indices):
        c.memo.setdefault("sizes", []).append((used, exact is not None))


def how_sizes(c: CallContext) -> str:
    """What the equation of a call says of sizes: for all of them, or at some choices; empty if none is in its addresses."""
    noted = c.memo.get("sizes", [])
    if not noted:
        return ""
    listed = ", ".join(noted[0][0])
    if all(exact for _, exact in noted):
        return f"for all {listed}: coefficients of polynomials"
    return f"at {len(noted)} choices of {listed}"


def polynomial(term: Term, sizes: frozenset[str], ranges: Mapping[str, Interval]) -> Polynomial | None:
    """The term as a polynomial of the sizes, its coefficients as intervals over the other variables; None if it is none."""
    if isinstance(term, str) and term in sizes:
        return {(term,): (1, 1)}
    if not (isinstance(term, tuple) and sizes & names(term)):
        table = Table({n: ranges[n] for n in names(term)})
        return {(): table.interval[table.add(term)]}
    parts = [polynomial(a, sizes, ranges) for a in term[1:]]
    if any(p is None for p in parts):
        return None
    a, b = parts[0], parts[-1]
    assert a is not None and b is not None
    match term[0]:
        case "add":
            return _sum(a, b)
        case "sub":
            return _sum(a, {m: (-high, -low) for m, (low, high) in b.items()})
        case "neg":
            return {m: (-high, -low) for m, (low, high) in a.items()}
        case "mul":
            return _product(a, b)
        case "shl" if isinstance(term[2], int) and 0 <= term[2] < 62:
            return _product(a, {(): (1 << term[2],) * 2})
    return None


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    out = dict(a)
    for m, (low, high) in b.items():
        first, last = out.get(m, (0, 0))
        out[m] = first + low, last + high
    return out


def _product(a: Polynomial, b: Polynomial) -> Polynomial | None:
    out: Polynomial = {}
    for m, x in a.items():
        for n, y in b.items():
            ends = [p * q for p in x for q in y]
            out = _sum(out, {tuple(sorted((*m, *n))): (min(ends), max(ends))})
    return out if all(len(m) <= MAX_DEGREE for m in out) else None


def _computed_with(block: Block, indices: Indices, sizes: frozenset[str]) -> bool:
    """Whether an instruction computes with a size otherwise than as part of an address: compares with it, for instance."""
    for node in walk(block):
        parts: list[Expr] = []
        if isinstance(node, Instruction):
            parts += [e for o in node.operands if o not in _places(node) for e in operand_exprs(o)]
        elif isinstance(node, Store) and isinstance(node.value, Expr):
            parts += indices.index_parts(node.value)
        elif isinstance(node, If) and isinstance(node.condition, Expr):
            parts.append(node.condition)
        elif isinstance(node, (Loop, Repeat)):
            return True
        if any(sizes & names(indices.term(e)) for e in parts):
            return True
    return False


def _places(node: Node) -> list[Operand]:
    """The places in memory that a node names."""
    if isinstance(node, Store):
        return [node.memory]
    return [o for o in node.operands if isinstance(o, (Memory, Box, MapAt))] if isinstance(node, Instruction) else []


def _addresses(c: CallContext, block: Block, indices: Indices) -> list[_Address]:
    """The addresses of a call: those of its program, and what its operands' layouts say of any element of them."""

    def find() -> list[_Address]:
        terms = {indices.term(e): None for n in walk(block) for o in _places(n) for e in operand_exprs(o)}
        found = [_Address(t, indices.scope.ranges, {}) for t in terms]
        element = Var("element", "int32")  # type: ignore[arg-type]
        for o in c.operands.values():
            if o.root.space in ("local", "tmem"):
                places = [r.min for r in o.region.region]
            else:
                places = [o.element_offset(element) if o.bits < 8 else o.byte_offset(element)]
            scope = c.scope_with({element: (0, max(0, o.size - 1))})
            for place in places:
                term = c.term(place, scope)
                sources = {n: scope.sources[n] for n in names(term)}
                outside = {n: indices.scope.name(v) for n, v in sources.items() if v is not element}
                found.append(_Address(term, scope.ranges, {scope.name(element): "", **outside}))
        return found

    made: list[_Address] = c.once(("addresses", id(block)), find)
    return made
