"""Theorems about the hardware's swizzles, tensor-memory data paths and register fragments; records in ``proofs/``.

Swizzles have parameters M (``per_element``), B (``swizzle_len``) and S (``atom_len``).  For symbolic parameters their
laws are proved on bit-vectors, addresses any signed number of 8 and 16 bits in arithmetic that cannot wrap; at 32 bits
every (M, B, S) with M + B + S <= 32 is proved by itself, as affine maps over GF(2).  The modes of the hardware come from
the table that descriptors and tensor maps are encoded with, and are also written out as the figures of the PTX ISA show
them: 16-byte cells of a 128-byte line, XORed by the number of the line.  Layouts are finite and are decided by
``layouts``, each verdict replayed by ``check``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import ProofError
from ..ir.index import Term, show, substitute
from ..resources import proofs_dir
from .obligations import Goal, Obligation

FILE = "theorems.json"
ELEMENT_BITS = (4, 8, 16, 32, 64, 128)
WIDTHS = (8, 16, 32, 64)
SYMBOLIC_WIDTHS = (8, 16)
ADDRESS_BITS = 32


@dataclass(frozen=True)
class Theorem:
    """``statement`` is for people, ``obligation`` for the prover; a layout theorem has ``questions`` instead."""

    name: str
    statement: str
    obligation: Obligation | None = None
    questions: tuple[tuple[str, Any, Any], ...] = ()

    @property
    def digest(self) -> str:
        """Of what is claimed, not of its wording."""
        if self.obligation is not None:
            text = "\n".join([*map(show, self.obligation.hypotheses), *(show(g.term) for g in self.obligation.goals)])
        else:
            text = "\n".join(f"{kind} {layout} {detail}" for kind, layout, detail in self.questions)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class TheoremRecord:
    """One entry of ``proofs/theorems.json``."""

    name: str
    digest: str
    statement: str
    verdict: str
    procedure: str
    widths: tuple[int, ...] = ()
    claims: int = 1
    rlimit: int = 0


# ---- swizzles

X, LOW, LEN, SHIFT = "x", "M", "B", "S"
_ONES: Term = ("sub", ("shl", 1, LEN), 1)
_PARAMETERS: tuple[Term, ...] = (("le", 0, LOW), ("le", 0, LEN), ("le", 0, SHIFT))
_APART: Term = ("le", LEN, SHIFT)  # sources and targets do not overlap


def inner(x: Term) -> Term:
    """``swizzle_inner``: bits [M+S, M+S+B) XORed into bits [M, M+B)."""
    return ("xor", x, ("shl", ("and", ("shr", ("shr", x, LOW), SHIFT), _ONES), LOW))


def outer(x: Term) -> Term:
    """The other kind: bits [M, M+B) XORed into bits [M+S, M+S+B)."""
    return ("xor", x, ("shl", ("shl", ("and", ("shr", x, LOW), _ONES), LOW), SHIFT))


def cute(x: Term) -> Term:
    """CuTe's ``Swizzle<B, M, S>`` for S >= 0: x ^ ((x & (ones << M+S)) >> S)."""
    return ("xor", x, ("shr", ("and", x, ("shl", ("shl", _ONES, LOW), SHIFT)), SHIFT))


def cute_negative(x: Term) -> Term:
    """CuTe's ``Swizzle<B, M, -S>``: x ^ ((x & (ones << M)) << S)."""
    return ("xor", x, ("shl", ("and", x, ("shl", _ONES, LOW)), SHIFT))


def _period() -> Term:
    return ("shl", 1, ("add", ("add", LOW, SHIFT), LEN))


def _claim(name: str, statement: str, goals: list[Term], hypotheses: tuple[Term, ...] = ()) -> Theorem:
    facts = (*_PARAMETERS, *hypotheses)
    sorts = {X: "E", LOW: "i64", LEN: "i64", SHIFT: "i64"}
    ob = Obligation(name, facts, tuple(Goal(name, g) for g in goals), sorts, True)
    return Theorem(name, statement, ob)


def symbolic_swizzles() -> Iterator[Theorem]:
    """For all parameters."""
    for kind, swizzle, other in (("inner", inner, cute), ("outer", outer, cute_negative)):
        sign = "" if kind == "inner" else "-"
        text = f"the {kind} swizzle (M, B, S) is CuTe's Swizzle<B, M, {sign}S>, for all M, B, S >= 0"
        yield _claim(f"swizzle/{kind}-is-cute", text, [("eq", swizzle(X), other(X))])
        text = f"the {kind} swizzle is its own inverse if B <= S"
        yield _claim(f"swizzle/{kind}-involution", text, [("eq", swizzle(swizzle(X)), X)], (_APART,))
        inside: Term = ("land", ("le", 0, swizzle(X)), ("lt", swizzle(X), _period()))
        text = f"the {kind} swizzle maps each period of 2**(M+B+S) into itself (with its inverse: one to one)"
        yield _claim(f"swizzle/{kind}-period", text, [inside], (_APART, ("le", 0, X), ("lt", X, _period())))
        start: Term = ("mul", ("div", X, _period()), _period())
        repeated: Term = ("add", start, swizzle(("mod", X, _period())))
        text = f"the {kind} swizzle does the same in every period"
        yield _claim(f"swizzle/{kind}-repeats", text, [("eq", swizzle(X), repeated)], (_APART,))


