"""``tirx-eq simplify``: index expressions made cheaper, one from the command line or many from JSON lines."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ParseError
from ..ir.index import parse, show
from .output import infix, print_json, stdout

_RANGE = re.compile(r"([A-Za-z_][\w.]*)=(-?\d+):(-?\d+)\Z")


def parse_range(text: str) -> tuple[str, tuple[int, int]]:
    """``x=0:63`` as a name and inclusive bounds."""
    match = _RANGE.match(text)
    if match is None:
        raise ParseError(f"'{text}' is not a range", hint="write NAME=LOW:HIGH, bounds inclusive, for example x=0:63")
    low, high = int(match[2]), int(match[3])
    if low > high:
        raise ParseError(f"the range of '{match[1]}' is empty: {low} is above {high}")
    return match[1], (low, high)


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and objects of a file of JSON lines; ParseError names the line that isn't one."""
    try:
        text = path.read_text()
    except OSError as error:
        raise ParseError(f"can't read {path}: {error.strerror}") from None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ParseError(f"{path}:{number}: not JSON: {error.msg}") from None
        if not isinstance(row, dict):
            raise ParseError(f"{path}:{number}: a row must be a JSON object")
        yield number, row


def _row(row: dict[str, Any], optimal: bool) -> dict[str, Any]:
    from ..egraph.simplify import simplify

    for key in ("vars", "expr"):
        if key not in row:
            raise ParseError(f"the row has no '{key}'")
    began = time.perf_counter()
    ranges = {str(n): (int(b[0]), int(b[1])) for n, b in row["vars"].items()}
    made = simplify(parse(row["expr"]), ranges, optimal=optimal)
    return {
        **({"id": row["id"]} if "id" in row else {}),
        "expr": show(made.expr), "cost": made.cost, "cost_in": made.cost_in, "validated_by": made.validated_by,
        "ms": round(1e3 * (time.perf_counter() - began), 2),
    }  # fmt: skip


def simplify_command(
    expr: Annotated[str | None, typer.Argument(help="expression in prefix form, such as (xor (xor x y) y)")] = None,
    var: Annotated[list[str] | None, typer.Option(help="range of a variable, NAME=LOW:HIGH inclusive")] = None,
    jsonl: Annotated[Path | None, typer.Option(help="file of rows {id, vars, expr}")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="where to write the rows' results")] = None,
    optimal: Annotated[bool, typer.Option(help="exact extraction and strength reduction (needs highspy)")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Simplify index expressions under ranges; every result is validated and never dearer."""
    if (expr is None) == (jsonl is None):
        raise ParseError("give either an expression or --jsonl")
    if jsonl is not None:
        lines = []
        for number, row in read_jsonl(jsonl):
            try:
                lines.append(json.dumps(_row(row, optimal)))
            except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
                raise ParseError(f"{jsonl}:{number}: {error}") from None
        write_lines(output, lines)
        return
    assert expr is not None
    found = _row({"expr": expr, "vars": dict(parse_range(v) for v in var or ())}, optimal)
    if as_json:
        print_json(found)
        return
    out = stdout()
    out.print(f"{infix(parse(expr))}\n  = {infix(parse(found['expr']))}", markup=False, soft_wrap=True)
    out.print(f"cost {found['cost_in']} → {found['cost']}, validated by {found['validated_by']}, {found['ms']:.1f} ms")


def write_lines(output: Path | None, lines: list[str]) -> None:
    """Lines to a file, or to standard output if there is none."""
    text = "".join(line + "\n" for line in lines)
    if output is None:
        print(text, end="")
        return
    try:
        output.write_text(text)
    except OSError as error:
        raise ParseError(f"can't write {output}: {error.strerror}") from None


def add(app: typer.Typer) -> None:
    app.command("simplify")(simplify_command)
