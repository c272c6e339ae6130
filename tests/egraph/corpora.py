"""The corpora that the simplifier is measured on, as terms with ranges."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tirx_eq.ir.index import Term, parse

DATA = Path(__file__).resolve().parents[1] / "data"
OPAQUE = 16383
"""Largest value of a variable of which nothing is known."""


@dataclass(frozen=True)
class Row:
    """An expression, its ranges, and what to compare the result with."""

    id: str
    term: Term
    ranges: dict[str, tuple[int, int]]
    data: dict[str, Any]


def rows(name: str, opaque: int = OPAQUE) -> list[Row]:
    """Rows of ``tests/data/<name>``; a range of null is ``0..opaque``."""
    out = []
    for line in (DATA / name).read_text().splitlines():
        data = json.loads(line)
        ranges = {k: (0, opaque) if v is None else (v[0], v[1]) for k, v in data["vars"].items()}
        out.append(Row(data["id"], parse(data["expr"]), ranges, data))
    return out


def operators(term: Term) -> int:
    """Distinct operations in a term."""
    seen: set[Term] = set()
    stack = [term]
    while stack:
        t = stack.pop()
        if isinstance(t, tuple) and t not in seen:
            seen.add(t)
            stack.extend(t[1:])
    return len(seen)
