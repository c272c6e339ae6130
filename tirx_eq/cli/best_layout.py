"""``tirx-eq best-layout``: the layout of a shared buffer with the fewest bank conflicts over a list of accesses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import LayoutError, ParseError
from .layouts import parse_shape
from .output import print_json, stdout, table, write_text

if TYPE_CHECKING:
    from ..solve.memory.best_layout import BestLayout


def best_layout_command(
    shape: Annotated[str, typer.Argument(help="extents of the buffer, such as 64,64")],
    access: Annotated[
        list[str] | None,
        typer.Option("--access", help="row, column, ldmatrix, tma, mma; column:8: 8 elements per lane, row*3: weight 3"),
    ] = None,
    registers: Annotated[
        list[str] | None, typer.Option("--registers", help="a distribution over threads that loads or stores the whole buffer")
    ] = None,
    dtype: Annotated[str, typer.Option(help="element type")] = "f16",
    family: Annotated[
        list[str] | None, typer.Option("--family", help="hardware, xor, padding, matrix; several times; default: all")
    ] = None,
    recheck: Annotated[bool, typer.Option("--recheck", help="repeat the proof with independent code")] = False,
    picture: Annotated[bool, typer.Option("--picture", help="draw the layout in the terminal, coloured by bank")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="write an SVG picture here, coloured by bank")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Find the swizzle or padding under which the accesses need the fewest wavefronts, with the proof."""
    from ..solve.memory.best_layout import best_layout
    from ..solve.memory.best_layout_check import recheck as again

    dims = parse_shape(shape)
    assert dims is not None
    accesses: list[Any] = list(access or [])
    for text in registers or []:
        accesses += _register_accesses(text, dims, dtype)
    found = best_layout(dims, dtype, accesses or ["row", "column"], family=family or "auto")
    confirmed = again(found) if recheck else None
    if output is not None:
        write_text(output, _drawing(found, False))
    if as_json:
        print_json(found.to_json() | ({"recheck": confirmed} if confirmed else {}))
        return
    _print(found)
    if confirmed:
        stdout().print(f"checked again: {confirmed}", markup=False, soft_wrap=True)
    if picture:
        print(_drawing(found, True))


def _register_accesses(text: str, dims: tuple[int, ...], dtype: str) -> list[Any]:
    """The accesses of a distribution, in the longest vectors that it allows."""
    from ..interop.layouts import read_layout
    from ..solve.memory.access import distributed, element_bits

    layout = read_layout(text)
    vector = max(1, 128 // element_bits(dtype))
    while vector > 1:
        try:
            return distributed(layout, dims, dtype, vector)
        except LayoutError:
            vector //= 2
    return distributed(layout, dims, dtype, 1)


def _drawing(found: BestLayout, terminal: bool) -> str:
    from ..layout import Layout, draw

    if not isinstance(found.layout, Layout):
        raise ParseError(f"there is no picture of the matrix {found.label}", hint="restrict --family to the others")
    layout: Layout = found.layout
    dims: Any = found.shape
    if layout.size() != draw.product_int(dims):
        dims = None
    if terminal:
        return draw.text(layout, dims, colour="bank", dtype=found.dtype, colours=stdout().is_terminal)
    return draw.svg(layout, dims, colour="bank", dtype=found.dtype)


def _print(found: BestLayout) -> None:
    out = stdout()
    out.print(f"{found.label}: {found.layout.script(prefix='')}", markup=False, soft_wrap=True)
    rows = [(a.name, a.weight, w, i) for a, w, i in zip(found.accesses, found.wavefronts, found.ideal)]
    shown = rows if len(rows) <= 16 else [*rows[:15], (f"and {len(rows) - 15} more", "", "", "")]
    out.print(table("Wavefronts", ("access", "weight", "wavefronts", "least"), shown, right=(1, 2, 3)))
    out.print(f"{found.total} in all, {found.bytes} bytes; {found.proof.kind}: {found.proof.statement}", soft_wrap=True)
    if found.runner_ups:
        columns = ("runner-up", "family", "wavefronts", "bytes")
        ups = [(s.member.label, s.member.family, s.total, s.bytes) for s in found.runner_ups]
        out.print(table("", columns, ups, right=(2, 3)))


def add(app: typer.Typer) -> None:
    app.command("best-layout")(best_layout_command)
