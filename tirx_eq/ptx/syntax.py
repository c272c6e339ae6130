"""How one row of the instruction table is written down, and how an opcode is matched against it.

A row is an :class:`Instruction`: a mnemonic, an ordered list of modifier :class:`Group` s, a list of
:class:`Operand` s and the conditions under which it exists.  Groups are written as one string of words, in order:

``name=choice|choice``      exactly one of the choices; ``name`` can be used in operand types and lengths
``choice|choice``           the same without a name
``word?``                   may be left out
``kind::{f16,tf32}``        braces expand as in a shell; ``v{2,4}`` is ``v2|v4``
``a.b``                     one choice may consist of several modifiers

A choice never starts with a dot; the opcode ``tcgen05.alloc.cta_group::1.sync.aligned.b32`` is the mnemonic
``tcgen05.alloc`` with the choices ``cta_group::1``, ``sync.aligned`` and ``b32``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from tirx_eq.errors import PtxError

#: Size in bits of every PTX type that names an operand.  Packed types count the whole register.
TYPE_BITS: Mapping[str, int] = MappingProxyType({
    "pred": 1,
    **{f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)},
    "b128": 128, "u128": 128, "s128": 128,
    "f16": 16, "bf16": 16, "f32": 32, "tf32": 32, "f64": 64,
    "f16x2": 32, "bf16x2": 32, "f32x2": 64, "u16x2": 32, "s16x2": 32, "u8x4": 32, "s8x4": 32,
    "e4m3": 8, "e5m2": 8, "e2m3": 8, "e3m2": 8, "e2m1": 8, "ue8m0": 8,
    "e4m3x2": 16, "e5m2x2": 16, "e2m3x2": 16, "e3m2x2": 16, "ue8m0x2": 16, "e2m1x2": 8,
    "e4m3x4": 32, "e5m2x4": 32, "e2m3x4": 32, "e3m2x4": 32, "e2m1x4": 16, "s2f6x2": 16,
})  # fmt: skip

#: What the modifier groups of a matched opcode were: name of the group to the choice taken, "" if left out.
Bound = Mapping[str, str]

#: A PTX ISA version, (major, minor).
Version = tuple[int, int]


@dataclass(frozen=True)
class Group:
    """One position in the modifier list; exactly one of ``choices``, or nothing when ``optional``."""

    name: str
    choices: tuple[str, ...]
    optional: bool = False

    def __str__(self) -> str:
        body = "{" + ", ".join("." + c for c in self.choices) + "}" if len(self.choices) > 1 else "." + self.choices[0]
        return body + ("?" if self.optional else "")


@dataclass(frozen=True)
class Range:
    """The immediates an operand takes: ``low <= value <= high``, a multiple of ``step``, a power of two if ``pow2``."""

    low: int
    high: int
    step: int = 1
    pow2: bool = False

    def violation(self, value: int) -> str | None:
        """Why ``value`` is not in the range, or None if it is."""
        if not self.low <= value <= self.high:
            return f"{value} is outside {self.low}..{self.high}"
        if value % self.step:
            return f"{value} is not a multiple of {self.step}"
        if self.pow2 and value & (value - 1):
            return f"{value} is not a power of two"
        return None


@dataclass(frozen=True)
class Operand:
    """One operand position.

    ``kind``: "value" (register or immediate), "pred", "pair" (``d|p``), "address", "tensor" (map and coordinates),
    "label", "symbol" (name of a variable or parameter).
    ``type``: a PTX type, or "$group" for the type named by that modifier group.
    ``count``: 0 for a bare operand; n for a braced vector of n; "$group" or the name of an entry of ``COUNTS``
    otherwise. ``space``: state space of an address; "$group" for the one that the modifier names.
    ``wide``: registers wider than the type are permitted (loads, stores and conversions of narrow types).
    ``when``: group that must be present for this operand to be present ("" = always, "?" = free to leave out).
    """

    name: str
    kind: str = "value"
    type: str = "b32"
    dst: bool = False
    count: int | str = 0
    imm: Range | None = None
    reg: bool = True
    anyimm: bool = True
    sink: bool = False
    wide: bool = False
    space: str = ""
    when: str = ""


@dataclass(frozen=True)
class Need:
    """A modifier that needs more than its row does: a target ``feature``, a higher ``ptx`` version, or both."""

    group: str
    choices: tuple[str, ...]
    feature: str = ""
    ptx: Version = (0, 0)


Check = Callable[[Bound], str | None]


@dataclass(frozen=True)
class Instruction:
    """One row of the table: one syntax shape of one mnemonic.

    ``issuer``: the smallest set of threads that must execute it together: "thread", "warp", "warpgroup", "cta" or
    "cluster".  ``feature``: key of ``target.FEATURES`` or "" for every target.  ``ptx``: lowest ``.version``.
    ``section``: section of the PTX ISA (numbering of 9.x).  ``checks``: conditions that couple modifiers.
    """

    mnemonic: str
    groups: tuple[Group, ...]
    operands: tuple[Operand, ...]
    issuer: str = "thread"
    feature: str = ""
    ptx: Version = (7, 0)
    section: str = ""
    needs: tuple[Need, ...] = ()
    checks: tuple[Check, ...] = ()
    note: str = ""

    def syntax(self) -> str:
        """The opcode's shape in one line, for messages."""
        return self.mnemonic + "".join(str(g) for g in self.groups)


