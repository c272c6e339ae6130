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
        p = pointer(m, e.args[address], threads)
        dtype = e.dtype if e.dtype != "void" else e.args[operand].dtype
        given = each(values.convert(evaluate(m, e.args[operand], threads), e.args[operand].dtype, dtype), threads)
        old = np.empty(len(threads), dtype=values.holding(dtype))
        for k in range(len(threads)):
            one = Pointer(p.storage, p.rows[k : k + 1], p.byte[k : k + 1])
            old[k] = read_at(m, one, dtype, threads[k : k + 1])[0]
            write_at(m, one, values.wrap(np.asarray([op(old[k], given[k])]), dtype), dtype)
        return old

    return apply


_ATOMICS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "min": min, "max": max, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b, "exch": lambda a, b: b, "inc": lambda a, b: 0 if a >= b else a + 1,
    "dec": lambda a, b: b if a == 0 or a > b else a - 1,
}  # fmt: skip


def _atom_scalar(m: Machine, e: Call, threads: Array) -> Array:
    op = text(e.args[6])
    if op not in _ATOMICS:
        raise InterpreterError(f"atom.{op} has no meaning here")
    return _atomic(_ATOMICS[op])(m, e, threads)


def _red_scalar(m: Machine, e: Call, threads: Array) -> None:
    _atomic(_ATOMICS[text(e.args[6])])(m, e, threads)


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


def _load_scalar(m: Machine, e: Call, threads: Array) -> Array:
    """``ptx.ld*`` of one value."""
    if e.dtype == "void":
        raise InterpreterError(
            f"'{e.op.name}' into registers has no meaning here", hint="use the form that gives a value"
        )
    return read_at(m, pointer(m, e.args[0], threads), e.dtype, threads)


def _store_scalar(m: Machine, e: Call, threads: Array) -> None:
    """``ptx.st`` of one value."""
    given = named_operands(e)
    vec = text(given.get("vec", ""))
    if vec or given.get("src") is not None:
        raise InterpreterError(f"'{e.op.name}' of a vector has no meaning here", hint="store the values one by one")
    value = e.args[1]
    write_at(m, pointer(m, e.args[0], threads), evaluate(m, value, threads), value.dtype)


def _cp_async(m: Machine, e: Call, threads: Array) -> None:
    """``cp.async``: bytes from global to shared memory, at once."""
    size = constant_operand(e.args[2], "the size of cp.async")
    _move_bytes(m, pointer(m, e.args[0], threads), pointer(m, e.args[1], threads), size, threads)


def _move_bytes(m: Machine, dst: Pointer, src: Pointer, size: int, threads: Array) -> None:
    for k in range(size):
        write_at(m, dst.moved(k), read_at(m, src.moved(k), "uint8", threads), "uint8")


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
    "tirx.handle_add_byte_offset": _moved, "tirx.ptx.mapa": _mapa, "tirx.ptx.atom_scalar": _atom_scalar,
    **{f"tirx.ptx.{n}": _load_scalar for n in ("ld", "ld_acquire", "ld_relaxed", "ld_volatile", "ld_global_nc")},
    "tirx.cuda.ldg": _load_scalar, "tirx.cuda.atomic_add": _atomic(_ATOMICS["add"]),
    "tirx.cuda.atomic_cas": _compare_and_swap, "tirx.cuda.get_tmem_addr": _tmem_address,
    "tirx.cuda.cvta_generic_to_shared": _shared_number, "tirx.cuda.smem_addr_from_uint64": _shared_number,
    "tirx.ptx.add_f32x2": _f32x2(add, 2), "tirx.ptx.sub_f32x2": _f32x2(subtract, 2),
    "tirx.ptx.mul_f32x2": _f32x2(multiply, 2), "tirx.ptx.fma_f32x2": _f32x2(fma32, 3),
}  # fmt: skip

EFFECTS: dict[str, Handler] = {
    "tirx.ptx.st": _store_scalar, "tirx.ptx.st_relaxed": _store_scalar, "tirx.ptx.st_release": _store_scalar,
    "tirx.ptx.st_volatile": _store_scalar, "tirx.ptx.red_scalar": _red_scalar, "tirx.ptx.cp_async": _cp_async,
    **{f"tirx.ptx.{n}_f32": _to_address(f, k, "float32")
       for n, f, k in (("add", add, 2), ("sub", subtract, 2), ("mul", multiply, 2), ("fma", fma32, 3))},
}  # fmt: skip
