"""Vector lengths that depend on modifiers, by the name the table uses for them."""

from __future__ import annotations

from collections.abc import Callable

from tirx_eq.ptx.syntax import Bound

#: Registers per repetition of each tcgen05.ld/st shape (PTX ISA 9.7.16.2.3).
TMEM_REGISTERS = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}


def tmem_registers(bound: Bound) -> int:
    """b32 registers per thread that a tcgen05.ld/st of this shape and repetition moves."""
    return TMEM_REGISTERS[bound["shape"]] * int(bound["num"][1:])


def coordinates(bound: Bound) -> int:
    """Coordinates of a tensor copy: its dimension, or column and four rows for gather4 and scatter4."""
    if "4" in bound.get("mode", ""):
        return 5
    return int(bound["dim"][0])


def im2col_offsets(bound: Bound) -> int:
    """Offsets of an im2col copy: two fewer than its dimensions; two for the modes that move a window."""
    return 2 if "::" in bound.get("mode", "") else int(bound["dim"][0]) - 2


def disable_mask(bound: Bound) -> int:
    """Words of the lane mask of tcgen05.mma: 4 for one CTA, 8 for a pair."""
    return 8 if bound["cg"].endswith("2") else 4


def _matrix(bound: Bound) -> int:
    return int(bound["num"][1:])


# (shape, bits of A's type) to 32-bit registers of A and B per lane; C/D depends on the accumulator type.
def _fragment(which: str) -> Callable[[Bound], int]:
    def count(bound: Bound) -> int:
        m, n, k = (int(x) for x in bound["shape"].lstrip("m").replace("n", " ").replace("k", " ").split())
        from tirx_eq.ptx.syntax import TYPE_BITS

        if which in ("c", "d"):
            type_ = bound[which + "t"]
            bits = TYPE_BITS[type_]
            return m * n * bits // 32 // max(bits, 32)
        bits = TYPE_BITS[bound[which + "t"]]
        # fp4 and fp6 operands outside the dense fp4 kinds stand in 8-bit containers
        if bits < 8 or bound[which + "t"] in ("e2m3", "e3m2", "e2m1"):
            bits = 4 if bound.get("kind", "") in ("kind::mxf4", "kind::mxf4nvf4") else 8
        if bits == 64:
            return (m if which == "a" else n) * k // 32
        return (m if which == "a" else n) * k * bits // 32 // 32

    return count


COUNTS: dict[str, Callable[[Bound], int]] = {
    "tmem": tmem_registers,
    "coords": coordinates,
    "im2col": im2col_offsets,
    "mask": disable_mask,
    "matrix": _matrix,
    "matrix2": lambda bound: 2 * _matrix(bound),
    "fragA": _fragment("a"),
    "fragB": _fragment("b"),
    "fragC": _fragment("c"),
    "fragD": _fragment("d"),
}
