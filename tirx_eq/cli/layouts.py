"""``tirx-eq equal``, ``conflicts`` and ``show``: claims about layouts and pictures of them.

A layout is given in any notation that :mod:`tirx_eq.interop.layouts` reads: ``tirx:`` (or none), ``cute:``,
``cute-flat:``, ``triton:``, ``isl:``, JSON.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import LayoutError, ParseError
from .output import print_json, stdout, write_text
from .simplify import read_jsonl

if TYPE_CHECKING:
    from ..layout import Layout


def parse_shape(text: str | None) -> tuple[int, ...] | None:
    """``128,64`` as extents."""
    if text is None:
        return None
    try:
        shape = tuple(int(part) for part in text.replace("x", ",").split(",") if part.strip())
    except ValueError:
        shape = ()
    if not shape or any(e < 1 for e in shape):
        raise ParseError(f"'{text}' is not a shape", hint="extents separated by commas, for example 128,64")
    return shape


def _layout(given: Any) -> Layout:
    """A layout from the text of a command line or a row of JSON lines (text or a specification object)."""
    if isinstance(given, dict):
        from ..layout import from_json

        return from_json(given)
    if not isinstance(given, str):
        raise ParseError(f"a layout is text or a JSON object, got {given!r}")
    from ..interop.layouts import read_layout

    return read_layout(given)


def _equal_row(row: dict[str, Any]) -> dict[str, Any]:
    from ..prove.layouts import equal

    for key in ("a", "b"):
        if key not in row:
            raise ParseError(f"the row has no '{key}'")
    began = time.perf_counter()
    shape = tuple(int(e) for e in row["shape"]) if row.get("shape") else None
    found = equal(_layout(row["a"]), _layout(row["b"]), shape)
    out: dict[str, Any] = {**({"id": row["id"]} if "id" in row else {}), "verdict": found.status}
    out["decided_by"] = found.decided_by
    if found.counterexample is not None:
        out["counterexample"] = found.counterexample
        if found.detail:
            out["detail"] = found.detail
    if found.status == "unknown" and found.smtlib:
        out["smtlib"] = found.smtlib
    out["ms"] = round(1e3 * (time.perf_counter() - began), 3)
    return out


def equal_command(
    a: Annotated[str | None, typer.Argument(help="a layout, for example 'cute:(8,(4,2)):(1,(8,32))'")] = None,
    b: Annotated[str | None, typer.Argument(help="the other one, for example 'tirx:S[64 : 1]'")] = None,
    shape: Annotated[str | None, typer.Option(help="extents of the buffer, such as 128,64")] = None,
    jsonl: Annotated[Path | None, typer.Option(help="file of rows {id, a, b, shape?}")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="where to write the rows' results")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Decide whether two layouts put every element at the same places; exit code 1 if they don't."""
    if (a is None or b is None) == (jsonl is None):
        raise ParseError("give either two layouts or --jsonl")
    if jsonl is not None:
        _equal_rows(jsonl, output)
        return
    dims = parse_shape(shape)
    found = _equal_row({"a": a, "b": b, **({"shape": dims} if dims else {})})
    if as_json:
        print_json(found)
    else:
        out = stdout()
        out.print(f"{found['verdict']}, decided by {found['decided_by']}, {found['ms']:.2f} ms", soft_wrap=True)
        if "counterexample" in found:
            where = ", ".join(f"{k} = {v}" for k, v in found["counterexample"].items())
            out.print(f"first difference at {where}", markup=False, soft_wrap=True)
        if "detail" in found:
            out.print(found["detail"], markup=False, soft_wrap=True)
    if found["verdict"] != "equal":
        raise typer.Exit(1)


def _equal_rows(jsonl: Path, output: Path | None) -> None:
    lines = []
    for number, row in read_jsonl(jsonl):
        try:
            lines.append(json.dumps(_equal_row(row)))
        except (TypeError, ValueError, KeyError) as error:
            raise ParseError(f"{jsonl}:{number}: {error}") from None
        except LayoutError as error:
            raise LayoutError(f"{jsonl}:{number}: {error.message}", hint=error.hint) from None
    _write(output, "".join(line + "\n" for line in lines))


def _write(output: Path | None, text: str) -> None:
    if output is None:
        print(text, end="")
        return
    write_text(output, text)


def _default_shape(layout: Layout) -> tuple[int, ...]:
    from ..layout.draw import default_shape

    return default_shape(layout)


