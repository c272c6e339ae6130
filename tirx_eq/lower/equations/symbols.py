"""Symbolic values for the value equation: what is computed, not the numbers.

A value is a real expression of named source elements, represented by its value at random points of two prime fields: sums,
differences, products and quotients are those of the field, so expressions that are equal as rational functions get equal
values, whatever their order or shape (identity testing after Schwartz and Zippel; a false "equal" has a chance of about
degree / 2^62).  Other functions (2^x, log2, square root, rounding to a narrow type) are random functions; max and min are
sets, so that their order and nesting don't matter.  Arithmetic in float32 counts as exact, rounding to anything narrower is
an operation of its own, and so is what narrows integers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

Array = np.ndarray

PRIMES = (np.uint64(2**31 - 1), np.uint64(2147483629))
#: Formats by name as PTX spells them: bits, kind (f or s or u), and for floats significand bits and exponent range.
BITS = {
    "f64": 64, "tf32": 32, "f32": 32, "s32": 32, "u32": 32, "f16": 16, "bf16": 16, "s16": 16, "u16": 16, "e4m3": 8,
    "e5m2": 8, "s8": 8, "u8": 8, "s64": 64, "u64": 64, "e8m0": 8, "bool": 8, "e2m1": 4,
}  # fmt: skip
#: Prefixes of the formats of the low and the high half of a 64-bit value.
HALVES = ("low half of ", "high half of ")
BITS.update({h + f: 32 for h in HALVES for f in ("f64", "s64", "u64")})
FLOATS = ("e8m0", "f64", "tf32", "f32", "f16", "bf16", "e4m3", "e5m2", "e2m1")
NUMPY = {
    "f64": "float64", "tf32": "tfloat32", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "e8m0": "float8_e8m0fnu", "bool": "bool", "e2m1": "float4_e2m1fn",
    "s64": "int64", "u64": "uint64",
    "s32": "int32", "u32": "uint32", "s16": "int16", "u16": "uint16", "s8": "int8", "u8": "uint8",
}  # fmt: skip
FORMAT = {v: k for k, v in NUMPY.items()}
#: Formats whose every value another format has; float32 has all (it stands for the reals).
CONTAINED = {
    ("e4m3", "f16"), ("e5m2", "f16"), ("e4m3", "bf16"), ("e5m2", "bf16"), ("s8", "f16"), ("u8", "f16"), ("s8", "bf16"),
    ("u8", "bf16"), ("s8", "s16"), ("s8", "s32"), ("u8", "s16"), ("u8", "s32"), ("u8", "u16"), ("u8", "u32"),
    ("s16", "s32"), ("u16", "s32"), ("u16", "u32"), *((a, "s64") for a in ("s8", "u8", "s16", "u16", "s32", "u32")),
    *((a, "u64") for a in ("u8", "u16", "u32")),
    ("e8m0", "bf16"), *(("bool", f) for f in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "bf16", "e4m3")),
    ("e2m1", "f16"), ("e2m1", "bf16"), ("e2m1", "e4m3"), ("e2m1", "e5m2"),
}  # fmt: skip


def unit_bits(bits: int) -> int:
    """Places of elements of ``bits`` bits are counted in bytes, below a byte in elements."""
    return min(8, bits)


def mix(x: Array) -> Array:
    """A 64-bit mixing function (splitmix64), elementwise."""
    with np.errstate(over="ignore"):
        x = np.asarray(x, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def salt(name: str) -> np.uint64:
    """A number for a name, the same in every run."""
    return np.uint64(zlib.crc32(name.encode()) << 32 | zlib.adler32(name.encode()))


@dataclass(frozen=True, eq=False)
class Sym:
    """One lane's value per thread: residues ``r`` of shape (2, threads), or (2, 1) where all threads have the same.

    ``fmt`` is the format of its bits, ``grid`` one whose values it is known to be among; ``tag`` says that ``r`` is the
    sum of the members of a max or min.  ``wide`` is the value with the cuts of integers to ``kept`` bits and more left out:
    what is cut to as few bits in the end comes to the same.
    """

    r: Array
    fmt: str
    grid: str
    tag: str = ""
    wide: Array | None = None
    kept: int = 64

    @property
    def uncut(self) -> Array:
        """The value before cuts."""
        return self.key() if self.wide is None else self.wide

    def key(self) -> Array:
        """The residues of the value itself."""
        return self.r if not self.tag else _function(self.tag, [self.r])


def _function(name: str, args: list[Array]) -> Array:
    out = []
    for k, p in enumerate(PRIMES):
        h: Array = np.full(1, salt(f"{name}{k}"), dtype=np.uint64)
        for a in args:
            h = mix(h ^ mix(a[0] << np.uint64(32) | a[1]))
        out.append(h % p)
    return np.stack(out)


def atom(space: str, *numbers: Array) -> Array:
    """The residues of a named source element; the numbers (one per thread) tell it from others of the space."""
    wide = [n.astype(np.uint64) for n in numbers]
    return _function("atom " + space, [np.stack([n & np.uint64(0xFFFFFFFF), n >> np.uint64(32)]) for n in wide])


def number(value: float | int, fmt: str) -> Sym:
    """A constant."""
    if isinstance(value, float) and not np.isfinite(value):
        return Sym(_function(f"constant {value}", []), fmt, fmt)
    exact = Fraction(value)
    r = [[exact.numerator * pow(exact.denominator, -1, int(p)) % int(p)] for p in PRIMES]
    return Sym(np.array(r, dtype=np.uint64), fmt, fmt)


def _field(fmt: str, values: list[Array]) -> Sym:
    return Sym(np.stack(np.broadcast_arrays(*values)), fmt, fmt if fmt == "f32" else "")


def _ring(a: Sym, b: Sym, op: Callable[[Array, Array, np.uint64], Array]) -> Sym:
    """A sum, difference or product; done before or after integers are cut to their low bits, it has the same low bits."""
    x, y = a.key(), b.key()
    made = _field(a.fmt, [op(x[k], y[k], p) for k, p in enumerate(PRIMES)])
    if a.wide is None and b.wide is None:
        return made
    x, y = a.uncut, b.uncut
    wide = np.stack(np.broadcast_arrays(*(op(x[k], y[k], p) for k, p in enumerate(PRIMES))))
    return replace(made, wide=wide, kept=min(a.kept, b.kept))


def plus(a: Sym, b: Sym) -> Sym:
    return _ring(a, b, lambda x, y, p: (x + y) % p)


def minus(a: Sym, b: Sym) -> Sym:
    return _ring(a, b, lambda x, y, p: (x + p - y) % p)


def times(a: Sym, b: Sym) -> Sym:
    return _ring(a, b, lambda x, y, p: x * y % p)


def inverse(a: Sym) -> Sym:
    x = a.key()
    out = []
    for k, p in enumerate(PRIMES):
        result, base, e = np.ones_like(x[k]), x[k], int(p) - 2
        while e:
            if e & 1:
                result = result * base % p
            base = base * base % p
            e >>= 1
        out.append(result)
    return _field(a.fmt, out)


def negative(a: Sym) -> Sym:
    """The negative; that of a float of any format but e8m0 is one too, that of the least integer is not."""
    return replace(minus(number(0, a.fmt), a), grid=a.grid if a.grid in FLOATS and a.grid != "e8m0" else "")


def function(name: str, *args: Sym) -> Sym:
    """A function that only promises equal results for equal arguments."""
    return Sym(_function(name, [a.key() for a in args]), args[0].fmt, args[0].fmt if args[0].fmt == "f32" else "")


def extreme(name: str, *args: Sym) -> Sym:
    """``max`` or ``min`` of values, as a set."""
    total: list[Array] = []
    for k, p in enumerate(PRIMES):
        parts = [a.r[k] if a.tag == name else _function("member " + name, [a.key()])[k] for a in args]
        total.append(sum(parts[1:], parts[0]) % p)
    grids = {a.grid for a in args}
    return Sym(np.stack(total), args[0].fmt, grids.pop() if len(grids) == 1 else "", name)


def rounded(a: Sym, fmt: str) -> Sym:
    """A value in another format, or rounded to its own: the operation that this is, or none if the format has the value."""
    if fmt == "bool" and "bool" not in (a.fmt, a.grid):
        return Sym(_function("nonzero", [a.key()]), fmt, fmt)
    from_double = fmt == "f32" and a.fmt == "f64" and a.grid in ("f64", "")
    if (fmt in ("f32", "f64") and not from_double) or a.grid == fmt or (a.grid, fmt) in CONTAINED:
        return replace(a, fmt=fmt, grid=a.grid or fmt)
    if fmt not in FLOATS and a.fmt not in FLOATS and BITS[a.fmt] == BITS[fmt]:
        return replace(a, fmt=fmt, grid=fmt)
    kind = "round" if fmt in FLOATS else "wrap" if a.fmt not in FLOATS else "truncate"
    if kind == "wrap":
        base = a.uncut if BITS[fmt] <= a.kept else a.key()
        return Sym(_function(f"{kind} {fmt}", [base]), fmt, fmt, wide=base, kept=min(a.kept, BITS[fmt]))
    return Sym(_function(f"{kind} {fmt}", [a.key()]), fmt, fmt)


def choose(mask: Array, a: Sym, b: Sym) -> Sym:
    """``a`` where the mask holds, else ``b``."""
    grid = a.grid if a.grid == b.grid else ""
    if a.tag == b.tag:
        return Sym(np.where(mask, a.r, b.r), a.fmt, grid, a.tag)
    return Sym(np.where(mask, a.key(), b.key()), a.fmt, grid)


def permuted(a: Sym, lanes: Array) -> Sym:
    """The value of thread ``lanes[t]`` in thread t."""
    r = np.broadcast_to(a.r, (2, len(lanes)))
    wide = None if a.wide is None else np.broadcast_to(a.wide, (2, len(lanes)))[:, lanes]
    return replace(a, r=r[:, lanes], wide=wide)


def same_format(a: str, b: str) -> bool:
    """Whether bits of one format may stand for the other: signed and unsigned integers of one size."""
    return a == b or (a not in FLOATS and b not in FLOATS and BITS[a] == BITS[b])
