"""Pools: buffers one after the other in dynamic shared memory, or in the columns of tensor memory."""

from __future__ import annotations

from math import prod
from typing import Any

from .. import layout as layouts
from ..errors import IRError
from ..ir import EQ, AttrStmt, Buffer, BufferLoad, Evaluate, IntImm, const
from ..ir import dtype as dt
from .buffers import alloc_buffer, decl_buffer
from .builder import IfFrame, current, emit, evaluate_stmt, then_frame
from .intrinsics import make_namespaces
from .math import address_of
from .meta import meta_class
from .scopes import ID_FUNCTIONS
from .values import dtype_name

_OWN = object()
#: Bytes; the period of the widest swizzle (128 bytes, PTX ISA 9.7.16.4).
OPEN_ALIGN = 1024


def _size(shape: Any) -> int:
    extents = shape if isinstance(shape, (list, tuple)) else (shape,)
    if not all(isinstance(e, (int, IntImm)) for e in extents):
        raise IRError(f"a buffer in a pool needs a constant shape, got {shape!r}")
    return prod(int(e) for e in extents)


def _span(buffer: Buffer) -> int:
    """Elements from the first to the last that the buffer has: more than its shape says where its layout leaves gaps."""
    if buffer.strides:
        return 1 + sum((int(e) - 1) * int(s) for e, s in zip(buffer.shape, buffer.strides))  # type: ignore[call-overload]
    fixed = buffer.layout is not None and not layouts.is_open(buffer.layout) and buffer.layout.is_constant()
    return int(buffer.layout.storage().span("m")) if fixed else 0


@meta_class
class SMEMPool:
    """Allocates in dynamic shared memory; ``offset`` is the next free byte.

    Without ``ptr`` the pool makes its own storage, and ``commit`` must follow the last allocation.
    """

    def __init__(self, ptr: Any = _OWN) -> None:
        self.owns_buffer = ptr is _OWN
        if self.owns_buffer:
            storage = alloc_buffer((0,), "uint8", scope="shared.dyn")
            self.buf: Buffer | None = storage
            self.ptr = storage.data
        else:
            self.buf = None
            self.ptr = ptr
        self.offset = 0
        self.max_offset = 0

    def alloc(
        self, shape: Any, dtype: Any = "float32", strides: Any = None, scope: str = "shared.dyn", align: int = 0,
        layout: Any = "default",
    ) -> Buffer:  # fmt: skip
        """A buffer at the next free byte that is a multiple of ``align``.

        One whose layout is left open begins at a multiple of 1024 bytes unless told otherwise: every swizzle fits there.
        """
        if align == 0 and layouts.is_open(layout):
            align = OPEN_ALIGN
        if align > 0:
            self.offset = (self.offset + align - 1) // align * align
        made = decl_buffer(
            shape, dtype, data=self.ptr, strides=strides, byte_offset=self.offset, scope=scope, align=align,
            layout=layout,
        )  # fmt: skip
        self.offset += (max(_size(shape), _span(made)) * dt.storage_bits(dtype_name(dtype)) + 7) // 8
        if self.owns_buffer:
            self.max_offset = max(self.max_offset, self.offset)
        return made

    def alloc_tcgen05_mma_AB(
        self, shape: Any, dtype: Any = "float16", swizzle_mode: Any = "auto", align: int = 1024
    ) -> Buffer:
        """An operand of ``tcgen05.mma`` with the swizzled layout it wants (``"auto"``: 128 bytes)."""
        modes = {"auto": layouts.SwizzleMode.of(3), "none": layouts.SwizzleMode.of(0)}
        mode = modes[swizzle_mode] if isinstance(swizzle_mode, str) and swizzle_mode in modes else swizzle_mode
        layout = layouts.mma_shared_layout(dtype_name(dtype), mode, shape)
        return self.alloc(shape, dtype, align=align, layout=layout)

    def move_base_to(self, offset: int) -> None:
        """Make ``offset`` the next free byte."""
        self.offset = offset
        if self.owns_buffer:
            self.max_offset = max(self.max_offset, self.offset)

    def commit(self, size: int | None = None) -> None:
        """Emit the size of the pool in bytes (by default the most that was in use)."""
        if not self.owns_buffer:
            return
        total = self.max_offset if size is None else size
        if total < self.max_offset:
            raise IRError(f"a pool of {total} bytes is smaller than the {self.max_offset} in use")
        nothing = Evaluate(IntImm("int32", 0), span=current().span)
        emit(AttrStmt, 0, "tirx.dyn_smem_bytes", IntImm("int64", total), nothing)


