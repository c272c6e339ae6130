"""Layouts drawn at random, as text: of shared memory, and of registers that the threads of a scope share out."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from random import Random

from tirx_eq.ir import dtype as dt

#: Axes that number the threads of a scope.
THREAD_AXIS = {"warp": "laneid", "wg": "tid_in_wg", "cta": "tx"}


def factors(rng: Random, extent: int) -> list[int]:
    """Digits whose product is the extent."""
    out = []
    while extent > 1:
        divisors = [d for d in range(2, extent + 1) if extent % d == 0]
        out.append(rng.choice(divisors))
        extent //= out[-1]
    return out or [1]


def _text(digits: list[tuple[int, str]], replicas: list[tuple[int, str]], offset: str = "") -> str:
    extents = ", ".join(str(e) for e, _ in digits) + ("," if len(digits) == 1 else "")
    strides = ", ".join(s for _, s in digits) + ("," if len(digits) == 1 else "")
    more = f" + R[({', '.join(str(e) for e, _ in replicas)},) : ({', '.join(s for _, s in replicas)},)]" if replicas else ""
    return f"TileLayout(S[({extents}) : ({strides})]{more}{offset})"


@dataclass(frozen=True)
class Memory:
    """``text``: the layout argument (empty: row by row); ``what`` it is."""

    text: str
    what: str


def memory_layout(rng: Random, shape: tuple[int, ...], dtype: str) -> Memory:
    """A layout of a buffer in shared memory."""
    bits = dt.storage_bits(dtype)
    kinds = ["rows", "rows", "permuted", "padded"]
    row = shape[-1] * bits // 8
    if bits >= 8 and len(shape) >= 2:
        kinds += ["swizzled"] * 2 if any(row % (16 << m) == 0 for m in (1, 2, 3)) and prod(shape[:-1]) % 8 == 0 else []
        kinds += ["composed"] if prod(shape) & (prod(shape) - 1) == 0 else []
    if bits < 8:
        kinds = ["rows"]
    kind = rng.choice(kinds)
    if kind == "swizzled":
        mode = rng.choice([m for m in (1, 2, 3) if row % (16 << m) == 0])
        if len(shape) == 2 and rng.random() < 0.5:
            return Memory(f'mma_shared_layout("{dtype}", {mode}, {shape})', kind)
        per = (128 // bits).bit_length() - 1
        return Memory(f"ComposeLayout(SwizzleLayout({per}, {mode}, 3), TileLayout(S[{shape} : {strides(shape)}]))", kind)
    if kind == "rows":
        return Memory("", kind)
    if kind == "padded":
        pad = rng.choice((1, 2, 4, 8, 16))
        steps, at = [], 1
        for k, extent in enumerate(reversed(shape)):
            steps.insert(0, at)
            at = at * extent + (pad if k == 0 else 0)
        return Memory(f"TileLayout(S[{shape} : {tuple(steps)}])", kind)
    digits = [d for extent in shape for d in factors(rng, extent)]
    order = list(range(len(digits)))
    rng.shuffle(order)
    steps, at = [0] * len(digits), 1
    for k in order:
        steps[k] = at
        at *= digits[k]
    tile = _text([(d, str(s)) for d, s in zip(digits, steps)], [])
    if kind == "composed":
        total = prod(shape).bit_length() - 1
        m, b = rng.randint(0, 4), rng.randint(1, 3)
        s = rng.randint(b, b + 1)
        if m + b + s <= total:
            return Memory(f"ComposeLayout(SwizzleLayout({m}, {b}, {s}, {rng.random() < 0.8}), {tile})", kind)
    return Memory(tile, "permuted")


def strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row by row, in elements."""
    out, at = [], 1
    for extent in reversed(shape):
        out.insert(0, at)
        at *= extent
    return tuple(out)


@dataclass(frozen=True)
class Registers:
    """A layout of a tile in registers of a scope's threads, and how many elements each has."""

    text: str
    count: int
    what: str


def fragment(dtype: str, rows: int, columns: int) -> Registers | None:
    """The accumulator fragment of mma.m16n8 over a warp."""
    if rows % 16 or columns % 8:
        return None
    a, b = rows // 16, columns // 8
    text = (f"TileLayout(S[({a}, 2, 8, {b}, 4, 2) : ({b * 4}, 2, 4 @ laneid, 4, 1 @ laneid, 1)])")  # fmt: skip
    return Registers(text, a * b * 4, "fragment")


def register_layout(rng: Random, scope: str, threads: int, shape: tuple[int, ...], dtype: str) -> Registers:
    """A distribution of a tile over the ``threads`` of a scope: digits of the coordinates in any places."""
    if scope == "warp" and len(shape) == 2 and rng.random() < 0.3 and (found := fragment(dtype, *shape)):
        return found
    digits = [d for extent in shape for d in factors(rng, extent)]
    left, on_threads = threads, []
    for k in rng.sample(range(len(digits)), len(digits)):
        if digits[k] > 1 and left % digits[k] == 0 and rng.random() < 0.85:
            on_threads.append(k)
            left //= digits[k]
    replicas = factors(rng, left) if left > 1 else []
    places: list[tuple[str, int]] = [("digit", k) for k in on_threads] + [("replica", k) for k in range(len(replicas))]
    rng.shuffle(places)
    strides_of: dict[int, str] = {}
    copies = []
    at, axis = 1, THREAD_AXIS[scope]
    for kind, k in places:
        if kind == "digit":
            strides_of[k] = f"{at} @ {axis}"
            at *= digits[k]
        else:
            copies.append((replicas[k], f"{at} @ {axis}"))
            at *= replicas[k]
    inner = [k for k in range(len(digits)) if k not in on_threads]
    if rng.random() < 0.5:
        inner.reverse()
    else:
        rng.shuffle(inner)
    at = 1
    for k in inner:
        strides_of[k] = str(at)
        at *= digits[k]
    return Registers(_text([(d, strides_of[k]) for k, d in enumerate(digits)], copies), at, "digits")
