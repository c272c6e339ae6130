"""From our nodes to live objects of ``apache-tvm`` 0.26 or 0.27: the inverse of :mod:`tirx_eq.interop.tvm_import`.

Objects are made by type key and fields (``tvm.ir.make_node``), which are the same in both versions but for a few names,
so there is one table.  A buffer becomes a variable with a ``BufferType``; where we use its ``data`` pointer, TVM has a
call of ``tirx.buffer_data``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .. import ir
from ..errors import InteropError, IRError
from ..ir.stmt import FOR_KINDS
from .tvm_instructions import INSTRUCTION, ORIGINAL
from .tvm_reader import BIT_NODES, ITER_TYPES, SCOPE_BINDINGS, SCOPE_KINDS, pointer_type

#: Operators of 0.27 whose attributes are a node of their own.
_ATTRS = {"tirx.tensormap_encode_tiled": "tirx.TensorMapEncodeTiledAttr"}
_BIT_KEYS = {f"tirx.{name}": node for node, name in BIT_NODES.items()}


class Writer:
    """Makes TVM objects; one Writer sees one object graph, so identity and sharing hold across calls."""

    def __init__(self) -> None:
        try:
            import tvm
            import tvm.ir
            import tvm.tirx
            from tvm_ffi.registry import get_registered_type_keys
        except ImportError as e:
            raise InteropError(f"exporting to TVM needs apache-tvm 0.26 or 0.27: {e}") from None
        self.tvm: Any = tvm
        self.keys = {str(k) for k in get_registered_type_keys()}
        self.operators = {str(n) for n in tvm.ir.op.Op.list_op_names()}
        self.placeless: set[str] = set()
        self._memo: dict[int, tuple[Any, Any]] = {}
        self._owner: dict[ir.Var, ir.Buffer] = {}
        self._computed: set[ir.Var] = set()

    # -- the parts of nodes -----------------------------------------------------------------------------------------

    def make(self, names: str | Iterable[str], **fields: Any) -> Any:
        """An object of the first of the type keys that this TVM has."""
        names = (names,) if isinstance(names, str) else tuple(names)
        key = next((n for n in names if n in self.keys), None)
        if key is None:
            raise InteropError(f"this TVM ({self.tvm.__version__}) has no {names[0].rpartition('.')[2]}")
        if "span" in fields and key in self.placeless:
            del fields["span"]
        try:
            return self.tvm.ir.make_node(key, **fields)
        except TypeError as e:
            if "span" not in fields or "does not have field `span`" not in str(e):
                raise InteropError(f"a {key} can't be made: {e}") from None
            self.placeless.add(key)  # some nodes of 0.26 have no place in the source
            return self.make(key, **fields)

    def expr(self, name: str, dtype: str, **fields: Any) -> Any:
        """An expression node of TIRx, which 0.27 keeps under ``prim``."""
        return self.make((f"tirx.{name}", f"prim.{name}", f"ir.{name}"), ty=self.prim(dtype), span=None, **fields)

    def stmt(self, name: str, **fields: Any) -> Any:
        return self.make(f"tirx.{name}", span=None, **fields)

    def prim(self, dtype: str) -> Any:
        return self.tvm.ir.PrimType(dtype)

    def type(self, ty: Any) -> Any:
        """A type; None is that of no value."""
        if ty is None:
            return self.tvm.ir.TupleType([])
        if isinstance(ty, ir.PointerType):
            return self.tvm.ir.PointerType(self.prim(ty.element_type.dtype), ty.storage_scope)
        if isinstance(ty, ir.TensorMapType):
            return self.tvm.ir.PointerType(self.make(("tirx.TensorMapType", "ir.TensorMapType"), span=None), "global")
        return self.prim(ty.dtype)

    def op(self, name: str) -> Any:
        if ORIGINAL.get(name) in self.operators:
            name = ORIGINAL[name]
        known = next((n for n in (name, name.replace("tirx.", "prim.", 1)) if n in self.operators), None)
        if known is None:
            raise InteropError(f"this TVM ({self.tvm.__version__}) has no operator '{name}'")
        return self.tvm.ir.Op.get(known)

    def number(self, value: Any, dtype: str | None = None) -> Any:
        """An extent, stride or offset; ``dtype`` is that of a constant."""
        return self.write(ir.const(value, dtype))

    # -- dispatch ---------------------------------------------------------------------------------------------------

    def write(self, value: Any) -> Any:
        """The TVM counterpart of a node, container or scalar."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (list, tuple)):
            return [self.write(v) for v in value]
        if isinstance(value, dict):
            return {str(k): self.write(v) for k, v in value.items()}
        if isinstance(value, ir.Var) and value in self._owner:
            return self.data(self._owner[value])
        if id(value) in self._memo:
            return self._memo[id(value)][1]
        entry = _WRITERS.get(type(value)) or _layout_writers().get(type(value))
        if entry is None:
            raise InteropError(f"a {type(value).__name__} can't be exported to TVM")
        made = entry(self, value)
        self._memo.setdefault(id(value), (value, made))
        return self._memo[id(value)][1]

    def own(self, buffer: ir.Buffer) -> None:
        """Let ``buffer`` be the one whose pointer its ``data`` variable is, unless another is already."""
        self._owner.setdefault(buffer.data, buffer)

    def declare(self, buffer: ir.Buffer, pointer: ir.Expr) -> None:
        """Let ``buffer`` have the pointer that is computed here, or that was computed for the buffer it is a view of."""
        if not isinstance(pointer, ir.Var) or pointer in self._computed:
            self._computed.add(buffer.data)
            self._owner[buffer.data] = buffer

    def data(self, buffer: ir.Buffer) -> Any:
        """The pointer of a buffer."""
        ty = self.type(ir.PointerType(ir.PrimType(buffer.dtype), buffer.scope))
        return self.call(ty, "tirx.buffer_data", [self.write(buffer)])

    def call(self, ty: Any, op: Any, args: list[Any], attrs: Any = None, ty_args: Iterable[Any] = ()) -> Any:
        """A call of an operator, given by our name of it or as it is."""
        fields = {"args": args, "attrs": attrs, "ty_args": list(ty_args), "span": None}
        return self.make("ir.Call", ty=ty, op=self.op(op) if isinstance(op, str) else op, **fields)


