"""Tensor maps that a function's host part encodes (``tvm_call_packed("runtime.cuTensorMapEncodeTiled", …)``)."""

from __future__ import annotations

from ...errors import LoweringError
from ...ir import Call, Expr, Var
from ...ptx.tensormap import INTERLEAVES, L2_PROMOTIONS, MAP_SWIZZLES, OOB_FILLS, TYPES, TensorMap
from ..host import HostValues
from ..storage import Storage
from .language import constant

_ENCODE = "runtime.cuTensorMapEncodeTiled"
#: dtype in the call -> element type of the map.
_TYPES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int8": "s8", "uint8": "u8", "int16": "s16",
    "uint16": "u16", "int32": "s32", "uint32": "u32", "int64": "s64", "uint64": "u64", "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2", "float8_e8m0fnu": "ue8m0", "float4_e2m1fn": "u4_align8", "tfloat32": "tf32",
}  # fmt: skip


def encodes_map(call: Call) -> bool:
    """Whether a call tells the driver to encode a tensor map."""
    return call.op.name == "tirx.tvm_call_packed" and bool(call.args) and constant(call.args[0]) == _ENCODE


def encoded_map(call: Call, host: HostValues, storage: Storage) -> tuple[Var, TensorMap]:
    """The variable of the map, and its fields: type, rank, address, then extents, strides in bytes, box and steps."""
    _, var, dtype, rank, address, *rest = call.args
    n, name = constant(rank), str(constant(dtype))
    if isinstance(n, int) and len(rest) == 4 * n + 4:  # the driver's number of the element type, given by itself
        kind = next((t.name for t in TYPES.values() if t.code == constant(rest[-1])), "")
        rest = rest[:-1]
    else:
        kind = _TYPES.get(name, "")
    if not isinstance(var, Var) or not isinstance(n, int) or len(rest) != 4 * n + 3 or not kind:
        raise LoweringError(f"a tensor map of {name} that isn't encoded as the driver's function takes it", span=call.span)
    root = storage.roots.get(address) if isinstance(address, Var) else None
    if root is None or root.space != "global":
        raise LoweringError("a tensor map of what isn't a parameter's array", span=call.span)

    def sizes(members: list[Expr], what: str) -> tuple[object, ...]:
        return tuple(host.term(e, what) for e in members)

    def code(value: Expr, codes: dict[str, int]) -> str:
        return next(k for k, v in codes.items() if v == constant(value))

    shape, strides, box, steps = rest[:n], rest[n : 2 * n - 1], rest[2 * n - 1 : 3 * n - 1], rest[3 * n - 1 : 4 * n - 1]
    interleave, swizzle, promotion, fill = rest[4 * n - 1 :]
    made = TensorMap(
        root.name, kind, sizes(shape, "an extent of a tensor map"), sizes(strides, "a stride of a tensor map"),  # type: ignore[arg-type]
        tuple(int(constant(b) or 0) for b in box), code(swizzle, {k: v[0] for k, v in MAP_SWIZZLES.items()}),
        tuple(int(constant(s) or 1) for s in steps), code(interleave, INTERLEAVES), code(promotion, L2_PROMOTIONS),
        code(fill, OOB_FILLS),
    )  # fmt: skip
    return var, made
