"""Conditions on asynchronous copies between global and shared memory, and the plan of a tensor copy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...errors import PtxError
from ...ir import Expr, IntImm, Var, const
from ...ir import dtype as dt
from ...ir.index import Term, evaluate_many, names, show
from ...ir.node import replace as replace_node
from ...prove.validate import validate
from ...ptx.swizzle_modes import SWIZZLES, SwizzleMode
from ...ptx.target import target_has
from ...ptx.tensormap import CARRIERS, PADDED_ROW, TYPES, TensorMap
from ..context import CallContext, Operand
from ..intrinsics.language import constant
from ..scope import new_scope
from ..storage import place
from .registry import OPTIONS, coordinate, holds, holds_at, in_space, regions

#: cp.async moves 4, 8 or 16 bytes per thread (PTX ISA 9.7.9.25).
OPTIONS["cp.async bytes"] = lambda c: [w for w in (16, 8, 4) if all(w * 8 >= o.bits for o in regions(c))]
#: Where a box may begin in shared memory (PTX ISA 9.7.9.27: 128 bytes).
BOX_ALIGN = 128
OPTIONS["tensor-map swizzle"] = lambda c: [SWIZZLES[s].tensor_map_code for s in ("128B", "64B", "32B", "128B_ATOM_32B", "none")]

#: dtype -> element type of a tensor map.
MAP_TYPES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int32": "s32", "uint32": "u32", "int64": "s64",
    "uint64": "u64", "uint16": "u16", "int16": "s16", "uint8": "u8", "int8": "s8", "bool": "u8", "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2", "float8_e8m0fnu": "ue8m0", "float4_e2m1fn": "u4_align8",
}  # fmt: skip
MAX_EXTENT = 1 << 32  # of a tensor map
#: Values of a tile's variables that are looked at one by one.
MAX_STARTS = 4096


@dataclass(frozen=True)
class TensorCopy:
    """One tensor copy: a box of ``map`` at ``coords`` (innermost first), and its address in shared memory.

    ``lowest``: that address in the shared block, before the swizzle, with every variable at its lowest; None where it has been
    looked at wherever the box may begin.
    """

    map: TensorMap
    coords: tuple[Expr, ...]
    shared: Expr
    lowest: int | None


@holds("the target has tensor copies")
def _target(c: CallContext) -> str | None:
    return None if target_has(c.target, "sm_90") else f"{c.target} has no cp.async.bulk.tensor"


@holds("source in global memory")
def _source_global(c: CallContext) -> str | None:
    return in_space(c.inputs[0], "global")


@holds("destination in global memory")
def _destination_global(c: CallContext) -> str | None:
    return in_space(c.outputs[0], "global")


@holds("source in shared memory")
def _source_shared(c: CallContext) -> str | None:
    return in_space(c.inputs[0], "shared")


@holds("destination in shared memory")
def _destination_shared(c: CallContext) -> str | None:
    return in_space(c.outputs[0], "shared")


@holds("a barrier is given")
def _barrier(c: CallContext) -> str | None:
    return None if c.call.config.get("mbar") is not None else "the call has no mbar=, on which the copy would report"


@holds("no barrier is given")
def _no_barrier(c: CallContext) -> str | None:
    given = c.call.config.get("mbar") is not None
    return "cp.async completes by groups, so mbar= would never be signalled" if given else None


def global_and_shared(c: CallContext) -> tuple[Operand, Operand]:
    """The global and the shared operand of a copy between the two."""
    a, b = c.inputs[0], c.outputs[0]
    return (a, b) if a.root.space == "global" else (b, a)


def tensor_map(c: CallContext, code: int) -> TensorMap | str:
    """The tensor map of the call's global buffer for boxes of the region under a swizzle, or why there is none."""
    key = ("tensor map", code)
    return c.once(key, lambda: _tensor_map(c, code))


