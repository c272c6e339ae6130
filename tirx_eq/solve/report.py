"""A solution as text and as JSON-able data: layouts with their alternatives, what each access costs, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import LayoutError
from ..lower.storage import const_shape

if TYPE_CHECKING:
    from .solution import Chosen, Solution

#: Alternatives of a buffer that the text shows.
SHOWN = 6


def explain(solution: Solution, pictures: bool = False) -> str:
    """The layouts with their alternatives, calls with their costs, and the objective by resource."""
    lines: list[str] = []
    shown: set[str] = set()
    for c in solution.chosen:
        place = f" (line {c.span.line})" if c.span else ""
        shape = "×".join(str(e) for e in const_shape(c.buffer))
        lines.append(f"{c.name}: {shape} {c.buffer.dtype} in {c.space}{place}")
        lines.append(f"  -> {c.layout.script('')}   by {', '.join(c.rules)}")
        for a in solution.accesses:
            if c.name in a.buffers:
                where = f"line {a.span.line}: " if a.span else ""
                times = f" × {a.weight}" if a.weight != 1 else ""
                waves = f", {a.wavefronts:g} wavefronts" if a.wavefronts else ""
                lines.append(f"     {where}{a.what} {a.lowering}: {a.cycles:.1f} cycles{times}{waves}")
        if c.unknown not in shown:
            shown.add(c.unknown)
            for other in c.alternatives[:SHOWN]:
                lines.append(f"     not {other.layout.script('')}: {other.verdict(solution.objective)}")
            if len(c.alternatives) > SHOWN:
                lines.append(f"     and {len(c.alternatives) - SHOWN} more (--json lists them)")
        if pictures:
            lines += [f"     {row}" for row in picture(c)]
    split = ", ".join(f"{name} {v:.1f}" for name, v in sorted(solution.resources.items(), key=lambda p: -p[1]))
    lines.append(f"{solution.func.name}: {solution.objective:.1f} cycles ({split})")
    state = "optimal" if solution.optimal else f"within {100 * solution.gap:.2f} % of the optimum (the budget of nodes ended)"
    lines.append(f"{state} over {solution.candidates} candidates; {solution.seconds:.2f} s")
    for cost, difference in solution.runner_ups[:3]:
        lines.append(f"next: {cost:.1f} cycles with {difference}")
    return "\n".join(lines)


def picture(c: Chosen) -> list[str]:
    """A drawing of a layout as lines, where one can be made."""
    from ..layout.draw import text

    try:
        return text(c.layout, const_shape(c.buffer)).splitlines()
    except LayoutError as error:
        return [f"(no picture: {error.message})"]


def report(solution: Solution) -> dict[str, Any]:
    """The report as JSON-able data: see :class:`~tirx_eq.solve.solution.Solution`."""
    return {
        "kernel": solution.func.name,
        "target": solution.target,
        "objective": round(solution.objective, 4),
        "resources": {k: round(v, 4) for k, v in solution.resources.items()},
        "bound": round(solution.bound, 4),
        "optimal": solution.optimal,
        "gap": round(solution.gap, 6),
        "candidates": solution.candidates,
        "layouts": [_chosen(c) for c in solution.chosen],
        "accesses": [
            {
                "what": a.what, "line": a.span.line if a.span else None, "lowering": a.lowering, "buffers": list(a.buffers),
                "cycles": round(a.cycles, 4), "times": a.weight, "wavefronts": a.wavefronts,
                "resources": {k: round(v, 4) for k, v in a.resources.items()},
            }
            for a in solution.accesses
        ],
        "runner_ups": [{"cost": round(cost, 4), "difference": what} for cost, what in solution.runner_ups],
        "seconds": round(solution.seconds, 3),
    }  # fmt: skip


def _chosen(c: Chosen) -> dict[str, Any]:
    return {
        "buffer": c.name, "space": c.space, "shape": list(const_shape(c.buffer)), "dtype": c.buffer.dtype,
        "line": c.span.line if c.span else None, "layout": c.layout.script(""), "spec": c.layout.to_json(),
        "rules": list(c.rules),
        "alternatives": [
            {"layout": a.layout.script(""), "cost": None if a.cost is None else round(a.cost, 4),
             "at_least": None if a.at_least is None else round(a.at_least, 4), "excluded": a.excluded}
            for a in c.alternatives
        ],
    }  # fmt: skip
