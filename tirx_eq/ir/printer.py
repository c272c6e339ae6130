"""Printing functions as script: source that parses back to a structurally equal function.

Statements are printed here, expressions by :mod:`tirx_eq.ir.printer_expr`, buffer declarations by
:mod:`tirx_eq.ir.printer_buffer`.  Where a short form would be read as something else (because the parser folds
constants, cancels terms or converts dtypes) the explicit form is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..errors import IRError
from . import stmt as st
from .buffer import Buffer
from .expr import Expr, IntImm, IterVar, PointerType, PrimType, TensorMapType, Type, Var
from .function import PrimFunc
from .linear import difference
from .printer_buffer import BufferPrinter, default_layout_of, is_plain_parameter, quoted_vars
from .printer_expr import current_printer, quote
from .printer_survey import Survey, uses
from .tile import LambdaExpr, TilePrimitiveCall

#: scope id binding -> name in the namespace
SCOPE_ID_NAMES = {
    ("kernel", "cluster"): "cluster_id", ("kernel", "cta"): "cta_id", ("cluster", "cta"): "cta_id_in_cluster",
    ("cta", "warpgroup"): "warpgroup_id", ("cta", "warp"): "warp_id", ("warpgroup", "warp"): "warp_id_in_wg",
    ("warp", "thread"): "lane_id", ("cta", "thread"): "thread_id", ("warpgroup", "thread"): "thread_id_in_wg",
}  # fmt: skip
_LOOPS = {"serial": "serial", "parallel": "parallel", "vectorized": "vectorized", "unrolled": "unroll"}
_TILE_SCOPES = {"thread": "tile", "warpgroup": "wg"}
#: operands written as keywords, since a positional one would be taken for another
_KEYWORDS = {"gemm_async": ("transA", "transB", "accum")}
#: operands in the order of the parameters, where it isn't that of ``args``
_PARAMETER_ORDER = {"reduce_negate": (0, 1, 4, 2, 3)}


def script(func: Any, *, syntax_sugar: bool = True, extra_config: Mapping[str, Any] | None = None) -> str:
    """Source of a PrimFunc, beginning with the imports it needs as comments.

    ``syntax_sugar=False`` prints buffer parameters as handles with ``match_buffer``, every buffer with its general
    constructor, loops and scalars without short forms.  ``extra_config={"tirx.prefix": "Tx"}`` chooses the name of the
    namespace (default ``T``).  Statements are assumed to be joined as the parser joins them: flat sequences without
    no-ops.  Raises IRError for a node that has no source form.
    """
    if not isinstance(func, PrimFunc):
        raise IRError(f"script prints functions, got {type(func).__name__}")
    prefix = str((extra_config or {}).get("tirx.prefix", "T"))
    return ScriptPrinter(prefix, sugar=syntax_sugar).function(func)


def expr_text(value: Any) -> str:
    """An expression as script, with the names of the function being printed (or its own, outside one)."""
    printer = current_printer() or ScriptPrinter("T")
    return printer.text(value)


class ScriptPrinter(BufferPrinter):
    """Prints one function."""

    def __init__(self, prefix: str, *, sugar: bool = True) -> None:
        super().__init__(prefix, sugar=sugar)
        self.lines: list[str] = []
        self.indent = 0

    # -- lines and blocks ---------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """An indented body whose names end with it."""
        self.line(head)
        self.indent += 1
        before = len(self.lines)
        with self.scope():
            yield
        if len(self.lines) == before:
            self.line("pass")
        self.indent -= 1

    # -- functions ----------------------------------------------------------------------------------------------------

    def function(self, func: PrimFunc) -> str:
        """The whole text."""
        with self.active():
            name = func.attrs.get("global_symbol")
            self.plan(func)
            shown = str(name) if isinstance(name, str) and name.isidentifier() else "main"
            self.reserve(shown)
            self.indent = 1
            heads, later = self._parameters(func)
            for text in self._free(func):
                self.line(text)
            for declare in later:
                declare()
            rest = {k: v for k, v in func.attrs.items() if k != "global_symbol" or v != shown}
            if rest:
                self.line(f"{self.prefix}.func_attr({self.raw(rest)})")
            self.body(func.body)
        private = "" if "global_symbol" in func.attrs else "(private=True)"
        returns = f" -> {self.type_text(func.ret_type)}" if func.ret_type is not None else ""
        package = __name__.split(".")[0]
        head = [
            f"# from {package}.script import tirx as {self.prefix}",
            f"# from {package}.layout import Axis",
            "",
            f"@{self.prefix}.prim_func{private}",
            f"def {shown}({', '.join(heads)}){returns}:",
        ]
        return "\n".join(head + self.lines) + "\n"

    def _parameters(self, func: PrimFunc) -> tuple[list[str], list[Callable[[], None]]]:
        """Parameter texts, and what must be declared at the start of the body."""
        heads: list[str] = []
        later: list[Callable[[], None]] = []
        for p in func.params:
            buffer = func.buffer_map.get(p)
            if buffer is None:
                heads.append(f"{self.name(p)}: {self.type_text(p.ty)}")
            elif self.sugar and is_plain_parameter(p, buffer, func):
                heads.append(f"{self.name(buffer)}: {self.parameter_annotation(buffer)}")
                self.owns(buffer)
            else:
                heads.append(f"{self.name(p)}: {self._handle_annotation(p, buffer)}")
                later.append(lambda p=p, b=buffer: self.line(self.match_buffer(p, b)))  # type: ignore[misc]
        return heads, later

    def _handle_annotation(self, p: Var, buffer: Buffer) -> str:
        assert isinstance(p.ty, PointerType)
        if p.ty == buffer.data.ty:
            return f"{self.prefix}.handle"
        scope = f', "{p.ty.storage_scope}"' if p.ty.storage_scope != "global" else ""
        return f'{self.prefix}.handle("{p.ty.element_type.dtype}"{scope})'

    def _free(self, func: PrimFunc) -> Iterator[str]:
        """Declarations of variables and buffers that nothing in the function declares."""
        for var in self.plan_free_vars:
            yield f"{self.name(var)} = {self.type_constructor(var.ty)}"
        for buffer in self.plan_free_buffers:
            yield f"{self.name(buffer)} = {self.prefix}.buffer({self.buffer_arguments(buffer)})"
            self.owns(buffer)

    # -- statements ---------------------------------------------------------------------------------------------------

    def body(self, stmt: st.Stmt) -> None:
        """The statements of a body."""
        members = stmt.seq if isinstance(stmt, st.SeqStmt) else (stmt,)
        skip = False
        for place, s in enumerate(members):
            if skip:
                skip = False
                continue
            after = members[place + 1] if place + 1 < len(members) else None
            skip = self.stmt(s, after)

    def stmt(self, s: st.Stmt, after: st.Stmt | None) -> bool:
        """One statement; True if ``after``, the next one, was printed with it."""
        method = getattr(self, f"stmt_{type(s).__name__}", None)
        if method is None:
            raise IRError(f"a {type(s).__name__} can't be printed")
        return bool(method(s, after))

    def stmt_SeqStmt(self, s: st.SeqStmt, after: Any) -> None:
        self.body(s)

    def stmt_Evaluate(self, s: st.Evaluate, after: Any) -> None:
        text = self.text(s.value)
        self.line(text if self.is_bare_call(s.value) else f"{self.prefix}.evaluate({text})")

    def stmt_BufferStore(self, s: st.BufferStore, after: Any) -> None:
        if s.predicate is not None:
            indices = ", ".join(self.text(i) for i in s.indices)
            self.line(
                f"{self.prefix}.buffer_store({self.name(s.buffer)}, {self.text(s.value)}, [{indices}], "
                f"{self.text(s.predicate)})"
            )
        elif self.is_scalar_name(s.buffer):
            self.line(f"{self.name(s.buffer)} = {self.text(s.value)}")
        else:
            self.line(f"{self.element(s.buffer, s.indices, store=True)} = {self.text(s.value)}")

    def stmt_Bind(self, s: st.Bind, after: Any) -> None:
        value = self.text(s.value)
        self.line(f"{self.name(s.var)}: {self.prefix}.let[{self.type_constructor_name(s.var.ty)}] = {value}")

    def stmt_AllocBuffer(self, s: st.AllocBuffer, after: Any) -> bool:
        buffer = s.buffer
        if self.is_scalar_name(buffer) and not s.annotations:
            name = self.name(buffer)
            if self._initialises(buffer, after):
                assert isinstance(after, st.BufferStore)
                self.line(f"{name}: {self.prefix}.{buffer.dtype} = {self.text(after.value)}")
                self.owns(buffer)
                return True
            self.line(f"{name} = {self.scalar_constructor(buffer)}")
        else:
            self.line(f"{self.name(buffer)} = {self.allocation(buffer, s.annotations)}")
        self.owns(buffer)
        return False

    def _initialises(self, buffer: Buffer, after: Any) -> bool:
        """Whether the next statement gives a local scalar its first value, which doesn't use it."""
        return (
            isinstance(after, st.BufferStore)
            and after.buffer is buffer
            and after.predicate is None
            and buffer.scope == "local"
            and not uses(after.value, buffer)
        )

    def stmt_DeclBuffer(self, s: st.DeclBuffer, after: Any) -> None:
        text = self.declaration(s)
        self.line(f"{self.name(s.buffer)} = {text}")
        self.owns(s.buffer)

    def stmt_ScopeIdDefStmt(self, s: st.ScopeIdDefStmt, after: Any) -> None:
        d = s.definition
        names = ", ".join(self.name(v) for v in d.def_ids)
        extents = None if d.extents is None else "[" + ", ".join(self.text(e) for e in d.extents) + "]"
        known = SCOPE_ID_NAMES.get((d.parent, d.child))
        arguments = [] if extents is None else [extents]
        if known is None:
            call = f'scope_id({extents}, "{d.parent}", "{d.child}")'
        else:
            if d.preferred_extents is not None:
                arguments.append("preferred=[" + ", ".join(self.text(e) for e in d.preferred_extents) + "]")
            call = f"{known}({', '.join(arguments)})"
        self.line(f"{names} = {self.prefix}.{call}")

    def stmt_AttrStmt(self, s: st.AttrStmt, after: Any) -> None:
        if self._launch(s, after):
            return
        value = s.value
        entry = s.attr_key == "tirx.device_entry" and value == IntImm("bool", 1) and s.node == 0
        if entry and after is None and self.sugar:
            self.line(f"{self.prefix}.device_entry()")
            self.body(s.body)
            return
        shown = self.attr_value(value)
        if isinstance(s.node, int) and s.node == 0:
            call = f"{self.prefix}.attr({{{quote(s.attr_key)}: {shown}}})"
        else:
            call = f"{self.prefix}.attr({self.raw(s.node)}, {quote(s.attr_key)}, {shown})"
        if after is None and not self._is_alone(s.body):
            self.line(call)
            self.body(s.body)
            return
        with self.block(f"with {call}:"):
            self.body(s.body)

    @staticmethod
    def _is_alone(body: st.Stmt) -> bool:
        """Whether a body is a no-op, which would vanish among the statements of the enclosing one."""
        return isinstance(body, st.Evaluate) and body.value == IntImm("int32", 0)

    def _launch(self, s: st.AttrStmt, after: Any) -> bool:
        axis = s.node
        if not isinstance(axis, IterVar) or s.attr_key != "thread_extent" or axis.dom is None:
            return False
        if axis.dom.extent != s.value or axis.iter_type != "ThreadIndex" or not isinstance(s.value, Expr):
            return False
        if axis.dom.min != IntImm(s.value.dtype, 0):
            return False
        call = f"{self.prefix}.launch_thread({quote(axis.thread_tag)}, {self.text(s.value)})"
        if after is None and not self._is_alone(s.body):
            self.line(f"{self.name(axis.var)} = {call}")
            self.body(s.body)
            return True
        self.line(f"with {call} as {self.peek(axis.var)}:")
        self.indent += 1
        with self.scope():
            self.name(axis.var)
            self.body(s.body)
        self.indent -= 1
        return True

    def stmt_For(self, s: st.For, after: Any) -> None:
        nest = [s]
        while self.sugar and self._is_grid(nest[-1]):
            inner = nest[-1].body
            if not isinstance(inner, st.For) or not self._is_grid(inner):
                break
            nest.append(inner)
        if len(nest) > 1 and not any(uses(n.extent, m.loop_var) for n in nest for m in nest):
            extents = ", ".join(self.text(n.extent) for n in nest)
            with self.scope():
                names = ", ".join(self.peek(n.loop_var) for n in nest)
                with self.block(f"for {names} in {self.prefix}.grid({extents}):"):
                    for n in nest:
                        self.name(n.loop_var)
                    self.body(nest[-1].body)
            return
        header = self._loop(s)
        with self.block(f"for {self.peek(s.loop_var)} in {header}:"):
            self.name(s.loop_var)
            self.body(s.body)

    @staticmethod
    def _is_grid(s: st.For) -> bool:
        return (
            s.kind == "serial" and s.step is None and not s.annotations and s.thread_binding is None
            and s.min == IntImm("int32", 0) and s.extent.dtype == "int32"
        )  # fmt: skip

    def _loop(self, s: st.For) -> str:
        if s.loop_var.dtype != s.min.dtype:
            raise IRError(f"loop variable '{s.loop_var.name}' is {s.loop_var.dtype}, but its range is {s.min.dtype}")
        keywords: list[str] = []
        if s.min.dtype == s.extent.dtype and difference(s.min + s.extent, s.min) == s.extent:
            from_zero = s.min == IntImm("int32", 0) and s.extent.dtype == "int32"
            stop = self.text(s.min + s.extent)
            positional = [stop] if from_zero else [self.text(s.min), stop]
        else:
            positional = [self.text(s.min)]
            keywords.append(f"extent={self.text(s.extent)}")
        short = self.sugar and s.kind == "serial" and not keywords and not s.annotations
        if short:
            if s.step is not None and len(positional) == 1:
                positional.insert(0, "0")
            return f"range({', '.join(positional + ([self.text(s.step)] if s.step is not None else []))})"
        if s.annotations:
            keywords.append(f"annotations={self.raw(s.annotations)}")
        if s.step is not None:
            keywords.append(f"step={self.text(s.step)}")
        if s.kind == "thread_binding":
            keywords.insert(0, f"thread={self._thread_axis(s.thread_binding)}")
            return f"{self.prefix}.thread_binding({', '.join(positional + keywords)})"
        return f"{self.prefix}.{_LOOPS[s.kind]}({', '.join(positional + keywords)})"

    def _thread_axis(self, axis: IterVar | None) -> str:
        if axis is None:
            raise IRError("a thread_binding loop without a thread axis can't be printed")
        if axis.dom is None and axis.iter_type == "ThreadIndex" and axis.var not in self.names:
            return quote(axis.thread_tag)
        return self.text(axis)

    def stmt_While(self, s: st.While, after: Any) -> None:
        with self.block(f"while {self.text(s.condition)}:"):
            self.body(s.body)

    def stmt_IfThenElse(self, s: st.IfThenElse, after: Any) -> None:
        with self.block(f"if {self.text(s.condition)}:"):
            self.body(s.then_case)
        if s.else_case is not None:
            with self.block("else:"):
                self.body(s.else_case)

    def stmt_AssertStmt(self, s: st.AssertStmt, after: Any) -> None:
        parts = ", ".join(quote(p) for p in s.message_parts)
        self.line(f"assert {self.text(s.condition)}, ({quote(s.error_kind)}, [{parts}])")

    def stmt_Break(self, s: st.Break, after: Any) -> None:
        self.line("break")

    def stmt_Continue(self, s: st.Continue, after: Any) -> None:
        self.line("continue")

    def stmt_Return(self, s: st.Return, after: Any) -> None:
        self.line("return" if s.value is None else f"return {self.text(s.value)}")

    # -- tile primitives ----------------------------------------------------------------------------------------------

    def stmt_TilePrimitiveCall(self, s: TilePrimitiveCall, after: Any) -> None:
        name = s.op.short_name
        common = self._common(s)
        if name == "compose_op":
            with self.block(f"with {self.prefix}.compose_op({', '.join(common)}):"):
                for inner in s.args:
                    self.stmt(inner, None)
            return
        by_keyword = _KEYWORDS.get(name, ())
        operands: list[str] = []
        order = _PARAMETER_ORDER.get(name, range(len(s.args)))
        for place in order:
            key = s.signature.operands[place] if place < len(s.signature.operands) else ""
            text = self.operand(s.args[place])
            operands.append(f"{key}={text}" if key in by_keyword else text)
        scope = _TILE_SCOPES.get(s.scope.kind, s.scope.kind)
        self.line(f"{self.prefix}.{scope}.{name}({', '.join(operands + common)})")

    def _common(self, s: TilePrimitiveCall) -> list[str]:
        made: list[str] = []
        if s.workspace:
            made.append(f"workspace={self.raw(s.workspace)}")
        if s.dispatch is not None:
            made.append(f"dispatch={quote(s.dispatch)}")
        plain = {k: v for k, v in s.config.items() if k.isidentifier()}
        made += [f"{k}={self.raw(v)}" for k, v in plain.items()]
        if len(plain) < len(s.config):
            made.append(f"**{self.raw({k: v for k, v in s.config.items() if k not in plain})}")
        return made

    def operand(self, value: Any) -> str:
        """An operand of a tile primitive: a region, a scalar, a flag, another operator, a function."""
        from .op import Op

        if isinstance(value, Op):
            return quote(value.short_name)
        if isinstance(value, LambdaExpr):
            return self.lambda_text(value)
        return self.raw(value)

    # -- types --------------------------------------------------------------------------------------------------------

    def type_text(self, ty: Type | None) -> str:
        """A type as an annotation."""
        if isinstance(ty, PrimType):
            return f"{self.prefix}.{ty.dtype}" if ty.dtype != "void" else f"{self.prefix}.void"
        if ty == PointerType(PrimType("void")):
            return f"{self.prefix}.handle"
        return self.type_constructor_name(ty)

    def type_constructor_name(self, ty: Type | None) -> str:
        """A type as the argument of ``let``."""
        if isinstance(ty, PrimType):
            return f"{self.prefix}.{ty.dtype}"
        return self.type_constructor(ty)

    def type_constructor(self, ty: Type | None) -> str:
        """An expression that makes a new variable of a type."""
        if isinstance(ty, TensorMapType):
            return f"{self.prefix}.TensorMap()"
        if isinstance(ty, PointerType):
            parts = [] if ty.element_type.dtype == "void" else [f'"{ty.element_type.dtype}"']
            if ty.storage_scope != "global":
                parts.append(f'storage_scope="{ty.storage_scope}"' if not parts else f'"{ty.storage_scope}"')
            return f"{self.prefix}.handle({', '.join(parts)})"
        if isinstance(ty, PrimType):
            return f"{self.prefix}.{ty.dtype}()"
        raise IRError("a value without type can't be printed")

    # -- what is declared where ---------------------------------------------------------------------------------------

    def plan(self, func: PrimFunc) -> None:
        """Find what is free, and which buffers can be written as scalars."""
        found = Survey(func, quoted_vars(func) if self.sugar else set())
        self.plan_free_vars = [v for v in found.free_vars if v not in func.buffer_map]
        self.plan_free_buffers = found.free_buffers
        self.scalar_names = {b for b in found.scalars if self.sugar and default_layout_of(b)}
