"""Where each buffer lives: global parameters, shared memory offsets, registers, tensor memory.

Buffers that share a ``data`` variable share a storage :class:`Root`; an element's place is the root plus the buffer's
element offset plus what its layout says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import LoweringError, Span
from ..ir import (
    AllocBuffer,
    AttrStmt,
    Bind,
    Buffer,
    BufferLoad,
    Call,
    Cast,
    DeclBuffer,
    Evaluate,
    Expr,
    IntImm,
    Op,
    PrimFunc,
    StmtVisitor,
    TensorMapType,
    Var,
    const,
)  # fmt: skip
from ..ir import dtype as dt
from ..layout import TileLayout

SHARED_ALIGN = 1024  # bytes; the period of the 128-byte swizzle, anchored at absolute addresses (PTX ISA 9.7.16)
TENSOR_MAP_BYTES = 128
MAX_SHARED = 232448  # bytes a CTA may use on sm_100 (227 KB)


@dataclass(frozen=True)
class Root:
    """One piece of storage.

    ``space``: ``global`` (a pointer parameter), ``shared``, ``cluster`` (shared memory of the CTA of the cluster whose rank
    is ``address``), ``local`` (registers), ``stack`` (memory of each thread, for what is indexed at run time), ``param``
    (the bytes of the tensor map that the variable ``address`` is) or ``tmem`` (at ``address``).
    ``offset`` is its byte offset in the CTA's shared
    memory; ``size`` its bytes (per thread for ``local``, 0 if unknown); ``align`` the alignment of its start in bytes;
    ``word_bits`` the width of one register of a local root.  ``scratch`` marks shared memory that a lowering takes for
    itself: ``common`` to several calls, or one call's ``own``; it gets its place when the lowerings are chosen.
    """

    space: str
    name: str
    offset: int = 0
    size: int = 0
    align: int = 16
    word_bits: int = 32
    address: Expr | None = field(default=None, compare=False)
    scratch: str = ""


@dataclass
class Storage:
    """The roots of a kernel's buffers, how much shared memory they take (bytes), and the named barriers that it may use."""

    roots: dict[Var, Root] = field(default_factory=dict)
    shared_bytes: int = 0
    barriers: frozenset[int] = frozenset()
    _offsets: dict[int, tuple[BufferLoad, Expr]] = field(default_factory=dict, repr=False, compare=False)

    def root(self, buffer: Buffer) -> Root:
        found = self.roots.get(buffer.data)
        if found is None:
            raise LoweringError(f"buffer '{buffer.name}' is used, but neither a parameter nor declared", span=buffer.span)
        return found

    def byte_offset(self, buffer: Buffer, coords: Sequence[Any]) -> Expr:
        """Bytes from the root's start to the element at ``coords`` (expressions or integers), along axis ``m``."""
        places = place(buffer, coords)
        extra = sorted(set(places) - {"m"})
        if extra:
            raise LoweringError(
                f"buffer '{buffer.name}' puts elements on axis {', '.join(extra)}, so they have no memory address",
                hint="memory buffers need a layout on axis m only",
            )
        elements = places.get("m", const(0)) + buffer.elem_offset
        bits = dt.storage_bits(buffer.dtype)
        return elements * (bits // 8) if bits % 8 == 0 else elements * bits // 8

    def offset_of(self, load: BufferLoad) -> Expr:
        """Bytes from the root's start to what is loaded: one expression for each load (kept, since it is known by its id)."""
        if id(load) not in self._offsets:
            self._offsets[id(load)] = load, self.byte_offset(load.buffer, load.indices)
        return self._offsets[id(load)][1]


def place(buffer: Buffer, coords: Sequence[Any]) -> dict[str, Expr]:
    """The storage coordinates (axis name -> expression) of the element at ``coords``."""
    exprs = [const(c) for c in coords]
    if buffer.layout is not None and not buffer.strides:
        found = buffer.layout.apply(*exprs, shape=list(buffer.shape)) if len(exprs) > 1 else buffer.layout.apply(exprs[0])
        return {str(axis): const(v) for axis, v in found.items()}
    total: Expr = const(0)
    for c, s in zip(exprs, strides_of(buffer)):
        total = total + c * s
    return {"m": total}


def element_offset(buffer: Buffer, coords: Sequence[Any]) -> Expr:
    """Elements from the root's start to the one at ``coords`` of a buffer in memory."""
    return place(buffer, coords).get("m", const(0)) + buffer.elem_offset


def is_row_major(buffer: Buffer) -> bool:
    """Whether a buffer has the layout that its shape alone gives it; then extents other than the first are strides."""
    return not buffer.strides and buffer.layout is not None and buffer.layout.is_default(buffer.shape)


def has_constant_steps(buffer: Buffer) -> bool:
    """Whether the distance between two elements is known at compile time."""
    if is_row_major(buffer) or buffer.strides or buffer.layout is None:
        return all(isinstance(s, IntImm) for s in strides_of(buffer))
    return buffer.layout.is_constant()


def place_points(
    buffer: Buffer, coords: Sequence[np.ndarray], value: Callable[[Expr], np.ndarray]
) -> dict[str, np.ndarray]:
    """The same for many elements at once, by the layout's own evaluation (independent of :func:`place`).

    ``value`` evaluates strides that are known at the launch only.
    """
    if buffer.layout is not None and not buffer.strides and not is_row_major(buffer):
        shape = const_shape(buffer)
        flat = np.zeros_like(np.asarray(coords[0]), dtype=np.int64)
        for c, extent in zip(coords, shape):
            flat = flat * extent + c
        return {str(axis): np.asarray(v) for axis, v in buffer.layout.evaluate(flat).items()}
    strides = [s.value if isinstance(s, IntImm) else value(s)[..., None] for s in strides_of(buffer)]
    return {"m": np.sum([np.asarray(c, dtype=np.int64) * s for c, s in zip(coords, strides)], axis=0)}


def strides_of(buffer: Buffer) -> list[Expr]:
    """Element strides: the buffer's own, or row-major."""
    if buffer.strides:
        return list(buffer.strides)
    out: list[Expr] = []
    step: Expr = const(1)
    for extent in reversed(buffer.shape):
        out.append(step)
        step = step * extent
    return out[::-1]


def const_shape(buffer: Buffer) -> tuple[int, ...]:
    """The buffer's shape as integers; raises LoweringError if an extent is symbolic."""
    shape = buffer.const_shape()
    if shape is None:
        raise LoweringError(f"the shape of buffer '{buffer.name}' must be constant here", span=buffer.span)
    return shape


class _Collect(StmtVisitor):
    def __init__(self) -> None:
        self.allocated: list[tuple[Buffer, Span | None]] = []
        self.views: list[tuple[Buffer, Span | None]] = []
        self.pointers: dict[Var, Expr] = {}
        self.mapped: dict[Var, tuple[Expr, Expr] | None] = {}
        self.bound: dict[Var, Expr] = {}
        self.dynamic_bytes = 0

    def visit_alloc_buffer(self, value: AllocBuffer) -> None:
        self.allocated.append((value.buffer, value.span))

    def visit_decl_buffer(self, value: DeclBuffer) -> None:
        self.views.append((value.buffer, value.span))
        if isinstance(value.data, Call):
            self.pointers[value.buffer.data] = value.data

    def visit_bind(self, value: Bind) -> None:
        self.bound[value.var] = value.value

    def visit_evaluate(self, value: Evaluate) -> None:
        call = value.value
        if isinstance(call, Call) and call.op.name == "tirx.ptx.instruction" and str(call.args[1].value).startswith("mapa."):
            target, address, rank = call.args[2:5]
            while isinstance(rank, Cast):  # a rank is small in any type
                rank = rank.value
            known = self.mapped.get(target.buffer.data)
            self.mapped[target.buffer.data] = None if known is not None else (address, rank)

    def pointer(self, var: Var) -> Expr | None:
        """What a view's pointer is; one that the instruction ``mapa`` gave, by what it was given."""
        value = self.pointers.get(var, self.bound.get(var))
        inner = value
        while isinstance(inner, Call) and inner.op.name == "tirx.reinterpret":
            inner = inner.args[0]
        found = self.mapped.get(inner.buffer.data) if isinstance(inner, BufferLoad) else None
        return value if found is None else Call("handle", Op.get("tirx.ptx.map_shared_rank"), found)

    def visit_attr_stmt(self, value: AttrStmt) -> None:
        if value.attr_key == "tirx.dyn_smem_bytes" and isinstance(value.value, IntImm):
            self.dynamic_bytes = max(self.dynamic_bytes, value.value.value)
        self.visit_children(value)


def plan(func: PrimFunc, limit: int | None = MAX_SHARED, stack: Collection[str] = ()) -> Storage:
    """Give every buffer of a kernel its storage; local roots whose names are in ``stack`` are in memory of each thread.

    Shared memory is one dynamic block: the pool first (at offset 0, aligned to 1024 bytes), then other shared buffers.
    Raises LoweringError if it exceeds ``limit`` bytes (227 KB), a view reaches beyond its storage (with None as limit neither
    is checked: layouts aren't final), or for a storage scope that this target doesn't have.
    """
    collect = _Collect()
    collect.visit(func.body)
    storage = Storage()
    for param in func.params:
        if param in func.buffer_map:
            buffer = func.buffer_map[param]
            shape = buffer.const_shape()
            size = math.prod(shape) * dt.storage_bits(buffer.dtype) // 8 if shape else 0
            storage.roots[buffer.data] = Root("global", buffer.name, size=size, align=buffer.data_alignment)
    pool_end = collect.dynamic_bytes
    views: dict[Var, list[Buffer]] = {}
    for buffer, _ in collect.views:
        views.setdefault(buffer.data, []).append(buffer)
    end = pool_end
    for buffer, span in collect.allocated:
        if buffer.data in storage.roots:
            continue
        shared = buffer.scope.startswith("shared")
        if shared and buffer.const_shape() == (0,):
            storage.roots[buffer.data] = Root("shared", buffer.name, 0, pool_end, SHARED_ALIGN)
        elif shared:
            size, align = _bytes(buffer), _shared_align(buffer)
            start = -(-end // align) * align
            end = start + size
            storage.roots[buffer.data] = Root("shared", buffer.name, start, size, align)
            _check_start(buffer, span)
        elif buffer.scope == "local":
            _check_start(buffer, span)
            aliases = [buffer, *views.get(buffer.data, [])]
            bits = 64 if any(dt.storage_bits(b.dtype) >= 64 for b in aliases) else 32
            size = _bytes(buffer) if limit is not None else max(map(_bytes, aliases))
            storage.roots[buffer.data] = Root("local", buffer.name, size=size, word_bits=bits)
        elif buffer.scope == "tmem":
            storage.roots[buffer.data] = _tmem_root(buffer, span)
        else:
            raise LoweringError(f"buffer '{buffer.name}': storage scope '{buffer.scope}' can't be allocated", span=span)
    for buffer, span in collect.views:
        if buffer.data not in storage.roots:
            if buffer.scope == "tmem":
                storage.roots[buffer.data] = _tmem_root(buffer, span)
            elif buffer.scope == "param":
                storage.roots[buffer.data] = _param_root(buffer, collect.pointer(buffer.data), span)
            else:
                value = collect.pointer(buffer.data)
                storage.roots[buffer.data] = _part_of(buffer, storage, value) or _cluster_root(buffer, storage, value, span)
    if limit is not None:
        for buffer, span in collect.views:
            _check_view(buffer, storage.roots[buffer.data], span)
    storage.shared_bytes = end
    _make_unique(storage)
    for data, root in storage.roots.items():
        if root.space == "local" and root.name in stack:
            storage.roots[data] = replace(root, space="stack")
    if limit is not None and end > limit:
        beyond = [(b, s) for b, s in collect.allocated if _ends(storage.roots[b.data]) > limit]
        where, span = (f": '{beyond[0][0].name}' ends beyond", beyond[0][1]) if beyond else ("", None)
        raise LoweringError(f"the kernel needs {end} bytes of shared memory; a CTA has {limit}{where}", span=span)
    return storage


def _ends(root: Root) -> int:
    return root.offset + root.size if root.space == "shared" else 0


def _make_unique(storage: Storage) -> None:
    """Two buffers may have one name; their roots may not, since a register is named by its root."""
    used: set[str] = set()
    counts: dict[str, int] = {}
    for data, root in storage.roots.items():
        name, count = root.name, counts.get(root.name, 1)
        while name in used:
            name, count = f"{root.name}_{count}", count + 1
        counts[root.name] = count
        used.add(name)
        storage.roots[data] = replace(root, name=name)


def _tmem_root(buffer: Buffer, span: Span | None) -> Root:
    if not buffer.allocated_addr:
        raise LoweringError(
            f"tensor memory buffer '{buffer.name}' has no address",
            hint="give allocated_addr, the value that tcgen05.alloc wrote",
            span=span,
        )
    return Root("tmem", buffer.name, address=buffer.allocated_addr[0])


def _param_root(buffer: Buffer, value: Expr | None, span: Span | None) -> Root:
    """The bytes of a tensor map: what a view of scope ``param`` at its address has."""
    while isinstance(value, Call) and value.op.name in ("tirx.reinterpret", "tirx.address_of"):
        value = value.args[0]
    if not isinstance(value, Var) or not isinstance(value.ty, TensorMapType):
        raise LoweringError(
            f"buffer '{buffer.name}' is in param memory, but not at the address of a tensor map",
            hint="its data= is Tx.reinterpret('handle', Tx.address_of(tensor_map))", span=span,
        )  # fmt: skip
    return Root("param", buffer.name, size=TENSOR_MAP_BYTES, align=64, address=value)


def remote_address(e: Expr | None) -> tuple[BufferLoad, Expr] | None:
    """(element, rank) of an address that ``mapa`` gives: the element's place in the shared memory of CTA ``rank``."""
    while isinstance(e, Call) and e.op.name == "tirx.reinterpret":
        e = e.args[0]
    if not isinstance(e, Call) or e.op.name not in ("tirx.ptx.mapa", "tirx.ptx.map_shared_rank"):
        return None
    element, rank = e.args[:2]
    if isinstance(element, Call) and element.op.name == "tirx.address_of" and isinstance(element.args[0], BufferLoad):
        return element.args[0], const(rank)
    return None


def at_rank(root: Root, rank: Expr, offset: int = 0) -> Root:
    """What lies ``offset`` bytes into a shared root, in CTA ``rank`` of the cluster."""
    align = math.gcd(root.align, offset) if offset else root.align
    return replace(root, space="cluster", offset=root.offset + offset, align=align, size=root.size - offset, address=rank)


def _part_of(buffer: Buffer, storage: Storage, value: Expr | None) -> Root | None:
    """The storage that begins at the address of an element of a shared buffer, or None if the view has no such address."""
    while isinstance(value, Call) and value.op.name == "tirx.reinterpret":
        value = value.args[0]
    if not isinstance(value, Call) or value.op.name != "tirx.address_of" or not isinstance(value.args[0], BufferLoad):
        return None
    load = value.args[0]
    root = storage.roots.get(load.buffer.data)
    offset = storage.offset_of(load)
    if root is None or root.space != "shared" or not isinstance(offset, IntImm):
        return None
    align = math.gcd(root.align, offset.value) if offset.value else root.align
    size = max(0, root.size - offset.value)
    return replace(root, name=buffer.name or root.name, offset=root.offset + offset.value, align=align, size=size)


def _cluster_root(buffer: Buffer, storage: Storage, value: Expr | None, span: Span | None) -> Root:
    found = remote_address(value)
    if found is None:
        raise LoweringError(
            f"buffer '{buffer.name}' views storage that isn't declared",
            hint="its data= is a buffer's, or the address that T.ptx.map_shared_rank gives",
            span=span,
        )
    element, rank = found
    root = storage.root(element.buffer)
    if root.space != "shared":
        raise LoweringError(f"buffer '{buffer.name}' is remote, but '{root.name}' is not in shared memory", span=span)
    offset = storage.offset_of(element)
    if not isinstance(offset, IntImm):
        raise LoweringError(f"where the remote buffer '{buffer.name}' begins must be constant", span=span)
    return replace(at_rank(root, rank, offset.value), name=buffer.name)


def _bytes(buffer: Buffer) -> int:
    """Bytes of storage from the root's start that the buffer can touch (per thread for thread-distributed layouts)."""
    elements = math.prod(const_shape(buffer)) if buffer.layout is None else int(buffer.layout.storage().span("m"))
    offset = buffer.elem_offset.value if isinstance(buffer.elem_offset, IntImm) else 0
    return -(-(elements + offset) * dt.storage_bits(buffer.dtype) // 8)


def _check_start(buffer: Buffer, span: Span | None) -> None:
    """Raise LoweringError for an extent that isn't known, or a layout that reaches before the storage's start."""
    if buffer.const_shape() is None:
        raise LoweringError(f"'{buffer.name}' is allocated here, so its extents must be constant", span=span)
    layout, offset = buffer.layout, buffer.elem_offset
    if not isinstance(layout, TileLayout) or not layout.is_constant() or not isinstance(offset, IntImm):
        return
    digits = [i for i in (*layout.shard, *layout.replica) if i.axis.name == "m"]
    steps = [(int(i.extent) - 1) * int(i.stride) for i in digits]  # type: ignore[arg-type]
    begins = [int(v) for a, v in layout.offset.items() if a.name == "m"]  # type: ignore[arg-type]
    low = offset.value + sum(begins) + sum(s for s in steps if s < 0)
    if low < 0:
        raise LoweringError(
            f"the layout of '{buffer.name}' puts an element {-low} elements before the buffer's start",
            hint="a negative stride needs an offset", span=span,
        )  # fmt: skip


def _check_view(buffer: Buffer, root: Root, span: Span | None) -> None:
    """Raise LoweringError for a buffer that reaches beyond its storage."""
    sized = root.space in ("shared", "local", "stack", "param") and root.size
    known = sized and buffer.const_shape() is not None and not buffer.strides
    if known and _bytes(buffer) > root.size:
        raise LoweringError(
            f"buffer '{buffer.name}' reaches {_bytes(buffer)} bytes into '{root.name}', which has {root.size}", span=span
        )


def _shared_align(buffer: Buffer) -> int:
    """A swizzled buffer is aligned to its pattern, others to 16 bytes or their element; to 128 if they are that large, since
    tensor copies need it (PTX ISA 9.7.9.27)."""
    swizzled = buffer.layout is not None and type(buffer.layout).__name__ != "TileLayout"
    if swizzled:
        return SHARED_ALIGN
    return 128 if _bytes(buffer) >= 128 else max(16, dt.storage_bits(buffer.dtype) // 8)