def _write_var(w: Writer, v: ir.Var) -> Any:
    return w.make("ir.Var", ty=w.type(v.ty), name=v.name, span=None)


def _write_buffer(w: Writer, b: ir.Buffer) -> Any:
    ty = w.make(
        "tirx.BufferType", dtype=w.prim(b.dtype), storage_scope=b.scope, shape=w.write(b.shape),
        strides=w.write(b.strides), elem_offset=w.write(b.elem_offset), data_alignment=b.data_alignment,
        offset_factor=b.offset_factor, layout=write_layout(w, b.layout, b.shape),
        allocated_addr=w.write(b.allocated_addr), span=None,
    )  # fmt: skip
    return w.make("ir.Var", ty=ty, name=b.name, span=None)


def _write_call(w: Writer, c: ir.Call) -> Any:
    attrs = dict(c.attrs)
    ty_args = attrs.pop("ty_args", ())
    stored = getattr(c, "_pointer_type", None)  # the importer's note of a type that the arguments don't tell
    if c.op.name in _BIT_KEYS and f"prim.{_BIT_KEYS[c.op.name]}" in w.keys:
        fields = dict(zip("ab", w.write(c.args)))
        return w.make(f"prim.{_BIT_KEYS[c.op.name]}", ty=w.prim(c.dtype), span=None, **fields)
    if c.op.name == INSTRUCTION:
        op = w.tvm.ir.Op.get(f"tirx.ptx.{c.args[0].value}")  # of other operands than an older operator of that name
        return w.call(w.prim("void"), op, w.write(c.args[2:]))
    ty = w.type(stored or pointer_type(c)) if c.dtype == "handle" else w.prim(c.dtype)
    made = w.make(_ATTRS.get(c.op.name, "ir.DictAttrs"), **w.write(attrs)) if attrs else None
    return w.call(ty, c.op.name, w.write(c.args), made, [w.type(t) for t in ty_args])


