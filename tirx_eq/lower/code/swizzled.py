"""Swizzled addresses as one address with bits flipped: sixteen places of a row then share what they have in common.

A thread that writes a row of a swizzled tile goes to ``row·128 + ((row ^ k) % 8)·16`` for k = 0, 1, …: that is the first of
these addresses with the bits of ``k·16`` flipped, also when the aligned start of shared memory is added to both.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...egraph.narrow import about
from ...ir.index import Term, names
from ...prove.validate import validate
from ..storage import SHARED_ALIGN


def swizzled(
    term: Term, ranges: Mapping[str, tuple[int, int]], facts: tuple[Term, ...] = ()
) -> tuple[Term, int, int]:
    """(anchor, mask, constant): ``term`` is ``(anchor ^ mask) + constant``, the mask below the alignment of shared memory.

    That holds where ``facts`` do.

    The mask and the constant are 0 (and the anchor the term) if the term flips no constant bits, or that can't be proved.
    Flipped bits from the alignment on are bits that are set: they are the constant.
    """
    found = _flipped(term)
    if found is None or found[1] <= 0:
        return term, 0, 0
    anchor, flips = found
    mask = flips % SHARED_ALIGN
    claim = ("add", ("xor", anchor, mask) if mask else anchor, flips - mask)
    for known in ((), about(facts, term)) if facts else ((),):
        used = {n: ranges[n] for n in sorted(names(term).union(*map(names, known)))}
        if validate(term, claim, used, assume=known).status == "equal":
            return anchor, mask, flips - mask
    return term, 0, 0


def _flipped(term: Term) -> tuple[Term, int] | None:
    """The term without its first XOR with a constant, and what that constant has become at the top."""
    if not isinstance(term, tuple):
        return None
    op, *args = term
    if op == "xor":
        for a, b in (args, args[::-1]):
            if isinstance(b, int):
                return a, b
    for k, a in enumerate(args if op in ("add", "mul", "shl", "xor") else ()):
        inner = _flipped(a)
        if inner is None:
            continue
        anchor, mask = inner
        other = args[1 - k]
        if op in ("mul", "shl") and not isinstance(other, int):
            continue
        if op == "mul":
            mask *= other
        elif op == "shl":
            mask <<= other
        return (op, *args[:k], anchor, *args[k + 1 :]), mask
    return None
