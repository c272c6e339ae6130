"""The instruction table: opcode heads, the modifiers each may carry, and the factory that makes it executable.

A factory gets the decoder and the parsed instruction and returns ``(run, kind)``.  ``decode`` looks every instruction of
a kernel up before anything runs, so an unknown one is an error that names instruction and line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module

from tirx_eq.sim.program import Decoder, Program, Run, Step
from tirx_eq.sim.text.syntax import Instr

Factory = Callable[[Decoder, Instr], tuple[Run, int]]

INTEGERS = frozenset("u8 s8 u16 s16 u32 s32 u64 s64".split())
BITS = frozenset("b8 b16 b32 b64 b128".split())
FLOATS = frozenset("f16 bf16 f32 f64 f16x2 bf16x2 f32x2".split())
TYPES = INTEGERS | BITS | FLOATS | {"pred"}


#: The modules that hold instructions; each has a list ``ENTRIES``.
FAMILIES = (
    "arithmetic.alu", "arithmetic.bits", "collectives", "control", "arithmetic.convert", "transfers.copies",
    "transfers.cp_async", "arithmetic.floating", "launch_control", "loads", "transfers.maps", "matrix", "matrix_moves",
    "mbarrier", "moves", "tcgen05.alloc", "tcgen05.cp", "tcgen05.data", "tcgen05.mma", "transfers.tensor_copies",
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """``head``: leading opcode parts; ``modifiers``: what may follow, in any order (types included)."""

    head: tuple[str, ...]
    modifiers: frozenset[str]
    build: Factory


def entry(heads: str, modifiers: str, build: Factory, types: Iterable[str] = ()) -> list[Entry]:
    """Entries for the blank-separated ``heads`` (dots inside), all with the same modifiers."""
    allowed = frozenset(modifiers.split()) | frozenset(types)
    return [Entry(tuple(head.split(".")), allowed, build) for head in heads.split()]


def table() -> dict[str, list[Entry]]:
    """All entries by first opcode part, longest heads first."""
    found: dict[str, list[Entry]] = {}
    for name in FAMILIES:
        for each in import_module(f"tirx_eq.sim.{name}").ENTRIES:
            found.setdefault(each.head[0], []).append(each)
    for entries in found.values():
        entries.sort(key=lambda e: -len(e.head))
    return found


_TABLE: dict[str, list[Entry]] = {}


def split(head: tuple[str, ...], parts: tuple[str, ...]) -> tuple[str, ...] | None:
    """The parts that are not the head, if ``head`` occurs in order among ``parts`` (modifiers may stand between)."""
    rest: list[str] = []
    at = 0
    for part in parts:
        if at < len(head) and part == head[at]:
            at += 1
        else:
            rest.append(part)
    return tuple(rest) if at == len(head) else None


def lookup(decoder: Decoder, instr: Instr) -> tuple[Entry, Instr]:
    """The entry of an instruction, and the instruction with its opcode in the entry's order.

    ``ParseError`` naming the instruction if there is none.
    """
    if not _TABLE:
        _TABLE.update(table())
    unknown: str | None = None
    for each in _TABLE.get(instr.parts[0], ()):
        rest = split(each.head, instr.parts)
        if rest is None:
            continue
        extra = [p for p in rest if p not in each.modifiers]
        if not extra:
            return each, replace(instr, parts=each.head + rest)
        if instr.parts[: len(each.head)] == each.head:
            unknown = unknown or extra[0]
    if unknown:
        raise decoder.error(f"modifier .{unknown} is not known for this instruction")
    raise decoder.error("unknown instruction")


def decode(program: Program) -> None:
    """Fill ``program.code``; sets the shadow granularity from the smallest access in the kernel."""
    decoder = Decoder(program)
    for instr in program.function.body:
        decoder.instr = instr
        try:
            found, ordered = lookup(decoder, instr)
            run, kind = found.build(decoder, ordered)
        except (IndexError, ValueError, StopIteration):
            raise decoder.error("operands or modifiers are missing, or too many") from None
        except (AttributeError, TypeError, AssertionError):
            raise decoder.error("an operand is of the wrong kind") from None
        except KeyError as error:
            raise decoder.error(f"unsupported type or modifier {error}") from None
        step = Step(run, kind, instr)
        if instr.guard:
            step.guard, step.negated = instr.guard[0].index, instr.guard[1]
        if instr.parts[0] in ("bra",):
            step.target = decoder.label(instr.operands[0])
        program.code.append(step)
    program.shared_shift = decoder.sizes["shared"].bit_length() - 1
    program.global_shift = decoder.sizes["global"].bit_length() - 1