def _write_load(w: Writer, e: ir.BufferLoad) -> Any:
    fields = {"ty": w.prim(e.dtype), "indices": w.write(e.indices), "span": None}
    if "tirx.BufferLoad" in w.keys:
        return w.make("tirx.BufferLoad", buffer=w.write(e.buffer), predicate=w.write(e.predicate), **fields)
    if e.predicate is not None:
        args = [w.write(e.buffer), *w.write(e.indices), w.write(e.predicate)]
        return w.call(w.prim(e.dtype), "tirx.masked_load", args)
    return w.make("ir.TensorLoad", source=w.write(e.buffer), **fields)


def _write_store(w: Writer, s: ir.BufferStore) -> Any:
    fields = {"buffer": w.write(s.buffer), "value": w.write(s.value), "indices": w.write(s.indices)}
    if "tirx.BufferLoad" in w.keys:
        return w.stmt("BufferStore", predicate=w.write(s.predicate), **fields)
    if s.predicate is not None:
        args = [w.write(s.buffer), w.write(s.value), *w.write(s.indices), w.write(s.predicate)]
        return w.stmt("Evaluate", value=w.call(w.prim("void"), "tirx.masked_store", args))
    return w.stmt("BufferStore", **fields)


def _write_region(w: Writer, r: ir.BufferRegion) -> Any:
    if "ir.TensorRegion" not in w.keys:
        return w.make("tirx.BufferRegion", buffer=w.write(r.buffer), region=w.write(r.region))
    ty = w.make("tirx.BufferRegionType", span=None)
    return w.make("ir.TensorRegion", ty=ty, source=w.write(r.buffer), region=w.write(r.region), span=None)


def _write_string(w: Writer, s: ir.StringImm) -> Any:
    cls = getattr(w.tvm.tirx, "StringImm", None) or w.tvm.ir.StringImm
    return cls(s.value)


def _write_reducer(w: Writer, c: ir.CommReducer) -> Any:
    fields = {n: w.write(getattr(c, n)) for n in ("lhs", "rhs", "result", "identity_element")}
    return w.make(("tirx.CommReducer", "te.CommReducer"), span=None, **fields)


def _write_reduce(w: Writer, r: ir.Reduce) -> Any:
    fields = {n: w.write(getattr(r, n)) for n in ("combiner", "source", "init", "axis", "condition", "value_index")}
    return w.make(("tirx.Reduce", "te.Reduce"), ty=w.prim(r.dtype), span=None, **fields)


def _write_opaque(w: Writer, o: ir.Opaque) -> Any:
    """A node of the other system goes back as it came."""
    from tvm_ffi import core

    if o.foreign_type.startswith("ir.Call(") and len(o.operands) == 3:
        if o.dtype == "handle":
            raise InteropError(f"the pointer type of {o.foreign_type} is not known")
        args, attrs, ty_args = o.operands
        name = o.foreign_type.removeprefix("ir.Call(").removesuffix(")")
        return w.call(w.prim(o.dtype), name, w.write(args), w.write(attrs) or None, [w.type(t) for t in ty_args])
    find = getattr(core, "_lookup_or_register_type_info_from_type_key", None)
    if o.foreign_type not in w.keys or find is None:
        raise InteropError(f"this TVM ({w.tvm.__version__}) has no {o.foreign_type}", hint=o.text[:200] or None)
    info, names = find(o.foreign_type), list[str]()
    while info is not None:
        names = [f.name for f in info.fields or ()] + names
        info = info.parent_type_info
    fields: dict[str, Any] = {n: None for n in names if n in ("span", "loc")}
    operands = [n for n in names if n not in ("span", "loc", "ty", "op")]
    if "op" in names or len(operands) != len(o.operands):
        raise InteropError(f"a {o.foreign_type} can't be made again from its operands")
    if "ty" in names:
        fields["ty"] = w.prim(o.dtype)
    return w.make(o.foreign_type, **fields, **dict(zip(operands, (w.write(x) for x in o.operands))))


