"""What a CTA reaches of a buffer that is spread over the CTAs of a cluster: elements of its own part, as those of a buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ...ir import Expr, Var, const, substitute
from ...ir.index import names
from ...prove.validate import validate
from ..scope import new_scope
from ..sharing.cta_spread import CtaSpread, at_cta, cta_points
from ..sharing.threads import Launch


def own_indices(
    s: CtaSpread, starts: Sequence[Expr], extents: Sequence[int | None], launch: Launch, environment: Mapping[Var, Expr],
    ranges: Mapping[Var, tuple[int, int]], assumed: Sequence[Expr] = (),
) -> list[Expr] | str:  # fmt: skip
    """Where ``starts`` (with ``extents`` elements from there on) are in the part of the CTA that executes, or why they aren't
    known to be in it.  ``environment`` and ``ranges`` are what is known of variables, ``assumed`` conditions that hold."""
    if not all(at_cta(e, launch, cta) for e in s.present(launch) for cta in cta_points(launch)):
        return "some CTAs have no part of it"
    made = list(starts)
    for dim, digits in enumerate(s.blocks):
        if prod(d.extent for d in digits) == 1:
            continue
        size, extent = s.sizes[dim], extents[dim]
        if extent is None:
            return f"the extent of dimension {dim} isn't constant"
        number = s.block(dim, launch)
        scope = new_scope()
        launch.declare(scope)
        for var, bounds in ranges.items():
            scope.name(var, bounds)
        start = substitute(starts[dim], dict(environment))
        first, mine = scope.term(start), scope.term(number)
        assume = [scope.term(e) for e in assumed]
        for low in [first, ("add", first, extent - 1)] if extent > 1 else [first]:
            verdict = validate(("div", low, size), mine, scope.ranges, assume=assume)
            if verdict.status != "equal":
                where = f", at {verdict.counterexample}" if verdict.counterexample else ""
                return f"index {dim} isn't known to be in this CTA's part{where}"
        at = _constant(start % size, launch)
        made[dim] = starts[dim] - number * size if at is None else const(at)
    return made


def _constant(e: Expr, launch: Launch) -> int | None:
    """The value of an expression over the CTA's place in the cluster alone, if it is the same in all CTAs."""
    scope = new_scope()
    term = scope.term(e)
    used = names(term) if isinstance(term, tuple) else {term} if isinstance(term, str) else set()
    if not used <= {scope.name(v) for r, v in launch.special.items() if r.startswith("cluster_ctaid.")}:
        return None
    found = {at_cta(e, launch, cta) for cta in cta_points(launch)}
    return found.pop() if len(found) == 1 else None