def conflicts_command(
    layout: Annotated[str, typer.Argument(help="a shared-memory layout")],
    dtype: Annotated[str, typer.Option(help="element type")] = "f16",
    access: Annotated[str, typer.Option(help="row, column or ldmatrix")] = "column",
    vector: Annotated[int | None, typer.Option(help="elements per lane (default: 16 bytes)")] = None,
    shape: Annotated[str | None, typer.Option(help="extents of the buffer, such as 64,64")] = None,
    best: Annotated[bool, typer.Option(help="also search the swizzle with the fewest wavefronts")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Count the bank conflicts of one warp access; exit code 1 if there are any."""
    from ..ir import dtype as dt
    from ..layout import TileLayout, default_layout
    from ..layout.conflicts import PATTERNS, best_swizzle, conflicts

    found = _layout(layout)
    dims = parse_shape(shape) or _default_shape(found)
    if access not in PATTERNS:
        raise ParseError(f"unknown access '{access}'", hint=f"one of {', '.join(PATTERNS)}")
    name = dt.normalize(dtype)
    _, bits, lanes = dt.parse(name)
    pattern = PATTERNS[access](dims, name, max(1, 128 // (bits * lanes)) if vector is None else vector)
    counted = conflicts(found, name, pattern, dims)
    data: dict[str, Any] = {
        "access": pattern.name, "lanes": len(pattern.lanes), "vector": pattern.vector, "shape": list(dims),
        "wavefronts": counted.wavefronts, "ideal": counted.ideal, "ways": counted.ways,
        "collisions": [{"phase": p, "bank": b, "lanes": list(who)} for p, b, who in counted.collisions],
    }  # fmt: skip
    if best:
        plain = found if isinstance(found, TileLayout) else getattr(found, "tile", default_layout(dims))
        answer = best_swizzle(plain, [pattern], name, dims)
        data["best"] = {
            "layout": answer.layout.script(prefix=""), "wavefronts": answer.wavefronts, "ideal": answer.ideal,
            "tried": answer.tried,
        }  # fmt: skip
    if as_json:
        print_json(data)
    else:
        _print_conflicts(data)
    if not counted.conflict_free:
        raise typer.Exit(1)


def _print_conflicts(data: dict[str, Any]) -> None:
    out = stdout()
    verdict = "no conflicts" if data["wavefronts"] == data["ideal"] else f"{data['ways']}-way conflicts"
    out.print(
        f"{data['access']} access of {data['lanes']} lanes x {data['vector']} elements: "
        f"{data['wavefronts']} wavefronts, {data['ideal']} without conflicts: {verdict}"
    )
    for c in data["collisions"][:4]:
        out.print(f"  phase {c['phase']}, bank {c['bank']}: lanes {', '.join(map(str, c['lanes']))}")
    if len(data["collisions"]) > 4:
        out.print(f"  and {len(data['collisions']) - 4} more")
    if "best" in data:
        best = data["best"]
        out.print(f"best of {best['tried']} swizzles: {best['layout']}", markup=False, soft_wrap=True)
        out.print(f"  {best['wavefronts']} wavefronts, {best['ideal']} without conflicts")


def show_command(
    layout: Annotated[str, typer.Argument(help="a layout")],
    other: Annotated[str | None, typer.Argument(help="a second layout, to compare")] = None,
    shape: Annotated[str | None, typer.Option(help="extents of the buffer, such as 8,64")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="write an SVG picture here")] = None,
    colour: Annotated[str, typer.Option("--colour", "--color", help="auto, thread, warp, bank, atom or address")] = "auto",
    dtype: Annotated[str, typer.Option(help="element type, for banks and atoms")] = "f16",
    as_json: Annotated[bool, typer.Option("--json", help="print JSON: canonical form and facts")] = False,
) -> None:
    """Draw a layout: SVG with -o, text in the terminal; two layouts side by side with the first difference marked."""
    from ..layout import draw

    first = _layout(layout)
    second = None if other is None else _layout(other)
    dims: Sequence[int] | None = parse_shape(shape)
    options: dict[str, Any] = {"colour": colour, "dtype": dtype}
    if as_json:
        print_json([_facts(x) for x in (first, second) if x is not None])
        return
    if output is not None:
        made = draw.svg(first, dims, **options) if second is None else draw.svg_pair(first, second, dims, **options)
        _write(output, made)
        stdout().print(f"wrote {output}", markup=False)
        return
    options["colours"] = stdout().is_terminal
    made = draw.text(first, dims, **options) if second is None else draw.text_pair(first, second, dims, **options)
    print(made)


def _facts(layout: Layout) -> dict[str, Any]:
    from ..layout.image import bounds, injective

    data: dict[str, Any] = {"layout": layout.script(prefix=""), "canonical": layout.canonicalize().script(prefix="")}
    if layout.is_constant():
        data["spec"] = layout.to_json()
        data["size"] = layout.size()
        data["bounds"] = {axis: list(bounds(layout, axis)) for axis in layout.axes()}
        try:
            data["injective"] = injective(layout)
        except LayoutError as error:
            data["injective"] = None
            data["why"] = error.message
    return data


def add(app: typer.Typer) -> None:
    app.command("equal")(equal_command)
    app.command("conflicts")(conflicts_command)
    app.command("show")(show_command)
