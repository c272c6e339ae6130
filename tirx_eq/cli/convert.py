"""``tirx-eq convert``: the cheapest way from one distribution of registers to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .layouts import parse_shape
from .output import print_json, stdout, table, write_text

if TYPE_CHECKING:
    from ..solve.redistribution.convert import Conversion


def convert_command(
    source: Annotated[str, typer.Argument(help="a layout over thread axes and m, such as 'S[(32, 4) : (1@laneid, 1)]'")],
    target: Annotated[str, typer.Argument(help="the layout wanted")],
    dtype: Annotated[str, typer.Option(help="element type of 8, 16 or 32 bits")] = "f32",
    shape: Annotated[str | None, typer.Option(help="extents of the logical tile, such as 16,16")] = None,
    way: Annotated[str | None, typer.Option(help="registers, shuffle or shared; default: the cheapest")] = None,
    scratch: Annotated[int | None, typer.Option(help="bytes of shared memory that may be used (default: 227 KB)")] = None,
    ptx: Annotated[Path | None, typer.Option(help="write the PTX here")] = None,
    program: Annotated[Path | None, typer.Option(help="write the TIRx function here")] = None,
    simulate: Annotated[bool, typer.Option("--simulate", help="also run the PTX on random data; exit 1 if wrong")] = False,
    picture: Annotated[bool, typer.Option("--picture", help="draw both distributions in the terminal")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="write an SVG picture of both here")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Convert registers between distributions: moves, shuffles, or through shared memory without conflicts; proved."""
    from ..interop.layouts import read_layout
    from ..layout import draw
    from ..solve.redistribution.convert import convert
    from ..solve.redistribution.program import source_of

    first, second = read_layout(source), read_layout(target)
    limit = {} if scratch is None else {"scratch": scratch}
    found = convert(first, second, dtype, shape=parse_shape(shape), way=way, **limit)
    right = _simulated(found) if simulate else None
    if ptx is not None:
        write_text(ptx, found.ptx)
    if program is not None:
        write_text(program, source_of(found.plan))
    if output is not None:
        write_text(output, draw.svg_pair(first, second, found.shape, colour="thread"))
    if as_json:
        print_json(found.to_json() | ({} if right is None else {"simulated": "right" if right else "wrong"}))
    else:
        _print(found, right)
        if picture:
            print(draw.text_pair(first, second, found.shape, colour="thread", colours=stdout().is_terminal))
    if right is False:
        raise typer.Exit(1)


def _simulated(found: Conversion) -> bool:
    """Whether the PTX takes random elements where they belong, without a fault."""
    import numpy as np

    size = found.src.bits
    kinds = {8: np.uint8, 16: np.uint16, 32: np.uint32}
    values = np.random.default_rng(0).integers(0, 1 << size, found.src.size).astype(kinds[size])
    empty = np.zeros((found.dst.threads, found.dst.words), np.uint32)
    result = found.kernel.simulate(found.registers(values), empty)
    wanted = np.where(found.dst.held >= 0, values[np.maximum(found.dst.held, 0)], 0)
    return not result.faults and bool((found.elements(result.arrays["dst"]) == wanted).all())


def _print(found: Conversion, right: bool | None) -> None:
    from ..solve.redistribution.convert import Candidate

    out = stdout()
    ways = [Candidate(found.plan, found.cost), *found.others]
    rows = [(c.plan.kind, c.describe(), c.plan.note, f"{c.cost.cycles:g}") for c in ways]
    out.print(table(f"{found.dst.scope} of {found.plan.threads} threads", ("way", "takes", "how", "cycles"), rows, right=(3,)))
    for what, reason in found.refused:
        out.print(f"not by {what}: {reason}", markup=False, soft_wrap=True)
    out.print(f"proved by {found.proof.decided_by}: {found.proof.detail}", soft_wrap=True)
    if right is not None:
        out.print(f"simulated: {'right' if right else 'WRONG'}")


def add(app: typer.Typer) -> None:
    app.command("convert")(convert_command)
