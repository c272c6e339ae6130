"""``tirx-eq rules`` and ``tirx-eq prove``: the rule table, and checking of the obligations."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import RuleError
from .output import print_json, stderr, stdout, table


@dataclass(frozen=True)
class Row:
    """One rule and what its record says."""

    name: str
    family: str
    place: str
    text: str
    proved_by: str
    status: str
    ends: str
    """Why the rule stops: no terms, no larger, measure, bounded or pair; and the bound that its author states."""


def rule_rows() -> list[Row]:
    """Every rule: index arithmetic, layout terms, lowering; with the records as they are checked in."""
    from ..egraph.layouts import layout_rules
    from ..egraph.rules import Rule, load_rules
    from ..lower.candidates import lowering_rules
    from ..lower.records import PROCEDURE
    from ..prove import layout_rules as layout_records
    from ..prove.records import read_records
    from ..prove.termination import argument

    index = {r.rule: r for r in read_records()}
    layout = layout_records.read_records()

    def row(rule: Rule, proved_by: str, status: str, ends: str = "") -> Row:
        text = " ".join(rule.text.split())
        return Row(rule.name, rule.family, f"{rule.file}:{rule.line}", text, proved_by, status, ends)

    rows = []
    for rule in load_rules():
        record = index.get(rule.name)
        widths = ", ".join(map(str, record.widths)) if record else ""
        how = f"{record.procedure}{f' ({widths} bits)' if widths else ''}" if record else "-"
        why = argument(rule)
        ends = why.text if why.text.startswith(why.kind) else f"{why.kind}: {why.text}"
        rows.append(row(rule, how, record.verdict if record else "no record", ends))
    for rule in layout_rules():
        proof = layout.get(rule.name)
        rows.append(row(rule, proof.theory if proof else "-", proof.verdict if proof else "no record"))
    rows += [row(p.rule, PROCEDURE, "checked per use") for p in lowering_rules()]
    return rows


def rules_command(
    family: Annotated[str | None, typer.Option(help="only rules of this family")] = None,
    text: Annotated[bool, typer.Option(help="show the text of each rule")] = False,
    growth: Annotated[bool, typer.Option(help="show why each rule stops, and what bounds one that grows")] = False,
    use: Annotated[
        Path | None, typer.Option(help="file of rows {vars, expr}: matches and milliseconds of each rule on them instead")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """List the rewrite rules with the record of each one's proof."""
    if use is not None:
        _use(use, family, as_json)
        return
    every = rule_rows()
    rows = [r for r in every if family is None or r.family == family]
    if not rows:
        known = ", ".join(sorted({r.family for r in every}))
        raise RuleError(f"there is no rule family '{family}'", hint=f"families: {known}")
    if as_json:
        print_json([vars(r) for r in rows])
        return
    columns = ["rule", "place", *(["text"] if text else []), "proved by", "status", *(["ends"] if growth else [])]
    shown = [
        (r.name, r.place, *([r.text] if text else []), r.proved_by, r.status, *([r.ends] if growth else [])) for r in rows
    ]
    stdout().print(table(f"{len(rows)} rules", columns, shown))


def _use(path: Path, family: str | None, as_json: bool) -> None:
    """What each rule did on the rows of a file, the dearest first.  Raises ``ParseError`` for a row that isn't one."""
    from ..egraph.trace import measure
    from .simplify import problem, read_jsonl

    found = measure(problem(row) for _, row in read_jsonl(path))
    rows = sorted(found.items(), key=lambda item: (-item[1].seconds, item[0]))
    rows = [(name, use) for name, use in rows if family is None or name.split("/")[0] == family]
    if as_json:
        print_json([{"rule": name, "matches": use.matches, "ms": round(1e3 * use.seconds, 3)} for name, use in rows])
        return
    shown = [(name, str(use.matches), f"{1e3 * use.seconds:.2f}") for name, use in rows]
    stdout().print(table(f"{len(rows)} rules", ["rule", "matches", "ms"], shown))


def prove_command(
    rule: Annotated[list[str] | None, typer.Option(help="only this rule of index arithmetic (may be repeated)")] = None,
    recompute: Annotated[bool, typer.Option(help="prove again, not only compare with the records")] = True,
    executor: Annotated[str, typer.Option(help="serial, processes, processes:N or dask://HOST:PORT")] = "processes",
    cache: Annotated[str | None, typer.Option(help="folder in which proofs are kept between runs")] = None,
    mutants: Annotated[
        bool, typer.Option("--mutants", help="small wrong versions of the rules instead: refuted, or proved harmless")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Check that every rule has a current proof; exit 1 if one doesn't."""
    if mutants:
        _mutants(rule or [], recompute, executor, cache, as_json)
        return
    from ..lower import records as lowering
    from ..prove import layout_rules as layout
    from ..prove import records as index

    began = time.perf_counter()
    report = index.check(recompute=recompute, names=rule or (), executor=executor, cached_in=cache)
    problems = list(report.problems)
    counts: dict[str, Any] = {"index rules": len(report.rows)}
    if not rule:
        problems += layout.check(recompute=recompute)
        problems += lowering.check()
        counts["layout rules"] = len(layout.read_records())
        counts["lowering rules"] = len(lowering.records())
    seconds = time.perf_counter() - began
    if as_json:
        print_json({"checked": counts, "recomputed": recompute, "problems": problems, "seconds": round(seconds, 2)})
    else:
        told = ", ".join(f"{n} {what}" for what, n in counts.items())
        stdout().print(f"{told}: {'all proved' if not problems else f'{len(problems)} problems'} ({seconds:.1f} s)")
        for problem in problems:
            stderr().print(f"[bold red]problem:[/] {problem}", soft_wrap=True)
    if problems:
        raise typer.Exit(1)


def _mutants(names: list[str], recompute: bool, executor: str, cache: str | None, as_json: bool) -> None:
    from ..prove import mutant_records as records

    rows, problems = records.check(recompute, names, executor, cache)
    lines = records.tabulated(rows)
    if as_json:
        shown = [dict(zip(records.COLUMNS, (line[0], *map(int, line[1:])))) for line in lines]
        print_json({"mutants": shown, "recomputed": recompute, "problems": problems})
    else:
        stdout().print(table(f"mutants of {len(rows)} rules", list(records.COLUMNS), lines))
        for problem in problems:
            stderr().print(f"[bold red]problem:[/] {problem}", soft_wrap=True)
    if problems:
        raise typer.Exit(1)


def add(app: typer.Typer) -> None:
    app.command("rules")(rules_command)
    app.command("prove")(prove_command)
