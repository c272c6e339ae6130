"""Mutation testing of PTX: one thing removed or altered at a time, to ask whether anybody notices.

``mutants`` lists the mutants of a module, ``tensor_map_mutants`` those of its tensor maps, and ``judge`` runs one under
several schedules.  A mutant is *found* if a run reports a fault, or gives other numbers than the original.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from tirx_eq.errors import TirxError
from tirx_eq.sim.machine import Result, find_entry
from tirx_eq.sim.text.parser import parse
from tirx_eq.sim.text.syntax import Imm, Instr
from tirx_eq.sim.transfers.tensormap import TensorMap


@dataclass(frozen=True)
class Mutant:
    """``text``: the whole module after one change; ``name`` says what was done, ``line`` where."""

    name: str
    line: int
    text: str


#: Instructions removed one at a time: name -> pattern on the opcode.
REMOVE = {
    "fence": r"fence\.|membar", "tcgen05 fence": r"tcgen05\.fence", "tcgen05 wait": r"tcgen05\.wait",
    "commit": r"tcgen05\.commit", "barrier": r"bar\.sync|barrier\.sync", "warp barrier": r"bar\.warp\.sync",
    "cluster barrier": r"barrier\.cluster\.(arrive|wait)", "barrier init": r"mbarrier\.init",
    "arrival": r"mbarrier\.arrive", "group commit": r"cp\.async(\.bulk)?\.commit_group",
    "group wait": r"cp\.async(\.bulk)?\.wait_(group|all)", "dealloc": r"tcgen05\.dealloc", "alloc": r"tcgen05\.alloc",
}

#: Integer operands altered: name -> (pattern on the opcode, operand index, new values from the old one).
ALTER: dict[str, tuple[str, int, Callable[[int], tuple[int, ...]]]] = {
    "barrier count": (r"mbarrier\.init", 1, lambda v: (v + 1, v - 1) if v > 1 else (v + 1,)),
    "expect bytes": (r"mbarrier\.(arrive\.)?expect_tx", -1, lambda v: (v + 16, v - 16, v // 2, 2 * v)),
    "parity": (r"mbarrier\.(try|test)_wait\.parity", 2, lambda v: (1 - v,)),
    "pending groups": (r"cp\.async(\.bulk)?\.wait_group", 0, lambda v: (v + 1,)),
    "columns": (r"tcgen05\.(alloc|dealloc)", 1, lambda v: (v // 2, 2 * v)),
    "thread count": (r"bar\.sync", 1, lambda v: (v - 32, v + 32)),
}

#: Fields of a shared-memory matrix descriptor held in a 64-bit constant: name -> (bit, width).
MATRIX_FIELDS = {"leading offset": (16, 14), "stride offset": (32, 14), "version": (46, 3), "base offset": (49, 3),
                 "leading mode": (52, 1), "reserved": (53, 8), "swizzle": (61, 3)}
#: Fields of an instruction descriptor held in a 32-bit constant.
INSTRUCTION_FIELDS = {"sparse": (2, 1), "D type": (4, 2), "reserved 6": (6, 1), "A type": (7, 3), "B type": (10, 3),
                      "negate A": (13, 1), "negate B": (14, 1), "transpose A": (15, 1), "transpose B": (16, 1),
                      "N": (17, 6), "reserved 23": (23, 1), "M": (24, 5), "reserved 29": (29, 1)}


def mutants(text: str, entry: str | None = None) -> list[Mutant]:
    """All mutants of one kernel of a module, in program order.  Raises ``ParseError`` if ``text`` is not PTX."""
    function = find_entry(parse(text), entry)
    found: list[Mutant] = []
    for number, instr in enumerate(function.body):
        for name, new in changes(text, instr, number, function.body):
            found.append(Mutant(f"{name}: {instr.opcode}", instr.line, text[: instr.start] + new + text[instr.end :]))
    return found


def changes(text: str, instr: Instr, number: int, body: list[Instr]) -> Iterator[tuple[str, str]]:
    """(name, replacement text) of every mutation of one instruction."""
    source = text[instr.start : instr.end]
    for name, pattern in REMOVE.items():
        if re.match(pattern, instr.opcode):
            yield f"no {name}", ""
    if instr.parts[0] == "bra" and number and re.match(r"mbarrier\.(try|test)_wait", body[number - 1].opcode):
        yield "no wait loop", ""
    for name, (pattern, index, values) in ALTER.items():
        if re.match(pattern, instr.opcode) and -len(instr.operands) <= index < len(instr.operands):
            yield from altered(name, source, instr, index, values)
    if instr.parts[0] in ("or", "mov", "add") and instr.operands and isinstance(instr.operands[-1], Imm):
        yield from descriptor_fields(source, instr)
    if re.match(r"tcgen05\.(ld|st|mma|cp)", instr.opcode):
        moved = re.sub(r"\[(%?[\w$]+)\]", r"[\1+16]", source, count=1)
        if moved != source:
            yield "tensor-memory column + 16", moved
    if instr.parts[:4] == ("cp", "async", "bulk", "tensor"):
        swapped = re.sub(r"\{\s*([^,{}]+),\s*([^,{}]+)\}", r"{\2, \1}", source, count=1)
        if swapped != source:
            yield "coordinates swapped", swapped


def altered(name: str, source: str, instr: Instr, index: int, values: Callable[[int], tuple[int, ...]]) \
        -> Iterator[tuple[str, str]]:
    operand = instr.operands[index]
    if not isinstance(operand, Imm):
        return
    head, pieces = source.rstrip(";").rsplit(None, 1)[0], split_operands(source)
    del head
    for value in values(operand.value):
        if value >= 0:
            new = list(pieces)
            new[index] = str(value)
            yield f"{name} {operand.value} -> {value}", opcode_text(source) + " " + ", ".join(new) + ";"


def opcode_text(source: str) -> str:
    """Guard and opcode of an instruction's text."""
    match = re.match(r"(@!?\s*\S+\s+)?\S+", source)
    assert match is not None
    return match.group()


