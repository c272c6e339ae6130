"""Kernels that move a tile through registers that threads share out."""

from __future__ import annotations

from dataclasses import dataclass

from tirx_eq.ir import PrimFunc

from .kernels import kernel

AXES = "from tirx_eq.layout import laneid, warpid, wid_in_wg, tx\n"


@dataclass(frozen=True)
class Layout:
    """A tile of ``shape`` in ``registers`` elements per thread of a scope."""

    scope: str
    shape: tuple[int, int]
    text: str
    registers: int


#: One row per thread; the accumulator fragment of mma.m16n8; rows along registers; copies in every warp; rows of a CTA.
LAYOUTS = {
    "rows of a warpgroup": Layout("wg", (128, 16), "S[(128, 16):(1 @ tid_in_wg, 1)]", 16),
    "fragment": Layout("warp", (16, 16), "S[(2, 8, 2, 4, 2):(2, 4 @ laneid, 4, 1 @ laneid, 1)]", 8),
    "columns": Layout("cta", (16, 128), "S[(16, 128):(1, 1 @ tx)]", 16),
    "copies": Layout("cta", (32, 16), "S[(32, 16):(1 @ laneid, 1)] + R[4:1 @ warpid]", 16),
    "rows of a CTA": Layout("cta", (128, 8), "S[(4, 32, 8):(1 @ warpid, 1 @ laneid, 1)]", 8),
    "transposed pairs": Layout("wg", (64, 16), "S[(4, 2, 4, 2, 2, 8):(1 @ wid_in_wg, 2, 1 @ laneid, 1, 4, 4 @ laneid)]", 8),
    "operand in every warp": Layout(
        "wg", (16, 16), "S[(2, 8, 2, 4, 2):(2, 4 @ laneid, 4, 1 @ laneid, 1)] + R[4:1 @ wid_in_wg]", 8
    ),
    "scattered registers": Layout("warp", (32, 16), "S[(32, 2, 8):(1 @ laneid, 1, 2)]", 16),
}  # fmt: skip


def through_registers(layout: Layout, dtype: str, place: str, column_major: bool = False) -> PrimFunc:
    """B = A by way of registers; the copies between ``place`` (global or shared) and registers are at the layout's scope."""
    rows, columns = layout.shape
    guard = "if w == 0:\n    " if layout.scope == "warp" else ""
    lines = ["tid = Tx.thread_id([128])", "w = Tx.warp_id([4])", f'r = Tx.alloc_local(({layout.registers},), "{dtype}")',
             f"v = r.view({rows}, {columns}, layout=TileLayout({layout.text}))"]  # fmt: skip
    given, made = "A", "B"
    if place == "shared":
        order = f", layout=TileLayout(S[({rows}, {columns}):(1, {rows})])" if column_major else ""
        lines += [f's = Tx.alloc_shared([{rows}, {columns}], "{dtype}"{order})',
                  f'q = Tx.alloc_shared([{rows}, {columns}], "{dtype}"{order})',
                  "Tx.cta.copy(s[:, :], A[:, :])", "Tx.cuda.cta_sync()"]  # fmt: skip
        given, made = "s", "q"
    lines += [f"{guard}Tx.{layout.scope}.copy(v[:, :], {given}[:, :])", f"{guard}Tx.{layout.scope}.copy({made}[:, :], v[:, :])"]
    if place == "shared":
        lines += ["Tx.cuda.cta_sync()", "Tx.cta.copy(B[:, :], q[:, :])"]
    params = f'A: Tx.Buffer(({rows}, {columns}), "{dtype}"), B: Tx.Buffer(({rows}, {columns}), "{dtype}")'
    return kernel("\n".join(lines), params, AXES)