# -- statements -------------------------------------------------------------------------------------------------------


def _write_evaluate(w: Writer, s: ir.Evaluate) -> Any:
    made = w.write(s.value)
    opaque_stmt = isinstance(s.value, ir.Opaque) and isinstance(made, w.tvm.tirx.Stmt)
    return made if opaque_stmt else w.stmt("Evaluate", value=made)


def _write_alloc(w: Writer, s: ir.AllocBuffer) -> Any:
    w.own(s.buffer)
    return w.stmt("AllocBuffer", buffer=w.write(s.buffer), annotations=w.write(s.annotations))


def _write_decl(w: Writer, s: ir.DeclBuffer) -> Any:
    buffer = s.buffer
    if s.data is not None:
        through = getattr(s, "_view_of", None)  # the importer's note of which view this is a view of
        same = isinstance(through, ir.Buffer) and through.data is s.data
        data = w.data(through) if same else w.write(s.data)  # type: ignore[arg-type]
        w.declare(buffer, s.data)
    elif buffer.allocated_addr:
        ty = w.type(ir.PointerType(ir.PrimType(buffer.dtype), buffer.scope))
        data = w.call(ty, "tirx.reinterpret", [w.write(buffer.allocated_addr[0])])
    else:
        data = w.write(buffer.data)
    return w.stmt("DeclBuffer", buffer=w.write(buffer), data=data)


def _write_scope_ids(w: Writer, s: ir.ScopeIdDefStmt) -> Any:
    d = s.definition
    number = next(k for k, v in SCOPE_BINDINGS.items() if v == (d.parent, d.child))
    made = w.make(
        "tirx.ScopeIdDef", def_ids=w.write(d.def_ids), extents=w.write(d.extents), scope=number,
        preferred_extents=w.write(d.preferred_extents),
    )  # fmt: skip
    return w.stmt("ScopeIdDefStmt", **{"def": made})


def _write_for(w: Writer, s: ir.For) -> Any:
    return w.stmt(
        "For", loop_var=w.write(s.loop_var), min=w.write(s.min), extent=w.write(s.extent),
        kind=FOR_KINDS.index(s.kind), body=w.write(s.body), thread_binding=w.write(s.thread_binding),
        annotations=w.write(s.annotations), step=w.write(s.step),
    )  # fmt: skip


def _write_assert(w: Writer, s: ir.AssertStmt) -> Any:
    parts = [w.write(ir.StringImm(p)) for p in s.message_parts]
    kind = w.write(ir.StringImm(s.error_kind))
    return w.stmt("AssertStmt", condition=w.write(s.condition), error_kind=kind, message_parts=parts)


def _jump(name: str, op: str) -> Callable[[Writer, Any], Any]:
    """TVM's script writes these statements as calls; those that came as nodes go back as nodes."""

    def write(w: Writer, s: Any) -> Any:
        if getattr(s, "_as_node", False):
            return w.stmt(name)
        return w.stmt("Evaluate", value=w.call(w.prim("void"), op, []))

    return write


def _write_return(w: Writer, s: ir.Return) -> Any:
    return w.stmt("Return", value=w.write(s.value))


def _write_tile_call(w: Writer, s: ir.TilePrimitiveCall) -> Any:
    return w.stmt(
        "TilePrimitiveCall", op=w.op(s.op.name), args=w.write(s.args), workspace=w.write(s.workspace),
        config=w.write(s.config), dispatch=s.dispatch, scope=w.write(s.scope),
    )  # fmt: skip


# -- functions, layouts, targets ---------------------------------------------------------------------------------------


