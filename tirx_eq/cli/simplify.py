"""``tirx-eq simplify``: index expressions made cheaper, one from the command line or many from JSON lines."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from ..errors import ParseError, TirxError
from .output import infix, print_json, stderr

if TYPE_CHECKING:
    from ..egraph.simplify import Simplified
    from ..ir.index import Term

_RANGE = re.compile(r"([A-Za-z_][\w.]*)=(-?\d+):(-?\d+)\Z")
CHUNK = 256
"""Rows simplified in one e-graph and written together."""


def parse_range(text: str) -> tuple[str, tuple[int, int]]:
    """``x=0:63`` as a name and inclusive bounds."""
    match = _RANGE.match(text)
    if match is None:
        raise ParseError(f"'{text}' is not a range", hint="write NAME=LOW:HIGH, bounds inclusive, for example x=0:63")
    low, high = int(match[2]), int(match[3])
    if low > high:
        raise ParseError(f"the range of '{match[1]}' is empty: {low} is above {high}")
    return match[1], (low, high)


def lines_of(path: Path) -> Iterator[tuple[int, int, dict[str, Any] | ParseError]]:
    """Line number, length in bytes, and object of each line that isn't blank; what is wrong with a line takes its place.

    Raises ``ParseError`` if the file can't be read.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, len(line), _object(line)
    except OSError as error:
        raise ParseError(f"can't read {path}: {error.strerror}") from None


def _object(line: bytes) -> dict[str, Any] | ParseError:
    try:
        row = json.loads(line.decode())
    except json.JSONDecodeError as error:
        return ParseError(f"not JSON: {error.msg}")
    except UnicodeDecodeError as error:
        return ParseError(f"not UTF-8: {error.reason} at byte {error.start}")
    except RecursionError:
        return ParseError("JSON nested too deep")
    except ValueError as error:  # an integer of thousands of digits
        return ParseError(f"not JSON: {error}")
    return row if isinstance(row, dict) else ParseError("a row must be a JSON object")


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and objects of a file of JSON lines; ParseError names the line that isn't one."""
    for number, _, row in lines_of(path):
        if isinstance(row, ParseError):
            raise ParseError(f"{path}:{number}: {row.message}")
        yield number, row


Problem = tuple["Term", dict[str, tuple[int, int]]]


def problem(row: dict[str, Any]) -> Problem:
    """Term and inclusive ranges of a row ``{vars: {name: [low, high]}, expr}``.  Raises ``ParseError``."""
    from ..ir.index import parse

    for key, kind, what in (("vars", dict, "an object of [low, high] pairs"), ("expr", str, "a string")):
        if key not in row:
            raise ParseError(f"the row has no '{key}'")
        if not isinstance(row[key], kind):
            raise ParseError(f"'{key}' must be {what}")
    ranges = {}
    for name, bounds in row["vars"].items():
        # bool is a kind of int, and true is no bound
        if not isinstance(bounds, list | tuple) or len(bounds) != 2 or any(type(b) is not int for b in bounds):
            raise ParseError(f"the range of '{name}' must be [low, high], two integers, not {json.dumps(bounds)[:80]}")
        ranges[name] = (bounds[0], bounds[1])
    return parse(row["expr"]), ranges


def conditions(row: dict[str, Any]) -> list[Term]:
    """The conditions that a row assumes, ``{assume: [text, …]}``; none if it doesn't say.  Raises ``ParseError``."""
    from ..ir.index import parse

    texts = row.get("assume", [])
    if not isinstance(texts, list) or any(not isinstance(t, str) for t in texts):
        raise ParseError("'assume' must be a list of conditions such as \"(eq (mod n 8) 0)\"")
    return [parse(t) for t in texts]


def _result(row: dict[str, Any], made: Simplified, ms: float) -> dict[str, Any]:
    from ..ir.index import show

    return {
        **({"id": row["id"]} if "id" in row else {}),
        "expr": show(made.expr), "cost": made.cost, "cost_in": made.cost_in,
        "cost_before": made.cost_in, "cost_after": made.cost, "validated_by": made.validated_by, "ms": round(ms, 2),
    }  # fmt: skip


def _failure(row: Any, number: int, error: TirxError) -> dict[str, Any]:
    return {
        **({"id": row["id"]} if isinstance(row, dict) and "id" in row else {}),
        "error": str(error), "line": number,
    }  # fmt: skip


def _solve_under(p: Problem, assume: Sequence[Term], optimal: bool) -> Simplified | TirxError:
    """The result or the error of one problem under conditions."""
    from ..egraph.simplify import simplify

    try:
        return simplify(*p, assume=assume, optimal=optimal)
    except RecursionError:
        return ParseError("the expression is nested too deep")
    except TirxError as error:
        return error


