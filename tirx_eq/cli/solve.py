"""``tirx-eq solve``: fill in the layouts of a kernel that are left open, and tell what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .compile import load_function
from .output import print_json, slow_progress, stderr, stdout, table, write_text

if TYPE_CHECKING:
    from ..errors import TirxError
    from ..solve.solution import Solution


#: What the printed kernel needs to be read as a file.
HEADER = "from tirx_eq.layout import Axis\nfrom tirx_eq.script import tirx as Tx\n\n"


def solve_command(
    file: Annotated[str, typer.Argument(help="Python file with the kernel, FILE or FILE:FUNC")],
    erase: Annotated[bool, typer.Option("--erase", help="leave every layout open first, given ones too")] = False,
    target: Annotated[str, typer.Option(help="architecture to solve for")] = "sm_100a",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="where to write the kernel with its layouts")] = None,
    nodes: Annotated[int, typer.Option(help="budget of the search, in branch-and-bound nodes", min=1)] = 20_000,
    no_pictures: Annotated[bool, typer.Option("--no-pictures", help="no drawings of the layouts")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Choose the layouts that are left open (Tx.auto): all together, for the least modelled cost."""
    from ..solve.conflict import NoLayoutError
    from ..solve.erasing import erase_layouts
    from ..solve.solve import modelled_cost, solve

    func = load_function(file)
    given = modelled_cost(func, target) if erase else None
    if erase:
        func = erase_layouts(func)
    try:
        solution = solve(func, target, nodes=nodes, progress=slow_progress())
    except NoLayoutError as error:
        if as_json:
            print_json(_refused(error))
        raise
    if output is not None:
        write_text(output, HEADER + solution.func.script(extra_config={"tirx.prefix": "Tx"}))
    if as_json:
        data = solution.report()
        print_json(data if given is None else {**data, "given": round(given, 4)})
        return
    _show(solution, given, not no_pictures)


def _refused(error: TirxError) -> dict[str, Any]:
    conflict = getattr(error, "conflict", None)
    return {
        "error": error.message,
        "conflict": [
            {"constraint": c.kind, "says": c.says(), "buffers": list(c.buffers), "line": c.line, "source": c.source,
             "remedy": c.remedy}
            for c in (conflict.constraints if conflict is not None else ())
        ],
    }  # fmt: skip


def _show(solution: Solution, given: float | None, pictures: bool) -> None:
    out = stdout()
    if not solution.chosen:
        out.print("no layout is left open", soft_wrap=True)
    else:
        out.print(solution.explain(pictures), markup=False, soft_wrap=True)
    rows = [
        (a.span.line if a.span else "", a.what, ", ".join(a.buffers), a.lowering, f"{a.cycles:.1f}", a.weight, f"{a.total:.1f}",
         f"{a.wavefronts:g}")
        for a in solution.accesses
    ]  # fmt: skip
    columns = ("line", "access", "buffers", "lowering", "cycles", "times", "in all", "wavefronts")
    out.print(table("Accesses", columns, rows, right=(0, 4, 5, 6, 7)))
    if given is not None:
        less = given - solution.objective
        word = "as the given layouts" if abs(less) < 1e-6 else f"{less:.1f} cycles less than the given layouts ({given:.1f})"
        stderr().print(f"{solution.objective:.1f} cycles: {word}", soft_wrap=True)


def add(app: typer.Typer) -> None:
    app.command("solve")(solve_command)
