"""The table of primitives: the document is what the compiler does, and the lowered cells compute what they mean.

A share of the cells is checked in every run; with ``TIRX_EQ_CELLS=1`` all of them are.
"""

from __future__ import annotations

import zlib

import pytest

from .cells import DTYPES, PRIMITIVES, SCOPES, Cell
from .document import DOCUMENT, REFUSED, render
from .reasons import REASONS
from .run import ALL, SHARE, execute
from .survey import groups, load, summary


def chosen(primitive: str) -> list[tuple[Cell, ...]]:
    """The groups of a primitive's cells that this run checks; the first lowered one among them."""
    every = groups(primitive)
    if ALL:
        return every
    return [g for g in every if zlib.crc32(f"{primitive} {g[0].placement} {g[0].scope}".encode()) % SHARE == 0]


def test_the_document_is_the_data():
    assert DOCUMENT.read_text() == render(load())


def test_no_cell_is_blank():
    data = load()
    assert list(data) == list(PRIMITIVES)
    for primitive, table in data.items():
        assert tuple(table) == PRIMITIVES[primitive].placements
        for by_scope in table.values():
            assert tuple(by_scope) == SCOPES
            for outcomes in by_scope.values():
                assert sorted(d for dtypes in outcomes.values() for d in dtypes) == sorted(DTYPES)


def test_every_refusal_has_a_reason_of_the_hardware():
    found = {o.removeprefix(REFUSED) for table in load().values() for by_scope in table.values()
             for outcomes in by_scope.values() for o in outcomes if o.startswith(REFUSED)}  # fmt: skip
    assert found <= set(REASONS), found - set(REASONS)


CHECKED = [(p, i, g) for p in PRIMITIVES for i, g in enumerate(chosen(p))]


@pytest.mark.parametrize(("primitive", "number", "group"), CHECKED, ids=lambda x: str(x) if isinstance(x, (str, int)) else "")
def test_the_document_is_what_the_compiler_does(primitive, number, group):
    known = load()[primitive][group[0].placement][group[0].scope]
    if not ALL:  # the dtypes of one outcome each
        wanted = {dtypes[zlib.crc32(str(group[0]).encode()) % len(dtypes)] for dtypes in known.values()}
        group = [c for c in group if c.dtype in wanted]
        known = {o: [d for d in dtypes if d in wanted] for o, dtypes in known.items()}
    assert summary(group) == known
    lowered = [c for c in group if any(c.dtype in dtypes for o, dtypes in known.items() if not o.startswith(REFUSED))]
    if lowered:
        execute(*lowered)
