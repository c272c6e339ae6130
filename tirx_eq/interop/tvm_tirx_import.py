"""What ``apache-tvm-tirx`` (module ``tvm_tirx``) does its own way: statements, declarations, scope ids.

It has no buffer declarations: a tensor is bound to a call that allocates it (``tirx.alloc_tensor``) or says where it is
(``tirx.decl_tensor``, ``tirx.cuda.decl_tmem``).  Thread numbers are bound to calls, and regions (``tirx.device_entry``,
``tirx.launch_thread``) are one kind of statement.  Its tile instructions name a PTX instruction each; none of ours does
that, so they stay opaque.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ir
from ..errors import IRError
from ..ir.stmt import FOR_KINDS
from . import tvm_objects as obj
from .tvm_import import read_prim_func
from .tvm_reader import Reader, op_name, read_attrs, read_buffer

#: Calls that give a thread number: (parent, child) of what is numbered.
_SCOPE_CALLS = {
    "tirx.cuda.linear_thread_id": ("cta", "thread"), "tirx.cuda.warp_id": ("cta", "warp"),
    "tirx.cuda.warpgroup_id": ("cta", "warpgroup"), "tirx.cuda.lane_id": ("warp", "thread"),
    "tirx.cuda.cta_pair_id": ("cluster", "cta_pair"),
}  # fmt: skip
#: Those that are asked for one axis at a time.  An id of ours is along all axes, so it is the same only if just x is used.
_AXIS_CALLS = {
    "tirx.cuda.block_idx": ("kernel", "cta"), "tirx.cuda.thread_idx": ("cta", "thread"),
    "tirx.cuda.cluster_id": ("kernel", "cluster"), "tirx.cuda.cluster_cta_id": ("cluster", "cta"),
}  # fmt: skip


def _read_bind(reader: Reader, value: Any) -> ir.Stmt:
    span = reader.span(value)
    call = value.value
    name = op_name(call.op) if obj.type_key(call) == "ir.Call" and obj.type_key(call.op) == "ir.Op" else ""
    if name == "tirx.alloc_tensor":
        buffer = read_buffer(reader, value.var, addresses=reader.read(call.args))
        return ir.AllocBuffer(reader.remember(value.var, buffer), span=span)
    if name == "tirx.decl_tensor":
        pointer = reader.read(call.args[0])
        shared = pointer if isinstance(pointer, ir.Var) else None
        return ir.DeclBuffer(reader.remember(value.var, read_buffer(reader, value.var, shared)), pointer, span=span)
    if name == "tirx.cuda.decl_tmem":
        buffer = read_buffer(reader, value.var, addresses=(reader.read(call.args[0]),))
        return ir.DeclBuffer(reader.remember(value.var, buffer), span=span)
    binding = _SCOPE_CALLS.get(name)
    if name in _AXIS_CALLS and obj.axes_asked(call, name) == {"x"}:
        binding = _AXIS_CALLS[name]
    if binding is not None:
        return ir.ScopeIdDefStmt(ir.ScopeIdDef((reader.read(value.var),), None, *binding), span=span)
    return ir.Bind(reader.read(value.var), reader.read(call), span=span)


def _read_for(reader: Reader, value: Any) -> ir.For:
    begin, end, step = (reader.read(getattr(value, n)) for n in ("begin", "end", "step"))
    one = isinstance(step, ir.IntImm) and int(step) == 1
    return ir.For(
        reader.read(value.var), begin, end - begin, FOR_KINDS[int(value.kind)], reader.stmt(value.body), None,
        reader.read(value.annotations), None if one else step, span=reader.span(value),
    )  # fmt: skip


def _read_seq(reader: Reader, value: Any) -> ir.Stmt:
    """Bodies are always sequences there; here a single statement stands for itself."""
    return ir.seq(reader.stmt(s) for s in value.seq)


def _read_if(reader: Reader, value: Any) -> ir.IfThenElse:
    other = value.else_case
    empty = other is None or (obj.type_key(other) == "ir.SeqStmt" and not len(other.seq))
    return ir.IfThenElse(
        reader.read(value.condition), reader.stmt(value.then_case), None if empty else reader.stmt(other),
        span=reader.span(value),
    )  # fmt: skip


def _read_region(reader: Reader, value: Any) -> Any:
    name, args, body_params = op_name(value.op), reader.read(value.args), reader.read(value.body_params)
    attrs, span = read_attrs(reader, value.attrs), reader.span(value)
    if len(value.result_vars):
        raise IRError(f"a region of '{name}' with results")
    if name == "tirx.launch_thread" and len(body_params) == 1:
        tag, extent = args
        axis = ir.IterVar(ir.Range(ir.IntImm(extent.dtype, 0), extent), body_params[0], "ThreadIndex", tag.value)
        return ir.AttrStmt(axis, "thread_extent", extent, reader.stmt(value.body), span=span)
    if body_params:
        raise IRError(f"a region of '{name}' with parameters")
    if name == "tirx.device_entry" and not args:
        return ir.AttrStmt(attrs or 0, name, ir.IntImm("bool", 1), reader.stmt(value.body), span=span)
    return ir.AttrStmt(attrs or 0, name, args, reader.stmt(value.body), span=span)


def _read_store(reader: Reader, value: Any) -> ir.BufferStore:
    dest = reader.buffer(value.dest)
    return ir.BufferStore(dest, reader.read(value.value), reader.read(value.indices), span=reader.span(value))


def _read_function(reader: Reader, value: Any) -> ir.PrimFunc:
    if value.body is None:
        raise IRError("a function without a body")
    return read_prim_func(reader, value)


def _read_evaluate(reader: Reader, value: Any) -> ir.Stmt:
    return ir.Evaluate(reader.read(value.value), span=reader.span(value))


#: Type key -> reader, for what isn't as in TVM 0.26 and 0.27.
READERS: dict[str, Callable[[Reader, Any], Any]] = {
    "tirx.Function": _read_function,
    "ir.Bind": _read_bind,
    "ir.For": _read_for,
    "ir.SeqStmt": _read_seq,
    "ir.If": _read_if,
    "ir.RegionStmt": _read_region,
    "ir.TensorStore": _read_store,
    "ir.Evaluate": _read_evaluate,
}
