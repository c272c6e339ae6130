"""Concrete forms of table rows, with operands that fit: what the assembler is asked about.

Everything here is derived from the table's data, so a row cannot be added without being probed.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tirx_eq.errors import PtxError
from tirx_eq.ptx import ptxas
from tirx_eq.ptx.builder import Kernel, Module, Param
from tirx_eq.ptx.check import SPACE_BITS, length
from tirx_eq.ptx.emit import Line, register_class
from tirx_eq.ptx.operands import SINK, Imm, Label, Pair, Reg, Vec, addr, tensor
from tirx_eq.ptx.syntax import Instruction, Match, Operand, check_bound, match_opcode
from tirx_eq.ptx.table import check_target
from tirx_eq.ptx.table.counts import COUNTS
from tirx_eq.ptx.target import find_target

#: Rows are probed at this PTX version; an older assembler (CUDA 13.0 reads 9.0) leaves out the rows above its own.
VERSION = min((9, 4), ptxas.newest_version()) if ptxas.find_tool("ptxas") else (9, 4)
NO_IMMEDIATE = ("f16", "bf16", "f16x2", "bf16x2", "f32x2", "u16x2", "s16x2", "b128", "pred")


def opcode_of(row: Instruction, choices: Iterable[str]) -> str:
    return row.mnemonic + "".join("." + c for c in choices if c)


def combinations(row: Instruction, limit: int) -> Iterator[tuple[str, ...]]:
    """Modifier combinations: all of them up to ``limit``, else one change at a time and a random sample."""
    groups = [(("",) if g.optional else ()) + g.choices for g in row.groups]
    total = 1
    for g in groups:
        total *= len(g)
    if total <= limit:
        yield from itertools.product(*groups)
        return
    base = tuple(g[0] for g in groups)
    seen = {base: None}
    for i, g in enumerate(groups):
        for choice in g[1:]:
            seen[base[:i] + (choice,) + base[i + 1 :]] = None
    rng = random.Random(row.mnemonic)
    for _ in range(4 * limit):
        if len(seen) >= limit:
            break
        seen[tuple(rng.choice(g) for g in groups)] = None
    yield from seen


def forms(row: Instruction, limit: int) -> Iterator[Match]:
    for choices in combinations(row, limit):
        match = match_opcode(row, opcode_of(row, choices))
        assert isinstance(match, Match), match
        yield match


def refusal(match: Match, target: str, version: tuple[int, int] = VERSION) -> str | None:
    """Why the table refuses this form of its row, or None."""
    reason = check_bound(match)
    if reason is not None:
        return reason
    try:
        check_target(match, find_target(target), version)
    except PtxError as error:
        return error.message
    return None


class Operands:
    """Makes operands for one kernel; sources are one register of each class."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.sources: dict[str, Reg] = {}

    def source(self, type_: str) -> Reg:
        cls = register_class(type_)
        if cls not in self.sources:
            self.sources[cls] = self.kernel.reg(cls)
        return self.sources[cls]

    def all(self, match: Match, trailing: bool, immediates: bool) -> list:
        """Operands of every position; free trailing ones only if ``trailing``; immediates where permitted if asked."""
        return [
            self.one(match, s, immediates)
            for s in match.instruction.operands
            if not s.when or (s.when == "?" and trailing) or match.has(s.when)
        ]

    def one(self, match: Match, spec: Operand, immediate: bool):
        type_ = match.type_of(spec.type)
        if spec.kind == "address":
            space = match.type_of(spec.space) or "generic"
            if space.startswith("param"):
                return addr(self.kernel.symbols["p0"])
            return addr(self.source(f"b{SPACE_BITS[space]}"))
        if spec.kind == "tensor":
            return tensor(self.source("b64"), [self.source("b32")] * COUNTS["coords"](match.bound))
        if spec.kind == "label":
            return Label("L_here")
        if spec.kind == "pair":
            return Pair(self.kernel.reg(type_), self.kernel.reg("pred"))
        if spec.kind == "pred":
            if immediate and spec.imm is not None:
                return Imm(1)
            return self.kernel.reg("pred") if spec.dst else self.source("pred")
        count = length(match, spec)
        if count:
            return Vec(tuple(self.kernel.reg(type_) if spec.dst else self.source(type_) for _ in range(count)))
        if not spec.reg:
            return SINK if spec.imm is None else Imm(spec.imm.high if immediate else spec.imm.low)
        if immediate and spec.anyimm and not spec.dst and (spec.imm is not None or type_ not in NO_IMMEDIATE):
            return Imm(spec.imm.high if spec.imm else 1)
        return self.kernel.reg(type_) if spec.dst else self.source(type_)


def probe_kernel(target: str, version: tuple[int, int] = VERSION) -> tuple[Module, Kernel]:
    module = Module(target, max(version, find_target(target).ptx))
    kernel = module.kernel("probe", [Param.scalar("p0", "u64")])
    kernel.place(Label("L_here"))
    return module, kernel


@dataclass(frozen=True)
class Verdict:
    """What table and assembler say about one instruction text."""

    row: Instruction
    opcode: str
    text: str
    table: str | None
    assembler: str | None


def ask(forms: list[tuple[Match, str | None]], target: str, version: tuple[int, int] = VERSION) -> list[Verdict]:
    """Ask the assembler's parser about many forms; ``forms`` pairs each with the table's reason against it."""
    out: list[Verdict] = []
    for start in range(0, len(forms), 400):
        chunk = forms[start : start + 400]
        module, kernel = probe_kernel(target, version)
        kernel._used["L_here"] = "probe"
        operands = Operands(kernel)
        for match, _ in chunk:
            text = match.opcode + " " + ", ".join(str(v) for v in operands.all(match, False, False)) + ";"
            kernel._lines.append(Line("instruction", text, match.opcode))
        source = module.text()
        lines = source.splitlines()
        first = lines.index("L_here:") + 1
        errors = ptxas.diagnostics(source, target.replace("sm_", "compute_"))
        located = {number for number in errors if number}
        assert not (errors and not located), f"the assembler gave no line: {errors}"
        for i, (match, reason) in enumerate(chunk):
            said = errors.get(first + i + 1)
            out.append(
                Verdict(match.instruction, match.opcode, lines[first + i].strip(), reason, said[0] if said else None)
            )
    return out
