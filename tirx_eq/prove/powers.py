"""Constants that can only be powers of two, found by asking: lemmas for obligations on bit-vectors.

``bitvector`` words ``1 <= k`` with ``k & (k - 1) = 0`` as ``k = 1 << s``, and a solver needs that.  Other conditions can
say the same (``k & (k - 2) = 0``, or ``k != 0`` for ``1 <= k``).  Whether they do is a question about one variable, so it is
asked of the solver at every width, and what is proved is added to the hypotheses in the usual words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..ir.index import Term, names, postorder
from . import bitvector
from .obligations import Goal, Obligation


def power_facts(name: str) -> tuple[Term, Term]:
    """The words in which ``bitvector`` recognises a power of two."""
    return ("le", 1, name), ("eq", 0, ("and", name, ("sub", name, 1)))


def with_powers(ob: Obligation, widths: Sequence[int], rlimit: int) -> Obligation:
    """``ob`` with the facts added that some constants are powers of two; itself if there are none to find.

    Each added fact follows, at every one of ``widths``, from the hypotheses on that constant alone: the same claim at
    these widths, therefore, with hypotheses in other words.
    """
    found: list[Term] = []
    for name, sort in ob.sorts.items():
        own = tuple(h for h in ob.hypotheses if names(h) == {name})
        facts = tuple(f for f in power_facts(name) if f not in own)
        if sort != "i64" or not facts or not any(_masked(h, name) for h in own):
            continue
        lemma = Obligation(ob.rule, own, tuple(Goal("a power of two", f) for f in facts), {name: sort}, True)
        if all(bitvector.check(lemma, w, rlimit).result == "unsat" for w in widths):
            found += facts
    return replace(ob, hypotheses=(*ob.hypotheses, *found)) if found else ob


def _masked(h: Term, name: str) -> bool:
    """Whether ``h`` takes the bits of ``name`` and another number of its own."""
    return any(isinstance(t, tuple) and t[0] == "and" and names(t) == {name} for t in postorder(h))
