"""The reader of TVM's nodes: identity, types, buffers, what is opaque.  The table of nodes is in ``tvm_import``.

Variables keep their identity, and so does every shared expression: a node is read once.

TVM 0.26 and 0.27 have no ``Buffer`` object: a buffer is a ``Var`` whose type is a ``BufferType``.  Reading gives such a
variable its :class:`~tirx_eq.ir.Buffer` when it is first met; a parameter becomes a handle with an entry in
``buffer_map``; a ``DeclBuffer`` over ``buffer_data(other)`` shares the ``data`` variable of ``other``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .. import ir
from ..errors import IRError, Span, TirxError
from ..ir import dtype as dt
from ..ir.expr import Type
from . import tvm_objects as obj

#: ``IterVar.iter_type`` by number.
ITER_TYPES = (
    "DataPar", "ThreadIndex", "CommReduce", "Ordered", "Opaque", "Unrolled", "Vectorized", "Parallelized", "Tensorized",
)  # fmt: skip
#: ``ExecScope.kind`` by number.
SCOPE_KINDS = {2: "cluster", 3: "cta", 4: "warpgroup", 5: "warp", 6: "thread"}
#: ``ScopeIdDef.scope`` by number: what is numbered, in what.
SCOPE_BINDINGS = {
    0: ("kernel", "cluster"), 1: ("kernel", "cta"), 2: ("cluster", "cta"), 3: ("cta", "warpgroup"), 4: ("cta", "warp"),
    5: ("warpgroup", "warp"), 6: ("warp", "thread"), 7: ("cta", "thread"), 8: ("warpgroup", "thread"),
    9: ("cluster", "cta_pair"),
}  # fmt: skip
#: Nodes of 0.27 that are calls here.
BIT_NODES = {
    "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor", "BitwiseNot": "bitwise_not",
    "LShift": "shift_left", "RShift": "shift_right",
}  # fmt: skip
#: Operators that ``apache-tvm-tirx`` renamed -> their names in 0.26.
NEW_OPERATORS = {
    **{f"tirx.gpu_{n}": f"tirx.tvm_{n}" for n in (
        "storage_sync", "warp_shuffle", "warp_shuffle_up", "warp_shuffle_down", "warp_shuffle_xor", "warp_activemask",
        "thread_allreduce", "thread_invariant", "load_matrix_sync", "store_matrix_sync", "mma_sync", "fill_fragment")},
    **{f"tirx.{n}": f"tirx.tvm_{n}" for n in (
        "stack_alloca", "stack_make_shape", "static_handle", "call_packed", "call_cpacked", "call_packed_lowered",
        "call_cpacked_lowered", "throw_last_error", "kernel_replace_point")},
    **{f"tirx.vector_{n}": f"tirx.vector{n}" for n in ("high", "low", "combine")},
    "tirx.gpu_thread_return": "tirx.thread_return", "tirx.gpu_dp4a": "tirx.dp4a",
    "tirx.gpu_thread_filter": "tirx.filter", "tirx.gpu_active_thread_selector": "tirx.selector",
}  # fmt: skip


@dataclass
class ImportSummary:
    """What an import met: ``nodes`` read, and under ``opaque`` how often each thing had no counterpart here.

    ``reasons`` says for each opaque kind why (the first time it was met).
    """

    nodes: int = 0
    opaque: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.opaque:
            return f"{self.nodes} nodes, none opaque"
        lines = [f"{self.nodes} nodes, {self.opaque.total()} opaque:"]
        lines += [f"  {count} x {kind}: {self.reasons[kind]}" for kind, count in self.opaque.most_common()]
        return "\n".join(lines)


class Reader:
    """Reads nodes of another system; one Reader sees one object graph, so identity holds across calls."""

    def __init__(self, summary: ImportSummary | None = None) -> None:
        self.summary = ImportSummary() if summary is None else summary
        self._memo: dict[Any, Any] = {}
        self._alive: list[Any] = []  # handles stay valid while the objects live

    def read(self, value: Any) -> Any:
        """Our counterpart of a node, container or scalar."""
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return str(value)
        if obj.is_sequence(value):
            return tuple(self.read(v) for v in value)
        if obj.is_mapping(value):
            return {self._key(k): self.read(v) for k, v in obj.items(value)}
        key = obj.type_key(value)
        if key is None:
            return self.opaque(value, "it is no node")
        handle = obj.handle(value)
        if handle in self._memo:
            return self._memo[handle]
        self._alive.append(value)
        self.summary.nodes += 1
        from .tvm_import import find_reader

        entry = find_reader(key)
        try:
            made = entry(self, value) if entry else self.opaque(value, "no counterpart")
        except TirxError as e:
            made = self.opaque(value, e.message)
        self._memo.setdefault(handle, made)  # a buffer enters itself before its fields are read
        return self._memo[handle]

    def remember(self, value: Any, made: Any) -> Any:
        """Let ``made`` stand for ``value`` wherever it occurs."""
        self._memo[obj.handle(value)] = made
        return made

    def _key(self, key: Any) -> Any:
        if isinstance(key, str):
            return str(key)
        name = getattr(key, "name_hint", None) if obj.type_key(key) == "ir.GlobalVar" else None
        return self.read(key) if name is None else str(name)

    def opaque(self, value: Any, reason: str) -> Any:
        """A node of ours that keeps the operands and text of one that can't be read."""
        kind = obj.type_key(value) or type(value).__name__
        name = getattr(getattr(value, "op", None), "name", None)
        if isinstance(name, str):
            kind = f"{kind}({name})"
        self.summary.opaque[kind] += 1
        self.summary.reasons.setdefault(kind, reason)
        operands: list[Any] = []
        if obj.type_key(value) is not None:
            names = [n for n in obj.field_names(value) if n not in ("ty", "op")]
            operands = [self.read(getattr(value, n, None)) for n in names]
        return ir.Opaque(kind, tuple(operands), text_of(value), _dtype_or_handle(value))

    def stmt(self, value: Any) -> ir.Stmt:
        """A statement; an opaque one is evaluated, so that it keeps its place."""
        made = self.read(value)
        if isinstance(made, ir.Stmt):
            return made
        return ir.Evaluate(made) if made is not None else ir.SeqStmt()

    def optional_stmt(self, value: Any) -> ir.Stmt | None:
        return None if value is None else self.stmt(value)

    def buffer(self, value: Any) -> ir.Buffer:
        made = self.read(value)
        if not isinstance(made, ir.Buffer):
            raise IRError(f"{text_of(value)} is not a buffer")
        return made

    def type(self, value: Any) -> Type | None:
        """A type: scalar, pointer or tensor map.  None for the empty tuple (no value)."""
        name = (obj.type_key(value) or "").rpartition(".")[2]
        if name in ("PointerType", "PtrType"):
            element = value.element_type
            scope = value.storage_scope if name == "PointerType" else name_of(value.scope)
            inner = self.type(element)
            if isinstance(inner, ir.TensorMapType):
                return inner  # here the type of a tensor-map parameter is that of what is passed
            if not isinstance(inner, ir.PrimType):
                raise IRError(f"a pointer to {text_of(element)}")
            return ir.PointerType(inner, str(scope) or "global")
        if name == "TensorMapType":
            return ir.TensorMapType()
        if name == "TupleType" and not len(value.fields):
            return None
        if name != "PrimType":
            raise IRError(f"the type {text_of(value)}")
        return ir.PrimType(_dtype(value.dtype))

    def span(self, value: Any) -> Span | None:
        """The source place of a node, if it has one."""
        place: Any = getattr(value, "span", None) or getattr(value, "loc", None)
        if hasattr(place, "callee"):
            place = place.callee  # what an inlined function wrote
        if place is None or not hasattr(place, "source_name"):
            return None
        line, column = ("line", "column") if hasattr(place, "line") else ("start_line", "start_column")
        start = int(getattr(place, line)), int(getattr(place, column))
        return Span(str(place.source_name.name), *start, int(place.end_column))


