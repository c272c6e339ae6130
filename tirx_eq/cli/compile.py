"""``tirx-eq compile``: a kernel's source to PTX, launch data and a report."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ParseError
from .output import infix, print_json, slow_progress, stderr, stdout, table, write_text

if TYPE_CHECKING:
    from ..ir import PrimFunc
    from ..lower.kernel import Kernel


def load_function(spec: str) -> PrimFunc:
    """The function of ``FILE[:FUNC]``; a file with one function needs no name."""
    from ..script import load_file

    path, _, name = spec.rpartition(":")
    if not path:
        path, name = spec, ""
    functions = load_file(path)
    if name:
        if name not in functions:
            raise ParseError(f"{path} has no kernel '{name}'", hint=f"it has {', '.join(functions) or 'none'}")
        return functions[name]
    if len(functions) != 1:
        raise ParseError(
            f"{path} has {len(functions)} kernels", hint=f"choose one: {', '.join(f'{path}:{n}' for n in functions)}"
        )
    return next(iter(functions.values()))


def compile_command(
    file: Annotated[str, typer.Argument(help="Python file with the kernel, FILE or FILE:FUNC")],
    target: Annotated[str, typer.Option(help="architecture to compile for")] = "sm_100a",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="where to write the PTX")] = None,
    report: Annotated[Path | None, typer.Option(help="where to write the report as JSON")] = None,
    html: Annotated[Path | None, typer.Option(help="where to write the report as an HTML page")] = None,
    no_ptxas: Annotated[bool, typer.Option("--no-ptxas", help="don't assemble the PTX")] = False,
    explain: Annotated[bool, typer.Option(help="every candidate of every call, and why others were ruled out")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the report as JSON")] = False,
) -> None:
    """Compile a TIRx kernel to PTX; prove its layouts and addresses; report what was chosen."""
    began = time.perf_counter()
    func = load_function(file)
    from ..solve.compile import compile_open

    loaded = time.perf_counter()
    kernel = compile_open(func, target, progress=slow_progress())
    lowered = time.perf_counter()
    data = kernel.report()
    data["ptx_instructions"] = _count(kernel.ptx)
    if not no_ptxas:
        data["ptxas"] = _assemble(kernel)
    data["seconds"]["load"] = round(loaded - began, 4)
    data["seconds"]["lowering and proofs"] = round(lowered - loaded, 4)
    data["seconds"]["total"] = round(time.perf_counter() - began, 4)
    path = output or Path(f"{kernel.name}.ptx")
    write_text(path, kernel.ptx)
    write_text(path.with_suffix(".json"), kernel.launch.dumps())
    if report is not None:
        write_text(report, json.dumps(data, indent=2))
    if html is not None:
        from ..lower.report_page import page

        write_text(html, page(data))
    for note in kernel.warnings:
        stderr().print(f"[yellow]warning:[/] {note}", soft_wrap=True)
    if as_json:
        print_json(data)
        return
    _show(kernel, data, path)
    if kernel.solution is not None:
        for c in kernel.solution.chosen:
            stdout().print(f"layout of {c.name}: {c.layout.script('')}", markup=False, soft_wrap=True)
    if explain:
        stdout().print(kernel.explain(), markup=False, soft_wrap=True)


def _count(ptx: str) -> int:
    from ..ptx.ptxas import count_instructions

    return count_instructions(ptx)


def _assemble(kernel: Kernel) -> dict[str, Any]:
    from ..ptx.ptxas import assemble, find_tool, sass_count

    if find_tool("ptxas") is None:
        return {"skipped": "ptxas was not found (pip install 'tirx-eq[ptxas]')"}
    made = assemble(kernel.ptx, kernel.target)
    found: dict[str, Any] = {
        "registers": made.registers, "spill_stores": made.spill_stores, "spill_loads": made.spill_loads,
        "barriers": made.barriers,
    }  # fmt: skip
    if find_tool("nvdisasm") is not None:
        found["sass_instructions"] = sass_count(made.cubin)
    return found


def _show(kernel: Kernel, data: dict[str, Any], path: Path) -> None:
    from ..ir.index import parse

    out = stdout()
    calls = [
        (c["line"] or "", f"{c['scope']}.{c['op']}", ", ".join(c["operands"].values()), c["lowering"], f"{c['cycles']:.0f}",
         f"{c['equation']['status']} ({c['equation']['decided_by']})")
        for c in data["calls"]
    ]  # fmt: skip
    if calls:
        columns = ("line", "tile primitive", "operands", "lowering", "cycles", "layout equation")
        out.print(table("Tile primitives", columns, calls, right=(0, 4)))
    rows = [
        (infix(parse(e["before"])), infix(parse(e["after"])), f"{e['cost_before']} → {e['cost_after']}", e["validated_by"])
        for e in data["expressions"]
    ]
    if rows:
        out.print(table("Index expressions", ("before", "after", "cost", "validated by"), rows))
    before = sum(e["cost_before"] for e in data["expressions"])
    after = sum(e["cost_after"] for e in data["expressions"])
    facts = [f"{len(rows)} index expressions, cost {before} → {after}", f"{data['ptx_instructions']} PTX instructions"]
    assembled = data.get("ptxas")
    if assembled and "registers" in assembled:
        facts.append(f"ptxas {kernel.target}: accepted, {assembled['registers']} registers, "
                     f"{assembled['spill_stores'] + assembled['spill_loads']} bytes spilled")  # fmt: skip
        if "sass_instructions" in assembled:
            facts.append(f"{assembled['sass_instructions']} SASS instructions")
    elif assembled:
        facts.append(assembled["skipped"])
    out.print(f"[bold]{kernel.name}[/]: " + "; ".join(facts), soft_wrap=True)
    s = data["seconds"]
    out.print(f"wrote {path} and {path.with_suffix('.json')} in {s['total']:.2f} s "
              f"(lowering and proofs {s['lowering and proofs']:.2f} s)", soft_wrap=True)  # fmt: skip


def add(app: typer.Typer) -> None:
    app.command("compile")(compile_command)