def split_operands(source: str) -> list[str]:
    """The operands of an instruction's text, split at commas outside of brackets."""
    rest = source[len(opcode_text(source)) :].rstrip().rstrip(";")
    pieces, depth, current = [], 0, ""
    for char in rest:
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(char, 0)
        if char == "," and not depth:
            pieces.append(current.strip())
            current = ""
        else:
            current += char
    return [*pieces, current.strip()]


def descriptor_fields(source: str, instr: Instr) -> Iterator[tuple[str, str]]:
    """Constants that look like matrix or instruction descriptors, one field changed at a time."""
    last = instr.operands[-1]
    assert isinstance(last, Imm)
    value = last.value & ((1 << 64) - 1)
    kind = instr.parts[-1]
    pieces = split_operands(source)
    if kind.endswith("64") and value >> 46 & 7 == 1 and value >> 32:
        for name, (bit, width) in MATRIX_FIELDS.items():
            field = value >> bit & ((1 << width) - 1)
            for new in {field ^ 1, field // 2, field * 2 & ((1 << width) - 1), 0} - {field}:
                changed = value & ~(((1 << width) - 1) << bit) | new << bit
                pieces[-1] = str(changed)
                yield f"descriptor {name} {field} -> {new}", opcode_text(source) + " " + ", ".join(pieces) + ";"
    elif kind.endswith("32") and instr.parts[0] == "mov" and value >> 24 in (4, 8, 16) and value >> 17 & 0x3F:
        for name, (bit, width) in INSTRUCTION_FIELDS.items():
            field = value >> bit & ((1 << width) - 1)
            for new in {field ^ 1, field // 2, field * 2 & ((1 << width) - 1)} - {field}:
                changed = value & ~(((1 << width) - 1) << bit) | new << bit
                pieces[-1] = str(changed)
                yield f"instruction descriptor {name} {field} -> {new}", \
                    opcode_text(source) + " " + ", ".join(pieces) + ";"


def tensor_map_mutants(maps: Mapping[str, TensorMap]) -> Iterator[tuple[str, Callable[[], dict[str, TensorMap]]]]:
    """(name, how to make the altered maps) for every field of every tensor map; making may raise ``PtxError``."""
    for key, tensor in maps.items():
        fields: list[tuple[str, dict[str, object]]] = []
        for mode in ("none", "32B", "64B", "128B"):
            if mode != tensor.swizzle:
                fields.append((f"swizzle {tensor.swizzle} -> {mode}", {"swizzle": mode}))
        for i, extent in enumerate(tensor.box_shape):
            fields.append((f"box {i} halved", {"box_shape": with_item(tensor.box_shape, i, extent // 2)}))
        for i, stride in enumerate(tensor.global_strides_bytes):
            doubled = with_item(tensor.global_strides_bytes, i, 2 * stride)
            fields.append((f"stride {i} doubled", {"global_strides_bytes": doubled}))
        for i, extent in enumerate(tensor.global_shape):
            fields.append((f"extent {i} halved", {"global_shape": with_item(tensor.global_shape, i, extent // 2)}))
        for i in range(tensor.rank):
            fields.append((f"element stride {i} = 2", {"element_strides": with_item(tensor.element_strides, i, 2)}))
        other = {"f16": "f32", "f32": "f16", "s32": "u8"}.get(tensor.element_type)
        if other:
            fields.append((f"element type {other}", {"element_type": other}))
        for name, change in fields:
            def make(key: str = key, tensor: TensorMap = tensor, change: dict[str, object] = change) \
                    -> dict[str, TensorMap]:
                return {**maps, key: replace(tensor, **change)}  # type: ignore[arg-type]
            yield f"tensor map {key} {name}", make


def with_item(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])


def judge(run: Callable[[str, int], Result], right: Callable[[Result], bool],
          schedules: tuple[tuple[str, int], ...] = (("late", 0), ("early", 0), ("random", 1))) -> tuple[str, str]:
    """(verdict, evidence): ``fault``, ``refused``, ``wrong``, ``warning`` or ``survived`` over the schedules.

    ``run`` simulates the mutant under (policy, seed); ``right`` says whether its numbers are those of the original.
    """
    warned = ""
    for policy, seed in schedules:
        try:
            result = run(policy, seed)
        except TirxError as error:
            return "refused", error.message
        if result.faults:
            return "fault", f"{policy}: {result.faults[0]}"
        if not right(result):
            return "wrong", f"{policy}: the numbers differ"
        if result.warnings:
            warned = str(result.warnings[0])
    return ("warning", warned) if warned else ("survived", "")
