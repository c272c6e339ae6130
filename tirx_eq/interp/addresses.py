"""Calls that make addresses or work through them: loads, stores, atomic operations, byte copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import BufferLoad, Call
from ..ir import dtype as dt
from . import values
from .expressions import evaluate
from .faults import InterpreterError
from .functions import add, fma32, multiply, pack, packed_parts, subtract
from .memory import Pointer
from .operands import arguments, constant_operand, each, named_operands, pointer, read_at, text, to_number, write_at

if TYPE_CHECKING:
    from .machine import Machine

Array = Any
Handler = Callable[[Any, Call, Any], Any]


def _address_of(m: Machine, e: Call, threads: Array) -> Pointer:
    load = e.args[0]
    if not isinstance(load, BufferLoad):
        raise InterpreterError("address_of needs an element of a buffer")
    _, places, _ = m.access.element(load.buffer, load.indices, threads)
    p = places[0]
    return Pointer(p.storage, p.rows, np.asarray(p.bit) // 8)


def _buffer_data(m: Machine, e: Call, threads: Array) -> Pointer:
    target = e.args[0]
    return m.access.base(target.buffer if isinstance(target, BufferLoad) else target, threads)


def _moved(m: Machine, e: Call, threads: Array) -> Pointer:
    return pointer(m, e.args[0], threads).moved(evaluate(m, e.args[1], threads))


def _mapa(m: Machine, e: Call, threads: Array) -> Any:
    """The same place in the shared memory of CTA ``rank`` of the cluster."""
    p = pointer(m, e.args[0], threads)
    size = m.wave.geometry.cluster_size
    rank = each(evaluate(m, e.args[1], threads), threads)
    if np.any((rank < 0) | (rank >= size)):
        raise InterpreterError(f"mapa: there is no CTA {int(rank.max())} in a cluster of {size}")
    moved = Pointer(p.storage, m.wave.cta[threads] // size * size + rank, p.byte)
    return moved if dt.kind(e.dtype) == "handle" else to_number(m, moved)


def _shared_number(m: Machine, e: Call, threads: Array) -> Array:
    value = evaluate(m, e.args[0], threads)
    return to_number(m, value) if isinstance(value, Pointer) else value


def _tmem_address(m: Machine, e: Call, threads: Array) -> Array:
    base, row, column = arguments(m, e, threads)
    return np.asarray(base) + (np.asarray(row) << 16) + column


def _atomic(op: Callable[[Any, Any], Any], address: int = 0, operand: int = 1) -> Handler:
    """A read-modify-write in the order of the threads; the value is the old one."""

    def apply(m: Machine, e: Call, threads: Array) -> Array:
        dtype = e.dtype if e.dtype != "void" else e.args[operand].dtype
        if dt.lanes(dtype) > 1:  # each element by itself
            one, p = dt.with_lanes(dtype, 1), pointer(m, e.args[address], threads)
            lanes = np.asarray(evaluate(m, e.args[operand], threads)).reshape(dt.lanes(dtype), -1)
            size = dt.storage_bits(one) // 8
            return np.stack([_modify(m, op, p.moved(size * k), v, one, threads) for k, v in enumerate(lanes)])
        given = values.convert(evaluate(m, e.args[operand], threads), e.args[operand].dtype, dtype)
        return _modify(m, op, pointer(m, e.args[address], threads), given, dtype, threads)

    return apply


def _modify(m: Machine, op: Callable[[Any, Any], Any], p: Pointer, given: Array, dtype: str, threads: Array) -> Array:
    """Combine ``given`` with what is at an address, one thread after the other; the old values."""
    given = each(given, threads)
    old = np.empty(len(threads), dtype=values.holding(dtype))
    if dt.is_float(dtype):  # the device adds in any order
        m.record.summed(m.record.terms + len(threads), m.record.magnitude + np.sum(np.abs(values.widen(given))))
    for k in range(len(threads)):
        one = Pointer(p.storage, p.rows[k : k + 1], p.byte[k : k + 1])
        old[k] = read_at(m, one, dtype, threads[k : k + 1])[0]
        write_at(m, one, values.wrap(np.asarray([op(old[k], given[k])]), dtype), dtype)
    return old


_ATOMICS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "min": min, "max": max, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b, "exch": lambda a, b: b, "inc": lambda a, b: 0 if a >= b else a + 1,
    "dec": lambda a, b: b if a == 0 or a > b else a - 1,
}  # fmt: skip


def _atomic_scalar(m: Machine, e: Call, threads: Array) -> Array:
    """``ptx.atom_scalar`` and ``ptx.red_scalar``: in the type that the call names, whatever the dtype of the value."""
    op, kind = text(e.args[6]), text(e.args[7])
    pair = kind.endswith("x2")
    dtype = PTX_TYPES.get(kind.removesuffix("x2"))
    if op not in _ATOMICS or dtype is None:
        raise InterpreterError(f"an atomic {op} of {kind} has no meaning here")
    p, value = pointer(m, e.args[0], threads), each(evaluate(m, e.args[1], threads), threads)
    if not pair:
        return _modify(m, _ATOMICS[op], p, values.convert(value, e.args[1].dtype, dtype), dtype, threads)
    raw = values.to_bytes(values.wrap(value, e.args[1].dtype), e.args[1].dtype)
    halves = [
        _modify(m, _ATOMICS[op], p.moved(2 * k), values.from_bytes(raw[..., 2 * k : 2 * k + 2], dtype), dtype, threads)
        for k in (0, 1)
    ]
    return values.from_bytes(np.concatenate([values.to_bytes(h, dtype) for h in halves], axis=-1), "uint32")


def _red_scalar(m: Machine, e: Call, threads: Array) -> None:
    _atomic_scalar(m, e, threads)


def _compare_and_swap(m: Machine, e: Call, threads: Array) -> Array:
    p = pointer(m, e.args[0], threads)
    expected, new = (each(evaluate(m, a, threads), threads) for a in e.args[1:3])
    dtype = e.dtype
    old = np.empty(len(threads), dtype=values.holding(dtype))
    for k in range(len(threads)):
        one = Pointer(p.storage, p.rows[k : k + 1], p.byte[k : k + 1])
        old[k] = read_at(m, one, dtype, threads[k : k + 1])[0]
        if old[k] == expected[k]:
            write_at(m, one, new[k : k + 1], dtype)
    return old


#: Dtype of the value of a PTX type in a register.
PTX_TYPES = {
    "b8": "uint8", "u8": "uint8", "s8": "int8", "b16": "uint16", "u16": "uint16", "s16": "int16", "f16": "float16",
    "bf16": "bfloat16", "b32": "uint32", "u32": "uint32", "s32": "int32", "f32": "float32", "b64": "uint64",
    "u64": "uint64", "s64": "int64", "f64": "float64",
}  # fmt: skip


def _load(m: Machine, e: Call, threads: Array) -> Array | None:
    """``ptx.ld*``: a value, or with destinations (which come first) one element after the other through pointers."""
    if e.dtype != "void":
        return read_at(m, pointer(m, e.args[0], threads), e.dtype, threads)
    count = constant_operand(e.args[-4], "the number of destinations")
    dtype = PTX_TYPES.get(text(e.args[-6]))
    if dtype is None or not count:
        raise InterpreterError(f"'{e.op.name}' of {text(e.args[-6])} has no meaning here")
    source = pointer(m, e.args[count], threads)
    size = dt.storage_bits(dtype) // 8
    vec = next((text(a) for a in e.args[count + 1 :] if text(a) in ("v2", "v4", "v8")), "")
    if count == 1 and vec:  # one pointer to all elements
        target = pointer(m, e.args[0], threads)
        for k in range(int(vec[1:])):
            write_at(m, target.moved(k * size), read_at(m, source.moved(k * size), dtype, threads), dtype)
        return None
    for k in range(count):
        write_at(m, pointer(m, e.args[k], threads), read_at(m, source.moved(k * size), dtype, threads), dtype)
    return None


def _load_device(m: Machine, e: Call, threads: Array) -> Array | None:
    """``ptx.ld_mmio``: what is there, as any other load."""
    if e.dtype != "void":
        return read_at(m, pointer(m, e.args[0], threads), e.dtype, threads)
    dtype = PTX_TYPES[text(e.args[-2])]
    write_at(m, pointer(m, e.args[0], threads), read_at(m, pointer(m, e.args[1], threads), dtype, threads), dtype)
    return None


def _store(m: Machine, e: Call, threads: Array) -> None:
    """``ptx.st*``: values one after the other, or (``src=``) from where a pointer points to."""
    given = named_operands(e)
    dtype = PTX_TYPES.get(text(given["ptx_type"]))
    if dtype is None:
        raise InterpreterError(f"'{e.op.name}' of {text(given['ptx_type'])} has no meaning here")
    target = pointer(m, given["address"], threads)
    size = dt.storage_bits(dtype) // 8
    if given.get("src") is not None:
        source = pointer(m, given["src"], threads)
        count = int(text(given.get("vec", ""))[1:] or 1)
        stored = [read_at(m, source.moved(k * size), dtype, threads) for k in range(count)]
    else:
        stored = [_register(evaluate(m, v, threads), v.dtype, dtype) for v in given.get("values", (given.get("value"),))]
    for k, value in enumerate(stored):
        write_at(m, target.moved(k * size), value, dtype)


def _register(value: Array, source: str, target: str) -> Array:
    """The low bits of a register, read as another type of at most its width."""
    size = dt.storage_bits(target) // 8
    return values.from_bytes(values.to_bytes(values.wrap(value, source), source)[..., :size], target)


def _f32x2(op: Callable[..., Array], operands: int) -> Handler:
    """``ptx.add_f32x2`` and so on: as a value, or into an address."""

    def apply(m: Machine, e: Call, threads: Array) -> Array | None:
        to_address = bool(int(e.args[-2]))
        first = 1 if to_address else 0
        parts = [packed_parts(m, a, threads) for a in e.args[first : first + operands]]
        made = pack(*(op(*(p[k] for p in parts)) for k in (0, 1)))
        if not to_address:
            return made
        write_at(m, pointer(m, e.args[0], threads), made, "uint64")
        return None

    return apply


def _to_address(op: Callable[..., Array], operands: int, dtype: str) -> Handler:
    """``ptx.add_f32(address, a, b, …)``; only the default rounding."""

    def apply(m: Machine, e: Call, threads: Array) -> None:
        if text(e.args[operands + 1]) != "rn":
            raise InterpreterError(f"'{e.op.name}' is interpreted with rounding rn only")
        made = op(*(evaluate(m, a, threads) for a in e.args[1 : operands + 1]))
        write_at(m, pointer(m, e.args[0], threads), made, dtype)

    return apply


VALUES: dict[str, Handler] = {
    "tirx.address_of": _address_of, "tirx.buffer_data": _buffer_data, "tirx.ptr_byte_offset": _moved,
    "tirx.handle_add_byte_offset": _moved, "tirx.ptx.mapa": _mapa, "tirx.ptx.atom_scalar": _atomic_scalar,
    **{f"tirx.ptx.{n}": _load for n in ("ld", "ld_acquire", "ld_relaxed", "ld_volatile", "ld_global_nc")},
    "tirx.ptx.ld_mmio": _load_device,
    "tirx.cuda.atomic_add": _atomic(_ATOMICS["add"]),
    "tirx.cuda.atomic_cas": _compare_and_swap, "tirx.cuda.get_tmem_addr": _tmem_address,
    "tirx.cuda.cvta_generic_to_shared": _shared_number, "tirx.cuda.smem_addr_from_uint64": _shared_number,
    "tirx.ptx.add_f32x2": _f32x2(add, 2), "tirx.ptx.sub_f32x2": _f32x2(subtract, 2),
    "tirx.ptx.mul_f32x2": _f32x2(multiply, 2), "tirx.ptx.fma_f32x2": _f32x2(fma32, 3),
}  # fmt: skip

EFFECTS: dict[str, Handler] = {
    "tirx.ptx.st": _store, "tirx.ptx.st_relaxed": _store, "tirx.ptx.st_release": _store,
    "tirx.ptx.st_volatile": _store, "tirx.ptx.st_mmio": _store, "tirx.ptx.red_scalar": _red_scalar,
    **{f"tirx.ptx.{n}_f32": _to_address(f, k, "float32")
       for n, f, k in (("add", add, 2), ("sub", subtract, 2), ("mul", multiply, 2), ("fma", fma32, 3))},
}  # fmt: skip