def _cells(x: Term, span: int) -> Term:
    """The figure: the 16-byte cell within a span of a 128-byte line is XORed by the number of the line."""
    cells = span // 16
    line: Term = ("div", x, 128)
    cell: Term = ("mod", ("div", x, 16), cells)
    above: Term = ("mul", ("div", x, span), span)
    return ("add", ("add", above, ("mul", ("xor", cell, ("mod", line, cells)), 16)), ("mod", x, 16))


def hardware_swizzles() -> Iterator[Theorem]:
    """For each mode, and each element width: elements swizzled as TIRx does are bytes swizzled as the hardware does."""
    from ..layout.hardware import SwizzleMode, swizzle_for
    from ..ptx.swizzle_modes import SWIZZLES

    for mode in (SwizzleMode.SWIZZLE_32B_ATOM, SwizzleMode.SWIZZLE_64B_ATOM, SwizzleMode.SWIZZLE_128B_ATOM):
        name = f"{mode.span_bytes}B"
        table = SWIZZLES[name]
        hardware: Term = ("xor", X, ("and", ("shr", X, table.shift), table.mask))
        text = (
            f"mode {name}: descriptor code {table.code} and tensor-map code {table.tensor_map_code} XOR 16-byte cells by lines"
        )
        yield _fixed(f"swizzle/{name}-cells", text, [("eq", hardware, _cells(X, mode.span_bytes))])
        for bits in ELEMENT_BITS:
            s = swizzle_for(f"uint{bits}" if bits <= 64 else "uint32x4", mode)
            element: Term = ("xor", X, ("shr", ("and", X, s.source_mask), s.atom_len))
            address: Term = ("mul", X, bits)  # in bits, so that 4-bit elements have one too
            there: Term = ("xor", address, ("and", ("shr", address, table.shift), 8 * table.mask))
            text = f"mode {name} on {bits}-bit elements is the {name} swizzle of their addresses"
            yield _fixed(f"swizzle/{name}-{bits}bit", text, [("eq", ("mul", element, bits), there)])


def _fixed(name: str, statement: str, goals: list[Term]) -> Theorem:
    ob = Obligation(name, (("le", 0, X),), tuple(Goal(name, g) for g in goals), {X: "E"}, True)
    return Theorem(name, statement, ob)


# ---- layouts


def fragments() -> Iterator[Theorem]:
    """Every shape, repeat, row count and element width of ``tcgen05.ld``/``st``: one place each, no register unused."""
    from ..errors import LayoutError
    from ..layout.hardware import LOAD_ATOMS, tcgen05_atom_layout

    for shape, atom in LOAD_ATOMS.items():
        for rows in (64, 128):
            for dtype, bits in (("float32", 32), ("float16", 16)):
                questions: list[tuple[str, Any, Any]] = []
                for repeat in atom.repeats:
                    columns = _columns(shape, atom.width, repeat, rows, bits)
                    try:
                        layout = tcgen05_atom_layout(shape, (rows, columns), dtype)
                    except LayoutError:
                        continue
                    each = rows * columns // 128
                    lanes = {"tid_in_wg": 128} if shape == "32x32b" else {"wid_in_wg": 4, "laneid": 32}
                    questions += [("injective", layout, None), ("covers", layout, {**lanes, "m": each})]
                if not questions:
                    raise ProofError(f"theorems: no layout for tcgen05.ld.{shape} with {rows} rows of {dtype}")
                text = f"tcgen05.ld.{shape} of {rows} rows of {bits}-bit elements, every repeat: each register once"
                yield Theorem(f"fragment/{shape}-{rows}-{bits}bit", text, None, tuple(questions))


