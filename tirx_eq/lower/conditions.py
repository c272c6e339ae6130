"""The named conditions of the lowering rules, as a table.

Each takes the context of a call (and a value, for those with a parameter) and returns None if it holds, else a sentence
that says why not, with figures.  Rules refer to them by name (``holds``, ``holds-at`` in ``rules/lower_*.egg``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir import IntImm, Var, const
from ..prove.validate import validate
from ..ptx.descriptor import MatrixDescriptor, element_address
from ..ptx.swizzle_modes import SWIZZLES, swizzle_of_code
from ..ptx.target import target_has
from .context import CallContext, Operand

#: Conditions that hold for a width if they hold for twice the width: halves of contiguous, aligned groups are so too.
MONOTONE = frozenset(f"{what} in the {side}" for what in ("contiguous", "aligned") for side in ("source", "destination"))

Condition = Callable[[CallContext], str | None]
ConditionAt = Callable[[CallContext, int], str | None]

CONDITIONS: dict[str, Condition] = {}
CONDITIONS_AT: dict[str, ConditionAt] = {}
#: Values worth trying for each parameter, best first.
OPTIONS: dict[str, Callable[[CallContext], list[int]]] = {
    "bytes": lambda c: [w for w in (32, 16, 8, 4, 2, 1) if all(w * 8 >= o.bits for o in _regions(c))],
    "repeat": lambda c: [128, 64, 32, 16, 8, 4, 2, 1],
    "swizzle": lambda c: [m.code for m in SWIZZLES.values()],
}


def _holds(name: str) -> Callable[[Condition], Condition]:
    def wrap(f: Condition) -> Condition:
        CONDITIONS[name] = f
        return f

    return wrap


def _holds_at(name: str) -> Callable[[ConditionAt], ConditionAt]:
    def wrap(f: ConditionAt) -> ConditionAt:
        CONDITIONS_AT[name] = f
        return f

    return wrap


def _regions(c: CallContext) -> list[Operand]:
    return list(c.operands.values())


def _space(o: Operand, *spaces: str) -> str | None:
    if o.root.space in spaces:
        return None
    return f"'{o.name}' ({o.buffer.name}) is in {SPACE_NAMES[o.root.space]}"


SPACE_NAMES = {
    "global": "global memory", "shared": "shared memory", "local": "registers", "tmem": "tensor memory",
}  # fmt: skip


# -- threads and target ------------------------------------------------------------------------------------------


@_holds("the threads are whole units of the scope")
def _whole(c: CallContext) -> str | None:
    return None if c.active.fits(c.scope) else f"it is reached by {c.active.describe()}, not by whole {c.scope}s"


@_holds("one thread issues")
def _one(c: CallContext) -> str | None:
    if c.scope == "thread":
        return None if c.active.single_thread() else f"it is reached by {c.active.describe()}"
    # Called by a warp, the instruction is issued by one elected lane.
    if c.scope == "warp":
        one = c.active.fits("warp") and len(c.active.warps()) == 1
        return None if one else f"it is reached by {c.active.describe()}, not by one whole warp"
    return f"the call is at {c.scope} scope; thread or warp is needed"


@_holds("the target has tensor memory")
def _tcgen05(c: CallContext) -> str | None:
    return None if target_has(c.target, "tcgen05") else f"{c.target} has no tcgen05"


# -- element-wise operands ---------------------------------------------------------------------------------------


@_holds("operands have one dtype")
def _one_dtype(c: CallContext) -> str | None:
    dtypes = {o.dtype for o in _regions(c)}
    return None if len(dtypes) == 1 else "dtypes are " + ", ".join(f"{o.name}: {o.dtype}" for o in _regions(c))


@_holds("operands have equal extents")
def _equal_extents(c: CallContext) -> str | None:
    shapes = {o.shape for o in _regions(c)}
    if len(shapes) == 1:
        return None
    return "extents are " + ", ".join(f"{o.name}: {list(o.extents)}" for o in _regions(c))


@_holds("source in memory")
def _source_memory(c: CallContext) -> str | None:
    return _space(c.inputs[0], "global", "shared")


@_holds("destination in memory")
def _destination_memory(c: CallContext) -> str | None:
    return _space(c.outputs[0], "global", "shared")


@_holds("source in registers")
def _source_registers(c: CallContext) -> str | None:
    return _space(c.inputs[0], "local")


@_holds("destination in registers")
def _destination_registers(c: CallContext) -> str | None:
    return _space(c.outputs[0], "local")


@_holds("source in tensor memory")
def _source_tmem(c: CallContext) -> str | None:
    return _space(c.inputs[0], "tmem")


@_holds("destination in tensor memory")
def _destination_tmem(c: CallContext) -> str | None:
    return _space(c.outputs[0], "tmem")


@_holds("both operands in registers")
def _both_registers(c: CallContext) -> str | None:
    for o in _regions(c):
        reason = _space(o, "local") or _private(o)
        if reason:
            return reason
    return None


@_holds("one operand in registers, one in memory")
def _registers_and_memory(c: CallContext) -> str | None:
    local = [o for o in _regions(c) if o.root.space == "local"]
    memory = [o for o in _regions(c) if o.root.space in ("global", "shared")]
    if len(local) == 1 and len(memory) == 1:
        return _private(local[0])
    return ", ".join(f"'{o.name}' is in {SPACE_NAMES[o.root.space]}" for o in _regions(c))


def _private(o: Operand) -> str | None:
    """Whether each thread holds the whole operand, at register numbers known at compile time."""
    if not all(isinstance(r.min, IntImm) for r in o.region.region):
        return f"'{o.name}' ({o.buffer.name}) is in registers, so where it begins must be constant"
    axes = sorted(axis for axis in o.places({}) if axis != "byte")
    return f"'{o.name}' is spread over threads along {', '.join(axes)}" if axes else None


# -- vector accesses ---------------------------------------------------------------------------------------------


@_holds_at("the access width exists for both spaces")
def _width(c: CallContext, w: int) -> str | None:
    # 32-byte accesses: ld/st.global only, sm_100 and PTX 8.8 (PTX ISA, ld and st).
    if w == 32 and any(o.root.space == "shared" for o in _regions(c)):
        return "shared memory has accesses of at most 16 bytes"
    if w == 32 and not target_has(c.target, "sm_100"):
        return f"{c.target} has no 32-byte accesses"
    return None


def _contiguous(c: CallContext, o: Operand, w: int) -> str | None:
    """Whether every aligned group of elements that makes ``w`` bytes lies at consecutive addresses, in order."""
    lanes = w * 8 // o.bits
    if o.size % lanes:
        return f"{o.size} elements are not a multiple of {lanes}"
    if lanes == 1:
        return None
    vector = Var("vector", "int32")  # type: ignore[arg-type]
    scope = c.scope_with({vector: (0, o.size // lanes - 1)})
    first = c.term(o.byte_offset(vector * lanes), scope)
    for lane in range(lanes - 1, 0, -1):
        here = c.term(o.byte_offset(vector * lanes + lane), scope)
        wanted = ("add", first, lane * o.bits // 8)
        verdict = validate(here, wanted, scope.ranges)
        if verdict.status != "equal":
            where = f" at {verdict.counterexample}" if verdict.counterexample else ""
            return f"element {lane} of a group of {lanes} is not {lane * o.bits // 8} bytes after its first{where}"
    return None


def _aligned(c: CallContext, o: Operand, w: int) -> str | None:
    """Whether the first byte of every group is at a multiple of ``w`` bytes, the root's own alignment included."""
    if o.root.space == "local":
        return None
    if o.root.align % w:
        return f"'{o.buffer.name}' is known to be aligned to {o.root.align} bytes only"
    lanes = w * 8 // o.bits
    if o.size % lanes:
        return f"{o.size} elements are not a multiple of {lanes}"
    vector = Var("vector", "int32")  # type: ignore[arg-type]
    scope = c.scope_with({vector: (0, o.size // lanes - 1)})
    verdict = validate(("mod", c.term(o.byte_offset(vector * lanes), scope), w), 0, scope.ranges)
    if verdict.status == "equal":
        return None
    return f"an access is not at a multiple of {w} bytes" + (f", at {verdict.counterexample}" if verdict.counterexample else "")


_holds_at("contiguous in the source")(lambda c, w: _contiguous(c, c.inputs[0], w))
_holds_at("contiguous in the destination")(lambda c, w: _contiguous(c, c.outputs[0], w))
_holds_at("aligned in the source")(lambda c, w: _aligned(c, c.inputs[0], w))
_holds_at("aligned in the destination")(lambda c, w: _aligned(c, c.outputs[0], w))


# -- tensor memory -----------------------------------------------------------------------------------------------


def tmem_and_registers(c: CallContext) -> tuple[Operand, Operand]:
    """The tensor-memory operand and the register operand of a call that has one of each."""
    a, b = c.outputs[0], c.inputs[0]
    return (a, b) if a.root.space == "tmem" else (b, a)


@_holds("elements of 32 bits")
def _bits32(c: CallContext) -> str | None:
    return None if c.outputs[0].bits == 32 else f"elements have {c.outputs[0].bits} bits"


@_holds("thread t holds lane t, register j column j")
def _datapath(c: CallContext) -> str | None:
    """PTX ISA, tcgen05.ld shape .32x32b: thread t of a warp and its lane t, register j and column j."""
    if {o.root.space for o in _regions(c)} != {"tmem", "local"}:
        return "one operand must be in tensor memory, the other in registers"
    tmem, regs = tmem_and_registers(c)
    t, r = tmem.places({}), regs.places({})
    if "TLane" not in t or "TCol" not in t:
        return f"'{tmem.buffer.name}' has no layout on TLane and TCol"
    thread = r.get("tid_in_wg")
    if thread is None:
        return f"'{regs.buffer.name}' is not spread over the warpgroup (axis tid_in_wg)"
    bad = np.flatnonzero(t["TLane"] != thread)
    if len(bad):
        k = int(bad[0])
        return f"element {_coordinate(tmem, k)} is in lane {int(t['TLane'][k])}, but thread {int(thread[k])} holds it"
    shift = t["TCol"] - r["byte"] // 4
    bad = np.flatnonzero(shift != shift[0])
    if len(bad):
        k = int(bad[0])
        return f"element {_coordinate(tmem, k)} is in column {int(t['TCol'][k])}, but register {int(r['byte'][k]) // 4}"
    if len(np.unique(thread)) != 128 or len(np.unique(t["TLane"] * 512 + t["TCol"])) != tmem.size:
        return "the region doesn't have 128 rows, each in its own lane"
    columns = np.unique(t["TCol"])
    if columns[-1] - columns[0] + 1 != len(columns):
        return "the columns are not consecutive"
    return None


@_holds_at("the columns are a multiple of the repeat")
def _repeat(c: CallContext, n: int) -> str | None:
    columns = tmem_and_registers(c)[0].size // 128
    return None if columns and columns % n == 0 else f"{columns} columns are not a multiple of {n}"


# -- conversions -------------------------------------------------------------------------------------------------

#: (from, to) -> PTX conversion of two elements into one 32-bit register, high element first (PTX ISA, cvt).
PACKED_CASTS = {
    ("float32", "float16"): "cvt.rn.f16x2.f32",
    ("float32", "bfloat16"): "cvt.rn.bf16x2.f32",
}
#: (from, to) -> PTX conversion of one element.
SCALAR_CASTS = {
    ("float32", "float16"): "cvt.rn.f16.f32", ("float32", "bfloat16"): "cvt.rn.bf16.f32",
    ("float16", "float32"): "cvt.f32.f16", ("bfloat16", "float32"): "cvt.f32.bf16",
    ("int32", "float32"): "cvt.rn.f32.s32", ("uint32", "float32"): "cvt.rn.f32.u32",
    ("float32", "int32"): "cvt.rzi.s32.f32", ("float32", "uint32"): "cvt.rzi.u32.f32",
}  # fmt: skip


def _cast_pair(c: CallContext) -> tuple[str, str]:
    return c.inputs[0].dtype, c.outputs[0].dtype


@_holds("a packed conversion exists")
def _packed(c: CallContext) -> str | None:
    pair = _cast_pair(c)
    return None if pair in PACKED_CASTS else f"there is no packed conversion from {pair[0]} to {pair[1]}"


@_holds("a scalar conversion exists")
def _scalar(c: CallContext) -> str | None:
    pair = _cast_pair(c)
    return None if pair in SCALAR_CASTS else f"there is no conversion from {pair[0]} to {pair[1]}"


@_holds("destination pairs share a register")
def _pairs(c: CallContext) -> str | None:
    dst = c.outputs[0]
    if dst.root.space != "local" or dst.size % 2 or "byte" not in dst.places({}):
        return "the destination is not an even number of elements in registers"
    byte = dst.places({})["byte"]
    bad = np.flatnonzero((byte[0::2] % 4 != 0) | (byte[1::2] != byte[0::2] + 2))
    return f"elements {2 * int(bad[0])} and {2 * int(bad[0]) + 1} are not in one register" if len(bad) else None


# -- tcgen05.mma -------------------------------------------------------------------------------------------------

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


@_holds("A and B in shared memory")
def _ab_shared(c: CallContext) -> str | None:
    return _space(c.operands["A"], "shared") or _space(c.operands["B"], "shared")


@_holds("accumulator in tensor memory")
def _c_tmem(c: CallContext) -> str | None:
    return _space(c.operands["C"], "tmem")


@_holds("kind::f16 takes the dtypes")
def _f16(c: CallContext) -> str | None:
    a, b, d = (c.operands[n].dtype for n in "ABC")
    return None if a == b and (a, d) in F16_KINDS else f"A is {a}, B is {b}, the accumulator {d}"


@_holds("cta_group is 1")
def _group1(c: CallContext) -> str | None:
    group = c.call.config.get("cta_group", 1)
    return None if int(group) == 1 else f"cta_group is {group}"


@_holds("M is 64 or 128")
def _m(c: CallContext) -> str | None:
    reason = _matrix(c)
    if reason:
        return reason
    m = c.operands["A"].shape[0]
    return None if m in (64, 128) else f"M is {m}"


@_holds("N is a multiple of 16 up to 256")
def _n(c: CallContext) -> str | None:
    reason = _matrix(c)
    if reason:
        return reason
    n = c.operands["B"].shape[0]
    return None if n % 16 == 0 and 16 <= n <= 256 else f"N is {n}"


@_holds("K is a multiple of 16")
def _k(c: CallContext) -> str | None:
    reason = _matrix(c)
    if reason:
        return reason
    k = c.operands["A"].shape[1]
    return None if k % MMA_K == 0 else f"K is {k}"


@_holds("shapes of A, B and C agree")
def _shapes(c: CallContext) -> str | None:
    reason = _matrix(c)
    if reason:
        return reason
    a, b, d = (c.operands[n].shape for n in "ABC")
    return None if a[1] == b[1] and d == (a[0], b[0]) else f"A is {list(a)}, B is {list(b)}, C is {list(d)}"


@_holds("neither operand is transposed")
def _not_transposed(c: CallContext) -> str | None:
    for name in ("transA", "transB"):
        if int(const(c.call.operand(name))):  # type: ignore[call-overload]
            return f"{name} is set"
    return None


@_holds("the accumulator has the datapath layout")
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
        f"D{_coordinate(d, k)} is at lane {int(places['TLane'][k])}, column {int(places['TCol'][k])}; "
        f"the tensor core puts it at lane {int(lane[k])}, column {int(places['TCol'][0]) + int(n[k])}"
    )


def _coordinate(o: Operand, element: int) -> list[int]:
    return [int(i) for i in np.unravel_index(element, o.extents)]


def canonical_descriptors(o: Operand, code: int) -> list[MatrixDescriptor] | str:
    """Descriptors of the operand's K slices of 16 elements under a swizzle mode, or why there are none.

    The operand is K-major (rows along M or N, K contiguous).  LBO, SBO and the starts are read off its layout; then every
    element's address is compared with what the descriptor means (PTX ISA 9.7.16.4, canonical layouts).  Starts are bytes
    from the shared block's start, which is aligned to the largest pattern.
    """
    mode = swizzle_of_code(code)
    if mode.name == "128B_ATOM_32B":
        return "the 32-byte-atom swizzle is for MN-major operands"
    if o.root.space != "shared" or len(o.shape) != 2:
        return f"'{o.name}' is not a matrix in shared memory"
    rows, depth = o.shape
    if depth % MMA_K:
        return f"K is {depth}, not a multiple of {MMA_K}"
    try:
        places = o.places({})
    except KeyError:
        return f"where '{o.name}' begins depends on run-time values"
    address = (places["byte"] + o.root.offset).reshape(rows, depth)
    per16 = 128 // o.bits
    sbo = int(address[8, 0] - address[0, 0]) if rows > 8 else 8 * max(16, mode.span)
    lbo = int(address[0, per16] - address[0, 0]) if mode.name == "none" else 16
    if sbo <= 0 or lbo <= 0 or sbo % 16 or lbo % 16:
        return f"the strides between row groups ({sbo} bytes) or 16-byte columns ({lbo}) are not multiples of 16"
    found = []
    row, k = np.meshgrid(np.arange(rows), np.arange(MMA_K), indexing="ij")
    for step in range(0, depth, MMA_K):
        start = int(address[0, step])
        if start % 16:
            return f"the slice at K = {step} begins at byte {start}, not a multiple of 16"
        descriptor = MatrixDescriptor(start, lbo, sbo, mode.name)
        wanted = np.asarray(element_address(descriptor, "K", o.bits, row, k))  # type: ignore[arg-type]
        bad = np.argwhere(wanted != address[:, step : step + MMA_K])
        if len(bad):
            i, j = (int(v) for v in bad[0])
            return (
                f"element [{i}, {step + j}] of '{o.name}' is at byte {int(address[i, step + j])}, "
                f"the descriptor with swizzle {mode.name} reads byte {int(wanted[i, j])}"
            )
        found.append(descriptor)
    return found


def _canonical(c: CallContext, name: str, code: int) -> str | None:
    found = canonical_descriptors(c.operands[name], code)
    return found if isinstance(found, str) else None


_holds_at("A is in the canonical layout")(lambda c, code: _canonical(c, "A", code))
_holds_at("B is in the canonical layout")(lambda c, code: _canonical(c, "B", code))