def expand(word: str) -> tuple[str, ...]:
    """All strings that shell braces in ``word`` stand for, alternatives split at ``|``."""
    out: list[str] = []
    for alternative in _split(word, "|"):
        match = re.search(r"\{([^{}]*)\}", alternative)
        if match is None:
            out.append(alternative)
            continue
        for piece in match[1].split(","):
            out.extend(expand(alternative[: match.start()] + piece + alternative[match.end() :]))
    return tuple(out)


def _split(text: str, separator: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for char in text:
        depth += (char == "{") - (char == "}")
        if char == separator and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    return parts + [current]


@cache
def parse_groups(text: str) -> tuple[Group, ...]:
    """The modifier groups written as ``text`` (see the module's docstring)."""
    groups = []
    for position, word in enumerate(text.split()):
        optional = word.endswith("?")
        word = word.removesuffix("?")
        name, equals, body = word.partition("=")
        if not equals:
            name, body = f"#{position}", word
        groups.append(Group(name, expand(body), optional))
    return tuple(groups)


@dataclass(frozen=True)
class Match:
    """A concrete opcode recognised as ``instruction`` with the modifiers ``bound``."""

    instruction: Instruction
    opcode: str
    bound: Bound

    def type_of(self, type_: str) -> str:
        """``type_`` with a "$group" reference replaced by the choice taken."""
        return self.bound.get(type_[1:], "") if type_.startswith("$") else type_

    def has(self, group: str) -> bool:
        """Whether the (optional) group was written."""
        return bool(self.bound.get(group, ""))


@dataclass(frozen=True)
class Mismatch:
    """How far an opcode got before it failed: ``position`` in characters, and what was expected there."""

    position: int
    expected: tuple[str, ...]


def match_opcode(row: Instruction, opcode: str) -> Match | Mismatch:
    """Match ``opcode`` against ``row``: modifiers in order, optional ones skipped if absent.  Backtracks."""
    start = len(row.mnemonic)
    failed = Mismatch(start, ())

    def fail(position: int, expected: tuple[str, ...]) -> None:
        nonlocal failed
        if position > failed.position:
            failed = Mismatch(position, expected)
        elif position == failed.position:
            failed = Mismatch(position, tuple(dict.fromkeys(failed.expected + expected)))

    def walk(index: int, position: int, bound: dict[str, str]) -> dict[str, str] | None:
        if index == len(row.groups):
            if position == len(opcode):
                return bound
            fail(position, ("end of opcode",))
            return None
        group = row.groups[index]
        for choice in sorted(group.choices, key=len, reverse=True):
            end = position + 1 + len(choice)
            if opcode.startswith("." + choice, position) and (end == len(opcode) or opcode[end] == "."):
                found = walk(index + 1, end, {**bound, group.name: choice})
                if found is not None:
                    return found
        if group.optional:
            found = walk(index + 1, position, {**bound, group.name: ""})
            if found is not None:
                return found
        fail(position, tuple("." + c for c in group.choices))
        return None

    bound = walk(0, start, {})
    return failed if bound is None else Match(row, opcode, MappingProxyType(bound))


def check_bound(match: Match) -> str | None:
    """The first violated condition that couples modifiers of ``match``, or None."""
    for check in match.instruction.checks:
        reason = check(match.bound)
        if reason is not None:
            return reason
    return None


def requirements(match: Match) -> list[tuple[str, str, Version]]:
    """(what, feature, PTX version) for the row and for each modifier of ``match`` that needs more than the row."""
    row = match.instruction
    out = [(match.opcode, row.feature, row.ptx)]
    for need in row.needs:
        choice = match.bound.get(need.group, "")
        if choice and (choice in need.choices or not need.choices):
            out.append((f"{match.opcode} (.{choice})", need.feature, need.ptx))
    return out


# ---------------------------------------------------------------------------------------------------------------------
# Operand shorthands for the table


def src(name: str = "a", type: str = "b32", imm: Range | None = None, **kw: object) -> Operand:
    """A source value: register or immediate (``imm`` limits the immediate)."""
    return Operand(name, "value", type, imm=imm, **kw)  # type: ignore[arg-type]


def rsrc(name: str = "a", type: str = "b32", **kw: object) -> Operand:
    """A source that must be a register."""
    return Operand(name, "value", type, anyimm=False, **kw)  # type: ignore[arg-type]


def dst(name: str = "d", type: str = "b32", **kw: object) -> Operand:
    """A destination register."""
    return Operand(name, "value", type, dst=True, anyimm=False, **kw)  # type: ignore[arg-type]


def imm(name: str, low: int, high: int, step: int = 1, pow2: bool = False, **kw: object) -> Operand:
    """A source that must be an immediate in the given range."""
    return Operand(name, "value", "b32", imm=Range(low, high, step, pow2), reg=False, **kw)  # type: ignore[arg-type]


def addr(name: str = "a", space: str = "", **kw: object) -> Operand:
    """``[register+offset]`` or ``[symbol+offset]`` in a state space."""
    return Operand(name, "address", space=space, **kw)  # type: ignore[arg-type]


def pred(name: str = "p", **kw: object) -> Operand:
    """A predicate source, possibly negated with ``!``."""
    return Operand(name, "pred", "pred", **kw)  # type: ignore[arg-type]


def instruction(mnemonic: str, groups: str, *operands: Operand, **kw: object) -> Instruction:
    """One row; see :class:`Instruction` for the keywords."""
    return Instruction(mnemonic, parse_groups(groups), tuple(operands), **kw)  # type: ignore[arg-type]


def describe_failure(opcode: str, failures: list[tuple[Instruction, Mismatch]]) -> PtxError:
    """The error for an opcode that no row admits, from the row or rows that got furthest."""
    far = max(f.position for _, f in failures)
    expected = tuple(dict.fromkeys(e for _, f in failures if f.position == far for e in f.expected))
    rest = opcode[far:]
    found = "'" + (re.match(r"\.[^.]*", rest) or [rest])[0] + "'" if rest else "the end of the opcode"
    return PtxError(
        f"{opcode}: {found} is not a modifier permitted at this place",
        hint="expected one of " + ", ".join(e for e in expected),
    )