def _dtype(value: Any) -> str:
    text = str(value)
    if text in ("", "void"):
        return "void"
    dt.parse(text)
    return text


def dtype_of(value: Any) -> str:
    """The dtype of the value of an expression of the other system."""
    ty = getattr(value, "ty", None)
    if ty is None:
        return _dtype(getattr(value, "dtype", ""))
    name = (obj.type_key(ty) or "").rpartition(".")[2]
    if name == "PrimType":
        return _dtype(ty.dtype)
    if name in ("NoneType", "MissingType") or (name == "TupleType" and not len(ty.fields)):
        return "void"
    if name in ("BufferType", "TensorType"):
        return _dtype(getattr(ty.dtype, "dtype", ty.dtype))
    return "handle"


def _dtype_or_handle(value: Any) -> str:
    try:
        return dtype_of(value)
    except (IRError, AttributeError):
        return "handle"


def text_of(value: Any) -> str:
    """A node as its own system prints it, shortened."""
    if isinstance(value, obj.JsonNode):
        return obj.outline(value)
    try:
        text = str(value)
    except Exception as e:
        text = f"<{obj.type_key(value)}: {type(e).__name__}>"
    return text if len(text) <= 2000 else text[:2000] + "…"


def scalar(value: Any) -> Any:
    """An extent or stride: an int if it is constant, else an expression."""
    return int(value) if isinstance(value, ir.IntImm) else value


