"""Pairs of register distributions: every ``tcgen05.ld`` atom, ``mma`` fragments, blocked rows and columns, copies, CTAs."""

from __future__ import annotations

from dataclasses import dataclass

from tirx_eq.layout import Layout, R, S, TileLayout, laneid, tcgen05_atom_layout, tid_in_wg, tx, warpid


@dataclass(frozen=True)
class Pair:
    name: str
    src: Layout
    dst: Layout
    dtype: str
    shape: tuple[int, ...]


def _tile(shard, replica=None) -> TileLayout:
    return TileLayout(shard if replica is None else shard + replica)


#: mma.m16n8k16 (PTX ISA 9.7.14.5.8) over a warp, 16-bit A and B; C also of 32 bits.  Lane = 4 * (row % 8) + pair of columns.
A16 = _tile(S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)])  # 16 x 16
B16 = _tile(S[(2, 4, 2, 8) : (2, 1 @ laneid, 1, 4 @ laneid)])  # K 16 x N 8
C16 = _tile(S[(2, 8, 4, 2) : (2, 4 @ laneid, 1 @ laneid, 1)])  # 16 x 8
C16X2 = _tile(S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)])  # two of them, 16 x 16
C16X4 = _tile(S[(2, 8, 4, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)])  # 16 x 32
#: mma.m16n8k32 of 8 bits: four columns to a register
A8 = _tile(S[(2, 8, 2, 4, 4) : (4, 4 @ laneid, 8, 1 @ laneid, 1)])  # 16 x 32
ROWS16 = _tile(S[(16, 2, 8) : (1 @ laneid, 16 @ laneid, 1)])  # half a row per lane
COLUMNS16 = _tile(S[(2, 8, 16) : (16 @ laneid, 1, 1 @ laneid)])  # half a column per lane
ROWS16X32 = _tile(S[(16, 2, 16) : (1 @ laneid, 16 @ laneid, 1)])
COLUMNS32 = _tile(S[(16, 32) : (1, 1 @ laneid)])  # 16 x 32, a column per lane
STRIPES16 = _tile(S[(8, 2, 4, 4) : (4 @ laneid, 4, 1 @ laneid, 1)])  # 16 x 16, four columns of two rows per lane
CYCLIC16 = _tile(S[(8, 32) : (1, 1 @ laneid)])  # 16 x 16, one element per lane in turn
K16_ROWS = _tile(S[(16, 2, 4) : (1 @ laneid, 16 @ laneid, 1)])  # 16 x 8
K16_COLUMNS = _tile(S[(4, 4, 8) : (8 @ laneid, 1, 1 @ laneid)])  # 16 x 8, four rows of a column
ATOMS = ("32x32b", "16x64b", "16x128b", "16x256b")
ROW_OF_WG = {32: _tile(S[(128, 32) : (1 @ tid_in_wg, 1)]), 64: _tile(S[(128, 64) : (1 @ tid_in_wg, 1)])}
#: 128 x n over a warpgroup: lanes along the rows, n / 32 columns each
LINES = {n: _tile(S[(4, 32, 32, n // 32) : (1 @ warpid, n // 32, 1 @ laneid, 1)]) for n in (32, 64)}
BLOCKS = {n: _tile(S[(4, 2, 16, n // 8, 8) : (1 @ warpid, n, 1 @ laneid, 8, 1)], R[2 : 16 @ laneid]) for n in (32,)}
COLUMN_OF_WG = {64: _tile(S[(2, 64, 64) : (64 @ tid_in_wg, 1, 1 @ tid_in_wg)])}
CTA_ROWS = _tile(S[(64, 4, 16) : (4 @ tx, 1 @ tx, 1)])  # 64 x 64 over 8 warps
CTA_COLUMNS = _tile(S[(4, 16, 64) : (64 @ tx, 1, 1 @ tx)])
CTA_SQUARES = _tile(S[(8, 8, 16, 4) : (16 @ tx, 4, 1 @ tx, 1)], R[2 : 128 @ tx])
#: a vector of 64 elements, two per lane; the same in every row of four lanes; everything in every lane
VECTOR = _tile(S[(32, 2) : (1 @ laneid, 1)])
VECTOR_QUADS = _tile(S[(8, 8) : (4 @ laneid, 1)], R[4 : 1 @ laneid])
VECTOR_ALL = _tile(S[(64,) : (1,)], R[32 : 1 @ laneid])
VECTOR_WARPS = _tile(S[(32, 2) : (1 @ laneid, 1)], R[4 : 1 @ warpid])
VECTOR_WG = _tile(S[(64,) : (1 @ tx,)], R[2 : 64 @ tx])
#: not powers of two: 48 rows of 40
ODD_ROWS = _tile(S[(48, 40) : (1 @ tx, 1)])
ODD_COLUMNS = _tile(S[(48, 40) : (1, 1 @ tx)])
ODD_LINES = _tile(S[(48, 5, 8) : (5, 1, 1 @ tx)])


def _atom(name: str, columns: int, dtype: str, rows: int = 128) -> Layout:
    return tcgen05_atom_layout(name, (rows, columns), dtype)


def pairs() -> list[Pair]:
    """All pairs, in a fixed order."""
    made: list[Pair] = []
    for a in ATOMS:
        for b in ATOMS:
            if a != b:
                made.append(Pair(f"{a} → {b}", _atom(a, 32, "float32"), _atom(b, 32, "float32"), "float32", (128, 32)))
    for a in ATOMS:
        half = _atom(a, 64, "float16")
        made.append(Pair(f"{a} → lines", half, LINES[64], "float16", (128, 64)))
        made.append(Pair(f"lines → {a}", LINES[64], half, "float16", (128, 64)))
        made.append(Pair(f"{a} → rows", _atom(a, 32, "float32"), ROW_OF_WG[32], "float32", (128, 32)))
        made.append(Pair(f"{a} → columns", half, COLUMN_OF_WG[64], "float16", (128, 64)))
        made.append(Pair(f"{a} of 64 rows → lines", _atom(a, 32, "float32", 64), _lines(64, 32), "float32", (64, 32)))
    fragments = [
        ("C → A", C16X2, A16, "float16", (16, 16)), ("C → A", C16X4, A8, "float8_e4m3fn", (16, 32)),
        ("A → C", A8, C16X4, "float8_e4m3fn", (16, 32)),
        ("A → rows", A16, ROWS16, "float16", (16, 16)), ("rows → A", ROWS16, A16, "float16", (16, 16)),
        ("A → columns", A16, COLUMNS16, "float16", (16, 16)), ("columns → A", COLUMNS16, A16, "float16", (16, 16)),
        ("A → stripes", A16, STRIPES16, "float16", (16, 16)), ("cyclic → A", CYCLIC16, A16, "float16", (16, 16)),
        ("B → rows", B16, K16_ROWS, "float16", (16, 8)), ("rows → B", K16_ROWS, B16, "float16", (16, 8)),
        ("B → columns", B16, K16_COLUMNS, "float16", (16, 8)), ("C → rows", C16, K16_ROWS, "float32", (16, 8)),
        ("C → columns", C16, K16_COLUMNS, "float32", (16, 8)), ("C → B", C16, B16, "float16", (16, 8)),
        ("A8 → rows", A8, ROWS16X32, "float8_e4m3fn", (16, 32)), ("rows → A8", ROWS16X32, A8, "float8_e4m3fn", (16, 32)),
        ("A8 → columns", A8, COLUMNS32, "float8_e4m3fn", (16, 32)),
        ("columns → A8", COLUMNS32, A8, "float8_e4m3fn", (16, 32)),
        ("rows → columns", ROWS16X32, COLUMNS32, "float8_e4m3fn", (16, 32)),
        ("rows → columns", ROWS16, COLUMNS16, "float32", (16, 16)),
        ("rows → columns over a CTA", CTA_ROWS, CTA_COLUMNS, "float32", (64, 64)),
        ("rows → columns over a CTA", CTA_ROWS, CTA_COLUMNS, "float16", (64, 64)),
        ("rows → columns over a CTA", CTA_ROWS, CTA_COLUMNS, "float8_e5m2", (64, 64)),
        ("squares with copies → rows over a CTA", CTA_SQUARES, CTA_ROWS, "float16", (64, 64)),
        ("rows → squares with copies over a CTA", CTA_ROWS, CTA_SQUARES, "float32", (64, 64)),
        ("blocks with copies → rows", BLOCKS[32], ROW_OF_WG[32], "float16", (128, 32)),
        ("vector → in every quad", VECTOR, VECTOR_QUADS, "float32", (64,)),
        ("in every quad → vector", VECTOR_QUADS, VECTOR, "float32", (64,)),
        ("in every lane → vector", VECTOR_ALL, VECTOR, "float16", (64,)),
        ("vector → in every lane", VECTOR, VECTOR_ALL, "float32", (64,)),
        ("vector per warp → per half", VECTOR_WARPS, VECTOR_WG, "float32", (64,)),
        ("48 x 40 rows → columns", ODD_ROWS, ODD_COLUMNS, "float32", (48, 40)),
        ("48 x 40 columns → lines", ODD_COLUMNS, ODD_LINES, "float16", (48, 40)),
        ("48 x 40 lines → rows", ODD_LINES, ODD_ROWS, "float8_e4m3fn", (48, 40)),
    ]  # fmt: skip
    return made + [Pair(*f) for f in fragments]


def _lines(rows: int, columns: int) -> TileLayout:
    return _tile(S[(4, rows // 4, columns) : (1 @ warpid, 1, 1 @ laneid)])