def _tensor_map(c: CallContext, code: int) -> TensorMap | str:
    mode = next(m for m in SWIZZLES.values() if m.tensor_map_code == code)
    source, shared = global_and_shared(c)
    buffer = source.buffer
    if buffer.dtype not in MAP_TYPES:
        return f"tensor maps have no element type for {buffer.dtype}"
    kind = TYPES[CARRIERS.get(MAP_TYPES[buffer.dtype], MAP_TYPES[buffer.dtype])]
    if kind.bits == 4 and c.once(("padded", shared.name), lambda: _padded(c, shared)):
        if shared is c.inputs[0]:
            return f"'{shared.buffer.name}' has 8 bytes of padding after every 16 elements: such tiles are loaded only"
        kind = TYPES["u4_align16"]
    shape = c.launch.host.shape(buffer)
    if not isinstance(buffer.elem_offset, IntImm):
        return f"where '{buffer.name}' begins is known only at run time"
    strides = c.once(("strides", source.name), lambda: _strides(c, source))
    if isinstance(strides, str):
        return strides
    bits = dt.storage_bits(buffer.dtype)
    if strides[-1] != 1:
        apart = f"{strides[-1] * bits / 8:g} bytes" if isinstance(strides[-1], int) else f"{show(strides[-1])} elements"
        return f"neighbours along the last dimension of '{buffer.name}' are {apart} apart, not {bits / 8:g}"
    if any(bits % 8 and (not isinstance(s, int) or s * bits % 8) for s in strides[:-1]) or buffer.elem_offset.value * bits % 8:
        return f"rows of '{buffer.name}' begin within a byte"
    steps = tuple(_bytes(s, bits) for s in reversed(strides[:-1]))
    row = source.extents[-1]
    most = PADDED_ROW if kind.padded else mode.span * 8 // bits or row
    box = (min(row, most), *reversed(source.extents[:-1]))
    if row % box[0]:
        whose = "a padded box's" if kind.padded else "the swizzle's"
        return f"rows of {row} elements are not a multiple of {whose} {box[0]}"
    try:
        return TensorMap(
            buffer.name, kind.name if kind.padded else MAP_TYPES[buffer.dtype], tuple(reversed(shape)), steps, box, mode.name,
            offset=buffer.elem_offset.value * bits // 8, oob_fill=str(constant(c.call.config.get("oob")) or "zero"),
        )  # fmt: skip
    except PtxError as error:
        return error.message


def _padded(c: CallContext, o: Operand) -> bool:
    """Whether elements of 4 bits fill 8 of every 16 bytes only, as the tensor core wants them beside elements of 8 bits.

    A tensor copy that pads (``.b4x16_p64``) makes such tiles (PTX ISA 5.5.1.1).
    """
    return bool((o.bit_places(c.lowest()) % 128 < 64).all()) and o.extents[-1] > 16


def _bytes(stride: Term, bits: int) -> Term:
    """Bytes of a stride in elements, which are whole."""
    return stride * bits // 8 if isinstance(stride, int) else ("mul", stride, bits // 8)


def _strides(c: CallContext, o: Operand) -> list[Term] | str:
    """Strides in elements of a buffer whose elements lie at a sum of coordinate times stride, or why they don't."""
    shape = o.buffer.shape
    origin = place(o.buffer, [0] * len(shape))
    steps = []
    for d in range(len(shape)):
        unit = place(o.buffer, [int(k == d) for k in range(len(shape))])
        steps.append(unit.get("m", const(0)) - origin.get("m", const(0)))
    variables = [Var(f"i{d}", "int32") for d in range(len(shape))]  # type: ignore[arg-type]
    scope = new_scope()
    for v, extent in zip(variables, shape):
        scope.name(v, (0, extent.value - 1 if isinstance(extent, IntImm) else MAX_EXTENT - 1))
    actual = scope.term(place(o.buffer, variables).get("m", const(0)))
    linear: Expr = origin.get("m", const(0))
    for v, s in zip(variables, steps):
        linear = linear + v * s
    if validate(actual, scope.term(linear), scope.ranges).status != "equal":
        return f"'{o.buffer.name}' is not laid out with one stride per dimension"
    return [c.launch.host.term(s, f"a stride of '{o.buffer.name}'") for s in steps]


@holds_at("the global buffer has a tensor map")
def _has_map(c: CallContext, code: int) -> str | None:
    found = tensor_map(c, code)
    return found if isinstance(found, str) else None


def tensor_copies(c: CallContext, code: int) -> list[TensorCopy] | str:
    """The copies that make up the call, one box each, or why the shared tile isn't boxes.

    A box in shared memory is its elements row-major, innermost first, then the swizzle on absolute byte addresses.
    """
    return c.once(("tensor copies", code), lambda: _tensor_copies(c, code))


def _tensor_copies(c: CallContext, code: int) -> list[TensorCopy] | str:
    made = tensor_map(c, code)
    if isinstance(made, str):
        return made
    source, shared = global_and_shared(c)
    mode = SWIZZLES[made.swizzle]
    rows = source.size // source.extents[-1]
    columns = source.extents[-1] // made.box[0]
    bit = shared.bit_places(c.lowest()).reshape(rows, columns, made.box[0])
    address, within = bit // 8 + shared.root.offset, bit % 8
    box_bit = made.type.place(np.arange(rows * made.box[0]).reshape(rows, made.box[0]))
    box = box_bit // 8
    copies = []
    for k in range(columns):
        # The copy engine adds offsets to the box's address and swizzles the sums, so a box may begin within a pattern.
        first_byte = int(address[0, k, 0])
        start = mode.apply(first_byte)
        if start % BOX_ALIGN:
            return f"the box at column {k * made.box[0]} begins at byte {start}, not a multiple of {BOX_ALIGN}"
        bad = np.argwhere((mode.apply(start + box) != address[:, k]) | (within[:, k] != box_bit % 8))  # type: ignore[arg-type]
        if len(bad):
            i, j = (int(v) for v in bad[0])
            return (
                f"element {coordinate(shared, (i * columns + k) * made.box[0] + j)} is at byte {int(address[i, k, j])}, "
                f"a box with swizzle {mode.name} puts it at {int(mode.apply(start + int(box[i, j])))}"
            )
        first = k * made.box[0]
        lows = [r.min for r in source.region.region]
        lows[-1] = lows[-1] + first
        copies.append(TensorCopy(made, tuple(reversed(lows)), shared.byte_offset(first) + (start - first_byte), start))
    if all(_begins_alike(c, copy) for copy in copies):
        return copies
    if (reason := _wrong_somewhere(c, made)) is not None:
        return reason
    return [replace(copy, shared=_unswizzled(c, mode, k * made.box[0]), lowest=None) for k, copy in enumerate(copies)]


