"""From TVM's nodes to ours: one table from node name to how its fields are read.

TVM keeps the same node under several type keys (``tirx.Add`` in 0.26, ``prim.Add`` in 0.27), so the table goes by the
last part of the key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ir
from ..errors import InteropError, IRError
from ..ir.stmt import FOR_KINDS
from . import tvm_objects as obj
from .tvm_instructions import RENAMED, is_instruction, read_instruction
from .tvm_reader import (
    BIT_NODES,
    ITER_TYPES,
    SCOPE_BINDINGS,
    SCOPE_KINDS,
    ImportSummary,
    Reader,
    dtype_of,
    name_of,
    op_name,
    pointer_type,
    read_attrs,
    read_buffer,
)

_NAMESPACES = ("tirx", "prim", "ir", "tir", "te", "target")
#: Calls that TVM's script makes where we have a statement.
_STATEMENT_CALLS: dict[str, Callable[..., ir.Stmt]] = {
    "tirx.break_loop": ir.Break, "tirx.continue_loop": ir.Continue, "tirx.ret": ir.Return,
}  # fmt: skip


def _read_var(reader: Reader, value: Any) -> Any:
    name = (obj.type_key(getattr(value, "ty", None)) or "").rpartition(".")[2]
    if name in ("BufferType", "TensorType"):
        return read_buffer(reader, value)
    return ir.Var(str(value.name), reader.type(value.ty) or ir.PrimType("void"), span=reader.span(value))


def _read_binary(cls: type) -> Callable[[Reader, Any], Any]:
    return lambda r, v: cls(r.read(v.a), r.read(v.b), span=r.span(v))


def _read_bits(name: str) -> Callable[[Reader, Any], Any]:
    fields = ("a",) if name == "bitwise_not" else ("a", "b")
    return lambda r, v: ir.Call(
        dtype_of(v), ir.Op.get(f"tirx.{name}"), tuple(r.read(getattr(v, f)) for f in fields), span=r.span(v)
    )


def _read_call(reader: Reader, value: Any) -> Any:
    if obj.type_key(value.op) != "ir.Op":
        return reader.opaque(value, "it calls no operator")
    name = op_name(value.op)
    if name in ("tirx.buffer_data", "tirx.tensor_data_ptr") and len(value.args) == 1:
        return reader.buffer(value.args[0]).data
    if name == "tirx.masked_load":  # 0.27 has no predicate on a load
        buffer, *indices, predicate = value.args
        return ir.BufferLoad(
            reader.buffer(buffer), reader.read(indices), reader.read(predicate), span=reader.span(value)
        )  # fmt: skip
    if is_instruction(value, name):
        return read_instruction(name, reader.read(value.args), reader.span(value))
    name = RENAMED.get(name, name)
    if not ir.Op.exists(name):
        return reader.opaque(value, f"the operator '{name}' is not known")
    attrs = read_attrs(reader, value.attrs)
    if len(value.ty_args):
        attrs["ty_args"] = tuple(reader.type(t) for t in value.ty_args)
    made = ir.Call(dtype_of(value), ir.Op.get(name), reader.read(value.args), attrs, span=reader.span(value))
    if made.dtype == "handle" and obj.type_key(value.ty) == "ir.PointerType":
        ty = reader.type(value.ty)
        if ty != pointer_type(made):
            object.__setattr__(made, "_pointer_type", ty)  # for the exporter
    return made


def _read_load(reader: Reader, value: Any) -> ir.BufferLoad:
    source = value.buffer if hasattr(value, "buffer") else value.source
    predicate = reader.read(getattr(value, "predicate", None))
    return ir.BufferLoad(reader.buffer(source), reader.read(value.indices), predicate, span=reader.span(value))


def _read_region(reader: Reader, value: Any) -> ir.BufferRegion:
    source = value.buffer if hasattr(value, "buffer") else value.source
    return ir.BufferRegion(reader.buffer(source), reader.read(value.region), span=reader.span(value))


def _read_range(reader: Reader, value: Any) -> ir.Range:
    low = value.min if hasattr(value, "min") else value.begin
    return ir.Range(reader.read(low), reader.read(value.extent), span=reader.span(value))


def _read_iter_var(reader: Reader, value: Any) -> ir.IterVar:
    kind = int(value.iter_type)
    return ir.IterVar(
        reader.read(value.dom), reader.read(value.var), ITER_TYPES[kind], str(value.thread_tag), span=reader.span(value)
    )


def _read_reducer(reader: Reader, value: Any) -> ir.CommReducer:
    lhs, rhs, result, identity = (reader.read(getattr(value, n)) for n in ("lhs", "rhs", "result", "identity_element"))
    return ir.CommReducer(lhs, rhs, result, identity, span=reader.span(value))


def _read_reduce(reader: Reader, value: Any) -> ir.Reduce:
    return ir.Reduce(
        reader.read(value.combiner), reader.read(value.source), reader.read(value.init), reader.read(value.axis),
        reader.read(value.condition), int(value.value_index), span=reader.span(value),
    )  # fmt: skip


def _read_bind(reader: Reader, value: Any) -> ir.Bind:
    return ir.Bind(reader.read(value.var), reader.read(value.value), span=reader.span(value))


def _read_decl_buffer(reader: Reader, value: Any) -> ir.DeclBuffer:
    pointer = reader.read(value.data)
    addresses = reader.read(value.buffer.ty.allocated_addr)
    if len(addresses) and isinstance(pointer, ir.Call) and pointer.op.name == "tirx.reinterpret":
        if pointer.args == addresses[:1]:
            pointer = None  # TVM writes storage that has an address of its own as a pointer to that address
    if not isinstance(pointer, ir.Expr):
        return ir.DeclBuffer(reader.buffer(value.buffer), span=reader.span(value))
    shared = pointer if isinstance(pointer, ir.Var) else None
    # an attribute may name the buffer before its declaration does
    buffer = reader.buffer(value.buffer) if shared is None else read_buffer(reader, value.buffer, shared)
    made = ir.DeclBuffer(reader.remember(value.buffer, buffer), pointer, span=reader.span(value))
    if obj.type_key(value.data) == "ir.Call" and shared is not None:
        # all views share one pointer here; TVM says through which one, and the exporter says it again
        object.__setattr__(made, "_view_of", reader.buffer(value.data.args[0]))
    return made


def _read_scope_id_def(reader: Reader, value: Any) -> ir.ScopeIdDef:
    parent, child = SCOPE_BINDINGS[int(value.scope)]
    ids, extents, preferred = (reader.read(getattr(value, n)) for n in ("def_ids", "extents", "preferred_extents"))
    return ir.ScopeIdDef(ids, extents, parent, child, preferred)


def _read_for(reader: Reader, value: Any) -> ir.For:
    return ir.For(
        reader.read(value.loop_var), reader.read(value.min), reader.read(value.extent), FOR_KINDS[int(value.kind)],
        reader.stmt(value.body), reader.read(value.thread_binding), reader.read(value.annotations),
        reader.read(value.step), span=reader.span(value),
    )  # fmt: skip


def _read_evaluate(reader: Reader, value: Any) -> ir.Stmt:
    call = value.value
    if obj.type_key(call) == "ir.Call" and getattr(call.op, "name", "") == "tirx.masked_store":
        buffer, stored, *indices, predicate = call.args
        return ir.BufferStore(
            reader.buffer(buffer), reader.read(stored), reader.read(indices), reader.read(predicate),
            span=reader.span(value),
        )  # fmt: skip
    inner = reader.read(call)
    if isinstance(inner, ir.Call) and inner.op.name in _STATEMENT_CALLS:
        return _STATEMENT_CALLS[inner.op.name](*inner.args, span=reader.span(value))
    return ir.Evaluate(inner, span=reader.span(value))


def _read_jump(cls: type[ir.Break] | type[ir.Continue]) -> Callable[[Reader, Any], ir.Stmt]:
    def read(reader: Reader, value: Any) -> ir.Stmt:
        made = cls(span=reader.span(value))
        object.__setattr__(made, "_as_node", True)  # for the exporter: TVM has this as a node and as a call
        return made

    return read


def _read_store(reader: Reader, value: Any) -> ir.BufferStore:
    predicate = reader.read(getattr(value, "predicate", None))
    return ir.BufferStore(
        reader.buffer(value.buffer), reader.read(value.value), reader.read(value.indices), predicate,
        span=reader.span(value),
    )  # fmt: skip


def _read_assert(reader: Reader, value: Any) -> ir.AssertStmt:
    parts = tuple(str(p.value) for p in value.message_parts)
    kind = str(value.error_kind.value)
    return ir.AssertStmt(reader.read(value.condition), kind, parts, span=reader.span(value))


def _read_tile_call(reader: Reader, value: Any) -> ir.TilePrimitiveCall:
    dispatch = None if value.dispatch is None else str(value.dispatch)
    return ir.TilePrimitiveCall(
        ir.Op.get(op_name(value.op)), reader.read(value.args), reader.read(value.workspace),
        reader.read(value.config), dispatch, reader.read(value.scope), span=reader.span(value),
    )  # fmt: skip


def read_prim_func(reader: Reader, value: Any) -> ir.PrimFunc:
    params: list[ir.Var] = []
    buffer_map: dict[ir.Var, ir.Buffer] = {}
    for p in value.params:
        made = reader.read(p)
        if isinstance(made, ir.Buffer):
            handle = ir.Var(f"{made.name}_handle", made.data.ty)
            buffer_map[handle] = made
            made = handle
        params.append(made)
    return ir.PrimFunc(
        tuple(params), buffer_map, reader.stmt(value.body), reader.type(value.ret_type),
        read_attrs(reader, value.attrs), span=reader.span(value),
    )  # fmt: skip


def _read_module(reader: Reader, value: Any) -> ir.IRModule:
    functions: dict[str, Any] = {}
    for var, func in obj.items(value.functions):
        key = obj.type_key(func) or ""
        name = str(var.name_hint)
        if key.rpartition(".")[2] in _FUNCTIONS:
            functions[name] = reader.read(func)
        else:
            functions[name] = func
            reader.summary.opaque[f"function {key}"] += 1
            reader.summary.reasons.setdefault(f"function {key}", "kept as it is; it is not a PrimFunc")
    return ir.IRModule(functions, read_attrs(reader, value.attrs))


def _read_tile_layout(reader: Reader, value: Any) -> Any:
    from ..layout import Axis, Iter, TileLayout

    def one(value: Any) -> Iter:
        extent, stride = reader.read(value.extent), reader.read(value.stride)
        made = Iter(extent, stride, Axis.get(name_of(value.axis)))
        if (extent.dtype, stride.dtype) != ("int32", "int32"):
            # constants of a layout have no dtype here; the exporter gives them back the one they had
            object.__setattr__(made, "_dtypes", (extent.dtype, stride.dtype))
        return made

    def iters(array: Any) -> list[Iter]:
        return [one(i) for i in array]

    offset = {Axis.get(name_of(a)): reader.read(v) for a, v in obj.items(value.offset)}
    return TileLayout.from_iters(iters(value.shard), iters(value.replica), offset)


def _read_swizzle(reader: Reader, value: Any) -> Any:
    from ..layout import SwizzleLayout

    inner = bool(value.swizzle_inner)
    return SwizzleLayout(int(value.per_element), int(value.swizzle_len), int(value.atom_len), inner)


def _read_compose(reader: Reader, value: Any) -> Any:
    from ..layout import ComposeLayout

    if hasattr(value, "layout_A"):
        return ComposeLayout(reader.read(value.layout_A), reader.read(value.layout_B))
    return ComposeLayout(_read_swizzle(reader, value), reader.read(value.tile_layout))


def _read_target(reader: Reader, value: Any) -> ir.Target:
    attrs = read_attrs(reader, value.attrs)
    return ir.Target(str(value.kind.name), str(attrs.pop("arch", "")), attrs)


_FUNCTIONS = ("PrimFunc", "Function")
_BINARY = (
    ir.Add, ir.Sub, ir.Mul, ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max,
    ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE, ir.And, ir.Or,
)  # fmt: skip

_READERS: dict[str, Callable[[Reader, Any], Any]] = {
    # types
    "PrimType": lambda r, v: r.type(v), "PointerType": lambda r, v: r.type(v), "TensorMapType": lambda r, v: r.type(v),
    # expressions
    "Var": _read_var,
    "IntImm": lambda r, v: ir.IntImm(dtype_of(v), int(v.value), span=r.span(v)),
    "FloatImm": lambda r, v: ir.FloatImm(dtype_of(v), float(v.value), span=r.span(v)),
    "StringImm": lambda r, v: ir.StringImm(str(v.value), span=r.span(v)),
    **{cls.__name__: _read_binary(cls) for cls in _BINARY},
    **{node: _read_bits(name) for node, name in BIT_NODES.items()},
    "Not": lambda r, v: ir.Not(r.read(v.a), span=r.span(v)),
    "Select": lambda r, v: ir.Select(
        r.read(v.condition), r.read(v.true_value), r.read(v.false_value), span=r.span(v)
    ),
    "Cast": lambda r, v: ir.Cast(dtype_of(v), r.read(v.value), span=r.span(v)),
    "Ramp": lambda r, v: ir.Ramp(r.read(v.base), r.read(v.stride), _lanes(r, v.lanes), span=r.span(v)),
    "Broadcast": lambda r, v: ir.Broadcast(r.read(v.value), _lanes(r, v.lanes), span=r.span(v)),
    "Shuffle": lambda r, v: ir.Shuffle(r.read(v.vectors), r.read(v.indices), span=r.span(v)),
    "Let": lambda r, v: ir.Let(r.read(v.var), r.read(v.value), r.read(v.body), span=r.span(v)),
    "Call": _read_call,
    "Op": lambda r, v: ir.Op.get(op_name(v)),
    "Tuple": lambda r, v: r.read(v.fields),
    "BufferLoad": _read_load, "TensorLoad": _read_load,
    "BufferRegion": _read_region, "TensorRegion": _read_region,
    "Range": _read_range, "IterVar": _read_iter_var, "CommReducer": _read_reducer, "Reduce": _read_reduce,
    # statements
    "SeqStmt": lambda r, v: ir.SeqStmt(tuple(r.stmt(s) for s in v.seq), span=r.span(v)),
    "Bind": _read_bind,
    "AllocBuffer": lambda r, v: ir.AllocBuffer(r.buffer(v.buffer), r.read(v.annotations), span=r.span(v)),
    "DeclBuffer": _read_decl_buffer,
    "ScopeIdDef": _read_scope_id_def,
    "ScopeIdDefStmt": lambda r, v: ir.ScopeIdDefStmt(r.read(getattr(v, "def")), span=r.span(v)),
    "AttrStmt": lambda r, v: ir.AttrStmt(
        r.read(v.node), str(v.attr_key), r.read(v.value), r.stmt(v.body), span=r.span(v)
    ),
    "For": _read_for,
    "While": lambda r, v: ir.While(r.read(v.condition), r.stmt(v.body), span=r.span(v)),
    "IfThenElse": lambda r, v: ir.IfThenElse(
        r.read(v.condition), r.stmt(v.then_case), r.optional_stmt(v.else_case), span=r.span(v)
    ),
    "BufferStore": _read_store,
    "Evaluate": _read_evaluate,
    "AssertStmt": _read_assert,
    "Break": _read_jump(ir.Break), "Continue": _read_jump(ir.Continue),
    "Return": lambda r, v: ir.Return(r.read(v.value), span=r.span(v)),
    "TilePrimitiveCall": _read_tile_call,
    "LambdaExpr": lambda r, v: ir.LambdaExpr(r.read(v.vars), r.read(v.pred if hasattr(v, "pred") else v.body)),
    "ExecScope": lambda r, v: ir.ExecScope(SCOPE_KINDS[int(v.kind)]),
    # functions, layouts, targets
    "PrimFunc": read_prim_func, "IRModule": _read_module,
    "TileLayout": _read_tile_layout, "SwizzleLayout": _read_swizzle, "ComposeLayout": _read_compose,
    "Target": _read_target,
}  # fmt: skip


def find_reader(key: str) -> Callable[[Reader, Any], Any] | None:
    """What reads nodes of this type key: by the whole key for the newest generation, else by its last part."""
    from .tvm_tirx_import import READERS as NEWEST

    space, _, name = key.rpartition(".")
    return NEWEST.get(key) or (_READERS.get(name) if space in _NAMESPACES else None)


def _lanes(reader: Reader, value: Any) -> int:
    lanes = reader.read(value)
    if isinstance(lanes, int):
        return lanes
    if not isinstance(lanes, ir.IntImm):
        raise IRError("a number of lanes that isn't constant")
    return int(lanes)


def import_object(value: Any, summary: ImportSummary | None = None) -> Any:
    """Our counterpart of an object of TVM; raises InteropError if it isn't one, or is nested too deeply."""
    if obj.type_key(value) is None:
        raise InteropError(
            f"a {type(value).__name__} is not an object of TVM", hint="pass a PrimFunc, an IRModule or an expression"
        )
    if find_reader(obj.type_key(value) or "") is None:
        raise InteropError(f"a {obj.type_key(value)} is not part of TIRx, so it can't be imported")
    try:
        return Reader(summary).read(value)
    except RecursionError:
        raise InteropError("the object is nested too deeply to be imported") from None
    except AttributeError as e:
        raise InteropError(f"a node lacks a field that its type has: {e}") from None