def _solve(problems: Sequence[Problem], optimal: bool, traced: bool = False) -> list[Simplified | TirxError]:
    """A result or an error for each problem; if the e-graph they share fails, each gets one of its own."""
    from ..egraph.batch import simplify_rows

    try:
        return simplify_rows(problems, optimal=optimal, traced=traced)
    except RecursionError:
        failed: TirxError = ParseError("the expression is nested too deep")
    except TirxError as error:
        failed = error
    if len(problems) == 1:
        return [failed]
    return [found for p in problems for found in _solve([p], optimal, traced)]


def simplify_chunk(lines: Sequence[tuple[int, int, dict[str, Any] | ParseError]], optimal: bool) -> list[dict[str, Any]]:
    """Output rows for lines of input, in their order; ``ms`` is the chunk's time over its rows."""
    from ..egraph import batch  # noqa: F401  (loading it is not the rows' time)

    began = time.perf_counter()
    problems: list[Problem] = []
    alone: list[Simplified | TirxError | None] = []  # faults, and rows with conditions of their own
    for _, _, row in lines:
        try:
            if isinstance(row, ParseError):
                raise row
            found, assume = problem(row), conditions(row)
            if assume:
                alone.append(_solve_under(found, assume, optimal))
            else:
                problems.append(found)
                alone.append(None)
        except TirxError as error:
            alone.append(error)
    solved = iter(_solve(problems, optimal) if problems else ())
    ms = 1e3 * (time.perf_counter() - began) / max(1, len(lines))
    out = []
    for (number, _, row), single in zip(lines, alone):
        made = next(solved) if single is None else single
        if isinstance(made, TirxError):
            out.append(_failure(row, number, made))
        else:
            assert isinstance(row, dict)
            out.append(_result(row, made, ms))
    return out


def simplify_lines(jsonl: Path, output: Path | None, optimal: bool) -> int:
    """Simplify a file of rows, chunk by chunk, each written when it is done.  Returns how many rows were bad."""
    if output is not None and output.exists() and jsonl.exists() and output.samefile(jsonl):
        raise ParseError(f"{output} is the input itself", hint="rows are written while others are still to be read")
    bad = 0
    lines = lines_of(jsonl)
    chunk = list(islice(lines, CHUNK))  # a missing input is told before the output is made
    with _opened(output) as write, _progress(jsonl, output) as advance:
        while chunk:
            rows = simplify_chunk(chunk, optimal)
            bad += sum("error" in r for r in rows)
            write("".join(json.dumps(r) + "\n" for r in rows))
            advance(sum(size for _, size, _ in chunk), len(chunk))
            chunk = list(islice(lines, CHUNK))
    return bad


@contextlib.contextmanager
def _opened(output: Path | None) -> Iterator[Callable[[str], None]]:
    """A function that writes text to ``output``, or to standard output, at once."""
    file: TextIO = sys.stdout
    if output is not None:
        try:
            file = output.open("w", encoding="utf-8")
        except OSError as error:
            raise ParseError(f"can't write {output}: {error.strerror}") from None

    def write(text: str) -> None:
        try:
            file.write(text)
            file.flush()
        except OSError as error:
            if output is None:  # a closed pipe ends the command quietly
                raise
            raise ParseError(f"can't write {output}: {error.strerror}") from None

    try:
        yield write
    finally:
        if output is not None:
            with contextlib.suppress(OSError):  # what could not be written was told already
                file.close()