def _columns(shape: str, width: int, repeat: int, rows: int, bits: int) -> int:
    groups = 128 // rows if shape == "32x32b" else 1
    return width * repeat * groups * (32 // bits)


def data_paths() -> Iterator[Theorem]:
    """Data paths A to G: one place per element, and (with both slabs where there are two) every lane of every column."""
    from ..layout import Iter, TileLayout
    from ..layout.axis import TLane
    from ..layout.hardware import DATAPATHS, tmem_datapath_layout

    for letter, row in DATAPATHS.items():
        questions: list[tuple[str, Any, Any]] = []
        for columns in (32, 64, 128, 256):
            layout = tmem_datapath_layout(letter, row.rows, columns)
            whole = layout
            if row.sub_slabs > 1:
                whole = TileLayout((Iter(row.sub_slabs, 16, TLane), *layout.shard))
            extents = {"TLane": 128, "TCol": columns // row.column_groups}
            questions += [("injective", whole, None), ("covers", whole, extents)]
        yield Theorem(f"datapath/{letter}", f"data path {letter} ({row.doc}): every lane of its columns once", None,
                      tuple(questions))  # fmt: skip


def theorems() -> list[Theorem]:
    """All of them, in a fixed order."""
    return [*symbolic_swizzles(), *hardware_swizzles(), *fragments(), *data_paths()]


# ---- proofs and records


def prove_theorem(theorem: Theorem) -> TheoremRecord:
    """Prove one; the verdict is proved, refuted or unknown."""
    if theorem.obligation is not None:
        if LOW in theorem.obligation.sorts:
            return _prove_symbolic(theorem, theorem.obligation)
        from .prover import prove

        proof = prove(theorem.obligation, WIDTHS)
        return TheoremRecord(theorem.name, theorem.digest, theorem.statement, proof.verdict, proof.procedure,
                             proof.widths, len(theorem.obligation.goals), proof.rlimit)  # fmt: skip
    from . import layouts
    from .check import check

    verdict, by = "proved", set()
    for kind, layout, detail in theorem.questions:
        found = layouts.injective(layout) if kind == "injective" else layouts.covers(layout, detail)
        by.add(found.decided_by)
        if found.status != "equal" or not check(found).ok:
            verdict = "refuted" if found.status == "different" else "unknown"
    return TheoremRecord(theorem.name, theorem.digest, theorem.statement, verdict, ", ".join(sorted(by)),
                         claims=len(theorem.questions))  # fmt: skip


def _prove_symbolic(theorem: Theorem, ob: Obligation) -> TheoremRecord:
    """Symbolic parameters at 8 and 16 bits, then each parameter at 32."""
    from . import bitvector

    widths: list[int] = []
    used = 0
    for w in SYMBOLIC_WIDTHS:
        found = bitvector.check(ob, w)
        used = max(used, found.used)
        if found.result == "unsat":
            widths.append(w)
        elif found.result == "sat":
            return TheoremRecord(theorem.name, theorem.digest, theorem.statement, "refuted", "bit-vectors", tuple(widths))
    cases = _each_parameter(ob, ADDRESS_BITS)
    proved = tuple(widths) == SYMBOLIC_WIDTHS and cases > 0
    by = f"bit-vectors; gf2 for each of {cases} parameters at {ADDRESS_BITS} bits" if cases else "bit-vectors"
    return TheoremRecord(theorem.name, theorem.digest, theorem.statement, "proved" if proved else "unknown", by,
                         (*widths, *((ADDRESS_BITS,) if cases else ())), 1, used)  # fmt: skip


def _each_parameter(ob: Obligation, bits: int) -> int:
    """Prove the goals for every (M, B, S) with M + B + S <= ``bits`` that the hypotheses admit, at addresses
    0 .. 2**bits - 1 (or one period); how many there were, 0 if one isn't proved."""
    from .validate import Validator

    cases = 0
    for low in range(bits + 1):
        for count in range(bits + 1 - low):
            for shift in range(bits + 1 - low - count):
                values: dict[str, Term] = {LOW: low, LEN: count, SHIFT: shift}
                if _APART in ob.hypotheses and count > shift:
                    continue
                within = any(isinstance(h, tuple) and h[:2] == ("lt", X) for h in ob.hypotheses)
                top = (1 << (low + count + shift if within else bits)) - 1
                validator = Validator({X: (0, top)})
                for g in ob.goals:
                    if validator.compare(substitute(g.term, values), 1).status != "equal":
                        return 0
                cases += 1
    return cases


def read_theorems(folder: Path | None = None) -> list[TheoremRecord]:
    """The records; empty if there are none yet."""
    path = (proofs_dir() if folder is None else folder) / FILE
    if not path.is_file():
        return []
    return [TheoremRecord(**{**r, "widths": tuple(r["widths"])}) for r in json.loads(path.read_text())]


def write_theorems(records: list[TheoremRecord], folder: Path | None = None) -> Path:
    """Replace the records."""
    path = (proofs_dir() if folder is None else folder) / FILE
    path.write_text("[\n" + ",\n".join(json.dumps(asdict(r)) for r in records) + "\n]\n")
    return path


def check_theorems(*, recompute: bool = True, folder: Path | None = None) -> tuple[list[TheoremRecord], list[str]]:
    """(records in force, problems): a theorem without record, a record without theorem, another digest or verdict."""
    recorded = {r.name: r for r in read_theorems(folder)}
    rows: list[TheoremRecord] = []
    problems = []
    for t in theorems():
        known = recorded.pop(t.name, None)
        if known is None:
            problems.append(f"{t.name}: no record")
        elif known.digest != t.digest:
            problems.append(f"{t.name}: the claim has changed since it was proved")
        elif known.verdict != "proved":
            problems.append(f"{t.name}: recorded as {known.verdict}")
        now = prove_theorem(t) if recompute else known
        if now is not None:
            rows.append(now)
            if now.verdict != "proved" and recompute:
                problems.append(f"{t.name}: {now.verdict}")
    problems += [f"{name}: a record, but no such theorem" for name in recorded]
    return rows, problems
