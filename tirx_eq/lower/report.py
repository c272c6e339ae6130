"""What a compiled kernel tells: each tile call with its candidates, each index expression before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.index import show
from .coupling import Coupling, couplings, describe_key

if TYPE_CHECKING:
    from .candidates import Candidate, Choice
    from .kernel import Kernel, Lowered


def report(kernel: Kernel) -> dict[str, Any]:
    """The report as JSON-able data.

    ``calls``: per tile call the chosen lowering, all candidates with modelled cycles (in all and by resource) and what they
    share with other calls, rejected variants with the failing condition, and the verdict on the layout equation;
    ``couplings``: calls that are chosen together, with the cycles of what they share and why the combination wins;
    ``solution``: the layouts that were left open, where there were some.
    ``expressions``: per distinct index expression its term before and
    after saturation, costs, the rules that fired, and the procedure that validated it; one with ``where`` is made cheaper once
    more where those conditions hold.  ``narrowed``: ranges that are narrower where conditions hold, with what proved it.
    """
    coupled = couplings([lowered.choice for lowered in kernel.calls])
    return {
        "kernel": kernel.name,
        "target": kernel.target,
        "calls": [_call(number, lowered, coupled) for number, lowered in enumerate(kernel.calls)],
        "couplings": [_coupling(k) for k in coupled],
        "expressions": [
            {
                "before": show(s.before), "after": show(s.after), "cost_before": s.cost_in, "cost_after": s.cost,
                "rules": list(s.steps), "validated_by": s.validated_by,
            }
            for s in kernel.indices.table.values()
        ]
        + [
            {
                "before": show(s.before), "after": show(s.after), "cost_before": s.cost_in, "cost_after": s.cost,
                "rules": list(s.steps), "validated_by": s.validated_by, "where": [show(f) for f in s.assume],
            }
            for s in kernel.indices.conditional()
        ],
        "narrowed": [
            {"name": n.name, "range": [n.low, n.high], "where": [show(f) for f in n.because], "proved_by": n.proved_by}
            for n in kernel.indices.narrowed()
        ],
        "ranges": {name: list(bounds) for name, bounds in sorted(kernel.indices.scope.ranges.items())},
        "launch": kernel.launch.to_json(),
        "seconds": {k: round(v, 4) for k, v in kernel.seconds.items()},
        "warnings": list(kernel.warnings),
        **({"solution": kernel.solution.report()} if kernel.solution is not None else {}),
    }  # fmt: skip


def _coupling(k: Coupling) -> dict[str, Any]:
    return {
        "calls": list(k.calls), "own_cycles": round(k.own, 2), "total_cycles": round(k.total, 2),
        "shared": [{"what": s.what, "cycles": round(s.cycles, 2), "calls": list(s.calls)} for s in k.shared],
        "apart_cycles": round(k.apart, 2), "why": k.reason(),
    }  # fmt: skip


def _candidate(number: int, place: int, k: Candidate, chosen: bool, coupled: list[Coupling]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "lowering": k.describe(), "rule": k.rule, "cycles": round(k.cycles, 2), "by_resource": _split(k), "chosen": chosen,
    }  # fmt: skip
    if k.shares:
        made["shares"] = [{"what": describe_key(key), "cycles": round(cycles, 2)} for key, cycles in k.shares]
    for group in coupled:
        if (number, place) in group.instead:
            made["group_cycles_with_it"] = round(group.instead[number, place], 2)
    return made


def _split(k: Candidate) -> dict[str, float]:
    """Cycles by resource, those that count."""
    return {name: round(cycles, 2) for name, cycles in k.price.split().items() if round(cycles, 2)}


def _call(number: int, lowered: Lowered, coupled: list[Coupling]) -> dict[str, Any]:
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
            _candidate(number, place, k, k is choice.chosen, coupled) for place, k in enumerate(choice.candidates)
        ],
        "rejected": {rule: [str(r) for r in reasons] for rule, reasons in choice.rejected.items() if reasons},
        "equation": lowered.equation.to_json(),
    }


def explain(kernel: Kernel) -> str:
    """The calls as text: every candidate with its cost, and for every other variant the condition that ruled it out."""
    solved = kernel.solution.chosen if kernel.solution is not None else ()
    lines = [f"layout of '{c.name}', left open: {c.layout.script('')}" for c in solved]
    coupled = couplings([lowered.choice for lowered in kernel.calls])
    for number, lowered in enumerate(kernel.calls):
        lines += _explain_call(number, lowered.choice, coupled)
        lines.append(f"    layout equation: {lowered.equation.status} by {lowered.equation.decided_by}"
                     f" ({lowered.equation.detail})")  # fmt: skip
    for group in coupled:
        lines += _explain_coupling(group)
    return "\n".join(lines)


def _explain_coupling(group: Coupling) -> list[str]:
    lines = [f"calls {', '.join(map(str, group.calls))} are chosen together: {group.own:.1f} cycles of their own"]
    for s in group.shared:
        lines.append(f"    + {s.cycles:.1f} cycles once: {s.what}, for {_numbered(s.calls)}")
    lines.append(f"    = {group.total:.1f} cycles; {group.reason()}")
    return lines


def _numbered(calls: tuple[int, ...]) -> str:
    return f"call{'s' if len(calls) > 1 else ''} {', '.join(map(str, calls))}"


def _explain_call(number: int, choice: Choice, coupled: list[Coupling]) -> list[str]:
    c = choice.context
    where = f" at {c.span}" if c.span else ""
    lines = [f"call {number}: {c.op} at {c.scope} scope{where}"]
    for place, k in enumerate(choice.candidates):
        mark = "->" if k is choice.chosen else "  "
        split = " + ".join(f"{name} {cycles:g}" for name, cycles in _split(k).items())
        lines.append(f" {mark} {k.describe():34} {k.cycles:10.1f} cycles   rule {k.rule}" + (f"   ({split})" if split else ""))
        for key, cycles in k.shares:
            lines.append(f"        and {cycles:.1f} cycles, once for all that share it: {describe_key(key)}")
        for group in coupled:
            if (number, place) in group.instead:
                lines.append(f"        with it the calls chosen together would cost {group.instead[number, place]:.1f} cycles"
                             f" instead of {group.total:.1f}")  # fmt: skip
    offered = {k.rule for k in choice.candidates}
    for rule, reasons in choice.rejected.items():
        for reason in reasons:
            lines.append(f"    {'not' if rule in offered else 'no '} {rule}: {reason}")
    return lines