@contextlib.contextmanager
def _progress(jsonl: Path, output: Path | None) -> Iterator[Callable[[int, int], None]]:
    """A function told of bytes read and rows done; a bar on standard error if a terminal shows that and not the rows."""
    if not sys.stderr.isatty() or (output is None and sys.stdout.isatty()):
        yield lambda size, rows: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("simplify"), BarColumn(), TextColumn("{task.fields[rows]} rows"), TimeElapsedColumn())
    # Standard output is the rows' and must not be sent to the bar's console.
    with Progress(*columns, console=stderr(), redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("simplify", total=jsonl.stat().st_size or None, rows=0)
        done = 0

        def advance(size: int, rows: int) -> None:
            nonlocal done
            done += rows
            bar.update(task, advance=size, rows=done)

        yield advance
        bar.update(task, total=1, completed=1)  # blank lines were read too


def describe_steps(made: Simplified) -> list[dict[str, str]]:
    """The rules that fired, as ``{rule, text}``: what a rewrite turns into what, under which conditions."""
    from ..egraph.rules import load_rules, show_form

    known = {r.name: r for r in load_rules()}
    out = []
    for name in made.steps:
        rule, text = known.get(name), ""
        if rule is not None and rule.kind == "rewrite":
            text = f"{show_form(rule.form[1])} → {show_form(rule.form[2])}"
            when = rule.option(":when")
            if isinstance(when, list) and when:
                text += " when " + " ".join(show_form(w) for w in when)
        elif rule is not None:
            text = " ".join(show_form(f) for f in rule.form[1]) + " ⇒ " + " ".join(show_form(f) for f in rule.form[2])
        out.append({"rule": name, "text": text})
    return out


def _print_steps(made: Simplified, term: Term) -> None:
    if made.expr == term:
        print("steps: none, nothing cheaper was found")
        return
    if not made.steps:
        print("steps: the linear normal form, no rule was needed")
    else:
        print("steps: the linear normal form, then the rules that fired in its e-graph")
        steps = describe_steps(made)
        width = max(len(s["rule"]) for s in steps)
        for s in steps:
            print(f"  {s['rule']:{width}}  {s['text']}".rstrip())


MAX_TRACED = 400
"""Operations of an expression whose steps are retraced: ten e-graphs for one answer."""


def _trace(term: Term, ranges: dict[str, tuple[int, int]], assume: Sequence[Term]) -> list[dict[str, Any]]:
    """What the rules alone make of ``term``, round by round, as ``{expr, cost, rules}``; nothing for a long one."""
    from ..egraph.trace import trace
    from ..ir.index import postorder, show

    if sum(isinstance(t, tuple) for t in postorder(term)) > MAX_TRACED:
        return []
    return [{"expr": show(s.expr), "cost": s.cost, "rules": list(s.rules)} for s in trace(term, ranges, assume)]


def _print_trace(rows: list[dict[str, Any]]) -> None:
    from ..ir.index import parse

    if len(rows) > 1:
        print("by rules alone, round by round:")
        for row in rows:
            print(f"  {row['cost']:>4}  {infix(parse(row['expr']))}")
            if row["rules"]:
                print(f"        by {', '.join(row['rules'])}")


def simplify_command(
    expr: Annotated[str | None, typer.Argument(help="expression in prefix form, such as (xor (xor x y) y)")] = None,
    var: Annotated[list[str] | None, typer.Option(help="range of a variable, NAME=LOW:HIGH inclusive")] = None,
    jsonl: Annotated[Path | None, typer.Option(help="file of rows {id, vars, expr, assume}; exit 2 if one was bad")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="where to write the rows' results")] = None,
    assume: Annotated[list[str] | None, typer.Option(help="condition that holds, such as (eq (mod n 8) 0)")] = None,
    optimal: Annotated[bool, typer.Option(help="exact extraction and strength reduction (needs highspy)")] = False,
    steps: Annotated[bool, typer.Option("--steps", help="show which rules fired")] = False,
    view: Annotated[Path | None, typer.Option(help="write a picture of the e-graph to this HTML file")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Simplify index expressions under ranges; every result is validated and never dearer."""
    if (expr is None) == (jsonl is None):
        raise ParseError("give either an expression or --jsonl")
    if jsonl is not None:
        if steps or view is not None or var or assume:
            raise ParseError("--var, --assume, --steps and --view are for one expression, not for --jsonl")
        bad = simplify_lines(jsonl, output, optimal)
        if bad:
            stderr().print(f"{bad} bad row{'s' if bad > 1 else ''} in {jsonl}", markup=False, soft_wrap=True)
            raise typer.Exit(2)
        return
    assert expr is not None
    if output is not None:
        raise ParseError("-o is for --jsonl")
    row = {"expr": expr, "vars": dict(parse_range(v) for v in var or ()), "assume": assume or []}
    _one(row, optimal, steps, view, as_json)


def _one(row: dict[str, Any], optimal: bool, steps: bool, view: Path | None, as_json: bool) -> None:
    from ..egraph import batch  # noqa: F401  (loading it is not the row's time)

    began = time.perf_counter()
    term, ranges = problem(row)
    assume = conditions(row)
    made = _solve_under((term, ranges), assume, optimal) if assume else _solve([(term, ranges)], optimal)[0]
    if isinstance(made, TirxError):
        raise made
    if steps and not made.steps and not assume:  # the cheapest term was constructed; the rules may have found it too
        searched = _solve([(term, ranges)], optimal, traced=True)[0]
        if not isinstance(searched, TirxError) and searched.cost <= made.cost:
            made = searched
    found = _result(row, made, 1e3 * (time.perf_counter() - began))
    if view is not None:
        _write_view(view, term, ranges)
    if as_json:
        told = {"steps": describe_steps(made), "trace": _trace(term, ranges, assume)} if steps else {}
        print_json({**found, **told})
        return
    # Plain print: rich's markup costs a tenth of the cold start and there is nothing to colour.
    print(f"{infix(term)}\n  = {infix(made.expr)}")
    print(f"cost {made.cost_in} → {made.cost}, validated by {made.validated_by}, {found['ms']:.1f} ms")
    if steps:
        _print_steps(made, term)
        _print_trace(_trace(term, ranges, assume))


def _write_view(path: Path, term: Term, ranges: dict[str, tuple[int, int]]) -> None:
    from ..egraph.encode import TooBig
    from ..egraph.view import page

    try:
        text = page([term], ranges)
    except TooBig:
        raise ParseError("no e-graph to draw: a constant or a range is beyond 64 bits") from None
    with _opened(path) as write:
        write(text)


def add(app: typer.Typer) -> None:
    app.command("simplify")(simplify_command)
