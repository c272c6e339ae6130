"""Operands of calls: arrays per thread, addresses, mbarriers, constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import BufferLoad, Call, IntImm, StringImm
from ..ir import dtype as dt
from .expressions import evaluate
from .faults import InterpreterError, OutOfBounds, UndefinedRead
from .memory import Pointer

if TYPE_CHECKING:
    from .machine import Machine

Array = Any


def arguments(m: Machine, e: Call, threads: Array) -> list[Any]:
    return [evaluate(m, a, threads) for a in e.args]


def each(value: Any, threads: Array) -> Array:
    return np.broadcast_to(np.asarray(value), threads.shape)


def text(e: Any) -> str:
    """A string operand."""
    return e.value if isinstance(e, StringImm) else str(e)


def plain(e: Any) -> Any:
    """A constant operand as a Python value."""
    return getattr(e, "value", e)


def pointer(m: Machine, e: Any, threads: Array) -> Pointer:
    """An operand that is an address: a pointer, or a shared-memory address as a number."""
    if (
        isinstance(e, BufferLoad)
        and dt.kind(e.buffer.dtype) != "handle"
        and e.dtype not in ("uint32", "uint64", "int64")
    ):
        raise InterpreterError(
            f"an address is wanted, got an element of '{e.buffer.name}'", hint="use ptr_to or address_of"
        )
    value = evaluate(m, e, threads)
    if isinstance(value, Pointer):
        return Pointer(value.storage, each(value.rows, threads), each(value.byte, threads))
    return _from_number(m, each(value, threads), threads)


#: Shared addresses as numbers: the CTA's rank in its cluster above bit 24, then the offset in its shared memory.
RANK_SHIFT = 24


def to_number(m: Machine, p: Pointer) -> Array:
    """The number of a shared-memory address."""
    base = m.shared_base.get(id(p.storage))
    if base is None:
        raise InterpreterError(f"the address of '{p.storage.name}' is not in shared memory, so it has no number here")
    return (m.wave.rank[np.asarray(p.rows)].astype(np.int64) << RANK_SHIFT) + base + p.byte


def _from_number(m: Machine, number: Array, threads: Array) -> Pointer:
    number = np.asarray(number).astype(np.int64)
    rank, offset = number >> RANK_SHIFT, number & ((1 << RANK_SHIFT) - 1)
    size = m.wave.geometry.cluster_size
    for storage in m.roots.values():
        base = m.shared_base.get(id(storage))
        if base is not None and np.all((offset >= base) & (offset < base + max(storage.size, 1))):
            if np.any(rank >= size):
                raise InterpreterError(f"a shared address of CTA {int(rank.max())} in a cluster of {size}")
            rows = m.wave.cta[threads] // size * size + rank
            return Pointer(storage, rows, offset - base)
    raise InterpreterError(f"{int(np.asarray(number).flat[0])} is not an address in shared memory")


def barrier_keys(p: Pointer) -> list[tuple[int, int, int]]:
    """The identity of the mbarrier at an address, per thread."""
    return [(id(p.storage), int(r), int(b)) for r, b in zip(np.atleast_1d(p.rows), np.atleast_1d(p.byte))]


def read_at(m: Machine, p: Pointer, dtype: str, threads: Array) -> Array:
    """The value at an address per thread."""
    _check(p, dtype)
    value, undefined = p.storage.read(p.rows, p.byte * 8, dtype)
    if np.any(undefined):
        at = int(np.argmax(undefined))
        raise UndefinedRead(
            f"byte {int(each(p.byte, threads)[at])} of '{p.storage.name}' was never written, but is read by "
            f"{m.wave.describe(int(threads[at]))}"
        )
    return value


def write_at(m: Machine, p: Pointer, value: Array, dtype: str) -> None:
    """Store a value at an address per thread."""
    _check(p, dtype)
    p.storage.write(p.rows, p.byte * 8, value, dtype)


def _check(p: Pointer, dtype: str) -> None:
    outside = p.storage.outside(np.asarray(p.byte) * 8, dtype)
    if np.any(outside):
        raise OutOfBounds(f"an address is outside of the {p.storage.size} bytes of '{p.storage.name}'")


def constant_operand(e: Any, what: str) -> int:
    if isinstance(e, IntImm):
        return e.value
    if isinstance(e, int):
        return e
    raise InterpreterError(f"{what} must be constant")


def named_operands(e: Call) -> dict[str, Any]:
    """The arguments of a call by the intrinsic's parameter names; a variadic one is a tuple."""
    from ..ir.intrinsics import arguments_of

    found = arguments_of(e)
    if found is None:
        raise InterpreterError(f"the operands of '{e.op.name}' don't fit its signature")
    intrinsic, args, kwargs = found
    names = [p.name for p in intrinsic.parameters if p.kind == "positional"]
    given = {**dict(zip(names, args)), **kwargs}
    for p in intrinsic.parameters:
        if p.kind == "variadic":
            given[p.name] = tuple(args[len(names) :])
    return given
