"""mma.sync: which elements of the matrices are in which register of which lane, and how a warp's tiles are made of them.

PTX ISA 9.7.14.5: with g = lane / 4 and q = lane % 4, registers of A hold rows g and g + 8 by turns, ``per`` neighbours along K
each; registers of B hold column g; the accumulator holds columns 2q and 2q + 1 of rows g and g + 8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .context import CallContext, Operand
from .product import Product, product_of, uses_addend
from .sharing.holders import SCOPE_BITS, Held, held

Array = np.ndarray
ROWS, COLUMNS = 16, 8
#: A depth as the rules number it; SWAPPED more: the transposed product is formed, B's columns as the instruction's rows.
SWAPPED = 1000


@dataclass(frozen=True)
class MmaKind:
    """An mma.sync on 16x8 tiles: PTX types of A, B and D, bits of an element of A, the depths there are, a target feature."""

    a: str
    b: str
    d: str
    bits: int
    depths: tuple[int, ...]
    feature: str

    @property
    def per(self) -> int:
        """Elements of A and B in one register."""
        return max(1, 32 // self.bits)


_EIGHT = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
_BYTES = {"int8": "s8", "uint8": "u8"}
#: (A, B, D) -> the instruction (PTX ISA 9.7.14.5, table of shapes).  float32 isn't tf32, so there is none for it.
MMA_KINDS: dict[tuple[str, str, str], MmaKind] = {
    ("float16", "float16", "float32"): MmaKind("f16", "f16", "f32", 16, (16, 8), ""),
    ("float16", "float16", "float16"): MmaKind("f16", "f16", "f16", 16, (16, 8), ""),
    ("bfloat16", "bfloat16", "float32"): MmaKind("bf16", "bf16", "f32", 16, (16, 8), ""),
    ("tfloat32", "tfloat32", "float32"): MmaKind("tf32", "tf32", "f32", 32, (8, 4), ""),
    ("float64", "float64", "float64"): MmaKind("f64", "f64", "f64", 64, (16, 8, 4), "sm_90"),
    **{(a, b, d): MmaKind(x, y, z, 8, (32, 16), "sm_89") for a, x in _EIGHT.items() for b, y in _EIGHT.items()
       for d, z in (("float32", "f32"), ("float16", "f16"))},
    **{(a, b, "int32"): MmaKind(x, y, "s32", 8, (32, 16), "") for a, x in _BYTES.items() for b, y in _BYTES.items()},
}  # fmt: skip


def kind_of(c: CallContext) -> MmaKind | None:
    """The instruction for the dtypes of a ``gemm``."""
    a, b, d = (c.operands[n].dtype for n in "ABD")
    return MMA_KINDS.get((a, b, d))


@dataclass(frozen=True, eq=False)
class MmaPlan:
    """Registers of each instruction, the same in all lanes: ``d[s]`` and ``c[s]`` of tile s, ``a[s][j]`` and ``b[s][j]`` of
    its j-th slice of K; ``c`` is None where the accumulator begins with zero."""

    kind: MmaKind
    depth: int
    d: tuple[tuple[int, ...], ...]
    c: tuple[tuple[int, ...], ...] | None
    a: tuple[tuple[tuple[int, ...], ...], ...]
    b: tuple[tuple[tuple[int, ...], ...], ...]


def mma_plan(c: CallContext, code: int) -> MmaPlan | str:
    """How the product is made of mma.sync, or the first element that isn't where the instruction wants it."""
    key = ("mma plan", code)
    return c.once(key, lambda: _plan(c, code))


