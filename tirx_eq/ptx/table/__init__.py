"""The instruction table: every PTX instruction this package can write, as data, and the lookup by opcode text."""

from __future__ import annotations

from functools import cache

from tirx_eq.errors import PtxError
from tirx_eq.ptx.syntax import (
    Instruction,
    Match,
    Mismatch,
    Version,
    check_bound,
    describe_failure,
    match_opcode,
    requirements,
)
from tirx_eq.ptx.target import Target, find_target, require


@cache
def instructions() -> tuple[Instruction, ...]:
    """All rows, in table order."""
    from tirx_eq.ptx.table import arithmetic, atomics, convert, copy, logic, matrix, memory, sync, tcgen05, warp

    modules = (arithmetic, logic, convert, memory, atomics, sync, warp, copy, matrix, tcgen05)
    return tuple(row for module in modules for row in module.ROWS)


@cache
def _by_mnemonic() -> dict[str, tuple[Instruction, ...]]:
    index: dict[str, list[Instruction]] = {}
    for row in instructions():
        index.setdefault(row.mnemonic, []).append(row)
    return {name: tuple(rows) for name, rows in index.items()}


def _candidates(opcode: str) -> list[Instruction]:
    """Rows whose mnemonic begins ``opcode``, the longest mnemonic first."""
    words = opcode.split(".")
    index = _by_mnemonic()
    return [row for n in range(len(words), 0, -1) for row in index.get(".".join(words[:n]), ())]


@cache
def matches(opcode: str) -> tuple[Match, ...]:
    """Every row that admits the modifiers of ``opcode``; raises ``PtxError`` if none does.

    More than one row can: rows of one mnemonic may differ in their operands only.
    """
    candidates = _candidates(opcode)
    if not candidates:
        raise PtxError(f"{opcode}: unknown instruction")
    found: list[Match] = []
    failures: list[tuple[Instruction, Mismatch]] = []
    refused: list[str] = []
    for row in candidates:
        outcome = match_opcode(row, opcode)
        if isinstance(outcome, Mismatch):
            failures.append((row, outcome))
            continue
        reason = check_bound(outcome)
        if reason is None:
            found.append(outcome)
        else:
            refused.append(reason)
    if found:
        return tuple(found)
    if refused:
        raise PtxError(f"{opcode}: {refused[0]}")
    raise describe_failure(opcode, failures)


def check_target(match: Match, target: str | Target, version: Version | None = None) -> None:
    """Raise ``PtxError`` unless ``target`` (and PTX ``version``, if given) has the instruction and its modifiers."""
    for what, feature, floor in requirements(match):
        if feature:
            require(target, feature, what)
        if version is not None and version < floor:
            raise PtxError(
                f"{what} needs PTX {floor[0]}.{floor[1]}, the module is written for {version[0]}.{version[1]}"
            )


def find(opcode: str, target: str | Target | None = None, version: Version | None = None) -> Match:
    """The first row that admits ``opcode`` on ``target``, with its modifiers bound to the row's groups.

    Raises ``PtxError`` if the mnemonic is unknown, a modifier is wrong or misplaced, modifiers contradict each other,
    or ``target``/``version`` lack the instruction.
    """
    return find_all(opcode, target, version)[0]


def find_all(opcode: str, target: str | Target | None = None, version: Version | None = None) -> tuple[Match, ...]:
    """All rows that admit ``opcode`` on ``target``; errors as for :func:`find`."""
    found = matches(opcode)
    if target is None:
        return found
    resolved = find_target(target) if isinstance(target, str) else target
    usable: list[Match] = []
    first: PtxError | None = None
    for match in found:
        try:
            check_target(match, resolved, version)
        except PtxError as error:
            first = first or error
        else:
            usable.append(match)
    if not usable and first is not None:
        raise first
    return tuple(usable)
