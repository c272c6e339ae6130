"""Printing: rich consoles, tables, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def stdout() -> Console:
    return Console(highlight=False)


def stderr() -> Console:
    return Console(stderr=True, highlight=False)


def print_json(data: Any) -> None:
    """JSON on standard output, one document."""
    print(json.dumps(data, indent=2))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Iterable[int] = ()) -> Table:
    """A rich table; columns numbered in ``right`` are aligned to the right."""
    from rich import box

    aligned = set(right)
    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for i, name in enumerate(columns):
        made.add_column(name, justify="right" if i in aligned else "left", overflow="fold")
    for row in rows:
        made.add_row(*(str(v) for v in row))
    return made