def read_buffer(
    reader: Reader, var: Any, data: ir.Var | None = None, addresses: tuple[ir.Expr, ...] = ()
) -> ir.Buffer:
    """The Buffer of a variable with a buffer type, using the pointer ``data`` if its scope is the same.

    ``addresses`` is where it was allocated, if its type doesn't say so.
    """
    ty = var.ty
    dtype = _dtype(getattr(ty.dtype, "dtype", ty.dtype))
    if hasattr(ty, "scope"):  # apache-tvm-tirx: tensors have neither strides nor offset
        scope = name_of(ty.scope)
        rest: tuple[Any, ...] = ((), ir.IntImm("int32", 0), int(ty.data_alignment), 1, addresses)
    else:
        scope = str(ty.storage_scope)
        numbers = int(ty.data_alignment), int(ty.offset_factor)
        rest = (reader.read(ty.strides), reader.read(ty.elem_offset), *numbers, reader.read(ty.allocated_addr))
    if data is None or not isinstance(data.ty, ir.PointerType) or data.ty.storage_scope != scope:
        data = ir.Var(str(var.name), ir.PointerType(ir.PrimType(dtype), scope))
    strides, offset, alignment, factor, allocated = rest
    return ir.Buffer(
        data, dtype, reader.read(ty.shape), strides, offset, str(var.name), alignment, factor,
        read_layout(reader, ty.layout), allocated, span=reader.span(var),
    )  # fmt: skip


def name_of(value: Any) -> str:
    return value if isinstance(value, str) else str(value.name)


def read_layout(reader: Reader, value: Any) -> Any:
    """The layout of a buffer.  Of a buffer without elements there is nothing to lay out, so it has none."""
    if (obj.type_key(value) or "").endswith(".TileLayout") and any(scalar(reader.read(i.extent)) == 0 for i in value.shard):
        return None
    return reader.read(value)


def pointer_type(call: ir.Call) -> ir.PointerType:
    """The type of the pointer that a call gives, where the operator and its arguments tell it."""
    name = call.op.name
    if name == "tirx.address_of" and isinstance(call.args[0], ir.BufferLoad):
        buffer = call.args[0].buffer
        return ir.PointerType(ir.PrimType(buffer.dtype), buffer.scope)
    scope = "global"
    if name in ("tirx.tvm_access_ptr", "tirx.ptr_byte_offset", "tirx.handle_add_byte_offset"):
        pointers = (a.ty for a in call.args if isinstance(a, ir.Var) and isinstance(a.ty, ir.PointerType))
        scope = next((p.storage_scope for p in pointers), scope)
    return ir.PointerType(ir.PrimType("void"), scope)


def op_name(op: Any) -> str:
    """The name of an operator as 0.26 has it: later ones keep scalar ones under ``prim.`` and renamed others."""
    name = str(op.name)
    if name.startswith("prim."):
        return "tirx." + name.removeprefix("prim.")
    return NEW_OPERATORS.get(name, name)


def read_attrs(reader: Reader, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if obj.is_mapping(value):
        return reader.read(value)
    if obj.type_key(value) == "ir.DictAttrs":
        inner = value.dict if isinstance(value, obj.JsonNode) else value.__dict__
        entries = inner if obj.is_mapping(inner) else {k: value[k] for k in value.keys()}
        return {str(k): reader.read(v) for k, v in entries.items()}
    return {n: reader.read(getattr(value, n)) for n in obj.field_names(value)}
