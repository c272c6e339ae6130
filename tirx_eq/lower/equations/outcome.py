"""What the program of a value equation left in the destination, compared with what should be there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..context import Operand
from ..program import Word
from .symbols import FORMAT, Sym, unit_bits
from .trace import ValueTrace

Array = np.ndarray
Problem = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Elements:
    """The destination's elements as each executing unit sees them: one row per (thread or unit), one column per element."""

    threads: Array
    elements: Array
    keys: Array


@dataclass(frozen=True)
class Left:
    """Places that the program wrote: keys, residues, and whether the place still holds what was there (registers)."""

    keys: Array
    r: Array
    kept: Array


def left_in_registers(trace: ValueTrace, dst: Operand, active: Array) -> Left:
    keys, residues, kept = [], [], []
    for word in [w for w in trace.registers if isinstance(w, Word) and w.array == dst.root]:
        lanes = trace.read(word, FORMAT[dst.dtype])
        before = trace.initial(word)
        comparable = len(before) == len(lanes)  # else the register had elements of another size
        for j, now in enumerate(lanes):
            place = (word.index * word.array.word_bits + j * dst.bits) // unit_bits(dst.bits)
            keys.append(active << 40 | place)
            mine = np.broadcast_to(now.key(), (2, trace.points.threads))[:, active]
            residues.append(mine)
            old = np.broadcast_to(before[j].key(), (2, trace.points.threads))[:, active] if comparable else mine + np.uint64(1)
            kept.append((mine == old).all(axis=0))
    return _joined(keys, residues, kept)


def left_in_memory(trace: ValueTrace, dst: Operand) -> Left:
    keys, residues, kept = [], [], []
    for root, offset, value, mask in trace.written:
        assert root == dst.root.name
        keys.append(offset[mask])
        residues.append(np.broadcast_to(value.key(), (2, len(mask)))[:, mask])
        kept.append(np.zeros(int(mask.sum()), dtype=bool))
    return _joined(keys, residues, kept)


def _joined(keys: list[Array], residues: list[Array], kept: list[Array]) -> Left:
    if not keys:
        return Left(np.empty(0, np.int64), np.empty((2, 0), np.uint64), np.empty(0, bool))
    return Left(np.concatenate(keys), np.concatenate(residues, axis=1), np.concatenate(kept))


def compare(dst: Operand, wanted: Elements, expected: Sym, got: Left) -> Problem | None:
    """None if every place got its value and no other place changed."""
    key = np.broadcast_to(expected.key(), (2, len(wanted.keys)))
    want: dict[int, tuple[int, int]] = {}
    for k, a, b in zip(wanted.keys.tolist(), key[0].tolist(), key[1].tolist()):
        if want.setdefault(k, (a, b)) != (a, b):
            return f"two threads mean different values for byte {k & 0xFFFFFFFFFF} of '{dst.name}'", _place(k)
    missing = dict(want)
    for k, a, b, same in zip(got.keys.tolist(), got.r[0].tolist(), got.r[1].tolist(), got.kept.tolist()):
        if k not in want:
            if not same:
                return f"byte {k & 0xFFFFFFFFFF} of '{dst.root.name}', which is not in '{dst.name}', changes", _place(k)
            continue
        if want[k] != (a, b):
            return f"byte {k & 0xFFFFFFFFFF} of '{dst.root.name}' gets another value than '{dst.name}' should", _place(k)
        missing.pop(k, None)
    if missing:
        k = min(missing)
        return f"{len(missing)} elements of '{dst.name}' get no value", _place(k)
    return None


def _place(key: int) -> dict[str, Any]:
    return {"thread": key >> 40, "byte": key & 0xFFFFFFFFFF}