def _plan(c: CallContext, code: int) -> MmaPlan | str:
    depth, swapped = code % SWAPPED, code >= SWAPPED
    product, kind = product_of(c), kind_of(c)
    if isinstance(product, str) or kind is None:
        return "no instruction takes the matrices"
    rows, columns = (product.n, product.m) if swapped else (product.m, product.n)
    if rows % ROWS or columns % COLUMNS or product.k % depth:
        return f"{rows}x{columns}x{product.k} is not a multiple of {ROWS}x{COLUMNS}x{depth}"
    where: dict[str, Held] = {}
    for name in ("D", "A", "B", "C") if uses_addend(c) else ("D", "A", "B"):
        found = held(c.operands[name])
        if isinstance(found, str):
            return found
        if found.mask & ~SCOPE_BITS[c.scope]:
            return f"'{name}' is spread over more threads than a {c.scope} has"
        where[name] = found
    warps = np.flatnonzero(c.active.mask).reshape(-1, 32)
    row, column = _accumulator(kind)
    tiles = np.arange(rows // ROWS * (columns // COLUMNS))
    r = tiles[:, None, None, None] // (columns // COLUMNS) * ROWS + row
    n = tiles[:, None, None, None] % (columns // COLUMNS) * COLUMNS + column
    out = product.d_element(n, r) if swapped else product.d_element(r, n)
    mine = _tiles_of_warps(c, where["D"], warps, out)
    if isinstance(mine, str):
        return mine
    made = [_registers(c, "D", where["D"], warps, out[mine], kind)]
    if "C" in where:
        made.append(_registers(c, "C", where["C"], warps, out[mine], kind))
    slices = np.arange(product.k // depth)[None, None, :, None, None, None] * depth
    for name in "AB":
        is_rows = (name == "A") != swapped
        across, along = (_rows if is_rows else _columns)(kind, depth)
        per_line = columns // COLUMNS
        first = (mine // per_line * ROWS) if is_rows else (mine % per_line * COLUMNS)
        i, k = first[:, :, None, None, None, None] + across, slices + along
        i, k = np.broadcast_arrays(i, k)
        element = product.a_element(i, k) if name == "A" else product.b_element(k, i)
        made.append(_registers(c, name, where[name], warps, element, kind))
    wrong = next((m for m in made if isinstance(m, str)), None)
    if wrong is not None:
        return wrong
    d, *rest = made
    start = rest.pop(0) if "C" in where else None
    a, b = rest
    if swapped:
        a, b = b, a
        kind = MmaKind(kind.b, kind.a, kind.d, kind.bits, kind.depths, kind.feature)
    return MmaPlan(kind, depth, d, start, a, b)  # type: ignore[arg-type]


def _accumulator(kind: MmaKind) -> tuple[Array, Array]:
    """Row and column of each element of D as arrays (32 lanes, registers, elements of a register)."""
    lane = np.arange(32)[:, None, None]
    count, per = (2, 2) if kind.d == "f16" else (4, 1)
    number = np.arange(count)[None, :, None] * per + np.arange(per)
    return lane // 4 + 8 * (number // 2), 2 * (lane % 4) + number % 2


def _rows(kind: MmaKind, depth: int) -> tuple[Array, Array]:
    """Row and depth of each element of the operand with 16 rows (lanes, registers, elements of one)."""
    lane = np.arange(32)[:, None, None]
    register = np.arange(depth // (2 * kind.per))[None, :, None]
    j = np.arange(kind.per)[None, None, :]
    along = kind.per * (lane % 4) + j + 4 * kind.per * (register // 2)
    return np.broadcast_arrays(lane // 4 + 8 * (register % 2), along)  # type: ignore[return-value]


def _columns(kind: MmaKind, depth: int) -> tuple[Array, Array]:
    """Column and depth of each element of the operand with 8 columns (lanes, registers, elements of one)."""
    lane = np.arange(32)[:, None, None]
    register = np.arange(depth // (4 * kind.per))[None, :, None]
    j = np.arange(kind.per)[None, None, :]
    return np.broadcast_arrays(lane // 4 + 0 * register, kind.per * (lane % 4) + j + 4 * kind.per * register)  # type: ignore[return-value]


def _tiles_of_warps(c: CallContext, d: Held, warps: Array, out: Array) -> Array | str:
    """(warps, tiles each) numbers of the tiles that each warp holds, in the order of their registers."""
    byte = d.find(warps[:, None, :, None, None], out[None])  # warps, tiles, lanes, registers, elements
    has = (byte >= 0).reshape(*byte.shape[:2], -1)
    partly = has.any(axis=2) & ~has.all(axis=2)
    if partly.any():
        w, t = (int(i) for i in np.argwhere(partly)[0])
        return f"warp {int(warps[w, 0]) // 32} holds only part of tile {t} of the accumulator"
    whole = np.asarray(has.all(axis=2))
    counts = whole.sum(axis=1)
    if counts.min() != counts.max() or not counts.min():
        return f"warps hold {counts.min()} to {counts.max()} tiles of 'D'"
    for first in range(0, len(warps), max(1, c.participants // 32)):
        if not whole[first : first + max(1, c.participants // 32)].any(axis=0).all():
            return "no warp holds the whole of some tile of the accumulator"
    first_byte = byte[:, :, 0, 0, 0]
    return np.array([sorted(np.flatnonzero(mine), key=lambda t, at=at: int(at[t])) for mine, at in zip(whole, first_byte)])  # type: ignore[misc]


def _registers(c: CallContext, name: str, where: Held, warps: Array, element: Array, kind: MmaKind) -> object:
    """Nested tuples of register numbers from elements (warps, ..., lanes, registers, elements of one), or what is wrong."""
    o = c.operands[name]
    lanes = warps.reshape(len(warps), *(1,) * (element.ndim - 4), 32, 1, 1)
    byte = where.find(lanes, element)
    if (byte < 0).any():
        at = tuple(int(i) for i in np.argwhere(byte < 0)[0])
        return (
            f"lane {at[-3]} of warp {int(warps[at[0], 0]) // 32} needs element {_coordinate(o, int(element[at]))} of '{name}', "
            "but doesn't hold it"
        )
    size, word = o.bits // 8, o.root.word_bits // 8
    first = byte[..., :1]
    if (byte != first + np.arange(byte.shape[-1]) * size).any() or (first % word).any():
        at = tuple(int(i) for i in np.argwhere((byte != first + np.arange(byte.shape[-1]) * size) | (first % word != 0))[0])
        return f"element {_coordinate(o, int(element[at]))} of '{name}' isn't at its place in a register"
    numbers = first[..., 0] // word
    flat = np.moveaxis(numbers, -2, 1)  # warps, lanes, ..., registers
    if (flat != flat[:1, :1]).any():
        return f"lanes hold their elements of '{name}' in different registers"
    return _nested(flat[0, 0])


def _nested(numbers: Array) -> object:
    return tuple(_nested(n) for n in numbers) if numbers.ndim else int(numbers)


def _coordinate(o: Operand, element: int) -> list[int]:
    return [int(i) for i in np.unravel_index(element, o.extents)]


__all__ = ["MMA_KINDS", "MmaKind", "MmaPlan", "Product", "mma_plan"]
