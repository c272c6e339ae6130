"""What a loop need not compute again in every round: dear terms that no round changes, and products of its counter.

Only what is dear leaves its place: a value kept over a loop costs a register in all of it, which a shift or a sum isn't worth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...egraph.cost import cost
from ...ir import Expr
from ...ir.index import Term, names, postorder
from ..facts.guards import along, inside
from ..indices import Indices
from ..program import Block, If, Loop, Repeat

#: Cost of a term (see :mod:`tirx_eq.egraph.cost`) from which it is computed before the loop: divisions, products of products.
DEAR = 8


def always_needed(block: Block, indices: Indices) -> Iterator[Term]:
    """The simplified terms that every round of a loop with this body needs, those of loops inside it too.

    ``indices`` is what holds where the body begins.
    """
    for node, guards in along(block, indices.guards):
        here = indices.under(guards)
        if isinstance(node, If):
            if isinstance(node.condition, Expr):
                yield from _terms((If(node.condition, ()),), here)
        elif isinstance(node, Loop):
            yield from _terms((Loop(node.var, node.start, node.stop, node.step, ()),), here)
            for body, there in inside(node, guards):
                yield from always_needed(body, here.under(there))
        elif isinstance(node, Repeat):
            for body, there in inside(node, guards):
                yield from always_needed(body, here.under(there))
        else:
            yield from _terms((node,), here)


def _terms(block: Block, indices: Indices) -> Iterator[Term]:
    for e in indices.roots(block):
        yield indices.term(e)


def invariants(body: Block, indices: Indices, known: Callable[[str], bool]) -> list[Term]:
    """The largest dear subterms, made of known variables only, in the order in which the body needs them."""
    found: dict[Term, None] = {}

    def search(t: Term) -> None:
        if not isinstance(t, tuple):
            return
        if all(map(known, names(t))):
            if cost(t) >= DEAR:
                found[t] = None
            return
        for a in t[1:]:
            search(a)

    for t in always_needed(body, indices):
        search(t)
    return list(found)


def products(body: Block, indices: Indices, counter: str) -> list[tuple[Term, int]]:
    """(product, factor) of each product of the counter with a constant that is no power of two, as the body needs them."""
    found: dict[Term, int] = {}
    for root in always_needed(body, indices):
        for t in postorder(root):
            if isinstance(t, tuple) and t[0] == "mul" and counter in t[1:]:
                other = t[2] if t[1] == counter else t[1]
                if isinstance(other, int) and other > 0 and other & (other - 1):
                    found[t] = other
    return list(found.items())
