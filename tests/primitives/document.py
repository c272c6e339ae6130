"""``docs/primitives.md`` from the surveyed data."""

from __future__ import annotations

from pathlib import Path

from .asynchronous import copies, products
from .cells import DTYPES, SCOPES
from .reasons import REASONS

DOCUMENT = Path(__file__).parents[2] / "docs" / "primitives.md"
REFUSED = "refused: "
SHORT = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    "float8_e8m0fnu": "ue8m0", "float4_e2m1fn": "e2m1", "int64": "s64", "int32": "s32", "uint32": "u32", "int16": "s16",
    "int8": "s8", "uint8": "u8", "bool": "bool",
}  # fmt: skip

INTRODUCTION = """# Tile primitives

What becomes of every tile primitive at every execution scope, for operands in registers, shared, global and tensor memory,
and in different ones, by dtype: the rules of the variants that are chosen (`rules/lower_*.egg`), or a letter that says why the
hardware can't.  `A + B` are the parts of a lowering in their order.  The kernels are those of `tests/primitives`: tiles of 128
rows by 128 threads, one row per thread where registers are shared out, and for a cluster twice that, a half in each of two CTAs
(axis `cbx`) unless it is in global memory; other shapes and layouts meet other variants, and
`kernel.explain()` tells for each call which condition kept which variant out.

This page is written by `python -m tests.primitives.survey`, which asks the compiler for every cell; the tests compare it with
what the compiler does, and run the lowered cells in the simulator against the interpreter.

*mixed*: the result in registers, the sources in shared and global memory and registers in turn.  A source of `cast` is f32
(f16 where the result is f32).  The second factor of `gemm` is the same for all rows, so every thread has it (in tensor
memory a warp has one in its own lanes); a reduction of e2m1 has two results for each thread, a byte.  Products of
fragments are a table of their own, like the asynchronous copies and products, whose tables follow from the compiler's own.
"""


def render(data: dict[str, dict[str, dict[str, dict[str, list[str]]]]]) -> str:
    """The document's text."""
    letters: dict[str, str] = {}
    sections = []
    for primitive, table in data.items():
        lines = [f"## {primitive}", "", "| operands | " + " | ".join(SCOPES) + " |", "|---" * (len(SCOPES) + 1) + "|"]
        for placement, by_scope in table.items():
            cells = [_cell(by_scope[scope], letters) for scope in SCOPES]
            lines.append(f"| {placement.replace('<-', '←')} | " + " | ".join(cells) + " |")
        sections.append("\n".join(lines))
    sections += [copies(), products()]
    why = ["## Why cells are refused", ""]
    why += [f"- **{letter}** — {_why(condition)}." for condition, letter in letters.items()]
    return "\n\n".join([INTRODUCTION.rstrip(), *sections, "\n".join(why)]) + "\n"


def _cell(outcomes: dict[str, list[str]], letters: dict[str, str]) -> str:
    """The outcomes of the dtypes of one cell, the lowered ones first."""
    parts = []
    for outcome, dtypes in sorted(outcomes.items(), key=lambda pair: (pair[0].startswith(REFUSED), pair[0])):
        shown = "all" if len(dtypes) == len(DTYPES) else " ".join(SHORT[d] for d in dtypes)
        if outcome.startswith(REFUSED):
            condition = outcome.removeprefix(REFUSED)
            letter = letters.setdefault(condition, chr(ord("a") + len(letters)))
            parts.append(f"— **{letter}**: {shown}")
        else:
            parts.append(f"{outcome}: {shown}")
    return "<br>".join(parts)


def _why(condition: str) -> str:
    return f"*{condition}*: {REASONS[condition]}" if condition in REASONS else condition
