"""A matrix descriptor in registers, encoded once and moved along shared memory."""

from __future__ import annotations

from typing import Any

from ...ir import Expr, cast, const
from ..buffers import alloc_local, buffer_store
from ..math import address_of
from ..meta import meta_class
from .emission import call, emit_call

#: Bits of the descriptor that hold the address, in units of 16 bytes (PTX ISA 9.7.16.4.1).
ADDRESS_BITS = 14


@meta_class
class SmemDescriptor:
    """The 64 bits that tell ``tcgen05`` instructions where a matrix begins in shared memory, and its layout."""

    def __init__(self) -> None:
        self._buf = alloc_local([1], "uint64")

    @property
    def desc(self) -> Expr:
        """The descriptor."""
        made = self._buf[0]
        assert isinstance(made, Expr)
        return made

    def init(self, smem_ptr: Any, ldo: Any, sdo: Any, swizzle: Any) -> None:
        """Encode it: ``ldo`` and ``sdo`` are the leading and stride byte offsets in units of 16 bytes, ``swizzle`` 0 to 4."""
        emit_call("ptx.tcgen05.encode_matrix_descriptor", address_of(self._buf[0]), smem_ptr, ldo, sdo, swizzle)

    def add_16B_offset(self, offset: Any) -> Expr:
        """The descriptor of a matrix ``offset`` times 16 bytes further; it must stay within the CTA's shared memory."""
        return self.desc + (cast("uint64", offset) if isinstance(offset, Expr) else const(offset, "uint64"))

    def make_lo_uniform(self) -> None:
        """Give all lanes of the warp lane 0's low half, so that the compiler may keep it in a uniform register."""
        low = call("cuda.__shfl_sync", const(0xFFFFFFFF, "uint32"), cast("uint32", self.desc), 0, 32)
        high = self.desc // const(1 << 32, "uint64") * const(1 << 32, "uint64")
        buffer_store(self._buf, high + cast("uint64", low), [0])
