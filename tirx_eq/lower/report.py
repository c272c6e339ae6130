"""What a compiled kernel tells: each tile call with its candidates, each index expression before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.index import show

if TYPE_CHECKING:
    from .candidates import Choice
    from .kernel import Kernel, Lowered


def report(kernel: Kernel) -> dict[str, Any]:
    """The report as JSON-able data.

    ``calls``: per tile call the chosen lowering, candidates with modelled cycles, rejected variants with the failing
    condition, and the verdict on the layout equation; ``solution``: the layouts that were left open, where there were some.
    ``expressions``: per distinct index expression its term before and
    after saturation, costs, the rules that fired, and the procedure that validated it.
    """
    return {
        "kernel": kernel.name,
        "target": kernel.target,
        "calls": [_call(lowered) for lowered in kernel.calls],
        "expressions": [
            {
                "before": show(s.before), "after": show(s.after), "cost_before": s.cost_in, "cost_after": s.cost,
                "rules": list(s.steps), "validated_by": s.validated_by,
            }
            for s in kernel.indices.table.values()
        ],
        "ranges": {name: list(bounds) for name, bounds in sorted(kernel.indices.scope.ranges.items())},
        "launch": kernel.launch.to_json(),
        "seconds": {k: round(v, 4) for k, v in kernel.seconds.items()},
        "warnings": list(kernel.warnings),
        **({"solution": kernel.solution.report()} if kernel.solution is not None else {}),
    }  # fmt: skip


def _call(lowered: Lowered) -> dict[str, Any]:
    choice = lowered.choice
    c = choice.context
    return {
        "op": c.op,
        "scope": c.scope,
        "line": c.span.line if c.span else None,
        "operands": {o.name: f"{o.buffer.name}{list(o.extents)} in {o.root.space}" for o in c.operands.values()},
        "threads": c.active.describe(),
        "lowering": choice.chosen.describe(),
        "rule": choice.chosen.rule,
        "cycles": round(choice.chosen.cycles, 2),
        "resources": choice.chosen.price.by_resource(),
        "candidates": [
            {"lowering": k.describe(), "rule": k.rule, "cycles": round(k.cycles, 2)} for k in choice.candidates
        ],
        "rejected": {rule: [str(r) for r in reasons] for rule, reasons in choice.rejected.items() if reasons},
        "equation": lowered.equation.to_json(),
    }


def explain(kernel: Kernel) -> str:
    """The calls as text: every candidate with its cost, and for every other variant the condition that ruled it out."""
    solved = kernel.solution.chosen if kernel.solution is not None else ()
    lines = [f"layout of '{c.name}', left open: {c.layout.script('')}" for c in solved]
    for lowered in kernel.calls:
        lines += _explain_call(lowered.choice)
        lines.append(f"    layout equation: {lowered.equation.status} by {lowered.equation.decided_by}"
                     f" ({lowered.equation.detail})")  # fmt: skip
    return "\n".join(lines)


def _explain_call(choice: Choice) -> list[str]:
    c = choice.context
    where = f" at {c.span}" if c.span else ""
    lines = [f"{c.op} at {c.scope} scope{where}"]
    for k in choice.candidates:
        mark = "->" if k is choice.chosen else "  "
        lines.append(f" {mark} {k.describe():34} {k.cycles:10.1f} cycles   rule {k.rule}")
    offered = {k.rule for k in choice.candidates}
    for rule, reasons in choice.rejected.items():
        for reason in reasons:
            lines.append(f"    {'not' if rule in offered else 'no '} {rule}: {reason}")
    return lines