def _write_prim_func(w: Writer, f: ir.PrimFunc) -> Any:
    for buffer in f.buffer_map.values():
        w.own(buffer)
    params = [w.write(f.buffer_map.get(p, p)) for p in f.params]
    # in this order, as a buffer is owned by what allocates it first in the body
    attrs = w.make("ir.DictAttrs", **w.write(f.attrs))
    return w.tvm.tirx.PrimFunc(params, w.write(f.body), w.type(f.ret_type), attrs)


def _write_module(w: Writer, m: ir.IRModule) -> Any:
    functions = {k: w.write(f) if isinstance(f, ir.PrimFunc) else f for k, f in m.functions.items()}
    return w.tvm.IRModule(functions, attrs=w.write(m.attrs) or None)


def _write_target(w: Writer, t: ir.Target) -> Any:
    return w.tvm.target.Target({"kind": t.kind, **({"arch": t.arch} if t.arch else {}), **w.write(t.attrs)})


def write_layout(w: Writer, layout: Any, shape: tuple[ir.Expr, ...]) -> Any:
    """A buffer's layout.

    A bare swizzle is written over the identity on as many elements as ``shape`` has; a buffer without elements, which
    has no layout here, gets the row-major one that TVM gives it.
    """
    from ..layout import SwizzleLayout

    if layout is None and any(isinstance(e, ir.IntImm) and int(e) == 0 for e in shape):
        return w.tvm.tirx.layout.TileLayout(w.tvm.tirx.layout.S[tuple(w.write(e) for e in shape)])
    if not isinstance(layout, SwizzleLayout):
        return w.write(layout)
    size: Any = 1
    for extent in shape:
        size = extent * size
    return _compose(w, layout, _identity(w, size))


def _identity(w: Writer, size: Any) -> Any:
    one = w.make("tirx.Iter", extent=w.number(size), stride=w.number(1), axis=w.tvm.tirx.layout.Axis.get("m"))
    return w.make("tirx.TileLayout", shard=[one], replica=[], offset={})


def _compose(w: Writer, swizzle: Any, tile: Any) -> Any:
    mask = (1 << swizzle.swizzle_len) - 1
    return w.make(
        "tirx.ComposeLayout", per_element=swizzle.per_element, swizzle_len=swizzle.swizzle_len,
        atom_len=swizzle.atom_len, swizzle_inner=swizzle.swizzle_inner, inner_mask=mask,
        outer_mask=mask << swizzle.atom_len, tile_layout=tile,
    )  # fmt: skip


def _write_tile_layout(w: Writer, t: Any) -> Any:
    axis = w.tvm.tirx.layout.Axis.get

    def one(i: Any) -> Any:
        extent, stride = getattr(i, "_dtypes", (None, None))
        fields = {"extent": w.number(i.extent, extent), "stride": w.number(i.stride, stride)}
        return w.make("tirx.Iter", axis=axis(i.axis.name), **fields)

    def iters(found: Any) -> list[Any]:
        return [one(i) for i in found]

    offset = {axis(a.name): w.number(v) for a, v in t.offset.items()}
    return w.make("tirx.TileLayout", shard=iters(t.shard), replica=iters(t.replica), offset=offset)


def _layout_writers() -> dict[type, Callable[[Writer, Any], Any]]:
    from ..layout import ComposeLayout, SwizzleLayout, TileLayout

    return {
        TileLayout: _write_tile_layout,
        SwizzleLayout: lambda w, s: _compose(w, s, _identity(w, s.period)),
        ComposeLayout: lambda w, c: _compose(w, c.swizzle, w.write(c.tile)),
    }


def _fields(name: str, *names: str) -> Callable[[Writer, Any], Any]:
    """An expression whose fields have the same names in both systems."""
    return lambda w, e: w.expr(name, e.dtype, **{n: w.write(getattr(e, n)) for n in names})


_BINARY = (
    ir.Add, ir.Sub, ir.Mul, ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max,
    ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE, ir.And, ir.Or,
)  # fmt: skip

