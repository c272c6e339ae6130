"""Printing: rich consoles, tables, JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TirxError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: Columns when the output is not a terminal: wide enough for the tables.
WIDE = 160


def stdout() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDE)


def stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def slow_progress(after: float = 1.0) -> Callable[[str], None]:
    """Tells on standard error what is being done, once that takes over ``after`` seconds, at most four times in one."""
    began = time.monotonic()
    last = began - 1.0

    def tell(text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - began > after and now - last > 0.25:
            last = now
            stderr().print(f"[dim]{now - began:5.1f} s  {text}[/]", soft_wrap=True)

    return tell


def print_json(data: Any) -> None:
    """JSON on standard output, one document."""
    print(json.dumps(data, indent=2))


def write_text(path: Path, text: str) -> None:
    """``text`` in the file, ended by a new line.  Raises TirxError if it can't be written."""
    try:
        path.write_text(text if not text or text.endswith("\n") else text + "\n")
    except OSError as error:
        raise TirxError(f"can't write {path}: {error.strerror}") from None


_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "//", "mod": "%", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
    "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "land": "and", "lor": "or",
}  # fmt: skip
_BINDING = {
    "or": 4, "xor": 5, "and": 6, "shl": 7, "shr": 7, "add": 8, "sub": 8, "mul": 9, "div": 9, "mod": 9,
    "lt": 3, "le": 3, "eq": 3, "ne": 3, "land": 2, "lor": 1,
}  # fmt: skip


def infix(term: Any) -> str:
    """A neutral index term as Python would write it, however deep it nests."""
    out: list[str] = []
    todo: list[str | tuple[Any, int]] = [(term, 0)]  # text, or a term and how tightly what is around it binds
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            out.append(item)
            continue
        t, outer = item
        if not isinstance(t, tuple):
            out.append(str(t))
            continue
        op, *args = t
        parts: list[str | tuple[Any, int]]
        if op not in _INFIX:
            parts = [f"{op}("]
            for a in args:
                parts += [(a, 0), ", "]
            parts[-1] = ")"
        else:
            level = _BINDING[op]
            # The right operand binds tighter: a - (b - c), a // (b // c).
            parts = [(args[0], level), f" {_INFIX[op]} ", (args[1], level + 1)]
            if level < outer:
                parts = ["(", *parts, ")"]
        todo += reversed(parts)
    return "".join(out)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Iterable[int] = ()) -> Table:
    """A rich table; columns numbered in ``right`` are aligned to the right."""
    from rich import box
    from rich.table import Table

    aligned = set(right)
    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for i, name in enumerate(columns):
        made.add_column(name, justify="right" if i in aligned else "left", overflow="fold")
    for row in rows:
        made.add_row(*(str(v) for v in row))
    return made
