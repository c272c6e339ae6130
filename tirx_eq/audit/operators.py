"""Index operators that can go: each cheaper expression with what proved it equal."""

from __future__ import annotations

from .. import ir
from ..interop.index_rewrite import rewrite_indices
from .findings import Audit, Finding


def check(func: ir.PrimFunc, result: Audit) -> list[Finding]:
    """A hint for each distinct index expression that has a cheaper equal; totals go into ``result``."""
    _, done = rewrite_indices(func)
    result.index_expressions = done.sites
    result.operators_before, result.operators_after = done.cost_in, done.cost
    counted: dict[str, int] = {}
    for r in done.rewrites:
        counted[str(r)] = counted.get(str(r), 0) + 1
    found = []
    for text, r in {str(r): r for r in done.rewrites}.items():
        times = f" ({counted[text]} places)" if counted[text] > 1 else ""
        found.append(Finding(
            "operators", "hint", "index expression" + times, f"cost {r.cost_in} can be {r.cost}",
            f"proved by {r.validated_by}", text.rpartition(" (")[0],
        ))  # fmt: skip
    return found