_WRITERS: dict[type, Callable[[Writer, Any], Any]] = {
    ir.Var: _write_var, ir.Buffer: _write_buffer,
    ir.IntImm: lambda w, e: w.make("ir.IntImm", ty=w.prim(e.dtype), value=e.value, span=None),
    ir.FloatImm: lambda w, e: w.make("ir.FloatImm", ty=w.prim(e.dtype), value=e.value, span=None),
    ir.StringImm: _write_string,
    **{cls: _fields(cls.__name__, "a", "b") for cls in _BINARY},
    ir.Not: _fields("Not", "a"),
    ir.Select: _fields("Select", "condition", "true_value", "false_value"),
    ir.Cast: _fields("Cast", "value"),
    ir.Let: _fields("Let", "var", "value", "body"),
    ir.Shuffle: _fields("Shuffle", "vectors", "indices"),
    ir.Ramp: lambda w, e: w.expr(
        "Ramp", e.dtype, base=w.write(e.base), stride=w.write(e.stride), lanes=w.number(e.lanes)
    ),
    ir.Broadcast: lambda w, e: w.expr("Broadcast", e.dtype, value=w.write(e.value), lanes=w.number(e.lanes)),
    ir.Call: _write_call, ir.BufferLoad: _write_load, ir.BufferRegion: _write_region, ir.Opaque: _write_opaque,
    ir.Range: lambda w, r: w.make("ir.Range", min=w.write(r.min), extent=w.write(r.extent), span=None),
    ir.IterVar: lambda w, i: w.make(
        ("tirx.IterVar", "te.IterVar"), dom=w.write(i.dom), var=w.write(i.var),
        iter_type=ITER_TYPES.index(i.iter_type), thread_tag=i.thread_tag, span=None,
    ),
    ir.CommReducer: _write_reducer, ir.Reduce: _write_reduce,
    ir.Op: lambda w, o: w.op(o.name),
    ir.LambdaExpr: lambda w, e: w.make("tirx.LambdaExpr", vars=w.write(e.vars), pred=w.write(e.body)),
    ir.SeqStmt: lambda w, s: w.stmt("SeqStmt", seq=w.write(s.seq)),
    ir.Bind: lambda w, s: w.stmt("Bind", var=w.write(s.var), value=w.write(s.value)),
    ir.AllocBuffer: _write_alloc, ir.DeclBuffer: _write_decl, ir.ScopeIdDefStmt: _write_scope_ids,
    ir.AttrStmt: lambda w, s: w.stmt(
        "AttrStmt", node=w.write(s.node), attr_key=s.attr_key, value=w.write(s.value), body=w.write(s.body)
    ),
    ir.For: _write_for,
    ir.While: lambda w, s: w.stmt("While", condition=w.write(s.condition), body=w.write(s.body)),
    ir.IfThenElse: lambda w, s: w.stmt(
        "IfThenElse", condition=w.write(s.condition), then_case=w.write(s.then_case), else_case=w.write(s.else_case)
    ),
    ir.BufferStore: _write_store,
    ir.Evaluate: _write_evaluate,
    ir.AssertStmt: _write_assert,
    ir.Break: _jump("Break", "tirx.break_loop"), ir.Continue: _jump("Continue", "tirx.continue_loop"),
    ir.Return: _write_return,
    ir.TilePrimitiveCall: _write_tile_call,
    ir.ExecScope: lambda w, s: w.make(
        "tirx.ExecScope", kind=next(k for k, v in SCOPE_KINDS.items() if v == s.kind)
    ),
    ir.PrimFunc: _write_prim_func, ir.IRModule: _write_module, ir.Target: _write_target,
    ir.PrimType: lambda w, t: w.type(t), ir.PointerType: lambda w, t: w.type(t),
    ir.TensorMapType: lambda w, t: w.type(t),
}  # fmt: skip


def export_object(value: Any) -> Any:
    """The live TVM object for a node of ours; raises InteropError where TVM has none."""
    try:
        return Writer().write(value)
    except RecursionError:
        raise InteropError("the object is nested too deeply to be exported") from None
    except IRError as e:
        raise InteropError(e.message) from None
