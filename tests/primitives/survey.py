"""The table of primitives as data: surveyed from the compiler, kept in ``tests/data/primitives.json``.

``python -m tests.primitives.survey [PRIMITIVE...]`` surveys again (all, or those named) and writes the data and the document.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

from .cells import DTYPES, PRIMITIVES, SCOPES, Cell
from .run import outcomes

DATA = Path(__file__).parents[1] / "data" / "primitives.json"
#: placement -> scope -> outcome -> dtypes
Table = dict[str, dict[str, dict[str, list[str]]]]


def groups(primitive: str) -> list[tuple[Cell, ...]]:
    """The cells of a primitive, those that differ in dtype only together."""
    spec = PRIMITIVES[primitive]
    return [tuple(Cell(primitive, s, p, d) for d in DTYPES) for p, s in product(spec.placements, SCOPES)]


def survey(primitive: str) -> Table:
    """What the compiler does with every cell of a primitive."""
    table: Table = {}
    for group in groups(primitive):
        table.setdefault(group[0].placement, {})[group[0].scope] = summary(group)
    return table


def summary(group: Sequence[Cell]) -> dict[str, list[str]]:
    """Outcome -> dtypes of cells that differ in dtype only."""
    found: dict[str, list[str]] = {}
    for cell, outcome in zip(group, outcomes(group)):
        found.setdefault(str(outcome), []).append(cell.dtype)
    return found


def load() -> dict[str, Table]:
    """The data that are checked in."""
    found: dict[str, Table] = json.loads(DATA.read_text()) if DATA.is_file() else {}
    return found


def text(data: dict[str, Table]) -> str:
    """The data as JSON, a line per placement."""
    tables = []
    for primitive, table in data.items():
        lines = [f"  {json.dumps(placement)}: {json.dumps(by_scope)}" for placement, by_scope in table.items()]
        tables.append(f" {json.dumps(primitive)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(tables) + "\n}\n"


def main(names: Sequence[str]) -> None:
    """Survey the primitives named, or all, and write data and document."""
    from .document import DOCUMENT, render

    known, wanted = load(), list(names or PRIMITIVES)
    with ProcessPoolExecutor() as pool:
        for name, table in zip(wanted, pool.map(survey, wanted)):
            known[name] = table
            print(name, flush=True)
    known = {name: known[name] for name in PRIMITIVES if name in known}
    DATA.write_text(text(known))
    DOCUMENT.write_text(render(known))


if __name__ == "__main__":
    main(sys.argv[1:])
