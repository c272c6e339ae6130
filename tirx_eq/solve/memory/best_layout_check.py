"""The proof of a :class:`~tirx_eq.solve.memory.best_layout.BestLayout` gone through again, with none of the code that made it.

Addresses are computed from pitches and XORs on plain integers, wavefronts with dictionaries, families written out anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from ...errors import ProofError
from ...ir import dtype as dt
from .access import EngineAccess
from .best_layout import BestLayout

_LANES = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}
Address = Any  # flat element -> address in elements


def recheck(best: BestLayout) -> str:
    """What was confirmed, as text.

    Raises ProofError if the layout isn't injective, its wavefronts are not those claimed, a member of a family is
    better, or the bound isn't one.  For matrices, every bank map is counted where there are at most 2**16 of them; beyond,
    the search of ``best_layout`` and z3's refutation stand as they are.
    """
    bits = _bits(best.dtype)
    total = prod(best.shape)
    places = [_at(best.layout, e) for e in range(total)]
    if len(set(places)) != total:
        raise ProofError(f"best_layout: '{best.label}' puts two elements in one place")
    mine = [_count(best, a, places.__getitem__, bits) for a in best.accesses]
    if mine != list(best.wavefronts):
        raise ProofError(f"best_layout: '{best.label}' takes {mine} wavefronts, not {list(best.wavefronts)}")
    least = [_least(best, a, bits) for a in best.accesses]
    bound = sum(a.weight * n for a, n in zip(best.accesses, least))
    cost = sum(a.weight * n for a, n in zip(best.accesses, mine))
    if cost == bound:
        return f"{cost} weighted wavefronts, the least that {bits}-bit elements of these accesses need"
    counted = _matrices(best, bits, cost) if "matrix" in best.proof.families else 0
    engines = {a.engine for a in best.accesses if isinstance(a, EngineAccess)}
    for family in best.proof.families:
        for label, address in _members(family, best, bits, engines):
            try:
                other = sum(a.weight * _count(best, a, address, bits) for a in best.accesses)
            except ValueError:
                continue  # a vector torn or misaligned: no member
            counted += 1
            if other < cost:
                text = f"'{label}' takes {other} weighted wavefronts, less than {cost} of '{best.label}'"
                raise ProofError(f"best_layout: {text}")
    return f"{cost} weighted wavefronts; {counted} members take no less"


def _bits(dtype: str) -> int:
    _, bits, lanes = dt.parse(dtype)
    return bits * lanes


def _at(layout: Any, element: int) -> int:
    import numpy as np

    return int(layout.evaluate(np.array([element], dtype=np.int64)).get("m", np.zeros(1))[0])


def _phases(best: BestLayout, access: Any, bits: int) -> Iterator[list[int]]:
    width = bits * access.vector // 8
    for first in range(0, len(access.lanes), _LANES[width]):
        starts = []
        for coord in access.lanes[first : first + _LANES[width]]:
            if coord is not None:
                flat = 0
                for c, e in zip(coord, best.shape):
                    flat = flat * e + c
                starts.append(flat)
        yield starts


def _count(best: BestLayout, access: Any, address: Address, bits: int) -> int:
    if isinstance(access, EngineAccess):
        return -(-prod(best.shape) * bits // 1024)
    waves, width = 0, bits * access.vector // 8
    for starts in _phases(best, access, bits):
        banks: dict[int, set[int]] = {}
        for s in starts:
            at = address(s)
            if any(address(s + k) != at + k for k in range(access.vector)) or at * bits % (8 * width):
                raise ValueError
            for byte in range(at * bits // 8, at * bits // 8 + width):
                banks.setdefault(byte // 4 % 32, set()).add(byte // 4)
        waves += max((len(w) for w in banks.values()), default=0)
    return waves


def _least(best: BestLayout, access: Any, bits: int) -> int:
    if isinstance(access, EngineAccess):
        return -(-prod(best.shape) * bits // 1024)
    return sum(
        -(-len({s + k for s in starts for k in range(access.vector)}) * bits // 1024)
        for starts in _phases(best, access, bits)
    )


def _pitched(shape: Sequence[int], pitch: int) -> Address:
    columns = shape[-1]
    return lambda e: e // columns * pitch + e % columns


def _members(family: str, best: BestLayout, bits: int, engines: set[str]) -> Iterator[tuple[str, Address]]:
    shape, columns = best.shape, best.shape[-1]
    dense = _pitched(shape, columns)
    if family == "hardware":
        yield from _modes(shape, bits, engines)
    elif engines:
        return
    elif family == "padding":
        for pitch in range(columns, columns + max(1, 1024 // bits)):
            yield f"pitch {pitch}", _pitched(shape, pitch)
    elif family == "xor":
        bases = [dense] if columns & (columns - 1) == 0 else [dense, _pitched(shape, 1 << columns.bit_length())]
        for base in bases:
            width = max(base(prod(shape) - 1).bit_length(), 1)
            for length in range(1, 6):
                for low in range(width):
                    for up in range(low + length, width - length + 1):
                        ones = (1 << length) - 1
                        yield f"bits {up} into {low}", lambda e, b=base, u=up, o=low, n=ones: b(e) ^ (b(e) >> u & n) << o
                        yield f"bits {low} into {up}", lambda e, b=base, u=up, o=low, n=ones: b(e) ^ (b(e) >> o & n) << u


def _matrices(best: BestLayout, bits: int, cost: int) -> int:
    """Every map of words to banks, as all values of five (fewer) parity masks; the number of maps counted."""
    shape, sub = best.shape, max(1, 32 // bits)
    if any(isinstance(a, EngineAccess) for a in best.accesses) or any(e & (e - 1) for e in shape) or bits > 32:
        return 0
    width = (prod(shape) // sub).bit_length() - 1
    widest = max(bits * a.vector // 8 for a in best.accesses)  # type: ignore[union-attr]
    kept = max(0, (widest // 4).bit_length() - 1)
    if width <= 5 or (width - kept) * (5 - kept) > 16:
        return 0
    phases = [
        (a.weight, [{(s + k) // sub for s in starts for k in range(a.vector)} for starts in _phases(best, a, bits)])  # type: ignore[union-attr]
        for a in best.accesses
    ]
    maps = 0
    for code in range(1 << ((width - kept) * (5 - kept))):
        rows = [code >> (i * (width - kept)) & ((1 << (width - kept)) - 1) for i in range(5 - kept)]
        maps += 1
        total = 0
        for weight, groups in phases:
            for words in groups:
                load: dict[int, int] = {}
                for w in words:
                    bank = w & ((1 << kept) - 1)
                    for i, row in enumerate(rows):
                        bank |= (bin(row & (w >> kept)).count("1") & 1) << (kept + i)
                    load[bank] = load.get(bank, 0) + 1
                total += weight * max(load.values(), default=0)
        if total < cost:
            raise ProofError(f"best_layout: the bank map {rows} takes {total} weighted wavefronts, less than {cost}")
    return maps


def _modes(shape: Sequence[int], bits: int, engines: set[str]) -> Iterator[tuple[str, Address]]:
    columns, rows = shape[-1], shape[-2]
    if "mma" not in engines and ("tma" not in engines or columns * bits % 128 == 0):
        yield "row-major", _pitched(shape, columns)
    for mode in (3, 2, 1, 0):
        span = (16 << mode) * 8 // bits
        if columns % span or (rows % 8 and columns != span) or (mode == 0 and "tma" in engines):
            continue

        def address(e: int, span: int = span, mode: int = mode) -> int:
            stage, inner = divmod(e, rows * columns)
            r, c = divmod(inner, columns)
            byte = (stage * rows * columns + (c // span * rows + r) * span + c % span) * bits // 8
            return (byte ^ (byte >> 3 & (0x70 & (0x70 >> (3 - mode))))) * 8 // bits

        yield f"mode {mode}", address
