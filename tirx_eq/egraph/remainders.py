"""Claims in which some variables matter only through a remainder: a variable of its own takes its place.

The slot of a ring, ``(round + start) mod 3``, stands beside bits of a thread's number in an address.  Over the remainder,
which has three values, the claim can be enumerated; over the round, of 32 bits, it takes a solver and a divider in it.
"""

from __future__ import annotations

from typing import Any

from ..ir.index import Ranges, Term, names, postorder, tree_size

#: Operations of a claim beyond which it isn't put in order, which takes their square.
_LARGE = 500
#: What is a value wherever its operands are.
_TOTAL = frozenset(("add", "sub", "mul"))


def over_remainders(before: Term, after: Term, ranges: Ranges) -> tuple[Term, Term, Ranges] | None:
    """A claim that says at least as much as ``before == after``, with remainders as variables; None if there are none such.

    A remainder by a positive constant of a polynomial is replaced if no variable in it occurs elsewhere.
    """
    if tree_size(before, after) > _LARGE:
        return None
    before, after = _ordered(before), _ordered(after)
    known = dict(ranges)
    met: list[tuple[Any, ...]] = [t for t in postorder(before) if isinstance(t, tuple) and _is_remainder(t)]
    for t in sorted(dict.fromkeys(met), key=lambda t: (-len(names(t)), repr(t))):
        name = f"remainder_{len(known)}"
        claim = _replaced(before, t, name), _replaced(after, t, name)
        left = names(*claim)
        if name in left and not names(t) & left and name not in ranges:
            before, after = claim
            known[name] = (0, t[2] - 1)
    if len(known) == len(ranges):
        return None
    used = names(before, after)
    return before, after, {n: r for n, r in known.items() if n in used}


def _is_remainder(t: tuple[Any, ...]) -> bool:
    if t[0] != "mod" or not isinstance(t[2], int) or t[2] <= 0 or isinstance(t[1], int):
        return False
    return all(not isinstance(part, tuple) or part[0] in _TOTAL for part in postorder(t[1]))


def _ordered(term: Term) -> Term:
    """The same with operands of sums in one order, and multiples taken out of remainders: (x*a) mod (a*m) is (x mod m)*a."""
    done: dict[int, Term] = {}

    def now(t: Term) -> Term:
        return done[id(t)] if isinstance(t, tuple) else t

    for t in postorder(term):
        if not isinstance(t, tuple):
            continue
        op, *args = t[0], *map(now, t[1:])
        if op in ("add", "mul"):
            args.sort(key=lambda a: (isinstance(a, int), repr(a)))
        made: Term = (op, *args)
        if op == "mod" and isinstance(args[1], int) and args[1] > 0 and isinstance(args[0], tuple) and args[0][0] == "mul":
            inner, factor = args[0][1], args[0][2]
            if isinstance(factor, int) and factor > 0 and args[1] % factor == 0:
                made = ("mul", ("mod", inner, args[1] // factor), factor)
        done[id(t)] = made
    return now(term)


def _replaced(term: Term, old: Term, name: str) -> Term:
    done: dict[int, Term] = {}
    for t in postorder(term):
        if isinstance(t, tuple):
            done[id(t)] = name if t == old else (t[0], *(done[id(a)] if isinstance(a, tuple) else a for a in t[1:]))
    return done[id(term)] if isinstance(term, tuple) else term