def _begins_alike(c: CallContext, copy: TensorCopy) -> bool:
    """Whether the box begins at one place of its swizzle's pattern, whatever its variables are."""
    _, shared = global_and_shared(c)
    scope, align = c.scope_with(), copy.map.shared_alignment
    term = ("mod", c.term(copy.shared + shared.root.offset, scope), align)
    assert copy.lowest is not None
    return bool(c.compare(term, copy.lowest % align, scope).status == "equal")


def _unswizzled(c: CallContext, mode: SwizzleMode, first: int) -> Expr:
    """Where the copy engine begins with a box whose first element is number ``first``: it swizzles what it adds up."""
    _, shared = global_and_shared(c)
    at = shared.byte_offset(first) + shared.root.offset
    return (at ^ (at >> mode.shift & mode.mask)) - shared.root.offset


def _wrong_somewhere(c: CallContext, made: TensorMap) -> str | None:
    """The first place at which the tile may begin where it isn't boxes; None if it is boxes wherever it may begin."""
    source, shared = global_and_shared(c)
    mode, scope = SWIZZLES[made.swizzle], c.scope_with()
    terms = [c.term(r.min, scope) for r in shared.region.region]
    used = sorted({n for t in terms for n in names(t)})
    ranges = [scope.ranges[n] for n in used]
    count = math.prod(high - low + 1 for low, high in ranges)
    if count > MAX_STARTS or not all(n in scope.sources for n in used):
        where = ", ".join(f"{n} from {low} to {high}" for n, (low, high) in zip(used, ranges))
        return f"a box of '{shared.buffer.name}' may begin at {count} places within its swizzle ({where})"
    grid = np.indices(tuple(high - low + 1 for low, high in ranges)).reshape(len(used), -1)
    values = {n: low + g for n, (low, _), g in zip(used, ranges, grid)}
    starts = np.unique(np.stack([np.broadcast_to(evaluate_many(t, values), count) for t in terms]), axis=1, return_index=True)
    for at in starts[1]:
        mins = [const(int(np.broadcast_to(evaluate_many(t, values), count)[at])) for t in terms]
        ranges_ = tuple(replace_node(r, min=m) for r, m in zip(shared.region.region, mins))
        here = replace(shared, region=replace_node(shared.region, region=ranges_))
        witness = ", ".join(f"{n} = {int(values[n][at])}" for n in used)
        if (reason := _not_boxes(source, here, made, mode)) is not None:
            return f"{reason}, where {witness}"
    return None


def _not_boxes(source: Operand, shared: Operand, made: TensorMap, mode: SwizzleMode) -> str | None:
    """Why a tile that begins at constant coordinates isn't boxes of the map."""
    width = made.box[0]
    bit = shared.bit_places({}).reshape(-1, source.extents[-1] // width, width) + 8 * shared.root.offset
    box = made.type.place(np.arange(bit.shape[0] * width).reshape(-1, width))
    for k in range(bit.shape[1]):
        start = int(mode.apply(int(bit[0, k, 0]) // 8))
        if start % BOX_ALIGN:
            return f"the box at column {k * width} begins at byte {start}, not a multiple of {BOX_ALIGN}"
        if (mode.apply(start + box // 8) * 8 + box % 8 != bit[:, k]).any():  # type: ignore[arg-type]
            return f"the tile of '{shared.buffer.name}' isn't boxes with swizzle {mode.name}"
    return None


@holds_at("the shared tile is boxes of the map")
def _boxes(c: CallContext, code: int) -> str | None:
    found = tensor_copies(c, code)
    if isinstance(found, str):
        return found
    scope = c.scope_with()
    for copy in found:
        # Elements that are moved together (PTX ISA 9.7.9.27.1.1).
        unit = PADDED_ROW if copy.map.type.padded else 16 if copy.map.type.bits < 8 else 1
        if c.compare(("mod", c.term(const(copy.coords[0]), scope), unit), 0, scope).status != "equal":
            return f"a box may begin at an element along the last dimension that is not a multiple of {unit}"
    return None
