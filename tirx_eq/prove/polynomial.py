"""Integer polynomials as dictionaries from monomials to coefficients: enough algebra to choose lemmas."""

from __future__ import annotations

from collections import Counter

Monomial = tuple[str, ...]
Poly = dict[Monomial, int]


def const(k: int) -> Poly:
    """The constant ``k``."""
    return {(): k} if k else {}


def symbol(name: str) -> Poly:
    """The variable ``name``."""
    return {(name,): 1}


def add(a: Poly, b: Poly, factor: int = 1) -> Poly:
    """``a + factor * b``."""
    out = dict(a)
    for m, c in b.items():
        value = out.get(m, 0) + factor * c
        if value:
            out[m] = value
        else:
            out.pop(m, None)
    return out


def sub(a: Poly, b: Poly) -> Poly:
    """``a - b``."""
    return add(a, b, -1)


def mul(a: Poly, b: Poly) -> Poly:
    """``a * b``."""
    out: Poly = {}
    for m, c in a.items():
        for n, d in b.items():
            key = tuple(sorted(m + n))
            value = out.get(key, 0) + c * d
            if value:
                out[key] = value
            else:
                out.pop(key, None)
    return out


def substitute(p: Poly, name: str, value: Poly) -> Poly:
    """``p`` with every ``name`` replaced by ``value``."""
    if not any(name in m for m in p):
        return p
    out: Poly = {}
    for m, c in p.items():
        term: Poly = {tuple(s for s in m if s != name): c}
        for _ in range(m.count(name)):
            term = mul(term, value)
        out = add(out, term)
    return out


def divide(p: Poly, m: Monomial) -> Poly:
    """The part of ``p`` that the monomial ``m`` divides, divided by it."""
    need = Counter(m)
    out: Poly = {}
    for n, c in p.items():
        have = Counter(n)
        if all(have[s] >= k for s, k in need.items()):
            out[tuple(sorted((have - need).elements()))] = c
    return out


def key(p: Poly) -> tuple[tuple[Monomial, int], ...]:
    """A hashable form."""
    return tuple(sorted(p.items()))


def degree(p: Poly) -> int:
    """Largest number of factors in a monomial."""
    return max((len(m) for m in p), default=0)


def symbols(p: Poly) -> set[str]:
    """Variables that occur."""
    return {s for m in p for s in m}
