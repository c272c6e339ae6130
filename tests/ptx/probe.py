"""Concrete forms of table rows, with operands that fit: what the assembler is asked about.

Everything here is derived from the table's data, so a row cannot be added without being probed.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from tirx_eq.errors import PtxError
from tirx_eq.ptx.builder import Kernel, Module, Param
from tirx_eq.ptx.check import _SPACE_BITS, length
from tirx_eq.ptx.operands import Imm, Pair, Reg, addr, tensor
from tirx_eq.ptx.syntax import Instruction, Match, Operand, check_bound, match_opcode
from tirx_eq.ptx.table import check_target
from tirx_eq.ptx.table.counts import COUNTS
from tirx_eq.ptx.target import find_target


def opcode_of(row: Instruction, choices: tuple[str, ...]) -> str:
    return row.mnemonic + "".join("." + c for c in choices if c)


def alternatives(row: Instruction) -> list[tuple[str, ...]]:
    """The choices of each group; "" for an optional group left out."""
    return [(("",) if g.optional else ()) + g.choices for g in row.groups]


def combinations(row: Instruction, limit: int, seed: int = 0) -> Iterator[tuple[str, ...]]:
    """Modifier combinations: all of them up to ``limit``, else one change at a time and a random sample."""
    groups = alternatives(row)
    total = 1
    for g in groups:
        total *= len(g)
    if total <= limit:
        yield from itertools.product(*groups)
        return
    base = tuple(g[0] for g in groups)
    seen = {base}
    yield base
    for i, g in enumerate(groups):
        for choice in g[1:]:
            changed = base[:i] + (choice,) + base[i + 1 :]
            seen.add(changed)
            yield changed
    rng = random.Random(f"{row.mnemonic}{seed}")
    while len(seen) < limit:
        pick = tuple(rng.choice(g) for g in groups)
        if pick not in seen:
            seen.add(pick)
            yield pick


def legal_forms(row: Instruction, target: str, version: tuple[int, int], limit: int) -> list[Match]:
    """Opcodes of ``row`` that the table says ``target`` has."""
    out = []
    for choices in combinations(row, limit):
        match = match_opcode(row, opcode_of(row, choices))
        assert isinstance(match, Match), match
        if check_bound(match) is not None:
            continue
        try:
            check_target(match, find_target(target), version)
        except PtxError:
            continue
        out.append(match)
    return out


class Operands:
    """Makes operands for a kernel; a few registers of each class are initialised by the caller and reused."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.sources: dict[str, Reg] = {}

    def source(self, type_: str) -> Reg:
        from tirx_eq.ptx.emit import register_class

        cls = register_class(type_ if type_ not in ("f32", "f64") else type_)
        if cls not in self.sources:
            self.sources[cls] = self.kernel.reg(cls)
        return self.sources[cls]

    def make(self, match: Match, spec: Operand, immediate: bool = False):
        if spec.kind == "address":
            space = match.type_of(spec.space) or "generic"
            if space.startswith("param"):
                return addr(self.kernel.symbols["p0"])
            return addr(self.source("b64" if _SPACE_BITS[space] == 64 else "b32"))
        if spec.kind == "tensor":
            return tensor(self.source("b64"), [self.source("b32")] * COUNTS["coords"](match.bound))
        if spec.kind == "label":
            label = self.kernel.new_label("probe")
            self.kernel.place(label)
            return label
        type_ = match.type_of(spec.type)
        if spec.kind == "pair":
            return Pair(self.kernel.reg(type_), self.kernel.reg("pred"))
        if spec.kind == "pred":
            return self.kernel.reg("pred") if spec.dst else self.source("pred")
        count = length(match, spec)
        if count:
            return [self.kernel.reg(type_) if spec.dst else self.source(type_) for _ in range(count)]
        if not spec.reg:
            from tirx_eq.ptx.operands import SINK

            return SINK if spec.imm is None else Imm(spec.imm.low)
        if immediate and spec.anyimm and not spec.dst:
            if spec.imm is not None:
                return Imm(spec.imm.high)
            if type_ not in ("f16", "bf16", "f16x2", "bf16x2", "f32x2", "u16x2", "s16x2", "b128", "pred"):
                return Imm(1)
        return self.kernel.reg(type_) if spec.dst else self.source(type_)


def probe_module(target: str, version: tuple[int, int]) -> Module:
    return Module(target, version)


def probe_kernel(module: Module, name: str) -> Kernel:
    return module.kernel(name, [Param.scalar(f"p{i}", "u64") for i in range(8)])


def emit_form(kernel: Kernel, match: Match, trailing: int | None = None, immediate: bool = False) -> None:
    """Emit ``match`` with the free trailing operands left out (``trailing`` = 0) or included (None)."""
    make = Operands(kernel)
    wanted = [s for s in match.instruction.operands if not s.when or s.when == "?" or match.has(s.when)]
    if trailing == 0:
        wanted = [s for s in wanted if s.when != "?"]
    kernel.emit(match.opcode, *[make.make(match, s, immediate) for s in wanted])
