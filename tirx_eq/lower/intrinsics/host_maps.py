"""Tensor maps that a function's host part encodes.

The call is ``tensormap_encode_tiled(…)``, or in older functions ``tvm_call_packed("runtime.cuTensorMapEncodeTiled", …)``.
"""

from __future__ import annotations

from typing import Any

from ...errors import LoweringError
from ...ir import BufferLoad, Call, Expr, Var
from ...ptx.tensormap import INTERLEAVES, L2_PROMOTIONS, MAP_SWIZZLES, OOB_FILLS, TYPES, TensorMap
from ..host import HostValues
from ..program import Memory
from ..storage import Storage
from .language import constant
from .places import Places

_ENCODE = "runtime.cuTensorMapEncodeTiled"
_TILED = "tirx.tensormap_encode_tiled"
_SWIZZLES = {k: v[0] for k, v in MAP_SWIZZLES.items()}
#: dtype in the call -> element type of the map.
_TYPES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int8": "s8", "uint8": "u8", "int16": "s16",
    "uint16": "u16", "int32": "s32", "uint32": "u32", "int64": "s64", "uint64": "u64", "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2", "float8_e8m0fnu": "ue8m0", "float4_e2m1fn": "u4_align8", "tfloat32": "tf32",
}  # fmt: skip


def encodes_map(call: Call) -> bool:
    """Whether a call tells the driver to encode a tensor map."""
    packed = call.op.name == "tirx.tvm_call_packed" and bool(call.args) and constant(call.args[0]) == _ENCODE
    return packed or call.op.name == _TILED


def _fields(call: Call) -> tuple[Expr, Expr, str, list[Any], tuple[Any, ...]]:
    """(variable of the map, address, element type, extents and strides and box and steps, codes of the modes)."""
    if call.op.name == _TILED:
        a = call.attrs
        var, address, *rest = call.args
        forced = a.get("force_cu_dtype", -1)
        modes = tuple(a.get(name, 0) for name in ("interleave", "swizzle", "l2_promotion", "oob_fill"))
        return var, address, _element(str(a["descriptor_dtype"]), None if forced == -1 else forced), rest, modes
    _, var, dtype, rank, address, *rest = call.args
    n, forced = constant(rank), None
    if isinstance(n, int) and len(rest) == 4 * n + 4:  # the driver's number of the element type, given by itself
        forced = constant(rest.pop())
    return var, address, _element(str(constant(dtype)), forced), rest[:-4], tuple(map(constant, rest[-4:]))


def _element(dtype: str, forced: object) -> str:
    """The element type of a map of ``dtype``, or the one that the driver's number says; empty if there is none."""
    return _TYPES.get(dtype, "") if forced is None else next((t.name for t in TYPES.values() if t.code == forced), "")


def encoded_map(call: Call, host: HostValues, storage: Storage) -> tuple[Var, TensorMap]:
    """The variable of the map, and its fields: type, rank, address, then extents, strides in bytes, box and steps."""
    var, address, kind, rest, modes = _fields(call)
    n = (len(rest) + 1) // 4
    if not isinstance(var, Var) or len(rest) != 4 * n - 1 or not 1 <= n <= 5 or not kind:
        raise LoweringError("a tensor map that isn't encoded as the driver's function takes it", span=call.span)
    found = Places(lambda load: _element_place(load, storage), storage.roots.get).locate(address)
    if not isinstance(found, Memory) or found.root.space != "global":
        raise LoweringError("a tensor map of what isn't a parameter's array", span=call.span)
    offset = host.term(found.offset, "where a tensor map begins")
    if not isinstance(offset, int):
        raise LoweringError(f"a tensor map of '{found.root.name}' must begin at a constant place in it", span=call.span)

    def sizes(members: list[Expr], what: str) -> tuple[object, ...]:
        return tuple(host.term(e, what) for e in members)

    def code(value: object, codes: dict[str, int], what: str) -> str:
        found = next((k for k, v in codes.items() if v == value), None)
        if found is None:
            raise LoweringError(f"a tensor map whose {what} is {value}: the driver's numbers are {codes}", span=call.span)
        return found

    shape, strides, box, steps = rest[:n], rest[n : 2 * n - 1], rest[2 * n - 1 : 3 * n - 1], rest[3 * n - 1 : 4 * n - 1]
    interleave, swizzle, promotion, fill = modes
    made = TensorMap(
        found.root.name, kind, sizes(shape, "an extent of a tensor map"), sizes(strides, "a stride of a tensor map"),  # type: ignore[arg-type]
        tuple(int(constant(b) or 0) for b in box), code(swizzle, _SWIZZLES, "swizzle"),
        tuple(int(constant(s) or 1) for s in steps), code(interleave, INTERLEAVES, "interleave"),
        code(promotion, L2_PROMOTIONS, "promotion"), code(fill, OOB_FILLS, "fill"),
        offset=offset,
    )  # fmt: skip
    return var, made


def _element_place(load: BufferLoad, storage: Storage) -> Memory:
    return Memory(storage.root(load.buffer), storage.byte_offset(load.buffer, load.indices))
