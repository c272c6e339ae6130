"""Conditions on matrix multiplication with tcgen05.mma (PTX ISA 9.7.16)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir import Expr, const
from ...prove.validate import validate
from ...ptx.descriptor import MatrixDescriptor, element_address
from ...ptx.swizzle_modes import SWIZZLES, swizzle_of_code
from ..context import CallContext
from .registry import OPTIONS, coordinate, holds, holds_at, in_space

OPTIONS["swizzle"] = lambda c: [m.code for m in SWIZZLES.values()]

F16_KINDS = {
    ("float16", "float32"): ("f16", "f32"), ("bfloat16", "float32"): ("bf16", "f32"), ("float16", "float16"): ("f16", "f16"),
}  # fmt: skip
MMA_K = 16  # elements of 16 bits that one tcgen05.mma takes along K (32 bytes; PTX ISA 9.7.16.2)


def mma_shape(c: CallContext) -> tuple[int, int, int]:
    """(M, N, K) of a gemm_async call with operands that are not transposed."""
    a, b = c.operands["A"].shape, c.operands["B"].shape
    return a[0], b[0], a[1]


def _matrix(c: CallContext) -> str | None:
    for name in ("A", "B", "C"):
        if len(c.operands[name].shape) != 2:
            return f"'{name}' has extents {list(c.operands[name].extents)}, not two that exceed 1"
    return None


@holds("A and B in shared memory")
def _ab_shared(c: CallContext) -> str | None:
    return in_space(c.operands["A"], "shared") or in_space(c.operands["B"], "shared")


@holds("accumulator in tensor memory")
def _c_tmem(c: CallContext) -> str | None:
    return in_space(c.operands["C"], "tmem")


@holds("kind::f16 takes the dtypes")
def _f16(c: CallContext) -> str | None:
    a, b, d = (c.operands[n].dtype for n in "ABC")
    return None if a == b and (a, d) in F16_KINDS else f"A is {a}, B is {b}, the accumulator {d}"


@holds("cta_group is 1")
def _group1(c: CallContext) -> str | None:
    group = c.call.config.get("cta_group", 1)
    return None if int(group) == 1 else f"cta_group is {group}"


@holds("M is 64 or 128")
def _m(c: CallContext) -> str | None:
    reason = _matrix(c)
    if reason:
        return reason
    m = c.operands["A"].shape[0]
    return None if m in (64, 128) else f"M is {m}"


@holds("N is a multiple of 16 up to 256")
def _n(c: CallContext) -> str | None:
    reason = _matrix(c)
    if reason:
        return reason
    n = c.operands["B"].shape[0]
    return None if n % 16 == 0 and 16 <= n <= 256 else f"N is {n}"


@holds("K is a multiple of 16")
def _k(c: CallContext) -> str | None:
    reason = _matrix(c)
    if reason:
        return reason
    k = c.operands["A"].shape[1]
    return None if k % MMA_K == 0 else f"K is {k}"


@holds("shapes of A, B and C agree")
def _shapes(c: CallContext) -> str | None:
    reason = _matrix(c)
    if reason:
        return reason
    a, b, d = (c.operands[n].shape for n in "ABC")
    return None if a[1] == b[1] and d == (a[0], b[0]) else f"A is {list(a)}, B is {list(b)}, C is {list(d)}"


@holds("neither operand is transposed")
def _not_transposed(c: CallContext) -> str | None:
    for name in ("transA", "transB"):
        if int(const(c.call.operand(name))):  # type: ignore[call-overload]
            return f"{name} is set"
    return None


@holds("the accumulator has the datapath layout")
def _accumulator(c: CallContext) -> str | None:
    """Lane and column of D[m][n]: PTX ISA 9.7.16, data path layouts D (M = 128) and F (M = 64)."""
    d = c.operands["C"]
    if d.root.space != "tmem" or len(d.shape) != 2:
        return "the accumulator is not a matrix in tensor memory"
    places = d.places({})
    if "TLane" not in places or "TCol" not in places:
        return f"'{d.buffer.name}' has no layout on TLane and TCol"
    m, n = np.unravel_index(np.arange(d.size), d.shape)
    lane = m if d.shape[0] == 128 else (m % 16) + 32 * (m // 16)
    bad = np.flatnonzero((places["TLane"] != lane) | (places["TCol"] - places["TCol"][0] != n))
    if not len(bad):
        return None
    k = int(bad[0])
    return (
        f"D{coordinate(d, k)} is at lane {int(places['TLane'][k])}, column {int(places['TCol'][k])}; "
        f"the tensor core puts it at lane {int(lane[k])}, column {int(places['TCol'][0]) + int(n[k])}"
    )


@dataclass(frozen=True)
class KSlice:
    """16 elements of K of an operand: its descriptor when everything it depends on is lowest, and its first byte."""

    descriptor: MatrixDescriptor
    start: Expr


def k_slices(c: CallContext, name: str, code: int) -> list[KSlice] | str:
    """The K slices of an operand under a swizzle mode, or why the mode doesn't describe it.

    The operand is K-major (rows along M or N, K contiguous).  LBO, SBO and the starts are read off its layout; then every
    element's address is compared with what the descriptor means (PTX ISA 9.7.16.4, canonical layouts).  Starts are bytes
    from the shared block's start, which is aligned to the largest pattern; the tile itself must be, too.
    """
    o, mode = c.operands[name], swizzle_of_code(code)
    if mode.name == "128B_ATOM_32B":
        return "the 32-byte-atom swizzle is for MN-major operands"
    if o.root.space != "shared" or len(o.shape) != 2:
        return f"'{o.name}' is not a matrix in shared memory"
    rows, depth = o.shape
    if depth % MMA_K:
        return f"K is {depth}, not a multiple of {MMA_K}"
    address = (o.places(c.lowest())["byte"] + o.root.offset).reshape(rows, depth)
    per16 = 128 // o.bits
    sbo = int(address[8, 0] - address[0, 0]) if rows > 8 else 8 * max(16, mode.span)
    lbo = int(address[0, per16] - address[0, 0]) if mode.name == "none" else 16
    if sbo <= 0 or lbo <= 0 or sbo % 16 or lbo % 16:
        return f"the strides between row groups ({sbo} bytes) or 16-byte columns ({lbo}) are not multiples of 16"
    scope = c.scope_with()
    tile = c.term(o.byte_offset(0) + o.root.offset, scope)
    if validate(("mod", tile, mode.pattern), 0, scope.ranges).status != "equal":
        return f"'{o.name}' may begin off the {mode.pattern}-byte boundary that swizzle {mode.name} needs"
    found = []
    row, k = np.meshgrid(np.arange(rows), np.arange(MMA_K), indexing="ij")
    for step in range(0, depth, MMA_K):
        descriptor = MatrixDescriptor(int(address[0, step]), lbo, sbo, mode.name)
        wanted = np.asarray(element_address(descriptor, "K", o.bits, row, k))  # type: ignore[arg-type]
        bad = np.argwhere(wanted != address[:, step : step + MMA_K])
        if len(bad):
            i, j = (int(v) for v in bad[0])
            return (
                f"element [{i}, {step + j}] of '{o.name}' is at byte {int(address[i, step + j])}, "
                f"the descriptor with swizzle {mode.name} reads byte {int(wanted[i, j])}"
            )
        found.append(KSlice(descriptor, o.byte_offset(step) + o.root.offset))
    return found


def _canonical(c: CallContext, name: str, code: int) -> str | None:
    found = k_slices(c, name, code)
    return found if isinstance(found, str) else None


holds_at("A is in the canonical layout")(lambda c, code: _canonical(c, "A", code))
holds_at("B is in the canonical layout")(lambda c, code: _canonical(c, "B", code))