@meta_class
class TMEMPool:
    """Allocates columns of tensor memory; ``commit`` emits the allocation by one warp, ``dealloc`` the release."""

    def __init__(
        self, pool: Any, total_cols: int = 512, *, cta_group: int = 1, alloc_warp: int = 0,
        dealloc_warp: int | None = None, tmem_addr: Any = None, sync_after_alloc: bool = True,
    ) -> None:  # fmt: skip
        self.pool = pool
        self.total_cols = total_cols
        self.cta_group = cta_group
        self.alloc_warp = alloc_warp
        self.dealloc_warp = alloc_warp if dealloc_warp is None else dealloc_warp
        self.sync_after_alloc = sync_after_alloc
        self.offset = 0
        self.max_offset = 0
        self._committed = False
        self._deallocated = False
        self._addr_buf = pool.alloc([1], "uint32", align=4) if tmem_addr is None else tmem_addr

    @property
    def addr(self) -> Any:
        """The column address of the allocation, as the hardware wrote it."""
        if isinstance(self._addr_buf, Buffer):
            return BufferLoad(self._addr_buf, (IntImm("int32", 0),))
        return self._addr_buf

    def _columns(self, shape: Any, dtype: str, cols: int | None, layout: Any) -> int:
        if cols is not None:
            return cols
        bits = dt.storage_bits(dtype)
        if layout is not None and not layouts.is_open(layout):
            return -(-int(layout.span("TCol")) * bits // 32)
        if len(shape) != 2:
            raise IRError("TMEM: give layout= or cols= for a shape that isn't two-dimensional")
        total, rows = _size(shape) * bits, int(shape[0])
        if total % (32 * rows):
            raise IRError(f"TMEM: the columns of {tuple(shape)} in {dtype} are not a whole number; give cols=")
        return total // (32 * rows)

    def alloc(self, shape: Any, dtype: Any = "float32", *, layout: Any = None, cols: int | None = None) -> Buffer:
        """A buffer in the next free columns; by default row r of the shape is lane r."""
        name = dtype_name(dtype)
        first = self.offset
        end = first + self._columns(shape, name, cols, layout)
        if end > self.total_cols:
            raise IRError(f"TMEM: {end} columns are needed but the pool has {self.total_cols}")
        if layout is None:
            layout = _default_tmem_layout(shape)
        made = decl_buffer(shape, name, scope="tmem", allocated_addr=first, layout=layout)
        self.offset = end
        self.max_offset = max(self.max_offset, end)
        return made

    def alloc_tcgen05_mma_D(
        self, shape: Any, dtype: Any = "float32", *, M: int, cta_group: int, ws: bool = False, sparse: bool = False,
        group: Any = None, cols: int | None = None,
    ) -> Buffer:  # fmt: skip
        """The accumulator of ``tcgen05.mma`` with instruction shape M."""
        if group is not None:
            raise IRError("alloc_tcgen05_mma_D: group= is not available; give alloc the layout")
        letter = _datapath("D", shape, M, cta_group, ws, sparse)
        layout = layouts.tmem_datapath_layout(letter, int(shape[-2]), int(shape[-1]))
        return self.alloc(shape, dtype, layout=layout, cols=cols)

    alloc_tcgen05_mma_C = alloc_tcgen05_mma_D

    def alloc_tcgen05_mma_A(
        self, shape: Any, dtype: Any = "bfloat16", *, M: int, cta_group: int, ws: bool = False, sparse: bool = False,
        cols: int | None = None,
    ) -> Buffer:  # fmt: skip
        """The A operand of ``tcgen05.mma`` in tensor memory: row r in lane r (on datapath B in lane r + 64 too)."""
        letter = _datapath("A", shape, M, cta_group, ws, sparse)
        if letter not in ("A", "B", "D", "F"):
            raise IRError(f"alloc_tcgen05_mma_A: A over datapath {letter} is not available; give alloc the layout")
        rows = layouts.Iter(int(shape[0]), 1, layouts.TLane), layouts.Iter(int(shape[1]), 1, layouts.TCol)
        copies = (layouts.Iter(2, 64, layouts.TLane),) if letter == "B" else ()
        return self.alloc(shape, dtype, layout=layouts.TileLayout(rows, copies), cols=cols)

    def alloc_sf(self, shape: Any, dtype: Any, *, sf_per_mma: int, sf_reuse: int = 1) -> Buffer:
        """Scale factors of a block-scaled MMA, 8 bits each.

        ``shape`` is (rows, factors · sf_reuse), with stages before; ``sf_per_mma`` factors of a row are read by one
        instruction, and ``sf_reuse`` instructions read the same ones.
        """
        extents = [int(e) for e in shape]
        if len(extents) not in (2, 3) or extents[-2] % 32 or extents[-1] % (sf_reuse * sf_per_mma):
            raise IRError(
                f"alloc_sf: {tuple(extents)} is not (rows, factors) or (stages, rows, factors) with rows a multiple of "
                f"32 and factors of {sf_per_mma * sf_reuse}"
            )
        layout = _scale_factor_layout(extents, sf_per_mma, sf_reuse)
        return self.alloc(shape, dtype, layout=layout)

    def move_base_to(self, col: int) -> None:
        """Make ``col`` the next free column."""
        self.offset = col
        self.max_offset = max(self.max_offset, col)

    def _in_warp(self, warp: int, calls: list[Any]) -> None:
        warp_id = ID_FUNCTIONS["warp_id"]()
        with IfFrame(EQ(warp_id, const(warp, warp_id.dtype))), then_frame():
            for c in calls:
                evaluate_stmt(c)

    def commit(self) -> None:
        """Emit the allocation by the warp ``alloc_warp``."""
        if self._committed:
            raise IRError("TMEMPool.commit can be called only once")
        space = make_namespaces()
        calls = [space["ptx"].tcgen05.alloc(address_of(self.addr), n_cols=self.total_cols, cta_group=self.cta_group)]
        if self.sync_after_alloc:
            calls.append(space["cuda"].warp_sync())
        self._in_warp(self.alloc_warp, calls)
        self._committed = True

    def dealloc(self) -> None:
        """Emit the release by the warp ``dealloc_warp``."""
        if not self._committed or self._deallocated:
            raise IRError("TMEMPool.dealloc is called once, after commit")
        self._deallocated = True
        ptx = make_namespaces()["ptx"].tcgen05
        self._in_warp(
            self.dealloc_warp,
            [
                ptx.relinquish_alloc_permit(cta_group=self.cta_group),
                ptx.dealloc(self.addr, n_cols=self.total_cols, cta_group=self.cta_group),
            ],
        )


def _datapath(operand: str, shape: Any, M: int, cta_group: int, ws: bool, sparse: bool) -> str:
    """The letter of an MMA's data path; the operand must have the rows that one CTA contributes."""
    from ..layout.hardware import datapath_of

    letter = datapath_of(M, cta_group, ws=ws, sparse=sparse)
    if len(shape) != 2:
        raise IRError(f"alloc_tcgen05_mma_{operand} takes two dimensions, got {len(shape)}; give alloc the layout")
    if int(shape[0]) != M // cta_group:
        rows = M // cta_group
        raise IRError(f"alloc_tcgen05_mma_{operand}: M = {M} with cta_group {cta_group} has {rows} rows a CTA")
    return letter


#: scale factors of 8 bits in a 32-bit TMEM column
_PER_COLUMN = 4


def _scale_factor_layout(extents: list[int], per_mma: int, reuse: int) -> Any:
    """Row r at lane r % 32 of every quarter; 32 rows a column; as many instructions' factors as fit in one column."""
    groups = extents[-2] // 32
    steps = extents[-1] // (reuse * per_mma)
    packed = _PER_COLUMN // per_mma
    while packed > 1 and steps % packed:
        packed //= 2
    packed = max(packed, 1)
    shard = [layouts.Iter(groups, _PER_COLUMN, layouts.TCol), layouts.Iter(32, 1, layouts.TLane)]
    if steps // packed > 1:
        shard.append(layouts.Iter(steps // packed, groups * _PER_COLUMN, layouts.TCol))
    shard.append(layouts.Iter(packed * per_mma, 1, layouts.TCol))
    if reuse > 1:
        shard.append(layouts.Iter(reuse, 0, layouts.TCol))
    if len(extents) == 3:
        shard.insert(0, layouts.Iter(extents[0], groups * _PER_COLUMN, layouts.TCol))
    return layouts.TileLayout(tuple(shard), (layouts.Iter(4, 32, layouts.TLane),))


def _default_tmem_layout(shape: Any) -> Any:
    if len(shape) != 2:
        raise IRError("TMEM: give layout= for a shape that isn't two-dimensional")
    rows, cols = int(shape[0]), shape[1]
    if rows == 128:
        return layouts.tmem_datapath_layout("D", rows, cols)
    spec: Any = layouts.S[(rows, cols) : (1 @ layouts.TLane, 1 @ layouts.TCol)]
    return layouts.TileLayout(spec)


__all__ = ["SMEMPool", "TMEMPool"]
