"""The fast path agrees with the rules: what it constructs is equal to the piece and never dearer than what they find."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tirx_eq.egraph import encode, extract
from tirx_eq.egraph.batch import _load
from tirx_eq.egraph.cost import DEFAULT, cost
from tirx_eq.egraph.directed.direct import direct
from tirx_eq.egraph.directed.plain import plain
from tirx_eq.egraph.encode import Encoder, TooBig
from tirx_eq.egraph.normal import Normal
from tirx_eq.egraph.pieces import Cutter, Piece
from tirx_eq.egraph.random_terms import random_row, sample
from tirx_eq.egraph.result import choose
from tirx_eq.egraph.saturation import Budget, saturate
from tirx_eq.errors import TirxError
from tirx_eq.ir.index import Term, evaluate, show

from . import corpora
from .address_terms import row

Rows = list[tuple[Term, dict[str, tuple[int, int]]]]


def pieces(rows: Rows) -> list[Piece]:
    """The distinct pieces of the normal forms of ``rows``."""
    found: dict[Piece, None] = {}
    source = Encoder(encode.WIDE)
    normal = Normal(source, Encoder())
    cutter = Cutter(normal.linear)
    for i, (term, ranges) in enumerate(rows):
        try:
            form = normal.form(source.add_term(term, ranges, {v: f"{v}{i}" for v in ranges}))
            found.update((part.piece, None) for part in cutter.cut(form))
        except (TooBig, TirxError):
            continue
    return list(found)


def by_the_rules(jobs: list[Piece]) -> list[Term]:
    """What the e-graph makes of each piece."""
    encoder = Encoder()
    done = saturate(encoder, [_load(p, encoder) for p in jobs], Budget(nodes=200_000))
    classes: dict[int, int] = dict(done.graph.tables["root"])
    roots = [classes[i] for i in range(len(jobs))]
    picked = choose(done.graph, [[r] for r in roots], DEFAULT, False)
    memo: dict[int, Any] = {}
    return [extract.build(r, c, encode.decode, memo) for r, c in zip(roots, picked)]


def constructed(rows: Rows) -> list[tuple[Piece, Term]]:
    """The pieces of ``rows`` that the fast path answers, with its answers."""
    found = [(p, direct(p)) for p in pieces(rows)]
    return [(p, t) for p, t in found if t is not None]


def same(r: random.Random, piece: Piece, term: Term) -> None:
    before = plain(piece)
    ranges = {f"{k[1]}:{k[2]}:{k[3]}": (k[2], k[3]) for k in piece if k[0] == "V"}
    for point in sample(r, ranges, 30):
        assert evaluate(before, point) == evaluate(term, point), f"{show(before)} is not {show(term)} at {point}"


def rows_of(kind: str, count: int) -> Rows:
    r = random.Random(kind)
    if kind == "any":
        return [random_row(r, r.randint(1, 5)) for _ in range(count)]
    return [row(r, kind) for _ in range(count)]


@pytest.mark.parametrize("kind", ["sum", "comparison", "mixed", "around", "any"])
def test_never_wrong_and_never_dearer(kind: str) -> None:
    found = constructed(rows_of(kind, 500))
    assert len(found) > 20
    r = random.Random(1)
    dearer = []
    for (piece, term), other in zip(found, by_the_rules([p for p, _ in found])):
        same(r, piece, term)
        if cost(term) > cost(other):
            dearer.append(f"{show(plain(piece))}: {show(term)}, the rules say {show(other)}")
    assert dearer == []


def test_the_corpora_agree_too() -> None:
    rows = [(x.term, x.ranges) for name in ("index_exprs.jsonl", "simplify.jsonl") for x in corpora.rows(name)]
    found = constructed(rows)
    assert len(found) > 150
    for (piece, term), other in zip(found, by_the_rules([p for p, _ in found])):
        assert cost(term) <= cost(other), f"{show(plain(piece))}: {show(term)}, the rules say {show(other)}"
