"""Calls that work on the bits of registers: conversions by PTX type, packed halves, loads into several registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import Call
from ..ir import dtype as dt
from . import values
from .addresses import PTX_TYPES
from .expressions import evaluate
from .faults import InterpreterError
from .functions import pack
from .operands import arguments, constant_operand, each, named_operands, plain, pointer, read_at, text, write_at

if TYPE_CHECKING:
    from .machine import Machine

Array = Any
Handler = Callable[[Any, Call, Any], Any]

_FORMATS = {
    "f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "tf32": "tfloat32", "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2", "e2m1": "float4_e2m1fn", "ue8m0": "float8_e8m0fnu", "e2m3": "float6_e2m3fn", "e3m2": "float6_e3m2fn",
}  # fmt: skip
_ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _split(name: str) -> tuple[str, int]:
    """(format, lanes) of a PTX type: ``e4m3x2`` is two of ``e4m3``."""
    base, _, lanes = name.partition("x")
    return base, int(lanes or 1)


def unpacked(value: Array, name: str) -> list[Array]:
    """The lanes of a register of PTX type ``name``, the lowest first, as float64."""
    base, lanes = _split(name)
    a = np.asarray(value)
    if a.dtype.kind not in "iub":
        return [values.widen(a)]
    dtype = _FORMATS[base]
    bits = 32 if base == "tf32" else dt.bits(dtype) if base not in ("e2m3", "e3m2") else 8
    raw = a.astype(np.int64)
    found = []
    for k in range(lanes):
        part = (raw >> (bits * k)) & ((1 << bits) - 1)
        held = part.astype({4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[bits])
        source = "float32" if base == "tf32" else dtype
        found.append(values.widen(np.ascontiguousarray(held).view(np.dtype(dt.numpy_dtype(source)))))
    return found


def packed(lanes: Sequence[Array], name: str) -> Array:
    """float64 lanes rounded to a PTX type and put into one register, the lowest first."""
    base, _ = _split(name)
    dtype = _FORMATS[base]
    bits = 32 if base == "tf32" else dt.bits(dtype) if base not in ("e2m3", "e3m2") else 8
    total: Array = np.int64(0)
    for k, lane in enumerate(lanes):
        made = np.ascontiguousarray(values.round_to(lane, dtype))
        raw = made.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[made.dtype.itemsize]).astype(np.int64)
        total = total | ((raw & ((1 << bits) - 1)) << (bits * k))
    return total


def _convert(m: Machine, e: Call, threads: Array) -> Array:
    """``ptx.cvt``: the first of several values is the upper one."""
    count, _, _, to, source, rounding, _, sat, relu, satfinite, scaled = (plain(a) for a in e.args[-11:])
    if scaled:
        raise InterpreterError("a scaled conversion has no meaning here")
    given = [evaluate(m, a, threads) for a in e.args[: int(count)]]
    if source in PTX_TYPES and source[0] in "us":
        lanes = [values.widen(values.wrap(given[0], PTX_TYPES[source]).astype(np.float64))]
        if to in PTX_TYPES and to[0] in "us":
            return values.wrap(given[0], PTX_TYPES[to])
    else:
        lanes = [lane for v in reversed(given) for lane in unpacked(v, source)]
    if to in PTX_TYPES and to[0] in "us":
        return _integer(lanes[0], to, rounding)
    if rounding not in ("", "rn") and not (to.startswith("ue8m0") and rounding == "rp"):
        raise InterpreterError(f"ptx.cvt is interpreted with rounding rn, not {rounding}")
    if int(relu):
        lanes = [np.maximum(v, 0.0) for v in lanes]
    if int(sat):
        lanes = [np.clip(v, 0.0, 1.0) for v in lanes]
    base, _ = _split(to)
    if int(satfinite) and base in ("f16", "bf16"):
        limit = dt.FLOAT_MAX[_FORMATS[base]]
        lanes = [np.clip(v, -limit, limit) for v in lanes]
    if to in ("f32", "f64"):
        return values.round_to(lanes[0], _FORMATS[to])
    return packed(lanes, to)


def _integer(value: Array, to: str, rounding: str) -> Array:
    kind, bits, _ = dt.parse(PTX_TYPES[to])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind == "int" else (0, (1 << bits) - 1)
    whole = np.nan_to_num(_ROUND[rounding](value), nan=0.0)
    return np.clip(whole, float(low), float(high)).astype(values.holding(PTX_TYPES[to]))


def _to_pair(name: str) -> Handler:
    """Two floats, the first into the low half."""
    return lambda m, e, t: packed([values.widen(v) for v in arguments(m, e, t)], name)


def _from_packed_floats(m: Machine, e: Call, threads: Array) -> Array:
    return packed(unpacked_floats(evaluate(m, e.args[0], threads)), "bf16x2")


def unpacked_floats(bits: Array) -> list[Array]:
    """The two floats of 64 bits."""
    raw = np.asarray(bits).astype(np.uint64)
    return [values.widen(((raw >> np.uint64(s)) & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32)) for s in (0, 32)]


def _to_floats(m: Machine, e: Call, threads: Array) -> Array:
    return pack(*unpacked(evaluate(m, e.args[0], threads), "bf16x2"))


def _of_halves(op: Callable[[Array, Array], Array]) -> Handler:
    def apply(m: Machine, e: Call, threads: Array) -> Array:
        a, b = (unpacked(v, "bf16x2") for v in arguments(m, e, threads))
        return packed([values.widen(op(x, y)) for x, y in zip(a, b)], "bf16x2")

    return apply


def _accumulate(m: Machine, e: Call, threads: Array) -> Array:
    """``add.rn.f32.bf16``: the bits of the second are a bfloat16."""
    acc, x = arguments(m, e, threads)
    return values.round_to(values.widen(acc) + unpacked(x, "bf16")[0], "float32")


def _double(op: Callable[..., Array], count: int) -> Handler:
    def apply(m: Machine, e: Call, threads: Array) -> None:
        if text(e.args[count + 1]) != "rn":
            raise InterpreterError(f"'{e.op.name}' is interpreted with rounding rn only")
        made = op(*(evaluate(m, a, threads) for a in e.args[1 : count + 1]))
        write_at(m, pointer(m, e.args[0], threads), made, "float64")

    return apply


def _fns(m: Machine, e: Call, threads: Array) -> Array:
    """The position of the ``offset``-th set bit from ``base`` on (0 is the bit itself); 0xFFFFFFFF if there is none."""
    mask, base, offset = (each(v, threads).astype(np.int64) for v in arguments(m, e, threads))
    out = np.full(len(threads), 0xFFFFFFFF, dtype=np.int64)
    for k, (bits, start, count) in enumerate(zip(mask, base, offset)):
        if count == 0:
            out[k] = start if bits >> start & 1 else 0xFFFFFFFF
            continue
        order = range(int(start), 32) if count > 0 else range(int(start), -1, -1)
        found = [b for b in order if bits >> b & 1]
        if len(found) >= abs(count):
            out[k] = found[abs(int(count)) - 1]
    return out


def _fixed_point(m: Machine, e: Call, threads: Array) -> Array:
    """``q_multiply_shift``: round(x·y·2^-(q + s)), halves up."""
    x, y, q, s = (np.asarray(a).astype(np.int64) for a in arguments(m, e, threads))
    return values.wrap((x * y + (np.int64(1) << (q + s - 1))) >> (q + s), "int32")


def _dot(m: Machine, e: Call, threads: Array) -> Array:
    a, b, c = (np.asarray(v).astype(np.int64) for v in arguments(m, e, threads))
    total = c
    for k in range(4):
        x, y = ((v >> 8 * k) & 0xFF for v in (a, b))
        for_a, for_b = (arg.dtype.startswith("uint") for arg in e.args[:2])
        total = total + (x if for_a else values.wrap(x, "int8")) * (y if for_b else values.wrap(y, "int8"))
    return values.wrap(total, e.dtype)


def _halves(source: str, target: str, count: int, reverse: bool = False) -> Handler:
    """``count`` elements from one address to another, converted."""

    def apply(m: Machine, e: Call, threads: Array) -> None:
        dst, src = (pointer(m, a, threads) for a in (e.args if not reverse else e.args[::-1]))
        sizes = [dt.bits(d) // 8 for d in (source, target)]
        read = [read_at(m, src.moved(k * sizes[0]), source, threads) for k in range(count)]
        for k, value in enumerate(read):
            write_at(m, dst.moved(k * sizes[1]), values.convert(value, source, target), target)

    return apply


def _patch(m: Machine, e: Call, threads: Array) -> None:
    """The ids of the scale factors in an instruction descriptor."""
    at = pointer(m, e.args[0], threads)
    sf = np.asarray(evaluate(m, e.args[1], threads)).astype(np.int64)
    old = read_at(m, at, "uint32", threads)
    write_at(m, at, values.wrap((old & 0x9FFFFFCF) | (sf << 29) | (sf << 4), "uint32"), "uint32")


def _zero(m: Machine, e: Call, threads: Array) -> None:
    """``st.bulk``."""
    at = pointer(m, e.args[0], threads)
    for k in range(0, constant_operand(e.args[1], "the size of st.bulk"), 8):
        write_at(m, at.moved(k), np.uint64(0), "uint64")


def _load_acquire(m: Machine, e: Call, threads: Array) -> None:
    """``ptx.ld_global_acquire(element, address)``."""
    load = e.args[0]
    m.access.store(load.buffer, load.indices, read_at(m, pointer(m, e.args[1], threads), load.dtype, threads), threads)


def _ldg(m: Machine, e: Call, threads: Array) -> Array | None:
    if e.dtype != "void":
        return read_at(m, pointer(m, e.args[0], threads), e.dtype, threads)
    *targets, source, dtype, _, _ = e.args
    at, size = pointer(m, source, threads), dt.bits(text(dtype)) // 8
    for k, target in enumerate(targets):
        write_at(m, pointer(m, target, threads), read_at(m, at.moved(k * size), text(dtype), threads), text(dtype))
    return None


def _special(m: Machine, e: Call, threads: Array) -> Array:
    name = text(named_operands(e)["reg_name"]).lstrip("%")
    if name == "laneid":
        return m.wave.tid[threads] % 32
    block = m.wave.geometry.block
    tid = m.wave.tid[threads]
    places = {"tid.x": tid % block[0], "tid.y": tid // block[0] % block[1], "tid.z": tid // block[0] // block[1]}
    if name not in places:
        raise InterpreterError(f"the special register '{name}' has no value here")
    return places[name]


VALUES: dict[str, Handler] = {
    "tirx.ptx.cvt": _convert, "tirx.cuda.float22bfloat162_rn": _to_pair("bf16x2"),
    "tirx.cuda.fp8x4_e4m3_from_float4": _to_pair("e4m3x4"), "tirx.cuda.float22bfloat162_rn_from_float2": _from_packed_floats,
    "tirx.cuda.bfloat1622float2": _to_floats, "tirx.cuda.hmin2": _of_halves(values.minimum),
    "tirx.cuda.hmax2": _of_halves(values.maximum), "tirx.ptx.add_rn_f32_bf16": _accumulate, "tirx.ptx.fns_b32": _fns,
    "tirx.dp4a": _dot, "tirx.q_multiply_shift": _fixed_point, "tirx.cuda.ldg": _ldg, "tirx.ptx.fetch_register": _special,
    "tirx.cuda.clock64": lambda m, e, t: np.full(len(t), 1, dtype=np.uint64),
}  # fmt: skip

EFFECTS: dict[str, Handler] = {
    **{f"tirx.ptx.{n}_f64": _double(f, k) for n, f, k in (
        ("add", lambda a, b: a + b, 2), ("sub", lambda a, b: a - b, 2), ("mul", lambda a, b: a * b, 2),
        ("fma", lambda a, b, c: values.fma(a, b, c, "float64"), 3))},
    "tirx.cuda.float22half2": _halves("float32", "float16", 2),
    "tirx.cuda.half8tofloat8": _halves("float16", "float32", 8, True),
    "tirx.cuda.float8tohalf8": _halves("float32", "float16", 8, True), "tirx.cuda.runtime_instr_desc": _patch,
    "tirx.ptx.st_bulk": _zero, "tirx.ptx.ld_global_acquire": _load_acquire,
}  # fmt: skip
