"""Where an address argument points to: an element of a buffer that the compiler knows, or wherever a number says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...errors import LoweringError
from ...ir import BufferLoad, Call, Cast, Expr, IntImm, TensorMapType, Var, const
from ...ir import dtype as dt
from ...ptx.tensormap import TensorMap
from ..program import AddressOf, Generic, Memory, Operand, Piece, Pointer
from ..storage import Root, at_rank

#: Calls that move an address by a number of bytes.
_MOVED = ("tirx.ptr_byte_offset", "tirx.handle_add_byte_offset", "tirx.ptx.addr")
_REMOTE = ("tirx.ptx.mapa", "tirx.ptx.map_shared_rank")
_SHARED_NUMBERS = ("tirx.cuda.cvta_generic_to_shared", "tirx.cuda.smem_addr_from_uint64")


def address_operand(arg: Any) -> BufferLoad | None:
    """The element whose address ``arg`` is (``address_of(B[i])``), or None."""
    if isinstance(arg, Call) and arg.op.name == "tirx.address_of" and isinstance(arg.args[0], BufferLoad):
        return arg.args[0]
    return None


@dataclass(frozen=True)
class Places:
    """What the compiler knows of addresses where a call stands.

    ``memory`` is the place of an element; ``root`` the storage whose pointer a variable is, or None; ``reach`` checks the rank
    in the address of a cluster root; ``tensor_map`` is what the function's host part said of a variable.
    """

    memory: Callable[[BufferLoad], Memory]
    root: Callable[[Var], Root | None]
    reach: Callable[[Root], Root] = lambda root: root
    tensor_map: Callable[[Var], TensorMap | None] = lambda var: None

    def locate(self, e: Any) -> Memory | Expr:
        """The place that an address names, or the expression of its number."""
        if isinstance(e, BufferLoad) and dt.kind(e.dtype) == "handle":
            return e
        if isinstance(e, Var):
            root = self.root(e)
            return Memory(root, const(0)) if root is not None else e
        if isinstance(e, Cast):
            inner = self.locate(e.value)
            return inner if isinstance(inner, Memory) else e
        if not isinstance(e, Call):
            return const(e)
        name = e.op.name
        if name == "tirx.address_of" and isinstance(e.args[0], BufferLoad):
            return self.memory(e.args[0])
        if name == "tirx.address_of" and isinstance(e.args[0], Var):
            return self.locate(e.args[0])
        if name in _MOVED:
            return self._moved(self.locate(e.args[0]), e.args[1])
        if name == "tirx.tvm_access_ptr":
            size = max(1, dt.storage_bits(e.args[0].dtype) // 8)
            return self._moved(self.locate(e.args[1]), e.args[2] * size)
        if name in ("tirx.reinterpret", *_SHARED_NUMBERS):
            inner = self.locate(e.args[0])
            return inner if isinstance(inner, Memory) or dt.kind(inner.dtype) != "handle" else e
        if name in _REMOTE:
            found = self.locate(e.args[0])
            if isinstance(found, Memory) and found.root.space == "shared":
                return Memory(self.reach(at_rank(found.root, const(e.args[1]))), found.offset)
        return e

    def _moved(self, place: Memory | Expr, count: Any) -> Memory | Expr:
        if isinstance(place, Memory):
            return Memory(place.root, place.offset + count)
        return place + (count if isinstance(count, int) or count.dtype == place.dtype else Cast(place.dtype, count))

    def at_rank(self, e: Any, rank: Any) -> Memory:
        """The place at the same offset in the shared memory of CTA ``rank``."""
        found = self.locate(e)
        if not isinstance(found, Memory) or found.root.space != "shared":
            raise LoweringError("it must be the address of an element of a shared buffer")
        return Memory(self.reach(at_rank(found.root, const(rank))), found.offset)


def in_space(found: Memory | Expr, space: str) -> Operand:
    """A located address as the address operand of an instruction on state space ``space`` ("" for generic addresses).

    Raises LoweringError, with a sentence that continues "argument …", if the place lies elsewhere.
    """
    kind = space.partition("::")[0]
    if isinstance(found, Memory):
        have = {"stack": "local"}.get(found.root.space, found.root.space)
        if found.root.space == "local":
            raise LoweringError(f"'{found.root.name}' is held in registers, which have no address")
        if space == "":
            return Generic(found)
        if have == "cluster" and space != "shared::cluster":
            raise LoweringError(f"'{found.root.name}' must be in the CTA's own shared memory")
        if have not in (kind, "cluster") or (have == "cluster" and kind != "shared"):
            raise LoweringError(f"'{found.root.name}' must be in {kind} memory, but it is not")
        return found
    if dt.kind(found.dtype) == "handle" and kind in ("shared", "tmem"):
        raise LoweringError("it is a pointer that the compiler can't follow", hint="use the address of an element")
    return Pointer(found, 32 if kind in ("shared", "tmem") else 64)


def as_number(found: Memory | Expr, type_: str) -> Operand | Expr:
    """A located address as a value: its number in the window of its space, or generic where 64 bits are wanted."""
    return AddressOf(found, type_) if isinstance(found, Memory) else found


def piece(found: Memory | Expr, bits: int) -> Piece:
    """What lies at a located address."""
    if not isinstance(found, Memory):
        raise LoweringError("it must be the address of an element")
    return Piece(found, bits)


def shifted(found: Memory | Expr, count: int) -> Memory | Expr:
    """The place ``count`` bytes further."""
    if not count:
        return found
    return replace(found, offset=found.offset + count) if isinstance(found, Memory) else found + count


def is_tensor_map(e: Any) -> bool:
    """Whether an argument names a tensor-map parameter."""
    return isinstance(e, Var) and isinstance(e.ty, TensorMapType)


def is_zero(e: Any) -> bool:
    """Whether an argument is the constant 0."""
    return isinstance(e, IntImm) and e.value == 0
